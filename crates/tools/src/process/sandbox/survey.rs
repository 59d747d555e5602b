//! What of a project must be protected, at every depth, as it is just before a program starts.
//!
//! The process that starts programs keeps an index of the folders of each project, so that looking again costs one call
//! for each folder: only those that changed are read. That goes by the time of the last change of the inode, which
//! programs cannot set. A project with more than the bounds below is not worked in: what lies beyond them could not be
//! protected. A program cannot take it there, because what it makes is counted in the end.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, statat};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::exact_path;
use super::folder_index::{FolderContent, FolderFindings, FolderIndex, FolderKind, FolderWalk};
use super::hard_links::other_names;
use super::leads::leads;
use super::policy::SandboxPolicy;
use super::put_aside_name::is_put_aside;
use super::repository::git_folders;
use super::tracked;
use crate::protected::{has_protected_name, is_plans, plans_in};
use crate::protected_home::{HomePlace, ProtectedHome};

/// How many folders of a project are looked at, besides those that tools fill.
const MOST_FOLDERS: usize = 65_536;

/// How deep below the root they may lie.
const DEEPEST: usize = 128;

/// The longest path that one may have, in bytes. What lies in it must be found by its path too.
const LONGEST: usize = 3584;

/// How many projects are kept in mind.
const MOST_PROJECTS: usize = 16;

/// Folders that tools fill with what others wrote, or with what they make of it. Nobody opens one to work in it, they
/// have more folders than all the rest, and what lies in them must stay as its checksums say. They are not looked into.
pub(super) const FILLED_BY_TOOLS: [&str; 19] = [
    ".cache",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".pnpm-store",
    ".pytest_cache",
    ".terraform",
    ".tox",
    ".venv",
    "Pods",
    "__pycache__",
    "_cacache",
    "_deps",
    "bower_components",
    "node_modules",
    "target",
    "vendor",
    "venv",
];

/// When a folder was changed: seconds and nanoseconds.
pub(super) type Changed = (i64, i64);

/// What there is of a project's protected names when a program starts. All paths are real ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct ProjectSurvey {
    /// The project.
    #[serde(with = "exact_path")]
    pub(super) root: PathBuf,
    /// Its folders, those nearer to its root first.
    pub(super) folders: Vec<SurveyedFolder>,
    /// How many more there may be.
    pub(super) room: usize,
    /// Places in it, below the root, that are not looked into: what tools have there, and what is hidden.
    #[serde(with = "exact_path::list")]
    pub(super) passed_over: Vec<PathBuf>,
    /// What must not be changed.
    #[serde(with = "exact_path::list")]
    pub(super) names: Vec<PathBuf>,
    /// What lies in it and can be changed all the same.
    #[serde(with = "exact_path::list")]
    pub(super) excepted: Vec<PathBuf>,
    /// What must not be changed because something protected leads to it, also where it is not there.
    #[serde(with = "exact_path::list")]
    pub(super) leads: Vec<PathBuf>,
    /// The home folder that it is, has in it, or lies in a protected place of.
    pub(super) home: ProtectedHome,
    /// All links in it, but for those in folders that are passed over.
    #[serde(skip)]
    pub(super) links: Vec<PathBuf>,
    /// Those of them that are in something protected.
    #[serde(with = "exact_path::list")]
    pub(super) protected_links: Vec<PathBuf>,
    /// The files in protected folders.
    #[serde(skip)]
    pub(super) protected_files: Vec<PathBuf>,
    /// The folders of git's in it, without those of their worktrees and submodules.
    #[serde(with = "exact_path::list")]
    pub(super) git: Vec<PathBuf>,
    /// Of the folders of git's, those of worktrees and submodules among them, the ones that are not mounted because nothing
    /// in them would run. They are looked at again in the end.
    #[serde(with = "exact_path::list")]
    pub(super) loose: BTreeSet<PathBuf>,
    /// The same of the names: copies of others, in repositories and worktrees that are in folders of the project.
    #[serde(with = "exact_path::list")]
    pub(super) copies: BTreeSet<PathBuf>,
}

/// A folder of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SurveyedFolder {
    /// Where it is, below the root.
    #[serde(with = "exact_path")]
    pub(super) path: PathBuf,
    /// The number by which the file system knows it.
    pub(super) inode: u64,
}

/// Why commands are not started in a project: not all of it could be protected.
#[derive(Debug, thiserror::Error)]
enum SurveyFault {
    #[error(
        "{0} has more than {MOST_FOLDERS} folders, besides those that tools fill: too many to look for protected files"
    )]
    TooMany(PathBuf),
    #[error("{0} lies too deep in the project to look for protected files in it")]
    TooDeep(PathBuf),
}

