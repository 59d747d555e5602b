//! What the test wants of the network, shared by all connections.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::wire::SqlUse;

/// What is to be done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageVerdict {
    /// Pass it on.
    Pass,
    /// Pass it on, and cut when the server has answered.
    PassLast,
    /// Cut.
    Cut,
}

#[derive(Debug, Default)]
struct RuleState {
    messages: u64,
    before: Option<String>,
    after: Option<String>,
    at: Option<u64>,
    fired: bool,
    refusing: bool,
}

/// The rules and what has come of them.
#[derive(Debug, Default)]
pub(super) struct ProxyRules {
    state: Mutex<RuleState>,
    paused: watch::Sender<bool>,
}

impl ProxyRules {
    fn state(&self) -> MutexGuard<'_, RuleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cut_before(&self, text: &str) {
        let mut state = self.state();
        state.before = Some(text.to_owned());
        state.fired = false;
    }

    pub(super) fn cut_after_sent(&self, text: &str) {
        let mut state = self.state();
        state.after = Some(text.to_owned());
        state.fired = false;
    }

    pub(super) fn cut_at(&self, n: u64) {
        let mut state = self.state();
        state.at = Some(n);
        state.fired = false;
    }

    pub(super) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Waits while the traffic is stopped.
    pub(super) async fn wait_while_stopped(&self) {
        // The sender is our own, so this cannot fail.
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    pub(super) fn refuse(&self, refusing: bool) {
        self.state().refusing = refusing;
    }

    pub(super) fn refuses(&self) -> bool {
        self.state().refusing
    }

    pub(super) fn reset(&self) {
        let mut state = self.state();
        *state = RuleState { refusing: state.refusing, ..RuleState::default() };
    }

    pub(super) fn messages(&self) -> u64 {
        self.state().messages
    }

    pub(super) fn fired(&self) -> bool {
        self.state().fired
    }

    /// Notes that a cut is done.
    pub(super) fn note_fired(&self) {
        self.state().fired = true;
    }

    /// Counts a message of a client and decides on it.
    pub(super) fn judge(&self, used: Option<&SqlUse<'_>>) -> MessageVerdict {
        let mut state = self.state();
        state.messages += 1;
        let contains =
            |text: &Option<String>, sql: &str| text.as_ref().is_some_and(|text| sql.contains(text.as_str()));
        if state.at.is_some_and(|n| state.messages >= n) {
            state.at = None;
            state.fired = true;
            return MessageVerdict::Cut;
        }
        let Some(used) = used else { return MessageVerdict::Pass };
        if contains(&state.before, used.sql) {
            state.before = None;
            state.fired = true;
            return MessageVerdict::Cut;
        }
        if used.runs && contains(&state.after, used.sql) {
            state.after = None;
            return MessageVerdict::PassLast;
        }
        MessageVerdict::Pass
    }
}
