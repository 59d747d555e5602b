//! How turns end.

use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::work_span::WorkOutcome;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The model goes on with what its tools gave.
    Continue,
    /// The model is done.
    Done,
    /// The person said no to a call: the session waits for them.
    Declined,
    /// It failed or was interrupted, and has said so.
    Failed,
    /// The process is ending; the next one goes on.
    Closing,
    /// It has not begun: what it would have promoted was changed or taken back meanwhile, or a person was asked first.
    Stale,
}

impl TurnEnd {
    /// How work that ended like this is called in the log; `cancel` tells what was stopped from what failed.
    pub(crate) fn outcome(end: &Result<Self, Error>, cancel: &CancellationToken) -> WorkOutcome {
        match end {
            Ok(Self::Continue | Self::Done) => WorkOutcome::Completed,
            Ok(Self::Declined) => WorkOutcome::Declined,
            Ok(Self::Failed) if cancel.is_cancelled() => WorkOutcome::Interrupted,
            // The process is ending, or another one has taken the session over: either way the work goes on.
            Ok(Self::Closing | Self::Stale) | Err(Error::Busy(_)) => WorkOutcome::Interrupted,
            Ok(Self::Failed) | Err(_) => WorkOutcome::Failed,
        }
    }
}
