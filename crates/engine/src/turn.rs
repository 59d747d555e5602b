//! One Provider Turn, in the order of the design: context, promotion, model, history, snapshot, stream, tools, close.
//! Each phase has a file.
//!
//! Everything that must survive is in the log before it has an effect: a prompt is promoted before the model sees it,
//! a call is recorded before its tool starts, a result before the model hears of it.

mod accounting;
mod close;
mod compact;
mod cut;
mod cut_turn;
mod edits;
mod end;
mod fault;
mod files;
pub(crate) mod frame;
mod intake;
mod leftovers;
mod opening;
mod parking;
mod place;
mod remains;
mod request;
mod results;
mod retry;
mod room;
mod stream;
mod subtask;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everturn_llm::PreparedRequest;
use everturn_model::event::StepRemains;
use everturn_model::permission::Policy;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Event, Record, Session, Tree, fold, path};
use everturn_store::{Lease, Store};
use everturn_tools::{Scope, Snapshots, ToolOffer};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::agents;
use crate::bus::Signal;
use crate::calls::{CallSurroundings, ToolCalls};
use crate::configurations::Configurations;
use crate::confinement::Confinement;
use crate::context::ContextRegistry;
use crate::drains::Drains;
use crate::file_views::FileViews;
use crate::guards::BudgetGuard;
use crate::guidance::Guidance;
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::mcp::McpServers;
use crate::models::{Models, UsableModel};
use crate::projects::{Location, Projects};
use crate::snapshot_folders::SnapshotFolders;
use crate::titles::Titles;
use crate::turn_places::TurnPlaces;
use crate::work_span::WorkSpan;
use crate::worker::NextWork;
use crate::{Config, Error, steps, structured};
pub(crate) use accounting::AnswerMeter;
pub(crate) use accounting::size as request_size;
pub(crate) use end::TurnEnd;
pub(crate) use files::diffs;
use frame::RequestPlan;
pub(crate) use leftovers::ClosedLeftovers;
use opening::TurnOpening;

/// How long a prompt waits for tools before it is shown without them.
const PROMPTLY: Duration = Duration::from_millis(100);

/// The services that turns work with.
#[derive(Debug)]
pub(crate) struct TurnServices {
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    pub(crate) drains: Drains,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) projects: Projects,
    pub(crate) snapshots: SnapshotFolders,
    pub(crate) configurations: Configurations,
    pub(crate) guidance: Guidance,
    pub(crate) context: ContextRegistry,
    pub(crate) models: Models,
    pub(crate) places: TurnPlaces,
    pub(crate) mcp: McpServers,
    pub(crate) calls: ToolCalls,
    pub(crate) budgets: BudgetGuard,
    pub(crate) views: FileViews,
    pub(crate) titles: Titles,
    pub(crate) confinement: Confinement,
    /// The data folder, for plans of sessions outside any repository.
    pub(crate) data: PathBuf,
}

impl TurnServices {
    /// Where the calls of a turn work, and what their commands run in.
    async fn scope(&self, location: &Location, config: &Config, policy: &Policy, turn: &Turn<'_>) -> Scope {
        // A turn that is stopped meanwhile runs nothing any more.
        self.confinement.ready(self.lifecycle.closing_or(turn.cancel)).await;
        let sandbox = self.confinement.of_commands(config, policy, &turn.session().id);
        self.confinement.scope(&location.directory, &location.worktree, sandbox)
    }
}

/// Runs turns.
#[derive(Debug)]
pub(crate) struct ProviderTurns {
    services: TurnServices,
}

impl ProviderTurns {
    /// Turns that work with these services.
    pub(crate) fn new(services: TurnServices) -> Self {
        Self { services }
    }

    /// Runs one turn to its end; the tree comes back as it is then, with the model that answered or would go on.
    pub(crate) async fn run(
        &self,
        mut tree: Tree,
        work: NextWork,
        lease: &Lease,
        cancel: &CancellationToken,
    ) -> Result<(TurnEnd, Tree, Option<ModelRef>), Error> {
        if self.services.budgets.ask(&mut tree, &work, cancel).await? {
            let closing = self.services.lifecycle.is_closing();
            return Ok((if closing { TurnEnd::Closing } else { TurnEnd::Stale }, tree, work.model));
        }
        let mut span = WorkSpan::turn(&tree.session.id);
        let mut turn = Turn::new(&self.services, lease, cancel, tree, work);
        let end = match turn.work.compaction.clone() {
            Some(wanted) => turn.compact_as_wanted(&wanted).instrument(span.span()).await,
            None => turn.run().instrument(span.span()).await,
        };
        span.end(TurnEnd::outcome(&end, cancel));
        Ok((end?, turn.tree, turn.work.model))
    }
}

