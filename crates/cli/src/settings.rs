//! Folders and the environment. Everything else is told what it needs from here.
//!
//! Configuration is OpenCode's, so that a person who has one needs no other. Here it is said where it may be;
//! `engine/src/config` finds and reads it for each folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy as _;
use everturn_engine::config::{ConfigSources, SandboxStrength, Trust};
use everturn_engine::models::{AuthFile, Keyring};
use everturn_engine::options::TURNS;
use everturn_engine::{Config, Configurations, Engine, Options, ProjectFiles};
use everturn_tools::mcp::ConfinedServers;
use everturn_tools::process::is_secret;
use everturn_tools::process::sandbox::{SandboxMachine, SandboxPart, ToolPlaces};
use everturn_tools::{Places, Registry, Secrets, ToolSettings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::environment::{self, variable, variable_names};
use crate::{table, token_file};

/// What is logged unless somebody says otherwise.
const DEFAULT_LOG: &str = "warn";

/// Starts the log on standard error: warnings unless `EVERTURN_LOG` says otherwise, as text, or as JSON if
/// `EVERTURN_LOG_FORMAT` says so. Both tell what became of each span and how long it took.
pub(crate) fn start_logging() {
    let wanted = variable("EVERTURN_LOG").unwrap_or_else(|| DEFAULT_LOG.to_owned());
    let (filter, unusable) = match EnvFilter::try_new(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_LOG), Some(error)),
    };
    let log = tracing_subscriber::fmt().with_writer(|| table::LogWriter).with_span_events(FmtSpan::CLOSE);
    match variable("EVERTURN_LOG_FORMAT").as_deref() {
        Some("json") => {
            // Notes are not a matter of level: who reads no text still has to be told where the password is.
            let filter = match format!("{}=info", table::NOTES).parse() {
                Ok(notes) => filter.add_directive(notes),
                Err(_) => filter,
            };
            log.json().with_env_filter(filter).init();
            table::log_notes();
        }
        None | Some("text") => log.with_env_filter(filter).init(),
        Some(other) => {
            log.with_env_filter(filter).init();
            tracing::warn!(format = other, "EVERTURN_LOG_FORMAT is neither `text` nor `json`; this is text");
        }
    }
    table::tell_panics();
    if let Some(error) = unusable {
        tracing::warn!(
            log = wanted,
            error = error.to_string(),
            "EVERTURN_LOG is not understood; warnings are logged"
        );
    }
}

/// The folders of this person.
pub(crate) fn folders() -> Result<everturn_engine::options::Paths> {
    let base =
        etcetera::base_strategy::choose_native_strategy().context("this account has no home folder")?;
    let data = variable("EVERTURN_DATA").map_or_else(|| base.data_dir().join("everturn"), PathBuf::from);
    Ok(everturn_engine::options::Paths {
        home: base.home_dir().to_owned(),
        state: base.state_dir().unwrap_or_else(|| base.data_dir()).join("everturn"),
        config: base.config_dir().join("everturn"),
        opencode: base.config_dir().join("opencode"),
        data,
    })
}

/// Who listens to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listeners {
    /// Clients or the command itself.
    Some,
    /// Nobody: bulk work is faster.
    None,
}

/// An engine on this person's data, working in a folder. What is wrong with the configuration there, and what waits for
/// the person's trust, is told.
pub(crate) async fn open(directory: &Path, listeners: Listeners) -> Result<Engine> {
    let paths = folders()?;
    let secrets = Secrets::found_by(|| variable_names().filter(|name| is_secret(name)).collect());
    let configurations =
        Configurations::found(sources()?, Trust::new(&paths.state), &paths.data, secrets.clone());
    let config = configurations.look_at(directory);
    tell_problems(&config);
    held_line(&config).into_iter().for_each(table::note);
    let mut options = Options::new(&paths.data, directory);
    options.paths = paths;
    options.configurations = configurations;
    options.project_files = project_files();
    options.tools = Registry::builtin(&ToolSettings {
        supervisor: supervisor(),
        secrets: secrets.clone(),
        ..ToolSettings::default()
    });
    options.secrets = secrets;
    options.supervisor = supervisor();
    options.sandbox = sandbox_machine(&options.paths.home);
    options.keys = keys()?;
    options.database = database();
    options.turns = turns()?;
    options.quiet = listeners == Listeners::None;
    if listeners == Listeners::Some {
        tell_sandbox(&config, &options.sandbox);
    }
    Ok(Engine::open(options).await?)
}

