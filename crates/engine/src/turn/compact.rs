//! A compaction: the beginning of the conversation is summed up, and the model goes on with the summary.
//!
//! It is in the log before anything is asked, so that clients show it, and whoever takes the session over makes it anew. If
//! it fails, nothing of what the model sees has changed.

mod leftovers;

use everturn_model::compaction::CarriedContext;
use everturn_model::entry::{Assistant, Body, Compaction, Entry, Pair, User};
use everturn_model::event::{Amendment, StepRemains};
use everturn_model::finish::Trigger;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Fault, Part, Tokens, bill, path};
use everturn_tools::snapshot::TreeId;

use super::fault::aborted;
use super::summary::{SummaryEnd, SummaryTask};
use super::{Turn, TurnEnd, files};
use crate::agents::{Agent, SUMMARISING};
use crate::bus::Signal;
use crate::compaction::cut::{self, CutOccasion};
use crate::compaction::{files as touched_files, question, size, transcript};
use crate::models::UsableModel;
use crate::projects::Location;
use crate::worker::WantedCompaction;
use crate::{Config, Error};

/// How a compaction ended.
#[derive(Debug)]
pub(super) enum CompactionEnd {
    /// The model sees the summary from now on.
    Done,
    /// Nothing has changed, for this reason.
    Failed(Fault),
    /// Somebody stopped it.
    Stopped,
    /// The process is ending; the next one makes it.
    Closing,
    /// There is nothing to sum up.
    Nothing,
}

/// What a compaction works with.
struct CompactionSetup {
    entry: EntryId,
    chosen: UsableModel,
    task: SummaryTask,
    first_kept: Option<EntryId>,
    carried: CarriedContext,
}

