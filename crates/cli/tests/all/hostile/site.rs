//! A repository in the making, and the home of the person who opens it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use everturn_testkit::opencode_config;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A secret of the person's, by what it is; without a name, what all of them have.
pub(super) fn canary(name: &str) -> String {
    format!("c4n4ry-5f2c9e-{name}")
}

/// Folders for a repository, a home, what is outside of both, and the marks of programs that ran.
#[derive(Debug)]
pub(super) struct HostileSite {
    folder: TempDir,
    root: RefCell<PathBuf>,
    /// The address of the server that nobody is supposed to call.
    pub(super) capture: String,
    restless: RefCell<Option<RestlessFile>>,
}

/// A file that is written again and again.
#[derive(Debug)]
struct RestlessFile {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostileSite {
    /// An empty repository, and a home with a provider and secrets.
    pub(super) fn new(model: &str, capture: &str) -> Self {
        let folder = TempDir::with_prefix("everturn-hostile-").unwrap();
        let site = Self {
            root: RefCell::new(folder.path().canonicalize().unwrap().join("above/repository")),
            folder,
            capture: format!("http://{capture}"),
            restless: RefCell::default(),
        };
        for name in ["above/repository", "person", "outside", "marks", "output"] {
            fs::create_dir_all(site.beside(name)).unwrap();
        }
        site.furnish(model);
        site.write("README.md", "A project.\n");
        site.git(&["init", "-q", "-b", "main"]);
        site.git(&["add", "-A"]);
        site.git(&["commit", "-q", "-m", "first"]);
        site
    }

