//! The surroundings of a request, and the request that is made of them and a conversation: for the provider, and again for
//! whoever wants to see it.

use everturn_llm::{Content, Effort, Message, ModelRequest, Reasoning, ToolChoice, ToolSpec};
use everturn_model::entry::{Body, User};
use everturn_model::frame::{CallsWanted, FRAME_LIMIT, FRAME_SIZE_LIMIT, OfferedTool, RequestFrame};
use everturn_model::secret_shape::mask_json;
use everturn_model::tree::Node;
use everturn_model::{Map, Session, SessionId};
use everturn_tools::ToolOffer;
use serde_json::Value;

use crate::agents::Agent;
use crate::history::{self, AcceptedContent};
use crate::models::{UsableModel, catalogue};
use crate::{steps, structured};

/// What decides how a request looks besides the conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestPlan<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) chosen: &'a UsableModel,
    pub(crate) offer: &'a ToolOffer,
    /// Whether the prompt asks for an answer in a shape of its own.
    pub(crate) shaped: bool,
    /// Whether no step comes after this one.
    pub(crate) last: bool,
}

impl RequestPlan<'_> {
    /// The surroundings of the request.
    pub(crate) fn frame(self) -> RequestFrame {
        let Self { agent, chosen, offer, shaped, last } = self;
        let (setting, limit) = (chosen.setting(), chosen.model.limits.output);
        RequestFrame {
            agent: agent.name.clone(),
            prompt: agent.prompt.clone(),
            note: shaped.then(|| structured::NOTE.to_owned()),
            reminder: (last && !shaped).then(|| steps::LAST_STEP.to_owned()),
            model: chosen.reference.clone(),
            wire: chosen.model.wire.to_string(),
            takes: chosen.takes.map(|takes| takes.iter().map(|kind| kind.as_str().to_owned()).collect()),
            tools: offer.specs().into_iter().map(offered).collect(),
            calls: match (shaped, last) {
                (true, _) => CallsWanted::One,
                (false, true) => CallsWanted::None,
                (false, false) => CallsWanted::Some,
            },
            max_output: (limit > 0).then(|| limit.min(32_000)),
            temperature: agent.temperature,
            top_p: agent.top_p,
            effort: setting.reasoning.effort.map(|effort| effort.as_str().to_owned()),
            thinking: setting.reasoning.budget,
            options: masked(&setting.options),
        }
    }
}

fn offered(spec: everturn_tools::Spec) -> OfferedTool {
    OfferedTool { name: spec.name, description: spec.description, schema: spec.schema }
}

/// Options without what may be secret.
pub(crate) fn masked(options: &Map) -> Map {
    match mask_json(&Value::Object(options.clone())) {
        Value::Object(masked) => masked,
        _ => Map::new(),
    }
}

/// By what surroundings are known, and whether they are recorded with a step: those that are new, as long as there is
/// room.
pub(crate) fn record(session: &Session, frame: &RequestFrame) -> (String, FrameRecord) {
    let json = serde_json::to_vec(frame).unwrap_or_default();
    let digest: String = blake3::hash(&json).to_hex().chars().take(16).collect();
    let record = if session.frames.contains(&digest) {
        FrameRecord::Known
    } else if session.frames.len() < FRAME_LIMIT && json.len() <= FRAME_SIZE_LIMIT {
        FrameRecord::New
    } else {
        FrameRecord::Refused
    };
    (digest, record)
}

/// What a session knows of surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameRecord {
    /// It has them.
    Known,
    /// It takes them in.
    New,
    /// It has no room for them.
    Refused,
}

/// The request of surroundings after a path, with these options of the model.
pub(crate) fn request(
    frame: &RequestFrame,
    session: &SessionId,
    path: &[&Node],
    options: Map,
) -> ModelRequest {
    let baseline = path.iter().rev().find_map(|node| match &node.entry.body {
        Body::Epoch { baseline, .. } => Some(baseline.clone()),
        _ => None,
    });
    let mut system = vec![frame.prompt.clone()];
    system.extend(baseline);
    system.extend(last_user(path).and_then(|user| user.system.clone()));
    system.extend(frame.note.clone());
    let mut messages = history::messages(path, accepted(frame));
    if let Some(reminder) = &frame.reminder {
        let text = Content::Text(reminder.clone());
        match messages.last_mut() {
            Some(Message::User(contents)) => contents.push(text),
            _ => messages.push(Message::User(vec![text])),
        }
    }
    let tool = |tool: &OfferedTool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        schema: tool.schema.clone(),
    };
    let effort = frame.effort.as_deref().and_then(Effort::of);
    ModelRequest {
        origin: everturn_llm::AnswerOrigin {
            provider: frame.model.provider.clone(),
            model: frame.model.model.clone(),
        },
        model: frame.wire.clone(),
        system,
        messages,
        tools: frame.tools.iter().map(tool).collect(),
        tool_choice: match frame.calls {
            CallsWanted::Some => ToolChoice::Auto,
            CallsWanted::None => ToolChoice::None,
            CallsWanted::One => ToolChoice::Required,
        },
        max_output: frame.max_output,
        temperature: frame.temperature,
        top_p: frame.top_p,
        cache_key: Some(session.to_string()),
        reasoning: Reasoning { effort, budget: frame.thinking },
        options,
        ..ModelRequest::default()
    }
}

fn accepted(frame: &RequestFrame) -> AcceptedContent {
    let words = frame.takes.as_ref()?;
    catalogue::Modalities::from_words(words.iter().map(String::as_str)).ok()
}

/// The newest message of a person on a path.
pub(crate) fn last_user<'n>(path: &[&'n Node]) -> Option<&'n User> {
    path.iter().rev().find_map(|node| match &node.entry.body {
        Body::User(user) if !node.entry.hidden => Some(user),
        _ => None,
    })
}
