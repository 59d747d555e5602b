//! Folders, the environment and configuration files. Everything else is told what it needs from here.
//!
//! Configuration is OpenCode's, so that a person who has one needs no other: the file in the configuration folder,
//! then the project's from the root of the repository down to the working folder, then `OPENCODE_CONFIG`, then
//! `OPENCODE_CONFIG_CONTENT`; later ones win key by key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use etcetera::BaseStrategy as _;
use everturn_engine::config::ProjectSettings;
use everturn_engine::mcp::Trust;
use everturn_engine::models::{AuthFile, Keyring};
use everturn_engine::{Config, Engine, Options, ProjectFiles};
use everturn_tools::process::is_secret;
use everturn_tools::{Registry, Secrets, websearch};
use serde_json::{Map, Value};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::{retention, table};

/// A variable of the environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The names of all variables of the environment, except those that are not text.
fn variable_names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

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
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_span_events(FmtSpan::CLOSE);
    match variable("EVERTURN_LOG_FORMAT").as_deref() {
        Some("json") => {
            // Notes are not a matter of level: who reads no text still has to be told where the password is.
            let filter = match format!("{}=info", table::NOTES).parse() {
                Ok(notes) => filter.add_directive(notes),
                Err(_) => filter,
            };
            log.json().with_env_filter(filter).init();
            table::log_notes();
            std::panic::set_hook(Box::new(|panic| {
                tracing::error!(target: table::NOTES, "{panic}");
            }));
        }
        None | Some("text") => log.with_env_filter(filter).init(),
        Some(other) => {
            log.with_env_filter(filter).init();
            tracing::warn!(format = other, "EVERTURN_LOG_FORMAT is neither `text` nor `json`; this is text");
        }
    }
    if let Some(error) = unusable {
        tracing::warn!(
            log = wanted,
            error = error.to_string(),
            "EVERTURN_LOG is not understood; warnings are logged"
        );
    }
}

/// The folders of this person.
fn folders() -> Result<everturn_engine::options::Paths> {
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

/// An engine on this person's data, working in a folder.
pub(crate) async fn open(directory: &Path, listeners: Listeners) -> Result<Engine> {
    let paths = folders()?;
    let mut options = Options::new(&paths.data, directory);
    options.paths = paths;
    options.config = config(directory)?;
    options.project_files = project_files();
    options.tools = Registry::builtin(&tools(&options.config)?);
    options.supervisor = supervisor();
    options.keys = keys()?;
    options.database = database();
    options.quiet = listeners == Listeners::None;
    Ok(Engine::open(options).await?)
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

/// How the tools are set up: this binary is its own supervisor, and no command sees keys.
fn tools(config: &Config) -> Result<everturn_tools::ToolSettings> {
    let websearch = websearch::SearchService::from_config(&Value::Object(config.raw.clone()), variable)?;
    let config = config.clone();
    let secrets = Secrets::found_by(move || config.secrets());
    Ok(everturn_tools::ToolSettings { supervisor: supervisor(), secrets, websearch, sandbox: None })
}

/// This binary, which can be a supervisor.
pub(crate) fn supervisor() -> Option<PathBuf> {
    // The link leads to this very binary even after a newer one was put in its place.
    if cfg!(target_os = "linux") { Some("/proc/self/exe".into()) } else { None }
}

/// The settings for a folder.
pub(crate) fn config(directory: &Path) -> Result<Config> {
    let Configuration { merged, from_project, key_variables } = configuration(directory)?;
    let root = project_folders(directory).first().map_or(directory, |root| *root);
    let mut config = Config::from_value(merged)?.with_project_settings(from_project, root);
    config.key_variables = key_variables;
    config.key_variables.extend(variable_names().filter(|name| is_secret(name)));
    Ok(config)
}

/// Which MCP servers of projects this person has allowed.
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

/// What configuration files say together.
struct Configuration {
    merged: Map<String, Value>,
    /// What of it the project's own files have brought.
    from_project: ProjectSettings,
    /// The variables that keys are taken from.
    key_variables: BTreeSet<String>,
}

/// The merged configuration for a folder.
fn configuration(directory: &Path) -> Result<Configuration> {
    let mut merged = Map::new();
    let mut from_project = ProjectSettings::default();
    let mut key_variables = BTreeSet::new();
    let mut files = Vec::new();
    if let Ok(base) = etcetera::base_strategy::choose_native_strategy() {
        files.extend(candidates(&base.config_dir().join("opencode")));
    }
    let own = files.len();
    for folder in project_folders(directory).into_iter().filter(|_| project_files() == ProjectFiles::Read) {
        files.extend(candidates(folder).into_iter().filter(|path| is_ours(path)));
    }
    let projects: Vec<PathBuf> = files.iter().skip(own).cloned().collect();
    files.retain(|path| path.is_file());
    if let Some(path) = variable("OPENCODE_CONFIG") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!("OPENCODE_CONFIG names {}, which is not there", path.display());
        }
        files.push(path);
    }
    for path in files {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let invalid = || format!("{} is no valid configuration", path.display());
        let mut read = parse(&text).with_context(invalid)?;
        let folder = path.parent().unwrap_or(directory);
        note_keys(&read, &mut key_variables);
        if projects.contains(&path) && read.shift_remove(retention::SETTING).is_some() {
            // Whoever opens a repository must not lose sessions of other projects by it.
            tracing::warn!(file = %path.display(), "a project does not decide how long the trash is kept");
        }
        read.values_mut().try_for_each(|value| substitute(value, folder)).with_context(invalid)?;
        note_origin(&mut from_project, &read, projects.contains(&path));
        merge(&mut merged, read);
    }
    if let Some(text) = variable("OPENCODE_CONFIG_CONTENT") {
        let invalid = "OPENCODE_CONFIG_CONTENT is no valid configuration";
        let mut read = parse(&text).context(invalid)?;
        note_keys(&read, &mut key_variables);
        read.values_mut().try_for_each(|value| substitute(value, directory)).context(invalid)?;
        note_origin(&mut from_project, &read, false);
        merge(&mut merged, read);
    }
    Ok(Configuration { merged, from_project, key_variables })
}

