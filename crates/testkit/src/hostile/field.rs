//! What a hostile line is after: canaries around a project, each with a value of its own.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::inotify;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::machine::HostileMachine;
use super::{canary, tells};
use crate::folder::{FileState, tree};

/// An account that is not ours.
const STRANGER: u32 = 54_321;

/// The folder with our data, below the base of a field.
const DATA: &str = "haus/.local/share/everturn";

/// Where long outputs are kept, without a server and with one.
const OUTPUTS: [&str; 2] = ["output", "haus/.local/share/everturn/tool-output"];

/// Secrets that a server has open itself.
const SERVED: [&str; 4] = ["auth", "config", "database", "token"];

/// Files of the machine that lines would change which are never run without a sandbox, from the root on.
const MACHINE_FILES: [&str; 8] = [
    "etc/cron.d/x",
    "etc/ld.so.preload",
    "etc/profile.d/x.sh",
    "proc/sys/kernel/core_pattern",
    "proc/sys/kernel/sysrq",
    "root/.bashrc",
    "usr/local/bin/ls",
    "var/spool/cron/crontabs/root",
];

/// A project and what lies around it: `project`, the person's home `haus`, the folder of somebody else and one that
/// belongs to none of them.
#[derive(Debug)]
pub struct HostileField {
    base: PathBuf,
    machine: &'static HostileMachine,
    number: String,
    /// The process and the port of a server that works in this field; without one the machine has what stands for them.
    server: Option<(u32, u16)>,
    before: BTreeMap<PathBuf, FileState>,
    files_before: Vec<Option<Vec<u8>>>,
    /// How much had been sent to the machine before.
    sent: usize,
    /// Tells when a secret is opened.
    watch: OwnedFd,
}

/// What can be read in a field and must not be, below its base.
const SECRETS: [(&str, &str); 12] = [
    ("key", "haus/.ssh/id_rsa"),
    ("aws", "haus/.aws/credentials"),
    ("netrc", "haus/.netrc"),
    ("gh", "haus/.config/gh/hosts.yml"),
    ("kube", "haus/.kube/config"),
    ("docker", "haus/.docker/config.json"),
    ("history", "haus/.bash_history"),
    ("config", "haus/.config/everturn/everturn.toml"),
    ("token", "haus/.local/share/everturn/token"),
    ("auth", "haus/.local/share/everturn/auth.json"),
    ("database", "haus/.local/share/everturn/everturn.db"),
    ("other", "other/diary"),
];

/// Names that make programs run or instruct agents. Copies of what is there may be made in folders, as in clones.
const GUARDED: [&str; 40] = [
    ".claude",
    ".codex",
    ".cursor",
    ".cursorrules",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".git/commondir",
    ".git/config",
    ".git/config.worktree",
    ".git/gitdir",
    ".git/hooks",
    ".git/info/attributes",
    ".git/info/sparse-checkout",
    ".githooks",
    ".github",
    ".gitlab-ci.yml",
    ".husky",
    ".idea",
    ".lefthook.yml",
    ".mcp.json",
    ".opencode",
    ".pre-commit-config.yaml",
    ".vscode",
    ".windsurf",
    ".zed",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "agents.md",
    "everturn.toml",
    "opencode.json",
    "opencode.jsonc",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
];

/// Caches that commands may write to.
const CACHES: [&str; 2] = ["haus/.cache/pip", "haus/.npm"];

/// A repository with one commit, made once.
fn repository() -> &'static Path {
    static REPOSITORY: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a repository");
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
            git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            assert!(
                git.current_dir(folder.path()).status().expect("a repository").success(),
                "{arguments:?}"
            );
        };
        git(&["-c", "init.defaultBranch=main", "init", "-q", "--template="]);
        git(&["config", "user.name", "a"]);
        git(&["config", "user.email", "a@b"]);
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a repository")).expect("a repository");
            fs::write(path, text).expect("a repository");
        };
        write("a.txt", "one\ntwo\n");
        write("README.md", "Read me.\n");
        write("sub/b.txt", "three\n");
        write("AGENTS.md", "Be good.\n");
        write(".vscode/tasks.json", "{}");
        write(".github/workflows/ci.yml", "on: push\n");
        write(".opencode/agent.md", "");
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "first"]);
        write(".git/hooks/README", "");
        write(".git/info/attributes", "");
        folder
    });
    REPOSITORY.path()
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().expect("cp runs");
    assert!(done.success(), "{} cannot be copied", from.display());
}

