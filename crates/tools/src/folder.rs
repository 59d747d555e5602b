//! Folders as handles that no link can redirect.
//!
//! A path is judged first and used afterwards, and whoever can put a link into it in between decides what is used. So a
//! judged path is walked from the root one name at a time, and each name must be a real folder: from there on
//! everything happens by handle and by a single name. A link that appears on the way makes the walk fail.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, process};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use crate::regular_file::{self, SpecialFile};
use crate::replacement::STAGED;

/// A handle that only names a folder needs no right to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NAMED: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const NAMED: OFlags = OFlags::RDONLY;

/// The number in the name of the next staged file of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An open folder.
#[derive(Debug)]
pub(crate) struct OpenFolder(OwnedFd);

/// A folder that had to be made, as a name in the one above it.
#[derive(Debug)]
pub(crate) struct CreatedFolder {
    above: OpenFolder,
    name: OsString,
}

/// What the system knows a file by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: rustix::fs::Dev,
    inode: u64,
}

impl CreatedFolder {
    /// Takes the folder away again, unless someone has put something into it.
    pub(crate) fn undo(&self) {
        rustix::fs::unlinkat(&self.above.0, &self.name, AtFlags::REMOVEDIR).ok();
    }

    /// Syncs the folder's name to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.above.sync()
    }
}

impl OpenFolder {
    /// The folder at an absolute path, which must lead there without any link.
    pub(crate) fn reach(real: &Path) -> io::Result<Self> {
        let mut folder = Self::root()?;
        for name in names(real)? {
            folder = folder.below(name)?;
        }
        Ok(folder)
    }

    /// The same, making those folders that are missing.
    pub(crate) fn make(real: &Path) -> io::Result<(Self, Vec<CreatedFolder>)> {
        let mut folder = Self::root()?;
        let mut made: Vec<CreatedFolder> = Vec::new();
        for name in names(real)? {
            match folder.enter(name) {
                Ok((next, fresh)) => {
                    let above = std::mem::replace(&mut folder, next);
                    if fresh {
                        made.push(CreatedFolder { above, name: name.to_owned() });
                    }
                }
                Err(error) => {
                    made.iter().rev().for_each(CreatedFolder::undo);
                    return Err(error);
                }
            }
        }
        Ok((folder, made))
    }

    /// The folder of this name, and whether it had to be made.
    fn enter(&self, name: &OsStr) -> io::Result<(Self, bool)> {
        match self.below(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return Ok((other?, false)),
        }
        let fresh = match retry_on_intr(|| rustix::fs::mkdirat(&self.0, name, Mode::from(0o777))) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        Ok((self.below(name)?, fresh))
    }

