//! Looking through one project when a program has ended.
//!
//! It goes by paths below an open folder, and follows no link. A folder in which it cannot see everything, because it lies
//! too deep, holds too many others or cannot be opened, does not stay where it is: the outermost one that was not there
//! before gets another name, with all that is in it.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Stat, lstat, statat};
use rustix::io::Errno;

use super::access::{FolderAccess, is_gone};
use super::aftermath::{ProtectionWatch, WatchedProject, changed, put_folder_aside};
use super::guard::{Guard, lossy, put_aside};
use super::likeness::{is_copy, original};
use super::made_file::MadeFiles;
use super::new_repository::target;
use super::put_aside_name::is_put_aside;
use super::report::DisplacedName;
use super::survey::{GitSigns, PlaceKind, is_within_reach};
use crate::protected::{is_plans, plans_in};

/// How many protected names a project may have before copies of them do not stay any more.
pub(super) const MOST_NAMES: usize = 4096;

/// Whether a protected folder has nothing in it but a folder of plans.
fn has_only_plans(path: &Path) -> bool {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    is_folder(path)
        && plans_in(path).is_some_and(|plans| is_folder(&plans))
        && entries.all(|entry| is_plans(&entry.path()))
}

/// Looking through one project in the end.
pub(super) struct AftermathSearch<'a> {
    watch: &'a ProtectionWatch<'a>,
    project: &'a WatchedProject<'a>,
    made: &'a MadeFiles,
    access: &'a mut FolderAccess,
    root: OwnedFd,
    displaced: Vec<DisplacedName>,
    /// Folders that were not there and have been looked into.
    seen: HashSet<PathBuf>,
    /// How many more there may be.
    room: usize,
    /// How many protected names there are.
    names: usize,
}

/// That a folder cannot be looked into.
struct Unseen;

impl<'a> AftermathSearch<'a> {
    /// Gives other names to what must not stay in a project.
    pub(super) fn run(
        watch: &'a ProtectionWatch<'a>,
        project: &'a WatchedProject<'a>,
        made: &'a MadeFiles,
        access: &'a mut FolderAccess,
    ) -> Vec<DisplacedName> {
        let survey = project.survey;
        let root = match access.open(CWD, &survey.root) {
            Err(error) if is_gone(error) => return Vec::new(),
            Err(_) => return vec![DisplacedName::Unseen(lossy(&survey.root))],
            Ok(root) => root,
        };
        let (room, names) = (survey.room, survey.names.len());
        let (displaced, seen) = (Vec::new(), HashSet::new());
        let mut search = Self { watch, project, made, access, root, displaced, seen, room, names };
        search.judge_copies();
        search.judge_links();
        let new = search.look_into_known();
        for top in new {
            search.look_into_new(&top);
        }
        search.displaced
    }

    /// Copies in clones and worktrees that were changed, which does not change their folder.
    fn judge_copies(&mut self) {
        for copy in &self.project.survey.copies {
            let may_stay = self.is_copy(copy) || self.made.are_all_at(copy);
            if lstat(copy).is_ok() && !may_stay {
                self.displaced.append(&mut put_folder_aside(copy, self.access));
            }
        }
    }

    /// Files `.git` that were there.
    fn judge_links(&mut self) {
        let survey = self.project.survey;
        for (link, above) in survey.git_links().filter_map(|link| Some((link, link.parent()?))) {
            let Ok(this) = lstat(link) else { continue };
            let Ok(folder) = self.access.open(CWD, above) else { continue };
            if FileType::from_raw_mode(this.st_mode).is_dir() {
                continue;
            }
            if !self.project.is_unchanged(&this) {
                self.judge_link(&folder, above);
            } else if let Some(git) = target(&folder, above).filter(|git| self.is_in_use(git)) {
                // It may lead to where nothing else looks.
                if !self.watch.is_in_git(&git) && !self.project.is_known(&git) {
                    self.displaced.append(&mut self.watch.disarm_or_put_aside(&git, self.access));
                }
            }
        }
    }

