//! Files of somebody else's, read so that nothing that lies there can hold anybody up.
//!
//! A path in a configuration, in a prompt or on the command line may lead to a pipe that nobody writes to, to a device
//! that never runs dry, to a file system that does not answer, or into `/proc`, where files have no size and some have no
//! end. So whatever a person or a project names is read in one way: ordinary files only, opened without waiting, bounded
//! in bytes while they are read and in time. The reading is done by a thread of its own. One that takes too long, or that
//! nobody waits for any more, is left behind; it keeps neither a runtime nor the process from ending.

mod lines;
mod names;

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::regular_file::{self, OpenError};
pub use lines::{FetchedLines, LineRange, fetch_lines};
pub use names::{FetchedNames, fetch_names};

/// How much is read at once; between two pieces a reader looks whether anybody waits.
const PIECE: u64 = 256 * 1024;

/// How much is read of a file, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBounds {
    /// The most bytes that it may have.
    pub bytes: u64,
    /// The longest time that reading it may take.
    pub time: Duration,
}

impl ReadBounds {
    /// Bounds for a file that somebody waits for: as many bytes, and ten seconds.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, time: Duration::from_secs(10) }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignFileError {
    /// It is a folder, a pipe, a device or the like.
    #[error("it is {0}, not an ordinary file")]
    Special(String),
    /// It has more bytes than fit.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    /// It did not come in time.
    #[error("reading it took longer than {} seconds", .0.as_secs())]
    TooSlow(Duration),
    /// It is not text.
    #[error("it is not UTF-8 text")]
    NotText,
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ForeignFileError {
    /// Whether there is nothing at the path.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// The content of a file, links followed. It may take as long as `bounds` say, so it is not for tasks of a runtime.
///
/// # Errors
///
/// When it is no ordinary file, has too many bytes, takes too long or cannot be read.
pub fn read(path: &Path, bounds: ReadBounds) -> Result<Vec<u8>, ForeignFileError> {
    let (sender, receiver) = sync_channel(1);
    let (path, left) = (path.to_owned(), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&left);
    let is_left = move || told.load(Ordering::Relaxed);
    let reader = move || drop(sender.send(take(&path, bounds.bytes, is_left)));
    std::thread::Builder::new().name("foreign-file".to_owned()).spawn(reader)?;
    match receiver.recv_timeout(bounds.time) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => {
            left.store(true, Ordering::Relaxed);
            Err(ForeignFileError::TooSlow(bounds.time))
        }
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the reader died").into()),
    }
}

/// The content of a file of text.
///
/// # Errors
///
/// As [`read`], and when it is not text.
pub fn read_text(path: &Path, bounds: ReadBounds) -> Result<String, ForeignFileError> {
    String::from_utf8(read(path, bounds)?).map_err(|_| ForeignFileError::NotText)
}

/// The content of a file, for tasks of a runtime. Whoever drops it ends the reading.
///
/// # Errors
///
/// As [`read`].
pub async fn fetch(path: PathBuf, bounds: ReadBounds) -> Result<Vec<u8>, ForeignFileError> {
    apart(bounds.time, move |is_left| take(&path, bounds.bytes, is_left)).await
}

/// Has a thread of its own read something, for so long.
async fn apart<T: Send + 'static>(
    time: Duration,
    read: impl FnOnce(&dyn Fn() -> bool) -> Result<T, ForeignFileError> + Send + 'static,
) -> Result<T, ForeignFileError> {
    let (sender, receiver) = oneshot::channel();
    let reader = move || {
        let read = read(&|| sender.is_closed());
        drop(sender.send(read));
    };
    std::thread::Builder::new().name("foreign-file".to_owned()).spawn(reader)?;
    match tokio::time::timeout(time, receiver).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => Err(io::Error::other("the reader died").into()),
        Err(_) => Err(ForeignFileError::TooSlow(time)),
    }
}

fn open(path: &Path, most: u64) -> Result<(File, Metadata), ForeignFileError> {
    regular_file::open(path).map_err(|error| match error {
        OpenError::Special(special) => ForeignFileError::Special(special.to_string()),
        OpenError::TooLarge(_) => ForeignFileError::TooLarge(most),
        OpenError::Io(error) => ForeignFileError::Io(error),
    })
}

/// Reads piece by piece, until nobody waits any more. The size that a file says it has is believed only if it is too
/// large: those of `/proc` say that they are empty.
fn take(path: &Path, most: u64, is_left: impl Fn() -> bool) -> Result<Vec<u8>, ForeignFileError> {
    let (mut file, meta) = open(path, most)?;
    if meta.len() > most {
        return Err(ForeignFileError::TooLarge(most));
    }
    let mut content = Vec::new();
    while !is_left() {
        let read = (&mut file).take(PIECE).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(ForeignFileError::TooLarge(most));
        }
        if read == 0 {
            break;
        }
    }
    Ok(content)
}