impl Turn<'_> {
    /// Makes the compaction that a person asked for, or one that a crash cut off.
    pub(super) async fn compact_as_wanted(&mut self, wanted: &WantedCompaction) -> Result<TurnEnd, Error> {
        let end = self.compact(CutOccasion::Asked, Some(wanted)).await?;
        let goes_on = self.session().open;
        Ok(match end {
            CompactionEnd::Closing => TurnEnd::Closing,
            _ if goes_on => TurnEnd::Continue,
            CompactionEnd::Done => TurnEnd::Done,
            CompactionEnd::Nothing | CompactionEnd::Failed(_) | CompactionEnd::Stopped => {
                self.services.drains.set_status(&self.session().id, Signal::Idle);
                self.signal(Signal::Idle);
                TurnEnd::Failed
            }
        })
    }

    /// Sums the conversation up: the beginning of it, or all of it where a person wants it and it is short.
    pub(super) async fn compact(
        &mut self,
        occasion: CutOccasion,
        wanted: Option<&WantedCompaction>,
    ) -> Result<CompactionEnd, Error> {
        let location = self.services.projects.location(Some(&self.session().directory)).await?;
        let config = self.services.configurations.at(&location.directory).await;
        let item = match wanted {
            Some(WantedCompaction::Asked(id)) => self.tree.waiting(id).cloned(),
            _ => None,
        };
        let begun = match wanted {
            Some(WantedCompaction::Begun(id)) => self.tree.node(id).cloned(),
            _ => None,
        };
        let (reason, user) = match (&item, begun.as_ref().map(|node| &node.entry.body)) {
            (Some(item), _) => (Trigger::Manual, item.user.clone()),
            (None, Some(Body::Compaction(compaction))) => {
                let user = compaction.pair.as_ref().map(|pair| pair.user.clone());
                (compaction.reason.clone().unwrap_or(Trigger::Auto), user.unwrap_or_default())
            }
            _ => (Trigger::Auto, User { agent: self.session().agent.clone(), ..User::default() }),
        };
        let agent = config.agents().named(SUMMARISING);
        let selected = user.model.clone().or_else(|| self.selected_model());
        let chosen = self.summariser(&config, agent, selected.as_ref(), &location);
        let end = begun.as_ref().map_or(self.session().leaf.clone(), |node| node.entry.parent.clone());
        let path = path::to(&self.tree, end.as_ref());
        let models = self.services.models.of(&config);
        let main = models.choose(selected.as_ref(), &location.directory).ok();
        let limits =
            main.as_ref().or(chosen.as_ref().ok()).map(|model| model.model.limits).unwrap_or_default();
        let usable = config.compaction.usable(&limits);
        let cut = cut::of(&path, &config.compaction, usable, occasion);
        if wanted.is_none() && cut.is_empty(&path) {
            return Ok(CompactionEnd::Nothing);
        }
        let (_, seen) = path::visible(&path);
        let tokens_before =
            Some(seen.iter().filter_map(|at| path.get(*at)).map(|node| size::of_node(node)).sum());
        let first_kept = cut.kept.iter().filter_map(|at| path.get(*at)).find(|node| cut::is_message(node));
        let first_kept = first_kept.map(|node| node.entry.id.clone());
        let (earlier, carried) = earlier_summary(&path);
        let touched = touched_files::touched(
            carried.as_ref(),
            cut.summed.iter().filter_map(|at| path.get(*at)).copied(),
        );
        let pieces = transcript::pieces(&path, &cut.summed);
        let (splits, focus) = (cut.splits, user.system.clone());
        let entry = match (&begun, &item) {
            (Some(node), _) => {
                let mut events = leftover_parts(node);
                if let (Ok(chosen), false) = (&chosen, events.is_empty()) {
                    // It was asked by the process that has ended, which had no time to say what that used.
                    let input = pieces.iter().map(|piece| size::of_text(piece)).sum();
                    events.push(billed(node, input, chosen));
                }
                if !events.is_empty() {
                    self.commit(events).await?;
                }
                node.entry.id.clone()
            }
            (None, item) => {
                let id = item.as_ref().map(|item| item.id.clone());
                let parts = item.as_ref().map(|item| item.parts.clone());
                let model = chosen.as_ref().ok().map(|chosen| chosen.reference.clone()).or(selected);
                let body = Compaction { reason: Some(reason), tokens_before, ..Compaction::default() };
                self.begin_compaction(id, user, model, parts, body, &location).await?
            }
        };
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(error) => {
                return self.fail_compaction(&entry, self.refusal(&error), StepRemains::default()).await;
            }
        };
        if cut.summed.is_empty() && earlier.is_none() {
            let fault = Fault::internal("There is nothing to sum up yet.");
            return self.fail_compaction(&entry, fault, StepRemains::default()).await;
        }
        let todos = self.services.store.todos(&self.session().id).await?;
        let pins = self.session().pins.clone();
        let carried = CarriedContext { todos, pins, read: touched.read, modified: touched.modified };
        let task = SummaryTask::new(agent, &chosen, &config, earlier, pieces, splits, focus);
        let snapshots = self.services.snapshots.of(&config, &location);
        let before = files::capture(snapshots);
        let setup = CompactionSetup { entry, chosen, task, first_kept, carried };
        self.sum_up(setup, before).await
    }

    /// Has the summary written, and records what came of it.
    async fn sum_up(
        &mut self,
        setup: CompactionSetup,
        before: tokio::task::JoinHandle<Option<TreeId>>,
    ) -> Result<CompactionEnd, Error> {
        let CompactionSetup { entry, chosen, task, first_kept, carried } = setup;
        let (summary, remains) = match self.write_summary(&entry, &chosen, task, before).await? {
            SummaryEnd::Written { text, remains } => (text, remains),
            SummaryEnd::Failed { fault, remains } => {
                return self.fail_compaction(&entry, fault, remains).await;
            }
            SummaryEnd::Stopped { remains } => {
                self.fail_compaction(&entry, aborted(), remains).await?;
                return Ok(CompactionEnd::Stopped);
            }
            SummaryEnd::Closing => {
                self.leave_in_order().await?;
                return Ok(CompactionEnd::Closing);
            }
        };
        let carried = Some(carried).filter(|carried| !carried.is_empty()).map(Box::new);
        let goes_on = self.session().open_compaction.as_ref().is_some_and(|open| open.goes_on);
        let nothing_to_answer = goes_on && first_kept.is_none();
        let ended = Event::CompactionEnded {
            entry,
            summary,
            first_kept,
            recent: None,
            carried,
            remains: Box::new(remains),
        };
        let mut events = vec![ended];
        if nothing_to_answer {
            events.push(self.go_on(question::GO_ON));
        }
        self.commit(events).await?;
        Ok(CompactionEnd::Done)
    }

    /// Says that a compaction has failed: to everybody if a person waits for it, and to the log.
    pub(super) async fn fail_compaction(
        &mut self,
        entry: &EntryId,
        error: Fault,
        remains: StepRemains,
    ) -> Result<CompactionEnd, Error> {
        let node = self.tree.node(entry);
        let asked = node.is_some_and(|node| {
            matches!(&node.entry.body, Body::Compaction(Compaction { reason: Some(Trigger::Manual), .. }))
        });
        if asked {
            // As with a turn that fails: clients hear of it before it is in the log, so it has to be ours.
            self.services.store.renew(self.lease).await?;
            self.signal(Signal::Failed { error: error.clone() });
        }
        let (failed, remains) = (error.clone(), Box::new(remains));
        self.commit(vec![Event::CompactionFailed { entry: entry.clone(), error: failed, remains }]).await?;
        Ok(CompactionEnd::Failed(error))
    }

    /// Records that a compaction begins.
    async fn begin_compaction(
        &mut self,
        id: Option<EntryId>,
        user: User,
        model: Option<ModelRef>,
        parts: Option<Vec<Part>>,
        body: Compaction,
        location: &Location,
    ) -> Result<EntryId, Error> {
        let mint = self.services.journal.mint();
        let auto = body.reason != Some(Trigger::Manual);
        let id = id.unwrap_or_else(|| mint.entry(self.session()));
        let assistant = Assistant {
            agent: Some(SUMMARISING.to_owned()),
            answers: Some(id.to_string()),
            cwd: Some(location.directory.display().to_string()),
            root: Some(location.worktree.display().to_string()),
            model: model.clone(),
            ..Assistant::default()
        };
        let user = User { model: user.model.or(model), ..user };
        let pair = Pair {
            user,
            user_extra: Default::default(),
            second: mint.entry(self.session()).to_string(),
            second_time: mint.now(),
            assistant,
            second_extra: Default::default(),
        };
        let parts = parts
            .unwrap_or_else(|| vec![Part::new(mint.part(self.session()), PartKind::Compaction { auto })]);
        let time = self.tree.waiting(&id).map_or(mint.now(), |item| item.time);
        let body = Body::Compaction(Compaction { pair: Some(Box::new(pair)), ..body });
        let entry = Box::new(Entry::new(id.clone(), self.session().leaf.clone(), time, body));
        self.commit(vec![Event::CompactionStarted { entry, parts }]).await?;
        Ok(id)
    }

    /// The model that sums up: that of the agent for it, or the one that the conversation uses.
    fn summariser(
        &self,
        config: &std::sync::Arc<Config>,
        agent: Option<&Agent>,
        selected: Option<&ModelRef>,
        location: &Location,
    ) -> Result<UsableModel, Error> {
        let models = self.services.models.of(config);
        let folder = &location.directory;
        match agent.and_then(|agent| agent.model.as_deref()) {
            Some(name) => models.choose(Some(&models.named(name, folder)?), folder),
            None => models.choose(selected, folder),
        }
    }
}

