//! Why the work of a drain failed, and what follows from that: whether trying again helps, and what clients are told.

use everturn_model::SessionId;
use everturn_model::fault::Fault;

use crate::Error;
use crate::bus::Signal;

/// Why a drain failed.
#[derive(Debug)]
pub(super) struct DrainFailure {
    pub(super) reason: String,
    /// Whether trying again is of no use before somebody has mended it.
    pub(super) lasts: bool,
    /// Whether it had the session, or failed while it waited for it.
    pub(super) owned: bool,
}

impl DrainFailure {
    pub(super) fn of(error: &Error, owned: bool) -> Self {
        // Only a person can mend what they have written, or what is damaged: it waits for them.
        let lasts = match error {
            Error::Unavailable(_) => true,
            Error::Store(error) => is_damage(error),
            _ => false,
        };
        Self { reason: error.to_string(), lasts, owned }
    }

    /// What clients are told, since the reason is in no log: it is the disk, most likely. Whether a session rests that
    /// another process may have is not for this one to say.
    pub(super) fn signals(&self) -> Vec<Signal> {
        let mut signals = vec![Signal::Failed { error: Fault::internal(&self.reason) }];
        if self.owned {
            signals.push(Signal::Idle);
        }
        signals
    }
}

/// Whether the store is damaged, or the session in it: that does not pass by itself.
fn is_damage(error: &everturn_store::Error) -> bool {
    use everturn_store::Error::{Broken, Corrupt, Damaged, NotOurs, Quarantined};
    matches!(error, Damaged { .. } | Corrupt { .. } | Broken { .. } | NotOurs { .. } | Quarantined { .. })
}

/// Whether work failed because its session was deleted meanwhile.
pub(super) fn is_deleted(error: &Error, id: &SessionId) -> bool {
    match error {
        Error::NoSession(gone) | Error::Store(everturn_store::Error::Purged(gone)) => gone == id,
        _ => false,
    }
}
