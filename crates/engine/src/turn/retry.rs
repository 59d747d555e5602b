//! Trying again: what failed and when it is tried again is in the log before the pause begins, so that clients can show
//! it and a restart goes on with the same step when the time has come.

use std::time::Duration;

use everturn_llm::retry::RetryPolicy;
use everturn_model::part::PartKind;
use everturn_model::session::RetryState;
use everturn_model::{EntryId, Event, Fault, Part, Tree};

use super::{Turn, TurnSetup};
use crate::Error;
use crate::bus::Signal;

impl Turn<'_> {
    /// How long to wait before a call is made again that failed so often; none when it is not.
    pub(super) fn retry_delay(
        &self,
        setup: &TurnSetup,
        failed: u64,
        error: &everturn_llm::Error,
    ) -> Option<Duration> {
        let policy =
            RetryPolicy { advice_cap: setup.setting.config.limits.retry_after, ..RetryPolicy::default() };
        let failed = u32::try_from(failed).unwrap_or(u32::MAX);
        policy.delay(failed, error, self.services.journal.mint().random_fraction())
    }

    /// Records that a call is made again and waits until then, or until somebody stops it.
    pub(super) async fn pause(
        &mut self,
        assistant: &EntryId,
        attempt: u64,
        error: Fault,
        wait: Duration,
        mut events: Vec<Event>,
    ) -> Result<(), Error> {
        let created = self.services.journal.mint().now();
        let next = created.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let kind = PartKind::Retry { attempt, error, created };
        let part = Box::new(Part::new(self.services.journal.mint().part(self.session()), kind));
        events.push(Event::RetryScheduled { entry: assistant.clone(), part, next });
        self.commit(events).await?;
        if let Some(retry) = self.session().retry.clone() {
            self.wait_for(&retry).await;
        }
        Ok(())
    }

    /// Waits until a call may be made again, as one that an earlier process scheduled.
    pub(super) async fn wait_for(&self, retry: &RetryState) {
        let left = retry.next.saturating_sub(self.services.journal.mint().now());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
        let waiting = Signal::from(retry);
        self.services.drains.set_status(&self.session().id, waiting.clone());
        self.signal(waiting);
        tokio::select! {
            () = tokio::time::sleep(left) => {}
            () = self.cancel.cancelled() => {}
            () = self.services.lifecycle.closing() => {}
        }
        self.services.drains.set_status(&self.session().id, Signal::Busy);
        self.signal(Signal::Busy);
    }
}

/// A step that waits to be tried again, and of which nothing else is known: it goes on as it began.
pub(super) fn waiting_step(tree: &Tree) -> Option<&RetryState> {
    let retry = tree.session.retry.as_ref()?;
    let node = tree.node(&retry.entry)?;
    let open = node.entry.body.assistant().is_some_and(|assistant| assistant.completed.is_none());
    let bare = |part: &Part| matches!(part.kind, PartKind::StepStart { .. } | PartKind::Retry { .. });
    (open && node.parts.iter().all(bare)).then_some(retry)
}
