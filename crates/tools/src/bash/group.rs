//! The process group of one command.
//!
//! Signals go to the group, so they reach the shell's children and their children. A group that goes out of
//! scope while it is still ours is killed: a dropped call leaves nothing running.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

/// A group that the child leads.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
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

    /// Lets the members live on.
    pub(super) fn disarm(&mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // A group without members is what the caller wants.
            kill_process_group(leader, signal).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
