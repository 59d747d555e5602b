//! Parking: a turn that was taken up again and again and never got on is left alone until a person looks at it.
//!
//! Each recovery is in the log before it does anything, so that one that takes the process down counts too. A process that
//! ends in an orderly way says so, since neither it nor the turn is at fault.

use everturn_model::session::RECOVERY_LIMIT;
use everturn_model::{EntryId, Event, Fault, Millis, Session};

use super::Turn;
use crate::Error;
use crate::bus::Signal;

/// How far apart recoveries may be that count together, in milliseconds.
const WINDOW: Millis = 10 * 60 * 1_000;

/// Whether going on with a session's turn failed so often that a person has to look at it.
pub(super) fn is_due(session: &Session, now: Millis) -> bool {
    let first = session.recoveries.first();
    session.recoveries.len() >= RECOVERY_LIMIT
        && first.is_some_and(|first| now.saturating_sub(*first) < WINDOW)
}

/// Why a session is parked, for people.
fn reason(session: &Session) -> String {
    format!(
        "Going on with this session failed {RECOVERY_LIMIT} times in a row: each time the work ended before it got \
         anywhere. It waits for you: a new prompt goes on, and so does `everturn session resume {}`.",
        session.id
    )
}

impl Turn<'_> {
    /// Records that a turn is taken up again.
    pub(super) async fn begin_recovery(&mut self, assistant: &EntryId) -> Result<(), Error> {
        self.commit(vec![Event::RecoveryBegun { entry: assistant.clone() }]).await
    }

    /// Records that the process ends in an orderly way, where recoveries are counted.
    pub(super) async fn leave_in_order(&mut self) -> Result<(), Error> {
        if self.session().recoveries.is_empty() {
            return Ok(());
        }
        self.commit(vec![Event::RecoveryLeft {}]).await
    }

    /// Records that the session waits for a person, before anything else is done to it.
    pub(super) async fn park(&mut self) -> Result<Fault, Error> {
        let reason = Fault::internal(reason(self.session()));
        self.commit(vec![Event::SessionParked { reason: reason.clone() }]).await?;
        Ok(reason)
    }

    /// Tells clients that the session is parked.
    pub(super) fn tell_parked(&self, reason: Fault) {
        self.signal(Signal::Failed { error: reason });
        self.services.drains.set_status(&self.session().id, Signal::Idle);
        self.signal(Signal::Idle);
    }
}
