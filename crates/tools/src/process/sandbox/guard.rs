//! Protected names that no mount can protect: those that are not there, links, and what may be made beside something that
//! was permitted.
//!
//! Nothing can be mounted on them, so a program can put something there. It does not stay: what is there in the end gets
//! another name. Something that runs by itself the moment it appears is not held up by that.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, RenameFlags, readlinkat, renameat, renameat_with, statat, symlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::access::{FolderAccess, is_gone, writing};
use super::exact_path;
use super::own_content::break_links;
use super::put_aside_name::{ASIDE, is_put_aside};
use super::report::DisplacedName;

/// How many numbers are tried for what is put aside, and how many names without order.
const MOST_ASIDE: usize = 100;

/// A protected name that has to be looked at in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct Guard {
    #[serde(with = "exact_path")]
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

    /// The link that is put back in the end: where it is, and where it leads.
    pub(super) fn link(&self) -> Option<(&Path, &[u8])> {
        self.link.as_deref().map(|target| (self.path.as_path(), target))
    }

    /// The name at which there was nothing.
    pub(super) fn absent(&self) -> Option<&Path> {
        (self.link.is_none() && self.opened.is_none()).then_some(self.path.as_path())
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
    pub(super) fn end(&self, access: &mut FolderAccess) -> Vec<DisplacedName> {
        match &self.opened {
            Some(opened) => opened.clear(&self.path, access),
            None => self.restore(access).into_iter().collect(),
        }
    }

    /// Puts the name back into the state that it had, if it has another. What is there is put aside and never deleted:
    /// a person may have made it while the program ran.
    fn restore(&self, access: &mut FolderAccess) -> Option<DisplacedName> {
        let (name, above) = (self.path.file_name()?, self.path.parent()?);
        // Not by its path: a folder on the way may be a link by now, and lead anywhere.
        let folder = match access.open(CWD, above) {
            Err(error) if is_gone(error) => return None,
            Err(_) => return Some(DisplacedName::Unseen(lossy(&self.path))),
            Ok(folder) => folder,
        };
        let link = readlinkat(&folder, name, Vec::new()).ok().map(CString::into_bytes);
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if link == self.link && (self.link.is_some() || !there) {
            return None;
        }
        // A branch may not have it, and what is made there later is new. Git's own folder has the same on every branch.
        if !there && !self.path.iter().any(|name| name == ".git") {
            return None;
        }
        let displaced = there.then(|| put_aside(&folder, above, name));
        if let Some(target) = &self.link {
            writing(&folder, || symlinkat(target.as_slice(), &folder, name)).ok()?;
        }
        Some(displaced.unwrap_or_else(|| DisplacedName::PutBack(lossy(&self.path))))
    }
}

impl OpenedFolder {
    /// Gives other names to what was made in a folder and not permitted.
    fn clear(&self, path: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let folder = match access.open(CWD, path) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) if self.known.is_empty() => {
                return Guard::of_absent(path.to_owned()).end(access);
            }
            Err(error) if is_gone(error) => return Vec::new(),
            Err(_) => return vec![DisplacedName::Unseen(lossy(path))],
        };
        let Ok(entries) = Dir::read_from(&folder) else { return vec![DisplacedName::Unseen(lossy(path))] };
        let names = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let is_other = |name: &[u8]| matches!(name, b"." | b"..") || is_put_aside(OsStr::from_bytes(name));
        let is_new = |name: &Vec<u8>| !is_other(name) && !self.known.contains(name);
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
                displaced.append(&mut Guard::of_opened(child, BTreeSet::new(), inner).end(access));
            }
        }
        displaced
    }
}

/// The most of a name that is kept with that. The longest that a file system knows have 255 bytes.
const LONGEST_KEPT: usize = 200;

