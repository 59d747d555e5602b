//! What of a project must be protected, at every depth, as it is just before a program starts.
//!
//! The process that starts programs keeps an index of the folders of each project, so that looking again costs one call
//! for each folder: only those that changed are read. That goes by the time of the last change of the inode, which
//! programs cannot set. The bounds below keep it cheap, and are what is not covered.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::repository::git_folders;
use crate::protected::{EXCEPTION, is_protected_name};

/// How many folders of a project are looked at. Those nearer to its root come first.
const MOST_FOLDERS: usize = 2048;

/// How deep below the root they may lie.
pub(super) const DEEPEST: usize = 16;

/// How many protected names are mounted below the root of a project. Those nearer to it come first.
const MOST_NAMES: usize = 128;

/// How many repositories are protected in a project. Those nearer to its root come first.
const MOST_REPOSITORIES: usize = 64;

/// How many projects are kept in mind.
const MOST_PROJECTS: usize = 16;

/// Folders that tools fill with what others wrote, or with what they make of it. Nobody opens one to work in it, they
/// have more folders than all the rest, and what lies in them must stay as its checksums say. They are not looked into.
const FILLED_BY_TOOLS: [&str; 18] = [
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
    "_deps",
    "bower_components",
    "node_modules",
    "target",
    "vendor",
    "venv",
];

/// When a folder was changed: seconds and nanoseconds.
pub(super) type Changed = (i64, i64);

/// What there is of a project's protected names when a program starts. All paths are real ones, and all can be written
/// as JSON: what is not UTF-8 is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct ProjectSurvey {
    /// The project.
    pub(super) root: PathBuf,
    /// Its folders, below the root, each with the number by which the file system knows it.
    pub(super) folders: Vec<(PathBuf, u64)>,
    /// What must not be changed.
    pub(super) names: Vec<PathBuf>,
    /// What lies in it and can be changed all the same.
    pub(super) excepted: Vec<PathBuf>,
    /// The folders of git's in it, without those of their worktrees and submodules.
    pub(super) git: Vec<PathBuf>,
    /// Whether there may be folders that were not looked at, besides those that tools fill.
    pub(super) partial: bool,
    /// Of the folders of git's, those of worktrees and submodules among them, the ones that are not mounted because nothing
    /// in them would run. They are looked at again in the end.
    #[serde(skip)]
    pub(super) loose: BTreeSet<PathBuf>,
    /// The same of the names: copies of others, in repositories and worktrees that are in folders of the project.
    #[serde(skip)]
    pub(super) copies: BTreeSet<PathBuf>,
}

/// Looks at projects as they are now. It waits for the disk.
pub(in crate::process) fn survey(projects: &[PathBuf]) -> io::Result<Vec<ProjectSurvey>> {
    projects.iter().map(|project| index_of(&fs::canonicalize(project)?).update()).collect()
}

/// The index of a project. Nothing but time is lost with one that is not kept in mind.
fn index_of(root: &Path) -> FolderIndex {
    let mut indexes = INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = indexes.iter().position(|index| index.root == root);
    let index = at.map_or_else(|| FolderIndex::new(root), |at| indexes.remove(at));
    indexes.truncate(MOST_PROJECTS - 1);
    indexes.insert(0, index.clone());
    index
}

/// The indexes of this process, the one that was used last first.
static INDEXES: Mutex<Vec<FolderIndex>> = Mutex::new(Vec::new());

/// The folders of one project, as they were when they were looked at last.
#[derive(Debug, Clone)]
struct FolderIndex {
    root: PathBuf,
    folders: Arc<Mutex<HashMap<PathBuf, IndexedFolder>>>,
}

/// What is in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct IndexedFolder {
    /// When it was changed last; nothing if it may have been changed since without that showing.
    changed: Option<Changed>,
    inode: u64,
    /// The folders in it that are looked at, below the root.
    folders: Vec<PathBuf>,
    names: Vec<PathBuf>,
    excepted: Vec<PathBuf>,
    git: Vec<PathBuf>,
    partial: bool,
}

impl FolderIndex {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), folders: Arc::default() }
    }

    /// Looks at every folder, and reads those that changed.
    fn update(&self) -> io::Result<ProjectSurvey> {
        let mut known = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashMap::with_capacity(known.len());
        let mut survey = ProjectSurvey { root: self.root.clone(), ..ProjectSurvey::default() };
        let mut next = VecDeque::from([PathBuf::new()]);
        while let Some(below) = next.pop_front() {
            let now = coarse_time();
            let path = self.root.join(&below);
            let meta = match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => meta,
                Err(error) if below.as_os_str().is_empty() => return Err(error),
                _ => continue,
            };
            let changed = (meta.ctime(), meta.ctime_nsec());
            let folder = match known.remove(&below) {
                Some(folder) if folder.changed == Some(changed) && folder.inode == meta.ino() => folder,
                _ => {
                    // A change in the same tick of the clock would not show.
                    let settled = (changed < now).then_some(changed);
                    IndexedFolder { changed: settled, inode: meta.ino(), ..read(&path, &below) }
                }
            };
            let deepest = below.components().count() >= DEEPEST;
            let room = MOST_FOLDERS.saturating_sub(survey.folders.len() + next.len() + 1);
            let room = if deepest { 0 } else { room };
            survey.partial |= folder.partial || folder.folders.len() > room;
            next.extend(folder.folders.iter().take(room).cloned());
            survey.names.extend(folder.names.iter().cloned());
            survey.excepted.extend(folder.excepted.iter().cloned());
            survey.git.extend(folder.git.iter().cloned());
            survey.folders.push((below.clone(), meta.ino()));
            seen.insert(below, folder);
        }
        *known = seen;
        Ok(survey)
    }
}

