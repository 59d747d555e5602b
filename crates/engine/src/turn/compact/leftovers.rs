//! What a restart does with a compaction that was cut off: it is made anew, unless somebody has stopped it.

use everturn_model::event::StepRemains;
use everturn_model::{Fault, FaultKind, Tree};
use everturn_store::Lease;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::bus::Signal;
use crate::turn::fault::aborted;
use crate::turn::leftovers::open_assistant;
use crate::turn::{ClosedLeftovers, ProviderTurns, Turn, parking};
use crate::worker::NextWork;

const CUT_OFF: &str = "The server ended while the conversation was being summed up.";

impl ProviderTurns {
    /// Looks at a compaction that an earlier process left open. Where it is to be made anew, the session keeps it open.
    pub(in crate::turn) async fn settle_compaction(
        &self,
        tree: Tree,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<ClosedLeftovers, Error> {
        let Some(open) = tree.session.open_compaction.clone() else {
            return Ok(ClosedLeftovers::Settled(tree));
        };
        let stopped = tree.session.stopping || cancel.is_cancelled();
        let parks = !stopped && parking::is_due(&tree.session, self.services.journal.mint().now());
        let between = open_assistant(&tree).is_none();
        let work = NextWork { promote: Vec::new(), compaction: None, model: None };
        let mut turn = Turn::new(&self.services, lease, cancel, tree, work);
        let cut_off = || Fault::new(FaultKind::CutOff, CUT_OFF);
        if parks {
            let reason = turn.park().await?;
            turn.fail_compaction(&open.entry, cut_off(), StepRemains::default()).await?;
            turn.tell_parked(reason);
            return Ok(ClosedLeftovers::Stopped(turn.tree));
        }
        if stopped {
            turn.fail_compaction(&open.entry, aborted(), StepRemains::default()).await?;
            if !turn.session().open {
                turn.services.drains.set_status(&turn.session().id, Signal::Idle);
                turn.signal(Signal::Idle);
                return Ok(ClosedLeftovers::Stopped(turn.tree));
            }
        } else if between {
            turn.begin_recovery(&open.entry).await?;
        } else {
            // A request was too long. The turn of that comes first, and is made again.
            turn.fail_compaction(&open.entry, cut_off(), StepRemains::default()).await?;
        }
        Ok(ClosedLeftovers::Settled(turn.tree))
    }
}
