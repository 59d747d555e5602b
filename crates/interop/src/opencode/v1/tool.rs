//! The state of a tool part: pending, running, completed or error.
//!
//! The tree keeps a call and its result apart. What is shown is, in this order: the result on the path; the end that
//! the part itself holds; the part's own state while its turn is open; and for a closed turn, that the call was
//! interrupted.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::part::PartKind;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{Map, Millis, Part};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::IdPlacement;
use super::info::MessagePlace;
use super::part::{self, PartRef, PartView};
use super::stored::{CallStage, ShownJson, ShownResult, ShownState};
use crate::opencode::shape::{millis, object, put, text};
use crate::opencode::unread::{self, MergedObject, STATE, UnreadFields};

/// What a call without a result shows once its turn is closed.
const INTERRUPTED: &str = "The call was interrupted before it ended";

/// What is known of a call besides its part.
#[derive(Debug, Clone, Copy)]
pub(in crate::opencode) struct CallEnd<'a> {
    /// Its result on the path.
    pub(in crate::opencode) result: Option<ShownResult<'a>>,
    /// When its turn was closed; none while it is open.
    pub(in crate::opencode) closed: Option<Millis>,
}

impl<'a> CallEnd<'a> {
    /// A call of an open turn.
    pub(in crate::opencode) fn open(result: Option<&'a ToolResult>) -> Self {
        Self { result: result.map(ShownResult::from), closed: None }
    }
}

/// A state, to be written.
#[derive(Debug)]
pub(super) struct ToolStateView<'a> {
    /// The part it belongs to.
    pub(super) shown: PartView<'a>,
    /// The part's own state.
    pub(super) state: ShownState<'a>,
}

#[derive(Serialize)]
struct CallTimes {
    start: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compacted: Option<Millis>,
}

impl Serialize for ToolStateView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inline = match self.state.stage {
            CallStage::Ended(result) => Some(result),
            CallStage::Pending { .. } | CallStage::Running { .. } => None,
        };
        match self.shown.call.result.or(inline) {
            Some(result) => self.settled(&result, serializer),
            None => match self.shown.part.extra().field(STATE, "state") {
                Some(own) => own.serialize(serializer),
                None => self.unsettled(serializer),
            },
        }
    }
}

impl ToolStateView<'_> {
    fn unsettled<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let input = &self.state.input;
        match (self.state.stage, self.shown.call.closed) {
            (CallStage::Pending { raw }, None) => {
                map.serialize_entry("status", "pending")?;
                map.serialize_entry("input", &OrEmpty(*input))?;
                map.serialize_entry("raw", &raw)?;
            }
            (CallStage::Running { title, metadata, start }, None) => {
                map.serialize_entry("status", "running")?;
                map.serialize_entry("input", input)?;
                if let Some(title) = title {
                    map.serialize_entry("title", &title)?;
                }
                if let Some(metadata) = metadata {
                    map.serialize_entry("metadata", &metadata)?;
                }
                map.serialize_entry("time", &CallTimes { start, end: None, compacted: None })?;
            }
            (stage, closed) => {
                let end = closed.unwrap_or_default();
                let start = match stage {
                    CallStage::Running { start, .. } => start,
                    CallStage::Pending { .. } | CallStage::Ended(_) => end,
                };
                map.serialize_entry("status", "error")?;
                map.serialize_entry("input", &OrEmpty(*input))?;
                map.serialize_entry("error", INTERRUPTED)?;
                map.serialize_entry("time", &CallTimes { start, end: Some(end), compacted: None })?;
            }
        }
        map.end()
    }

    fn settled<S: Serializer>(&self, result: &ShownResult<'_>, serializer: S) -> Result<S::Ok, S::Error> {
        let began = match self.state.stage {
            CallStage::Running { start, .. } => Some(start),
            CallStage::Pending { .. } | CallStage::Ended(_) => None,
        };
        let start = result.start.or(began).or(result.end).unwrap_or_default();
        let time = |compacted| CallTimes { start, end: Some(result.end.unwrap_or(start)), compacted };
        let mut map = MergedObject::new(serializer.serialize_map(None)?, result.extra);
        if result.outcome == Outcome::Completed {
            map.put("status", "completed")?;
            map.put("input", &self.state.input)?;
            map.put("output", &result.output)?;
            map.put("title", &result.title.unwrap_or(ShownJson::Text("")))?;
            match &result.metadata {
                Some(metadata) => map.put("metadata", metadata)?,
                None => map.put("metadata", &Map::new())?,
            }
            map.put("time", &time(result.compacted))?;
            let one = |part| PartView {
                part: PartRef::Read(part),
                call: CallEnd::open(None),
                ids: IdPlacement::Inside,
                ..self.shown
            };
            let files = result.attachments.map(|files| files.iter().map(one).collect::<Vec<_>>());
            map.put_some("attachments", files)?;
        } else {
            map.put("status", "error")?;
            map.put("input", &self.state.input)?;
            map.put("error", &result.output)?;
            if result.outcome == Outcome::Unknown {
                let mut metadata = result.metadata.map(ShownJson::to_object).unwrap_or_default();
                put(&mut metadata, "everturn", object([("outcome", "unknown".into())]));
                map.put("metadata", &metadata)?;
            } else {
                map.put_some("metadata", result.metadata)?;
            }
            map.put("time", &time(None))?;
        }
        map.end()
    }
}

