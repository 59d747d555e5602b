//! Protected names that no mount can protect: those that are not there, links, and what may be made beside something that
//! was permitted.
//!
//! Nothing can be mounted on them, so a program can put something there. It does not stay: what is there in the end gets
//! another name. Something that runs by itself the moment it appears is not held up by that.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat, renameat_with, statat,
    symlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::report::DisplacedName;

/// How many things that were put aside one name may have.
const MOST_ASIDE: usize = 100;

/// A protected name that has to be looked at in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct Guard {
    path: PathBuf,
    /// Where the link at this name leads, in bytes; nothing if there was nothing.
    link: Option<Vec<u8>>,
    /// For a protected folder in which something may be made.
    opened: Option<OpenedFolder>,
}

/// A protected folder of which somebody has permitted to change something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenedFolder {
    /// The names that were in it, in bytes.
    known: BTreeSet<Vec<u8>>,
    /// What may be made in it, or in a folder of it.
    permitted: Vec<PathBuf>,
}

impl Guard {
    /// For a name at which there is nothing.
    pub(super) fn of_absent(path: PathBuf) -> Self {
        Self { path, link: None, opened: None }
    }

    /// For a link.
    pub(super) fn of_link(path: PathBuf, target: PathBuf) -> Self {
        Self { path, link: Some(target.into_os_string().into_vec()), opened: None }
    }

    /// For a folder in which there were these names, and in which something may be made.
    pub(super) fn of_opened(path: PathBuf, known: BTreeSet<Vec<u8>>, permitted: Vec<PathBuf>) -> Self {
        Self { path, link: None, opened: Some(OpenedFolder { known, permitted }) }
    }

    /// Guards for every protected name that is not there, where nothing can be mounted at all.
    pub(super) fn of_all_absent(protected: impl IntoIterator<Item = PathBuf>) -> Vec<Self> {
        let absent = |path: &PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
                && path.parent().is_some_and(Path::is_dir)
        };
        protected.into_iter().filter(absent).map(Self::of_absent).collect()
    }

    /// Gives other names to what must not stay.
    pub(super) fn end(&self) -> Vec<DisplacedName> {
        match &self.opened {
            Some(opened) => opened.clear(&self.path),
            None => self.restore().into_iter().collect(),
        }
    }

    /// Puts the name back into the state that it had, if it has another. What is there is put aside and never deleted:
    /// a person may have made it while the program ran.
    fn restore(&self) -> Option<DisplacedName> {
        let link = fs::read_link(&self.path).ok().map(|target| target.into_os_string().into_vec());
        if link == self.link && (self.link.is_some() || fs::symlink_metadata(&self.path).is_err()) {
            return None;
        }
        let (name, above) = (self.path.file_name()?, self.path.parent()?);
        // Not by its path: a folder on the way may be a link by now, and lead anywhere.
        let folder = open_folder(CWD, above).ok()?;
        let there = fs::symlink_metadata(&self.path).is_ok();
        let displaced = there.then(|| put_aside(&folder, above, name));
        if let Some(target) = &self.link {
            symlinkat(target.as_slice(), &folder, name).ok()?;
        }
        Some(displaced.unwrap_or_else(|| DisplacedName::PutBack(lossy(&self.path))))
    }
}

impl OpenedFolder {
    /// Gives other names to what was made in a folder and not permitted.
    fn clear(&self, path: &Path) -> Vec<DisplacedName> {
        let is_folder = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        if !is_folder {
            return if self.known.is_empty() {
                Guard::of_absent(path.to_owned()).restore().into_iter().collect()
            } else {
                Vec::new()
            };
        }
        let Ok(folder) = open_folder(CWD, path) else { return Vec::new() };
        let Ok(entries) = Dir::read_from(&folder) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let is_new = |name: &Vec<u8>| name != b"." && name != b".." && !self.known.contains(name);
        let mut displaced = Vec::new();
        for name in names.filter(is_new) {
            let name = OsStr::from_bytes(&name);
            let child = path.join(name);
            if self.permitted.iter().any(|permitted| child.starts_with(permitted)) {
                continue;
            }
            let inner: Vec<PathBuf> =
                self.permitted.iter().filter(|permitted| permitted.starts_with(&child)).cloned().collect();
            if inner.is_empty() {
                displaced.push(put_aside(&folder, path, name));
            } else {
                displaced.extend(Guard::of_opened(child, BTreeSet::new(), inner).end());
            }
        }
        displaced
    }
}

