//! What happened to the files, in one order.
//!
//! Content belongs to an inode and not to a name: a rollback journal is deleted and made again under the same name,
//! and after a power loss the old one may be back.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// One file from its creation on. A file that is deleted and made again is another one.
pub(super) type Inode = usize;

/// What a test notes between the steps of the disk, for example that an event was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TraceMark {
    /// A number, such as that of the acknowledged event.
    Number(u64),
    /// Any text.
    Text(String),
}

impl TraceMark {
    /// The number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl From<u64> for TraceMark {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for TraceMark {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for TraceMark {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for TraceMark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

/// One thing that succeeded.
#[derive(Debug)]
pub(super) enum DiskStep {
    Create(Inode),
    Write {
        inode: Inode,
        offset: usize,
        bytes: Box<[u8]>,
    },
    Truncate {
        inode: Inode,
        size: usize,
    },
    /// `folder`: the folder was synced with the file, so that every name in it is durable.
    Sync {
        inode: Inode,
        folder: bool,
    },
    /// `folder`: the folder was synced after the file had gone.
    Delete {
        inode: Inode,
        folder: bool,
    },
    Mark(TraceMark),
}

/// A file that was there before its first step.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) inode: Inode,
    pub(super) content: Vec<u8>,
}

/// All steps, and the files they are about.
#[derive(Debug, Default)]
pub(super) struct Trace {
    steps: Vec<DiskStep>,
    /// By inode.
    names: Vec<String>,
    found: Vec<FoundFile>,
    /// The names that are in the folder now.
    live: HashMap<String, Inode>,
    folder: Option<PathBuf>,
}

impl Trace {
    pub(super) fn steps(&self) -> &[DiskStep] {
        &self.steps
    }

    pub(super) fn found(&self) -> &[FoundFile] {
        &self.found
    }

    pub(super) fn name(&self, inode: Inode) -> &str {
        self.names.get(inode).map_or("?", String::as_str)
    }

    pub(super) fn record(&mut self, step: DiskStep) {
        self.steps.push(step);
    }

    /// The name of a file in the one folder that is recorded; none for a file elsewhere.
    pub(super) fn name_of(&mut self, path: &Path) -> Option<String> {
        let folder = path.parent()?;
        let known = self.folder.get_or_insert_with(|| folder.to_owned());
        (known == folder).then(|| path.file_name().map(OsStr::to_string_lossy)).flatten().map(Into::into)
    }

    /// A file that has come to be in the folder.
    pub(super) fn create(&mut self, name: String) -> Inode {
        let inode = self.enter(name);
        self.record(DiskStep::Create(inode));
        inode
    }

    /// The file that has this name now, which exists on the real disk with this content.
    ///
    /// What the trace has never heard of was there before it began, and is durable; otherwise an image would have only
    /// those files that the database had opened already. A file that came back behind the trace's back counts as
    /// written and synced now.
    pub(super) fn look_up(&mut self, name: String, content: impl FnOnce() -> Vec<u8>) -> Inode {
        if let Some(inode) = self.live.get(&name) {
            return *inode;
        }
        let content = content();
        if self.names.contains(&name) {
            let inode = self.create(name);
            self.record(DiskStep::Write { inode, offset: 0, bytes: content.into() });
            self.record(DiskStep::Sync { inode, folder: true });
            return inode;
        }
        let inode = self.enter(name);
        self.found.push(FoundFile { inode, content });
        inode
    }

    /// A name that has left the folder.
    pub(super) fn delete(&mut self, name: &str, folder: bool) {
        if let Some(inode) = self.live.remove(name) {
            self.record(DiskStep::Delete { inode, folder });
        }
    }

    fn enter(&mut self, name: String) -> Inode {
        let inode = self.names.len();
        self.names.push(name.clone());
        self.live.insert(name, inode);
        inode
    }

    /// One step in words, for the message of a test that failed.
    pub(super) fn describe(&self, step: &DiskStep) -> String {
        let with = |folder: &bool| if *folder { " and its folder" } else { "" };
        match step {
            DiskStep::Create(inode) => format!("create {}", self.name(*inode)),
            DiskStep::Write { inode, offset, bytes } => {
                format!("write {} {offset}..{}", self.name(*inode), offset + bytes.len())
            }
            DiskStep::Truncate { inode, size } => format!("truncate {} to {size}", self.name(*inode)),
            DiskStep::Sync { inode, folder } => format!("sync {}{}", self.name(*inode), with(folder)),
            DiskStep::Delete { inode, folder: false } => format!("delete {}", self.name(*inode)),
            DiskStep::Delete { inode, folder: true } => {
                format!("delete {} and sync its folder", self.name(*inode))
            }
            DiskStep::Mark(mark) => format!("mark {mark}"),
        }
    }
}