/// An input, or an empty one where there is none.
struct OrEmpty<'a>(ShownJson<'a>);

impl Serialize for OrEmpty<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_null() { Map::new().serialize(serializer) } else { self.0.serialize(serializer) }
    }
}

/// True when a value is the state of a call.
pub(super) fn is_state(value: Option<&Value>) -> bool {
    let status = value.and_then(Value::as_object).and_then(|state| text(state, "status"));
    matches!(status, Some("pending" | "running" | "completed" | "error"))
}

/// Reads a state; an end stays inline.
pub(super) fn read(
    state: Map,
    call: &str,
    tool: &str,
    rest: &mut UnreadFields,
    place: MessagePlace<'_>,
    mint: &mut DerivedIds,
) -> ToolState {
    match text(&state, "status") {
        Some("completed") => {
            let (input, result) =
                read_completed(state, ToolResult::new(call, tool, Outcome::Completed, ""), place, mint);
            ToolState::Completed { input, result }
        }
        Some("error") => {
            let (input, result) = read_error(state, ToolResult::new(call, tool, Outcome::Error, ""));
            ToolState::Error { input, result }
        }
        Some("running") => read_running(state, rest, place),
        _ => read_pending(state, rest),
    }
}

fn read_pending(state: Map, rest: &mut UnreadFields) -> ToolState {
    let raw = text(&state, "raw").map(str::to_owned);
    let input = state.get("input").cloned();
    if state.len() != 3 || raw.is_none() || input.as_ref().is_none_or(Value::is_null) {
        rest.keep_state(state.into());
    }
    ToolState::Pending { input: input.unwrap_or_default(), raw: raw.unwrap_or_default() }
}

fn read_running(state: Map, rest: &mut UnreadFields, place: MessagePlace<'_>) -> ToolState {
    let time = state.get("time").and_then(Value::as_object);
    let start = time.and_then(|time| millis(time, "start"));
    let input = state.get("input").cloned();
    let title = text(&state, "title").map(str::to_owned);
    let metadata = state.get("metadata").and_then(Value::as_object).cloned();
    let width = 3 + usize::from(title.is_some()) + usize::from(metadata.is_some());
    let exact = start.is_some() && time.is_some_and(|time| time.len() == 1) && input.is_some();
    if !exact || state.len() != width {
        rest.keep_state(state.into());
    }
    ToolState::Running {
        input: input.unwrap_or_default(),
        title,
        metadata,
        start: start.unwrap_or(place.time),
    }
}

