//! Parts of messages.
//!
//! A part that lacks what makes its kind (the text of a text part, the call of a tool part) is kept as a foreign part,
//! whole; anything else that is odd about it rides along.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::part::{PartKind, Span};
use everturn_model::tool::ToolResult;
use everturn_model::{Extra, Finish, Map, Millis, Money, Part, PartId, SessionId, Tokens};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::info::MessagePlace;
use super::stored::{ShownState, StoredContent, StoredKind};
use super::tool::{self, CallEnd, ToolStateView};
use super::{FaultView, IdPlacement, read_fault};
use crate::opencode::shape::{self, Model, ModelKey, millis, object, text};
use crate::opencode::unread::{self, MergedObject, UnreadFields, WHOLE};

/// A part as clients see it, in the message with the id `message`. A tool part is completed by its result; without
/// one it shows its own state.
#[must_use]
pub fn part(session: &SessionId, message: &str, part: &Part, result: Option<&ToolResult>) -> Value {
    let call = CallEnd::open(result);
    let part = PartRef::Read(part);
    unread::to_value(&PartView { session: session.as_str(), message, part, call, ids: IdPlacement::Inside })
}

/// A part as clients see it, to be written.
#[derive(Debug, Clone, Copy)]
pub struct PartInfo<'a>(PartView<'a>);

impl<'a> PartInfo<'a> {
    /// A part of the message with the id `message`, in its own state.
    #[must_use]
    pub fn of(session: &'a SessionId, message: &'a str, part: &'a Part) -> Self {
        let (part, call) = (PartRef::Read(part), CallEnd::open(None));
        Self(PartView { session: session.as_str(), message, part, call, ids: IdPlacement::Inside })
    }
}

impl Serialize for PartInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A part from what a client or a file says of it; an id is minted where it has none. An ended tool call keeps its
/// result inline.
#[must_use]
pub fn read_part(
    session: &SessionId,
    message: &str,
    value: Value,
    time: Millis,
    mint: &mut DerivedIds,
) -> Part {
    let place = MessagePlace { session: session.as_str(), message, time, ids: IdPlacement::Inside };
    read(value, place, None, mint)
}

/// A part, wherever it comes from.
#[derive(Debug, Clone, Copy)]
pub(in crate::opencode) enum PartRef<'a> {
    /// One that was read whole.
    Read(&'a Part),
    /// One as it is stored.
    Stored(&'a StoredContent<'a>),
}

impl<'a> PartRef<'a> {
    /// Its id.
    pub(in crate::opencode) fn id(self) -> &'a str {
        match self {
            Self::Read(part) => part.id.as_str(),
            Self::Stored(part) => &part.id,
        }
    }

    /// What rides along.
    pub(super) fn extra(self) -> &'a Extra {
        match self {
            Self::Read(part) => &part.extra,
            Self::Stored(part) => &part.extra,
        }
    }
}

/// A part, to be written.
#[derive(Debug, Clone, Copy)]
pub(in crate::opencode) struct PartView<'a> {
    /// Its session.
    pub(in crate::opencode) session: &'a str,
    /// Its message.
    pub(in crate::opencode) message: &'a str,
    /// The part.
    pub(in crate::opencode) part: PartRef<'a>,
    /// What is known of its call.
    pub(in crate::opencode) call: CallEnd<'a>,
    /// Whether its ids are written.
    pub(in crate::opencode) ids: IdPlacement,
}

impl Serialize for PartView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extra = self.part.extra();
        if let Some(whole) = extra.field(WHOLE, "part") {
            return whole.serialize(serializer);
        }
        let mut map = MergedObject::new(serializer.serialize_map(None)?, extra);
        if self.ids == IdPlacement::Inside {
            map.put("id", self.part.id())?;
            map.put("sessionID", self.session)?;
            map.put("messageID", self.message)?;
        }
        match self.part {
            PartRef::Read(part) => self.fill(&mut map, &part.kind)?,
            PartRef::Stored(part) => self.fill_stored(&mut map, &part.kind)?,
        }
        map.end()
    }
}

