//! The opening of a turn, which is the Safe Provider-Turn Boundary: what happens between the last event and the next
//! request.
//!
//! First the baseline, where an epoch begins; then prompts are promoted; then the model is told what has changed around
//! it since it was told last; then the step starts. All of it is one append, put together by a builder that knows the
//! leaf as it will be.

use std::path::Path;
use std::sync::Arc;

use everturn_llm::PreparedRequest;
use everturn_model::entry::{Assistant, Body, Entry, UserSummary};
use everturn_model::frame::{RequestDigests, RequestFrame};
use everturn_model::inbox::InboxItem;
use everturn_model::permission::Policy;
use everturn_model::session::{ModelRef, Summary};
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Session, Tree, path};

use super::frame::{self, FrameRecord};
use super::request::last_user;
use super::{Turn, accounting};
use crate::agents::Agent;
use crate::context::{self, AdmittedContext, ContextSource, ContextStep, ContextView, PathEpoch};
use crate::mint::Mint;
use crate::projects::Location;
use crate::{Config, Error};

/// The events of an opening so far, and where the conversation is after them.
pub(super) struct TurnOpening {
    events: Vec<Event>,
    /// The entries that it adds, as they will be on the path.
    nodes: Vec<Node>,
    /// The entry that the next one follows.
    leaf: Option<EntryId>,
    /// The message that the next answer is to, by the id that clients know.
    answers: Option<String>,
    /// The prompt that was promoted last.
    promoted: Option<EntryId>,
    session: Session,
    mint: Mint,
}

impl TurnOpening {
    /// An opening that follows the leaf of a tree.
    pub(super) fn at(tree: &Tree, mint: &Mint) -> Self {
        Self {
            events: Vec::new(),
            nodes: Vec::new(),
            leaf: tree.session.leaf.clone(),
            answers: last_user(tree).map(|node| node.entry.wire_id().to_owned()),
            promoted: None,
            session: tree.session.clone(),
            mint: mint.clone(),
        }
    }

    fn entry(&mut self, body: Body) -> Entry {
        let id = self.mint.entry(&self.session);
        let parent = self.leaf.replace(id.clone());
        Entry::new(id, parent, self.mint.now(), body)
    }

    /// Adds an entry that needs no other event.
    fn add(&mut self, body: Body) {
        let entry = self.entry(body);
        self.nodes.push(Node::new(entry.clone(), Vec::new()));
        self.events.push(Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() });
    }

    /// Begins an epoch with a baseline.
    fn begin_epoch(&mut self, AdmittedContext { text: baseline, snapshot }: AdmittedContext) {
        let directory = Some(self.session.directory.clone());
        self.add(Body::Epoch { baseline, snapshot, directory });
    }

    /// Adds an event that leaves the leaf where it is.
    pub(super) fn push(&mut self, event: Option<Event>) {
        self.events.extend(event);
    }

    /// Promotes a prompt, as it is if it waits still.
    fn promote(&mut self, id: &EntryId, item: Option<&InboxItem>) {
        let parent = self.leaf.replace(id.clone());
        self.answers = Some(id.to_string());
        self.promoted = Some(id.clone());
        if let Some(item) = item {
            let entry = Entry::new(id.clone(), parent.clone(), item.time, Body::User(item.user.clone()));
            self.nodes.push(Node::new(entry, item.parts.clone()));
        }
        let revision = item.map(|item| item.revision);
        self.events.push(Event::PromptPromoted { id: id.clone(), parent, revision });
    }

    /// The path as it will be: what is there, and what is added to it.
    pub(super) fn path<'n>(&'n self, tree: &'n Tree) -> Vec<&'n Node> {
        let mut path = path::to(tree, tree.session.leaf.as_ref());
        path.extend(&self.nodes);
        path
    }

    /// Starts the step that a request begins, in a folder; the id of its answer comes back.
    pub(super) fn start_step(
        &mut self,
        location: &Location,
        frame: RequestFrame,
        request: &PreparedRequest,
    ) -> EntryId {
        let (digest, record) = frame::record(&self.session, &frame);
        let sent = RequestDigests {
            frame: (record != FrameRecord::Refused).then_some(digest),
            body: blake3::hash(request.body()).to_hex().to_string(),
            size: u64::try_from(accounting::size(request.request())).unwrap_or(u64::MAX),
        };
        let assistant = Assistant {
            agent: Some(frame.agent.clone()),
            model: Some(frame.model.clone()),
            cwd: Some(location.directory.display().to_string()),
            root: Some(location.worktree.display().to_string()),
            sent: Some(sent),
            ..Assistant::default()
        };
        self.start(assistant, (record == FrameRecord::New).then(|| Box::new(frame)))
    }

    /// Starts the step of a task that the person gives to another agent. No model is asked in it, and it does not count as
    /// one that is.
    pub(super) fn start_task(
        &mut self,
        location: &Location,
        agent: &str,
        model: Option<ModelRef>,
    ) -> EntryId {
        let assistant = Assistant {
            agent: Some(agent.to_owned()),
            model,
            answers: self.answers.clone(),
            cwd: Some(location.directory.display().to_string()),
            root: Some(location.worktree.display().to_string()),
            delegated: true,
            ..Assistant::default()
        };
        let entry = self.entry(Body::Assistant(assistant));
        let id = entry.id.clone();
        self.events.push(Event::StepStarted { entry: Box::new(entry), frame: None });
        id
    }

    /// Starts the step of a turn that has no model: only its failure will be in it.
    pub(super) fn start_refused(&mut self) -> EntryId {
        let session = &self.session;
        let assistant = Assistant {
            agent: session.agent.clone(),
            model: session.model.clone(),
            cwd: Some(session.directory.clone()),
            root: Some(session.directory.clone()),
            ..Assistant::default()
        };
        self.start(assistant, None)
    }

    fn start(&mut self, assistant: Assistant, frame: Option<Box<RequestFrame>>) -> EntryId {
        let (answers, step) = (self.answers.clone(), Some(self.session.steps + 1));
        let entry = self.entry(Body::Assistant(Assistant { answers, step, ..assistant }));
        let id = entry.id.clone();
        self.events.push(Event::StepStarted { entry: Box::new(entry), frame });
        id
    }

    /// Records that nothing has changed since the prompt that was just promoted; false when there is none.
    pub(super) fn summarize_promoted(&mut self) -> bool {
        let Some(entry) = self.promoted.clone() else { return false };
        let session: Summary = self.session.summary.clone().unwrap_or_default();
        self.events.push(Event::TurnSummarized { entry, summary: UserSummary::default(), session });
        true
    }

    /// The events, for one append.
    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}

