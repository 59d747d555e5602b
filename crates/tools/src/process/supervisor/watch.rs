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
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, setsid, wait};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::super::control::{ControlSocket, RunOrder, SupervisorOrder, SupervisorReport, take_input};
use super::super::process_tree::{ask, descendants, kill, kill_children};

/// How often children are killed and reaped in a row before all descendants are looked for again.
const STRIKES: usize = 100;

/// Runs the program that standard input names and stays until all of it is gone.
pub(super) fn run() -> io::Result<()> {
    let socket = StdUnixStream::from(stdin().try_clone_to_owned()?);
    let input = take_input(&socket)?;
    socket.set_nonblocking(true)?;
    set_child_subreaper(Some(getpid()))?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async { watch(ControlSocket::new(UnixStream::from_std(socket)?), input).await })
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

async fn watch(mut control: ControlSocket, input: Option<OwnedFd>) -> io::Result<()> {
    let Some(SupervisorOrder::Run(run)) = control.next().await? else { return Ok(()) };
    // Before the program starts, so that no signal is missed.
    let mut children = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Keys of the terminal are for the program; they reach the supervisor as well and must not end it.
    let _keys = [signal(SignalKind::quit())?, signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?];
    let program = match start(&run, input) {
        Ok(program) => program,
        Err(error) => {
            return control.say(&SupervisorReport::Failed(error.raw_os_error().unwrap_or_default())).await;
        }
    };
    control.say(&SupervisorReport::Started).await?;

    let grace = Duration::from_millis(run.grace);
    let mut phase = WatchPhase::Running;
    let mut held = true;
    let (mut stopped, mut left) = (false, 0);
    loop {
        let (ended, alone) = reap(program);
        if let Some(word) = ended {
            control.say(&word).await?;
            if let WatchPhase::Running = phase {
                phase = WatchPhase::Lingering(Instant::now() + Duration::from_millis(run.linger));
            }
        }
        if alone {
            break;
        }
        let stop = tokio::select! {
            order = control.next::<SupervisorOrder>(), if held => {
                held = matches!(order, Ok(Some(_)));
                true
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
                                let (word, alone) = reap(program);
                                ended = ended.take().or(word);
                                if alone {
                                    return Some(false);
                                }
                                kill_children();
                            }
                            Some(true)
                        },
                    );
                    if let Some(word) = ended.or_else(|| reap(program).0) {
                        control.say(&word).await?;
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
    control.say(&SupervisorReport::Gone { stopped, left }).await
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
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    Ok(Pid::from_child(&child))
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
