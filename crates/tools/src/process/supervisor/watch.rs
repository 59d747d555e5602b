//! A supervisor at work.
//!
//! It makes itself the one that orphans among its descendants are given to (a child subreaper). So every process that
//! the program started is its child, or descends from one, whatever it did to detach itself; and when the supervisor
//! has no child left, nothing of the program runs any more. An event loop on one thread is all it needs.

use std::fs::File;
use std::io::{self, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, setsid, wait};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::announcement::announce;
use super::super::control::{ControlSocket, RunOrder, SupervisorOrder, SupervisorReport, take, take_order};
use super::super::process_tree::{ask, descendants, kill, kill_children};
use super::super::sandbox::SandboxPolicy;
use super::super::sandbox::aftermath::ProtectionWatch;
use super::super::sandbox::enclosure::Enclosure;
use super::super::sandbox::guard::Guard;
use super::super::sandbox::made_file::MadeFiles;
use super::super::sandbox::report::LostNames;

/// How often children are killed and reaped in a row before all descendants are looked for again.
const STRIKES: usize = 100;

/// Runs the program that standard input names and stays until all of it is gone.
pub(super) fn run() -> io::Result<()> {
    // Before anything of the program runs. Where it cannot be had, the program runs all the same: this is not what keeps
    // it from deciding for the person.
    let _known = announce();
    let socket = StdUnixStream::from(stdin().try_clone_to_owned()?);
    let (input, record) = (take(&socket)?, take(&socket)?);
    let Some((SupervisorOrder::Run(run), rest)) = take_order(&socket)? else { return Ok(()) };
    socket.set_nonblocking(true)?;
    set_child_subreaper(Some(getpid()))?;
    // Whoever removes old temporary folders leaves this one alone.
    let _held = run.sandbox.as_ref().and_then(|policy| hold(policy.temporary.as_deref()?).ok());
    // A sandbox is made before there is an event loop: it would have a copy that catches its signals.
    let (beginning, protection) = match &run.sandbox {
        Some(policy) => {
            let protection = ProtectionWatch::begin(&run.projects, policy);
            (Beginning::Enclosed(enclose(&run, policy, input)), Some(protection))
        }
        None => (Beginning::Plain(input), None),
    };
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let control = ControlSocket::continued(UnixStream::from_std(socket)?, rest);
        watch(control, &run, beginning, protection.as_ref(), record).await
    })
}

/// Holds a folder for as long as the result is kept: others cannot lock it for themselves.
fn hold(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    flock(&folder, FlockOperation::NonBlockingLockShared)?;
    Ok(folder)
}

/// What there is when the event loop starts.
enum Beginning {
    /// A program that is still to be started, with its input.
    Plain(Option<OwnedFd>),
    /// A sandbox in which the program is about to start.
    Enclosed(io::Result<Enclosure>),
}

/// The program as its supervisor sees it.
struct WatchedProgram {
    /// Our child: the program, or the init of its sandbox.
    pid: Pid,
    /// What the init says, if there is one and it still speaks.
    words: Option<ControlSocket>,
    /// Whether the program is in a sandbox.
    enclosed: bool,
    /// Whether its start and its end have been told.
    started: bool,
    ended: bool,
    /// Whether the init has said its last word: nothing of the program is left.
    over: bool,
    /// Protected names that must be looked at in the end.
    guards: Vec<Guard>,
    /// What it wrote and is gone with it.
    lost: LostNames,
}

impl WatchedProgram {
    /// Starts the program, or takes over the sandbox in which it starts.
    fn begin(run: &RunOrder, beginning: Beginning) -> io::Result<Self> {
        let (pid, words) = match beginning {
            Beginning::Plain(input) => (start(run, input)?, None),
            Beginning::Enclosed(enclosure) => {
                let Enclosure { init, words } = enclosure?;
                words.set_nonblocking(true)?;
                (init, Some(ControlSocket::new(UnixStream::from_std(words)?)))
            }
        };
        let enclosed = words.is_some();
        let (guards, lost) = (Vec::new(), LostNames::default());
        Ok(Self { pid, words, enclosed, started: !enclosed, ended: false, over: false, guards, lost })
    }