/// The mark of a call that the provider runs itself, among what else the provider said of it.
const EXECUTED: &str = "providerExecuted";

/// Metadata with that mark, which comes last.
struct MarkedMetadata<'a>(Option<&'a Map>);

impl Serialize for MarkedMetadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry(EXECUTED, &true)?;
        map.end()
    }
}

/// Takes the mark out; metadata that had it in another place is kept as it came.
fn read_hosted(metadata: Option<Map>, rest: &mut UnreadFields) -> (bool, Option<Map>) {
    match metadata {
        Some(mut map) if map.get(EXECUTED) == Some(&Value::Bool(true)) => {
            if map.keys().next_back().is_none_or(|last| last != EXECUTED) {
                rest.keep("metadata", map.clone().into());
            }
            map.shift_remove(EXECUTED);
            (true, Some(map).filter(|map| !map.is_empty()))
        }
        metadata => (false, metadata),
    }
}

#[derive(Serialize)]
struct PartTime {
    created: Millis,
}

impl PartView<'_> {
    fn fill<M: SerializeMap>(&self, map: &mut MergedObject<'_, M>, kind: &PartKind) -> Result<(), M::Error> {
        match kind {
            PartKind::Text { text, synthetic, ignored, time, metadata } => {
                put_text(map, text, (*synthetic, *ignored), *time, metadata.as_ref())
            }
            PartKind::Reasoning { text, time, metadata } => {
                put_reasoning(map, text, *time, metadata.as_ref())
            }
            PartKind::Tool { call, tool, state, hosted, metadata } => {
                self.put_tool(map, call, tool, state.into(), *hosted, metadata.as_ref())
            }
            PartKind::File { mime, filename, url, source } => {
                map.put("type", "file")?;
                map.put("mime", mime)?;
                map.put_some("filename", filename.as_deref())?;
                map.put("url", url)?;
                map.put_some("source", source.as_ref())
            }
            PartKind::Snapshot { snapshot } => {
                map.put("type", "snapshot")?;
                map.put("snapshot", snapshot)
            }
            PartKind::Patch { hash, files } => put_patch(map, hash, files),
            PartKind::Agent { name, source } => {
                map.put("type", "agent")?;
                map.put("name", name)?;
                map.put_some("source", source.as_ref())
            }
            PartKind::Compaction { auto } => {
                map.put("type", "compaction")?;
                map.put("auto", auto)
            }
            PartKind::Subtask { prompt, description, agent, model, command } => {
                map.put("type", "subtask")?;
                map.put("prompt", prompt)?;
                map.put("description", description)?;
                map.put("agent", agent)?;
                map.put_some("model", model.as_ref().map(|model| Model::of(Some(model))))?;
                map.put_some("command", command.as_deref())
            }
            PartKind::Retry { attempt, error, created } => {
                map.put("type", "retry")?;
                map.put("attempt", attempt)?;
                map.put("error", &FaultView(error))?;
                map.put("time", &PartTime { created: *created })
            }
            PartKind::StepStart { snapshot } => put_step_start(map, snapshot.as_deref()),
            PartKind::StepFinish { reason, snapshot, tokens, cost } => {
                put_step_finish(map, reason, snapshot.as_deref(), *cost, tokens)
            }
            PartKind::Foreign { body } => body.iter().try_for_each(|(key, value)| map.put(key, value)),
        }
    }

    fn fill_stored<M: SerializeMap>(
        &self,
        map: &mut MergedObject<'_, M>,
        kind: &StoredKind<'_>,
    ) -> Result<(), M::Error> {
        match kind {
            StoredKind::Text { text, synthetic, ignored, time, metadata } => {
                put_text(map, text, (*synthetic, *ignored), *time, *metadata)
            }
            StoredKind::Reasoning { text, time, metadata } => put_reasoning(map, text, *time, *metadata),
            StoredKind::Tool { call, tool, state, hosted } => {
                self.put_tool(map, call, tool, state.into(), *hosted, None)
            }
            StoredKind::StepStart { snapshot } => put_step_start(map, *snapshot),
            StoredKind::StepFinish { reason, snapshot, tokens, cost } => {
                put_step_finish(map, reason, *snapshot, *cost, tokens)
            }
            StoredKind::Patch { hash, files } => put_patch(map, hash, files),
        }
    }

    fn put_tool<M: SerializeMap>(
        &self,
        map: &mut MergedObject<'_, M>,
        call: &str,
        tool: &impl Serialize,
        state: ShownState<'_>,
        hosted: bool,
        metadata: Option<&Map>,
    ) -> Result<(), M::Error> {
        map.put("type", "tool")?;
        map.put("callID", call)?;
        map.put("tool", tool)?;
        map.put("state", &ToolStateView { shown: *self, state })?;
        if hosted {
            map.put("metadata", &MarkedMetadata(metadata))
        } else {
            map.put_some("metadata", metadata)
        }
    }
}