impl Turn<'_> {
    /// What comes before the model: the epoch's baseline, then promotion. True when an epoch begins with it: the model is
    /// told everything.
    pub(super) fn open(&self, opening: &mut TurnOpening, sources: &[ContextSource]) -> Result<bool, Error> {
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let baseline = match PathEpoch::of(self.session(), &path) {
            PathEpoch::Missing => Some(context::initialize(sources)?),
            PathEpoch::Ended(told) => context::replace(told, sources),
            PathEpoch::Holds(_) => None,
        };
        let begun = baseline.is_some();
        if let Some(baseline) = baseline {
            opening.begin_epoch(baseline);
        }
        for id in &self.work.promote {
            opening.promote(id, self.tree.waiting(id));
        }
        Ok(begun)
    }

    /// What has changed around the model since it was told last, as one entry.
    pub(super) fn update(&self, opening: &mut TurnOpening, sources: &[ContextSource]) {
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let Some(told) = PathEpoch::of(self.session(), &path).told() else { return };
        match context::reconcile(told, sources) {
            ContextStep::Unchanged | ContextStep::Blocked => {}
            ContextStep::Updated(AdmittedContext { text, snapshot }) => {
                opening.add(Body::System { text, snapshot: Some(snapshot) });
            }
            ContextStep::Replace(baseline) => opening.begin_epoch(baseline),
        }
    }

    /// The System Context as it is now, for an agent that may do this.
    pub(super) async fn observe(
        &self,
        location: &Location,
        config: &Config,
        agent: &Agent,
        plan: &Path,
        policy: Policy,
    ) -> Result<Vec<ContextSource>, Error> {
        let nested = {
            let path = path::to(&self.tree, self.session().leaf.as_ref());
            context::found_beside(PathEpoch::of(self.session(), &path), &path)
        };
        let view = ContextView {
            location: location.clone(),
            session: Arc::new(self.session().clone()),
            agent: agent.name.clone(),
            now: self.services.journal.mint().now(),
            places: self.services.guidance.places(config, location),
            policy,
            nested,
            plan: plan.to_owned(),
        };
        self.services.context.observe(view).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::System;

    #[test]
    fn each_event_of_an_opening_follows_the_one_before() {
        let mut session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        session.leaf = Some("msg_before".into());
        let mut opening = TurnOpening::at(&Tree::new(session), &Mint::new(Arc::new(System)));
        opening.promote(&"msg_one".into(), None);
        opening.promote(&"msg_two".into(), None);
        opening.add(Body::System { text: "news".to_owned(), snapshot: None });
        let assistant = opening.start_refused();
        assert!(opening.summarize_promoted());
        let mut before = EntryId::from("msg_before");
        let mut summarized = None;
        for event in opening.into_events() {
            let (id, parent) = match event {
                Event::PromptPromoted { id, parent, .. } => (id, parent),
                Event::EntryAdded { entry, .. } => (entry.id, entry.parent),
                Event::StepStarted { entry, .. } => {
                    let answers = entry.body.assistant().and_then(|assistant| assistant.answers.clone());
                    assert_eq!(answers.as_deref(), Some("msg_two"));
                    (entry.id, entry.parent)
                }
                Event::TurnSummarized { entry, .. } => {
                    summarized = Some(entry);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(parent.as_ref(), Some(&before));
            before = id;
        }
        assert_eq!((before, summarized), (assistant, Some("msg_two".into())));
    }
}
