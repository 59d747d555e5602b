//! What repository a folder belongs to, and which one it is wherever it lies.
//!
//! A repository is known by its root commit, the one without parents, which every clone has and no move changes. Of
//! several roots (histories that were joined, branches that share nothing) the smallest hash is taken: any rule would
//! do that gives the same answer in every clone that has them all. The edge of a shallow clone looks like a root and is
//! none; such a repository is known by its edge until it is complete.
//!
//! The folder is found by looking, as git does, and not by asking it, so that variables such as `GIT_DIR` lead nowhere.
//! git is asked for the root commit only, without the variables of whoever started us, without anything that a
//! repository can have it run, and not for longer than ten seconds.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::regular_file;

/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most that is read of what git prints, and of a file of git's.
const LISTED: u64 = 1024 * 1024;

/// A repository on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The folder with `.git` in it.
    pub root: PathBuf,
    /// Where git keeps what belongs to this folder alone, such as what is checked out.
    pub git: PathBuf,
    /// Where its history is: the same folder for all worktrees of one repository, another one for each clone.
    pub history: PathBuf,
    /// Its `.git`, to be known again.
    pub mark: RepositoryMark,
    /// Whether its history is cut off.
    pub shallow: bool,
}

/// What the file system says of a repository's `.git`: it goes along when a folder is renamed, and a copy has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryMark {
    /// The file system; it may have another number after a restart.
    pub device: u64,
    /// The number within it.
    pub inode: u64,
    /// When it was made, where the file system keeps that, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<u64>,
}

impl RepositoryMark {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        let born = meta.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let born = born.and_then(|since| u64::try_from(since.as_nanos()).ok()).filter(|born| *born > 0);
        Some(Self { device: meta.dev(), inode: meta.ino(), born })
    }

    /// Whether both are of one `.git` that was renamed, as far as one can tell.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.inode == other.inode && self.born == other.born
    }

    /// Whether both are surely of one `.git`.
    #[must_use]
    pub fn is_surely(&self, other: &Self) -> bool {
        self.born.is_some() && self.is_same(other)
    }
}

/// Which repository it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryIdentity {
    /// The one with this root commit.
    Root(String),
    /// One whose root is not here; this is the edge of what is.
    Edge(String),
    /// One without a commit: it has no identity yet.
    Unborn,
    /// Nobody can tell: git is missing, refuses, or takes too long.
    Unknown,
}

/// The repository that a folder belongs to: that of the nearest folder upwards that has one.
#[must_use]
pub fn repository(directory: &Path) -> Option<Repository> {
    directory.ancestors().find_map(|folder| {
        let entry = folder.join(".git");
        let git = match fs::metadata(&entry) {
            Ok(meta) if meta.is_dir() => entry.clone(),
            Ok(_) => {
                // A worktree or a submodule: a file that says where the rest is.
                let line = first_line(&entry)?;
                folder.join(line.strip_prefix("gitdir:")?.trim())
            }
            Err(_) => return None,
        };
        fs::symlink_metadata(git.join("HEAD")).ok()?;
        let history =
            first_line(&git.join("commondir")).map_or_else(|| git.clone(), |line| git.join(line.trim()));
        let history = fs::canonicalize(&history).unwrap_or(history);
        let shallow = fs::metadata(history.join("shallow")).is_ok_and(|file| file.len() > 0);
        Some(Repository { root: folder.to_owned(), git, history, mark: RepositoryMark::of(&entry)?, shallow })
    })
}

impl Repository {
    /// The branch that is checked out, if one is.
    #[must_use]
    pub fn branch(&self) -> Option<String> {
        let head = first_line(&self.git.join("HEAD"))?;
        head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
    }
}