/// The summary that the model sees now, and what is carried beside it.
fn earlier_summary(path: &[&Node]) -> (Option<String>, Option<CarriedContext>) {
    let node = path::visible(path).0.and_then(|at| path.get(at));
    match node.map(|node| &node.entry.body) {
        Some(Body::Compaction(Compaction { summary, recent, carried, .. })) => {
            let recent = recent.as_deref().map(|recent| format!("\n\n{recent}"));
            let summary = summary.as_ref().map(|text| format!("{text}{}", recent.unwrap_or_default()));
            (summary, carried.as_deref().cloned())
        }
        _ => (None, None),
    }
}

/// What an earlier process has used for a summary that it did not finish, by an estimate.
fn billed(node: &Node, input: u64, chosen: &UsableModel) -> Event {
    let shown = node.parts.iter().filter(|part| part.second && !part.hidden);
    let output = shown.map(|part| match &part.kind {
        PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } => size::of_text(text),
        _ => 0,
    });
    let tokens = Tokens { input, output: output.sum(), ..Tokens::default() };
    Event::UsageRecorded {
        source: bill::COMPACTION.to_owned(),
        tokens,
        cost: chosen.pricing().cost(&tokens),
        model: Some(chosen.reference.clone()),
        failed: true,
    }
}

/// What takes out of view what an earlier process has streamed of a summary.
fn leftover_parts(node: &Node) -> Vec<Event> {
    let parts = node.parts.iter().filter(|part| part.second && !part.hidden);
    let hide = |part: &Part| Event::EntryAmended {
        entry: node.entry.id.clone(),
        part: Some(part.id.clone()),
        change: Amendment::Hide,
    };
    parts.map(hide).collect()
}
