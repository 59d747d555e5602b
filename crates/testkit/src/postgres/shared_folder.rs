//! Folders that are there as long as somebody uses them, and not longer, however the users end.
//!
//! nextest runs each test in a process of its own, kills those that take too long, and runs no code after the last one.
//! So what tests share, and what a killed test leaves, cannot be cleaned up by the tests. A small shell script does it
//! (`guard.sh`): users hold a shared lock on a file in the folder, which the system takes from them when they end.

use std::fs::{File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::programs;

/// How long another process may take to make what is shared, or a guard to remove it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder that this process uses.
#[derive(Debug)]
pub(super) struct SharedFolder {
    path: PathBuf,
    /// Holds the lock.
    users: Option<File>,
    /// The guard of a folder that nobody else can use.
    guard: Option<Child>,
}

impl SharedFolder {
    /// A new folder for this process alone.
    pub(super) fn private(root: &Path) -> Self {
        let mut folder = Self::create(root, "own");
        let lock = folder.path.join("lock");
        File::create(&lock).expect("a lock file");
        folder.guard = Some(spawn_guard(&folder.path, &lock, Duration::ZERO));
        folder
    }

    /// The folder of this `kind` that all processes share. The first of them, or one that finds it not `sound`, gets
    /// it made. It goes away when nobody has used it for `idle`.
    pub(super) fn shared(
        root: &Path,
        kind: &str,
        idle: Duration,
        sound: impl FnOnce(&Path) -> bool,
        make: impl FnOnce(&Path),
    ) -> Self {
        let lock_path = root.join(format!("{kind}.lock"));
        let lock = File::create(&lock_path).expect("a lock file");
        let locked = programs::until(PATIENCE, || lock.try_lock().is_ok());
        assert!(locked, "waited {PATIENCE:?} for the lock {}", lock_path.display());

        let current = root.join(kind);
        let path = std::fs::read_to_string(&current).map(|name| root.join(name));
        if let Ok(path) = path
            && let Ok(users) = File::open(path.join("users"))
            && sound(&path)
        {
            // Only the guard locks others out, and without our lock only for a moment.
            users.lock_shared().expect("a shared lock");
            // A guard that was killed would let the server run forever.
            if File::open(path.join("guard")).is_ok_and(|guard| guard.try_lock().is_ok()) {
                detach(spawn_guard(&path, &lock_path, idle));
            }
            return Self { path, users: Some(users), guard: None };
        }

        sweep(root, kind);
        let folder = Self::create(root, kind);
        detach(spawn_guard(&folder.path, &lock_path, idle));
        make(&folder.path);
        let name = folder.path.file_name().expect("the name of a folder").as_encoded_bytes();
        std::fs::write(&current, name).expect("the name of what is shared");
        folder
    }

    fn create(root: &Path, kind: &str) -> Self {
        let path = root.join(format!("{kind}-{}", programs::random()));
        std::fs::create_dir(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("rights of a new folder");
        File::create(path.join("guard")).expect("a lock file");
        let users = File::create(path.join("users")).expect("a lock file");
        users.lock_shared().expect("a shared lock");
        Self { path, users: Some(users), guard: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's unique name, by which the processes of a server in it are found.
    pub(super) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).expect("the name of a folder")
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        drop(self.users.take());
        if let Some(mut guard) = self.guard.take() {
            // It removes the folder now. If that takes long, it goes on without us.
            programs::until(Duration::from_secs(20), || !matches!(guard.try_wait(), Ok(None)));
        }
    }
}

fn spawn_guard(folder: &Path, lock: &Path, idle: Duration) -> Child {
    let mut command = guard(folder);
    command.arg(lock).arg(idle.as_secs().to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("sh runs")
}

/// The script for a folder.
fn guard(folder: &Path) -> Command {
    // Another process may be reading it, so it is replaced and not written over.
    let script = folder.with_file_name("guard.sh");
    let draft = folder.with_extension("draft");
    let written = std::fs::write(&draft, include_str!("guard.sh"));
    written.and_then(|()| std::fs::rename(&draft, &script)).expect("the script of the guard");
    let mut command = Command::new("sh");
    // A group of its own, because nextest and terminals end whole groups.
    command.arg(script).arg(folder).current_dir("/").stdin(Stdio::null()).process_group(0);
    command
}

/// Leaves a child to itself: it may outlive this process, and if not it shall not stay in the list of processes.
pub(super) fn detach(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// Ends and removes what is left of a kind that is not sound. The lock is held, so nobody is making one.
fn sweep(root: &Path, kind: &str) {
    let entries = std::fs::read_dir(root).expect("the folder of the test servers").flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_dir() && name.starts_with(&format!("{kind}-"))
    };
    for folder in entries.map(|entry| entry.path()).filter(is_left) {
        programs::run(guard(&folder), "removing what was left", PATIENCE);
    }
}

/// The folder for all test servers of this checkout and this user.
///
/// # Panics
///
/// When it belongs to somebody else, or no folder for temporary files can be reached by an account without rights.
pub(super) fn root() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    let uid = rustix::process::geteuid().as_raw();
    // Short: the path of a Unix socket has room for about a hundred bytes.
    let name = format!("everturn-test-postgres-{uid}-{:08x}", hasher.finish() >> 32);
    let candidates = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    let base = candidates.into_iter().find(|folder| uid != 0 || is_reachable(folder));
    let root = base.expect("a folder for temporary files that everybody can enter").join(name);
    match std::fs::create_dir(&root) {
        Ok(()) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(cause) => panic!("{}: {cause}", root.display()),
    }
    let owner = std::fs::symlink_metadata(&root).expect("the folder of the test servers").uid();
    assert_eq!(owner, uid, "{} belongs to somebody else", root.display());
    std::fs::set_permissions(&root, Permissions::from_mode(0o755)).expect("rights of a folder of ours");
    root
}

/// Whether everybody may enter a folder and all folders above it.
fn is_reachable(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|path| path.metadata().is_ok_and(|metadata| metadata.mode() & 0o001 != 0))
}
