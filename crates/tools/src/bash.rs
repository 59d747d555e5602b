//! The `bash` tool: runs a command and reports what it prints while it prints.
//!
//! Standard output and error share one pipe, which keeps their order. When the shell has ended, or was stopped, the
//! call ends once nothing that the command started is running any more: what is left is stopped, and the result says
//! so. See [`crate::process`] for how. A command that should go on is run with `background`: then it belongs to the
//! tool's [`Jobs`] and ends with them.
//!
//! A command runs in the sandbox of its [`Scope`]. What the sandbox keeps from it is impossible and needs no question;
//! a person is asked where a command is to run outside, or where the sandbox has a hole.
//!
//! # Layout
//!
//! - `capture`: what a command prints, within bounds
//! - `confinement`: what a command may do, by what was permitted for it
//! - `jobs`: commands that go on after their call
//! - `person_command`: commands that the person runs
//! - `person_notes`: what the person is told besides the output
//! - `refusal`: what the sandbox kept from a command
//! - `running`: a command between its start and its result

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::net::unix::pipe;

use self::capture::{Capture, Captured};
use self::confinement::Offers;
pub use self::jobs::Jobs;
use self::person_notes::person_notes;
use self::refusal::CommandPlace;
use self::running::RunningCommand;
use crate::bound::OutputLimits;
use crate::input::{decode, schema};
use crate::process::sandbox::SandboxPolicy;
use crate::process::{Cleanup, Exit, Launcher, ProgramStart, ProgramStreams, RunningProgram};
use crate::registry::ToolSettings;
use crate::scope::{Scope, real};
use crate::shell::Analysis;
use crate::target::Target;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

mod capture;
mod confinement;
mod jobs;
mod person_command;
mod person_notes;
mod refusal;
mod running;

pub use confinement::{NETWORK, OUTSIDE};
pub use person_command::{PersonCommandEnd, check_command};

/// The time limit of a call that names none, in milliseconds.
const TIMEOUT_DEFAULT: u64 = 120_000;
/// The longest time limit a call may ask for, in milliseconds.
const TIMEOUT_MAX: u64 = 600_000;
/// The longest command in bytes: the system refuses longer ones, and counts a NUL at the end.
const COMMAND_MAX: usize = 128 * 1024 - 1;
/// What to do with a command that cannot be passed on as it is.
const SCRIPT: &str = "write it to a script file and run that.";
/// The program that runs commands.
const SHELL: &str = "bash";
/// What is shown for an empty output.
const NO_OUTPUT: &str = "(no output)";

/// The tool that runs commands.
#[derive(Debug, Clone)]
pub struct BashTool {
    /// How programs are started and stopped.
    pub launcher: Launcher,
    /// How long to wait for the rest of the output when nothing is running any more. Only someone whom we could not
    /// stop can hold it up.
    pub drain: Duration,
    /// The largest output that goes to the model whole.
    pub limits: OutputLimits,
    /// The commands that run in the background.
    pub jobs: Jobs,
}

