//! A program from its start until nothing of it is left.
//!
//! Dropping a [`RunningProgram`] stops everything it started: its supervisor sees the socket close, and a group is
//! killed.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use super::control::{ControlSocket, SupervisorOrder, SupervisorReport};
use super::group::ProcessGroup;
use super::launch::Launcher;
#[cfg(target_os = "linux")]
use super::sandbox::overlap::ProgramEntry;
use super::sandbox::report::{DisplacedName, LostNames};

/// How often a group that was asked to stop is looked at.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long a supervisor may take to say that the program runs, before that is taken for granted.
const BEGINNING: Duration = Duration::from_secs(2);
/// How much longer than agreed a supervisor may take to stop everything before it is taken for dead.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a call waits until what its program made has been looked through. That takes as long as the program made it
/// take, and goes on when nobody waits for it.
const SEARCH: Duration = Duration::from_secs(120);

/// Why a program was not started: something was moved after its project had been looked at.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} was moved or replaced while the command started, so it could not be made safe; nothing was run. If another \
     command does that all the time, stop it first"
)]
pub(super) struct MovedPlace(String);

/// A running program.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    child: Child,
    pid: Option<Pid>,
    hold: Containment,
    mark: String,
    grace: Duration,
    linger: Duration,
    exit: Option<Exit>,
    /// Whether nothing of it runs any more, and the supervisor looks through what it made.
    over: bool,
    gone: Option<Cleanup>,
    asked: bool,
    /// Its entry among the programs that run in the same places.
    #[cfg(target_os = "linux")]
    entry: Option<std::sync::Arc<ProgramEntry>>,
    _presence: ProgramPresence,
}

/// Counts the programs of this process for as long as somebody holds them, and remembers when the last one was let go.
#[derive(Debug)]
struct ProgramPresence;

/// How many there are, and when the last one ended.
static PRESENT: Mutex<(usize, Option<std::time::Instant>)> = Mutex::new((0, None));

/// How long a program that has ended counts as one that may just have said something.
const LATELY: Duration = Duration::from_secs(5);

impl ProgramPresence {
    fn begin() -> Self {
        PRESENT.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Self
    }
}

impl Drop for ProgramPresence {
    fn drop(&mut self) {
        let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
        *present = (present.0.saturating_sub(1), Some(std::time::Instant::now()));
    }
}

/// What this process has started, by its number, and whether that has a terminal: in terminals people work.
///
/// Whatever else is our child, and left our session, was left to us by a program. What a process says of itself (its command
/// line, its terminal, what file it runs) tells nothing: a program chooses all of it.
#[cfg(target_os = "linux")]
static STARTED: Mutex<std::collections::BTreeMap<i32, bool>> = Mutex::new(std::collections::BTreeMap::new());

/// Starts something and takes note of it. Nobody sees a child that is not known yet: whoever asks waits until it is.
#[cfg(target_os = "linux")]
pub(super) fn start_known(terminal: bool, start: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
    use super::process_tree::is_child;

    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    // A number that is free again may be another's.
    started.retain(|pid, _| is_child(*pid));
    let child = start()?;
    started.extend(child.id().and_then(|id| i32::try_from(id).ok()).map(|pid| (pid, terminal)));
    Ok(child)
}

/// What this process has started, by its number, and whether that has a terminal. It may have ended.
#[cfg(target_os = "linux")]
pub(crate) fn started() -> std::collections::BTreeMap<i32, bool> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Whether this process has a program, or had one a moment ago: it can have connected to us and left.
pub(crate) fn had_programs_lately() -> bool {
    let (count, ended) = *PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    count > 0 || ended.is_some_and(|ended| ended.elapsed() < LATELY)
}

/// How everything that belongs to the program is held together.
#[derive(Debug)]
pub(super) enum Containment {
    Supervisor(ControlSocket),
    Group(ProcessGroup),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    /// Its supervisor was killed, so nobody knows.
    Lost,
}

impl Exit {
    /// The status as a shell gives it: 128 and the signal for a program that one ended.
    pub(crate) fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(signal) => Some(128 + signal),
            Self::Lost => None,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Lost,
        }
    }
}

/// What it took to stop everything that a program had started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cleanup {
    /// Whether the program had left others running, which were stopped.
    pub(crate) stopped: bool,
    /// How many processes could not be stopped.
    pub(crate) left: usize,
    /// What it had left at protected names, and has others now.
    pub(crate) displaced: Vec<DisplacedName>,
    /// What it wrote and is gone with it.
    pub(crate) lost: LostNames,
}

