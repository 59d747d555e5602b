//! Folders, the environment and configuration files. Everything else is told what it needs from here.
//!
//! Configuration is OpenCode's, so that a person who has one needs no other: the file in the configuration folder,
//! then the project's, then `OPENCODE_CONFIG`, then `OPENCODE_CONFIG_CONTENT`; later ones win key by key.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use etcetera::BaseStrategy as _;
use everturn_engine::models::{AuthFile, Keyring};
use everturn_engine::{Config, Engine, Options};
use serde_json::{Map, Value};

/// A variable of the environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Starts the log on standard error: warnings unless `EVERTURN_LOG` says otherwise.
pub(crate) fn start_logging() {
    let filter = variable("EVERTURN_LOG").unwrap_or_else(|| "warn".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_default();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// The folders of this person.
fn folders() -> Result<everturn_engine::engine::Paths> {
    let base =
        etcetera::base_strategy::choose_native_strategy().context("this account has no home folder")?;
    let data = variable("EVERTURN_DATA").map_or_else(|| base.data_dir().join("everturn"), PathBuf::from);
    Ok(everturn_engine::engine::Paths {
        home: base.home_dir().to_owned(),
        state: base.state_dir().unwrap_or_else(|| base.data_dir()).join("everturn"),
        config: base.config_dir().join("everturn"),
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
    options.keys = keys()?;
    options.database = database();
    options.quiet = listeners == Listeners::None;
    Ok(Engine::open(options).await?)
}

/// The settings for a folder.
pub(crate) fn config(directory: &Path) -> Result<Config> {
    Ok(Config::from_value(configuration(directory)?)?)
}

/// The file in which this person's keys are kept.
pub(crate) fn key_file() -> Result<AuthFile> {
    Ok(AuthFile::new(folders()?.data.join("auth.json")))
}

/// This person's keys: in the environment, and in a file. Who has none here but uses OpenCode has them there.
pub(crate) fn keys() -> Result<Keyring<'static>> {
    let own = key_file()?;
    let other = etcetera::base_strategy::choose_native_strategy()
        .map(|base| AuthFile::new(base.data_dir().join("opencode").join("auth.json")));
    let file = match other {
        Ok(other) if !own.path().exists() && other.path().exists() => other,
        _ => own,
    };
    Ok(Keyring::new(&variable, Some(file)))
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

/// The merged configuration for a folder.
fn configuration(directory: &Path) -> Result<Map<String, Value>> {
    let mut merged = Map::new();
    let mut files = Vec::new();
    if let Ok(base) = etcetera::base_strategy::choose_native_strategy() {
        files.extend(candidates(&base.config_dir().join("opencode")));
    }
    let mut upwards: Vec<&Path> = directory.ancestors().collect();
    upwards.reverse();
    for folder in upwards {
        files.extend(candidates(folder));
    }
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
        merge(
            &mut merged,
            parse(&text).with_context(|| format!("{} is no valid configuration", path.display()))?,
        );
    }
    if let Some(text) = variable("OPENCODE_CONFIG_CONTENT") {
        merge(&mut merged, parse(&text).context("OPENCODE_CONFIG_CONTENT is no valid configuration")?);
    }
    let mut merged = Value::Object(merged);
    substitute(&mut merged);
    match merged {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
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

/// `{env:NAME}` stands for a variable of the environment.
fn substitute(value: &mut Value) {
    match value {
        Value::String(text) => {
            // What a variable holds is not looked into again.
            let mut done = String::new();
            while let Some((before, rest)) = text.split_once("{env:")
                && let Some((name, after)) = rest.split_once('}')
            {
                done.push_str(before);
                done.push_str(&variable(name).unwrap_or_default());
                *text = after.to_owned();
            }
            done.push_str(text);
            *text = done;
        }
        Value::Array(items) => items.iter_mut().for_each(substitute),
        Value::Object(map) => map.values_mut().for_each(substitute),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
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