/// Looks at the projects of a policy as they are now. It waits for the disk.
pub(in crate::process) fn survey(policy: &SandboxPolicy) -> io::Result<Vec<ProjectSurvey>> {
    let home = policy.home.real();
    let look = |project: &PathBuf| {
        // What is listed of a project besides itself are places of tools, and nobody works in them.
        let listed = policy.readable.iter().chain(&policy.writable).chain(&policy.hidden);
        let inside = listed.filter_map(|path| path.strip_prefix(project).ok());
        let inside = inside.filter(|below| !below.as_os_str().is_empty()).map(Path::to_owned);
        let kept = |below: &PathBuf| !policy.projects.contains(&project.join(below));
        let root = fs::canonicalize(project)?;
        index_of(&root, &home.in_project(&root)).update(inside.filter(kept).collect())
    };
    let mut surveys: Vec<ProjectSurvey> = policy.projects.iter().map(look).collect::<io::Result<_>>()?;
    tracked::check(policy, &surveys)?;
    for survey in &mut surveys {
        survey.leads = leads(survey, &policy.repositories, policy.home.folder())?;
        survey.leads.extend(other_names(survey));
    }
    Ok(surveys)
}

/// What there is of a project at its root alone: one that is too large to be looked through.
pub(super) fn survey_root(root: &Path, home: &ProtectedHome) -> ProjectSurvey {
    let home = home.in_project(root);
    let FolderFindings { names, git, links, protected_links, .. } =
        read(open_here(root).as_ref(), root, Path::new(""), &home).findings;
    ProjectSurvey {
        root: root.to_owned(),
        names,
        git,
        links,
        protected_links,
        home,
        ..ProjectSurvey::default()
    }
}

/// Whether a folder at a place below a root is one that the next look would reach.
pub(super) fn is_within_reach(root: &Path, below: &Path) -> bool {
    below.components().count() <= DEEPEST && root.as_os_str().len() + below.as_os_str().len() < LONGEST
}

/// The index of a project. Nothing but time is lost with one that is not kept in mind.
fn index_of(root: &Path, home: &ProtectedHome) -> KnownProject {
    let mut projects = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let at = projects.iter().position(|known| known.root == root && known.home == *home);
    let new = || KnownProject { root: root.to_owned(), home: home.clone(), folders: Arc::default() };
    let known = at.map_or_else(new, |at| projects.remove(at));
    projects.truncate(MOST_PROJECTS - 1);
    projects.insert(0, known.clone());
    known
}

/// The projects that this process knows, the one that was looked at last first.
static KNOWN: Mutex<Vec<KnownProject>> = Mutex::new(Vec::new());

/// A project, with its folders as they were when they were looked at last.
#[derive(Debug, Clone)]
struct KnownProject {
    root: PathBuf,
    home: ProtectedHome,
    folders: Arc<Mutex<FolderIndex>>,
}

impl KnownProject {
    /// Looks at every folder but for those to be passed over, and reads those that changed.
    fn update(&self, passed_over: Vec<PathBuf>) -> io::Result<ProjectSurvey> {
        let mut known = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut walk = FolderWalk::over(mem::take(&mut *known));
        let survey = self.look(passed_over, &mut walk);
        *known = walk.end();
        survey
    }

