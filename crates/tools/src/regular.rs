//! Reading that always comes to an end.
//!
//! A path that a model names may lead to a pipe nobody writes to, a device that never runs dry, or a file of any
//! size. The file tools therefore open files only through here: what is not an ordinary file is refused before a
//! byte is read, opening never waits, and a file is taken into memory only up to [`CONTENT_MAX`].

use std::{
    fmt,
    fs::{self, File, FileType, Metadata},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use rustix::fs::{Mode, OFlags};

use crate::tool::Failure;

/// The largest file that is taken into memory to be edited or shown as a diff.
pub(crate) const CONTENT_MAX: u64 = 20 * 1024 * 1024;

/// The largest file whose content is hashed to notice changes.
const HASH_MAX: u64 = 256 * 1024 * 1024;

/// What a path leads to when it is not an ordinary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Folder,
    Pipe,
    Socket,
    Device,
    Other,
}

impl Special {
    fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            None
        } else if kind.is_dir() {
            Some(Self::Folder)
        } else if kind.is_fifo() {
            Some(Self::Pipe)
        } else if kind.is_socket() {
            Some(Self::Socket)
        } else if kind.is_char_device() || kind.is_block_device() {
            Some(Self::Device)
        } else {
            Some(Self::Other)
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Other => "something else",
        })
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It is not an ordinary file.
    #[error("it is {0}, not an ordinary file")]
    Special(Special),
    /// It has more bytes than fit.
    #[error("it has {0} bytes")]
    TooLarge(u64),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Whether there is nothing at the path.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// The same in the words of a tool that was about to do `action`.
    pub(crate) fn failure(&self, action: &str, path: &Path) -> Failure {
        let path_text = path.display();
        match self {
            Self::Special(Special::Folder) => {
                Failure::Failed(format!("{path_text} is a folder, not a file."))
            }
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
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), Error> {
    // Looked at before as well, because opening is an act of its own on some devices.
    check(&fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    let file = File::from(opened.map_err(io::Error::from)?);
    let meta = file.metadata()?;
    check(&meta)?;
    Ok((file, meta))
}

fn check(meta: &Metadata) -> Result<(), Error> {
    Special::of(meta.file_type()).map_or(Ok(()), |special| Err(Error::Special(special)))
}

/// The content of an ordinary file of at most [`CONTENT_MAX`] bytes.
pub(crate) fn content(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, meta) = open(path)?;
    if meta.len() > CONTENT_MAX {
        return Err(Error::TooLarge(meta.len()));
    }
    // The size is not believed: the files of /proc have none, and others grow.
    let mut content = Vec::new();
    file.take(CONTENT_MAX + 1).read_to_end(&mut content)?;
    let size = content.len() as u64;
    if size > CONTENT_MAX { Err(Error::TooLarge(size)) } else { Ok(content) }
}

/// The first bytes of an ordinary file.
pub(crate) fn start(path: &Path, bytes: u64) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    open(path)?.0.take(bytes).read_to_end(&mut start)?;
    Ok(start)
}

/// A text that is the same as long as the content is: its BLAKE3 in hex, or, for a file too large to hash, what
/// the system says of its identity and last change. Nothing if there is no file.
pub(crate) fn fingerprint(path: &Path) -> Result<Option<String>, Error> {
    let (file, meta) = match open(path) {
        Err(error) if error.is_absent() => return Ok(None),
        other => other?,
    };
    let mut hash = blake3::Hasher::new();
    if meta.len() <= HASH_MAX {
        hash.update_reader(file.take(HASH_MAX + 1))?;
    }
    if meta.len() > HASH_MAX || hash.count() > HASH_MAX {
        let changed = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        return Ok(Some(format!("{}:{}:{}:{changed:?}", meta.dev(), meta.ino(), meta.len())));
    }
    Ok(Some(hash.finalize().to_hex().to_string()))
}