fn machine_files() -> Vec<Option<Vec<u8>>> {
    MACHINE_FILES.iter().map(|path| fs::read(Path::new("/").join(path)).ok()).collect()
}

impl HostileField {
    /// Plants canaries in a folder and makes a project among them.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn plant(base: &Path, machine: &'static HostileMachine) -> Self {
        Self::plant_all(base, machine, |_| true)
    }

    /// The same around a server that is started there later: its database is its own.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn plant_for_server(base: &Path, machine: &'static HostileMachine) -> Self {
        Self::plant_all(base, machine, |name| !SERVED.contains(&name))
    }

    fn plant_all(base: &Path, machine: &'static HostileMachine, watched: impl Fn(&str) -> bool) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = format!("n{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK);
        let watch = watch.expect("a watch");
        for (name, place) in SECRETS.into_iter().filter(|(name, _)| *name != "database" || watched(name)) {
            let path = base.join(place);
            fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
            let canary = canary(name, &number);
            // Our own files are read, and have to make sense.
            let text = match name {
                "auth" => format!("{{\"elsewhere\": {{\"type\": \"api\", \"key\": \"{canary}\"}}}}\n"),
                "config" => format!("# {canary}\n"),
                _ => format!("{canary}\n"),
            };
            fs::write(&path, text).expect("a secret");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            if watched(name) {
                inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).expect("a watch");
            }
        }
        if geteuid().is_root() {
            chown(base.join("other/diary"), Some(STRANGER), Some(STRANGER)).expect("another owner");
        }
        for folder in ["run", "haus/.cargo"].iter().chain(&CACHES) {
            fs::create_dir_all(base.join(folder)).expect("a folder");
        }
        fs::write(base.join("haus/.gitconfig"), "[user]\n\tname = a\n\temail = a@b\n").expect("a file");
        let mut field = Self {
            base: base.to_owned(),
            machine,
            number,
            server: None,
            before: BTreeMap::new(),
            files_before: Vec::new(),
            sent: 0,
            watch,
        };
        field.restore();
        field
    }

    /// The value of a canary of this field.
    pub fn canary(&self, name: &str) -> String {
        canary(name, &self.number)
    }

    /// Says which server works in this field, and takes what is there now for what belongs there.
    pub fn serve(&mut self, pid: u32, port: u16) {
        self.server = Some((pid, port));
        self.look();
    }

    /// Makes the project and the folder outside anew, and takes what is there now for what belongs there.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn restore(&mut self) {
        let (project, outside) = (self.base.join("project"), self.base.join("outside"));
        for folder in [&project, &outside] {
            fs::create_dir_all(folder).expect("a folder");
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                let is_folder = path.is_dir() && !path.is_symlink();
                let gone = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                gone.expect("what a line left can be removed");
            }
        }
        for folder in ["keep", "empty"] {
            fs::create_dir(outside.join(folder)).expect("a folder");
        }
        fs::write(outside.join("notes"), "mine\n").expect("a file");
        fs::write(outside.join("keep/file"), "mine\n").expect("a file");
        copy(repository(), &project);
        self.look();
    }

    fn look(&mut self) {
        self.before = tree(&self.base);
        self.files_before = machine_files();
        self.sent = self.machine.captured_length();
        // That was us.
        self.was_opened();
    }

    /// A line with the places of this field.
    ///
    /// # Panics
    ///
    /// When the field is in a folder whose path is not Unicode.
    pub fn place(&self, line: &str) -> String {
        let machine = self.machine;
        let base = self.base.to_str().expect("a Unicode path");
        let shared = machine.folder.path().to_str().expect("a Unicode path");
        let (pid, port) = self.server.unwrap_or((machine.server.id(), machine.port));
        [
            ("@KEY", format!("{base}/haus/.ssh/id_rsa")),
            ("@HOME", format!("{base}/haus")),
            ("@TOKEN", format!("{base}/{DATA}/token")),
            ("@AUTH", format!("{base}/{DATA}/auth.json")),
            ("@DATA", format!("{base}/{DATA}")),
            ("@OTHER", format!("{base}/other/diary")),
            ("@OUT", format!("{base}/outside")),
            ("@BASE", base.to_owned()),
            ("@PID", pid.to_string()),
            ("@PORT", port.to_string()),
            ("@CAPTURE", machine.capture.to_string()),
            ("@DOCKER", format!("{shared}/docker.sock")),
            ("@AGENT", format!("{shared}/agent.sock")),
            ("@ABSTRACT", machine.abstract_name.clone()),
        ]
        .iter()
        .fold(line.to_owned(), |line, (name, value)| line.replace(name, value))
    }

    /// What lines got at or did that they must not, in words; `said` is what they printed.
    pub fn harm(&self, said: &str) -> Vec<String> {
        let mut harm = Vec::new();
        // Before we look at them ourselves.
        if self.was_opened() {
            harm.push("a secret was opened".to_owned());
        }
        if self.is_told(said) {
            harm.push("a canary was printed".to_owned());
        }
        if self.is_told(&self.machine.captured_from(self.sent)) {
            harm.push("a canary was sent".to_owned());
        }
        let after = tree(&self.base);
        for (path, state) in &after {
            let is_kept =
                path.starts_with("project") || OUTPUTS.iter().any(|folder| path.starts_with(folder));
            let was = self.before.get(path);
            if was != Some(state) && is_kept && self.is_told(&String::from_utf8_lossy(&state.1)) {
                harm.push(format!("a canary is in {}", path.display()));
            }
            if was != Some(state) && self.is_guarded(path) {
                harm.push(format!("{} was written", path.display()));
            }
        }
        let gone = self.before.keys().filter(|path| !after.contains_key(*path) && self.is_guarded(path));
        harm.extend(gone.map(|path| format!("{} was removed", path.display())));
        let files = MACHINE_FILES.iter().zip(self.files_before.iter().zip(machine_files()));
        let changed = files.filter(|(_, (before, after))| *before != after);
        harm.extend(changed.map(|(path, _)| format!("/{path} was changed")));
        // We have opened the secrets.
        self.was_opened();
        harm
    }

    /// Whether a path must not be changed: what is outside the project but for caches, and what is protected in it.
    fn is_guarded(&self, path: &Path) -> bool {
        if SECRETS
            .iter()
            .any(|(name, place)| path == Path::new(place) && (*name != "database" || self.server.is_none()))
        {
            return true;
        }
        let inside = path.starts_with("project");
        let is_served = self.server.is_some() && path.starts_with(DATA);
        let ours =
            path.starts_with("output") || is_served || CACHES.iter().any(|cache| path.starts_with(cache));
        // A folder in which something else was made.
        let folder = path == Path::new("project/.git") || path == Path::new("project/.github");
        let protected = || {
            let below = path.strip_prefix("project").unwrap_or(path);
            GUARDED.iter().any(|place| below.starts_with(place))
        };
        if inside { !folder && protected() } else { !ours && path != Path::new("haus/.cache") }
    }

    /// Whether a text tells a canary of this field or of its machine.
    pub fn is_told(&self, text: &str) -> bool {
        tells(text, &[self.machine.name, &self.number])
    }

    fn was_opened(&self) -> bool {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.watch, &mut room);
        let mut opened = false;
        while events.next().is_ok() {
            opened = true;
        }
        opened
    }
}
