//! The process group of one command.
//!
//! Where there is no supervisor, signals go to the group, so they reach the shell's children and their children; a
//! program that leaves the group is not reached. A group that goes out of scope is killed: a dropped call leaves
//! none of its members running.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// A group that the child leads.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// The group of a child that was started as its leader.
    pub(super) fn of(child: &Child) -> Self {
        Self { leader: child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) }
    }

    /// Asks every member to stop.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops every member.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether the group has any member, also one that has ended but was not reaped.
    pub(super) fn exists(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    /// Lets go of a group that has no member any more: the system gives its number to others, whom no signal of ours
    /// may reach.
    pub(super) fn forget(&mut self) {
        self.leader = None;
    }

    /// Whether it was let go.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self) -> bool {
        self.leader.is_none()
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // A group without members is what the caller wants.
            kill_process_group(leader, signal).ok();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
