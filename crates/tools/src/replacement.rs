//! All-or-nothing changes of files.
//!
//! A file is written beside its target and exchanged with it, so that a reader, or the disk after a crash, has
//! either the old content or the new one. What was there before is compared only after it was put aside: a change
//! that anyone else made up to that moment is noticed, and put back. Several files change together: if one of them
//! cannot, those before it are put back too.
//!
//! Calls on the same file take turns within the process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Gid, Mode, Uid};
use tokio_util::sync::CancellationToken;

use crate::folder::{CreatedFolder, FileIdentity, OpenFolder};
#[cfg(target_os = "linux")]
use crate::process::sandbox::note_made;
use crate::regular_file::{self, Fingerprint};
use crate::target::{FileRights, Target};
use crate::tool::Failure;

mod locks;

pub(crate) use locks::{lock, lock_all};

/// How the name of a file that is not in its place yet begins; snapshots and searches pass such files over.
pub(crate) const STAGED: &str = ".everturn-tmp-";

/// The mode of a new file before the process's mask applies.
const NEW_MODE: u32 = 0o666;

/// What one file is to become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileChange<'a> {
    pub(crate) target: &'a Target,
    /// The fingerprint of what is there; nothing if there must be no file.
    pub(crate) expected: Option<&'a str>,
    /// The new content, with the rights it keeps; nothing to remove the file.
    pub(crate) content: Option<(&'a [u8], Option<&'a FileRights>)>,
}

/// Why no file was changed.
#[derive(Debug)]
pub(crate) enum ReplacementCause {
    /// The call was cancelled before the first change.
    Cancelled,
    /// What is there is not what the caller read.
    Changed,
    /// Its owner does not want it to be written.
    Protected,
    /// What is there cannot be read to be compared.
    Read(regular_file::OpenError),
    /// The file system refused.
    Io(io::Error),
}

impl From<io::Error> for ReplacementCause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A change that failed.
#[derive(Debug)]
pub(crate) struct ReplacementError {
    /// The file that could not be changed, as it was written.
    path: PathBuf,
    cause: ReplacementCause,
    /// What is not as it was, in words.
    left: Vec<String>,
}

impl ReplacementError {
    fn new(path: &Path, cause: ReplacementCause) -> Self {
        Self { path: path.to_owned(), cause, left: Vec::new() }
    }

    /// The same in the words of a tool.
    pub(crate) fn failure(&self) -> Failure {
        let path = self.path.display();
        let failure = match &self.cause {
            ReplacementCause::Cancelled => Failure::Cancelled,
            ReplacementCause::Changed => Failure::Failed(format!(
                "{path} was changed by someone else meanwhile; nothing was written. Read it again and retry."
            )),
            ReplacementCause::Protected => protected(&self.path),
            ReplacementCause::Read(error) => error.failure("write", &self.path),
            ReplacementCause::Io(error) => {
                Failure::Failed(format!("Could not write {path}: {error}. Nothing was written."))
            }
        };
        if self.left.is_empty() {
            return failure;
        }
        let why = match &self.cause {
            ReplacementCause::Cancelled => "the call was cancelled".to_owned(),
            ReplacementCause::Changed => "it was changed by someone else meanwhile".to_owned(),
            ReplacementCause::Protected => "it is write-protected".to_owned(),
            ReplacementCause::Read(error) => error.to_string(),
            ReplacementCause::Io(error) => error.to_string(),
        };
        let mut text = format!(
            "Could not write {path}: {why}. Not everything that was done before could be put back; all files but these \
             are as they were:"
        );
        for line in &self.left {
            write!(text, "\n- {line}").ok();
        }
        Failure::Failed(text)
    }
}

/// The failure for a file that its owner does not want to be written.
pub(crate) fn protected(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{} is write-protected; nothing was written. If it is to be changed all the same, run `chmod u+w` on it first.",
        path.display()
    ))
}

