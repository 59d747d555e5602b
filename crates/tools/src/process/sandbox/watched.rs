//! Places at which nothing may be made: they are not there, or may be another program's.
//!
//! What is hidden can be covered only where it is there, and git's own names in a folder of git's can be mounted only where
//! they are. So the rest is looked at in the end, also where folders on the way to it are missing.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use rustix::fs::{AtFlags, CWD, FileType, lstat, statat};

use super::access::{FolderAccess, is_gone};
use super::aftermath::{Identity, changed, identity, put_folder_aside};
use super::guard::{Guard, lossy, put_aside};
use super::made_file::MadeFiles;
use super::policy::{SandboxPolicy, is_of_system};
use super::report::DisplacedName;
use super::repository::git_folders;
use super::settled::SettledPlaces;
use super::survey::{Changed, ProjectSurvey, coarse_time};

/// How many links are followed that lead to nothing.
const MOST_LINKS: usize = 8;

/// What something is, and when it was changed last.
pub(super) type SeenThing = (Identity, Changed);

/// Looks at things so that they can be told later from what has taken their place, or was changed.
#[derive(Debug)]
pub(super) struct Sight {
    /// How often the clock is waited for.
    patience: Cell<usize>,
}

/// How long the clock is waited for each time, and how often: longer than one tick of it, and for all things together.
const TICK: Duration = Duration::from_millis(2);
const TICKS: usize = 10;

impl Sight {
    pub(super) fn new() -> Self {
        Self { patience: Cell::new(TICKS) }
    }

    /// What is at a path. A change in the same tick of the clock would not show, so that is waited for; what goes on
    /// changing cannot be told.
    pub(super) fn see(&self, path: &Path) -> Option<SeenThing> {
        loop {
            let now = coarse_time();
            let this = lstat(path).ok()?;
            if changed(&this) < now {
                return Some((identity(&this), changed(&this)));
            }
            self.patience.set(self.patience.get().checked_sub(1)?);
            thread::sleep(TICK);
        }
    }

    /// The same with all that is in it; nothing if that is too much.
    pub(super) fn see_all(&self, path: &Path) -> Option<Vec<SeenThing>> {
        all_in(path, |path| self.see(path))
    }
}

/// How many files and folders of one thing are told apart from others.
const MOST_INSIDE: usize = 1000;

/// What something is, and what all that is in it is.
pub(super) fn all_in(path: &Path, see: impl Fn(&Path) -> Option<SeenThing>) -> Option<Vec<SeenThing>> {
    let mut next = vec![path.to_owned()];
    let mut found = Vec::new();
    while let Some(path) = next.pop() {
        found.push(see(&path).filter(|_| found.len() < MOST_INSIDE)?);
        if fs::symlink_metadata(&path).ok()?.is_dir() {
            let entries = fs::read_dir(&path).ok()?.take(MOST_INSIDE + 1);
            let mut inner =
                entries.map(|entry| Some(entry.ok()?.path())).collect::<Option<Vec<PathBuf>>>()?;
            inner.sort();
            next.append(&mut inner);
        }
    }
    Some(found)
}

/// Whether what is at a path now is exactly what was seen there, with all that was in it.
pub(super) fn is_all_as_seen(path: &Path, seen: &[SeenThing]) -> bool {
    let see = |path: &Path| lstat(path).ok().map(|this| (identity(&this), changed(&this)));
    all_in(path, see).is_some_and(|now| now == seen)
}

/// Whether what is at a path now is exactly what was seen there.
pub(super) fn is_as_seen(path: &Path, seen: Option<SeenThing>) -> bool {
    lstat(path).is_ok_and(|this| seen == Some((identity(&this), changed(&this))))
}

/// What something protected leads to; what a policy hides where programs can make something, and the links on the way to it; where there is none, the places
/// that others would look for it at.
pub(super) fn watched(policy: &SandboxPolicy, surveys: &[ProjectSurvey]) -> Vec<PathBuf> {
    let roots = || policy.writable.iter().chain(surveys.iter().map(|survey| &survey.root));
    let mut places: Vec<PathBuf> = policy.protected.clone();
    let leads = surveys.iter().flat_map(|survey| &survey.leads);
    places.extend(leads.filter(|path| surveys.iter().any(|survey| path.starts_with(&survey.root))).cloned());
    for hidden in &policy.hidden {
        let is_near = || roots().any(|root| hidden.starts_with(root));
        if is_of_system(hidden) && !is_near() {
            continue;
        }
        let real = real_place(hidden);
        if !is_near() && !roots().any(|root| real.starts_with(root)) {
            continue;
        }
        if real != *hidden {
            let way = hidden.ancestors().filter(|path| path.is_symlink());
            let inside =
                way.filter(|path| roots().any(|root| path.starts_with(root) && *path != root.as_path()));
            places.extend(inside.map(Path::to_owned));
        }
        places.push(real);
    }
    places
}

/// Where a path leads, or would if it were there.
fn real_place(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some((there, rest)) = deepest(&at) else { break };
        if let Ok(real) = fs::canonicalize(there) {
            return real.join(rest).components().collect();
        }
        // A link to where nothing is.
        let (Ok(target), Some(above)) = (fs::read_link(there), there.parent()) else { break };
        at = above.join(target).join(rest);
    }
    path.to_owned()
}