/// Variables that are nobody's secret, also where a header is made of them, and that programs cannot do without.
const ORDINARY: [&str; 9] = ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// Notes the variables that a file takes keys of providers and of the search service from: programs must not see them.
fn note_keys(read: &Map<String, Value>, names: &mut BTreeSet<String>) {
    fn look(value: &Value, secret: bool, names: &mut BTreeSet<String>) {
        match value {
            Value::String(text) if secret => {
                let places = text.split("{env:").skip(1).filter_map(|rest| rest.split_once('}'));
                let names_of_keys = places.map(|(name, _)| name).filter(|name| !ORDINARY.contains(name));
                names.extend(names_of_keys.map(str::to_owned));
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, secret, names)),
            Value::Object(map) => {
                for (key, value) in map {
                    look(value, secret || holds_keys(key), names);
                }
            }
            _ => {}
        }
    }
    for part in ["provider", "websearch"] {
        if let Some(value) = read.get(part) {
            look(value, false, names);
        }
    }
}

/// Whether a setting of this name is a key, or has keys in it.
fn holds_keys(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "headers" || ["key", "token", "secret", "password"].iter().any(|word| name.contains(word))
}

/// Notes what a file brings. A server that a project has touched stays the project's; of a list the last one counts.
fn note_origin(from_project: &mut ProjectSettings, read: &Map<String, Value>, project: bool) {
    if project {
        let servers = read.get("mcp").and_then(Value::as_object).into_iter().flatten();
        from_project.servers.extend(servers.map(|(name, _)| name.clone()));
    }
    if read.contains_key("instructions") {
        from_project.instructions = project;
    }
    // What is not an object is replaced as a whole.
    if read.get("skills").is_some_and(|skills| skills.get("paths").is_some() || !skills.is_object()) {
        from_project.skills = project;
    }
}

/// The folders whose configuration counts, the outermost first: from the root of the repository to this one. Further up
/// are folders that others may write to, such as the one for temporary files, and a configuration says where keys go.
fn project_folders(directory: &Path) -> Vec<&Path> {
    let root = directory.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(directory);
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    folders.reverse();
    folders
}

