//! Finding processes through `/proc`, and stopping them so that none slips away.
//!
//! A process can start another one between the moment it is seen and the moment it is killed. So all are frozen
//! first, again and again until no new one shows up, and only then killed; and that is repeated until none is left.
//!
//! A process that starts its successor and ends at once may never be there when we look. Only its parent can tell for
//! sure that none is left, and only a parent may kill by number without a look: see [`kill_children`].

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, geteuid, getpid, kill_process, pidfd_open, pidfd_send_signal,
    waitpid,
};

use super::environment::MARK;
use super::program::started;

/// How long killed processes may take to vanish. Only the system itself can hold them up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often new processes are frozen before those that are frozen are killed.
const ROUNDS: usize = 20;
/// The pause between two looks at processes that were killed.
const PAUSE: Duration = Duration::from_millis(1);

/// One living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pid: Pid,
    parent: i32,
    session: i32,
    /// Whether its session has a terminal.
    terminal: bool,
    stopped: bool,
    /// When it started; with the pid this names it for good.
    start: u64,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalResult {
    Delivered,
    Gone,
    Refused,
}

/// Every descendant of a process.
pub(super) fn descendants(ancestor: Pid) -> Vec<Process> {
    with_descendants(Vec::new(), &[ancestor.as_raw_pid()], all())
}

/// The processes of one call whose supervisor is gone: those of its session, those that carry its mark, and the
/// descendants of both.
pub(super) fn marked(session: Pid, mark: &str) -> Vec<Process> {
    let entry = format!("{MARK}={mark}").into_bytes();
    let carries = |process: &Process| {
        fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == entry))
    };
    let (found, others): (Vec<_>, Vec<_>) =
        all().into_iter().partition(|process| process.session == session.as_raw_pid() || carries(process));
    let parents: Vec<i32> = found.iter().map(|process| process.pid.as_raw_pid()).collect();
    with_descendants(found, &parents, others)
}

/// What supervisors that were killed have left to us, with its descendants.
pub(super) fn adopted() -> Vec<Process> {
    let Some(own) = Process::of(getpid().as_raw_pid()) else { return Vec::new() };
    // In this order: what is started after it was looked at is not among them.
    let all = all();
    let started = started();
    let (found, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|process| process.is_adopted(&own, &started));
    let parents: Vec<i32> = found.iter().map(Process::pid).collect();
    with_descendants(found, &parents, others)
}

/// What supervisors that were killed have left to us, without its descendants. Quicker than looking at all processes.
pub(crate) fn adopted_children() -> Vec<i32> {
    let Some(own) = Process::of(getpid().as_raw_pid()) else { return Vec::new() };
    let found: Vec<Process> = children(own.pid()).into_iter().filter_map(Process::of).collect();
    let started = started();
    found.iter().filter(|process| process.is_adopted(&own, &started)).map(Process::pid).collect()
}

/// Whether a process is there, and our child.
pub(super) fn is_child(pid: i32) -> bool {
    Process::of(pid).is_some_and(|process| process.parent == getpid().as_raw_pid())
}

/// What we have started for an agent and that is still there.
pub(crate) fn started_programs() -> Vec<i32> {
    let programs = started().into_iter().filter(|(_, terminal)| !terminal).map(|(pid, _)| pid);
    programs.filter(|pid| is_child(*pid)).collect()
}

/// Whether a process that we did not start ourselves comes from a program of an agent, by its ancestors: we are one of them,
/// and it is below neither a terminal nor what we start for ourselves in our session.
pub(crate) fn is_below_a_program(ancestry: &[i32]) -> bool {
    let own = getpid().as_raw_pid();
    let Some(child) = ancestry.iter().position(|process| *process == own).and_then(|at| at.checked_sub(1))
    else {
        return false;
    };
    let Some(child) = ancestry.get(child) else { return false };
    let session = |pid: i32| Process::of(pid).map(|process| process.session);
    match started().get(child) {
        Some(terminal) => !terminal,
        None => session(*child).is_none_or(|session_of_child| session(own) != Some(session_of_child)),
    }
}

/// Takes note of the end of children that we did not start, which nobody else does.
pub(super) fn reap(children: &HashSet<i32>) {
    for child in children.iter().filter_map(|child| Pid::from_raw(*child)) {
        waitpid(Some(child), WaitOptions::NOHANG).ok();
    }
}

/// Whether a process was started for an agent, here or by another server: it descends from this process, or it or one
/// of its ancestors carries the mark of a call. A mark that is on our own way up is that of a call which we are part of
/// ourselves, and says nothing. Nothing if it has ended meanwhile.
pub(crate) fn is_of_a_call(pid: i32) -> Option<bool> {
    let own = getpid().as_raw_pid();
    if pid == own {
        return Some(false);
    }
    let ours: HashSet<Vec<u8>> = ancestry(own).into_iter().flatten().filter_map(mark_of).collect();
    let is_of_one =
        |process: &i32| *process == own || mark_of(*process).is_some_and(|mark| !ours.contains(&mark));
    Some(ancestry(pid)?.iter().any(is_of_one))
}

/// A process and its ancestors, as far as they are there; nothing if it has ended.
pub(crate) fn ancestry(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    let mut at = pid;
    while at > 0 && !found.contains(&at) {
        found.push(at);
        at = Process::read(Pid::from_raw(at)?)?.parent;
    }
    Some(found)
}

/// The mark in the environment of a process, as far as we may see it.
fn mark_of(pid: i32) -> Option<Vec<u8>> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entry = format!("{MARK}=").into_bytes();
    environ.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(&*entry)).map(<[u8]>::to_vec)
}

