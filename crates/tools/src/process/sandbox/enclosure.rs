//! The way of a program into the sandbox, and the init that stays with it there.
//!
//! The supervisor makes the init as a child in new namespaces and writes the maps of accounts. The init makes the
//! root and starts the program, which gives up its rights before it becomes what it is to be. All of it happens in
//! processes with one thread, so that plain code may run after a fork.
//!
//! The init dies with its supervisor, and with the init dies whatever is in its process namespace.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper,
    set_dumpable_behavior, set_parent_process_death_signal, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::fault::{SandboxFault, during};
use super::guard::Guard;
use super::kernel::{SignalDelivery, close_on_exec, close_others, fork, raise_loopback, set_signals};
use super::losses::losses;
use super::mounts::EnteredRoot;
use super::policy::{SandboxNetwork, SandboxPolicy};
use super::report::SandboxPart;
use super::{identity, landlock, mounts, protection, seccomp};
use crate::process::control::{RunOrder, SupervisorReport};

/// Variables that name sockets which are out of reach. With them programs fail; without, most go on.
const FOREIGN: [&str; 12] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// A sandbox that has been started.
#[derive(Debug)]
pub(in crate::process) struct Enclosure {
    /// The process that ends when nothing of the program runs any more.
    pub(in crate::process) init: Pid,
    /// What it says: reports, one JSON value on each line, until it ends.
    pub(in crate::process) words: UnixStream,
}

impl Enclosure {
    /// Starts a program in a sandbox. Whether it runs is the init's first word.
    pub(in crate::process) fn start(
        run: &RunOrder,
        policy: &SandboxPolicy,
        input: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let folder = env::current_dir()?;
        let (mut ours, theirs) = UnixStream::pair()?;
        let work = || Init { run, policy, folder, words: theirs }.live(input);
        let init = fork(namespaces(policy), work)?;
        let ready = if policy.has(SandboxPart::User) { identity::map_accounts(init) } else { Ok(()) };
        if let Err(error) = ready.and_then(|()| ours.write_all(b"\n")) {
            kill_process(init, Signal::KILL).ok();
            return Err(error);
        }
        Ok(Self { init, words: ours })
    }
}

/// The namespaces that a policy asks for.
fn namespaces(policy: &SandboxPolicy) -> libc::c_int {
    let flag = |part, flag| if policy.has(part) { flag } else { 0 };
    let network = if policy.network == SandboxNetwork::Own { libc::CLONE_NEWNET } else { 0 };
    flag(SandboxPart::User, libc::CLONE_NEWUSER)
        | flag(SandboxPart::Mounts, libc::CLONE_NEWNS)
        | flag(SandboxPart::Processes, libc::CLONE_NEWPID)
        | flag(SandboxPart::Ipc, libc::CLONE_NEWIPC)
        | network
}

/// The process that stays with a program in the sandbox.
struct Init<'a> {
    run: &'a RunOrder,
    policy: &'a SandboxPolicy,
    folder: PathBuf,
    words: UnixStream,
}