/// Tells what of a configuration does not count, and why.
fn tell_problems(config: &Config) {
    for problem in &config.problems {
        table::note(format!("configuration: {problem}"));
    }
}

/// What a project asks for and nobody has trusted, in a line.
pub(crate) fn held_line(config: &Config) -> Option<String> {
    (!config.held.is_empty()).then(|| {
        format!(
            "this project's configuration asks for more than you have trusted ({}): `everturn trust` shows it",
            config.held_names()
        )
    })
}

/// Removes tool output that is old. Failing at it is nobody's loss.
pub(crate) async fn remove_old_output(engine: &Engine) {
    if let Err(error) = engine.outputs().sweep().await {
        tracing::warn!(error = error.to_string(), "old tool output was not removed");
    }
}

/// Whether configuration, instructions and skills of projects count: not with `OPENCODE_DISABLE_PROJECT_CONFIG`.
fn project_files() -> ProjectFiles {
    match variable("OPENCODE_DISABLE_PROJECT_CONFIG").map(|value| value.to_lowercase()).as_deref() {
        Some("1" | "true") => ProjectFiles::Ignored,
        _ => ProjectFiles::Read,
    }
}

/// This binary, which can be a supervisor.
pub(crate) fn supervisor() -> Option<PathBuf> {
    // The link leads to this very binary even after a newer one was put in its place.
    if cfg!(target_os = "linux") { Some("/proc/self/exe".into()) } else { None }
}

/// What there is for sandboxes here. This person's variables say where tools are.
fn sandbox_machine(home: &Path) -> SandboxMachine {
    let variables = variable_names().filter_map(|name| variable(&name).map(|value| (name, value)));
    SandboxMachine::new(supervisor(), ToolPlaces::of(variables, home))
}

/// Which MCP servers of a configuration run in a sandbox, and in which.
pub(crate) fn confined_servers(config: &Config) -> Result<Option<ConfinedServers>> {
    Ok(everturn_engine::mcp::confined_servers(config, folders()?, sandbox_machine(&folders()?.home)))
}

/// Tells, once it is known, what is missing of the sandbox in which commands run, or that there is none.
fn tell_sandbox(config: &Config, machine: &SandboxMachine) {
    if config.sandbox.strength == SandboxStrength::Off {
        table::note("commands run without a sandbox, because `sandbox` is `off` in the configuration");
        return;
    }
    let machine = machine.clone();
    std::thread::spawn(move || {
        let parts = machine.parts().cloned().unwrap_or_default();
        let missing: Vec<String> =
            SandboxPart::ALL.iter().filter(|part| !parts.contains(part)).map(ToString::to_string).collect();
        if !missing.is_empty() {
            table::note(format!(
                "the sandbox for commands is not whole on this machine, so each command is asked about, unless a rule \
                 of yours allows it: there is no {} (`everturn doctor` shows why)",
                missing.join(", no ")
            ));
        }
    });
}

/// The settings for a folder. What is wrong with them is told.
pub(crate) fn config(directory: &Path) -> Result<Arc<Config>> {
    let config = config_quietly(directory)?;
    tell_problems(&config);
    Ok(config)
}

/// The same for those who tell it themselves.
pub(crate) fn config_quietly(directory: &Path) -> Result<Arc<Config>> {
    let paths = folders()?;
    let trust = Trust::new(&paths.state);
    Ok(Configurations::found(sources()?, trust, &paths.data, Secrets::default()).look_at(directory))
}

/// Where instructions and skills for a folder are looked for.
pub(crate) fn places(directory: &Path, config: &Config) -> Result<Places> {
    Ok(everturn_engine::guidance::places(config, &folders()?, directory, project_files()))
}