    fn look(&self, passed_over: Vec<PathBuf>, walk: &mut FolderWalk) -> io::Result<ProjectSurvey> {
        let (root, home) = (self.root.clone(), self.home.clone());
        let mut survey = ProjectSurvey { root, home, ..ProjectSurvey::default() };
        let mut protected = 0;
        let skipped: HashSet<&Path> = passed_over.iter().map(PathBuf::as_path).collect();
        while let Some((below, kind)) = walk.next() {
            if skipped.contains(below.as_path()) {
                continue;
            }
            let now = coarse_time();
            let path = self.root.join(&below);
            if !is_within_reach(&self.root, &below) {
                return Err(io::Error::other(SurveyFault::TooDeep(path)));
            }
            let meta = match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => meta,
                Err(error) if below.as_os_str().is_empty() => return Err(error),
                _ => continue,
            };
            let mut inode = meta.ino();
            if !walk.recall((meta.ctime(), meta.ctime_nsec()), inode) {
                // Another folder may have its place by now: what is read and by what it is known must be one.
                let folder = open_here(&path);
                let meta = folder.as_ref().and_then(|folder| folder.metadata().ok()).unwrap_or(meta);
                let content = match kind {
                    FolderKind::Ordinary => read(folder.as_ref(), &path, &below, &self.home),
                    FolderKind::Protected => read_protected(folder.as_ref(), &path, &below),
                };
                inode = meta.ino();
                // A change in the same tick of the clock would not show.
                let changed = (meta.ctime(), meta.ctime_nsec());
                walk.learn((changed < now).then_some(changed), inode, content);
            }
            if let Some(found) = walk.findings() {
                survey.names.extend_from_slice(&found.names);
                survey.excepted.extend_from_slice(&found.excepted);
                survey.links.extend_from_slice(&found.links);
                survey.protected_links.extend_from_slice(&found.protected_links);
                survey.protected_files.extend_from_slice(&found.protected_files);
                survey.git.extend_from_slice(&found.git);
            }
            match kind {
                FolderKind::Ordinary => {
                    survey.folders.push(SurveyedFolder { path: below, inode });
                }
                FolderKind::Protected => protected += 1,
            }
            let room = MOST_FOLDERS.checked_sub(survey.folders.len() + protected);
            survey.room = room.ok_or_else(|| io::Error::other(SurveyFault::TooMany(self.root.clone())))?;
        }
        survey.passed_over = passed_over;
        Ok(survey)
    }
}

/// A folder, if it can be read and is no link.
fn open_here(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(File::from)
}

/// What is in an open folder: names, each with what it is.
fn entries(folder: Option<&File>) -> impl Iterator<Item = (OsString, FileType)> {
    let listed = folder.and_then(|folder| Some((folder, Dir::read_from(folder).ok()?)));
    listed.into_iter().flat_map(|(folder, entries)| {
        entries.flatten().filter_map(move |entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode)
                }
                kind => kind,
            };
            (name != "." && name != "..").then(|| (name.to_owned(), kind))
        })
    })
}

/// What is in a folder. One that cannot be read is looked into when a program has changed it.
fn read(folder: Option<&File>, path: &Path, below: &Path, home: &ProtectedHome) -> FolderContent {
    let above = path;
    let mut content = FolderContent::default();
    let found = &mut content.findings;
    let mut signs = GitSigns::default();
    for (name, kind) in entries(folder) {
        signs.see(&name);
        let (path, below) = (above.join(&name), below.join(&name));
        let place = PlaceKind::of(&path, &below, kind.is_dir(), home);
        if kind.is_symlink() {
            found.links.push(path.clone());
            found.protected_links.extend((place == PlaceKind::Protected).then(|| path.clone()));
        }
        match place {
            PlaceKind::Git => found.git.push(path),
            PlaceKind::Protected => {
                let name = PathBuf::from(name);
                let plans = plans_in(&path).filter(|_| kind.is_dir());
                let is_folder = |plans: &PathBuf| fs::symlink_metadata(plans).is_ok_and(|meta| meta.is_dir());
                if let Some(plans) = plans.filter(is_folder) {
                    found.excepted.push(plans);
                    content.folders.extend(plans_in(&name).map(|plans| (plans, FolderKind::Ordinary)));
                }
                // In a home folder there are too many, and links in them are the person's own.
                if kind.is_dir() && home.place(&path) == HomePlace::Ordinary {
                    content.folders.push((name, FolderKind::Protected));
                }
                found.names.push(path);
            }
            PlaceKind::Folder => content.folders.push((name.into(), FolderKind::Ordinary)),
            PlaceKind::Other => {}
        }
    }
    content.folders.sort_by(|(one, _), (other, _)| one.cmp(other));
    if signs.are_those_of_git() {
        // A repository without a work tree. What else is in it is looked at all the same: anybody can make the signs.
        found.git.push(path.to_owned());
    }
    content
}

/// What is in a folder that is protected: its links lead elsewhere.
fn read_protected(folder: Option<&File>, path: &Path, below: &Path) -> FolderContent {
    let mut content = FolderContent::default();
    for (name, kind) in entries(folder) {
        if kind.is_symlink() {
            content.findings.protected_links.push(path.join(&name));
        } else if kind.is_dir() && !is_plans(&below.join(&name)) {
            content.folders.push((name.into(), FolderKind::Protected));
        } else if kind.is_file() {
            content.findings.protected_files.push(path.join(&name));
        }
    }
    content
}

/// What something in a folder is to the sandbox, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// A folder of git's.
    Git,
    /// What must not be changed, or made.
    Protected,
    /// A folder that is looked into.
    Folder,
    /// Anything else, and folders that nobody works in.
    Other,
}