fn put_text<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    text: &impl Serialize,
    (synthetic, ignored): (Option<bool>, Option<bool>),
    time: Option<Span>,
    metadata: Option<impl Serialize>,
) -> Result<(), M::Error> {
    map.put("type", "text")?;
    map.put("text", text)?;
    map.put_some("synthetic", synthetic)?;
    map.put_some("ignored", ignored)?;
    map.put_some("time", time)?;
    map.put_some("metadata", metadata)
}

fn put_reasoning<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    text: &impl Serialize,
    time: Option<Span>,
    metadata: Option<impl Serialize>,
) -> Result<(), M::Error> {
    map.put("type", "reasoning")?;
    map.put("text", text)?;
    map.put_some("metadata", metadata)?;
    map.put_some("time", time)
}

fn put_patch<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    hash: &impl Serialize,
    files: &impl Serialize,
) -> Result<(), M::Error> {
    map.put("type", "patch")?;
    map.put("hash", hash)?;
    map.put("files", files)
}

fn put_step_start<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    snapshot: Option<impl Serialize>,
) -> Result<(), M::Error> {
    map.put("type", "step-start")?;
    map.put_some("snapshot", snapshot)
}

fn put_step_finish<M: SerializeMap>(
    map: &mut MergedObject<'_, M>,
    reason: &Finish,
    snapshot: Option<impl Serialize>,
    cost: Money,
    tokens: &Tokens,
) -> Result<(), M::Error> {
    map.put("type", "step-finish")?;
    map.put("reason", shape::finish(reason))?;
    map.put_some("snapshot", snapshot)?;
    map.put("cost", &cost)?;
    map.put("tokens", tokens)
}

/// Reads a part; `id` is the one that its place says.
pub(in crate::opencode) fn read(
    value: Value,
    place: MessagePlace<'_>,
    id: Option<String>,
    mint: &mut DerivedIds,
) -> Part {
    let named =
        |id: Option<String>, mint: &mut DerivedIds| id.map_or_else(|| mint.part(place.time), PartId::new);
    let Value::Object(mut map) = value else {
        let mut part = Part::new(named(id, mint), PartKind::Foreign { body: Map::new() });
        part.extra.set(WHOLE, object([("part", value)]));
        return part;
    };
    let mut rest = UnreadFields::default();
    let mut own = id;
    if place.ids == IdPlacement::Inside {
        own = take_text(&mut map, "id");
        for (key, here) in [("sessionID", place.session), ("messageID", place.message)] {
            let fits = text(&map, key) == Some(here);
            match map.remove(key) {
                Some(other) if !fits => rest.keep(key, other),
                found => rest.require(key, found.is_some()),
            }
        }
    }
    for key in ["id", "sessionID", "messageID"] {
        if let Some(odd) = map.remove(key) {
            rest.keep(key, odd);
        }
    }
    if place.ids == IdPlacement::Inside {
        rest.require("id", own.is_some());
    }
    let kind = kind(map, &mut rest, place, mint);
    Part { extra: rest.into_extra(), ..Part::new(named(own, mint), kind) }
}

