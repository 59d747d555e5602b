//! What the kernel offers for a sandbox, part by part, as it was found out by trying.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::toolchain::ToolPlaces;

/// The argument that makes our binary find out what there is.
pub(in crate::process) const PROBE_ARGUMENT: &str = "__sandbox_probe";

/// How long finding out may take, which are some milliseconds where nothing is wrong.
const PROBE_TIME: Duration = Duration::from_secs(10);

/// One of the things that a sandbox is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxPart {
    /// A user namespace: the right to make the others, and no right of root's outside.
    User,
    /// A mount namespace: files that are not listed are not there, and protected ones cannot be changed.
    Mounts,
    /// A process namespace: no other process can be signalled or looked into, and none outlives the program.
    Processes,
    /// A `/proc` of its own; without it the command lines of all processes show.
    Proc,
    /// A namespace for shared memory and message queues.
    Ipc,
    /// A network namespace, for programs that are to have no network.
    Network,
    /// Landlock: a second wall around files, and no connection to abstract sockets.
    Landlock,
    /// A filter of system calls: no new namespaces, no keyrings, no typing into the terminal.
    Seccomp,
}

impl SandboxPart {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::User,
        Self::Mounts,
        Self::Processes,
        Self::Proc,
        Self::Ipc,
        Self::Network,
        Self::Landlock,
        Self::Seccomp,
    ];

    /// What it is for, in a few words.
    #[must_use]
    pub fn purpose(self) -> &'static str {
        match self {
            Self::User => "no right of root's outside",
            Self::Mounts => "unlisted files hidden, protected files read-only",
            Self::Processes => "other processes out of reach",
            Self::Proc => "command lines of other processes hidden",
            Self::Ipc => "shared memory of others out of reach",
            Self::Network => "commands without network",
            Self::Landlock => "a second wall around files; abstract sockets out of reach",
            Self::Seccomp => "dangerous system calls refused",
        }
    }
}

impl fmt::Display for SandboxPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user namespace",
            Self::Mounts => "mount namespace",
            Self::Processes => "process namespace",
            Self::Proc => "/proc of its own",
            Self::Ipc => "ipc namespace",
            Self::Network => "network namespace",
            Self::Landlock => "Landlock",
            Self::Seccomp => "system call filter",
        })
    }
}

/// What was done about a protected name at which a program left something that was not there before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DisplacedName {
    /// What is there has another name now.
    Renamed { path: String, to: String },
    /// There was a link, which is there again.
    PutBack(String),
    /// It could not be given another name.
    Stuck(String),
    /// It could not be looked into.
    Unseen(String),
    /// It holds commands that run when the person goes on with what was begun.
    Waiting(String),
    /// It is still being looked for.
    Pending,
}

impl fmt::Display for DisplacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed { path, to } => write!(f, "{path} was renamed to {to}"),
            Self::PutBack(path) => write!(f, "{path} was put back"),
            Self::Stuck(path) => write!(f, "{path} was made and could not be renamed"),
            Self::Unseen(path) => write!(f, "{path} could not be looked into"),
            Self::Waiting(path) => write!(f, "{path} holds commands that git runs when the rebase goes on"),
            Self::Pending => f.write_str("what was made is still being looked through"),
        }
    }
}

/// What a program wrote where it is gone with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LostNames {
    /// A few of them.
    pub(crate) names: Vec<String>,
    /// How many more there are.
    pub(crate) more: usize,
}

impl LostNames {
    /// What people and models are told about them, if there are any.
    pub(crate) fn told(&self) -> Option<String> {
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        (!self.names.is_empty()).then(|| {
            format!(
                "wrote to {}{more} is gone: the rest of the home folder is not shown in the sandbox",
                self.names.join(", ")
            )
        })
    }
}

/// How good a sandbox can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxLevel {
    /// Every part is there.
    Full,
    /// Files and processes are kept apart by namespaces, but something is missing that the report names.
    Namespaces,
    /// Files are kept apart by Landlock alone: what lies in the project cannot be protected.
    Landlock,
    /// Nothing keeps a program from a file.
    None,
}

/// What there is for a sandbox where programs are started, found out when it is first asked; clones share it.
#[derive(Debug, Clone, Default)]
pub struct SandboxMachine(Option<Arc<SandboxPossibilities>>);

#[derive(Debug)]
struct SandboxPossibilities {
    supervisor: Option<PathBuf>,
    tools: ToolPlaces,
    parts: OnceLock<BTreeSet<SandboxPart>>,
}

impl SandboxMachine {
    /// A machine on which programs are started by this supervisor, or without one, where no sandbox can be had. Tool chains
    /// and caches may be elsewhere than usual.
    #[must_use]
    pub fn new(supervisor: Option<PathBuf>, tools: ToolPlaces) -> Self {
        Self(Some(Arc::new(SandboxPossibilities { supervisor, tools, parts: OnceLock::new() })))
    }

    /// Nobody wants a sandbox: whoever starts the programs sees to it that they can do no harm.
    #[must_use]
    pub fn unused() -> Self {
        Self(None)
    }