/// Gives what has a name in an open folder, whose path is told, another one, at which nobody looks for it.
pub(super) fn put_aside(folder: impl AsFd, above: &Path, name: &OsStr) -> DisplacedName {
    let path = lossy(&above.join(name));
    let kept = OsStr::from_bytes(name.as_bytes().get(..LONGEST_KEPT).unwrap_or(name.as_bytes()));
    let numbered = (1..=MOST_ASIDE).map(|number| match number {
        1 => ASIDE.to_owned(),
        number => format!("{ASIDE}-{number}"),
    });
    // A program can have taken all of those.
    let chosen = (0..MOST_ASIDE).map(|_| format!("{ASIDE}-{:016x}", RandomState::new().hash_one(0)));
    let aside = numbered.chain(chosen).find_map(|end| {
        let mut aside = kept.to_owned();
        aside.push(end);
        let moved = writing(&folder, || {
            match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
                // Some file systems, mostly those of networks, cannot do that in one step.
                Err(Errno::INVAL) if statat(&folder, &aside, AtFlags::SYMLINK_NOFOLLOW).is_err() => {
                    renameat(&folder, name, &folder, &aside)
                }
                other => other,
            }
        });
        moved.is_ok().then_some(aside)
    });
    match aside {
        Some(aside) => {
            break_links(&folder, &aside);
            DisplacedName::Renamed { to: lossy(&above.join(aside)), path }
        }
        None => DisplacedName::Stuck(path),
    }
}

/// A path as it is told to people.
pub(super) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn restore(guard: &Guard) -> Option<DisplacedName> {
        guard.restore(&mut FolderAccess::default())
    }

    #[test]
    fn names_become_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        symlink("elsewhere", path("link")).unwrap();
        let absent = Guard::of_all_absent([path("hooks"), path("none/x")]);
        assert_eq!(absent, [Guard::of_absent(path("hooks"))]);
        let link = Guard::of_link(path("link"), "elsewhere".into());
        assert_eq!((restore(&absent[0]), restore(&link)), (None, None));

        fs::create_dir(path("hooks")).unwrap();
        fs::write(path("hooks/pre-commit"), "x").unwrap();
        fs::remove_file(path("link")).unwrap();
        fs::write(path("link"), "x").unwrap();
        let renamed = |name: &str, to: &str| {
            Some(DisplacedName::Renamed { path: lossy(&path(name)), to: lossy(&path(to)) })
        };
        assert_eq!(restore(&absent[0]), renamed("hooks", "hooks.untrusted"));
        assert_eq!(restore(&link), renamed("link", "link.untrusted"));
        assert!(!path("hooks").exists());
        // Nothing is lost: a person may have made it while a program ran.
        assert_eq!(fs::read_to_string(path("hooks.untrusted/pre-commit")).unwrap(), "x");
        fs::write(path("hooks"), "again").unwrap();
        assert_eq!(restore(&absent[0]), renamed("hooks", "hooks.untrusted-2"));
        assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("elsewhere"));
        // What is gone stays so, but for what is git's own.
        fs::remove_file(path("link")).unwrap();
        assert_eq!(restore(&link), None);
        assert!(!path("link").is_symlink());
        let link = Guard::of_link(path(".git"), "elsewhere".into());
        assert_eq!(restore(&link), Some(DisplacedName::PutBack(lossy(&path(".git")))));
        assert_eq!(fs::read_link(path(".git")).unwrap(), Path::new("elsewhere"));
    }

    #[test]
    fn what_was_permitted_stays_and_what_is_beside_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let permitted = vec![path("ci/workflows/one.yml")];
        let guard = Guard::of_opened(path("ci"), BTreeSet::from([b"old".to_vec()]), permitted);
        let end = || guard.end(&mut FolderAccess::default());
        assert_eq!(end(), []);
        for name in ["ci/old", "ci/new", "ci/workflows/one.yml", "ci/workflows/two.yml"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "x").unwrap();
        }
        let mut moved: Vec<String> = end().iter().map(ToString::to_string).collect();
        moved.sort();
        let told = |name: &str| format!("{0} was renamed to {0}.untrusted", path(name).display());
        assert_eq!(moved, [told("ci/new"), told("ci/workflows/two.yml")]);
        assert!(path("ci/old").exists() && path("ci/workflows/one.yml").exists());
        // What has another name keeps it, also where the program of another guard had made it.
        assert_eq!(end(), []);
    }

    #[test]
    fn a_link_on_the_way_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let guard = Guard::of_absent(path("git/hooks"));
        fs::create_dir_all(path("person/hooks")).unwrap();
        symlink(path("person"), path("git")).unwrap();
        assert_eq!(restore(&guard), None);
        assert!(path("person/hooks").exists());
    }
}
