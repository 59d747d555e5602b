//! Where paths lead, and which folder they are relative to.
//!
//! A line may change folders on the way. Since loops and conditions decide whether it does, every path is then resolved
//! from each of them, unless nothing at all runs where the line was before.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::scope::{PathAccess, Scope, real};

use super::mentions::WRITERS;
use super::programs::listed;
use super::repositories;
use super::word::CommandWord;

/// More folders than this are not followed.
const FOLDERS_MAX: usize = 8;

/// Looking at more paths than this would take too long.
const PATHS_MAX: usize = 20_000;

/// Paths, and what is wanted from them.
pub(super) type OutsidePaths = Vec<(PathBuf, PathAccess)>;

/// The folders that a line may be in.
#[derive(Debug)]
pub(super) struct PossibleFolders<'a> {
    scope: &'a Scope,
    known: Vec<PathBuf>,
    /// A folder cannot be told.
    pub(super) lost: bool,
    /// Nothing runs in the known folders any more once the line goes to another one.
    pub(super) left: bool,
    /// The line goes up from a folder, which a loop may repeat.
    pub(super) climbs: bool,
    /// A path goes up from something that is not a folder yet: if the line makes it a link, the path leads elsewhere.
    pub(super) unfounded: Cell<bool>,
    /// What was found out about paths in these folders: the same words come again and again.
    looked: RefCell<HashMap<(String, bool, PathAccess), OutsidePaths>>,
    /// How many paths were looked at.
    looks: Cell<usize>,
}

impl<'a> PossibleFolders<'a> {
    pub(super) fn new(workdir: &Path, scope: &'a Scope) -> Self {
        Self {
            scope,
            known: vec![workdir.to_owned()],
            lost: false,
            left: false,
            climbs: false,
            unfounded: Cell::new(false),
            looked: RefCell::default(),
            looks: Cell::new(0),
        }
    }

    /// Whether a relative path means the same as in the folder where the session works.
    pub(super) fn home(&self) -> bool {
        !self.lost && self.known == [self.scope.directory.clone()]
    }

    /// Whether git would find another repository than the project's own in one of the folders.
    pub(super) fn foreign(&self) -> bool {
        self.lost || self.known.iter().any(|folder| repositories::foreign(folder, self.scope))
    }

    /// Whether one of the folders is not the project's root, where `.git` is the project's own.
    pub(super) fn deeper(&self) -> bool {
        self.lost || self.known.iter().any(|folder| *folder != self.scope.worktree)
    }

    /// Whether a program may put files into folders of the project that make a repository of them.
    pub(super) fn fills(name: &str, arguments: &[CommandWord]) -> bool {
        let archives = "bsdcpio unar curl wget";
        let others = "cd pushd rm rmdir unlink shred truncate chmod chown chgrp chattr setfacl mktemp touch";
        // Content cannot bring empty folders, but the line can.
        let needed = |word: &CommandWord| {
            word.known().is_none_or(|text| text.split('/').any(|part| matches!(part, "objects" | "refs")))
        };
        match name {
            "mkdir" => arguments.iter().any(needed),
            _ => listed(archives, name) || listed(WRITERS, name) && !listed(others, name),
        }
    }

    /// Follows a command that changes folders.
    pub(super) fn enter(&mut self, arguments: &[CommandWord]) {
        let target: Vec<&CommandWord> =
            arguments.iter().filter(|word| !matches!(word.known(), Some("-L" | "--"))).collect();
        let text = match target.as_slice() {
            [] => Some("~"),
            [one] => one.known().filter(|text| !text.starts_with(['-', '+'])),
            _ => None,
        };
        let tilde = target.is_empty() || target.iter().all(|word| word.tilde);
        let Some(places) = text.and_then(|text| self.resolve(text, tilde)) else {
            self.lost = true;
            return;
        };
        self.climbs |= text.is_some_and(|text| text.split('/').any(|part| part == ".."));
        if self.left {
            self.known.clear();
        }
        self.looked.take();
        for place in places {
            if !self.known.contains(&place) {
                self.known.push(place);
            }
        }
        self.lost |= self.known.len() > FOLDERS_MAX;
    }

    /// Where a path may be; nothing if that cannot be told. `..` behind a link is the parent of where the link leads,
    /// but `cd` takes it for the parent of the link.
    pub(super) fn resolve(&self, path: &str, tilde: bool) -> Option<Vec<PathBuf>> {
        let (folders, path) = if tilde {
            let rest = path.strip_prefix('~')?;
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
            let home = Some(&self.scope.home).filter(|home| home.is_absolute())?;
            (vec![home.clone()], rest.trim_start_matches('/'))
        } else {
            (self.known.clone(), path)
        };
        let mut places = Vec::new();
        for folder in folders {
            let written = Scope { directory: folder.clone(), ..self.scope.clone() }.resolve(path);
            let followed = climbs(path).then(|| follow(&folder, path)).flatten();
            self.unfounded.set(self.unfounded.get() || climbs(path) && followed.is_none());
            let other = followed.filter(|followed| real(followed) != real(&written));
            places.extend([Some(written), other].into_iter().flatten());
        }
        Some(places)
    }

    /// Where a path may be, as far as that is outside the project, or git's own and to be changed.
    pub(super) fn beyond(&self, path: &str, tilde: bool, access: PathAccess) -> OutsidePaths {
        let key = (path.to_owned(), tilde, access);
        if let Some(known) = self.looked.borrow().get(&key) {
            return known.clone();
        }
        // Each step up is looked at by itself.
        (0..=path.matches("..").count()).for_each(|_| self.look());
        let places = self.resolve(path, tilde).unwrap_or_else(|| vec![PathBuf::from("/")]);
        let outside =
            |place: &PathBuf| !device(place, access) && !self.scope.external(place, access).is_empty();
        let found: OutsidePaths = places.into_iter().filter(outside).map(|place| (place, access)).collect();
        self.looked.borrow_mut().insert(key, found.clone());
        found
    }

    /// Counts a path that is looked at.
    pub(super) fn look(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    /// Whether too many paths were looked at already.
    pub(super) fn tired(&self) -> bool {
        self.looks.get() > PATHS_MAX
    }
}

/// Whether a path goes up from a folder that it names itself.
fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Where the system finds a path, links followed before `..`; nothing if it goes up from something that is not a folder
/// yet.
fn follow(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    let mut named = false;
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                let from = real(&place);
                if named && !from.is_dir() {
                    return None;
                }
                place = from.parent().unwrap_or(&from).to_owned();
            }
            Component::Normal(name) => {
                place.push(name);
                named = true;
            }
            Component::RootDir => place = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(place)
}

/// Devices that keep nothing, and descriptors that are open already. Those for reading may be files, and opening them
/// by name to write writes the file.
pub(super) fn device(path: &Path, access: PathAccess) -> bool {
    let text = path.to_string_lossy();
    if access == PathAccess::Write {
        return matches!(
            &*text,
            "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/full"
        );
    }
    matches!(&*text, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/full")
        || text
            .strip_prefix("/dev/fd/")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}
