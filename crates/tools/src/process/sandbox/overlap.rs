//! Programs of this process that run at the same time, in the same places.
//!
//! What one of them makes at a protected name must not look old to another. So each is entered here, with the places that
//! are [settled](super::settled) for it, until its supervisor has looked through what it left.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::aftermath::{copies, loose};
use super::leads::leads_of_missing;
use super::made_file::MadeRecord;
use super::policy::SandboxPolicy;
use super::rebase::StoppedWorks;
use super::settled::{SettledPlaces, SurveyedProjects};
use super::survey::{coarse_time, survey};
use super::tool_link::ways_to_tools;
use super::watched::{mounted_git, watched};
use crate::protected::IN_GIT;
use crate::protected_home::ProtectedHome;

/// A program that may still make something.
#[derive(Debug)]
pub(in crate::process) struct ProgramEntry {
    number: u64,
    supervisor: OwnedFd,
    /// Whether its supervisor has said that all is done.
    over: AtomicBool,
    /// Where it can make something that is looked for in the end.
    pub(super) reach: Vec<PathBuf>,
    /// The projects among these, with what counts in each of a home folder.
    pub(super) projects: Vec<(PathBuf, ProtectedHome)>,
    /// Places at which nothing may be made, whatever their names.
    pub(super) watched: Vec<PathBuf>,
    pub(super) settled: SettledPlaces,
    stopped: StoppedWorks,
    /// What tools have made there since it was entered.
    made: MadeRecord,
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
pub(super) struct ProjectLook {
    /// Those that ran when it began.
    before: Vec<Arc<ProgramEntry>>,
    count: u64,
}

impl ProjectLook {
    pub(super) fn begin() -> Self {
        let mut running = running();
        if running.looking == 0 {
            running.entries.retain(|entry| !entry.is_over());
        }
        running.looking += 1;
        let before = running.entries.iter().filter(|entry| !entry.is_over()).cloned().collect();
        Self { before, count: running.count }
    }

    /// Every program that can have made what was seen. Who is entered later begins later.
    pub(super) fn others(&self) -> Vec<Arc<ProgramEntry>> {
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
    made: MadeRecord,
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
        projects: projects.surveys.iter().map(|survey| (survey.root.clone(), survey.home.clone())).collect(),
        watched: projects.watched.clone(),
        settled: projects.settled.clone(),
        stopped: projects.stopped.clone(),
        made,
    };
    let entry = Arc::new(entry);
    running.entries.push(Arc::clone(&entry));
    drop(running);
    Ok((projects, entry))
}

/// Notes for the programs that run where a tool has put a file that it is not theirs. It waits for the disk.
pub(crate) fn note_made(path: &Path, written: &[u8]) {
    let is_near = |entry: &&Arc<ProgramEntry>| {
        !entry.is_over() && entry.reach.iter().any(|folder| path.starts_with(folder))
    };
    let near: Vec<Arc<ProgramEntry>> = running().entries.iter().filter(is_near).cloned().collect();
    for entry in near {
        entry.made.add(path, written);
    }
}

/// Looks at the projects of a policy while other programs run, which are asked for when all has been seen.
pub(super) fn look_at(
    policy: &SandboxPolicy,
    others: impl FnOnce() -> Vec<Arc<ProgramEntry>>,
) -> io::Result<SurveyedProjects> {
    // What changes from here on is looked at in the end.
    let since = coarse_time();
    let mut surveys = survey(policy)?;
    for survey in &mut surveys {
        survey.loose = loose(survey);
    }
    let mut watched = watched(policy, &surveys);
    let names = surveys.iter().flat_map(|survey| &survey.names).chain(&watched).cloned();
    let git = mounted_git(policy, &surveys);
    let in_git = git.iter().flat_map(|git| IN_GIT.map(|name| git.join(name)));
    let links = ways_to_tools(policy).into_iter().filter(|path| path.is_symlink());
    let mut settled = SettledPlaces::all(names.chain(in_git).chain(git.clone()).chain(links));
    let mut stopped = StoppedWorks::of(git.iter().chain(surveys.iter().flat_map(|survey| &survey.loose)));
    let others = others();
    for survey in &mut surveys {
        // Another program may have taken a link away: what it leads to stays what it is.
        let mut leads = leads_of_missing(survey, others.iter().flat_map(|other| other.settled.links()));
        settled.add(&leads);
        watched.extend(leads.iter().filter(|path| path.starts_with(&survey.root)).cloned());
        survey.leads.append(&mut leads);
    }
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
    Ok(SurveyedProjects { surveys, since, settled, watched, stopped })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    use rustix::fs::lstat;
    use tempfile::TempDir;

    use super::super::aftermath::changed;
    use super::super::made_file::MadeFiles;
    use super::*;

    /// A process that does nothing, in the place of a supervisor.
    struct IdleSupervisor(Child);

    impl IdleSupervisor {
        fn start() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
        }

        fn enter(&self, policy: &SandboxPolicy) -> Arc<ProgramEntry> {
            enter(policy, Pid::from_child(&self.0), MadeRecord::new().unwrap()).unwrap().1
        }
    }