impl PlaceKind {
    /// By the path, which is that below the project too.
    pub(super) fn of(path: &Path, below: &Path, is_folder: bool, home: &ProtectedHome) -> Self {
        let name = below.file_name().unwrap_or_default();
        if is_put_aside(name) {
            // Also where any end of a name is protected.
            return Self::Other;
        }
        if name == ".git" {
            // What is no folder says where git's is.
            return if is_folder { Self::Git } else { Self::Protected };
        }
        match home.place(path) {
            HomePlace::Protected => return Self::Protected,
            HomePlace::Way => return if is_folder { Self::Folder } else { Self::Protected },
            HomePlace::Open => return Self::Other,
            HomePlace::Ordinary => {}
        }
        // By the whole path: a name can be protected because of folders that the project lies in.
        if has_protected_name(path) {
            Self::Protected
        } else if is_folder && !FILLED_BY_TOOLS.iter().any(|known| name == *known) {
            Self::Folder
        } else {
            Self::Other
        }
    }
}

/// What tells that a folder is one of git's, whatever its name. Git goes by the same.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GitSigns {
    head: bool,
    objects: bool,
    refs: bool,
    elsewhere: bool,
}

impl GitSigns {
    /// Those that are in a folder.
    pub(super) fn of(folder: &Path) -> Self {
        let mut signs = Self::default();
        let there = |name: &&str| fs::symlink_metadata(folder.join(name)).is_ok();
        let names = ["HEAD", "objects", "refs", "commondir"].into_iter().filter(there);
        names.for_each(|name| signs.see(OsStr::new(name)));
        signs
    }

    pub(super) fn see(&mut self, name: &OsStr) {
        self.head |= name == "HEAD";
        self.objects |= name == "objects";
        self.refs |= name == "refs";
        self.elsewhere |= name == "commondir";
    }

    pub(super) fn are_those_of_git(self) -> bool {
        self.head && (self.elsewhere || self.objects && self.refs)
    }
}

impl ProjectSurvey {
    /// What something at a path below the project is.
    pub(super) fn kind(&self, below: &Path, is_folder: bool) -> PlaceKind {
        PlaceKind::of(&self.root.join(below), below, is_folder, &self.home)
    }

    /// Whether something is the project's own, and not in a folder of it.
    pub(super) fn is_at_root(&self, path: &Path) -> bool {
        path.parent() == Some(self.root.as_path())
    }

    /// Whether a folder of git's is that of the project itself.
    pub(super) fn is_own(&self, git: &Path) -> bool {
        git == self.root || git == self.root.join(".git")
    }

    /// Files in folders of the project that say where a folder of git's is: those of worktrees and submodules.
    pub(super) fn git_links(&self) -> impl Iterator<Item = &PathBuf> {
        self.names.iter().filter(move |name| name.ends_with(".git") && !self.is_at_root(name))
    }

    /// What is mounted of the names. All at the root are, and nothing by which a worktree or a clone could not be removed:
    /// neither their `.git` nor copies.
    pub(super) fn mounted(&self) -> impl Iterator<Item = &PathBuf> {
        let names = self.names.iter().filter(move |name| !self.copies.contains(*name));
        names.filter(move |name| self.is_at_root(name) || !name.ends_with(".git"))
    }

    /// The repositories that are mounted: their folders of git's.
    pub(super) fn repositories(&self) -> impl Iterator<Item = &PathBuf> {
        self.git.iter().filter(move |git| !self.loose.contains(*git))
    }

    /// Those, with the ones of their worktrees and submodules; each with the folder above the outermost. Nothing if it
    /// cannot be told which they are.
    pub(super) fn all_git(&self) -> Option<Vec<(PathBuf, PathBuf)>> {
        let above = |git: &Path| git.parent().filter(|_| git != self.root).unwrap_or(git).to_owned();
        let each = self.repositories().map(|git| Some((above(git), git_folders(git)?)));
        let each: Option<Vec<(PathBuf, Vec<PathBuf>)>> = each.collect();
        let all = each?
            .into_iter()
            .flat_map(|(above, all)| all.into_iter().map(move |folder| (above.clone(), folder)));
        Some(all.filter(|(_, folder)| !self.loose.contains(folder)).collect())
    }
}

/// The clock by which the file system writes down when something is changed.
#[cfg(target_os = "linux")]
const FILE_CLOCK: ClockId = ClockId::RealtimeCoarse;
#[cfg(not(target_os = "linux"))]
const FILE_CLOCK: ClockId = ClockId::Realtime;