/// The deepest folder on the way to a path that is there, and what follows.
fn deepest(path: &Path) -> Option<(&Path, &Path)> {
    let there = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok())?;
    Some((there, path.strip_prefix(there).ok()?))
}

/// The folders of git's that are mounted, those of worktrees and submodules among them. Where they cannot be told, no
/// program starts.
pub(super) fn mounted_git(policy: &SandboxPolicy, surveys: &[ProjectSurvey]) -> Vec<PathBuf> {
    let inside = surveys.iter().filter_map(ProjectSurvey::all_git).flatten().map(|(_, git)| git);
    let elsewhere = policy.repositories.iter().filter_map(|git| git_folders(git)).flatten();
    inside.chain(elsewhere).collect()
}

/// A place that is looked at in the end.
#[derive(Debug)]
pub(super) enum WatchedPlace {
    /// Nothing is there, nor at the first path on the way.
    Absent { path: PathBuf, first: PathBuf },
    /// There is a link, and nothing can be mounted on one.
    Link(Guard),
    /// What is there may be another program's. It stays if it is exactly as it was.
    Unsettled { path: PathBuf, seen: Option<SeenThing> },
}

impl WatchedPlace {
    /// Before a program begins; nothing for what the path decides about.
    pub(super) fn of(path: &Path, settled: &SettledPlaces, sight: &Sight) -> Option<Self> {
        let path = path.to_owned();
        if fs::symlink_metadata(&path).is_err() {
            let (there, rest) = deepest(&path)?;
            let first = there.join(rest.components().next()?);
            return Some(Self::Absent { path, first });
        }
        if !settled.has(&path) {
            return Some(Self::Unsettled { seen: sight.see(&path), path });
        }
        let target = fs::read_link(&path).ok()?;
        Some(Self::Link(Guard::of_link(path, target)))
    }

    /// Whether nothing was there, and there is now what another program has put back, or what tools have made.
    pub(super) fn may_stay(&self, settled: &SettledPlaces, made: &MadeFiles) -> bool {
        match self {
            Self::Absent { path, .. } => settled.has(path) || made.are_all_at(path),
            Self::Unsettled { path, .. } => made.are_all_at(path),
            Self::Link(_) => false,
        }
    }

    /// Gives another name to what must not stay.
    pub(super) fn judge(&self, access: &mut FolderAccess) -> Vec<DisplacedName> {
        match self {
            Self::Absent { path, first } => empty(path, first, access).into_iter().collect(),
            Self::Link(guard) => guard.end(access),
            Self::Unsettled { path, seen } => {
                // What a folder on the way has closed is opened to see it.
                path.parent().map(|above| access.open(CWD, above));
                let is_other = lstat(path).is_ok() && !is_as_seen(path, *seen);
                if is_other { put_folder_aside(path, access) } else { Vec::new() }
            }
        }
    }
}

/// Gives another name to what is at a path, or to a link on the way to it. Before the first path on the way there is none.
fn empty(path: &Path, first: &Path, access: &mut FolderAccess) -> Option<DisplacedName> {
    let mut above = first.parent()?.to_owned();
    let mut folder = match access.open(CWD, &above) {
        Err(error) if is_gone(error) => return None,
        other => other.map_err(|_| DisplacedName::Unseen(lossy(path))),
    };
    for name in path.strip_prefix(&above).ok()? {
        let open = match folder {
            Err(unseen) => return Some(unseen),
            Ok(open) => open,
        };
        let this = statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let kind = FileType::from_raw_mode(this.st_mode);
        if kind.is_symlink() || above.join(name) == path {
            return Some(put_aside(&open, &above, name));
        }
        if !kind.is_dir() {
            return None;
        }
        folder = access.open(&open, Path::new(name)).map_err(|_| put_aside(&open, &above, name));
        above.push(name);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told_from_what_takes_its_place_and_from_what_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // Most looks come in the same tick of the clock as the change before, and another one would not show in it.
        for turn in 0..20 {
            fs::write(&path, turn.to_string()).unwrap();
            let seen = Sight::new().see(&path).unwrap();
            assert!(is_as_seen(&path, Some(seen)) && seen.1 < coarse_time());
            fs::write(&path, "x").unwrap();
            assert!(!is_as_seen(&path, Some(seen)), "{turn}");
        }
        let (this, changed) = Sight::new().see(&path).unwrap();
        assert!(!is_as_seen(&path, Some(((this.0, this.1 + 1), changed))));
        assert!(!is_as_seen(&path, None));
    }

    #[test]
    fn a_thing_with_too_much_in_it_cannot_be_told() {
        let folder = tempfile::tempdir().unwrap();
        let see = || all_in(folder.path(), |path| lstat(path).ok().map(|this| (identity(&this), (0, 0))));
        for number in 1..MOST_INSIDE {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(see().map(|seen| seen.len()), Some(MOST_INSIDE));
        fs::write(folder.path().join("last"), "").unwrap();
        assert_eq!(see(), None);
    }
}
