//! Reading that always comes to an end.
//!
//! A path that a model names may lead to a pipe nobody writes to, a device that never runs dry, or a file of any
//! size. The file tools therefore open files only through here: what is not an ordinary file is refused before a
//! byte is read, opening never waits, and a file is taken into memory only up to [`CONTENT_MAX`].

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fmt, io};

use rustix::fs::{FileType, Mode, OFlags};

use crate::tool::Failure;

/// The largest file that is taken into memory to be edited or shown as a diff.
pub(crate) const CONTENT_MAX: u64 = 20 * 1024 * 1024;

/// The most lines of a file that is taken apart into them: a file of nothing but line breaks would cost many times its
/// size in memory.
pub(crate) const LINES_MAX: u64 = 1_000_000;

/// The largest file whose content is hashed to notice changes.
const HASH_MAX: u64 = 256 * 1024 * 1024;

/// What a path leads to when it is not an ordinary file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpecialFile {
    Folder,
    /// Links are followed before a path gets here, so this one goes in circles or has just been put there.
    Link,
    Pipe,
    Socket,
    Device,
    Other,
}

impl SpecialFile {
    fn of(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => None,
            FileType::Directory => Some(Self::Folder),
            FileType::Symlink => Some(Self::Link),
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            FileType::CharacterDevice | FileType::BlockDevice => Some(Self::Device),
            FileType::Unknown => Some(Self::Other),
        }
    }
}

impl fmt::Display for SpecialFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Link => "a link",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Other => "something else",
        })
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// It is not an ordinary file.
    #[error("it is {0}, not an ordinary file")]
    Special(SpecialFile),
    /// It has more bytes than fit.
    #[error("it has {0} bytes")]
    TooLarge(u64),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl OpenError {
    /// Whether there is nothing at the path.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// The same in the words of a tool that was about to do `action`.
    pub(crate) fn failure(&self, action: &str, path: &Path) -> Failure {
        let path_text = path.display();
        match self {
            Self::Special(SpecialFile::Folder) => {
                Failure::Failed(format!("{path_text} is a folder, not a file."))
            }
            Self::Special(SpecialFile::Link) => Failure::Failed(format!(
                "{path_text} is a link that leads in circles, or one that was put there during the call. Nothing was \
                 done. Look at it with `bash`, or call again."
            )),
            Self::Special(special) => Failure::Failed(format!(
                "{path_text} is {special}, not an ordinary file. Give the path of an ordinary file, or use `bash` \
                 to work with this one."
            )),
            Self::TooLarge(size) => Failure::Failed(format!(
                "{path_text} has {size} bytes; at most {CONTENT_MAX} can be edited. Use `bash` to change it, for \
                 example with sed."
            )),
            Self::Io(error) => Failure::io(action, path, error),
        }
    }
}

/// Opens an ordinary file for reading, links followed, without ever waiting for anyone.
///
/// Only for looking at a path as it stands: what a call was permitted to touch is opened by
/// [`crate::target::Target::open`], which follows no link.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), OpenError> {
    // Looked at before as well, because opening is an act of its own on some devices.
    check(kind(&rustix::fs::stat(path).map_err(io::Error::from)?))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    let file = File::from(opened.map_err(io::Error::from)?);
    check(kind(&rustix::fs::fstat(&file).map_err(io::Error::from)?))?;
    let meta = file.metadata()?;
    Ok((file, meta))
}

fn kind(stat: &rustix::fs::Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Refuses what is not an ordinary file.
pub(crate) fn check(kind: FileType) -> Result<(), OpenError> {
    SpecialFile::of(kind).map_or(Ok(()), |special| Err(OpenError::Special(special)))
}

/// The content of an open file of at most [`CONTENT_MAX`] bytes.
pub(crate) fn content(file: File, meta: &Metadata) -> Result<Vec<u8>, OpenError> {
    if meta.len() > CONTENT_MAX {
        return Err(OpenError::TooLarge(meta.len()));
    }
    // The size is not believed: the files of /proc have none, and others grow.
    let mut content = Vec::new();
    file.take(CONTENT_MAX + 1).read_to_end(&mut content)?;
    let size = content.len() as u64;
    if size > CONTENT_MAX { Err(OpenError::TooLarge(size)) } else { Ok(content) }
}

/// A text that is the same as long as the content is: its BLAKE3 in hex, or, for a file too large to hash, what
/// the system says of its identity and last change. Nothing if there is no file.
pub(crate) fn fingerprint(path: &Path) -> Result<Option<String>, OpenError> {
    match open(path) {
        Ok((file, meta)) => Ok(Some(Fingerprint::of(file, &meta)?)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A fingerprint in the making, for those who read the content anyway.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    hash: blake3::Hasher,
    size: u64,
    identity: String,
}

impl Fingerprint {
    /// Begins one for a file that is open and at its start.
    pub(crate) fn new(meta: &Metadata) -> Self {
        // Without the time of the last change of the inode, which a mere rename moves.
        let changed = [meta.mtime(), meta.mtime_nsec()];
        let identity = format!("{}:{}:{}:{changed:?}", meta.dev(), meta.ino(), meta.len());
        Self { hash: blake3::Hasher::new(), size: meta.len(), identity }
    }

    /// The fingerprint of a whole open file.
    pub(crate) fn of(file: File, meta: &Metadata) -> io::Result<String> {
        let mut print = Self::new(meta);
        if !print.is_large() {
            print.hash.update_reader(file.take(HASH_MAX + 1))?;
        }
        Ok(print.finish())
    }

    /// Takes the next piece of the content.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if !self.is_large() {
            self.hash.update(bytes);
        }
    }

    /// The fingerprint, once the whole content was taken.
    pub(crate) fn finish(self) -> String {
        if self.is_large() { self.identity } else { self.hash.finalize().to_hex().to_string() }
    }

    fn is_large(&self) -> bool {
        self.size.max(self.hash.count()) > HASH_MAX
    }
}