/// The first line of a file of git's.
pub(crate) fn first_line(path: &Path) -> Option<String> {
    let mut text = String::new();
    regular_file::open(path).ok()?.0.take(LISTED).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Whether a place where a repository was has surely none any more: nothing is there, and the file system that it was
/// on is. A drive that is not connected has not lost what is on it.
#[must_use]
pub fn is_gone(root: &Path, mark: Option<&RepositoryMark>) -> bool {
    match fs::symlink_metadata(root.join(".git")) {
        Err(error) if crate::places::is_absent(&error) => {}
        _ => return false,
    }
    let Some(mark) = mark else { return true };
    let above = root.ancestors().find_map(|folder| fs::symlink_metadata(folder).ok());
    above.is_some_and(|above| above.dev() == mark.device)
}

/// What git reads before it says anything.
const READ_FIRST: [&str; 6] =
    ["HEAD", "commondir", "config", "config.worktree", "objects/info/alternates", "shallow"];

/// The same, where it may well be long.
const REFERENCES: &str = "packed-refs";

/// Whether nothing that git reads first is a pipe, a device or without end: it would wait, or take all memory.
fn is_plain(repository: &Repository) -> bool {
    let plain = |path: PathBuf, most: u64| {
        fs::metadata(path).map_or(true, |found| found.is_file() && found.len() <= most)
    };
    [&repository.git, &repository.history].into_iter().all(|folder| {
        READ_FIRST.iter().all(|name| plain(folder.join(name), LISTED))
            && plain(folder.join(REFERENCES), u64::MAX)
    })
}

/// Asks git which repository it is.
pub async fn identity(repository: &Repository) -> RepositoryIdentity {
    let asked = async { if is_plain(repository) { parentless(&repository.root).await } else { None } };
    let Some(roots) = timeout(PATIENCE, asked).await.ok().flatten() else {
        tracing::warn!(root = %repository.root.display(), "git does not say which repository this is");
        return RepositoryIdentity::Unknown;
    };
    let edge = if repository.shallow { edge(&repository.history) } else { Vec::new() };
    let least = |wanted: &dyn Fn(&&String) -> bool| roots.iter().filter(wanted).min().cloned();
    match (least(&|root| !edge.contains(root)), least(&|_| true)) {
        (Some(root), _) => RepositoryIdentity::Root(root),
        (None, Some(edge)) => RepositoryIdentity::Edge(edge),
        (None, None) => RepositoryIdentity::Unborn,
    }
}

/// The commits at which a shallow history is cut off.
fn edge(history: &Path) -> Vec<String> {
    let mut text = String::new();
    let opened = regular_file::open(&history.join("shallow")).ok();
    let read = opened.and_then(|(file, _)| file.take(LISTED).read_to_string(&mut text).ok());
    read.map(|_| text.lines().map(|line| line.trim().to_owned()).collect()).unwrap_or_default()
}

/// The variables by which git is told of another repository than that of its folder.
const REPOSITORY_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Further variables that would change what git looks at or where it writes.
const OTHER_VARIABLES: [&str; 16] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_REDIRECT_STDERR",
    "GIT_REDIRECT_STDOUT",
    "GIT_REF_PARANOIA",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
    "GIT_TRACE2_PERF",
    "GIT_TRACE_SETUP",
    "GIT_USE_NSEC",
];

/// git, about to list the commits without parents. The configuration of the person and of the machine counts: it says
/// whose repositories git may look at.
fn listing(root: &Path) -> Command {
    let mut git = Command::new("git");
    for name in REPOSITORY_VARIABLES.iter().chain(&OTHER_VARIABLES) {
        git.env_remove(name);
    }
    git.args(["--no-pager", "--no-optional-locks"])
        // A repository's own configuration names programs; these are the ones that could be run here.
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["rev-list", "--max-parents=0", "--all"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    // If git does not see a repository here, it must not take one further up.
    if let Some(above) = root.parent() {
        git.env("GIT_CEILING_DIRECTORIES", above);
    }
    git
}

/// The commits without parents.
async fn parentless(root: &Path) -> Option<Vec<String>> {
    let mut child = listing(root).spawn().ok()?;
    let mut text = String::new();
    child.stdout.take()?.take(LISTED).read_to_string(&mut text).await.ok()?;
    let complete = child.wait().await.is_ok_and(|status| status.success()) || text.len() as u64 == LISTED;
    let hashes =
        text.lines().filter(|line| line.len() >= 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit()));
    complete.then(|| hashes.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_heeds_the_configuration_of_the_machine() {
        // `safe.directory` in it was ignored, so that repositories of other accounts were never known.
        let git = listing(Path::new("/repository"));
        let mut names: Vec<_> =
            git.as_std().get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
        names.sort();
        let expected =
            ["GIT_ALLOW_PROTOCOL", "GIT_CEILING_DIRECTORIES", "GIT_NO_LAZY_FETCH", "GIT_TERMINAL_PROMPT"];
        assert_eq!(names, expected);
    }

    #[test]
    fn git_is_told_of_no_other_repository() {
        let listed =
            std::process::Command::new("git").args(["rev-parse", "--local-env-vars"]).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.lines().count() > 10, "git lists them: {listed}");
        let missing: Vec<_> = listed.lines().filter(|name| !REPOSITORY_VARIABLES.contains(name)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
