//! What of a project's configuration a person trusts.
//!
//! Trust is given for one folder, one thing and its content: another command, address, variable or header is something
//! else, and so is the same in another folder. It says nothing about the files that a command runs, as with everything
//! else in a repository that is run. What was trusted is kept as well, to show what has changed since.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_tools::places;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// What is trusted in one folder, by name.
type TrustedItems = BTreeMap<String, TrustedItem>;

/// One thing that is trusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TrustedItem {
    digest: String,
    value: Value,
}

/// The file with what is trusted.
#[derive(Debug, Clone)]
pub struct Trust {
    file: PathBuf,
}

/// What is trusted in the folder of one project, as it was read.
#[derive(Debug, Default)]
pub(crate) struct ProjectTrust(TrustedItems);

impl ProjectTrust {
    /// Whether a thing is trusted as it is.
    pub(crate) fn covers(&self, item: &str, value: &Value) -> bool {
        self.0.get(item).is_some_and(|trusted| trusted.digest == digest(value))
    }
}

impl Trust {
    /// What is kept in a state folder.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self { file: state.join("trust.json") }
    }

    /// Where it is.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What is trusted in a project. What cannot be read trusts nothing.
    pub(crate) fn of(&self, root: &Path) -> ProjectTrust {
        let mut all = self.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "no configuration of a project is trusted");
            BTreeMap::new()
        });
        ProjectTrust(all.remove(root).unwrap_or_default())
    }

    /// What was trusted in a project, by name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn granted(&self, root: &Path) -> Result<BTreeMap<String, Value>, Error> {
        let items = self.read()?.remove(root).unwrap_or_default();
        Ok(items.into_iter().map(|(name, item)| (name, item.value)).collect())
    }

    /// Trusts things of the project at `root` as they are.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn grant<'a>(
        &self,
        root: &Path,
        items: impl IntoIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<(), Error> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let here = all.entry(root.to_owned()).or_default();
        here.extend(items.into_iter().map(|(name, value)| {
            (name.to_owned(), TrustedItem { digest: digest(value), value: value.clone() })
        }));
        self.write(&all)
    }

    /// Takes trust in things of the project at `root` back; in all of them if none is named. Says in how many.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn revoke(&self, root: &Path, names: &[String]) -> Result<usize, Error> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let Some(here) = all.get_mut(root) else { return Ok(0) };
        let before = here.len();
        here.retain(|name, _| !names.is_empty() && !names.contains(name));
        let gone = before - here.len();
        if here.is_empty() {
            all.remove(root);
        }
        self.write(&all)?;
        Ok(gone)
    }

    /// Keeps others from changing the file while it is held: what one of two at once trusts would be lost.
    fn lock(&self) -> Result<File, Error> {
        let path = self.file.with_extension("lock");
        let locked = || -> std::io::Result<File> {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(|source| Error::Io { context: path.display().to_string(), source })
    }

    fn read(&self) -> Result<BTreeMap<PathBuf, TrustedItems>, Error> {
        let damaged = |why: &dyn std::fmt::Display| {
            Error::Invalid(format!("{} is damaged: {why}; remove it", self.file.display()))
        };
        match places::text(&self.file, None).map_err(Error::Invalid)? {
            Some(text) => serde_json::from_str(&text).map_err(|error| damaged(&error)),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Replaces the file at once and for its owner only.
    fn write(&self, all: &BTreeMap<PathBuf, TrustedItems>) -> Result<(), Error> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let text = serde_json::to_string_pretty(all).map_err(|error| Error::Invalid(error.to_string()))?;
        if text.len() as u64 > places::TEXT_MAX {
            return Err(Error::Invalid(format!(
                "{} would become too large: take trust back where it is not needed any more",
                self.file.display()
            )));
        }
        let written = || {
            std::fs::create_dir_all(folder)?;
            // Made with mode 0600.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.file).map_err(|error| error.error)
        };
        let context = || self.file.display().to_string();
        written().map(drop).map_err(|source| Error::Io { context: context(), source })
    }
}

/// A hash of a value, whatever the order of its keys.
pub(super) fn digest(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let sorted_keys: BTreeMap<&String, Value> =
                    map.iter().map(|(key, value)| (key, sorted(value))).collect();
                let map: Map = sorted_keys.into_iter().map(|(key, value)| (key.clone(), value)).collect();
                map.into()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    blake3::hash(sorted(value).to_string().as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn two_who_trust_at_once_are_both_heard() {
        // The file was read and replaced without a lock: the later one took back what the other had trusted.
        let state = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..16).map(|number| number.to_string()).collect();
        std::thread::scope(|scope| {
            for name in &names {
                let trust = Trust::new(state.path());
                scope.spawn(move || trust.grant(Path::new("/a"), [(name.as_str(), &json!(1))]).unwrap());
            }
        });
        let granted = Trust::new(state.path()).granted(Path::new("/a")).unwrap();
        assert_eq!(granted, names.into_iter().map(|name| (name, json!(1))).collect());
    }

    #[test]
    fn nobody_changes_what_is_trusted_without_the_lock() {
        let state = tempfile::tempdir().unwrap();
        let (trust, here, value) = (Trust::new(state.path()), Path::new("/a"), json!(1));
        trust.grant(here, [("x", &value)]).unwrap();
        // Nobody gets the lock here.
        let lock = trust.file().with_extension("lock");
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        let refused = [trust.grant(here, [("y", &value)]).is_err(), trust.revoke(here, &[]).is_err()];
        assert_eq!(refused, [true, true]);
        assert_eq!(trust.granted(here).unwrap(), [("x".to_owned(), value)].into());
    }

    #[test]
    fn what_is_too_long_to_be_read_again_is_not_written() {
        let state = tempfile::tempdir().unwrap();
        let (trust, here, value) = (Trust::new(state.path()), Path::new("/a"), json!(1));
        trust.grant(here, [("x", &value)]).unwrap();
        let most = usize::try_from(places::TEXT_MAX).unwrap();
        let error = trust.grant(here, [("y", &json!("y".repeat(most)))]).unwrap_err().to_string();
        assert!(
            error.ends_with("would become too large: take trust back where it is not needed any more"),
            "{error}"
        );
        assert_eq!(trust.granted(here).unwrap(), [("x".to_owned(), value.clone())].into());
        // As long as it may be is not too long.
        trust.grant(here, [("y", &json!(""))]).unwrap();
        let rest = places::TEXT_MAX - std::fs::metadata(trust.file()).unwrap().len();
        trust.grant(here, [("y", &json!("y".repeat(usize::try_from(rest).unwrap())))]).unwrap();
        assert_eq!(std::fs::metadata(trust.file()).unwrap().len(), places::TEXT_MAX);
        assert!(trust.of(here).covers("x", &value));
        // One that somebody made longer trusts nothing, although it could be understood.
        let text = std::fs::read_to_string(trust.file()).unwrap();
        std::fs::write(trust.file(), format!("{text} ")).unwrap();
        assert!(!trust.of(here).covers("x", &value));
        assert!(trust.granted(here).is_err() && trust.revoke(here, &[]).is_err());
    }

    #[test]
    fn trust_is_for_one_folder_name_and_content() {
        let state = tempfile::tempdir().unwrap();
        let trust = Trust::new(&state.path().join("new"));
        let (one, other) = (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}));
        let (here, there) = (Path::new("/a"), Path::new("/b"));
        assert!(!trust.of(here).covers("x", &one));
        trust.grant(here, [("x", &one), ("y", &one)]).unwrap();
        let seen = [
            (here, "x", &one),
            (here, "x", &json!({"b": 2, "a": 1})),
            (here, "x", &other),
            (here, "z", &one),
            (there, "x", &one),
        ]
        .map(|(root, name, value)| trust.of(root).covers(name, value));
        assert_eq!(seen, [true, true, false, false, false]);
        assert_eq!(
            trust.granted(here).unwrap(),
            [("x".to_owned(), one.clone()), ("y".to_owned(), one.clone())].into()
        );
        let mode = std::fs::metadata(trust.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(trust.revoke(here, &["x".to_owned()]).unwrap(), 1);
        assert_eq!((trust.of(here).covers("x", &one), trust.of(here).covers("y", &one)), (false, true));
        assert_eq!(trust.revoke(here, &[]).unwrap(), 1);
        assert_eq!(trust.revoke(here, &[]).unwrap(), 0);
        // A file that cannot be understood trusts nothing, and is not overwritten.
        trust.grant(here, [("x", &one)]).unwrap();
        std::fs::write(trust.file(), "{").unwrap();
        assert!(!trust.of(here).covers("x", &one));
        assert!(trust.grant(here, [("x", &one)]).is_err());
    }
}
