//! Programs of this process that run at the same time, in the same places.
//!
//! What one of them makes at a protected name must not look old to another. So each is entered here, with the places that
//! are [settled](super::settled) for it, until its supervisor has looked through what it left.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::aftermath::{copies, loose};
use super::policy::SandboxPolicy;
use super::rebase::StoppedWorks;
use super::settled::{SettledPlaces, SurveyedProjects};
use super::survey::survey;
use super::tool_link::ways_to_tools;
use super::watched::{mounted_git, watched};
use crate::protected::IN_GIT;

/// A program that may still make something.
#[derive(Debug)]
pub(in crate::process) struct ProgramEntry {
    number: u64,
    supervisor: OwnedFd,
    /// Whether its supervisor has said that all is done.
    over: AtomicBool,
    /// Where it can make something that is looked for in the end.
    reach: Vec<PathBuf>,
    settled: SettledPlaces,
    stopped: StoppedWorks,
}

impl ProgramEntry {
    /// Notes that its supervisor has said that all is done.
    pub(in crate::process) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        // A supervisor that nobody listens to any more looks through what was left all the same.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.over.load(Ordering::Acquire)
            || !matches!(waitid(WaitId::PidFd(self.supervisor.as_fd()), options), Ok(None))
    }
}

/// The programs of this process that are in a sandbox.
#[derive(Debug)]
struct RunningPrograms {
    /// How many were entered.
    count: u64,
    /// How many are about to be, and are looking at their projects.
    looking: usize,
    entries: Vec<Arc<ProgramEntry>>,
}

static RUNNING: Mutex<RunningPrograms> =
    Mutex::new(RunningPrograms { count: 0, looking: 0, entries: Vec::new() });

fn running() -> MutexGuard<'static, RunningPrograms> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in which the projects of a program are looked at. No entry goes meanwhile: who ends in it can have made what was
/// seen.
struct ProjectLook {
    /// Those that ran when it began.
    before: Vec<Arc<ProgramEntry>>,
    count: u64,
}

impl ProjectLook {
    fn begin() -> Self {
        let mut running = running();
        if running.looking == 0 {
            running.entries.retain(|entry| !entry.is_over());
        }
        running.looking += 1;
        let before = running.entries.iter().filter(|entry| !entry.is_over()).cloned().collect();
        Self { before, count: running.count }
    }

    /// Every program that can have made what was seen. Who is entered later begins later.
    fn others(&self) -> Vec<Arc<ProgramEntry>> {
        let running = running();
        let since = running.entries.iter().filter(|entry| entry.number >= self.count);
        self.before.iter().chain(since).cloned().collect()
    }
}

impl Drop for ProjectLook {
    fn drop(&mut self) {
        running().looking -= 1;
    }
}

/// Looks at the projects of a policy, and enters the program that a supervisor is about to start in them. It waits for the
/// disk.
pub(in crate::process) fn enter(
    policy: &SandboxPolicy,
    supervisor: Pid,
) -> io::Result<(SurveyedProjects, Arc<ProgramEntry>)> {
    let supervisor = pidfd_open(supervisor, PidfdFlags::empty())?;
    let look = ProjectLook::begin();
    let projects = look_at(policy, || look.others())?;
    let roots = projects.surveys.iter().map(|survey| &survey.root);
    let reach = roots.chain(&policy.repositories).chain(&projects.watched).cloned().collect();
    let mut running = running();
    let number = running.count;
    running.count += 1;
    let entry = ProgramEntry {
        number,
        supervisor,
        over: AtomicBool::new(false),
        reach,
        settled: projects.settled.clone(),
        stopped: projects.stopped.clone(),
    };
    let entry = Arc::new(entry);
    running.entries.push(Arc::clone(&entry));
    drop(running);
    Ok((projects, entry))
}

/// Looks at the projects of a policy while other programs run, which are asked for when all has been seen.
pub(super) fn look_at(
    policy: &SandboxPolicy,
    others: impl FnOnce() -> Vec<Arc<ProgramEntry>>,
) -> io::Result<SurveyedProjects> {
    let mut surveys = survey(policy)?;
    for survey in &mut surveys {
        survey.loose = loose(survey);
    }
    let watched = watched(policy, &surveys);
    let names = surveys.iter().flat_map(|survey| &survey.names).chain(&watched).cloned();
    let git = mounted_git(policy, &surveys);
    let in_git = git.iter().flat_map(|git| IN_GIT.map(|name| git.join(name)));
    let links = ways_to_tools(policy).into_iter().filter(|path| path.is_symlink());
    let mut settled = SettledPlaces::all(names.chain(in_git).chain(git.clone()).chain(links));
    let mut stopped = StoppedWorks::of(git.iter().chain(surveys.iter().flat_map(|survey| &survey.loose)));
    let others = others();
    others.iter().for_each(|other| settled.add_links(&other.settled));
    for other in others {
        settled.keep_common(&other.settled, &other.reach);
        stopped.keep_common(&other.stopped);
    }
    for survey in &mut surveys {
        survey.copies = copies(survey, &settled);
        // They can be changed, and are judged by what they hold.
        survey.copies.iter().for_each(|copy| settled.remove(copy));
    }
    Ok(SurveyedProjects { surveys, settled, watched, stopped })
}
