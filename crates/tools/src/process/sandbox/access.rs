//! Getting into folders that a program has closed behind it, by taking away its owner's rights.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, chmod, fchmod, fstat, openat2};
use rustix::io::{Errno, Result};

/// How many folders are closed again in the end. More are left open to their owner.
const MOST: usize = 256;

/// Folders that were opened to look into them, until this is dropped.
#[derive(Debug, Default)]
pub(super) struct FolderAccess {
    opened: Vec<(OwnedFd, Mode)>,
}

impl FolderAccess {
    /// A folder, as [`open_folder`] finds it; if it is closed, it and those above it are opened to their owner.
    pub(super) fn open(&mut self, base: impl AsFd, path: &Path) -> Result<OwnedFd> {
        match open_folder(&base, path) {
            Err(Errno::ACCESS) => {
                self.open_way(&base, path)?;
                open_folder(&base, path)
            }
            other => other,
        }
    }

    /// Gives their owner all rights to the folders on the way to one, and to that one.
    fn open_way(&mut self, base: impl AsFd, path: &Path) -> Result<()> {
        let mut at = PathBuf::new();
        let own = path.as_os_str().is_empty().then_some(Path::new("."));
        for name in own.unwrap_or(path) {
            at.push(name);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = openat2(&base, &at, flags, Mode::empty(), NO_LINKS)?;
            let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
            // What is somebody else's was not closed by a program of ours.
            if !mode.contains(Mode::RWXU) && set_mode(&folder, mode | Mode::RWXU).is_ok() {
                self.opened.push((folder, mode));
                self.opened.truncate(MOST);
            }
        }
        Ok(())
    }
}

impl Drop for FolderAccess {
    fn drop(&mut self) {
        for (folder, mode) in self.opened.iter().rev() {
            // A folder that is gone needs none.
            set_mode(folder, *mode).ok();
        }
    }
}

/// Sets the mode of a folder that was reached without opening it.
fn set_mode(folder: &OwnedFd, mode: Mode) -> Result<()> {
    chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)
}

/// Does something in an open folder that its owner may have no right to change.
pub(super) fn writing<T>(folder: impl AsFd, mut change: impl FnMut() -> Result<T>) -> Result<T> {
    match change() {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
            fchmod(&folder, mode | Mode::RWXU)?;
            let done = change();
            fchmod(&folder, mode)?;
            done
        }
        other => other,
    }
}

/// No link is followed on the way to a folder: it could lead anywhere.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// A folder below another one, reached without following a link. It can be read.
pub(super) fn open_folder(base: impl AsFd, path: &Path) -> Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(base, path, flags, Mode::empty(), NO_LINKS)
}

/// Whether an error says that there is no such folder: it is gone, or a link or a file has its place.
pub(super) fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}
