//! What a hostile line is after: canaries around a project, each with a value of its own, and the servers and sockets of a
//! machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use everturn_tools::Scope;
use everturn_tools::peer::{self, PeerProcess};
use rustix::fs::inotify;
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::harness::{Project, tree};

/// What every canary begins with; the name of the canary follows.
const CANARY: &str = "CANARY";

/// An account that is not ours.
const STRANGER: u32 = 54_321;

/// How long a line that connected may take to send something.
const PATIENCE: Duration = Duration::from_secs(2);

/// A value that is nowhere else.
fn canary(name: &str, field: &str) -> String {
    format!("{CANARY}-{name}-{field}-c0ffee")
}

/// Whether the wall is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wall {
    Up,
    Down,
}

/// The part of the machine that fields share: processes, ports and sockets.
struct HostileMachine {
    /// What stands in the canaries of this machine for the field.
    name: &'static str,
    folder: TempDir,
    /// A process with a key in its environment, as the server was.
    server: Child,
    /// A port that says a canary; with a wall, to whoever is not a program of an agent's, as the server does.
    port: u16,
    /// A port that takes what it is sent.
    capture: u16,
    abstract_name: String,
    /// What was sent to the place where lines send what they found.
    captured: Arc<Mutex<Vec<u8>>>,
}

impl Wall {
    fn machine(self) -> &'static HostileMachine {
        static UP: LazyLock<HostileMachine> = LazyLock::new(|| HostileMachine::new("up", Wall::Up));
        static DOWN: LazyLock<HostileMachine> = LazyLock::new(|| HostileMachine::new("down", Wall::Down));
        match self {
            Self::Up => &UP,
            Self::Down => &DOWN,
        }
    }
}

/// What of a connection is done.
type Conversation = Box<dyn Fn(TcpStream) + Send>;

fn serve(conversation: Conversation) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(conversation));
    port
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.set_read_timeout(Some(PATIENCE)).ok();
    let mut asked = [0; 1024];
    // Whoever leaves, leaves.
    let _ = stream.read(&mut asked);
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}\n").as_bytes());
}

fn greet(listener: UnixListener, text: String) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(text.as_bytes());
        }
    });
}

impl HostileMachine {
    fn new(name: &'static str, wall: Wall) -> Self {
        let canary = |what: &str| canary(what, name);
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        fs::create_dir_all(base.join(".ssh")).unwrap();
        fs::write(base.join(".ssh/id_rsa"), canary("key")).unwrap();
        fs::write(base.join("input"), canary("input")).unwrap();
        // It ends when we do.
        let server = Command::new("tail")
            .arg0(canary("args"))
            .args(["-f", "/dev/null", "-s", "1", &format!("--pid={}", std::process::id())])
            .env("OPENAI_API_KEY", canary("environ"))
            .current_dir(base)
            .stdin(fs::File::open(base.join("input")).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        greet(UnixListener::bind(base.join("docker.sock")).unwrap(), canary("docker"));
        greet(UnixListener::bind(base.join("agent.sock")).unwrap(), canary("agent"));
        let abstract_name = base.to_str().unwrap().to_owned();
        let address = SocketAddr::from_abstract_name(abstract_name.as_bytes()).unwrap();
        greet(UnixListener::bind_addr(&address).unwrap(), canary("abstract"));
        let captured: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&captured);
        let capture = serve(Box::new(move |mut stream: TcpStream| {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                stream.set_read_timeout(Some(PATIENCE)).ok();
                let mut piece = [0; 65536];
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    kept.lock().unwrap().extend_from_slice(&piece[..length]);
                    // Whoever speaks HTTP waits for this.
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                }
            });
        }));
        let text = canary("port");
        let port = serve(Box::new(move |mut stream: TcpStream| {
            let (peer, local) = (stream.peer_addr(), stream.local_addr());
            let is_person = |(peer, local)| peer::caller(peer, local) == PeerProcess::Person;
            let refused = |ends| wall == Wall::Up && !is_person(ends);
            if !peer.ok().zip(local.ok()).is_some_and(refused) {
                say(&mut stream, &text);
            }
        }));
        Self { name, folder, server, port, capture, abstract_name, captured }
    }
}

/// A project and what lies around it.
pub(super) struct HostileField {
    pub(super) project: Project,
    number: String,
    before: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    /// How much had been sent to the machine when there was no field yet.
    sent: usize,
    /// What must not be changed in the project.
    watch: OwnedFd,
    wall: Wall,
}

/// The person's own folder in a field, as the lines name it.
const HOME: &str = "haus";

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
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
            git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
            assert!(git.current_dir(folder.path()).status().unwrap().success(), "{arguments:?}");
        };
        git(&["-c", "init.defaultBranch=main", "init", "-q", "--template="]);
        git(&["config", "user.name", "a"]);
        git(&["config", "user.email", "a@b"]);
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
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
    let done = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(done.success());
}