impl Cleanup {
    /// What people and models are told about protected names: each of a few, and how many more there are.
    pub(crate) fn displacements(&self) -> Vec<String> {
        const TOLD: usize = 20;
        let mut told: Vec<String> = self.displaced.iter().take(TOLD).map(ToString::to_string).collect();
        let more = self.displaced.len().saturating_sub(TOLD);
        told.extend((more > 0).then(|| format!("and {more} more")));
        told
    }

    /// What git does not say when the settings of a repository were renamed: a push finds no remote.
    pub(crate) fn lost_settings(&self) -> Option<&'static str> {
        let is_one = |name: &DisplacedName| matches!(name, DisplacedName::Renamed { path, .. } if path.ends_with(".git/config"));
        self.displaced.iter().any(is_one).then_some(
            "the remotes and settings of a repository are in its config.untrusted now, and git goes on without them",
        )
    }
}

impl RunningProgram {
    pub(super) fn new(child: Child, hold: Containment, mark: String, launcher: &Launcher) -> Self {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self {
            child,
            pid,
            hold,
            mark,
            grace: launcher.grace,
            linger: launcher.linger,
            exit: None,
            gone: None,
            over: false,
            asked: false,
            #[cfg(target_os = "linux")]
            entry: None,
            _presence: ProgramPresence::begin(),
        }
    }

    /// Remembers its entry, which ends when the supervisor has looked through what it left.
    #[cfg(target_os = "linux")]
    pub(super) fn enter(&mut self, entry: std::sync::Arc<ProgramEntry>) {
        self.entry = Some(entry);
    }

    /// Tells the supervisor what to run, and waits until it does.
    ///
    /// A supervisor that is halted or killed at this moment may have started the program all the same. So that is not a
    /// failure to start: waiting for the end finds out.
    pub(super) async fn begin(&mut self, order: &SupervisorOrder) -> io::Result<()> {
        let Containment::Supervisor(control) = &mut self.hold else { return Ok(()) };
        control.say(order).await?;
        match timeout(BEGINNING, control.next()).await {
            Err(_) | Ok(Ok(Some(SupervisorReport::Started))) => Ok(()),
            Ok(Ok(Some(SupervisorReport::Failed(number)))) => Err(io::Error::from_raw_os_error(number)),
            Ok(Ok(Some(SupervisorReport::Refused(reason)))) => Err(io::Error::other(format!(
                "{reason}. `everturn doctor` shows what this machine offers for one"
            ))),
            Ok(Ok(Some(SupervisorReport::Moved(place)))) => {
                #[cfg(target_os = "linux")]
                if let Some(entry) = &self.entry {
                    entry.end();
                }
                Err(io::Error::other(MovedPlace(place)))
            }
            Ok(Ok(None)) if self.child.wait().await?.signal().is_some() => Ok(()),
            Ok(_) => Err(io::Error::other("the process that should watch over it did not start")),
        }
    }

