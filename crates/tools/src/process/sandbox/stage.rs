//! A new root while it is being filled, and the mounts that are put into it.
//!
//! A place in it is reached folder by folder, and no link on the way is followed: it could lead out of the new root.
//! Folders are made in what is ours and nowhere else, so that nothing is left behind in a project.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, chmod, fstat, mkdirat, openat, openat2, statx,
    symlinkat,
};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// The new root.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) root: OwnedFd,
    /// The mounts in which something may be made.
    own: BTreeSet<u64>,
}

impl Stage {
    /// An empty root, mounted on a folder of the old one.
    pub(super) fn on(workshop: &OwnedFd) -> Result<Self> {
        let root = new_mount("tmpfs", &[("mode", "0755")])?;
        attach(&root, workshop)?;
        let own = BTreeSet::from([mount_number(&root)?]);
        Ok(Self { root, own })
    }

    /// What is at a path.
    pub(super) fn find(&self, path: &Path) -> Result<OwnedFd> {
        let inner = path.strip_prefix("/").unwrap_or(path);
        if inner.as_os_str().is_empty() {
            self.root.try_clone().map_err(|_| Errno::MFILE)
        } else {
            look(&self.root, inner)
        }
    }

    /// The folder at a path, which is made if it is not there.
    pub(super) fn folder(&self, path: &Path) -> Result<OwnedFd> {
        let mut at = self.find(Path::new("/"))?;
        for name in path.components() {
            let Component::Normal(name) = name else { continue };
            let name = Path::new(name);
            at = match look(&at, name) {
                Err(Errno::NOENT) => {
                    self.claim(&at)?;
                    mkdirat(&at, name, Mode::from_raw_mode(0o755))?;
                    look(&at, name)?
                }
                other => other?,
            };
        }
        Ok(at)
    }

    /// The file at a path, which is made if it is not there.
    pub(super) fn file(&self, path: &Path) -> Result<OwnedFd> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        let folder = self.folder(folder)?;
        match look(&folder, Path::new(name)) {
            Err(Errno::NOENT) => {
                self.claim(&folder)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(&folder, name, flags, Mode::from_raw_mode(0o644))?;
                look(&folder, Path::new(name))
            }
            other => other,
        }
    }

    /// Makes a link, unless there is something at the path or on the way to it.
    pub(super) fn link(&self, path: &Path, target: &Path) -> Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        let Ok(folder) = self.folder(folder) else { return Ok(()) };
        if self.claim(&folder).is_err() {
            return Ok(());
        }
        match symlinkat(target, &folder, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a folder one that can be written to when the root no longer can, and is empty. What is written to all of
    /// them is in one file system, in memory, and what that holds is limited.
    pub(super) fn open_up(&mut self, place: &OwnedFd) -> Result<()> {
        if mount_number(place)? != mount_number(&self.root)? {
            return self.cover(place);
        }
        chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::from_raw_mode(0o1777))?;
        let same = copy_at(place)?;
        self.adopt(&same)?;
        attach(&same, place)
    }

    /// Covers a folder with an empty one.
    pub(super) fn cover(&mut self, place: &OwnedFd) -> Result<()> {
        let empty = new_mount("tmpfs", &[("mode", "0755")])?;
        self.adopt(&empty)?;
        attach(&empty, place)
    }

    /// Lets folders be made in a mount, for others to be mounted on.
    pub(super) fn adopt(&mut self, tree: &OwnedFd) -> Result<()> {
        self.own.insert(mount_number(tree)?);
        Ok(())
    }

    /// Whether a place lies in something that was put into the root, and is not one that was made for it.
    pub(super) fn is_foreign(&self, place: &OwnedFd) -> Result<bool> {
        Ok(!self.own.contains(&mount_number(place)?))
    }

    /// Whether something may be made in a folder.
    fn claim(&self, folder: &OwnedFd) -> Result<()> {
        if self.own.contains(&mount_number(folder)?) { Ok(()) } else { Err(Errno::NOENT) }
    }
}

/// The number by which the system knows the mount that something is in.
pub(super) fn mount_number(of: &OwnedFd) -> Result<u64> {
    Ok(statx(of, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

/// What has a name in a folder, or a path below it, and is no link; nor is anything on the way.
pub(super) fn look(folder: &OwnedFd, name: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    openat2(folder, name, flags, Mode::empty(), resolve)
}

/// A file system that is nowhere yet.
pub(super) fn new_mount(kind: &str, options: &[(&str, &str)]) -> Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let attributes = if kind == "devpts" { MountAttrFlags::MOUNT_ATTR_NOSUID } else { attributes };
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// What is at a path, which is no link, nor is anything on the way. Whatever takes its place later, this stays what it is.
pub(super) fn hold(path: &Path) -> Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// By what the file system knows something open.
pub(super) fn identity(of: &OwnedFd) -> Result<(u64, u64)> {
    fstat(of).map(|stat| (stat.st_dev, stat.st_ino))
}

/// A copy of the mount at a path, and of all that lie below it.
pub(super) fn copy(path: &Path) -> Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

/// The same for something that is open.
pub(super) fn copy_at(place: impl AsFd) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags)
}

/// Puts a mount that is nowhere yet on a place.
pub(super) fn attach(tree: impl AsFd, place: impl AsFd) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", place, "", flags)
}

/// What is at a name, a link included.
pub(super) fn look_at_name(folder: &OwnedFd, name: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Where an open link leads.
pub(super) fn target(link: &OwnedFd) -> Result<std::path::PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let target = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_held_was_reached_without_a_link_and_stays_what_it_was() {
        // A place was looked at first and opened later: a link that was there by then led to what is hidden.
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(path("cache/inner")).unwrap();
        fs::create_dir_all(path("secret/inner")).unwrap();
        let held = hold(&path("cache")).unwrap();
        let known = identity(&held).unwrap();
        fs::rename(path("cache"), path("away")).unwrap();
        symlink("secret", path("cache")).unwrap();
        assert_eq!(hold(&path("cache")).map(drop), Err(Errno::LOOP));
        assert_eq!(hold(&path("cache/inner")).map(drop), Err(Errno::LOOP));
        assert_eq!(identity(&held), Ok(known));
        assert_eq!(identity(&hold(&path("away")).unwrap()), Ok(known));
    }
}