/// Takes a text out of an object; anything else stays.
fn take_text(map: &mut Map, key: &str) -> Option<String> {
    if !map.get(key).is_some_and(Value::is_string) {
        return None;
    }
    match map.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn kind(map: Map, rest: &mut UnreadFields, place: MessagePlace<'_>, mint: &mut DerivedIds) -> PartKind {
    let has = |key: &str| text(&map, key).is_some();
    match text(&map, "type").unwrap_or_default() {
        "text" if has("text") => read_text(map, rest),
        "reasoning" if has("text") => read_reasoning(map, rest),
        "tool" if has("callID") && has("tool") && tool::is_state(map.get("state")) => {
            read_tool(map, rest, place, mint)
        }
        "file" if has("mime") && has("url") => read_file(map, rest),
        "snapshot" if has("snapshot") => {
            read_words(map, rest, ["snapshot"], |[snapshot]| PartKind::Snapshot { snapshot })
        }
        "patch" if has("hash") && is_texts(map.get("files")) => read_patch(map, rest),
        "agent" if has("name") => read_agent(map, rest),
        "compaction" if map.get("auto").is_some_and(Value::is_boolean) => read_compaction(map, rest),
        "subtask" if has("prompt") && has("description") && has("agent") => read_subtask(map, rest),
        "retry" if is_retry(&map) => read_retry(map, rest),
        "step-start" => read_step_start(map, rest),
        "step-finish" if has("reason") => read_step_finish(map, rest),
        _ => PartKind::Foreign { body: map },
    }
}

fn is_texts(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_some_and(|list| list.iter().all(Value::is_string))
}

fn is_retry(map: &Map) -> bool {
    let time = map.get("time").and_then(Value::as_object);
    map.get("attempt").is_some_and(Value::is_u64)
        && map.contains_key("error")
        && time.is_some_and(|time| time.len() == 1 && millis(time, "created").is_some())
}

// Takes the texts with these names; everything else but the type is kept.
fn read_words<const N: usize>(
    map: Map,
    rest: &mut UnreadFields,
    names: [&str; N],
    make: impl FnOnce([String; N]) -> PartKind,
) -> PartKind {
    let mut words = [const { String::new() }; N];
    for (key, value) in map {
        let slot = names.iter().position(|name| *name == key).and_then(|at| words.get_mut(at));
        match (slot, value) {
            (Some(slot), Value::String(word)) => *slot = word,
            (_, value) if key != "type" => rest.keep(key, value),
            _ => {}
        }
    }
    make(words)
}

fn read_text(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut words, mut synthetic, mut ignored, mut time, mut metadata) =
        (String::new(), None, None, None, None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("text", Value::String(text)) => words = text,
            ("synthetic", Value::Bool(flag)) => synthetic = Some(flag),
            ("ignored", Value::Bool(flag)) => ignored = Some(flag),
            ("metadata", Value::Object(map)) => metadata = Some(map),
            ("time", value) => match shape::read_span(&value) {
                Some((span, true)) => time = Some(span),
                found => {
                    time = found.map(|(span, _)| span);
                    rest.keep("time", value);
                }
            },
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Text { text: words, synthetic, ignored, time, metadata }
}

fn read_reasoning(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut words, mut time, mut metadata) = (String::new(), None, None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("text", Value::String(text)) => words = text,
            ("metadata", Value::Object(map)) => metadata = Some(map),
            ("time", value) => match shape::read_span(&value) {
                Some((span, true)) => time = Some(span),
                found => {
                    time = found.map(|(span, _)| span);
                    rest.keep("time", value);
                }
            },
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Reasoning { text: words, time, metadata }
}

fn read_tool(map: Map, rest: &mut UnreadFields, place: MessagePlace<'_>, mint: &mut DerivedIds) -> PartKind {
    let (mut id, mut name, mut state, mut metadata) = (String::new(), String::new(), Map::new(), None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("callID", Value::String(text)) => id = text,
            ("tool", Value::String(text)) => name = text,
            ("state", Value::Object(map)) => state = map,
            ("metadata", Value::Object(map)) => metadata = Some(map),
            (_, value) => rest.keep(key, value),
        }
    }
    let state = tool::read(state, &id, &name, rest, place, mint);
    let (hosted, metadata) = read_hosted(metadata, rest);
    PartKind::Tool { call: id, tool: name, state, hosted, metadata }
}

