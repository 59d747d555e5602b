//! Making room: before a request that would not fit, and after one that the provider found too long.

use everturn_llm::ModelRequest;
use everturn_model::event::{Amendment, StepRemains};
use everturn_model::tree::Node;
use everturn_model::{Event, Fault, path};
use everturn_tools::snapshot::TreeId;

use super::compact::CompactionEnd;
use super::intake::StreamIntake;
use super::{Turn, TurnEnd, TurnSetup};
use crate::compaction::cut::CutOccasion;
use crate::compaction::occasion;
use crate::models::UsableModel;
use crate::{Config, Error};

impl Turn<'_> {
    /// Whether a request is so large that the conversation is summed up before it.
    pub(super) fn needs_room(
        &self,
        path: &[&Node],
        request: &ModelRequest,
        config: &Config,
        chosen: &UsableModel,
    ) -> bool {
        !self.cancel.is_cancelled()
            && occasion::is_due(path, request, &config.compaction, &chosen.model.limits)
    }

    /// Sums the conversation up before a request; none when that changed nothing and the request is made as it is.
    pub(super) async fn make_room_before(&mut self) -> Result<Option<TurnEnd>, Error> {
        Ok(match self.compact(CutOccasion::Estimate, None).await? {
            // The next turn begins with a fresh baseline, and promotes nothing: that is done. One that was stopped closes
            // as any other.
            CompactionEnd::Done | CompactionEnd::Stopped => Some(TurnEnd::Continue),
            CompactionEnd::Closing => Some(TurnEnd::Closing),
            CompactionEnd::Failed(fault) => {
                tracing::warn!(session = %self.session().id, error = fault.text(), "the conversation was not summed up");
                None
            }
            CompactionEnd::Nothing => None,
        })
    }

    /// Sums the conversation up after a request that was too long, once, and has it made again. If that is not possible, the
    /// turn fails as it would have.
    pub(super) async fn make_room(
        &mut self,
        setup: &TurnSetup,
        intake: StreamIntake,
        fault: Fault,
        start: Option<TreeId>,
    ) -> Result<TurnEnd, Error> {
        let auto = setup.setting.config.compaction.auto;
        let may_be_tried = auto && {
            let path = path::to(&self.tree, self.session().leaf.as_ref());
            occasion::may_be_tried(&path)
        };
        if !may_be_tried {
            return self.fail(setup, intake, None, fault, start).await;
        }
        match self.compact(CutOccasion::Overflow, None).await? {
            CompactionEnd::Done => {}
            CompactionEnd::Closing => return Ok(TurnEnd::Closing),
            CompactionEnd::Stopped => {
                return self.fail(setup, intake, None, super::fault::aborted(), start).await;
            }
            CompactionEnd::Failed(_) | CompactionEnd::Nothing => {
                return self.fail(setup, intake, None, fault, start).await;
            }
        }
        let entry = setup.assistant.clone();
        let failed = Event::StepFailed {
            entry: entry.clone(),
            error: fault,
            resumes: true,
            remains: Box::<StepRemains>::default(),
        };
        // There is nothing in it, and it is asked again.
        let hidden = Event::EntryAmended { entry, part: None, change: Amendment::Hide };
        self.commit(vec![failed, hidden]).await?;
        Ok(TurnEnd::Continue)
    }
}