/// Asks processes to stop. One that is halted goes on, to hear it.
pub(super) fn ask(processes: &[Process], signals: &[Signal]) {
    for process in processes {
        for signal in signals {
            process.send(*signal);
        }
        if process.stopped {
            process.send(Signal::CONT);
        }
    }
}

/// Kills our children by number, which nobody else can have before we have reaped them. Quicker than looking at all
/// processes, so that it catches those which are never there for long.
pub(super) fn kill_children() {
    let own = getpid();
    let listed = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    for child in listed.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        kill_process(child, Signal::KILL).ok();
    }
}

/// Kills whatever `find` finds, and says how many could not be killed. `reap` is called in between: it says whether
/// any can be left, if it knows. Otherwise the end is when nothing is found.
pub(super) fn kill(find: impl Fn() -> Vec<Process>, mut reap: impl FnMut() -> Option<bool>) -> usize {
    let deadline = Instant::now() + PATIENCE;
    let mut refused = HashSet::new();
    loop {
        let mut frozen = HashSet::new();
        for _ in 0..ROUNDS {
            let mut news = false;
            for process in find() {
                let name = (process.pid, process.start);
                if !refused.contains(&name) && frozen.insert(name) {
                    news = true;
                    if process.send(Signal::STOP) == SignalResult::Refused {
                        refused.insert(name);
                    }
                }
            }
            if !news {
                break;
            }
        }
        let found = find();
        for process in &found {
            process.send(Signal::KILL);
        }
        let left = found.iter().filter(|process| !refused.contains(&(process.pid, process.start))).count();
        match reap() {
            Some(false) => return 0,
            // What may not be killed is all there is.
            None | Some(true) if left == 0 && !found.is_empty() => return found.len(),
            None if left == 0 => return 0,
            _ if Instant::now() > deadline => return found.len().max(1),
            _ => {}
        }
        sleep(PAUSE);
    }
}

/// Everything below some processes, without them.
pub(crate) fn below(ancestors: &[i32]) -> Vec<i32> {
    if !lists_children() {
        return with_descendants(Vec::new(), ancestors, all()).iter().map(Process::pid).collect();
    }
    let mut found: Vec<i32> = Vec::new();
    let mut next = ancestors.to_vec();
    while let Some(parent) = next.pop() {
        for child in children(parent) {
            if !found.contains(&child) && !ancestors.contains(&child) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

/// The children of a process, whichever of its threads started them.
pub(super) fn children(parent: i32) -> Vec<i32> {
    if !lists_children() {
        return all().iter().filter(|process| process.parent == parent).map(Process::pid).collect();
    }
    let mut found = Vec::new();
    for thread in threads(parent) {
        let listed = fs::read_to_string(thread.join("children")).unwrap_or_default();
        found.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// Whether the kernel lists the children of a process. Otherwise all processes have to be looked at.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// The folder of each thread of a process. Each may have files of its own.
pub(crate) fn threads(pid: i32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Whether a process of our own account whose files we cannot see has made it so. The init of a sandbox hides them as well,
/// and is ours.
pub(crate) fn is_hiding(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_default().split_ascii_whitespace()
    };
    let account = field("Uid:").nth(1).and_then(|account| account.parse::<u32>().ok());
    let is_init = field("NSpid:").skip(1).last() == Some("1");
    account == Some(geteuid().as_raw()) && !is_init
}

impl Process {
    /// A process by its number.
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::read(Pid::from_raw(pid)?)
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    pub(super) fn parent(&self) -> i32 {
        self.parent
    }

    /// Whether its session has a terminal.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether we, the process `own`, are its parent and did not start it: what we start is known, or stays in our session.
    fn is_adopted(&self, own: &Self, started: &BTreeMap<i32, bool>) -> bool {
        self.parent == own.pid() && self.session != own.session && !started.contains_key(&self.pid())
    }

    /// Reads one process; nothing for one that has ended.
    fn read(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything, parentheses too.
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = str::from_utf8(stat.get(after + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let state = *fields.first()?;
        // A process whose first thread has ended looks like a zombie while its other threads go on.
        if matches!(state, "Z" | "X" | "x") && number(17)? <= 1 {
            return None;
        }
        Some(Self {
            pid,
            parent: number(1)?,
            session: number(3)?,
            terminal: number(4)? != 0,
            stopped: matches!(state, "T" | "t"),
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Sends a signal to this process and to no later one that got its number.
    fn send(self, signal: Signal) -> SignalResult {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => match Self::read(self.pid) {
                Some(now) if now.start == self.start => pidfd_send_signal(handle, signal),
                _ => return SignalResult::Gone,
            },
            // A kernel without such handles.
            Err(Errno::NOSYS) => kill_process(self.pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => SignalResult::Delivered,
            Err(Errno::PERM) => SignalResult::Refused,
            Err(_) => SignalResult::Gone,
        }
    }
}

/// Every living process that we can see.
fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter_map(Process::read).collect()
}

/// Adds to `found` those of `others` that descend from one of `parents`.
fn with_descendants(mut found: Vec<Process>, parents: &[i32], mut others: Vec<Process>) -> Vec<Process> {
    let mut known: HashSet<i32> = parents.iter().copied().collect();
    loop {
        let before = found.len();
        others.retain(|process| {
            let is_one = known.contains(&process.parent);
            if is_one {
                known.insert(process.pid.as_raw_pid());
                found.push(*process);
            }
            !is_one
        });
        if found.len() == before {
            return found;
        }
    }
}
