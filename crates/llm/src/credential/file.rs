//! The file of keys.
//!
//! A JSON object with an entry for each provider: `{"openai": {"type": "api", "key": "…"}}`, the shape in which
//! OpenCode keeps its own. Entries of other kinds belong to others and are kept as they are, to the letter. Others
//! must not be able to read the file: it is refused if they are, and written so that they never are, not even for a
//! moment. A write replaces the file as a whole, so that a crash leaves the old one or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::CredentialError;
use crate::{Secret, ordinary_file};

/// The largest file of keys, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The kind of entry that is a key.
const API: &str = "api";

/// A file of keys. It need not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthFile {
    path: PathBuf,
}

/// What the file has for a provider, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthEntry {
    /// The provider.
    pub provider: String,
    /// The kind of entry: `api` for a key, `oauth` and others for what other programs keep there.
    pub kind: String,
}

impl AuthEntry {
    /// Whether it is a key.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.kind == API
    }
}

/// Entries by provider, unread. It has no `Debug`: there are keys in it.
type AuthEntries = BTreeMap<String, Box<RawValue>>;

/// What is read of an entry. Entries of other kinds may have anything for a key.
#[derive(Deserialize)]
struct AuthEntryKind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct AuthEntryKey {
    key: String,
}

impl AuthFile {
    /// The file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What there is in it, by provider.
    ///
    /// # Errors
    ///
    /// When it cannot be read or others may read it.
    pub fn entries(&self) -> Result<Vec<AuthEntry>, CredentialError> {
        let entry = |(provider, entry): (String, Box<RawValue>)| AuthEntry { provider, kind: kind(&entry) };
        Ok(self.read()?.into_iter().map(entry).collect())
    }

    /// The key of a provider, if there is one.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or others may read it.
    pub fn key(&self, provider: &str) -> Result<Option<Secret>, CredentialError> {
        let entries = self.read()?;
        let entry = entries.get(provider).filter(|entry| kind(entry) == API);
        let key = entry.and_then(|entry| serde_json::from_str::<AuthEntryKey>(entry.get()).ok());
        Ok(key.map(|entry| entry.key.trim().to_owned()).filter(|key| !key.is_empty()).map(Secret::from))
    }

    /// Keeps the key of a provider in place of what there was for it.
    ///
    /// # Errors
    ///
    /// When the key cannot be one, or the file cannot be read or written.
    pub fn put(&self, provider: &str, key: &Secret) -> Result<(), CredentialError> {
        let unusable = || CredentialError::Unusable { provider: provider.to_owned() };
        let key = key.reveal().trim();
        if key.is_empty() || key.contains(char::is_control) {
            return Err(unusable());
        }
        let entry = serde_json::json!({"type": API, "key": key}).to_string();
        let entry = RawValue::from_string(entry).map_err(|_| unusable())?;
        self.change(|entries| {
            entries.insert(provider.to_owned(), entry);
            true
        })?;
        Ok(())
    }

    /// Removes what there is for a provider, of whatever kind, and tells whether there was something.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn remove(&self, provider: &str) -> Result<bool, CredentialError> {
        self.change(|entries| entries.remove(provider).is_some())
    }

    fn read(&self) -> Result<AuthEntries, CredentialError> {
        let file = match ordinary_file::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AuthEntries::new()),
            Err(error) => return Err(self.io("open", error)),
        };
        self.check_private(&file)?;
        let text = ordinary_file::text(file, LARGEST).map_err(|error| self.io("read", error))?;
        if text.trim().is_empty() {
            return Ok(AuthEntries::new());
        }
        // The parser's own message may quote what it found, so only the place is taken from it.
        serde_json::from_str(&text).map_err(|error| CredentialError::Malformed {
            path: self.path.clone(),
            line: error.line(),
            column: error.column(),
        })
    }

    #[cfg(unix)]
    fn check_private(&self, file: &File) -> Result<(), CredentialError> {
        use std::os::unix::fs::PermissionsExt as _;
        // Of the open file, not of the path: nobody can put another one there in between.
        let mode = file.metadata().map_err(|error| self.io("look at", error))?.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            Ok(())
        } else {
            Err(CredentialError::Exposed { path: self.path.clone(), mode })
        }
    }

    #[cfg(not(unix))]
    fn check_private(&self, _: &File) -> Result<(), CredentialError> {
        Ok(())
    }

    /// Changes the entries, and writes them if `change` says that something is new. Other writers wait meanwhile.
    fn change(&self, change: impl FnOnce(&mut AuthEntries) -> bool) -> Result<bool, CredentialError> {
        // Whoever keeps the file elsewhere and a link here wants to keep the link.
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        private_folder(folder).map_err(|error| self.io("make the folder of", error))?;
        let lock = File::open(folder).map_err(|error| self.io("open the folder of", error))?;
        // Some network file systems lock no folders. There, of two writers at the same moment one may be forgotten.
        let _ = lock.lock();
        let mut entries = self.read()?;
        if !change(&mut entries) {
            return Ok(false);
        }
        replace(&target, folder, &lock, &text(&entries)).map_err(|error| self.io("write", error))?;
        Ok(true)
    }

    fn io(&self, action: &'static str, source: io::Error) -> CredentialError {
        CredentialError::Io { action, path: self.path.clone(), source }
    }
}

fn kind(entry: &RawValue) -> String {
    serde_json::from_str::<AuthEntryKind>(entry.get()).map(|entry| entry.kind).unwrap_or_default()
}

/// One entry in each line, each as it was.
fn text(entries: &AuthEntries) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|(provider, entry)| format!("  {}: {}", serde_json::Value::from(provider.as_str()), entry.get()))
        .collect();
    if lines.is_empty() { "{}\n".to_owned() } else { format!("{{\n{}\n}}\n", lines.join(",\n")) }
}

fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// Puts `text` in the place of a file, all of it or nothing.
fn replace(target: &Path, folder: &Path, opened: &File, text: &str) -> io::Result<()> {
    let mut number = [0u8; 8];
    getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
    let fresh = folder.join(format!(".auth-{:016x}.tmp", u64::from_le_bytes(number)));
    let written = write(&fresh, text).and_then(|()| fs::rename(&fresh, target));
    if let Err(error) = written {
        // What is left of the attempt has keys in it. If it cannot be removed, the first error says more.
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    opened.sync_all()
}

fn write(fresh: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