    /// The process that a signal must go to in order to stop everything: the supervisor, or the leader of the group.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Whether a supervisor watches over it.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.hold, Containment::Supervisor(_))
    }

    /// Whether it was asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.asked
    }

    /// Waits until the program itself has ended; what it started may go on. It may be dropped and asked again.
    pub(crate) async fn ended(&mut self) -> Exit {
        while self.exit.is_none() {
            match &mut self.hold {
                Containment::Supervisor(_) => self.listen().await,
                Containment::Group(group) => {
                    self.exit = Some(self.child.wait().await.map_or(Exit::Lost, Exit::from));
                    if !group.exists() {
                        group.forget();
                    }
                }
            }
        }
        self.exit.unwrap_or(Exit::Lost)
    }

    /// Asks everything to stop; what is left after the grace is killed.
    pub(crate) async fn stop(&mut self) {
        if self.asked {
            return;
        }
        self.asked = true;
        match &mut self.hold {
            // A supervisor that does not listen shows as one that is gone.
            Containment::Supervisor(control) => drop(control.say(&SupervisorOrder::Stop).await),
            Containment::Group(group) => group.terminate(),
        }
    }

    /// Waits until nothing of the program runs any more. What it leaves behind is stopped.
    pub(crate) async fn gone(&mut self) -> Cleanup {
        match self.hold {
            Containment::Supervisor(_) => self.leave().await,
            Containment::Group(_) => self.empty().await,
        }
    }

    /// Takes the supervisor's next word.
    async fn listen(&mut self) {
        let Containment::Supervisor(control) = &mut self.hold else { return };
        match control.next().await {
            Ok(Some(SupervisorReport::Exited(code))) => self.exit = Some(Exit::Code(code)),
            Ok(Some(SupervisorReport::Killed(signal))) => self.exit = Some(Exit::Signal(signal)),
            Ok(Some(SupervisorReport::Gone { stopped, left, displaced, lost })) => {
                self.exit.get_or_insert(Exit::Lost);
                self.gone = Some(Cleanup { stopped, left, displaced, lost });
                #[cfg(target_os = "linux")]
                if let Some(entry) = &self.entry {
                    entry.end();
                }
            }
            Ok(Some(SupervisorReport::Over)) => self.over = true,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                self.sweep().await;
                self.exit.get_or_insert(Exit::Lost);
            }
        }
    }

    /// Waits for the supervisor to say that all is gone.
    async fn leave(&mut self) -> Cleanup {
        let patience = self.linger + self.grace + PATIENCE;
        let words = async {
            while self.gone.is_none() && !self.over {
                self.listen().await;
            }
        };
        if timeout(patience, words).await.is_err() {
            // Halted or stuck: what it should have done is done here.
            self.child.start_kill().ok();
            self.sweep().await;
        }
        let words = async {
            while self.gone.is_none() {
                self.listen().await;
            }
        };
        if timeout(SEARCH, words).await.is_err() {
            // It is not killed: protected names would stay as they are.
            return Cleanup { displaced: vec![DisplacedName::Pending], ..Cleanup::default() };
        }
        self.gone.clone().unwrap_or_default()
    }

    /// Does the work of a supervisor that is gone.
    async fn sweep(&mut self) {
        self.gone = Some(Cleanup::default());
        #[cfg(target_os = "linux")]
        if let Some(session) = self.pid {
            let mark = self.mark.clone();
            let swept = tokio::task::spawn_blocking(move || sweep(session, &mark));
            self.gone = Some(Cleanup { left: swept.await.unwrap_or_default(), ..Cleanup::default() });
        }
    }

    /// Waits for the group to have no member.
    async fn empty(&mut self) -> Cleanup {
        let mut stopped = false;
        if !self.asked && self.outlives(self.linger).await {
            stopped = true;
            self.stop().await;
        }
        let mut left = 0;
        if self.outlives(self.grace).await
            && let Containment::Group(group) = &mut self.hold
        {
            group.kill();
            // By itself too: it may have left its group.
            self.child.start_kill().ok();
            match timeout(PATIENCE, self.child.wait()).await {
                Ok(_) => group.forget(),
                // Stuck in the system, for example on a disk that does not answer.
                Err(_) => left = 1,
            }
        }
        Cleanup { stopped, left, ..Cleanup::default() }
    }

    /// Whether the group has members for so long.
    async fn outlives(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while let Containment::Group(group) = &mut self.hold {
            if !group.exists() {
                group.forget();
                return false;
            }
            if Instant::now() >= deadline {
                return true;
            }
            self.child.try_wait().ok();
            sleep(POLL_EVERY).await;
        }
        false
    }
}

/// Kills the processes of a call whose supervisor is gone, and says how many could not be killed. Those that have cleared
/// their environment and left the session have come to us: no other process takes orphans nearer to them.
#[cfg(target_os = "linux")]
fn sweep(session: Pid, mark: &str) -> usize {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use super::process_tree::{Process, adopted, kill, marked, reap};

    let left_to_us = RefCell::new(HashSet::new());
    let find = || {
        // In this order: once the supervisor itself is not found any more, all that it leaves has come to us.
        let mut found = marked(session, mark);
        let adopted = adopted();
        left_to_us.borrow_mut().extend(adopted.iter().map(Process::pid));
        found.extend(adopted.into_iter().filter(|process| !found.contains(process)).collect::<Vec<_>>());
        found
    };
    kill(find, || {
        reap(&left_to_us.borrow());
        None
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::{ProgramStart, ProgramStreams};

    /// The id by which the group is known.
    async fn check(line: &str) {
        let (_reader, writer) = io::pipe().unwrap();
        let args = ["-c".to_owned(), line.to_owned()];
        let start = ProgramStart { program: "sh", args: &args, folder: Path::new("/"), env: &[] };
        let launcher = Launcher { grace: Duration::from_millis(50), ..Launcher::default() };
        let mut program = launcher.start(&start, ProgramStreams::Pipe(writer.into())).await.unwrap();
        assert_eq!(program.ended().await, Exit::Code(0));
        program.gone().await;
        assert!(matches!(&program.hold, Containment::Group(group) if group.is_forgotten()), "{program:?}");
    }

    #[tokio::test]
    async fn a_group_without_members_is_let_go() {
        // Its number went on being signalled when the program was dropped, whoever had it by then.
        check("true").await;
        check("sleep 1000 &").await;
        check("trap '' TERM; sleep 1000 &").await;
    }
}