    /// Puts secrets and the person's settings into the home.
    fn furnish(&self, model: &str) {
        let home = self.home();
        let private = |path: &str, text: String| {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        private(".ssh/id_rsa", format!("-----BEGIN PRIVATE KEY----- {}\n", canary("ssh")));
        private(".aws/credentials", format!("[default]\nPRIVATE = {}\n", canary("aws")));
        private(".ssh/AGENTS.md", format!("PRIVATE {}\n", canary("agents")));
        private(".ssh/SKILL.md", format!("---\nname: ssh\ndescription: {}\n---\n", canary("skill")));
        let data = ".local/share/everturn";
        private(&format!("{data}/token"), canary("token"));
        let keys = json!({"openai": {"type": "api", "key": canary("auth")}});
        private(&format!("{data}/auth.json"), keys.to_string());
        fs::set_permissions(home.join(data), fs::Permissions::from_mode(0o700)).unwrap();
        let mut config = opencode_config(model);
        config["provider"]["fake"]["options"]["apiKey"] = json!("{env:PERSON_KEY}");
        config["permission"] = json!({"bash": "deny"});
        config["mcp"] =
            json!({"mine": {"type": "local", "command": ["sh", "-c", self.mark_line()], "enabled": false}});
        config.as_object_mut().unwrap().remove("enabled_providers");
        private(".config/opencode/opencode.json", config.to_string());
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The repository.
    pub(super) fn root(&self) -> PathBuf {
        self.root.borrow().clone()
    }

    /// The repository, as a query has it.
    pub(super) fn encoded_root(&self) -> String {
        self.root().as_os_str().as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect()
    }

    /// Gives the repository's folder another name.
    pub(super) fn rename(&self, name: &str) {
        let renamed = self.root().with_file_name(name);
        fs::rename(self.root(), &renamed).unwrap();
        *self.root.borrow_mut() = renamed;
    }

    /// Takes git away: what is left is a folder, as from an archive.
    pub(super) fn without_git(&self) {
        fs::remove_dir_all(self.path(".git")).unwrap();
    }

    /// The person's home.
    pub(super) fn home(&self) -> PathBuf {
        self.beside("person")
    }

    /// A folder that belongs to neither.
    pub(super) fn outside(&self) -> PathBuf {
        self.beside("outside")
    }

    /// Where a command's output goes.
    pub(super) fn stdout(&self) -> PathBuf {
        self.beside("output/stdout")
    }

    /// Where its other output goes.
    pub(super) fn stderr(&self) -> PathBuf {
        self.beside("output/stderr")
    }

    /// The environment in which the person works.
    pub(super) fn environment(&self) -> Map<String, Value> {
        let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
        let home = self.home().display().to_string();
        let pairs = [
            ("PATH", path),
            ("HOME", home),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("PERSON_KEY", canary("person")),
            ("ANTHROPIC_API_KEY", canary("environment")),
            ("CANARY_VARIABLE", canary("variable")),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// A line for the shell that leaves a mark.
    pub(super) fn mark_line(&self) -> String {
        format!("touch {}", self.beside("marks/ran").display())
    }

    /// What has left a mark.
    pub(super) fn marks(&self) -> Vec<PathBuf> {
        fs::read_dir(self.beside("marks")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    pub(super) fn clear_marks(&self) {
        for mark in self.marks() {
            fs::remove_file(mark).unwrap();
        }
    }

    /// A program in the repository that leaves a mark; its path.
    pub(super) fn program(&self) -> String {
        self.program_at(&self.path("evil.sh"))
    }

    /// The same anywhere.
    pub(super) fn program_at(&self, path: &Path) -> String {
        self.write(path, format!("#!/bin/sh\n{}\n", self.mark_line()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a line in the shell, in the repository. What it says and how it ends does not matter.
    pub(super) fn by_hand(&self, line: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.root()).env("HOME", self.home());
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "T")
            .env("GIT_AUTHOR_EMAIL", "t@example.com");
        command.env("GIT_COMMITTER_NAME", "T").env("GIT_COMMITTER_EMAIL", "t@example.com");
        command.stdin(Stdio::null()).output().unwrap();
    }

    /// Runs git in the repository.
    pub(super) fn git(&self, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
            .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
            .args(arguments)
            .current_dir(self.root())
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A path in the repository.
    pub(super) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root().join(relative)
    }

    /// Writes a file and the folders above it.
    pub(super) fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Adds to a file.
    pub(super) fn append(&self, relative: impl AsRef<Path>, text: &str) {
        let path = self.path(relative);
        let before = fs::read_to_string(&path).unwrap_or_default();
        self.write(path, before + text);
    }

    /// Writes the project's configuration.
    pub(super) fn config(&self, config: &Value) {
        self.write("opencode.json", config.to_string());
    }

    /// Makes a link.
    pub(super) fn link(&self, relative: impl AsRef<Path>, target: impl AsRef<Path>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Makes a pipe that nobody writes to, in place of what is there.
    pub(super) fn pipe(&self, relative: impl AsRef<Path>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&path).unwrap();
        }
        // There may be none.
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    }

    /// Makes a file of so many bytes that takes no room.
    pub(super) fn sparse(&self, relative: impl AsRef<Path>, bytes: u64) {
        self.write(&relative, "");
        let file = fs::OpenOptions::new().write(true).open(self.path(relative)).unwrap();
        file.set_len(bytes).unwrap();
    }

    /// Writes a file again and again, in turn with these contents, as long as the repository is opened.
    pub(super) fn restless(&self, relative: &str, contents: [String; 2]) {
        let (path, ending) = (self.path(relative), Arc::new(AtomicBool::new(false)));
        self.write(relative, &contents[0]);
        let (written, told) = (path.clone(), Arc::clone(&ending));
        let thread = std::thread::spawn(move || {
            for content in contents.iter().cycle() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                fs::write(&written, content).unwrap();
                std::thread::yield_now();
            }
        });
        *self.restless.borrow_mut() = Some(RestlessFile { path, ending, thread: Some(thread) });
    }

    /// Ends what writes by itself.
    pub(super) fn settle(&self) {
        let mut restless = self.restless.borrow_mut();
        if let Some((file, thread)) =
            restless.as_mut().and_then(|file| Some((&file.ending, file.thread.take()?)))
        {
            file.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        }
    }

    /// Everything in the repository, with what tells a file that was changed from one that was not. What is restless is
    /// named only.
    pub(super) fn tree(&self) -> BTreeSet<String> {
        let mut open = vec![self.root()];
        let mut tree = BTreeSet::new();
        while let Some(path) = open.pop() {
            let found = fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let is_restless = self.is_restless(&path);
            let state = (found.ino(), found.mode(), found.len(), found.ctime(), found.ctime_nsec());
            let state = if is_restless { String::new() } else { format!("{state:?}") };
            let name: &OsStr = path.as_os_str();
            tree.insert(format!("{name:?} {state}"));
        }
        tree
    }

    fn is_restless(&self, path: &Path) -> bool {
        self.restless.borrow().as_ref().is_some_and(|file| file.path == path)
    }
}

impl Drop for HostileSite {
    fn drop(&mut self) {
        self.settle();
    }
}
