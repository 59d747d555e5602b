//! All-or-nothing file replacement.
//!
//! A file is written beside its target and renamed over it, so that a reader, or the disk after a crash, has
//! either the old content or the new one. Calls on the same file take turns within the process; a change by
//! anyone else between reading and renaming is noticed and refused.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::regular::{self, fingerprint};

/// The locks that make calls on one file take turns; a path always falls on the same one.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// How the name of a file that is not in its place yet begins; snapshots pass such files over.
pub(crate) const STAGED: &str = ".everturn-tmp-";

/// The mode of a new file before the process's mask applies.
const NEW_MODE: u32 = 0o666;

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file is no longer what the caller read.
    #[error("the file changed while it was being edited")]
    Changed,
    /// What is there now cannot be read to be compared.
    #[error(transparent)]
    Read(#[from] regular::Error),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Waits for the turn on a file, which lasts until the guard is dropped. `real` has its links followed.
pub(crate) fn turn(real: &Path) -> MutexGuard<'static, ()> {
    let slot = blake3::hash(real.as_os_str().as_encoded_bytes()).as_bytes().first().copied().unwrap_or(0);
    let [first, ..] = &TURNS;
    TURNS.get(usize::from(slot) % TURNS.len()).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of a file, or nothing when there is none.
pub(crate) fn content(real: &Path) -> Result<Option<Vec<u8>>, regular::Error> {
    match regular::content(real) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts `bytes` in place of what the file held, provided that its fingerprint is still `expected`.
pub(crate) fn replace(real: &Path, bytes: &[u8], expected: Option<&str>) -> Result<(), Error> {
    let parent = real.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let staged = stage(parent, bytes, None)?;
    if let Ok(meta) = fs::metadata(real) {
        fs::set_permissions(staged.path(), meta.permissions())?;
    }
    staged.as_file().sync_all()?;
    if fingerprint(real)?.as_deref() != expected {
        return Err(Error::Changed);
    }
    if expected.is_none() {
        match staged.persist_noclobber(real) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Err(Error::Changed),
            Err(error) => return Err(Error::Io(error.error)),
        }
    } else {
        staged.persist(real).map_err(|error| Error::Io(error.error))?;
    }
    fs::File::open(parent)?.sync_all()?;
    Ok(())
}

/// Writes a file that is ready to be renamed to its place in the same folder.
pub(crate) fn stage(parent: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<tempfile::NamedTempFile> {
    let mut staged = tempfile::Builder::new()
        .prefix(STAGED)
        .permissions(fs::Permissions::from_mode(mode.unwrap_or(NEW_MODE)))
        .tempfile_in(parent)?;
    staged.write_all(bytes)?;
    if let Some(mode) = mode {
        // Once more, because the process's mask took bits away at creation.
        staged.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    }
    Ok(staged)
}
