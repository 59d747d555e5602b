//! What counts as having been there when a program began.
//!
//! A place that was there while no program ran is the person's, whatever they put there later: editors replace files by
//! renaming. One that appeared while a program ran may be that program's, which takes it away again and leaves another
//! to make it anew. So each program is told the places that are *settled*: those which are so for every program that
//! still runs there. For them the path decides in the end; at the others nothing stays but what is exactly as it was.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::exact_path;
use super::rebase::StoppedWorks;
use super::survey::{Changed, ProjectSurvey};

/// What a program is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct SurveyedProjects {
    /// Its projects as they are.
    pub(in crate::process) surveys: Vec<ProjectSurvey>,
    /// When the look at them began.
    pub(super) since: Changed,
    /// What of all that is watched is settled.
    pub(super) settled: SettledPlaces,
    /// Places that are watched besides the names and folders of git's in the projects: what is hidden, for example. They
    /// need not be there, nor the folders above them; what is made there gets another name in the end.
    #[serde(with = "exact_path::list")]
    pub(super) watched: Vec<PathBuf>,
    /// What git would go on with in them.
    pub(super) stopped: StoppedWorks,
}

/// Places that were there before any program that runs now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct SettledPlaces(#[serde(with = "exact_path::map")] HashMap<PathBuf, PlaceMark>);

/// By what a place is known, besides its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceMark {
    /// The number of the folder that it lies in: another folder with the same name is another place.
    above: u64,
    /// Where it leads, in bytes, if it is a link. Nothing can be mounted on one, so programs can change it.
    link: Option<Vec<u8>>,
}

impl PlaceMark {
    /// That of what is at a path now, if anything is.
    fn of(path: &Path) -> Option<Self> {
        let this = fs::symlink_metadata(path).ok()?;
        let above = fs::symlink_metadata(path.parent().unwrap_or(path)).ok()?.ino();
        let link = if this.is_symlink() { Some(fs::read_link(path).ok()?) } else { None };
        Some(Self { above, link: link.map(|target| target.into_os_string().into_vec()) })
    }
}

impl SettledPlaces {
    /// What is there of some places now, as if no program ran.
    pub(super) fn all(places: impl Iterator<Item = PathBuf>) -> Self {
        let there = places.filter_map(|path| PlaceMark::of(&path).map(|mark| (path, mark)));
        Self(there.collect())
    }

    /// Keeps what is settled for another program as well, as it was then, of what lies where that one can make something.
    pub(super) fn keep_common(&mut self, other: &Self, reach: &[PathBuf]) {
        self.0.retain(|path, mark| {
            if let Some(before) = other.0.get(path) {
                mark.clone_from(before);
                return true;
            }
            !reach.iter().any(|folder| path.starts_with(folder))
        });
    }

    /// Adds the links that are settled for another program and were missing here: that one puts them back when it ends,
    /// and they are nothing new then.
    pub(super) fn add_links(&mut self, other: &Self) {
        for (path, mark) in other.0.iter().filter(|(_, mark)| mark.link.is_some()) {
            self.0.entry(path.clone()).or_insert_with(|| mark.clone());
        }
    }

    /// The links among them, each with where it leads.
    pub(super) fn links(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let links = self.0.iter().filter_map(|(path, mark)| Some((path.as_path(), mark.link.as_deref()?)));
        links.map(|(path, target)| (path, Path::new(OsStr::from_bytes(target))))
    }

    /// Adds what is there of some places now.
    pub(super) fn add(&mut self, places: &[PathBuf]) {
        self.0.extend(Self::all(places.iter().cloned()).0);
    }

    /// Takes a place out, at which something can be changed.
    pub(super) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Whether a place is one of them, and is the same one still.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|mark| {
            let is_same =
                |now: PlaceMark| now.above == mark.above && (mark.link.is_none() || now.link == mark.link);
            PlaceMark::of(path).is_some_and(is_same)
        })
    }

    /// Whether something other than a link was there when it was looked at, in a folder with this number.
    pub(super) fn was_in(&self, path: &Path, above: u64) -> bool {
        self.0.get(path).is_some_and(|mark| mark.link.is_none() && mark.above == above)
    }

    /// Whether there is a link among them that leads to a target.
    pub(super) fn has_link(&self, path: &Path, target: &[u8]) -> bool {
        self.0.get(path).is_some_and(|mark| mark.link.as_deref() == Some(target))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_the_same_in_the_same_folder_and_with_the_same_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let replace = |name: &str, target: &str| {
            fs::remove_file(path(name)).unwrap();
            symlink(target, path(name)).unwrap();
        };
        fs::create_dir_all(path("sub")).unwrap();
        fs::write(path("sub/file"), "").unwrap();
        symlink("one", path("link")).unwrap();
        let settled = SettledPlaces::all(["sub/file", "link", "none"].map(path).into_iter());
        let check = |expected: [bool; 3]| {
            assert_eq!(["sub/file", "link", "none"].map(|name| settled.has(&path(name))), expected);
        };
        check([true, true, false]);
        replace("link", "other");
        fs::write(path("none"), "").unwrap();
        check([true, false, false]);
        replace("link", "one");
        fs::remove_file(path("sub/file")).unwrap();
        check([false, true, false]);
        // What is there is the person's, also if it is a link by now.
        symlink("x", path("sub/file")).unwrap();
        check([true, true, false]);
        fs::rename(path("sub"), path("gone")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("sub/file"), "").unwrap();
        check([false, true, false]);
    }

    #[test]
    fn what_was_there_is_known_by_its_folder_and_a_link_may_go() {
        // What is missing keeps a command from starting, and a branch may not have a link.
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("sub/file"), "").unwrap();
        symlink("file", path("sub/link")).unwrap();
        let number = |name: &str| fs::metadata(path(name)).unwrap().ino();
        let names = ["sub/file", "sub/link", "sub/none"].map(path);
        let settled = SettledPlaces::all(names.clone().into_iter());
        let was_in = |above: u64| names.each_ref().map(|name| settled.was_in(name, above));
        let (above, other) = (number("sub"), number(""));
        names.iter().take(2).for_each(|name| fs::remove_file(name).unwrap());
        assert_eq!((was_in(above), was_in(other)), ([true, false, false], [false; 3]));
    }
}