/// Gives what has a name in an open folder, whose path is told, another one, at which nobody looks for it.
pub(super) fn put_aside(folder: impl AsFd, above: &Path, name: &OsStr) -> DisplacedName {
    let path = lossy(&above.join(name));
    let aside = (1..=MOST_ASIDE).find_map(|number| {
        let mut aside = name.to_owned();
        aside.push(if number == 1 { ".untrusted".to_owned() } else { format!(".untrusted-{number}") });
        let moved = match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
            // Some file systems, mostly those of networks, cannot do that in one step.
            Err(Errno::INVAL) if statat(&folder, &aside, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
                renameat(&folder, name, &folder, &aside)
            }
            other => other,
        };
        moved.is_ok().then_some(aside)
    });
    match aside {
        Some(aside) => DisplacedName::Renamed { to: lossy(&above.join(aside)), path },
        None => DisplacedName::Stuck(path),
    }
}

/// A folder below another one, reached without following a link. It can be read.
pub(super) fn open_folder(base: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
}

/// A path as it is told to people.
pub(super) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_become_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        symlink("elsewhere", path("link")).unwrap();
        let absent = Guard::of_all_absent([path("hooks"), path("none/x")]);
        assert_eq!(absent, [Guard::of_absent(path("hooks"))]);
        let link = Guard::of_link(path("link"), "elsewhere".into());
        assert_eq!((absent[0].restore(), link.restore()), (None, None));

        fs::create_dir(path("hooks")).unwrap();
        fs::write(path("hooks/pre-commit"), "x").unwrap();
        fs::remove_file(path("link")).unwrap();
        fs::write(path("link"), "x").unwrap();
        let renamed = |name: &str, to: &str| {
            Some(DisplacedName::Renamed { path: lossy(&path(name)), to: lossy(&path(to)) })
        };
        assert_eq!(absent[0].restore(), renamed("hooks", "hooks.untrusted"));
        assert_eq!(link.restore(), renamed("link", "link.untrusted"));
        assert!(!path("hooks").exists());
        // Nothing is lost: a person may have made it while a program ran.
        assert_eq!(fs::read_to_string(path("hooks.untrusted/pre-commit")).unwrap(), "x");
        fs::write(path("hooks"), "again").unwrap();
        assert_eq!(absent[0].restore(), renamed("hooks", "hooks.untrusted-2"));
        assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("elsewhere"));
        fs::remove_file(path("link")).unwrap();
        assert_eq!(link.restore(), Some(DisplacedName::PutBack(lossy(&path("link")))));
        assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("elsewhere"));
    }

    #[test]
    fn what_was_permitted_stays_and_what_is_beside_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let permitted = vec![path("ci/workflows/one.yml")];
        let guard = Guard::of_opened(path("ci"), BTreeSet::from([b"old".to_vec()]), permitted);
        assert_eq!(guard.end(), []);
        for name in ["ci/old", "ci/new", "ci/workflows/one.yml", "ci/workflows/two.yml"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "x").unwrap();
        }
        let mut moved: Vec<String> = guard.end().iter().map(ToString::to_string).collect();
        moved.sort();
        let told = |name: &str| format!("{0} was renamed to {0}.untrusted", path(name).display());
        assert_eq!(moved, [told("ci/new"), told("ci/workflows/two.yml")]);
        assert!(path("ci/old").exists() && path("ci/workflows/one.yml").exists());
    }

    #[test]
    fn a_link_on_the_way_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let guard = Guard::of_absent(path("git/hooks"));
        fs::create_dir_all(path("person/hooks")).unwrap();
        symlink(path("person"), path("git")).unwrap();
        assert_eq!(guard.restore(), None);
        assert!(path("person/hooks").exists());
    }
}
