//! What a call may touch: a path resolved once, checked against what was permitted, and never resolved again.
//!
//! `Scope::target` follows the links of a path and remembers where they led. [`Context::target`] also compares that
//! place with what the call was granted. All reading and writing then goes to that very place by a
//! `OpenFolder` handle, which follows no link: whoever swaps a link in between makes the call fail, and nothing else.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::attributes::Attributes;
use crate::folder::OpenFolder;
use crate::regular_file::{Fingerprint, SpecialFile};
use crate::scope::PathAccess;
use crate::tool::{Context, Failure, Need};
use crate::{regular_file, scope};

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    real: PathBuf,
}

/// Who may do what with a file: kept when its content is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRights {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) attributes: Attributes,
}

impl FileRights {
    fn of(file: &File, meta: &Metadata) -> Self {
        let attributes = Attributes::of(file);
        Self { mode: meta.mode() & 0o7777, user: meta.uid(), group: meta.gid(), attributes }
    }

    /// Whether its owner does not want it to be written. Replacing a file never asks the system about that.
    pub(crate) fn is_protected(&self) -> bool {
        self.mode & 0o200 == 0
    }
}

/// A file before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileBefore {
    /// The fingerprint of its content.
    pub(crate) fingerprint: String,
    pub(crate) rights: FileRights,
    /// How many names it has.
    pub(crate) links: u64,
    /// The first bytes, or all of them: as many as were asked for.
    pub(crate) bytes: Vec<u8>,
}

impl FileBefore {
    /// What must be said when the file was replaced: a new file takes its name, and its other names stay with the old.
    pub(crate) fn remark(&self) -> &'static str {
        if self.links > 1 { " (It had other names, as hard links: those keep the old content.)" } else { "" }
    }
}

impl Target {
    pub(crate) fn new(path: PathBuf, real: PathBuf) -> Self {
        Self { path, real }
    }

    /// The absolute path as the caller wrote it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path with its links followed.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// The folder that holds it, and its name there.
    pub(crate) fn place(&self) -> io::Result<(&Path, &OsStr)> {
        self.real.parent().zip(self.real.file_name()).ok_or_else(|| io::ErrorKind::IsADirectory.into())
    }

    /// Opens an ordinary file for reading.
    pub(crate) fn open(&self) -> Result<(File, Metadata), regular_file::OpenError> {
        let Ok((parent, name)) = self.place() else {
            return Err(regular_file::OpenError::Special(SpecialFile::Folder));
        };
        OpenFolder::reach(parent)?.open(name)
    }

    /// The whole file, or nothing if there is none.
    pub(crate) fn before(&self) -> Result<Option<FileBefore>, regular_file::OpenError> {
        let Some((file, meta)) = self.found()? else { return Ok(None) };
        let rights = FileRights::of(&file, &meta);
        let bytes = regular_file::content(file, &meta)?;
        let fingerprint = blake3::hash(&bytes).to_hex().to_string();
        Ok(Some(FileBefore { fingerprint, rights, links: meta.nlink(), bytes }))
    }

    /// A file of any size with its first bytes, or nothing if there is none.
    pub(crate) fn start(&self, bytes: u64) -> Result<Option<FileBefore>, regular_file::OpenError> {
        let Some((mut file, meta)) = self.found()? else { return Ok(None) };
        let mut start = Vec::new();
        (&mut file).take(bytes).read_to_end(&mut start)?;
        file.rewind()?;
        let rights = FileRights::of(&file, &meta);
        let fingerprint = Fingerprint::of(file, &meta)?;
        Ok(Some(FileBefore { fingerprint, rights, links: meta.nlink(), bytes: start }))
    }

    fn found(&self) -> Result<Option<(File, Metadata)>, regular_file::OpenError> {
        match self.open() {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Context {
    /// Where a path leads now, provided that this is what was permitted.
    pub fn target(&self, path: &str, access: PathAccess) -> Result<Target, Failure> {
        let target = self.scope.target(path, access)?;
        self.permitted(&target, access)?;
        Ok(target)
    }

    /// Where a place to search leads now, provided that looking there was permitted. The permission of a search is
    /// about what is looked for, so only the place counts here.
    pub(crate) fn searched(&self, path: PathBuf) -> Result<Target, Failure> {
        let real = scope::real(&path);
        let target = Target::new(path, real);
        let (external, _) = self.scope.demands(&target, PathAccess::Read);
        self.reached(target, &external)
    }

    /// The same for a folder to run a command in: what the command does is a permission of its own.
    pub(crate) fn entered(&self, path: PathBuf) -> Result<Target, Failure> {
        let real = scope::real(&path);
        let target = Target::new(path, real);
        let external = self.scope.entering(&target);
        self.reached(target, &external)
    }

    fn reached(&self, target: Target, external: &[Need]) -> Result<Target, Failure> {
        let granted = |need: &Need| {
            need.patterns.iter().all(|pattern| covers(&self.granted, &need.permission, pattern))
        };
        if external.iter().all(granted) { Ok(target) } else { Err(elsewhere(&target)) }
    }

    /// Fails unless everything that a target needs was permitted.
    pub(crate) fn permitted(&self, target: &Target, access: PathAccess) -> Result<(), Failure> {
        let (external, patterns) = self.scope.demands(target, access);
        let external = external.into_iter().map(|need| (need.permission, need.patterns));
        let own = (access.permission().to_owned(), patterns);
        let granted = |(permission, patterns): (String, Vec<String>)| {
            patterns.iter().all(|pattern| covers(&self.granted, &permission, pattern))
        };
        if external.chain([own]).all(granted) {
            return Ok(());
        }
        Err(elsewhere(target))
    }
}

fn elsewhere(target: &Target) -> Failure {
    Failure::Failed(format!(
        "{} leads elsewhere now than when it was permitted, so nothing was done. Call again to ask for it as it is \
         now.",
        target.path.display()
    ))
}

fn covers(granted: &[Need], permission: &str, pattern: &String) -> bool {
    granted.iter().any(|need| need.permission == permission && need.patterns.contains(pattern))
}
