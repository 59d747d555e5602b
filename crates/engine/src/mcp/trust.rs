//! Which servers of a project's configuration a person has allowed.
//!
//! An approval is for one folder, one name and one definition, by its hash: another command, address, variable or
//! header is another server, and the same command in another folder may run other code. It says nothing about the files
//! that the command runs, as with everything else in a repository that is run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use everturn_tools::foreign_file::{self, ReadBounds};
use everturn_tools::mcp::ServerDefinition;

use crate::Error;

/// The largest file that is read.
const FILE_MAX: u64 = 4 * 1024 * 1024;

type Approvals = BTreeMap<PathBuf, BTreeMap<String, String>>;

/// The file with the approvals.
#[derive(Debug, Clone)]
pub struct Trust {
    file: PathBuf,
}

impl Trust {
    /// The approvals that are kept in a state folder.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self { file: state.join("mcp-trust.json") }
    }

    /// Where they are.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether a server of the project at `root` may run as it is. What cannot be read allows nothing.
    #[must_use]
    pub fn allows(&self, root: &Path, name: &str, server: &ServerDefinition) -> bool {
        let approvals = self.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "no MCP server of a project is allowed");
            Approvals::new()
        });
        approvals.get(root).and_then(|servers| servers.get(name)) == Some(&server.fingerprint())
    }

    /// Allows servers of the project at `root` as they are.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn allow<'a>(
        &self,
        root: &Path,
        servers: impl IntoIterator<Item = (&'a str, &'a ServerDefinition)>,
    ) -> Result<(), Error> {
        let mut approvals = self.read()?;
        let here = approvals.entry(root.to_owned()).or_default();
        here.extend(servers.into_iter().map(|(name, server)| (name.to_owned(), server.fingerprint())));
        self.write(&approvals)
    }

    /// Takes the approval of servers of the project at `root` back; of all of them if none is named. Says how many.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn revoke(&self, root: &Path, names: &[String]) -> Result<usize, Error> {
        let mut approvals = self.read()?;
        let Some(here) = approvals.get_mut(root) else { return Ok(0) };
        let before = here.len();
        here.retain(|name, _| !names.is_empty() && !names.contains(name));
        let gone = before - here.len();
        if here.is_empty() {
            approvals.remove(root);
        }
        self.write(&approvals)?;
        Ok(gone)
    }

    fn read(&self) -> Result<Approvals, Error> {
        let text = match foreign_file::read_text(&self.file, ReadBounds::bytes(FILE_MAX)) {
            Ok(text) => text,
            Err(error) if error.is_absent() => return Ok(Approvals::new()),
            Err(error) => return Err(self.io(std::io::Error::other(error))),
        };
        serde_json::from_str(&text).map_err(|error| {
            Error::Invalid(format!("{} is damaged: {error}; remove it", self.file.display()))
        })
    }

    /// Replaces the file at once and for its owner only.
    fn write(&self, approvals: &Approvals) -> Result<(), Error> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let text =
            serde_json::to_string_pretty(approvals).map_err(|error| Error::Invalid(error.to_string()))?;
        let written = || {
            std::fs::create_dir_all(folder)?;
            // Made with mode 0600.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.file).map_err(|error| error.error)
        };
        written().map(drop).map_err(|error| self.io(error))
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io { context: self.file.display().to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_approval_is_for_one_folder_name_and_definition() {
        let state = tempfile::tempdir().unwrap();
        let trust = Trust::new(&state.path().join("new"));
        let server =
            |word: &str| ServerDefinition::from_value(&json!({"type": "local", "command": [word]})).unwrap();
        let (one, other) = (server("one"), server("other"));
        let (here, there) = (Path::new("/a"), Path::new("/b"));
        assert!(!trust.allows(here, "x", &one));
        trust.allow(here, [("x", &one), ("y", &one)]).unwrap();
        let seen = [(here, "x", &one), (here, "x", &other), (here, "z", &one), (there, "x", &one)]
            .map(|(root, name, server)| trust.allows(root, name, server));
        assert_eq!(seen, [true, false, false, false]);
        let mode = std::fs::metadata(trust.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(trust.revoke(here, &["x".to_owned()]).unwrap(), 1);
        assert_eq!((trust.allows(here, "x", &one), trust.allows(here, "y", &one)), (false, true));
        assert_eq!(trust.revoke(here, &[]).unwrap(), 1);
        assert_eq!(trust.revoke(here, &[]).unwrap(), 0);
        // A file that cannot be understood allows nothing, and is not overwritten.
        trust.allow(here, [("x", &one)]).unwrap();
        std::fs::write(trust.file(), "{").unwrap();
        assert!(!trust.allows(here, "x", &one));
        assert!(trust.allow(here, [("x", &one)]).is_err());
    }
}
