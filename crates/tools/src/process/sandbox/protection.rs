//! Files that can be read and not changed, inside of a project that can be changed.
//!
//! A protected file is mounted on itself, read-only. So is, without that, every folder between a repository's `.git` and
//! what is protected in it: what is mounted on can be neither moved away nor replaced, and with its folder the file would
//! go.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::fault::{MOVED, SandboxFault, during};
use super::guard::Guard;
use super::policy::SandboxPolicy;
use super::repository::git_folders;
use super::settled::{SettledPlaces, SurveyedProjects};
use super::spares::Spares;
use super::stage::{Stage, attach, copy_at, identity, look, look_at_name, target};
use super::survey::ProjectSurvey;
use crate::protected::IN_GIT;

/// How much a protected folder may hold for something in it to be opened alone.
const MOST_BESIDE: usize = 256;

/// How many names are protected in all. Each takes some microseconds.
const MOST: usize = 16_384;

/// Why not everything can be protected that must be.
#[derive(Debug, thiserror::Error)]
enum ProtectionFault {
    #[error("there are {0} protected names, and at most {MOST} can be mounted")]
    TooMany(usize),
    #[error("a repository has more submodules and worktrees than are looked at, or one that cannot be read")]
    Untold,
}

/// What is protected: each path with the folder from which on what leads to it must stay where it is.
///
/// For a name in a project that is the folder that it lies in. The folders above can be moved: to mount them as well
/// would keep every file from being moved from one to the other. What takes their place is found in the end.
pub(super) fn protected(
    policy: &SandboxPolicy,
    surveys: &[ProjectSurvey],
) -> Result<Vec<(PathBuf, PathBuf)>, SandboxFault> {
    let untold = || during("protecting files")(io::Error::other(ProtectionFault::Untold));
    let above = |path: &PathBuf| (path.parent().unwrap_or(path).to_owned(), path.clone());
    let names = surveys.iter().flat_map(|survey| survey.mounted().chain(&survey.leads));
    let names = names.chain(&policy.protected).map(above);
    let mut of_git: Vec<(PathBuf, PathBuf)> = Vec::new();
    for survey in surveys {
        of_git.extend(survey.all_git().ok_or_else(untold)?);
    }
    for git in &policy.repositories {
        let all = git_folders(git).ok_or_else(untold)?;
        of_git.extend(all.into_iter().map(|folder| (git.clone(), folder)));
    }
    let in_git = of_git.iter().flat_map(|(above, git)| IN_GIT.map(|name| (above.clone(), git.join(name))));
    let mut all: Vec<(PathBuf, PathBuf)> =
        names.chain(in_git).filter(|(_, path)| !policy.permits(path)).collect();
    if all.len() > MOST {
        return Err(during("protecting files")(io::Error::other(ProtectionFault::TooMany(all.len()))));
    }
    all.sort_by(|one, other| one.1.cmp(&other.1));
    all.dedup_by(|one, other| one.1 == other.1);
    Ok(all)
}

/// Protects what must be, as it was found before the new root covered anything, below what is writable. Names that can only be looked at in the end are
/// the result.
pub(super) fn protect(
    stage: &Stage,
    mut spares: Spares<'_>,
    policy: &SandboxPolicy,
    projects: &SurveyedProjects,
    protected: &[(PathBuf, PathBuf)],
    writable: &WritablePlaces,
) -> Result<Vec<Guard>, SandboxFault> {
    let SurveyedProjects { surveys, settled, .. } = projects;
    let seen = SeenFolders { folders: folders_of(surveys, protected), settled };
    // Before anything is read-only: a copy made afterwards would be too.
    let excepted = surveys.iter().flat_map(|survey| &survey.excepted).filter_map(|path| {
        let tree = copy_at(stage.find(path).ok()?).ok()?;
        Some((path, tree))
    });
    let mut excepted: Vec<(&PathBuf, OwnedFd)> = excepted.collect();
    excepted.sort_by_key(|(path, _)| *path);
    let mut excepted = excepted.into_iter().peekable();

    let mut guards: Vec<Guard> = Vec::new();
    for (base, path) in protected {
        // Before what is protected in there, which would be covered.
        while let Some((inner, tree)) = excepted.next_if(|(inner, _)| *inner < path) {
            stage.find(inner).and_then(|place| attach(&tree, place)).map_err(during(inner.display()))?;
        }
        let permitted = policy.permitted_in(path);
        if writable.are(path) && !permitted.is_empty() {
            // It is open for what was permitted in it alone.
            let around = protect_around(stage, &mut spares, path, &permitted);
            guards.extend(around.map_err(during(path.display()))?);
        } else if writable.are_around(path) {
            let seen = writable.show(path).then_some(&seen);
            let one = protect_one(stage, &mut spares, policy, seen, (base, path));
            guards.extend(one.map_err(during(path.display()))?);
        }
    }
    guards.dedup();
    for (path, tree) in excepted {
        stage.find(path).and_then(|place| attach(&tree, place)).map_err(during(path.display()))?;
    }
    Ok(guards)
}

/// What can be changed in the new root.
#[derive(Debug)]
pub(super) struct WritablePlaces {
    /// Everything that was put there, and whether that can be changed.
    pub(super) places: BTreeMap<PathBuf, bool>,
    /// What can be changed.
    pub(super) writable: Vec<PathBuf>,
}

impl WritablePlaces {
    /// Whether a path is one of them.
    fn are(&self, path: &Path) -> bool {
        self.writable.iter().any(|outer| path == outer)
    }

    /// Whether a path lies in one of them.
    fn are_around(&self, path: &Path) -> bool {
        self.writable.iter().any(|outer| path.starts_with(outer) && path != outer)
    }