fn read_completed(
    state: Map,
    mut result: ToolResult,
    place: MessagePlace<'_>,
    mint: &mut DerivedIds,
) -> (Value, Box<ToolResult>) {
    let (mut input, mut output) = (None, false);
    let mut rest = UnreadFields::default();
    for (key, value) in state {
        match (key.as_str(), value) {
            ("status", _) => {}
            ("input", value) => input = Some(value),
            ("output", Value::String(text)) => (result.output, output) = (text, true),
            ("title", Value::String(title)) => result.title = Some(title),
            ("metadata", Value::Object(metadata)) => result.metadata = Some(metadata),
            ("time", value) => {
                let time = value.as_object();
                let moment = |key: &str| time.and_then(|time| millis(time, key));
                (result.start, result.end, result.compacted) =
                    (moment("start"), moment("end"), moment("compacted"));
                let width = 2 + usize::from(result.compacted.is_some());
                let exact = result.start.is_some() && result.end.is_some();
                if !exact || time.is_none_or(|time| time.len() != width) {
                    rest.keep("time", value);
                }
            }
            ("attachments", Value::Array(files)) => {
                let place = MessagePlace { ids: IdPlacement::Inside, ..place };
                result.attachments =
                    Some(files.into_iter().map(|file| part::read(file, place, None, mint)).collect());
            }
            (_, value) => rest.keep(key, value),
        }
    }
    let timed = result.start.is_some() || result.end.is_some();
    rest.require("input", input.is_some());
    rest.require("output", output);
    rest.require("title", result.title.is_some());
    rest.require("metadata", result.metadata.is_some());
    rest.require("time", timed);
    result.extra = rest.into_extra();
    (input.unwrap_or_default(), Box::new(result))
}

fn read_error(state: Map, mut result: ToolResult) -> (Value, Box<ToolResult>) {
    let (mut input, mut error) = (None, false);
    let mut rest = UnreadFields::default();
    for (key, value) in state {
        match (key.as_str(), value) {
            ("status", _) => {}
            ("input", value) => input = Some(value),
            ("error", Value::String(text)) => (result.output, error) = (text, true),
            ("metadata", Value::Object(mut metadata)) => {
                let unknown = object([("everturn", object([("outcome", "unknown".into())]).into())]);
                if metadata.get("everturn") == unknown.get("everturn") {
                    metadata.shift_remove("everturn");
                    result.outcome = Outcome::Unknown;
                }
                if !metadata.is_empty() || result.outcome == Outcome::Error {
                    result.metadata = Some(metadata);
                }
            }
            ("time", value) => {
                let time = value.as_object();
                let moment = |key: &str| time.and_then(|time| millis(time, key));
                (result.start, result.end) = (moment("start"), moment("end"));
                let exact = result.start.is_some() && result.end.is_some();
                if !exact || time.is_none_or(|time| time.len() != 2) {
                    rest.keep("time", value);
                }
            }
            (_, value) => rest.keep(key, value),
        }
    }
    let timed = result.start.is_some() || result.end.is_some();
    rest.require("input", input.is_some());
    rest.require("error", error);
    rest.require("time", timed);
    result.extra = rest.into_extra();
    (input.unwrap_or_default(), Box::new(result))
}

/// Keeps the state of a call whose turn is closed in the source: it will always be shown as it was there.
pub(super) fn keep_closed(part: &mut Part) {
    let PartKind::Tool { state, .. } = &part.kind else { return };
    if state.is_settled() || part.extra.field(STATE, "state").is_some() {
        return;
    }
    let shown = PartView {
        session: "",
        message: "",
        part: PartRef::Read(part),
        call: CallEnd::open(None),
        ids: IdPlacement::Outside,
    };
    let own = unread::to_value(&ToolStateView { shown, state: state.into() });
    part.extra.set(STATE, object([("state", own)]));
}