/// Where this person's configuration is, and what of projects counts.
fn sources() -> Result<ConfigSources> {
    let paths = folders()?;
    Ok(ConfigSources {
        base: Some(paths.opencode.join("config.json")),
        own: vec![paths.opencode, paths.config, paths.home.join(".opencode")],
        home: paths.home,
        file: variable("OPENCODE_CONFIG").map(PathBuf::from),
        last: variable("OPENCODE_CONFIG_DIR").map(PathBuf::from),
        text: variable("OPENCODE_CONFIG_CONTENT"),
        rules: variable("OPENCODE_PERMISSION"),
        project_files: project_files(),
        variables: Arc::new(variable),
    })
}

/// Takes keys, and whatever else is a secret of ours, out of the environment of this process. It goes on as a new start
/// of itself, unless there are none. What cannot be read of the configuration is told later.
pub(crate) fn hide_keys() -> std::io::Result<()> {
    let named = working_folder().and_then(|folder| config_quietly(&folder)).map(|config| config.secrets());
    let mut names = named.unwrap_or_else(|_| Config::default().secrets());
    // Other variables of ours say how we work, and are nobody's secret.
    let ordinary = |name: &str| name.starts_with("EVERTURN_") && !OUR_SECRETS.contains(&name);
    names.retain(|name| !ordinary(name));
    names.extend(variable_names().filter(|name| is_secret(name) && !ordinary(name)));
    environment::hide(&names)
}

/// Those of our own variables that are secrets: an address with a password, and a password.
const OUR_SECRETS: [&str; 2] = ["EVERTURN_DATABASE", "EVERTURN_SERVER_PASSWORD"];

/// What of projects' configuration this person trusts.
pub(crate) fn trust() -> Result<Trust> {
    Ok(Trust::new(&folders()?.state))
}

/// The file in which this person's keys are kept.
pub(crate) fn key_file() -> Result<AuthFile> {
    Ok(AuthFile::new(folders()?.data.join("auth.json")))
}

/// This person's keys: in the environment, in our file, and in OpenCode's, for those who have them there.
pub(crate) fn keys() -> Result<Keyring<'static>> {
    let mut files = vec![key_file()?];
    if let Ok(base) = etcetera::base_strategy::choose_native_strategy() {
        files.push(AuthFile::new(base.data_dir().join("opencode").join("auth.json")));
    }
    Ok(Keyring::new(&variable, files))
}

/// The PostgreSQL server that keeps the sessions, where one is named.
fn database() -> Option<String> {
    variable("EVERTURN_DATABASE")
}

/// How many turns stream their answers at once.
fn turns() -> Result<usize> {
    let Some(turns) = variable("EVERTURN_TURNS") else { return Ok(TURNS) };
    let number = turns.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("EVERTURN_TURNS is {turns:?}; it must be a number from 1 on"))
}

/// How this person's store is opened, without an engine.
pub(crate) fn store_options() -> Result<everturn_store::Options> {
    let data = folders()?.data;
    let owner = format!("own_command_{}", hex::<8>()?);
    Ok(match database() {
        Some(url) => everturn_store::Options::server(&url, data, &owner),
        None => everturn_store::Options::folder(data, &owner),
    })
}

/// This person's store, without an engine.
pub(crate) async fn store() -> Result<everturn_store::Store> {
    Ok(everturn_store::Store::open(store_options()?).await?)
}

/// The folder the command runs in.
pub(crate) fn working_folder() -> Result<PathBuf> {
    let folder = std::env::current_dir().context("the current folder is gone")?;
    Ok(folder.canonicalize().unwrap_or(folder))
}

/// The token that clients must show: from the environment, or made once and kept in a file that only this person can
/// read. The second value says where it came from.
pub(crate) fn token(data: &Path) -> Result<(String, String)> {
    for name in ["EVERTURN_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"] {
        if let Some(token) = variable(name) {
            return Ok((token, format!("the one in {name}")));
        }
    }
    let path = data.join("token");
    let token = token_file::read_or_make(&path, hex::<24>)?;
    Ok((token, format!("in {}", path.display())))
}

/// So many random bytes in hexadecimal digits.
fn hex<const BYTES: usize>() -> Result<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