impl Default for BashTool {
    fn default() -> Self {
        Self {
            launcher: Launcher::default(),
            drain: Duration::from_millis(100),
            limits: OutputLimits::default(),
            jobs: Jobs::default(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct BashInput {
    /// The command to run
    command: String,
    /// What the command is for, in a few words
    #[serde(default)]
    description: Option<String>,
    /// The time limit in milliseconds; a background command has none
    #[schemars(range(min = 1, max = TIMEOUT_MAX))]
    #[serde(default)]
    timeout: Option<u64>,
    /// The folder to run it in
    #[serde(default)]
    workdir: Option<String>,
    /// Let the command go on after the call, its output going to a file
    #[serde(default)]
    background: Option<bool>,
    /// Run it outside the sandbox, if the sandbox keeps it from working: the person is asked first
    #[serde(default)]
    outside_sandbox: Option<bool>,
    /// Let it use the network where commands have none: the person may be asked first
    #[serde(default)]
    network: Option<bool>,
}

impl BashInput {
    fn parse(input: Value) -> Result<Self, Failure> {
        let input: Self = decode("bash", input)?;
        check_command(&input.command)?;
        match input.timeout {
            Some(0) => Err(Failure::InvalidInput("timeout must be at least 1 millisecond.".into())),
            Some(timeout) if timeout > TIMEOUT_MAX => {
                Err(Failure::InvalidInput(format!("timeout may be {TIMEOUT_MAX} milliseconds at most.")))
            }
            _ => Ok(input),
        }
    }

    fn workdir(&self, scope: &Scope) -> PathBuf {
        self.workdir.as_deref().map_or_else(|| scope.directory.clone(), |path| scope.resolve(path))
    }
}

impl Tool for BashTool {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command with bash. Each call starts a new shell in the project folder, or in `workdir`; nothing \
         carries over from earlier calls. The command has no input to read. It is stopped after `timeout` \
         milliseconds (120000 unless given, 600000 at most). When the call ends, everything that the command \
         started is stopped. For a program that should go on, such as a server, set `background`: the call returns \
         at once and names the file that gets the output and the process to stop. Long output is shortened in the \
         middle and kept whole in a file that is named then. Use `read`, `write` and `edit` for files. Commands run in \
         a sandbox where there is one: they see the project, the system, tool chains and their caches, but not the \
         rest of the home folder; files that make programs run or instruct agents can only be read; `/tmp` is the \
         session's own. If that keeps a command from working, call again with `outside_sandbox`, and the person is \
         asked."
    }

    fn schema(&self) -> Value {
        schema::<BashInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Opaque
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input = BashInput::parse(input.clone())?;
        let workdir = input.workdir(scope);
        let mut analysis = Analysis::of(&input.command, &workdir, scope);
        confinement::leave_out_its_own(&mut analysis, scope);
        let mut needs = scope.entering(&Target::new(workdir.clone(), real(&workdir)));
        analysis.external_needs(scope).into_iter().for_each(|need| need.add_to(&mut needs));
        // Within the sandbox a path that nobody could tell is not there.
        if scope.sandbox.is_none() {
            needs.extend(analysis.unresolved_need());
        }
        let mut metadata = Map::new();
        metadata.insert("command".to_owned(), json!(input.command));
        if let Some(description) = &input.description {
            metadata.insert("description".to_owned(), json!(description));
        }
        let Analysis { commands: patterns, always, .. } = analysis;
        needs.extend(confinement::needs(&input, scope, &patterns));
        needs.push(Need { permission: "bash".to_owned(), patterns, always, metadata });
        Ok(needs)
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move { self.execute(BashInput::parse(input)?, context).await })
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
enum CommandEnding {
    Exited(Exit),
    TimedOut,
    Cancelled,
}

impl BashTool {
    /// The tool as it is set up.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        let launcher = Launcher {
            supervisor: settings.supervisor.clone(),
            secrets: settings.secrets.clone(),
            ..Launcher::default()
        };
        Self { launcher, ..Self::default() }
    }

    async fn execute(&self, input: BashInput, context: Context) -> Result<Output, Failure> {
        if context.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let workdir = context.entered(input.workdir(&context.scope))?;
        if !workdir.real().is_dir() {
            return Err(Failure::Failed(format!("{} is not a folder.", workdir.path().display())));
        }
        let workdir = workdir.real();
        if context.scope.sandbox.is_some()
            && let Some(text) = self.jobs.stop_by(&input.command, &context.host.session()).await
        {
            let mut capture = Capture::new(context.scope.output_dir.clone());
            capture.push(text.as_bytes()).await;
            return Ok(output(input.command, Some(0), "", capture.finish(self.limits).await));
        }
        if input.background == Some(true) {
            let policy = confinement::policy(&input, workdir, &context);
            return self.jobs.start(self, input.command, workdir, policy, &context).await;
        }
        let policy = confinement::policy(&input, workdir, &context);
        let (program, reader) = self.start(&input.command, workdir, policy.clone()).await?;
        let timeout = Duration::from_millis(input.timeout.unwrap_or(TIMEOUT_DEFAULT));
        let scope = Arc::clone(&context.scope);
        let mut running = RunningCommand::new(program, reader, context);
        let ending = running.follow(Some(timeout)).await;
        let gone = running.settle(self.drain).await;
        let offers = || Offers::of(&input.command, workdir, &scope);
        let mut note = note(ending, &gone, timeout, offers);
        let exit = match ending {
            CommandEnding::Exited(exit) => exit.code(),
            CommandEnding::TimedOut | CommandEnding::Cancelled => None,
        };
        let captured = running.finish(self.limits).await;
        let refused = policy.as_ref().zip(exit).and_then(|(policy, exit)| {
            let place = CommandPlace { policy, home: &scope.home, workdir };
            place.refusal(&input.command, exit, &captured.bounded.text, &captured.live)
        });
        if let Some(refused) = &refused {
            note.push_str(if note.is_empty() { "" } else { " " });
            note.push_str(&refused.told(&offers()));
        }
        let mut output = output(input.command, exit, &note, captured);
        let notes = person_notes(&gone, refused.as_ref());
        if !notes.is_empty() {
            output.metadata.insert("notes".to_owned(), json!(notes));
        }
        Ok(output)
    }

    /// Starts the shell, with both outputs on one pipe. No other shell will do: what was permitted is what bash makes
    /// of the command, and others make something else of it.
    async fn start(
        &self,
        command: &str,
        workdir: &Path,
        sandbox: Option<SandboxPolicy>,
    ) -> Result<(RunningProgram, pipe::Receiver), Failure> {
        let args = ["-c".to_owned(), command.to_owned()];
        let started = async {
            let (reader, writer) = io::pipe()?;
            // With a search path of its own, `cd src` goes elsewhere than what was permitted says.
            let env = [("CDPATH".to_owned(), String::new())];
            let start = ProgramStart { program: SHELL, args: &args, folder: workdir, env: &env };
            if let Some(folder) = sandbox.as_ref().and_then(|sandbox| sandbox.temporary.as_ref()) {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let launcher = Launcher { sandbox, ..self.launcher.clone() };
            let program = launcher.start(&start, ProgramStreams::Pipe(writer.into())).await?;
            Ok((program, pipe::Receiver::from_owned_fd(reader.into())?))
        };
        started.await.map_err(|error| self.unstarted(&error, workdir))
    }

    /// Why the shell did not start. The system gives the same error for three different things that may be missing.
    fn unstarted(&self, error: &io::Error, workdir: &Path) -> Failure {
        let absent = error.kind() == io::ErrorKind::NotFound;
        Failure::Failed(match &self.launcher.supervisor {
            _ if absent && !workdir.is_dir() => {
                format!("The command was not run: the folder {} is gone.", workdir.display())
            }
            Some(supervisor) if absent && !supervisor.exists() => format!(
                "The command was not run: {}, which watches over commands, is gone. Everturn must be started again.",
                supervisor.display()
            ),
            _ if absent => format!(
                "The command was not run: commands need {SHELL}, and there is none on the PATH. It must be installed, \
                 or its folder added to the PATH that Everturn is started with. The tools for files work without it."
            ),
            _ => format!("Could not start the shell: {error}"),
        })
    }
}

/// What the model must know about the end besides the output.
fn note(ending: CommandEnding, gone: &Cleanup, timeout: Duration, offers: impl FnOnce() -> Offers) -> String {
    let mut note = match ending {
        CommandEnding::Exited(Exit::Lost) => {
            "(The command was stopped: the process that watched over it was killed.)".to_owned()
        }
        CommandEnding::Exited(_) if gone.stopped => {
            "(Programs that the command left running were stopped. To keep one running, use background: true.)"
                .to_owned()
        }
        CommandEnding::Exited(_) => String::new(),
        CommandEnding::TimedOut => {
            format!("(The command was stopped: it ran longer than {} ms.)", timeout.as_millis())
        }
        CommandEnding::Cancelled => "(The command was stopped: the call was cancelled.)".to_owned(),
    };
    let mut add = |sentence: String| {
        note.push_str(if note.is_empty() { "" } else { " " });
        note.push_str(&sentence);
    };
    if gone.left > 0 {
        add(format!("({} of its processes could not be stopped.)", gone.left));
    }
    if !gone.displaced.is_empty() {
        let names = gone.displacements();
        add(format!(
            "({}: commands must not make what runs programs or instructs agents. With the tool `write` it can be made, if \
             the person permits it.)",
            names.join(", ")
        ));
    }
    if let Some(lost) = gone.lost_settings() {
        add(format!("({lost}.)"));
    }
    if let Some(lost) = gone.lost.told() {
        let offer =
            if offers().outside() { " `outside_sandbox` asks the person to run it outside." } else { "" };
        add(format!("(What the command {lost}.{offer})"));
    }
    note
}

/// The result in its recorded form.
fn output(command: String, exit: Option<i32>, note: &str, captured: Captured) -> Output {
    let with_note = |text: &str| match (text.is_empty(), note.is_empty()) {
        (true, true) => NO_OUTPUT.to_owned(),
        (true, false) => note.to_owned(),
        (false, true) => text.to_owned(),
        (false, false) => format!("{}\n\n{note}", text.trim_end_matches('\n')),
    };
    let mut metadata = Map::new();
    metadata.insert("output".to_owned(), json!(with_note(&captured.live)));
    metadata.insert("exit".to_owned(), json!(exit));
    metadata.insert("truncated".to_owned(), json!(captured.bounded.truncated));
    if let Some(path) = &captured.bounded.path {
        metadata.insert("outputPath".to_owned(), json!(path.display().to_string()));
    }
    Output {
        title: command,
        output: with_note(&captured.bounded.text),
        metadata,
        shaped: true,
        output_path: captured.bounded.path,
        ..Output::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_missing_is_told_apart() {
        // A folder that vanished before the start made it look as if there was no bash.
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let check = async |tool: &BashTool, workdir: &Path, why: &str| {
            let text = tool.start("true", workdir, None).await.unwrap_err().to_string();
            assert!(text.contains(why), "{text}");
        };
        check(&BashTool::default(), &gone, &format!("the folder {} is gone", gone.display())).await;
        let mut tool = BashTool::default();
        tool.launcher.supervisor = Some(gone);
        check(&tool, folder.path(), "which watches over commands, is gone").await;
    }
}
