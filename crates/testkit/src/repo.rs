//! A temporary git repository with one commit, made by the real git.
//!
//! The user's own git settings do not reach it, and names and dates are fixed, so a tree has the same hashes on
//! every machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A repository that is removed when dropped.
#[derive(Debug)]
pub struct Repo {
    folder: TempDir,
    root: PathBuf,
}

impl Repo {
    /// A repository whose first commit holds `files`, given as relative path and content.
    ///
    /// # Panics
    ///
    /// When git is missing or fails.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::with_prefix("everturn-repo-").expect("a temporary folder");
        // The canonical path: on some systems the temporary folder is a symbolic link.
        let root = folder.path().canonicalize().expect("the folder's path");
        let repo = Self { folder, root };
        repo.git(&["init", "-q", "-b", "main"]);
        for (path, content) in files {
            repo.write(path, content);
        }
        repo.commit("first");
        repo
    }

    /// The working tree.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The working tree as text, for JSON bodies.
    ///
    /// # Panics
    ///
    /// When the path is not Unicode.
    pub fn dir(&self) -> &str {
        self.root.to_str().expect("a Unicode path")
    }

    /// The path of a file in the tree.
    pub fn join(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Writes a file and the folders above it.
    ///
    /// # Panics
    ///
    /// When the file cannot be written.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.join(relative);
        let folder = path.parent().expect("a folder above the file");
        std::fs::create_dir_all(folder).expect("folders for the file");
        std::fs::write(&path, content).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
    }

    /// Reads a file as text.
    ///
    /// # Panics
    ///
    /// When the file cannot be read.
    pub fn read(&self, relative: impl AsRef<Path>) -> String {
        let path = self.join(relative);
        std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
    }

    /// Commits everything there is and returns the hash.
    ///
    /// # Panics
    ///
    /// When git fails.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs git and returns what it prints.
    ///
    /// # Panics
    ///
    /// When git is missing or fails.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
            .args(["-c", "core.autocrlf=false"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .expect("git runs");
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {problem}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
