//! The heads of user and assistant messages.

use everturn_model::entry::{AnswerShape, Assistant, User};
use everturn_model::session::ModelRef;
use everturn_model::{Extra, Map, Millis, SessionId};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{FaultView, IdPlacement, read_fault};
use crate::opencode::shape::{self, Model, ModelKey, UserSummaryView, millis, text};
use crate::opencode::unread::{MergedObject, UnreadFields};

/// What stands in for a field that an entry of another program does not have but every V1 message has: the
/// selection at its place on the path, and the last user message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selected<'a> {
    /// The agent.
    pub agent: Option<&'a str>,
    /// The model.
    pub model: Option<&'a ModelRef>,
    /// The id of the last user message.
    pub user: Option<&'a str>,
}

/// The agent that stands in where nothing names one.
const AGENT: &str = "build";

/// The message that a head or a part is written for, or read from.
#[derive(Debug, Clone, Copy)]
pub(in crate::opencode) struct MessagePlace<'a> {
    /// Its session.
    pub(in crate::opencode) session: &'a str,
    /// Its own id.
    pub(in crate::opencode) message: &'a str,
    /// When it was made.
    pub(in crate::opencode) time: Millis,
    /// Whether its ids are printed.
    pub(in crate::opencode) ids: IdPlacement,
}

/// What an assistant message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::opencode) enum AnswerPurpose {
    /// It answers.
    Answer,
    /// It sums up what came before it.
    Summary,
}

/// The head of a message, to be written.
#[derive(Debug)]
pub(in crate::opencode) enum Info<'a> {
    User(MessagePlace<'a>, &'a User, &'a Extra, Selected<'a>),
    Assistant(MessagePlace<'a>, &'a Assistant, &'a Extra, Selected<'a>, AnswerPurpose),
    /// As it came.
    Whole(&'a Value),
}

impl Serialize for Info<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Info::User(place, user, extra, at) => {
                let mut map = MergedObject::new(serializer.serialize_map(None)?, extra);
                place.head(&mut map, "user", None)?;
                map.put_some("format", user.format.as_ref().map(AnswerShapeView::of))?;
                map.put_some("summary", user.summary.as_ref().map(UserSummaryView::of))?;
                map.put("agent", user.agent.as_deref().or(at.agent).unwrap_or(AGENT))?;
                map.put("model", &Model::of(user.model.as_ref().or(at.model)))?;
                map.put_some("system", user.system.as_deref())?;
                map.put_some("tools", user.tools.as_ref())?;
                map.end()
            }
            Info::Assistant(place, assistant, extra, at, purpose) => {
                let mut map = MergedObject::new(serializer.serialize_map(None)?, extra);
                place.head(&mut map, "assistant", assistant.completed)?;
                answer(&mut map, assistant, at, purpose)?;
                map.end()
            }
            Info::Whole(value) => value.serialize(serializer),
        }
    }
}

fn answer<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    assistant: &Assistant,
    at: Selected<'_>,
    purpose: AnswerPurpose,
) -> Result<(), M::Error> {
    let model = Model::of(assistant.model.as_ref().or(at.model));
    let agent = assistant.agent.as_deref().or(at.agent).unwrap_or(AGENT);
    map.put_some("error", assistant.error.as_ref().map(FaultView))?;
    map.put("parentID", assistant.answers.as_deref().or(at.user).unwrap_or_default())?;
    map.put("modelID", model.model)?;
    map.put("providerID", model.provider)?;
    map.put("mode", agent)?;
    map.put("agent", agent)?;
    let cwd = assistant.cwd.as_deref().unwrap_or_default();
    map.put("path", &MessageFolder { cwd, root: assistant.root.as_deref().unwrap_or(cwd) })?;
    if purpose == AnswerPurpose::Summary {
        map.put("summary", &true)?;
    }
    map.put("cost", &assistant.cost)?;
    map.put("tokens", &assistant.tokens)?;
    map.put_some("structured", assistant.structured.as_ref())?;
    map.put_some("variant", assistant.model.as_ref().and_then(|model| model.variant.as_deref()))?;
    map.put_some("finish", assistant.finish.as_ref().map(shape::finish))
}