/// Whether a file belongs to this person or to the administrator. What others put in the way is not read.
fn is_ours(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let owner = std::fs::metadata(path).map_or(0, |found| found.uid());
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            table::note(format!("{} belongs to somebody else and is not read", path.display()));
            return false;
        }
    }
    true
}

fn candidates(folder: &Path) -> [PathBuf; 2] {
    [folder.join("opencode.json"), folder.join("opencode.jsonc")]
}

fn parse(text: &str) -> Result<Map<String, Value>> {
    match jsonc_parser::parse_to_serde_value::<Value>(text, &Default::default())? {
        Value::Object(map) => Ok(map),
        _ => bail!("it must be an object"),
    }
}

/// Later values win; objects are merged key by key.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// `{env:NAME}` stands for a variable of the environment, `{file:path}` for what is in a file.
fn substitute(value: &mut Value, folder: &Path) -> Result<()> {
    match value {
        Value::String(text) => *text = filled(text, folder)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| substitute(item, folder))?,
        Value::Object(map) => map.values_mut().try_for_each(|value| substitute(value, folder))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// A text with what stands in its places. What comes in is not looked into again.
fn filled(text: &str, folder: &Path) -> Result<String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once('{') {
        done.push_str(before);
        let place = opened.split_once('}').and_then(|(place, after)| Some((place.split_once(':')?, after)));
        match place {
            Some((("env", name), after)) => {
                done.push_str(&variable(name).unwrap_or_default());
                rest = after;
            }
            Some((("file", path), after)) => {
                done.push_str(content(path, folder)?.trim());
                rest = after;
            }
            _ => {
                done.push('{');
                rest = opened;
            }
        }
    }
    done.push_str(rest);
    Ok(done)
}

fn content(path: &str, folder: &Path) -> Result<String> {
    let path = match path.strip_prefix("~/") {
        Some(rest) => folders()?.home.join(rest),
        None => folder.join(path),
    };
    std::fs::read_to_string(&path)
        .with_context(|| format!("it names {}, which cannot be read", path.display()))
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
    if let Ok(token) = std::fs::read_to_string(&path)
        && !token.trim().is_empty()
    {
        return Ok((token.trim().to_owned(), format!("in {}", path.display())));
    }
    let token = hex::<24>()?;
    write_private(&path, &token)?;
    Ok((token, format!("in {}", path.display())))
}

/// So many random bytes in hexadecimal digits.
fn hex<const BYTES: usize>() -> Result<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_texts_are_filled_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "sk-{env:HOME}\n").unwrap();
        let check = |text: &str, expected: &str| {
            assert_eq!(filled(text, folder.path()).unwrap(), expected, "{text}");
        };
        check("plain { text } and {odd", "plain { text } and {odd");
        check("a {file:key} b", "a sk-{env:HOME} b");
        check("{env:EVERTURN_TEST_NO_SUCH_VARIABLE}x{other:y}", "x{other:y}");
        let error = filled("{file:missing}", folder.path()).unwrap_err();
        assert!(error.to_string().contains("missing, which cannot be read"), "{error}");
    }

    #[test]
    fn a_header_with_the_name_of_the_person_takes_it_from_nobody() {
        let read: Map<String, Value> = serde_json::from_value(serde_json::json!({"provider": {"p": {"options":
            {"apiKey": "{env:KEY}", "headers": {"x-by": "{env:USER} of {env:TEAM}", "x-path": "{env:PATH}"}}}}}))
        .unwrap();
        let mut names = BTreeSet::new();
        note_keys(&read, &mut names);
        assert_eq!(names, ["KEY", "TEAM"].map(str::to_owned).into());
    }

    #[test]
    fn configuration_is_looked_for_within_the_repository() {
        // It was read from every folder up to the root, the one for temporary files included.
        let outside = tempfile::tempdir().unwrap();
        let repository = outside.path().join("repository");
        let inner = repository.join("a").join("b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(project_folders(&inner), [inner.as_path()]);
        std::fs::create_dir(repository.join(".git")).unwrap();
        assert_eq!(project_folders(&inner), [&repository, &repository.join("a"), &inner]);
    }
}