    /// Looks into the folders that were there and have changed. The outermost ones that were not there are the result.
    fn look_into_known(&mut self) -> Vec<PathBuf> {
        let survey = self.project.survey;
        // Most programs change no folder, and then there is nothing to compare.
        let known: LazyCell<HashSet<&Path>, _> =
            LazyCell::new(|| survey.folders.iter().map(|folder| folder.path.as_path()).collect());
        let passed_over: HashSet<&Path> = survey.passed_over.iter().map(PathBuf::as_path).collect();
        let mut new = Vec::new();
        for folder in &survey.folders {
            let below = &folder.path;
            let at = if below.as_os_str().is_empty() { Path::new(".") } else { below.as_path() };
            match statat(&self.root, at, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT | Errno::NOTDIR) => self.room += 1,
                // Another folder has its place. What is in it may have been made long ago, elsewhere.
                Ok(stat) if stat.st_ino != folder.inode && !below.as_os_str().is_empty() => {
                    self.room += 1;
                    new.push(below.clone());
                }
                Ok(stat) if changed(&stat) < self.watch.since => {}
                Ok(_) | Err(_) => match self.look_into(below) {
                    Ok(inner) => new.extend(inner.into_iter().filter(|inner| {
                        !known.contains(inner.as_path()) && !passed_over.contains(inner.as_path())
                    })),
                    Err(Unseen) => {
                        self.displaced.push(DisplacedName::Unseen(lossy(&survey.root.join(below))));
                    }
                },
            }
        }
        new
    }

    /// Looks through a folder that was not there before.
    fn look_into_new(&mut self, top: &Path) {
        let room = self.room;
        let mut next = vec![top.to_owned()];
        while let Some(below) = next.pop() {
            if !self.seen.insert(below.clone()) {
                continue;
            }
            let rest =
                self.room.checked_sub(1).filter(|_| is_within_reach(&self.project.survey.root, &below));
            let inner = match rest {
                Some(_) => self.look_into(&below),
                None => Err(Unseen),
            };
            if let (Some(rest), Ok(inner)) = (rest, inner) {
                self.room = rest;
                next.extend(inner);
            } else {
                // What has another name does not count.
                self.room = room;
                let path = self.project.survey.root.join(top);
                self.displaced.append(&mut put_folder_aside(&path, self.access));
                return;
            }
        }
    }

    /// Gives other names to what must not stay in a folder. The folders in it are the result.
    fn look_into(&mut self, below: &Path) -> Result<Vec<PathBuf>, Unseen> {
        let above = self.project.survey.root.join(below);
        let folder = match self.access.open(&self.root, below) {
            Err(error) if is_gone(error) => return Ok(Vec::new()),
            other => other.map_err(|_| Unseen)?,
        };
        let mut signs = GitSigns::default();
        let mut found: Vec<(OsString, PlaceKind)> = Vec::new();
        for entry in Dir::read_from(&folder).map_err(|_| Unseen)? {
            let entry = entry.map_err(|_| Unseen)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            signs.see(name);
            let is_folder = match entry.file_type() {
                FileType::Unknown => statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
                kind => kind.is_dir(),
            };
            let kind = self.project.survey.kind(&below.join(name), is_folder);
            if kind != PlaceKind::Other {
                found.push((name.to_owned(), kind));
            }
        }
        if signs.are_those_of_git() && !self.was_there_as_git(&above) {
            self.displaced.append(&mut self.watch.disarm_one(&above).ok_or(Unseen)?);
        }
        let mut inner = Vec::new();
        for (name, kind) in found {
            let path = above.join(&name);
            match kind {
                PlaceKind::Folder => inner.push(below.join(&name)),
                _ if self.was_there(&folder, &path) || self.project.is_same_copy(&path) => {}
                _ if self.made.are_all_at(&path) => {}
                _ if self.watch.policy.permits(&path) => {}
                _ if !self.watch.policy.permitted_in(&path).is_empty() => {
                    // Of a repository the whole folder of git's was asked about.
                    if kind == PlaceKind::Protected {
                        let permitted = self.watch.policy.permitted_in(&path);
                        let guard = Guard::of_opened(path, BTreeSet::new(), permitted);
                        self.displaced.append(&mut guard.end(self.access));
                    }
                }
                PlaceKind::Git => {
                    self.displaced.append(&mut self.watch.disarm_or_put_aside(&path, self.access));
                }
                PlaceKind::Protected if name == ".git" => self.judge_link(&folder, &above),
                _ if self.names < MOST_NAMES && self.is_copy(&path) => self.names += 1,
                PlaceKind::Protected if has_only_plans(&path) => {
                    inner.extend(plans_in(&below.join(&name)));
                }
                PlaceKind::Protected | PlaceKind::Other => {
                    self.displaced.push(put_aside(&folder, &above, &name));
                }
            }
        }
        Ok(inner)
    }

    /// Whether a folder that is one of git's by what is in it was there before.
    fn was_there_as_git(&self, path: &Path) -> bool {
        self.watch.is_old_git(path) || self.project.is_known(path) && self.project.ends.hold_in_git(path)
    }

    /// Whether something was there before: at the same place, or elsewhere and was moved with the folder that it is in.
    fn was_there(&self, folder: &OwnedFd, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let is_link = path.ends_with(".git") && !self.project.survey.is_at_root(path);
        if !is_link && self.watch.settled.has(path) {
            return true;
        }
        let is_known = |this: Stat| {
            // Git changes its own folder all the time, and that one is mounted: nobody can have taken it away.
            let is_gits = name == ".git" && FileType::from_raw_mode(this.st_mode).is_dir();
            match is_gits {
                true => self.project.is_known_git(&this) && self.project.ends.hold_in_git(path),
                false => self.project.is_unchanged(&this) && self.project.ends.hold_in(path),
            }
        };
        statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_known)
    }

    /// Whether something says the same as what was there, or in the project's own work tree if this is another of its.
    fn is_copy(&self, path: &Path) -> bool {
        // Not with what has taken its place meanwhile.
        self.project.was_held(path)
            || self.project.is_same_copy(path)
            || original(self.project.survey, path)
                .filter(|known| self.watch.settled.has(known))
                .is_some_and(|known| is_copy(&known, path))
    }

    /// Whether something is in the project, and not in what has the other name.
    fn is_in_use(&self, path: &Path) -> bool {
        path.strip_prefix(&self.project.survey.root).is_ok_and(|below| !below.iter().any(is_put_aside))
    }

    /// A new file `.git` may lead to a folder of git's that is protected, or to one in the project that runs nothing.
    fn judge_link(&mut self, folder: &OwnedFd, above: &Path) {
        match target(folder, above) {
            Some(git) if !self.is_in_use(&git) && git.starts_with(&self.project.survey.root) => {
                self.displaced.push(put_aside(folder, above, ".git".as_ref()));
            }
            // What was made in there has been looked at.
            Some(git) if self.watch.is_in_git(&git) => {}
            Some(git) if self.project.is_known(&git) => {}
            Some(git) if self.is_in_use(&git) => {
                self.displaced.append(&mut self.watch.disarm_or_put_aside(&git, self.access));
            }
            _ => self.displaced.push(put_aside(folder, above, ".git".as_ref())),
        }
    }
}