/// The shape that an answer must have. One that comes in is kept as it came: whoever asked has been answered.
#[derive(Serialize)]
struct AnswerShapeView<'a> {
    r#type: &'static str,
    schema: &'a Value,
    #[serde(rename = "retryCount")]
    retries: u64,
}

impl<'a> AnswerShapeView<'a> {
    fn of(shape: &'a AnswerShape) -> Self {
        Self { r#type: "json_schema", schema: &shape.schema, retries: shape.retries }
    }
}

#[derive(Serialize)]
struct MessageFolder<'a> {
    cwd: &'a str,
    root: &'a str,
}

#[derive(Serialize)]
struct MessageTimes {
    created: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<Millis>,
}

impl MessagePlace<'_> {
    fn head<M: SerializeMap>(
        &self,
        map: &mut MergedObject<'_, M>,
        role: &str,
        completed: Option<Millis>,
    ) -> Result<(), M::Error> {
        if self.ids == IdPlacement::Inside {
            map.put("id", self.message)?;
            map.put("sessionID", self.session)?;
        }
        map.put("role", role)?;
        map.put("time", &MessageTimes { created: self.time, completed })
    }
}

/// A head that was read.
#[derive(Debug)]
pub(in crate::opencode) struct ReadHead {
    /// Its id, where it has one.
    pub(in crate::opencode) id: Option<String>,
    /// When it was made, where it says so.
    pub(in crate::opencode) created: Option<Millis>,
    /// Who spoke.
    pub(in crate::opencode) role: Role,
    /// Whether it is the summary of a compaction.
    pub(in crate::opencode) summary: bool,
    /// What rides along.
    pub(in crate::opencode) extra: Extra,
}

/// Who spoke.
#[derive(Debug)]
pub(in crate::opencode) enum Role {
    User(Box<User>),
    Assistant(Box<Assistant>),
    /// Nobody this protocol knows; the head as it came.
    Other(Value),
}

/// Reads the head of a message.
pub(in crate::opencode) fn read(value: Value, session: &SessionId, ids: IdPlacement) -> ReadHead {
    match value {
        Value::Object(map) if text(&map, "role") == Some("user") => read_user(map, session, ids),
        Value::Object(map) if text(&map, "role") == Some("assistant") => read_assistant(map, session, ids),
        other => ReadHead {
            id: other.get("id").and_then(Value::as_str).map(str::to_owned),
            created: other.get("time").and_then(|time| time.get("created")).and_then(Value::as_i64),
            role: Role::Other(other),
            summary: false,
            extra: Extra::default(),
        },
    }
}

fn read_user(map: Map, session: &SessionId, ids: IdPlacement) -> ReadHead {
    let (mut id, mut created, mut place) = (None, None, false);
    let mut user = Box::<User>::default();
    let mut rest = UnreadFields::default();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("id", Value::String(own)) if ids == IdPlacement::Inside => id = Some(own),
            ("sessionID", Value::String(own)) if ids == IdPlacement::Inside && own == session.as_str() => {
                place = true;
            }
            ("role", _) => {}
            ("time", value) => {
                created = value.get("created").and_then(Value::as_i64);
                if created.is_none() || value.as_object().is_none_or(|time| time.len() != 1) {
                    rest.keep("time", value);
                }
            }
            ("agent", Value::String(agent)) => user.agent = Some(agent),
            ("model", value) => match shape::read_model(&value, ModelKey::ModelId) {
                Some((model, true)) => user.model = Some(model),
                found => {
                    user.model = found.map(|(model, _)| model);
                    rest.keep("model", value);
                }
            },
            ("system", Value::String(system)) => user.system = Some(system),
            ("tools", Value::Object(tools)) => user.tools = Some(tools),
            ("summary", value) => match shape::read_user_summary(value) {
                Ok(summary) => user.summary = Some(summary),
                Err(value) => rest.keep("summary", value),
            },
            (_, value) => rest.keep(key, value),
        }
    }
    if ids == IdPlacement::Inside {
        rest.require("id", id.is_some());
        rest.require("sessionID", place);
    }
    rest.require("time", created.is_some());
    rest.require("agent", user.agent.is_some());
    rest.require("model", user.model.is_some());
    ReadHead { id, created, role: Role::User(user), summary: false, extra: rest.into_extra() }
}