fn read_file(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut mime, mut filename, mut url, mut source) = (String::new(), None, String::new(), None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("mime", Value::String(text)) => mime = text,
            ("filename", Value::String(text)) => filename = Some(text),
            ("url", Value::String(text)) => url = text,
            ("source", value) if !value.is_null() => source = Some(value),
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::File { mime, filename, url, source }
}

fn read_patch(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut hash, mut files) = (String::new(), Vec::new());
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("hash", Value::String(text)) => hash = text,
            ("files", Value::Array(list)) => {
                files = list.into_iter().filter_map(|file| file.as_str().map(str::to_owned)).collect();
            }
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Patch { hash, files }
}

fn read_agent(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut name, mut source) = (String::new(), None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("name", Value::String(text)) => name = text,
            ("source", value) if !value.is_null() => source = Some(value),
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Agent { name, source }
}

fn read_compaction(map: Map, rest: &mut UnreadFields) -> PartKind {
    let mut auto = false;
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("auto", Value::Bool(flag)) => auto = flag,
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Compaction { auto }
}

fn read_subtask(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut words, mut model, mut command) = ([const { String::new() }; 3], None, None);
    let [prompt, description, agent] = &mut words;
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("prompt", Value::String(text)) => *prompt = text,
            ("description", Value::String(text)) => *description = text,
            ("agent", Value::String(text)) => *agent = text,
            ("command", Value::String(text)) => command = Some(text),
            ("model", value) => match shape::read_model(&value, ModelKey::ModelId) {
                Some((found, true)) => model = Some(found),
                found => {
                    model = found.map(|(found, _)| found);
                    rest.keep("model", value);
                }
            },
            (_, value) => rest.keep(key, value),
        }
    }
    let [prompt, description, agent] = words;
    PartKind::Subtask { prompt, description, agent, model, command }
}

fn read_retry(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut attempt, mut error, mut created) = (0, read_fault(Value::Null), 0);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("attempt", value) => attempt = value.as_u64().unwrap_or_default(),
            ("error", value) => error = read_fault(value),
            ("time", Value::Object(time)) => created = millis(&time, "created").unwrap_or_default(),
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::Retry { attempt, error, created }
}

fn read_step_start(map: Map, rest: &mut UnreadFields) -> PartKind {
    let mut snapshot = None;
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("snapshot", Value::String(text)) => snapshot = Some(text),
            (_, value) => rest.keep(key, value),
        }
    }
    PartKind::StepStart { snapshot }
}

fn read_step_finish(map: Map, rest: &mut UnreadFields) -> PartKind {
    let (mut reason, mut snapshot, mut tokens, mut cost) = (String::new(), None, None, None);
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("reason", Value::String(text)) => reason = text,
            ("snapshot", Value::String(text)) => snapshot = Some(text),
            ("tokens", value) => {
                let (counts, exact) = shape::read_tokens(&value);
                tokens = Some(counts);
                if !exact {
                    rest.keep("tokens", value);
                }
            }
            ("cost", value) => {
                let (amount, exact) = shape::read_money(&value);
                cost = Some(amount);
                if !exact {
                    rest.keep("cost", value);
                }
            }
            (_, value) => rest.keep(key, value),
        }
    }
    rest.require("tokens", tokens.is_some());
    rest.require("cost", cost.is_some());
    PartKind::StepFinish {
        reason: shape::read_finish(reason),
        snapshot,
        tokens: tokens.unwrap_or_default(),
        cost: cost.unwrap_or_default(),
    }
}