/// Makes all of the changes or none of them.
pub(crate) fn apply(changes: &[FileChange<'_>], cancel: &CancellationToken) -> Result<(), ReplacementError> {
    let mut steps = ReplacementSteps::default();
    for change in changes {
        steps.prepare(change).map_err(|cause| ReplacementError::new(change.target.path(), cause))?;
    }
    if let (true, Some(first)) = (cancel.is_cancelled(), changes.first()) {
        return Err(ReplacementError::new(first.target.path(), ReplacementCause::Cancelled));
    }
    for at in 0..steps.0.len() {
        let Some(step) = steps.0.get_mut(at) else { break };
        if let Err(cause) = step.make() {
            let path = step.path.clone();
            let left = steps.undo();
            return Err(ReplacementError { path, cause, left });
        }
    }
    if let Err((path, error)) = steps.sync() {
        let left = steps.undo();
        return Err(ReplacementError { path, cause: ReplacementCause::Io(error), left });
    }
    steps.settle();
    #[cfg(target_os = "linux")]
    for (change, (bytes, _)) in changes.iter().filter_map(|change| Some((change, change.content?))) {
        note_made(change.target.real(), bytes);
    }
    Ok(())
}

/// The changes in their order. Those that are not settled leave no trace when this is dropped.
#[derive(Debug, Default)]
struct ReplacementSteps(Vec<ReplacementStep>);

impl ReplacementSteps {
    fn prepare(&mut self, change: &FileChange<'_>) -> Result<(), ReplacementCause> {
        let (parent, name) = change.target.place()?;
        if let (Some((_, Some(rights))), Some(_)) = (change.content, change.expected)
            && rights.is_protected()
        {
            return Err(ReplacementCause::Protected);
        }
        let (folder, made) = match change.content {
            Some(_) => OpenFolder::make(parent)?,
            None => (OpenFolder::reach(parent)?, Vec::new()),
        };
        let mut step = ReplacementStep {
            path: change.target.path().to_owned(),
            real: change.target.real().to_owned(),
            folder,
            name: name.to_owned(),
            made,
            act: match (change.content, change.expected) {
                (None, _) => ReplacementAct::Remove,
                (Some(_), None) => ReplacementAct::Create,
                (Some(_), Some(_)) => ReplacementAct::Replace,
            },
            expected: change.expected.map(str::to_owned),
            staged: None,
            own: None,
            old: None,
            done: false,
        };
        let written = change.content.map_or(Ok(()), |(bytes, rights)| step.write(bytes, rights));
        // Kept in either case: what was made on the way is taken away with it.
        self.0.push(step);
        written
    }

    /// Puts everything back that was done, the last first, and says what could not be.
    fn undo(&mut self) -> Vec<String> {
        self.0.iter_mut().rev().filter_map(|step| step.undo().err()).collect()
    }

    /// Makes the changes last.
    fn sync(&self) -> Result<(), (PathBuf, io::Error)> {
        for step in &self.0 {
            let synced = step.made.iter().try_for_each(CreatedFolder::sync).and_then(|()| step.folder.sync());
            synced.map_err(|error| (step.path.clone(), error))?;
        }
        Ok(())
    }

    fn settle(&mut self) {
        for step in &mut self.0 {
            step.made.clear();
            step.staged = step.old.take();
        }
    }
}

impl Drop for ReplacementSteps {
    fn drop(&mut self) {
        // Backwards, because a folder that one step made may hold what a later one staged.
        while let Some(step) = self.0.pop() {
            if let Some(staged) = &step.staged
                && let Err(error) = step.folder.remove(staged)
            {
                tracing::warn!(file = %step.path.display(), %error, "a staged file was left behind");
            }
            step.made.iter().rev().for_each(CreatedFolder::undo);
        }
    }
}

/// One change, prepared so that it takes a single act, and can be taken back.
#[derive(Debug)]
struct ReplacementStep {
    path: PathBuf,
    real: PathBuf,
    folder: OpenFolder,
    name: OsString,
    /// The folders that had to be made for it, outermost first.
    made: Vec<CreatedFolder>,
    act: ReplacementAct,
    expected: Option<String>,
    /// The name of the new content until it is in its place.
    staged: Option<OsString>,
    /// The new content, wherever it is: nothing else is ever deleted unseen. Held open, so that no other file can
    /// come by its identity.
    own: Option<(FileIdentity, fs::File)>,
    /// The name of what was there before, once it was put aside.
    old: Option<OsString>,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplacementAct {
    Create,
    Replace,
    Remove,
}

impl ReplacementStep {
    fn write(&mut self, bytes: &[u8], rights: Option<&FileRights>) -> Result<(), ReplacementCause> {
        let mode = if rights.is_some() { Mode::from(0o600) } else { Mode::from(NEW_MODE) };
        let (mut file, name) = self.folder.stage(mode)?;
        let identity = self.folder.identity(&name);
        self.staged = Some(name);
        file.write_all(bytes)?;
        if let Some(rights) = rights {
            let (user, group) = (Uid::from_raw(rights.user), Gid::from_raw(rights.group));
            // Only a superuser may give a file away; everyone else keeps what they write, but in its group if they can.
            let mut mode = rights.mode;
            if rustix::fs::fchown(&file, Some(user), Some(group)).is_err() {
                rustix::fs::fchown(&file, None, Some(group)).ok();
                // To be run as somebody was said of that account alone.
                mode &= !0o6000;
            }
            rights.attributes.put(&file);
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        self.own = Some((identity?, file));
        Ok(())
    }

    fn make(&mut self) -> Result<(), ReplacementCause> {
        let staged = self.staged.take().unwrap_or_default();
        let made = match self.act {
            ReplacementAct::Create => self.folder.rename_new(&staged, &self.name).map(|()| None),
            ReplacementAct::Replace => self.folder.displace(&staged, &self.name).map(Some),
            ReplacementAct::Remove => self.folder.put_aside(&self.name).map(Some),
        };
        match made {
            Ok(old) => self.old = old,
            Err(error) => {
                self.staged = (self.act != ReplacementAct::Remove).then_some(staged);
                return Err(match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => ReplacementCause::Changed,
                    _ => ReplacementCause::Io(error),
                });
            }
        }
        self.done = true;
        self.verify()
    }

    /// Compares what was put aside with what is expected to have been there.
    fn verify(&self) -> Result<(), ReplacementCause> {
        let (Some(old), Some(expected)) = (&self.old, &self.expected) else { return Ok(()) };
        match self.folder.open(old) {
            Ok((file, meta)) => {
                if Fingerprint::of(file, &meta)? == *expected {
                    Ok(())
                } else {
                    Err(ReplacementCause::Changed)
                }
            }
            Err(regular_file::OpenError::Special(_)) => Err(ReplacementCause::Changed),
            Err(error) => Err(ReplacementCause::Read(error)),
        }
    }

    /// Puts back what was there; a failure says in words what is there instead.
    fn undo(&mut self) -> Result<(), String> {
        if !self.done {
            return Ok(());
        }
        let old = self.old.take().unwrap_or_default();
        let undone = match self.act {
            ReplacementAct::Create => self.folder.put_aside(&self.name).and_then(|aside| self.discard(aside)),
            ReplacementAct::Replace => {
                self.folder.displace(&old, &self.name).and_then(|aside| self.discard(aside))
            }
            ReplacementAct::Remove => self.folder.rename_new(&old, &self.name),
        };
        self.done = false;
        undone.map_err(|error| {
            let (path, kept) = (self.path.display(), self.real.with_file_name(&old));
            match self.act {
                ReplacementAct::Create => format!("{path} is new and could not be removed again: {error}"),
                ReplacementAct::Replace if kept.exists() => {
                    format!("{path} has its new content; the old one is in {}: {error}", kept.display())
                }
                ReplacementAct::Replace => format!("{path} was exchanged by someone else: {error}"),
                ReplacementAct::Remove => {
                    format!("{path} is gone; its content is in {}: {error}", kept.display())
                }
            }
        })
    }

    /// Has a file that was taken out of its place removed with the step, provided that it is the one put there.
    fn discard(&mut self, aside: OsString) -> io::Result<()> {
        let own = self.own.as_ref().map(|(identity, _)| *identity);
        if own.is_some() && self.folder.identity(&aside).ok() == own {
            self.staged = Some(aside);
            return Ok(());
        }
        let kept = self.real.with_file_name(&aside);
        Err(io::Error::other(format!("what was there instead is kept in {}", kept.display())))
    }
}

#[cfg(test)]
mod tests;
