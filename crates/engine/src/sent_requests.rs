//! What a model was sent, shown again.
//!
//! Nothing of the conversation is kept twice: the log up to the step says what the conversation was then, whatever was
//! amended, reverted or pruned since, and the step names its surroundings, which are in the log once. The request is
//! written anew from both, and the digest of the body that was sent tells whether it is the same to the byte.

use std::path::Path;
use std::sync::Arc;

use everturn_model::entry::{Assistant, Body};
use everturn_model::frame::{RequestDigests, RequestFrame};
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Millis, Record, SessionId, Tree, fold, path};
use everturn_store::Store;
use everturn_tools::{Registry, ToolOffer};

use crate::configurations::Configurations;
use crate::models::{Models, UsableModel};
use crate::turn::frame::{self, RequestPlan};
use crate::{Config, Error, steps, structured};

/// A request of one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct SentRequest {
    /// Which turn of the conversation it is, from 1 on.
    pub turn: usize,
    /// The answer that it got.
    pub entry: EntryId,
    /// When the turn began.
    pub time: Millis,
    /// The agent that answered.
    pub agent: String,
    /// The model that was asked.
    pub model: ModelRef,
    /// Whether it is what was sent, to the byte. Otherwise it is what this version would send today.
    pub exact: bool,
    /// Whether something of it is not shown, since it may be secret.
    pub masked: bool,
    /// Its body.
    pub body: String,
}

/// Shows requests again; clones share it.
#[derive(Debug, Clone)]
pub struct SentRequests {
    store: Store,
    configurations: Configurations,
    models: Models,
    tools: Registry,
}

impl SentRequests {
    /// Requests in the logs of a store.
    pub(crate) fn new(store: Store, configurations: Configurations, models: Models, tools: Registry) -> Self {
        Self { store, configurations, models, tools }
    }

    /// The request of a turn of the conversation: the one of this number, or the newest.
    ///
    /// # Errors
    /// When there is no such session or turn, or its model is not configured any more.
    pub async fn of(&self, id: &SessionId, turn: Option<usize>) -> Result<SentRequest, Error> {
        let log = self.store.events(id, None, usize::MAX).await?;
        let now = replay(id, &log)?;
        let turns: Vec<&Node> = path::to(&now, now.session.leaf.as_ref())
            .into_iter()
            .filter(|node| matches!(node.entry.body, Body::Assistant(_)))
            .collect();
        let number = turn.unwrap_or(turns.len());
        let found = number.checked_sub(1).and_then(|index| turns.get(index)).copied();
        let Some(node) = found else {
            let words = match turns.len() {
                0 => "the session has no turns yet".to_owned(),
                count => format!("there is no turn {number}: the conversation has {count}"),
            };
            return Err(Error::Invalid(words));
        };
        let started = log.iter().position(
            |record| matches!(&record.event, Event::StepStarted { entry, .. } if entry.id == node.entry.id),
        );
        // One that was copied or imported began elsewhere.
        let then = started.and_then(|place| log.get(..=place)).map(|log| replay(id, log)).transpose()?;
        let then = then.unwrap_or(now.clone());
        self.show(&log, &then, node, number).await
    }

    async fn show(
        &self,
        log: &[Record],
        then: &Tree,
        node: &Node,
        turn: usize,
    ) -> Result<SentRequest, Error> {
        let nothing = Assistant::default();
        let assistant = node.entry.body.assistant().unwrap_or(&nothing);
        let path = path::to(then, node.entry.parent.as_ref());
        let config = self.configurations.at(Path::new(&then.session.directory)).await;
        let recorded = assistant.sent.as_ref().and_then(|sent| recorded(log, sent));
        let model = recorded.map(|frame| &frame.model).or(assistant.model.as_ref());
        let model = model.ok_or_else(|| Error::Invalid("nothing says which model was asked".to_owned()))?;
        let chosen = self.models.of(&config).writer(model, Path::new(&then.session.directory))?;
        let frame = match recorded {
            Some(frame) => frame.clone(),
            None => self.frame_today(&config, &chosen, assistant, &path)?,
        };
        let options = chosen.setting().options;
        let body = |options| {
            let request = frame::request(&frame, &then.session.id, &path, options);
            chosen.provider.prepare(request).body().clone()
        };
        // What was masked is as it is configured, if that looks the same.
        let masked = frame::masked(&options) != options;
        let same = frame::masked(&options) == frame.options;
        let whole = body(if same { options } else { frame.options.clone() });
        let digest = blake3::hash(&whole).to_hex();
        let exact = assistant.sent.as_ref().is_some_and(|sent| sent.body == digest.as_str());
        let shown = if masked { body(frame.options.clone()) } else { whole };
        Ok(SentRequest {
            turn,
            entry: node.entry.id.clone(),
            time: node.entry.time,
            agent: frame.agent.clone(),
            model: frame.model.clone(),
            exact,
            masked,
            body: String::from_utf8_lossy(&shown).into_owned(),
        })
    }

    /// The surroundings of a request that nobody recorded, as they would be now, without the tools of MCP servers.
    fn frame_today(
        &self,
        config: &Arc<Config>,
        chosen: &UsableModel,
        assistant: &Assistant,
        path: &[&Node],
    ) -> Result<RequestFrame, Error> {
        let agents = config.agents();
        let name = assistant.agent.clone().unwrap_or_else(|| agents.default_name());
        agents.check(&name)?;
        let Some(agent) = agents.named(&name) else { return Err(Error::Invalid(name)) };
        let offer = match chosen.model.abilities.tool_call {
            true => {
                config.tools_over(&self.tools).offer().filter(|tool| !agent.policy.hides(tool.permission()))
            }
            false => ToolOffer::default(),
        };
        let (shaped, last) = (structured::wanted(path).is_some(), steps::is_last(path, agent.steps));
        Ok(RequestPlan { agent, chosen, offer: &offer, shaped, last }.frame())
    }
}

fn replay(id: &SessionId, log: &[Record]) -> Result<Tree, Error> {
    let tree = fold::replay(log).map_err(|error| Error::Invalid(error.to_string()))?;
    tree.ok_or_else(|| Error::NoSession(id.clone()))
}

/// The surroundings that a step names.
fn recorded<'l>(log: &'l [Record], sent: &RequestDigests) -> Option<&'l RequestFrame> {
    let wanted = sent.frame.as_ref()?;
    log.iter().find_map(|record| match &record.event {
        Event::StepStarted { entry, frame: Some(frame) } => {
            let sent = entry.body.assistant()?.sent.as_ref()?;
            (sent.frame.as_ref() == Some(wanted)).then_some(frame.as_ref())
        }
        _ => None,
    })
}
