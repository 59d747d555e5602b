//! What the program `everturn` does: arguments, one file per command, and the place where the crates are put together.
//!
//! It is a library with one function because cargo begins a program only when all that is in it is compiled, while a
//! library is compiled beside the others.
//!
//! # Layout
//! - `environment`: variables, and how those that hold secrets leave it; nothing else reads them
//! - `settings`: folders, and where configuration is; nothing else reads them
//! - `table`: what is printed, and how lists look
//! - `bars`: how amounts compare, as a chart
//! - `plain`: text of others without what steers a terminal
//! - `token_file`: the file with the token that clients must show
//! - `commands`: one file per command

mod bars;
mod commands;
mod environment;
mod plain;
mod settings;
mod table;
mod token_file;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::run::RefusedWork;

/// The variables that a person may need at any command; the README has them all.
const ENVIRONMENT: &str = "Environment:
  EVERTURN_DATA        the data folder
  EVERTURN_DATABASE    a PostgreSQL server for the sessions
  EVERTURN_TURNS       how many turns stream at once
  EVERTURN_LOG         what is logged: warn, info, everturn_engine=debug
  EVERTURN_LOG_FORMAT  how: text or json";

/// A durable session runtime for coding agents.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, after_help = ENVIRONMENT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients over HTTP: OpenCode's terminal and SDK attach to it
    Serve(commands::serve::ServeCommand),
    /// Answer one prompt here and now, without a server
    Run(commands::run::RunCommand),
    /// See a prompt change a file, with a built-in model and no network
    Demo(commands::demo::DemoCommand),
    /// List models with their prices and limits, or say what a name means
    Models(commands::models::ModelsCommand),
    /// Keep the keys of providers in a file that only you can read
    #[command(subcommand)]
    Auth(commands::auth::AuthCommand),
    /// Show what this project's configuration asks for, and trust it
    Trust(commands::trust::TrustCommand),
    /// List MCP servers with their tools, and allow those that a project brings
    #[command(subcommand)]
    Mcp(commands::mcp::McpCommand),
    /// List, search, show, export, import, move, archive and delete sessions
    #[command(subcommand)]
    Session(commands::session::SessionCommand),
    /// List what is in the trash, and empty it
    #[command(subcommand)]
    Trash(commands::trash::TrashCommand),
    /// Show tokens and cost of all sessions, by day, model or project
    #[command(alias = "usage")]
    Stats(commands::stats::StatsCommand),
    /// Bring in the sessions of another program
    #[command(subcommand)]
    Import(commands::import::ImportCommand),
    /// Look into a session file of pi or omp without importing it
    Inspect(commands::inspect::InspectCommand),
    /// Check every session against its log, and show what takes how much space
    Doctor(commands::doctor::DoctorCommand),
    /// Write all sessions into one new file, while others go on working
    Backup(commands::backup::BackupCommand),
    /// Make a store of a backup, where there is none yet
    Restore(commands::backup::RestoreCommand),
    /// Remove a leaked secret from everything that is stored; it is read from standard input
    Scrub(commands::scrub::ScrubCommand),
}

impl Command {
    /// Whether it may start programs of an agent or of a project.
    fn starts_programs(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Run(_) | Self::Mcp(_))
    }
}

/// Does what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    // First of all: every command that the agent runs waits for this.
    if let Some(code) = everturn_tools::process::supervisor::dispatch() {
        return code;
    }
    // Before anything else looks at the environment or at standard input.
    environment::receive();
    let arguments = Arguments::try_parse();
    // Before there is a log or a thread: it goes on as a new start of this process.
    let hidden = match &arguments {
        Ok(arguments) if arguments.command.starts_programs() => settings::hide_keys(),
        _ => Ok(()),
    };
    settings::start_logging();
    if let Err(error) = hidden {
        tracing::warn!(
            error = error.to_string(),
            "keys stay in the environment of this process, where programs of this account can read them"
        );
    }
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(table::explain_arguments(error)),
    };
    let result = match arguments.command {
        Command::Serve(command) => command.execute(),
        Command::Run(command) => command.execute(),
        Command::Demo(command) => command.execute(),
        Command::Models(command) => command.execute(),
        Command::Auth(command) => command.execute(),
        Command::Trust(command) => command.execute(),
        Command::Mcp(command) => command.execute(),
        Command::Session(command) => command.execute(),
        Command::Trash(command) => command.execute(),
        Command::Stats(command) => command.execute(),
        Command::Import(command) => command.execute(),
        Command::Inspect(command) => command.execute(),
        Command::Doctor(command) => command.execute(),
        Command::Backup(command) => command.execute(),
        Command::Restore(command) => command.execute(),
        Command::Scrub(command) => command.execute(),
    };
    match result.and_then(|()| table::check_output()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            table::complain(&error);
            if error.is::<RefusedWork>() { ExitCode::from(RefusedWork::STATUS) } else { ExitCode::FAILURE }
        }
    }
}