    /// The folder at a path whose links are followed: for the one that everything else is reached from.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let flags = NAMED | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))?))
    }

    /// A folder somewhere below, which the path must lead to without any link; an empty one is the folder itself.
    pub(crate) fn beneath(&self, below: &Path) -> io::Result<Self> {
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        Ok(Self(open_beneath(&self.0, below, NAMED | OFlags::DIRECTORY)?))
    }

    /// The same, making those folders that are missing.
    pub(crate) fn make_beneath(&self, below: &Path) -> io::Result<Self> {
        let mut folder = self.beneath(Path::new(""))?;
        for name in below {
            (folder, _) = folder.enter(name)?;
        }
        Ok(folder)
    }

    fn root() -> io::Result<Self> {
        let flags = NAMED | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(retry_on_intr(|| rustix::fs::openat(CWD, "/", flags, Mode::empty()))?))
    }

    fn below(&self, name: &OsStr) -> io::Result<Self> {
        let flags = NAMED | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(retry_on_intr(|| rustix::fs::openat(&self.0, name, flags, Mode::empty()))?))
    }

    /// The folder open for listing and syncing.
    pub(crate) fn listed(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| rustix::fs::openat(&self.0, ".", flags, Mode::empty()))?)
    }

    /// Opens an ordinary file for reading without ever waiting for anyone.
    pub(crate) fn open(&self, name: &OsStr) -> Result<(File, Metadata), regular_file::OpenError> {
        // Looked at before as well, because opening is an act of its own on some devices.
        regular_file::check(self.kind(name)?)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.0, name, flags, Mode::empty()));
        let file = File::from(opened.map_err(|error| match error {
            Errno::LOOP => regular_file::OpenError::Special(SpecialFile::Link),
            other => regular_file::OpenError::Io(other.into()),
        })?);
        regular_file::check(FileType::from_raw_mode(
            rustix::fs::fstat(&file).map_err(io::Error::from)?.st_mode,
        ))?;
        let meta = file.metadata()?;
        Ok((file, meta))
    }

    /// What the system says of a name, whatever a link there leads to.
    pub(crate) fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(retry_on_intr(|| rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW))?)
    }

    /// What is at a name, whatever a link there leads to.
    pub(crate) fn kind(&self, name: &OsStr) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(self.stat(name)?.st_mode))
    }

    /// Where a link leads, in bytes.
    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        Ok(retry_on_intr(|| rustix::fs::readlinkat(&self.0, name, Vec::new()))?.into_bytes())
    }

    /// What the system knows a file by, whatever its name.
    pub(crate) fn identity(&self, name: &OsStr) -> io::Result<FileIdentity> {
        let stat = self.stat(name)?;
        Ok(FileIdentity { device: stat.st_dev, inode: stat.st_ino })
    }

    /// A new file under a name that nobody uses; the process's mask applies to its mode.
    pub(crate) fn stage(&self, mode: Mode) -> io::Result<(File, OsString)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = unused();
            match retry_on_intr(|| rustix::fs::openat(&self.0, &name, flags, mode)) {
                Ok(file) => return Ok((File::from(file), name)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A new link under a name that nobody uses.
    pub(crate) fn stage_link(&self, target: &[u8]) -> io::Result<OsString> {
        loop {
            let name = unused();
            match retry_on_intr(|| rustix::fs::symlinkat(OsStr::from_bytes(target), &self.0, &name)) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives a file another name, also where something else has it.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Gives a file a name that is free.
    pub(crate) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(&self.0, from, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    }

    /// Puts a staged file in the place of another one, and says under which name that one is kept.
    pub(crate) fn displace(&self, staged: &OsStr, name: &OsStr) -> io::Result<OsString> {
        match rustix::fs::renameat_with(&self.0, staged, &self.0, name, RenameFlags::EXCHANGE) {
            // Not every file system can exchange: there, a moment without the file cannot be helped.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let kept = self.put_aside(name)?;
                match self.rename_new(staged, name) {
                    Ok(()) => Ok(kept),
                    Err(error) => {
                        self.rename_new(&kept, name)?;
                        Err(error)
                    }
                }
            }
            other => {
                other?;
                Ok(staged.to_owned())
            }
        }
    }

    /// Takes a file out of its place, and says under which name it is kept.
    pub(crate) fn put_aside(&self, name: &OsStr) -> io::Result<OsString> {
        loop {
            let kept = unused();
            match self.rename_new(name, &kept) {
                Ok(()) => return Ok(kept),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes a folder that is empty.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Syncs the names in the folder to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let listed = match self.listed() {
            // Names can be given in a folder that may not be listed, and nothing better can be done there.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            other => other?,
        };
        match rustix::fs::fsync(listed) {
            // Some file systems keep names by other means.
            Err(Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The names in the folder, and whether each is a folder; a link is none.
    pub(crate) fn names(&self) -> io::Result<Vec<(OsString, bool)>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.listed()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let kind = match entry.file_type() {
                // Not every file system tells.
                FileType::Unknown => self.kind(name).unwrap_or(FileType::Unknown),
                kind => kind,
            };
            names.push((name.to_owned(), kind.is_dir()));
        }
        Ok(names)
    }

    /// The names in the folder, and whether each is a folder or a link to one.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, bool)>> {
        let mut entries = Vec::new();
        for entry in Dir::new(self.listed()?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Symlink | FileType::Unknown => rustix::fs::statat(&self.0, name, AtFlags::empty())
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
                _ => false,
            };
            entries.push((name.to_owned(), folder));
        }
        Ok(entries)
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens what is somewhere below a folder; no link on the way is followed, and none at the end.
pub(crate) fn open_beneath(folder: impl AsFd, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match retry_on_intr(|| rustix::fs::openat2(&folder, below, flags, Mode::empty(), resolve)) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return Ok(other?),
        }
    }
    let step = NAMED | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::io::dup(&folder)?;
    for name in below.parent().unwrap_or(Path::new("")).components() {
        folder = rustix::fs::openat(&folder, name.as_os_str(), step, Mode::empty())?;
    }
    let name = below.file_name().unwrap_or(OsStr::new("."));
    Ok(rustix::fs::openat(&folder, name, flags, Mode::empty())?)
}

/// The names on the way from the root.
fn names(real: &Path) -> io::Result<Vec<&OsStr>> {
    let mut components = real.components();
    let absolute = components.next() == Some(Component::RootDir);
    let names = components.map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    names
        .collect::<Option<Vec<_>>>()
        .filter(|_| absolute)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path is not a plain absolute one"))
}

/// A name for a file that is not in its place.
fn unused() -> OsString {
    format!("{STAGED}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}