    /// Waits for the init's next word, and gives what of it is to be told. It never comes where there is no init, or
    /// after its last one.
    async fn hear(&mut self) -> Option<SupervisorReport> {
        if let Some(words) = &mut self.words
            && let Ok(Some(word)) = words.next().await
        {
            return self.note(word);
        }
        self.words = None;
        std::future::pending().await
    }

    /// Takes note of a word, and gives it back if it is to be told.
    fn note(&mut self, word: SupervisorReport) -> Option<SupervisorReport> {
        match word {
            SupervisorReport::Guarded(guards) => self.guards = guards,
            SupervisorReport::Lost(lost) => self.lost = lost,
            SupervisorReport::Alone => self.over = true,
            word => {
                self.started = true;
                self.ended |= !matches!(word, SupervisorReport::Started);
                return Some(word);
            }
        }
        None
    }

    /// Takes note of every child that has ended: what is to be told, and whether none is left.
    fn reap(&mut self) -> (Option<SupervisorReport>, bool) {
        let (ended, alone) = reap(self.pid);
        // How an init ended says nothing about the program.
        let ended = ended.filter(|_| !self.enclosed);
        self.ended |= ended.is_some();
        (ended, alone || self.over)
    }

    /// What is left to be told when our child has ended.
    async fn last_words(&mut self) -> Vec<SupervisorReport> {
        let mut last = Vec::new();
        while let Some(words) = self.words.as_mut().filter(|_| !self.over) {
            match words.next().await {
                Ok(Some(word)) => last.extend(self.note(word)),
                Ok(None) | Err(_) => self.words = None,
            }
        }
        if !self.started {
            last.push(SupervisorReport::Refused("the sandbox ended before the program ran".to_owned()));
        } else if !self.ended {
            // It went with its namespace.
            last.push(SupervisorReport::Killed(Signal::KILL.as_raw()));
        }
        last
    }
}

/// How far things have come.
#[derive(Debug, Clone, Copy)]
enum WatchPhase {
    /// The program runs.
    Running,
    /// It has ended; what it left behind has until then to end too.
    Lingering(Instant),
    /// Everything was asked to stop and has until then.
    Stopping(Instant),
}