    /// The same, and nothing else covers it there.
    fn show(&self, path: &Path) -> bool {
        path.ancestors().skip(1).find_map(|above| self.places.get(above)).copied().unwrap_or_default()
    }
}

/// What was there when the projects were looked at. What it does not fit any more could not be protected: a folder that is
/// away for a moment comes back with all that is in it.
struct SeenFolders<'a> {
    /// The folders with something protected in them, by their numbers.
    folders: HashMap<PathBuf, u64>,
    settled: &'a SettledPlaces,
}

impl SeenFolders<'_> {
    /// Whether a folder is another one by now, or nothing is at its path.
    fn is_moved(&self, folder: &Path, now: Option<u64>) -> bool {
        self.folders.get(folder).is_some_and(|then| now != Some(*then))
    }

    /// Whether something is missing that was there.
    fn is_gone(&self, path: &Path) -> bool {
        let above = path.parent().and_then(|above| self.folders.get(above));
        above.is_some_and(|above| self.settled.was_in(path, *above))
    }
}

/// The folders that something protected lies in, as they were.
fn folders_of(surveys: &[ProjectSurvey], protected: &[(PathBuf, PathBuf)]) -> HashMap<PathBuf, u64> {
    let bases: HashSet<&Path> = protected.iter().map(|(base, _)| base.as_path()).collect();
    let each = surveys.iter().flat_map(|survey| {
        let inside = bases.iter().filter_map(|base| base.strip_prefix(&survey.root).ok());
        let inside: HashSet<&Path> = inside.collect();
        let found = survey.folders.iter().filter(move |folder| inside.contains(folder.path.as_path()));
        found.map(|folder| (survey.root.join(&folder.path), folder.inode))
    });
    each.collect()
}

/// Protects one name below something writable.
fn protect_one(
    stage: &Stage,
    spares: &mut Spares<'_>,
    policy: &SandboxPolicy,
    seen: Option<&SeenFolders<'_>>,
    (base, path): (&Path, &Path),
) -> rustix::io::Result<Vec<Guard>> {
    let permitted = policy.permitted_in(path);
    let mut at = base.to_owned();
    let found = match stage.find(base) {
        // It is not shown, or was not there.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
        other => Some(other?),
    };
    let now = found.as_ref().map(identity).transpose()?.map(|(_, inode)| inode);
    if seen.is_some_and(|seen| seen.is_moved(base, now)) {
        return Err(MOVED);
    }
    let Some(mut folder) = found else { return Ok(Vec::new()) };
    let is_gone = || seen.is_some_and(|seen| seen.is_gone(path));
    for name in path.strip_prefix(base).unwrap_or(path) {
        let name = Path::new(name);
        at.push(name);
        let is_last = at == path;
        let found = match look_at_name(&folder, name) {
            Err(Errno::NOENT) if is_gone() => return Err(MOVED),
            // What is in a folder that is not there yet belongs to whoever makes the folder.
            Err(Errno::NOENT) if !is_last => return Ok(Vec::new()),
            Err(Errno::NOENT) if permitted.is_empty() => return Ok(vec![Guard::of_absent(at)]),
            Err(Errno::NOENT) => return Ok(vec![Guard::of_opened(at, BTreeSet::new(), permitted)]),
            other => other?,
        };
        let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
        if kind.is_symlink() {
            return Ok(vec![Guard::of_link(at, target(&found)?)]);
        }
        if is_last && kind.is_dir() && !permitted.is_empty() {
            return protect_around(stage, spares, &at, &permitted);
        }
        // A file in the way of a protected name says where it leads: `.git` of a worktree.
        let is_end = is_last || !kind.is_dir();
        if is_end {
            spares.close(&found, &at)?;
            return Ok(Vec::new());
        }
        spares.pin(&found, &at)?;
        folder = look(&folder, name)?;
    }
    Ok(Vec::new())
}

/// Protects what is in a folder, but for what was permitted: whatever else is there is mounted on itself, read-only, and
/// what is made beside it gets another name in the end. So a file can be replaced as a whole, and one that is not there can
/// be made. Of a folder with too much in it nothing is open.
fn protect_around(
    stage: &Stage,
    spares: &mut Spares<'_>,
    at: &Path,
    permitted: &[PathBuf],
) -> rustix::io::Result<Vec<Guard>> {
    let found = stage.find(at)?;
    let listed = openat(&found, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let names = Dir::read_from(&listed)?.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
    let known: BTreeSet<Vec<u8>> = names.filter(|name| name != b"." && name != b"..").collect();
    if known.len() > MOST_BESIDE {
        spares.close(&found, at)?;
        return Ok(Vec::new());
    }
    spares.pin(&found, at)?;
    let folder = stage.find(at)?;
    let mut guards = Vec::new();
    for name in &known {
        let name = Path::new(OsStr::from_bytes(name));
        let child = at.join(name);
        if permitted.contains(&child) {
            continue;
        }
        let found = match look_at_name(&folder, name) {
            // It is gone since it was listed.
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
        let inner: Vec<PathBuf> =
            permitted.iter().filter(|permitted| permitted.starts_with(&child)).cloned().collect();
        if kind.is_symlink() {
            guards.push(Guard::of_link(child, target(&found)?));
        } else if kind.is_dir() && !inner.is_empty() {
            guards.extend(protect_around(stage, spares, &child, &inner)?);
        } else {
            spares.close(&found, &child)?;
        }
    }
    guards.push(Guard::of_opened(at.to_owned(), known, permitted.to_vec()));
    Ok(guards)
}