/// What is in a folder. What cannot be read, or written as JSON, is left out.
fn read(path: &Path, below: &Path) -> IndexedFolder {
    let mut folder = IndexedFolder::default();
    let mut signs = GitSigns::default();
    let Ok(entries) = fs::read_dir(path) else {
        folder.partial = true;
        return folder;
    };
    for entry in entries.flatten() {
        let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
        signs.see(&name);
        if name.to_str().is_none() {
            folder.partial |= kind.is_dir();
            continue;
        }
        match PlaceKind::of(&name, kind.is_dir()) {
            PlaceKind::Git => folder.git.push(entry.path()),
            PlaceKind::Protected => {
                let [outer, inner] = EXCEPTION;
                if kind.is_dir() && name.eq_ignore_ascii_case(outer) {
                    let excepted = entry.path().join(inner);
                    let is_folder = fs::symlink_metadata(&excepted).is_ok_and(|meta| meta.is_dir());
                    folder.excepted.extend(is_folder.then_some(excepted));
                }
                folder.names.push(entry.path());
            }
            PlaceKind::Folder => folder.folders.push(below.join(&name)),
            PlaceKind::Other => {}
        }
    }
    folder.folders.sort();
    if signs.are_those_of_git() {
        // A repository without a work tree. Its many folders of objects hold nothing that git would run.
        folder.git.push(path.to_owned());
        folder.folders.retain(|inner| !inner.ends_with("objects"));
    }
    folder
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
    Other,
}

impl PlaceKind {
    pub(super) fn of(name: &OsStr, is_folder: bool) -> Self {
        if name == ".git" {
            // What is no folder says where git's is.
            if is_folder { Self::Git } else { Self::Protected }
        } else if is_protected_name(name) {
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
    /// Whether something is the project's own, and not in a folder of it.
    pub(super) fn is_at_root(&self, path: &Path) -> bool {
        path.parent() == Some(self.root.as_path())
    }

    /// Whether a folder of git's is that of the project itself.
    pub(super) fn is_own(&self, git: &Path) -> bool {
        git == self.root || git == self.root.join(".git")
    }

    /// Files in folders of the project that say where a folder of git's is: those of worktrees and submodules.
    pub(super) fn links(&self) -> impl Iterator<Item = &PathBuf> {
        self.names.iter().filter(move |name| name.ends_with(".git") && !self.is_at_root(name))
    }

    /// What is mounted of the names. All at the root are, and nothing by which a worktree or a clone could not be removed:
    /// neither their `.git` nor copies.
    pub(super) fn mounted(&self) -> impl Iterator<Item = &PathBuf> {
        let mut room = MOST_NAMES;
        let names = self.names.iter().filter(move |name| !self.copies.contains(*name));
        let names = names.filter(move |name| self.is_at_root(name) || !name.ends_with(".git"));
        names.filter(move |name| {
            let at_root = self.is_at_root(name);
            let taken = at_root || room > 0;
            room = room.saturating_sub(usize::from(!at_root));
            taken
        })
    }

    /// The repositories that are mounted: their folders of git's.
    pub(super) fn repositories(&self) -> impl Iterator<Item = &PathBuf> {
        self.git.iter().filter(move |git| !self.loose.contains(*git)).take(MOST_REPOSITORIES)
    }

    /// Those, with the ones of their worktrees and submodules; each with the folder above the outermost.
    pub(super) fn all_git(&self) -> Vec<(PathBuf, PathBuf)> {
        let above = |git: &Path| git.parent().filter(|_| git != self.root).unwrap_or(git).to_owned();
        let each = self.repositories().map(|git| (above(git), git_folders(git)));
        let all = each.flat_map(|(above, all)| all.into_iter().map(move |folder| (above.clone(), folder)));
        all.filter(|(_, folder)| !self.loose.contains(folder)).collect()
    }
}

/// The time that the file system writes down for what is changed now.
pub(super) fn coarse_time() -> Changed {
    #[cfg(target_os = "linux")]
    let clock = ClockId::RealtimeCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Realtime;
    let now = clock_gettime(clock);
    (now.tv_sec, now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a survey finds, below the project.
    fn check(root: &Path, folders: &[&str], names: &[&str], git: &[&str]) {
        let found = survey(&[root.to_owned()]).unwrap().remove(0);
        let below = |paths: &[PathBuf]| {
            let mut paths: Vec<String> = paths
                .iter()
                .map(|path| path.strip_prefix(&found.root).unwrap_or(path).display().to_string())
                .collect();
            paths.sort();
            paths
        };
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let looked_at: Vec<PathBuf> = found.folders.iter().map(|(path, _)| path.clone()).collect();
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
        let folders = ["", "a", "a/b", "a/linked", "a/nested", "bare", "bare/refs"];
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
        check(folder.path(), &["", "bare", "bare/refs"], &["AGENTS.md"], &["bare"]);
    }

    #[test]
    fn what_is_nearer_to_the_root_comes_first_where_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for outer in 0..10 {
            for inner in 0..300 {
                fs::create_dir_all(root.join(format!("{outer}/{inner}"))).unwrap();
            }
            fs::write(root.join(format!("{outer}/AGENTS.md")), "").unwrap();
        }
        let found = survey(&[root]).unwrap().remove(0);
        assert_eq!((found.folders.len(), found.names.len(), found.partial), (MOST_FOLDERS, 10, true));
    }
}