/// A turn at work.
struct Turn<'r> {
    services: &'r TurnServices,
    lease: &'r Lease,
    cancel: &'r CancellationToken,
    /// Fires when another process has taken the session over.
    lost: CancellationToken,
    tree: Tree,
    work: NextWork,
    /// What is recorded with whatever is recorded next.
    pending: Vec<Event>,
}

/// What a turn needs from its surroundings once it knows its model.
struct TurnSetup {
    setting: CallSurroundings,
    chosen: UsableModel,
    assistant: EntryId,
    request: PreparedRequest,
    snapshots: Option<Arc<Snapshots>>,
    /// Whether the answer must have the shape that the prompt asks for.
    shaped: bool,
    /// Whether no step comes after this one.
    last: bool,
}

impl<'r> Turn<'r> {
    fn new(
        services: &'r TurnServices,
        lease: &'r Lease,
        cancel: &'r CancellationToken,
        tree: Tree,
        work: NextWork,
    ) -> Self {
        let lost = services.drains.lost(&lease.session);
        Self { services, lease, cancel, lost, tree, work, pending: Vec::new() }
    }

    /// Appends events as the owner of the session and folds them into the turn's own tree.
    async fn commit(&mut self, events: Vec<Event>) -> Result<(), Error> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend(events);
        let (appended, records) = self.services.journal.record_owned(self.lease, all).await?;
        for record in &records {
            follow(&mut self.tree, record)?;
        }
        self.tree.session = (*appended.session).clone();
        Ok(())
    }

    /// Has an event recorded with the next ones: it is worth keeping and worth no commit of its own.
    fn record_later(&mut self, event: Event) {
        self.pending.push(event);
    }

    /// Whether something waits to be recorded.
    fn has_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Records what waits to be recorded with something else, if anything does.
    async fn record_waiting(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() { Ok(()) } else { self.commit(Vec::new()).await }
    }

    /// Records the opening; false when somebody changed meanwhile what it would promote.
    async fn begin(&mut self, opening: TurnOpening) -> Result<bool, Error> {
        use everturn_store::Error::Unfit;
        match self.commit(opening.into_events()).await {
            Err(Error::Store(Unfit {
                source: fold::Error::Stale(_) | fold::Error::Missing { .. }, ..
            })) if !self.work.promote.is_empty() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn session(&self) -> &Session {
        &self.tree.session
    }

    /// The file of the session's plan.
    fn plan(&self, location: &Location) -> PathBuf {
        agents::plan_file(self.session(), location, &self.services.data)
    }

    /// Sends a signal of the moment, as long as this process has the session.
    fn signal(&self, signal: Signal) {
        self.services.journal.signal_unless(&self.lost, self.session(), signal);
    }

    /// Runs the turn to its end.
    async fn run(&mut self) -> Result<TurnEnd, Error> {
        let location = self.services.projects.location(Some(&self.session().directory)).await?;
        let config = self.services.configurations.at(&location.directory).await;
        let agent = self.agent(config.agents());
        let policy = config.agents().policy_of(&agent.name, self.session());
        let plan = self.plan(&location);
        let sources = self.observe(&location, &config, &agent, &plan, policy.clone()).await?;
        let mut opening = TurnOpening::at(&self.tree, self.services.journal.mint());
        // A step that waited to be tried again when its process ended goes on as it began.
        let waiting = retry::waiting_step(&self.tree).map(|retry| retry.entry.clone());
        let told = waiting.is_some() || self.open(&mut opening, &sources)?;
        if !self.session().open && !self.wants_answer() {
            if !self.begin(opening).await? {
                return Ok(TurnEnd::Stale);
            }
            return Ok(TurnEnd::Continue);
        }
        if !told {
            self.update(&mut opening, &sources);
        }
        if let (None, Some(task)) = (&waiting, subtask::pending(&opening.path(&self.tree))) {
            return self.give_task(task, opening, location, config, policy, plan).await;
        }
        let wanted = self.selected_model();
        let chosen = match self.services.models.of(&config).choose(wanted.as_ref(), &location.directory) {
            Ok(chosen) => chosen,
            Err(error) => {
                if let Some(step) = waiting {
                    let fault = self.refusal(&error);
                    return self.give_up(&step, fault, Vec::new(), StepRemains::default()).await;
                }
                if !self.begin(opening).await? {
                    return Ok(TurnEnd::Stale);
                }
                return self.refuse(&error).await;
            }
        };
        self.work.model = Some(chosen.reference.clone());
        let snapshots = self.services.snapshots.of(&config, &location);
        let before = files::capture(snapshots.clone());
        let (services, cancel) = (self.services, self.cancel);
        let registry = {
            let registry = services.mcp.registry(&config, &location, cancel);
            tokio::pin!(registry);
            match tokio::time::timeout(PROMPTLY, &mut registry).await {
                Ok(registry) => registry,
                Err(_) if waiting.is_some() => registry.await,
                Err(_) => {
                    // The person sees their prompt at once, however long the servers take.
                    let mint = services.journal.mint();
                    let begun = std::mem::replace(&mut opening, TurnOpening::at(&self.tree, mint));
                    if !self.begin(begun).await? {
                        return Ok(TurnEnd::Stale);
                    }
                    opening = TurnOpening::at(&self.tree, mint);
                    registry.await
                }
            }
        };
        let (offer, frame, request, shaped, last, full) = {
            let mut path = opening.path(&self.tree);
            path.retain(|node| Some(&node.entry.id) != waiting.as_ref());
            let last = steps::is_last(&path, agent.steps);
            let offer = self.offer(&config.tools_over(&registry), &chosen, &policy, &path, last);
            let shaped = structured::wanted(&path).is_some();
            let plan = RequestPlan { agent: &agent, chosen: &chosen, offer: &offer, shaped, last };
            let frame = plan.frame();
            let request = frame::request(&frame, &self.session().id, &path, chosen.setting().options);
            // None can be called, whatever the model tries.
            let offer = if last && !shaped { ToolOffer::default() } else { offer };
            let request = chosen.provider.prepare(request);
            let full = waiting.is_none() && self.needs_room(&path, request.request(), &config, &chosen);
            (offer, frame, request, shaped, last, full)
        };
        if full {
            let begun = std::mem::replace(&mut opening, TurnOpening::at(&self.tree, services.journal.mint()));
            if !self.begin(begun).await? {
                return Ok(TurnEnd::Stale);
            }
            if let Some(end) = self.make_room_before().await? {
                return Ok(end);
            }
            opening = TurnOpening::at(&self.tree, services.journal.mint());
        }

        let assistant = match waiting {
            Some(assistant) => assistant,
            None => {
                let assistant = opening.start_step(&location, frame, &request);
                if !opening.summarize_promoted() {
                    opening.push(self.services.summarize(&self.tree).await?);
                }
                if !self.begin(opening).await? {
                    return Ok(TurnEnd::Stale);
                }
                assistant
            }
        };
        self.services.drains.begin_answer(&self.session().id, &assistant);
        self.services.titles.name_later(&config, self.session(), &self.tree);

        let path = path::to(&self.tree, self.session().leaf.as_ref());
        self.services.views.recall(&self.session().id, &path);
        let setting = CallSurroundings {
            session: Arc::new(self.session().clone()),
            scope: Arc::new(self.services.scope(&location, &config, &policy, self).await),
            offer: Arc::new(offer),
            policy: Arc::new(policy),
            plan,
            config,
            lease: self.lease.clone(),
            lost: self.lost.clone(),
            cancel: self.cancel.child_token(),
        };
        self.converse(TurnSetup { setting, chosen, assistant, request, snapshots, shaped, last }, before)
            .await
    }
}

/// Folds what the store has taken into the turn's own tree.
///
/// # Errors When it does not fit: the store and the turn disagree, and the turn must not go on from its own tree.
fn follow(tree: &mut Tree, record: &Record) -> Result<(), Error> {
    fold::apply(tree, record).map(drop).map_err(|error| Error::Diverged {
        session: record.session.clone(),
        seq: record.seq,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use everturn_model::part::PartKind;
    use everturn_model::{EventId, Part};

    use super::*;

    #[test]
    fn a_turn_that_lost_the_store_does_not_go_on() {
        // What the store took and the turn could not follow was once noticed in debug builds only.
        let session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        let part = Box::new(Part::new("prt_1".into(), PartKind::text("x")));
        let record = Record {
            id: EventId::from("evt_1"),
            session: session.id.clone(),
            seq: 7,
            time: 17,
            event: Event::PartAdded { entry: "msg_unknown".into(), part },
            subject: None,
        };
        let error = follow(&mut Tree::new(session), &record).unwrap_err();
        assert!(matches!(&error, Error::Diverged { seq: 7, .. }), "{error}");
    }
}