    impl Drop for IdleSupervisor {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    /// A folder with a project in it.
    fn project() -> (TempDir, PathBuf, SandboxPolicy) {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        write(&base.join("project/file"), "");
        let projects = vec![base.join("project")];
        (folder, base, SandboxPolicy { projects, ..SandboxPolicy::default() })
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_program_is_over_when_its_supervisor_says_so_or_is_gone() {
        let (_folder, _, policy) = project();
        let (told, mut killed) = (IdleSupervisor::start(), IdleSupervisor::start());
        let entries = [told.enter(&policy), killed.enter(&policy)];
        assert_eq!(entries.each_ref().map(|entry| entry.is_over()), [false, false]);
        entries[0].end();
        assert_eq!(entries.each_ref().map(|entry| entry.is_over()), [true, false]);
        killed.0.kill().unwrap();
        killed.0.wait().unwrap();
        assert_eq!(entries.each_ref().map(|entry| entry.is_over()), [true, true]);
    }

    #[test]
    fn who_comes_or_goes_during_a_look_can_have_made_what_is_seen() {
        let (_folder, _, policy) = project();
        let supervisors = [(); 3].map(|()| IdleSupervisor::start());
        let gone = supervisors[0].enter(&policy);
        gone.end();
        let before = supervisors[1].enter(&policy);
        let look = ProjectLook::begin();
        before.end();
        let since = supervisors[2].enter(&policy);
        since.end();
        // Another look begins, and forgets none of them.
        let next = ProjectLook::begin();
        let entries = [gone, before, since];
        let check = |look: &ProjectLook, expected: [bool; 3]| {
            let others: Vec<u64> = look.others().iter().map(|entry| entry.number).collect();
            assert_eq!(entries.each_ref().map(|entry| others.contains(&entry.number)), expected);
        };
        check(&look, [false, true, true]);
        check(&next, [false, false, false]);
    }

    #[test]
    fn others_are_asked_for_when_all_has_been_seen() {
        // Who is entered while a project is looked at may have made what is seen last.
        let (_folder, base, policy) = project();
        let name = base.join("project/AGENTS.md");
        let mut asked = coarse_time();
        let make = || {
            write(&name, "");
            asked = coarse_time();
            while coarse_time() <= asked {
                std::thread::yield_now();
            }
            Vec::new()
        };
        let seen = look_at(&policy, make).unwrap();
        assert!(!seen.settled.has(&name));
        assert!(seen.since <= asked, "what is made meanwhile is looked at in the end");
        assert!(look_at(&policy, Vec::new).unwrap().settled.has(&name));
    }

    #[test]
    fn what_a_link_led_to_is_watched_while_another_program_has_taken_the_link_away() {
        let (_folder, base, policy) = project();
        let path = |name: &str| base.join("project").join(name);
        symlink("file", path("GEMINI.md")).unwrap();
        symlink("later/tasks", path(".zed")).unwrap();
        let supervisor = IdleSupervisor::start();
        let entry = supervisor.enter(&policy);
        [".zed", "GEMINI.md"].iter().for_each(|name| fs::remove_file(path(name)).unwrap());
        let check = |others: Vec<Arc<ProgramEntry>>, expected: &[&str], is_settled: bool| {
            let seen = look_at(&policy, || others).unwrap();
            let expected: Vec<PathBuf> = expected.iter().map(|name| path(name)).collect();
            assert_eq!((&seen.surveys[0].leads, &seen.watched), (&expected, &expected));
            assert_eq!(seen.settled.has(&path("file")), is_settled);
        };
        check(Vec::new(), &[], false);
        check(vec![entry], &["file", "later/tasks"], true);
    }

    #[test]
    fn a_link_on_the_way_to_a_place_of_tools_is_settled_unless_another_program_can_have_made_it() {
        let (_folder, base, policy) = project();
        let link = base.join("project/venv");
        let policy = SandboxPolicy { unlinked: vec![link.join("bin")], ..policy };
        let supervisor = IdleSupervisor::start();
        let entry = supervisor.enter(&policy);
        symlink("elsewhere", &link).unwrap();
        let settled =
            |others: Vec<Arc<ProgramEntry>>| look_at(&policy, || others).unwrap().settled.has(&link);
        assert_eq!((settled(Vec::new()), settled(vec![entry])), (true, false));
    }

    #[test]
    fn what_another_program_can_have_made_is_not_settled_wherever_that_is() {
        let (_folder, base, policy) = project();
        write(&base.join("elsewhere/.git/HEAD"), "");
        let policy = SandboxPolicy {
            repositories: vec![base.join("elsewhere/.git")],
            protected: vec![base.join("beside/kept")],
            ..policy
        };
        let supervisor = IdleSupervisor::start();
        let entry = supervisor.enter(&policy);
        let made = ["project/AGENTS.md", "elsewhere/.git/config", "beside/kept"].map(|name| base.join(name));
        made.iter().for_each(|path| write(path, ""));
        let settled = |others: Vec<Arc<ProgramEntry>>| {
            let settled = look_at(&policy, || others).unwrap().settled;
            made.each_ref().map(|path| settled.has(path))
        };
        assert_eq!(settled(Vec::new()), [true; 3]);
        assert_eq!(settled(vec![entry]), [false; 3]);
    }

    #[test]
    fn what_changes_in_memory_is_not_what_a_tool_made() {
        // Who had mapped the file while it was made wrote into it later, which shows in no time of a change.
        let (_folder, base, policy) = project();
        let supervisor = IdleSupervisor::start();
        let entry = supervisor.enter(&policy);
        let name = base.join("project/AGENTS.md");
        write(&name, "mine\n");
        let script = "import mmap, sys\n\
                      file = open(sys.argv[1], 'r+b'); held = mmap.mmap(file.fileno(), 0)\n\
                      held[0:4] = b'mine'; print(); sys.stdout.flush(); input(); held[0:4] = b'evil'\n";
        let mut program = Command::new("python3");
        let program = program.args(["-c", script]).arg(&name).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        program.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        while coarse_time() <= changed(&lstat(&name).unwrap()) {
            std::thread::yield_now();
        }
        note_made(&name, b"mine\n");
        assert!(MadeFiles::read(entry.made.share().unwrap()).are_all_at(&name));
        let before = changed(&lstat(&name).unwrap());
        program.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(program.wait().unwrap().success());
        assert_eq!(changed(&lstat(&name).unwrap()), before, "nothing shows");
        assert!(!MadeFiles::read(entry.made.share().unwrap()).are_all_at(&name));
    }

    #[test]
    fn a_copy_lies_at_the_same_path_in_a_worktree_and_is_not_settled() {
        // What one command had put in its place another could make again for good.
        let check = |names: [&str; 2], is_copy: bool| {
            let (_folder, base, policy) = project();
            for (file, text) in [
                (".git/HEAD", "ref: refs/heads/main\n"),
                (".git/worktrees/tree/HEAD", "ref: refs/heads/x\n"),
                (".git/worktrees/tree/commondir", "../..\n"),
                ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
            ] {
                write(&base.join("project").join(file), text);
            }
            let supervisor = IdleSupervisor::start();
            let entry = supervisor.enter(&policy);
            let paths = names.map(|name| base.join("project").join(name));
            for path in &paths {
                write(path, "Be good.\n");
                while coarse_time() <= changed(&lstat(path).unwrap()) {
                    std::thread::yield_now();
                }
            }
            let seen = look_at(&policy, Vec::new).unwrap();
            let copies = seen.surveys[0].copies.iter().map(PathBuf::as_path);
            assert!(copies.eq(paths.iter().skip(1).filter(|_| is_copy)), "{names:?}");
            assert_eq!(paths.each_ref().map(|path| seen.settled.has(path)), [true, !is_copy], "{names:?}");
            // What another program may have made says nothing about it.
            assert!(look_at(&policy, || vec![entry]).unwrap().surveys[0].copies.is_empty(), "{names:?}");
        };
        check(["AGENTS.md", "tree/AGENTS.md"], true);
        check(["AGENTS.md", "tree/sub/AGENTS.md"], false);
        check(["AGENTS.md", "sub/AGENTS.md"], false);
    }
}