async fn watch(
    mut control: ControlSocket,
    run: &RunOrder,
    beginning: Beginning,
    protection: Option<&ProtectionWatch<'_>>,
    record: Option<OwnedFd>,
) -> io::Result<()> {
    // Before the program starts, so that no signal is missed.
    let mut children = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Keys of the terminal are for the program; they reach the supervisor as well and must not end it.
    let _keys = [signal(SignalKind::quit())?, signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?];
    let enclosed = matches!(beginning, Beginning::Enclosed(_));
    let mut program = match WatchedProgram::begin(run, beginning) {
        Ok(program) => program,
        Err(error) if enclosed => {
            let why = format!("the sandbox could not be made: {error}");
            return control.say(&SupervisorReport::Refused(why)).await;
        }
        Err(error) => {
            return control.say(&SupervisorReport::Failed(error.raw_os_error().unwrap_or_default())).await;
        }
    };
    // From here on nobody may be there to be told; that shows as an order to stop.
    if program.started {
        control.say(&SupervisorReport::Started).await.ok();
    }

    let grace = Duration::from_millis(run.grace);
    let mut phase = WatchPhase::Running;
    let mut held = true;
    let (mut stopped, mut left) = (false, 0);
    loop {
        let (ended, alone) = program.reap();
        if let Some(word) = ended {
            control.say(&word).await.ok();
        }
        if let (true, WatchPhase::Running) = (program.ended, phase) {
            phase = WatchPhase::Lingering(Instant::now() + Duration::from_millis(run.linger));
        }
        if alone {
            break;
        }
        let stop = tokio::select! {
            order = control.next::<SupervisorOrder>(), if held => {
                held = matches!(order, Ok(Some(_)));
                true
            }
            word = program.hear() => {
                if let Some(word) = word {
                    control.say(&word).await.ok();
                }
                false
            }
            _ = children.recv() => false,
            _ = terminate.recv() => true,
            _ = hangup.recv() => true,
            _ = interrupt.recv() => !run.terminal,
            () = due(phase) => match phase {
                WatchPhase::Running | WatchPhase::Lingering(_) => {
                    stopped = true;
                    true
                }
                WatchPhase::Stopping(_) => {
                    let mut ended = None;
                    left = kill(
                        || descendants(getpid()),
                        || {
                            for _ in 0..STRIKES {
                                let (word, alone) = program.reap();
                                ended = ended.take().or(word);
                                if alone {
                                    return Some(false);
                                }
                                kill_children();
                            }
                            Some(true)
                        },
                    );
                    if let Some(word) = ended.or_else(|| program.reap().0) {
                        control.say(&word).await.ok();
                    }
                    break;
                }
            },
        };
        if stop && !matches!(phase, WatchPhase::Stopping(_)) {
            // Shells at a terminal take no notice of TERM; HUP is how a terminal says that it is gone.
            let signals: &[Signal] =
                if run.terminal { &[Signal::HUP, Signal::TERM] } else { &[Signal::TERM] };
            ask(&descendants(getpid()), signals);
            phase = WatchPhase::Stopping(Instant::now() + grace);
        }
    }
    if program.enclosed {
        for word in program.last_words().await {
            control.say(&word).await.ok();
        }
    }
    // Also where it had to be killed, and where nobody is left to be told.
    let displaced = match protection {
        Some(protection) => {
            control.say(&SupervisorReport::Over).await.ok();
            protection.end(&program.guards, &record.map(MadeFiles::read).unwrap_or_default())
        }
        None => Vec::new(),
    };
    let lost = program.lost;
    let told = control.say(&SupervisorReport::Gone { stopped, left, displaced, lost }).await;
    if program.over {
        // The init is ending. Whoever does not wait for it leaves it to the process that started us, which does not know it
        // and would keep what is left of each for as long as it runs.
        while wait(WaitOptions::empty()).is_ok() {}
    }
    told
}

/// Waits until the phase is over.
async fn due(phase: WatchPhase) {
    match phase {
        WatchPhase::Running => std::future::pending().await,
        WatchPhase::Lingering(until) | WatchPhase::Stopping(until) => sleep_until(until).await,
    }
}

/// Starts the program and lets go of its streams.
fn start(run: &RunOrder, input: Option<OwnedFd>) -> io::Result<Pid> {
    let mut command = Command::new(&run.program);
    command.args(&run.args);
    if run.terminal {
        // It stays in our group, which the terminal takes for the one in front.
        command.stdin(Stdio::from(stdout().as_fd().try_clone_to_owned()?));
    } else {
        // Without a terminal of its own a program that wants a password fails instead of waiting for one.
        setsid()?;
        command.stdin(input.map_or_else(Stdio::null, Stdio::from)).process_group(0);
    }
    let child = command.spawn()?;
    // It holds the program's input, whose end the program would not see as long as we could read it.
    drop(command);
    let_go()?;
    Ok(Pid::from_child(&child))
}

/// Starts the program in a sandbox and lets go of its streams.
fn enclose(run: &RunOrder, policy: &SandboxPolicy, input: Option<OwnedFd>) -> io::Result<Enclosure> {
    if !run.terminal {
        setsid()?;
    }
    let enclosure = Enclosure::start(run, policy, input)?;
    let_go()?;
    Ok(enclosure)
}

/// Lets go of the program's streams.
fn let_go() -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    Ok(())
}

/// Takes note of every child that has ended: how the program did, if it was among them, and whether none is left.
fn reap(program: Pid) -> (Option<SupervisorReport>, bool) {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => {
                ended = status
                    .exit_status()
                    .map(SupervisorReport::Exited)
                    .or_else(|| status.terminating_signal().map(SupervisorReport::Killed));
            }
            Ok(Some(_)) => {}
            Ok(None) => return (ended, false),
            Err(_) => return (ended, true),
        }
    }
}
