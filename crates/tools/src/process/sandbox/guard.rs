//! Protected names that no mount can protect: those that are not there, and links.
//!
//! Nothing can be mounted on them, so a program can put something there. It does not stay: what is there in the end gets
//! another name. Something that runs by itself the moment it appears is not held up by that.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat_with};
use rustix::process::fchdir;

use super::report::DisplacedName;

/// How many things that were put aside one name may have.
const MOST_ASIDE: usize = 100;

/// A protected name that has to be looked at in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guard {
    path: PathBuf,
    /// Where the link at this name leads; nothing if there was nothing.
    link: Option<PathBuf>,
}

impl Guard {
    /// For a name at which there is nothing.
    pub(super) fn of_absent(path: PathBuf) -> Self {
        Self { path, link: None }
    }

    /// For a link.
    pub(super) fn of_link(path: PathBuf, target: PathBuf) -> Self {
        Self { path, link: Some(target) }
    }

    /// Guards for every protected name that is not there, where nothing can be mounted at all.
    pub(super) fn of_all_absent(protected: &[PathBuf]) -> Vec<Self> {
        let absent = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
                && path.parent().is_some_and(Path::is_dir)
        };
        protected.iter().filter(absent).cloned().map(Self::of_absent).collect()
    }

    /// Puts the name back into the state that it had, if it has another. What is there is put aside and never deleted:
    /// a person may have made it while the program ran. It changes the folder that this process is in.
    pub(super) fn restore(&self) -> Option<DisplacedName> {
        if fs::read_link(&self.path).ok() == self.link
            && (self.link.is_some() || fs::symlink_metadata(&self.path).is_err())
        {
            return None;
        }
        let name = self.path.file_name()?;
        // Not by its path: a folder on the way may be a link by now, and lead anywhere.
        fchdir(parent(&self.path).ok()?).ok()?;
        let aside = put_aside(Path::new(name));
        if let Some(target) = &self.link {
            std::os::unix::fs::symlink(target, name).ok()?;
        }
        Some(DisplacedName {
            to: aside.map(|aside| self.path.with_file_name(aside)),
            path: self.path.clone(),
        })
    }
}

/// Gives what is at a name in the current folder another name, at which nobody looks for it.
fn put_aside(name: &Path) -> Option<PathBuf> {
    (1..=MOST_ASIDE).find_map(|number| {
        let mut aside = name.as_os_str().to_owned();
        aside.push(if number == 1 { ".untrusted".to_owned() } else { format!(".untrusted-{number}") });
        let moved = renameat_with(CWD, name, CWD, &aside, RenameFlags::NOREPLACE);
        moved.is_ok().then(|| aside.into())
    })
}

/// The folder that a path lies in, reached without following a link.
fn parent(path: &Path) -> rustix::io::Result<OwnedFd> {
    let folder = path.parent().unwrap_or(path);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

    use super::*;

    /// In a process of its own, because it changes the folder.
    fn check(test: &str, work: impl FnOnce()) {
        const INSIDE: &str = "GUARD_TEST_INSIDE";
        #[expect(clippy::disallowed_methods, reason = "it says which of the two processes this is")]
        if std::env::var(INSIDE).is_ok() {
            work();
            return;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let done = command.args(["--exact", test]).env(INSIDE, "1").stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }

    #[test]
    fn names_become_what_they_were() {
        check("process::sandbox::guard::tests::names_become_what_they_were", || {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
            symlink("elsewhere", path("link")).unwrap();
            let absent = Guard::of_all_absent(&[path("hooks"), path("none/x")]);
            assert_eq!(absent, [Guard::of_absent(path("hooks"))]);
            let link = Guard::of_link(path("link"), "elsewhere".into());
            assert_eq!((absent[0].restore(), link.restore()), (None, None));

            fs::create_dir(path("hooks")).unwrap();
            fs::write(path("hooks/pre-commit"), "x").unwrap();
            fs::remove_file(path("link")).unwrap();
            fs::write(path("link"), "x").unwrap();
            let displaced = |name: &str, to: &str| DisplacedName { path: path(name), to: Some(path(to)) };
            assert_eq!(absent[0].restore(), Some(displaced("hooks", "hooks.untrusted")));
            assert_eq!(link.restore(), Some(displaced("link", "link.untrusted")));
            assert!(!path("hooks").exists());
            // Nothing is lost: a person may have made it while a program ran.
            assert_eq!(fs::read_to_string(path("hooks.untrusted/pre-commit")).unwrap(), "x");
            fs::write(path("hooks"), "again").unwrap();
            assert_eq!(absent[0].restore(), Some(displaced("hooks", "hooks.untrusted-2")));
            assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("elsewhere"));
        });
    }

    #[test]
    fn nothing_is_moved_through_a_link() {
        check("process::sandbox::guard::tests::nothing_is_moved_through_a_link", || {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
            fs::create_dir(path("theirs")).unwrap();
            fs::write(path("theirs/workflows"), "kept").unwrap();
            let guard = Guard::of_absent(path("github/workflows"));
            symlink(path("theirs"), path("github")).unwrap();
            assert_eq!(guard.restore(), None);
            assert_eq!(fs::read_to_string(path("theirs/workflows")).unwrap(), "kept");
        });
    }
}
