//! What is protected in a home folder, where that is a project, lies in one or was permitted.
//!
//! There is no list of what shells, desktops, editors and debuggers run from there, and none would be whole: every name in
//! it that begins with a dot is protected, but for caches. So are the folders that programs are started from by name.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protected::is_plans;

/// Folders of programs that many people have in their home folder.
const PROGRAMS: [&str; 2] = ["bin", "go/bin"];

/// A home folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedHome {
    /// Where it is. It is not known if this is not absolute.
    folder: PathBuf,
    /// What in it can be changed although a name on the way to it begins with a dot.
    open: Vec<PathBuf>,
    /// Folders of programs.
    programs: Vec<PathBuf>,
}

/// What something in a home folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HomePlace {
    /// It must not be changed, or made.
    Protected,
    /// A folder that leads to something open: whatever else is in it is protected.
    Way,
    /// It can be changed.
    Open,
    /// It is like anything else in a project.
    Ordinary,
}

impl ProtectedHome {
    /// A home folder in which some places are open, and others have programs.
    pub(crate) fn new<'a>(
        folder: &Path,
        open: impl IntoIterator<Item = &'a PathBuf>,
        programs: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Self {
        if folder.parent().is_none() {
            return Self::default();
        }
        let inside = |path: &&PathBuf| path.starts_with(folder) && path.as_path() != folder;
        let open = open.into_iter().filter(inside).cloned().collect();
        let usual = PROGRAMS.map(|name| folder.join(name));
        // The home folder may be a link, and they may be named by where it leads, or the other way round.
        let real = fs::canonicalize(folder).ok();
        let by_name = |path: &PathBuf| {
            let found = || Some(folder.join(fs::canonicalize(path).ok()?.strip_prefix(real.as_ref()?).ok()?));
            if path.starts_with(folder) { Some(path.clone()) } else { found() }
        };
        let programs = programs.into_iter().filter_map(by_name).filter(|path| path != folder);
        let programs = usual.into_iter().chain(programs).collect();
        Self { folder: folder.to_owned(), open, programs }
    }

    /// Where it is, if that is known.
    pub(crate) fn folder(&self) -> Option<&Path> {
        Some(self.folder.as_path()).filter(|folder| folder.is_absolute())
    }

    /// Whether it is a folder, or lies in it.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        self.folder.starts_with(folder)
    }

    /// What of it counts in a folder that is a project or was permitted: all of it if it lies in there, or if the folder
    /// is one of the protected places. An ordinary folder may have programs of its own, such as those of an environment;
    /// of those only the usual ones count.
    pub(crate) fn in_project(&self, root: &Path) -> Self {
        if self.is_in(root) || self.closes(root) {
            return self.clone();
        }
        let usual = self.folder().into_iter().flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
        let programs: Vec<PathBuf> = usual.filter(|place| place.starts_with(root)).collect();
        if programs.is_empty() {
            return Self::default();
        }
        Self { folder: self.folder.clone(), open: Vec::new(), programs }
    }

    /// Whether a folder is, or lies in, what is protected in it.
    pub(crate) fn closes(&self, folder: &Path) -> bool {
        matches!(self.place(folder), HomePlace::Protected | HomePlace::Way)
    }

    /// The same, by real paths.
    pub(crate) fn real(&self) -> Self {
        let Some(real) = self.folder().and_then(|folder| fs::canonicalize(folder).ok()) else {
            return self.clone();
        };
        let move_to =
            |path: &PathBuf| path.strip_prefix(&self.folder).map_or(path.clone(), |below| real.join(below));
        let all = |paths: &[PathBuf]| paths.iter().map(move_to).collect();
        Self { open: all(&self.open), programs: all(&self.programs), folder: real.clone() }
    }

    /// What is at a path.
    pub(crate) fn place(&self, path: &Path) -> HomePlace {
        let below = self.folder().and_then(|folder| path.strip_prefix(folder).ok());
        let Some(first) = below.and_then(|below| below.iter().next()) else { return HomePlace::Ordinary };
        let is_in = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        if is_in(&self.open) {
            HomePlace::Open
        } else if is_in(&self.programs) {
            HomePlace::Protected
        } else if !first.as_encoded_bytes().starts_with(b".") || path.ancestors().any(is_plans) {
            HomePlace::Ordinary
        } else if self.open.iter().any(|open| open.starts_with(path)) {
            HomePlace::Way
        } else {
            HomePlace::Protected
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dot_are_protected_but_for_what_is_open() {
        let open = [PathBuf::from("/me/.cargo/registry"), "/me".into(), "/elsewhere".into()];
        // One that is the home folder itself has everything in it.
        let programs = [PathBuf::from("/me/my/programs"), "/usr/bin".into(), "/me".into()];
        let home = ProtectedHome::new(Path::new("/me"), &open, &programs);
        for (path, expected) in [
            ("/me/.bashrc", HomePlace::Protected),
            ("/me/.config/i3/config", HomePlace::Protected),
            ("/me/.cargo", HomePlace::Way),
            ("/me/.cargo/env", HomePlace::Protected),
            ("/me/.cargo/registry/x", HomePlace::Open),
            ("/me/bin", HomePlace::Protected),
            ("/me/my", HomePlace::Ordinary),
            ("/me/my/programs/x", HomePlace::Protected),
            ("/me/src/.x", HomePlace::Ordinary),
            ("/me/.opencode/plans/a.md", HomePlace::Ordinary),
            ("/me/.opencode/agent", HomePlace::Protected),
            ("/me", HomePlace::Ordinary),
            ("/usr/bin", HomePlace::Ordinary),
            ("/.x", HomePlace::Ordinary),
        ] {
            assert_eq!(home.place(Path::new(path)), expected, "{path}");
        }
        for nowhere in ["", "/", "me"] {
            let home = ProtectedHome::new(Path::new(nowhere), &open, &programs);
            assert_eq!(
                (home.place(Path::new("/.x")), home.is_in(Path::new("/"))),
                (HomePlace::Ordinary, false)
            );
        }
    }

    #[test]
    fn a_home_folder_that_a_link_leads_to_is_protected_by_its_real_path() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir(base.join("real")).unwrap();
        std::os::unix::fs::symlink("real", base.join("me")).unwrap();
        let [open, programs] = [".cache", "tools"].map(|name| [base.join("me").join(name)]);
        let home = ProtectedHome::new(&base.join("me"), &open, &programs).real();
        let places =
            [".bashrc", ".cache/x", "tools", "src"].map(|name| home.place(&base.join("real").join(name)));
        let expected = [HomePlace::Protected, HomePlace::Open, HomePlace::Protected, HomePlace::Ordinary];
        assert_eq!(places, expected);
    }

    #[test]
    fn programs_are_found_by_every_name_of_the_home_folder() {
        // They could be changed where `PATH` names the real folder, and `HOME` a link to it.
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/scripts")).unwrap();
        std::os::unix::fs::symlink("real", base.join("me")).unwrap();
        for (home, programs) in [("me", "real"), ("real", "me"), ("me", "me")] {
            let home = ProtectedHome::new(&base.join(home), [], [&base.join(programs).join("scripts")]);
            assert_eq!(home.real().place(&base.join("real/scripts/x")), HomePlace::Protected);
            assert_eq!(home.real().place(&base.join("real/other")), HomePlace::Ordinary);
        }
    }
}
