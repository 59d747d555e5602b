//! Where the programs of PostgreSQL are, whom they run as, and which of its processes are alive.
//!
//! PostgreSQL refuses to run as root, and tests often are root; then it runs as an account that has no rights.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often something is looked at that cannot be waited for.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The folder with `initdb` and `postgres`.
///
/// # Panics
///
/// When PostgreSQL or `flock` is not installed.
pub(super) fn folder() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Without it nothing would end the servers that nobody uses any more.
    assert!(
        listed.iter().any(|folder| folder.join("flock").is_file()),
        "the program flock is missing: install the Debian package util-linux"
    );
    let complete = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    if let Some(folder) = listed.into_iter().find(complete) {
        return folder;
    }
    // Debian keeps several versions side by side and out of the path.
    let version = |folder: &PathBuf| {
        let name = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse::<u32>().ok())
    };
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|entry| entry.path().join("bin")).filter(complete);
    folders.max_by_key(version).unwrap_or_else(|| {
        panic!(
            "PostgreSQL is missing: no initdb and postgres in PATH or /usr/lib/postgresql/*/bin; install the Debian \
             package postgresql"
        )
    })
}

/// The client for scripts, of the same version as the server where there are several.
pub(super) fn psql() -> PathBuf {
    // The server's program in the path may be a link, and its own folder has all the others.
    let server = folder().join("postgres").canonicalize();
    let beside = server.map(|server| server.with_file_name("psql"));
    beside.ok().filter(|program| program.is_file()).unwrap_or_else(|| PathBuf::from("psql"))
}

/// An account without rights.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Whom a server has to run as if not as ourselves, that is if we are root.
    ///
    /// # Panics
    ///
    /// When we are root and there is no such account.
    pub(super) fn needed() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let accounts = std::fs::read_to_string("/etc/passwd").expect("the list of accounts");
        let find = |wanted: &str| {
            let mut fields = accounts
                .lines()
                .map(|line| line.split(':'))
                .find_map(|mut fields| (fields.next() == Some(wanted)).then_some(fields))?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            (uid != 0).then_some(Self { uid, gid })
        };
        let found = find("postgres").or_else(|| find("nobody"));
        Some(found.expect("an account postgres or nobody, because PostgreSQL does not run as root"))
    }

    /// Gives it a file or folder, without what is in it.
    pub(super) fn own(self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .unwrap_or_else(|cause| panic!("{} cannot be given away: {cause}", path.display()));
    }
}

/// A program of PostgreSQL in a folder of ours, without the user's settings, in a process group of its own.
pub(super) fn command(program: &Path, account: Option<Account>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).process_group(0);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("LC_ALL", "C").env("TZ", "UTC");
    if let Some(account) = account {
        // Further groups of ours are taken away by this as well.
        command.gid(account.gid).uid(account.uid);
    }
    command
}

/// Runs `command` to its end; what it prints is in the message if it fails.
///
/// # Panics
///
/// When it fails or takes longer than `patience`.
pub(super) fn run(mut command: Command, what: &str, patience: Duration) {
    let mut printed = tempfile::tempfile().expect("a temporary file");
    let copy = || Stdio::from(printed.try_clone().expect("a copy of a file handle"));
    let spawned = command.stdout(copy()).stderr(copy()).spawn();
    let mut child = spawned.unwrap_or_else(|cause| panic!("{what} cannot be started: {cause}"));
    let mut status = None;
    let ended = until(patience, || {
        status = child.try_wait().expect("the state of a child");
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    if !status.is_some_and(|status| status.success()) {
        let mut text = String::new();
        let _ = std::io::Seek::rewind(&mut printed).and_then(|()| printed.read_to_string(&mut text));
        panic!("{what} failed ({status:?} within {patience:?}):\n{text}");
    }
}

/// Looks every [`TICK`] whether something is so, for as long as `patience`, and says whether it became so.
pub(super) fn until(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(TICK);
    }
}

/// The living processes of the server whose folder has the unique name `name`. They have it in their command line or
/// title. Their process group would not do: each backend makes one of its own.
pub(super) fn members(name: &str) -> Vec<Pid> {
    let is_member = |entry: &Path| {
        let line = std::fs::read(entry.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let program = line.split(['\0', ' ', ':']).next().unwrap_or_default();
        program.rsplit('/').next() == Some("postgres") && line.contains(name)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let found = processes.filter_map(|entry| {
        let pid = entry.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
        is_member(&entry).then_some(pid)
    });
    found.collect()
}

/// Kills the processes of a server and waits until they are gone.
pub(super) fn kill_members(name: &str, patience: Duration) -> bool {
    until(patience, || {
        let alive = members(name);
        for pid in &alive {
            // One that has just gone is what we want.
            let _ = kill_process(*pid, Signal::KILL);
        }
        alive.is_empty()
    })
}

/// Sixteen hexadecimal digits that nobody can guess.
pub(super) fn random() -> String {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.expect("random bytes");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