impl Init<'_> {
    /// Does everything, and returns its exit status.
    fn live(mut self, input: Option<OwnedFd>) -> u8 {
        match self.serve(input) {
            Ok(()) => 0,
            Err(fault) => {
                let refused = || SupervisorReport::Refused(format!("the sandbox could not be made: {fault}"));
                let moved = fault.moved().map(|place| SupervisorReport::Moved(place.to_owned()));
                self.say(&moved.unwrap_or_else(refused)).ok();
                1
            }
        }
    }

    fn serve(&mut self, input: Option<OwnedFd>) -> Result<(), SandboxFault> {
        // It must neither miss the program's end nor end before it, whoever asks.
        set_signals(SignalDelivery::Blocked).map_err(during("blocking signals"))?;
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(during("holding on to the supervisor"))?;
        let mut keep = vec![self.words.as_fd()];
        keep.extend(input.as_ref().map(OwnedFd::as_fd));
        close_others(&keep).map_err(during("closing files"))?;
        // If the supervisor is gone already, there is nothing to read, now that its end is not open here as well.
        self.words.read_exact(&mut [0]).map_err(during("waiting for the supervisor"))?;
        if self.policy.network == SandboxNetwork::Own {
            let socket = socket(AddressFamily::INET, SocketType::DGRAM, None);
            let raised = socket.map_err(io::Error::from).and_then(raise_loopback);
            raised.map_err(during("the network"))?;
        }
        let (guards, places) = if self.policy.has(SandboxPart::Mounts) {
            let EnteredRoot { guards, places } =
                mounts::enter(self.policy, &self.run.projects, &self.folder)?;
            (guards, Some(places))
        } else {
            let protected = protection::protected(self.policy, &self.run.projects.surveys)?;
            let closed = protected.into_iter().map(|(_, path)| path);
            let closed = closed.filter(|path| self.policy.permitted_in(path).is_empty());
            (Guard::of_all_absent(closed), None)
        };
        self.say(&SupervisorReport::Guarded(guards)).map_err(during("reporting"))?;
        if !self.policy.has(SandboxPart::Processes) {
            set_child_subreaper(Some(getpid())).map_err(during("adopting orphans"))?;
        }
        // What it holds open leads out of the sandbox.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(during("closing itself"))?;
        let program = match self.start(input) {
            Ok(program) => program,
            Err(StartFault::Sandbox(fault)) => return Err(fault),
            Err(StartFault::Program(number)) => {
                return self.say(&SupervisorReport::Failed(number)).map_err(during("reporting"));
            }
        };
        self.say(&SupervisorReport::Started).map_err(during("reporting"))?;
        // The supervisor is told by its socket if this one fails: then the init has ended.
        while let Ok(ended) = wait(WaitOptions::empty()) {
            let Some((_, status)) = ended.filter(|(pid, _)| *pid == program) else { continue };
            let exited = status.exit_status().map(SupervisorReport::Exited);
            if let Some(word) = exited.or_else(|| status.terminating_signal().map(SupervisorReport::Killed)) {
                self.say(&word).map_err(during("reporting"))?;
            }
        }
        if let Some(lost) =
            places.map(|places| losses(self.policy, &places)).filter(|lost| !lost.names.is_empty())
        {
            self.say(&SupervisorReport::Lost(lost)).map_err(during("reporting"))?;
        }
        // The last word: nothing is left but this process, which the system takes a while to take apart.
        self.say(&SupervisorReport::Alone).map_err(during("reporting"))
    }

    fn say(&mut self, word: &SupervisorReport) -> io::Result<()> {
        let mut line = serde_json::to_vec(word)?;
        line.push(b'\n');
        self.words.write_all(&line)
    }

    /// Starts the program, and lets go of its streams.
    fn start(&self, input: Option<OwnedFd>) -> Result<Pid, StartFault> {
        let (mut trouble, writer) = io::pipe().map_err(during("making a pipe"))?;
        let program = fork(0, || {
            let fault = self.become_program(input.as_ref());
            let text = match &fault {
                StartFault::Program(number) => number.to_string(),
                StartFault::Sandbox(fault) => fault.to_string(),
            };
            // Where it does not arrive there is nobody left to tell.
            (&writer).write_all(text.as_bytes()).ok();
            1
        })
        .map_err(during("starting a process"))?;
        drop((writer, input));
        let nowhere = fs::File::options().read(true).write(true).open("/dev/null");
        let nowhere = nowhere.map_err(during("/dev/null"))?;
        let away =
            dup2_stdin(&nowhere).and_then(|()| dup2_stdout(&nowhere)).and_then(|()| dup2_stderr(&nowhere));
        away.map_err(during("letting go of the program's streams"))?;
        let mut text = String::new();
        // It ends without a word when the program has taken the place of the process.
        trouble.read_to_string(&mut text).map_err(during("waiting for the program"))?;
        match text.parse::<i32>() {
            _ if text.is_empty() => Ok(program),
            Ok(number) => Err(StartFault::Program(number)),
            Err(_) => Err(during(text)(io::Error::from(io::ErrorKind::PermissionDenied)).into()),
        }
    }

    /// Gives up what the program must not have, and becomes it. It returns only if that fails.
    fn become_program(&self, input: Option<&OwnedFd>) -> StartFault {
        let mut command = Command::new(&self.run.program);
        command.args(&self.run.args);
        for name in FOREIGN {
            command.env_remove(name);
        }
        match &self.policy.temporary {
            Some(folder) if !self.policy.has(SandboxPart::Mounts) => command.env("TMPDIR", folder),
            _ => command.env("TMPDIR", "/tmp"),
        };
        if let Err(fault) = self.give_up(&mut command, input) {
            return fault.into();
        }
        StartFault::Program(command.exec().raw_os_error().unwrap_or(libc::EIO))
    }

    fn give_up(&self, command: &mut Command, input: Option<&OwnedFd>) -> Result<(), SandboxFault> {
        set_signals(SignalDelivery::Open).map_err(during("receiving signals"))?;
        if self.run.terminal {
            // It stays in the group of the supervisor, which the terminal takes for the one in front.
            let terminal = io::stdout().as_fd().try_clone_to_owned().map_err(during("the terminal"))?;
            command.stdin(terminal);
        } else {
            setsid().map_err(during("leaving the session"))?;
            let input = input.map(OwnedFd::try_clone).transpose().map_err(during("the input"))?;
            command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        }
        identity::give_up_rights().map_err(during("giving up rights"))?;
        if self.policy.has(SandboxPart::Landlock) {
            landlock::enforce(self.policy).map_err(during("Landlock"))?;
        }
        close_on_exec().map_err(during("closing files"))?;
        if self.policy.has(SandboxPart::Seccomp) {
            seccomp::enforce().map_err(during("the filter of system calls"))?;
        }
        Ok(())
    }
}

/// Why a program did not start.
enum StartFault {
    /// The system's error, as without a sandbox.
    Program(i32),
    Sandbox(SandboxFault),
}

impl From<SandboxFault> for StartFault {
    fn from(fault: SandboxFault) -> Self {
        Self::Sandbox(fault)
    }
}