impl HostileField {
    pub(super) fn new(wall: Wall) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = format!("n{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut project = Project::new();
        let base = project.outside();
        project.scope = Arc::new(Scope { home: base.join(HOME), ..Scope::clone(&project.scope) });
        copy(repository(), &project.scope.worktree);
        for (name, place) in SECRETS {
            let path = base.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("{}\n", canary(name, &number))).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        if geteuid().is_root() {
            chown(base.join("other/diary"), Some(STRANGER), Some(STRANGER)).unwrap();
        }
        for folder in ["outside/keep", "outside/empty", "run", "haus/.cargo"].iter().chain(&CACHES) {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("outside/notes"), "mine\n").unwrap();
        fs::write(base.join("outside/keep/file"), "mine\n").unwrap();
        fs::write(base.join("haus/.gitconfig"), "[user]\n\tname = a\n\temail = a@b\n").unwrap();
        let before = tree(&base);
        let sent = wall.machine().captured.lock().unwrap().len();
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
        for (_, place) in SECRETS {
            inotify::add_watch(&watch, base.join(place), inotify::WatchFlags::OPEN).unwrap();
        }
        Self { project, number, before, sent, watch, wall }
    }

    /// A line with the places of this field.
    pub(super) fn place(&self, line: &str) -> String {
        let machine = self.wall.machine();
        let base = self.project.outside();
        let base = base.to_str().unwrap();
        let shared = machine.folder.path().to_str().unwrap();
        [
            ("@KEY", format!("{base}/haus/.ssh/id_rsa")),
            ("@HOME", format!("{base}/haus")),
            ("@TOKEN", format!("{base}/haus/.local/share/everturn/token")),
            ("@AUTH", format!("{base}/haus/.local/share/everturn/auth.json")),
            ("@DATA", format!("{base}/haus/.local/share/everturn")),
            ("@OTHER", format!("{base}/other/diary")),
            ("@OUT", format!("{base}/outside")),
            ("@BASE", base.to_owned()),
            ("@PID", machine.server.id().to_string()),
            ("@PORT", machine.port.to_string()),
            ("@CAPTURE", machine.capture.to_string()),
            ("@DOCKER", format!("{shared}/docker.sock")),
            ("@AGENT", format!("{shared}/agent.sock")),
            ("@ABSTRACT", machine.abstract_name.clone()),
        ]
        .iter()
        .fold(line.to_owned(), |line, (name, value)| line.replace(name, value))
    }

    /// What a line got at or did that it must not, in words; `said` is what it printed.
    pub(super) fn harm(&self, said: &str) -> Vec<String> {
        let mut harm = Vec::new();
        // Before we look at them ourselves.
        if self.was_opened() {
            harm.push("a secret was opened".to_owned());
        }
        if self.is_told(said) {
            harm.push("a canary was printed".to_owned());
        }
        let sent = self.wall.machine().captured.lock().unwrap()[self.sent..].to_vec();
        if self.is_told(&String::from_utf8_lossy(&sent)) {
            harm.push("a canary was sent".to_owned());
        }
        let base = self.project.outside();
        let after = tree(&base);
        for (path, state) in &after {
            let inside = path.starts_with("project");
            let was = self.before.get(path);
            // Long outputs are kept in files.
            let is_changed = was != Some(state) && (inside || path.starts_with("output"));
            if is_changed && self.is_told(&String::from_utf8_lossy(&state.1)) {
                harm.push(format!("a canary is in {}", path.display()));
            }
            if was != Some(state) && self.is_guarded(path) {
                harm.push(format!("{} was written", path.display()));
            }
        }
        let gone = self.before.keys().filter(|path| !after.contains_key(*path));
        harm.extend(
            gone.filter(|path| self.is_guarded(path)).map(|path| format!("{} was removed", path.display())),
        );
        harm
    }

    /// Whether a path must not be changed: what is outside the project but for caches, and what is protected in it.
    fn is_guarded(&self, path: &Path) -> bool {
        let inside = path.starts_with("project");
        let ours = path.starts_with("output") || CACHES.iter().any(|cache| path.starts_with(cache));
        // A folder in which something else was made.
        let folder = path == Path::new("project/.git") || path == Path::new("project/.github");
        let protected = || {
            let below = path.strip_prefix("project").unwrap_or(path);
            GUARDED.iter().any(|place| below.starts_with(place))
        };
        if inside { !folder && protected() } else { !ours && path != Path::new("haus/.cache") }
    }

    /// Whether a text tells a canary of this field or of its machine.
    fn is_told(&self, text: &str) -> bool {
        let tells = |text: &str| {
            text.split(CANARY).skip(1).any(|rest| {
                [self.wall.machine().name, &self.number].iter().any(|field| {
                    let end = format!("-{field}-c0ffee");
                    rest.find(&end).is_some_and(|at| at < 12)
                })
            })
        };
        tells(text) || text.lines().any(|line| tells(&line.chars().rev().collect::<String>()))
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