    /// A machine of which it is known what it offers.
    #[must_use]
    pub fn known(parts: BTreeSet<SandboxPart>) -> Self {
        Self(Some(Arc::new(SandboxPossibilities {
            supervisor: None,
            tools: ToolPlaces::default(),
            parts: parts.into(),
        })))
    }

    /// Where tool chains and caches are besides the usual places.
    #[must_use]
    pub fn tools(&self) -> Option<&ToolPlaces> {
        Some(&self.0.as_ref()?.tools)
    }

    /// Whether nothing has to be tried out any more.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.as_ref().is_none_or(|possibilities| possibilities.parts.get().is_some())
    }

    /// The parts that are known by now, without waiting: none as long as they are being found out.
    #[must_use]
    pub fn parts_by_now(&self) -> Option<BTreeSet<SandboxPart>> {
        Some(self.0.as_ref()?.parts.get().cloned().unwrap_or_default())
    }

    /// The parts of a sandbox that can be had; nothing where nobody wants one. The first time it is tried out, which
    /// takes some milliseconds.
    #[must_use]
    pub fn parts(&self) -> Option<&BTreeSet<SandboxPart>> {
        let possibilities = self.0.as_ref()?;
        Some(possibilities.parts.get_or_init(|| {
            let probed = possibilities.supervisor.as_deref().map(SandboxReport::probe);
            match probed {
                Some(Ok(report)) => report.parts(),
                Some(Err(error)) => {
                    tracing::warn!(%error, "what there is for a sandbox could not be found out");
                    BTreeSet::new()
                }
                None => BTreeSet::new(),
            }
        }))
    }
}

/// What the kernel offers, and why not the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The parts that cannot be had, with the number of the system's error.
    pub refused: BTreeMap<SandboxPart, i32>,
    /// The version of Landlock, 0 where there is none.
    pub landlock: u32,
}

impl SandboxReport {
    /// Finds out what there is, by doing each in a child of the binary that can be a supervisor.
    ///
    /// # Errors
    ///
    /// The binary cannot be started, does not know how to find out, or takes too long.
    pub fn probe(supervisor: &Path) -> io::Result<Self> {
        Self::probe_within(supervisor, PROBE_TIME)
    }

    fn probe_within(supervisor: &Path, time: Duration) -> io::Result<Self> {
        let mut command = Command::new(supervisor);
        command.arg(PROBE_ARGUMENT).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        let (sender, receiver) = sync_channel(1);
        // Threads of their own: neither what it says nor its end can be waited for with a limit.
        thread::Builder::new().name("sandbox-probe".to_owned()).spawn(move || {
            let mut said = Vec::new();
            let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut said));
            drop(sender.send(read.map(|_| said)));
        })?;
        let said = receiver.recv_timeout(time).map_err(|_| {
            io::Error::new(io::ErrorKind::TimedOut, format!("it took longer than {} seconds", time.as_secs()))
        });
        if said.is_err() {
            // What it has started ends with it.
            child.kill().ok();
        }
        thread::Builder::new().name("sandbox-probe".to_owned()).spawn(move || drop(child.wait()))?;
        Ok(serde_json::from_slice(&said??)?)
    }

    /// The parts that can be had.
    #[must_use]
    pub fn parts(&self) -> BTreeSet<SandboxPart> {
        SandboxPart::ALL.into_iter().filter(|part| !self.refused.contains_key(part)).collect()
    }

    /// How good a sandbox they make.
    #[must_use]
    pub fn level(&self) -> SandboxLevel {
        let has = |part| !self.refused.contains_key(&part);
        if self.refused.is_empty() {
            SandboxLevel::Full
        } else if has(SandboxPart::Mounts) && has(SandboxPart::Processes) {
            SandboxLevel::Namespaces
        } else if has(SandboxPart::Landlock) {
            SandboxLevel::Landlock
        } else {
            SandboxLevel::None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_probe_that_does_not_end_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let (program, pipe) = (folder.path().join("stuck"), folder.path().join("pipe"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::fs::write(&program, format!("#!/bin/sh\nexec cat {}\n", pipe.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let error = SandboxReport::probe_within(&program, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn the_level_is_what_keeps_files_apart() {
        let check = |refused: &[SandboxPart], level: SandboxLevel| {
            let refused = refused.iter().map(|part| (*part, 1)).collect();
            assert_eq!(SandboxReport { refused, landlock: 7 }.level(), level);
        };
        check(&[], SandboxLevel::Full);
        check(&[SandboxPart::Landlock], SandboxLevel::Namespaces);
        check(&[SandboxPart::Proc, SandboxPart::User], SandboxLevel::Namespaces);
        check(&[SandboxPart::Mounts], SandboxLevel::Landlock);
        check(&[SandboxPart::Processes, SandboxPart::Seccomp], SandboxLevel::Landlock);
        check(&SandboxPart::ALL, SandboxLevel::None);
    }
}