/// The time that the file system writes down for what is changed now.
pub(super) fn coarse_time() -> Changed {
    let now = clock_gettime(FILE_CLOCK);
    (now.tv_sec, now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(root: &Path) -> io::Result<ProjectSurvey> {
        let policy = SandboxPolicy { projects: vec![root.to_owned()], ..SandboxPolicy::default() };
        survey(&policy).map(|mut found| found.remove(0))
    }

    /// What a survey finds, below the project.
    fn check(root: &Path, folders: &[&str], names: &[&str], git: &[&str]) {
        let found = look(root).unwrap();
        let below = |paths: &[PathBuf]| {
            let mut paths: Vec<String> = paths
                .iter()
                .map(|path| path.strip_prefix(&found.root).unwrap_or(path).display().to_string())
                .collect();
            paths.sort();
            paths
        };
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let looked_at: Vec<PathBuf> = found.folders.iter().map(|folder| folder.path.clone()).collect();
        assert_eq!(
            (below(&looked_at), below(&found.names), below(&found.git)),
            (list(folders), list(names), list(git))
        );
    }

    #[test]
    fn protected_names_are_found_at_every_depth_and_again_after_changes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), "").unwrap();
        };
        for name in [
            "AGENTS.md",
            "a/b/.vscode/sub/tasks.json",
            "a/nested/.git/HEAD",
            "a/linked/.git",
            "bare/HEAD",
            "bare/objects/aa/x",
            "bare/refs/x",
            "node_modules/x/AGENTS.md",
        ] {
            write(name);
        }
        let names = ["AGENTS.md", "a/b/.vscode", "a/linked/.git"];
        let git = ["a/nested/.git", "bare"];
        let folders =
            ["", "a", "a/b", "a/linked", "a/nested", "bare", "bare/objects", "bare/objects/aa", "bare/refs"];
        check(folder.path(), &folders, &names, &git);
        check(folder.path(), &folders, &names, &git);

        // Every change shows at once, however soon after the last look it comes.
        for _ in 0..50 {
            write("a/b/claude.md");
            let names = ["AGENTS.md", "a/b/.vscode", "a/b/claude.md", "a/linked/.git"];
            check(folder.path(), &folders, &names, &git);
            fs::remove_file(folder.path().join("a/b/claude.md")).unwrap();
            check(folder.path(), &folders, &["AGENTS.md", "a/b/.vscode", "a/linked/.git"], &git);
        }
        fs::remove_dir_all(folder.path().join("a")).unwrap();
        let folders = ["", "bare", "bare/objects", "bare/objects/aa", "bare/refs"];
        check(folder.path(), &folders, &["AGENTS.md"], &["bare"]);
    }

    #[test]
    fn a_project_that_cannot_be_looked_through_is_not_worked_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let names: PathBuf = std::iter::repeat_n("d", DEEPEST).collect();
        fs::create_dir_all(root.join(&names)).unwrap();
        assert_eq!(look(&root).unwrap().room, MOST_FOLDERS - DEEPEST - 1);
        fs::create_dir(root.join(&names).join("d")).unwrap();
        let refused = look(&root).unwrap_err().to_string();
        assert!(
            refused.ends_with("lies too deep in the project to look for protected files in it"),
            "{refused}"
        );
        fs::rename(root.join("d"), root.join("d.untrusted")).unwrap();
        assert_eq!(look(&root).unwrap().folders.len(), 1);
        let long: PathBuf = std::iter::repeat_n("x".repeat(250), 15).collect();
        // Too long to be made at once.
        let half: PathBuf = long.components().take(8).collect();
        fs::create_dir_all(root.join(&half)).unwrap();
        fs::create_dir_all(root.join("rest").join(&half)).unwrap();
        fs::rename(root.join("rest"), root.join(&half).join("rest")).unwrap();
        assert!(look(&root).is_err());
    }

    #[test]
    fn places_of_tools_are_passed_over() {
        // All of a home folder's caches were looked at where it is the project.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["src", ".cargo/registry/a", "data/b", ".rustup/c"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let policy = SandboxPolicy {
            projects: vec![root.clone()],
            writable: vec![root.clone(), root.join(".cargo/registry")],
            readable: vec![root.join(".rustup")],
            hidden: vec![root.join("data")],
            ..SandboxPolicy::default()
        };
        let found = survey(&policy).unwrap().remove(0);
        let looked_at: Vec<&Path> = found.folders.iter().map(|folder| folder.path.as_path()).collect();
        assert_eq!(looked_at, ["", ".cargo", "src"].map(Path::new));
    }
}