fn read_assistant(map: Map, session: &SessionId, ids: IdPlacement) -> ReadHead {
    let (mut id, mut created, mut place) = (None, None, false);
    let (mut provider, mut name, mut variant, mut mode) = (None, None, None, None);
    let (mut path, mut cost, mut tokens) = (false, false, false);
    let mut it = Box::<Assistant>::default();
    let mut rest = UnreadFields::default();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("id", Value::String(own)) if ids == IdPlacement::Inside => id = Some(own),
            ("sessionID", Value::String(own)) if ids == IdPlacement::Inside && own == session.as_str() => {
                place = true;
            }
            ("role", _) => {}
            ("time", value) => {
                let time = value.as_object();
                created = time.and_then(|time| millis(time, "created"));
                it.completed = time.and_then(|time| millis(time, "completed"));
                let width = 1 + usize::from(it.completed.is_some());
                if created.is_none() || time.is_none_or(|time| time.len() != width) {
                    rest.keep("time", value);
                }
            }
            ("parentID", Value::String(user)) => it.answers = Some(user),
            ("modelID", Value::String(model)) => name = Some(model),
            ("providerID", Value::String(own)) => provider = Some(own),
            ("variant", Value::String(own)) => variant = Some(own),
            ("mode", Value::String(own)) => mode = Some(own),
            ("agent", Value::String(agent)) => it.agent = Some(agent),
            ("path", value) => {
                let word = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
                (it.cwd, it.root) = (word("cwd"), word("root"));
                path = true;
                let exact = it.cwd.is_some() && it.root.is_some();
                if !exact || value.as_object().is_none_or(|path| path.len() != 2) {
                    rest.keep("path", value);
                }
            }
            ("cost", value) => {
                let (amount, exact) = shape::read_money(&value);
                (it.cost, cost) = (amount, true);
                if !exact {
                    rest.keep("cost", value);
                }
            }
            ("tokens", value) => {
                let (counts, exact) = shape::read_tokens(&value);
                (it.tokens, tokens) = (counts, true);
                if !exact {
                    rest.keep("tokens", value);
                }
            }
            ("finish", Value::String(finish)) => it.finish = Some(shape::read_finish(finish)),
            ("error", value) if value.get("name").is_some_and(Value::is_string) => {
                it.error = Some(read_fault(value));
            }
            (_, value) => rest.keep(key, value),
        }
    }
    if ids == IdPlacement::Inside {
        rest.require("id", id.is_some());
        rest.require("sessionID", place);
    }
    rest.require("time", created.is_some());
    rest.require("parentID", it.answers.is_some());
    rest.require("modelID", name.is_some());
    rest.require("providerID", provider.is_some());
    rest.require("agent", it.agent.is_some());
    rest.require("path", path);
    rest.require("cost", cost);
    rest.require("tokens", tokens);
    match mode {
        Some(mode) if it.agent.as_ref() == Some(&mode) => {}
        Some(mode) => rest.keep("mode", mode.into()),
        None => rest.require("mode", false),
    }
    it.model = match (provider, name) {
        (None, None) => {
            variant.into_iter().for_each(|variant| rest.keep("variant", variant.into()));
            None
        }
        (provider, model) => Some(ModelRef {
            provider: provider.unwrap_or_default(),
            model: model.unwrap_or_default(),
            variant,
        }),
    };
    let summary = rest.get("summary") == Some(&Value::Bool(true));
    ReadHead { id, created, role: Role::Assistant(it), summary, extra: rest.into_extra() }
}
