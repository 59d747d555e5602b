//! Entries and parts as they are stored, read only as far as V1 looks into them.
//!
//! Most of a conversation is what a person, a model or a tool said. It is stored as JSON and shown as JSON, so here it
//! stays what it is: reading it into strings and writing them again would be most of the work for a long session. Only
//! the frequent shapes are known here, and only in the form that is written today. Whatever has one more field is read
//! by `model`, which knows all shapes and those of earlier versions.

use std::borrow::Cow;

use everturn_model::entry::{Assistant, Body, User};
use everturn_model::part::Span;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{EntryId, Extra, Finish, FromJson as _, Map, Millis, Money, Part, Tokens};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON that is shown as it is, wherever it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShownJson<'a> {
    Text(&'a str),
    Object(&'a Map),
    Value(&'a Value),
    /// As it is stored.
    Stored(&'a RawValue),
}

impl ShownJson<'_> {
    const NULL: Self = Self::Value(&Value::Null);

    pub(super) fn is_null(&self) -> bool {
        match self {
            Self::Value(value) => value.is_null(),
            Self::Stored(json) => json.get() == "null",
            Self::Text(_) | Self::Object(_) => false,
        }
    }

    /// The object, to be added to; an empty one where it is none.
    pub(super) fn to_object(self) -> Map {
        match self {
            Self::Object(map) => map.clone(),
            Self::Value(value) => value.as_object().cloned().unwrap_or_default(),
            Self::Stored(json) => serde_json::from_str(json.get()).unwrap_or_default(),
            Self::Text(_) => Map::new(),
        }
    }
}

impl Serialize for ShownJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Object(map) => map.serialize(serializer),
            Self::Value(value) => value.serialize(serializer),
            Self::Stored(json) => json.serialize(serializer),
        }
    }
}

/// The result of a call, as far as it is shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::opencode) struct ShownResult<'a> {
    pub(super) outcome: Outcome,
    pub(super) output: ShownJson<'a>,
    pub(super) title: Option<ShownJson<'a>>,
    pub(super) metadata: Option<ShownJson<'a>>,
    pub(super) attachments: Option<&'a [Part]>,
    pub(super) start: Option<Millis>,
    pub(super) end: Option<Millis>,
    pub(super) compacted: Option<Millis>,
    pub(super) extra: &'a Extra,
}

impl<'a> From<&'a ToolResult> for ShownResult<'a> {
    fn from(result: &'a ToolResult) -> Self {
        Self {
            outcome: result.outcome,
            output: ShownJson::Text(&result.output),
            title: result.title.as_deref().map(ShownJson::Text),
            metadata: result.metadata.as_ref().map(ShownJson::Object),
            attachments: result.attachments.as_deref(),
            start: result.start,
            end: result.end,
            compacted: result.compacted,
            extra: &result.extra,
        }
    }
}

impl<'a> From<&'a StoredResult<'_>> for ShownResult<'a> {
    fn from(result: &'a StoredResult<'_>) -> Self {
        Self {
            outcome: result.outcome,
            output: result.output.map_or(ShownJson::Text(""), ShownJson::Stored),
            title: result.title.map(ShownJson::Stored),
            metadata: result.metadata.map(ShownJson::Stored),
            attachments: result.attachments.as_deref(),
            start: result.start,
            end: result.end,
            compacted: result.compacted,
            extra: &result.extra,
        }
    }
}

/// The state that a call's part has by itself, as far as it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownState<'a> {
    pub(super) input: ShownJson<'a>,
    pub(super) stage: CallStage<'a>,
}

/// How far a call is.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallStage<'a> {
    Pending { raw: ShownJson<'a> },
    Running { title: Option<ShownJson<'a>>, metadata: Option<ShownJson<'a>>, start: Millis },
    Ended(ShownResult<'a>),
}

impl<'a> From<&'a ToolState> for ShownState<'a> {
    fn from(state: &'a ToolState) -> Self {
        let stage = match state {
            ToolState::Pending { raw, .. } => CallStage::Pending { raw: ShownJson::Text(raw) },
            ToolState::Running { title, metadata, start, .. } => CallStage::Running {
                title: title.as_deref().map(ShownJson::Text),
                metadata: metadata.as_ref().map(ShownJson::Object),
                start: *start,
            },
            ToolState::Completed { result, .. } | ToolState::Error { result, .. } => {
                CallStage::Ended(result.as_ref().into())
            }
        };
        Self { input: ShownJson::Value(state.input()), stage }
    }
}

impl<'a> From<&'a StoredState<'_>> for ShownState<'a> {
    fn from(state: &'a StoredState<'_>) -> Self {
        let (input, stage) = match state {
            StoredState::Pending { input, raw } => {
                (input, CallStage::Pending { raw: raw.map_or(ShownJson::Text(""), ShownJson::Stored) })
            }
            StoredState::Running { input, title, metadata, start } => {
                let (title, metadata) = (title.map(ShownJson::Stored), metadata.map(ShownJson::Stored));
                (input, CallStage::Running { title, metadata, start: *start })
            }
            StoredState::Completed { input, result } | StoredState::Error { input, result } => {
                (input, CallStage::Ended(result.as_ref().into()))
            }
        };
        Self { input: input.map_or(ShownJson::NULL, ShownJson::Stored), stage }
    }
}

/// An entry of one of the frequent kinds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadEntry<'a> {
    pub(super) id: EntryId,
    #[serde(default, rename = "parent")]
    _parent: IgnoredAny,
    pub(super) time: Millis,
    #[serde(borrow)]
    pub(super) body: StoredBody<'a>,
    #[serde(default)]
    pub(super) hidden: bool,
    #[serde(default)]
    wire: Option<String>,
    #[serde(default, rename = "origin")]
    _origin: IgnoredAny,
    #[serde(default)]
    pub(super) extra: Extra,
}

impl ReadEntry<'_> {
    /// The id that clients know it by.
    pub(super) fn wire_id(&self) -> &str {
        self.wire.as_deref().unwrap_or(self.id.as_str())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum StoredBody<'a> {
    User(Box<User>),
    Assistant(Box<Assistant>),
    ToolResult {
        #[serde(borrow)]
        result: Box<StoredResult<'a>>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredResult<'a> {
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(default, rename = "tool")]
    _tool: IgnoredAny,
    outcome: Outcome,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "attachments")]
    attachments: Option<Vec<Part>>,
    #[serde(default)]
    start: Option<Millis>,
    #[serde(default)]
    end: Option<Millis>,
    #[serde(default)]
    compacted: Option<Millis>,
    #[serde(default, rename = "hosted")]
    _hosted: IgnoredAny,
    #[serde(default)]
    extra: Extra,
}

/// Few results have any, and `model` has the code that reads parts.
fn attachments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Part>>, D::Error> {
    let json = Option::<&RawValue>::deserialize(deserializer)?;
    json.map(|json| Vec::from_json(json.get())).transpose().map_err(D::Error::custom)
}

/// A part of one of the frequent kinds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::opencode) struct StoredContent<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: StoredKind<'a>,
    #[serde(default)]
    hidden: bool,
    #[serde(default, rename = "wire")]
    _wire: IgnoredAny,
    #[serde(default, rename = "open")]
    _open: IgnoredAny,
    #[serde(default)]
    pub(super) extra: Extra,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum StoredKind<'a> {
    Text {
        #[serde(borrow)]
        text: &'a RawValue,
        #[serde(default)]
        synthetic: Option<bool>,
        #[serde(default)]
        ignored: Option<bool>,
        #[serde(default)]
        time: Option<Span>,
        #[serde(borrow, default)]
        metadata: Option<&'a RawValue>,
    },
    Reasoning {
        #[serde(borrow)]
        text: &'a RawValue,
        #[serde(default)]
        time: Option<Span>,
        #[serde(borrow, default)]
        metadata: Option<&'a RawValue>,
    },
    /// Without metadata: earlier versions kept the mark of a hosted call there.
    Tool {
        #[serde(borrow)]
        call: Cow<'a, str>,
        #[serde(borrow)]
        tool: &'a RawValue,
        #[serde(borrow)]
        state: StoredState<'a>,
        #[serde(default)]
        hosted: bool,
    },
    StepStart {
        #[serde(borrow, default)]
        snapshot: Option<&'a RawValue>,
    },
    StepFinish {
        reason: Finish,
        #[serde(borrow, default)]
        snapshot: Option<&'a RawValue>,
        tokens: Tokens,
        cost: Money,
    },
    Patch {
        #[serde(borrow)]
        hash: &'a RawValue,
        #[serde(borrow)]
        files: &'a RawValue,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum StoredState<'a> {
    Pending {
        #[serde(borrow, default)]
        input: Option<&'a RawValue>,
        #[serde(borrow, default)]
        raw: Option<&'a RawValue>,
    },
    Running {
        #[serde(borrow, default)]
        input: Option<&'a RawValue>,
        #[serde(borrow, default)]
        title: Option<&'a RawValue>,
        #[serde(borrow, default)]
        metadata: Option<&'a RawValue>,
        start: Millis,
    },
    Completed {
        #[serde(borrow, default)]
        input: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Box<StoredResult<'a>>,
    },
    Error {
        #[serde(borrow, default)]
        input: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Box<StoredResult<'a>>,
    },
}

/// A node that was read from its JSON, as far as V1 looks into it.
#[derive(Debug)]
pub struct ReadNode<'a>(pub(super) NodeForm<'a>);

#[derive(Debug)]
pub(super) enum NodeForm<'a> {
    Whole(Box<Node>),
    Frequent(ReadEntry<'a>, Vec<PartForm<'a>>),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are frequent ones")]
pub(super) enum PartForm<'a> {
    Whole(Box<Part>),
    Frequent(StoredContent<'a>),
}

impl<'a> ReadNode<'a> {
    /// Reads nodes.
    ///
    /// # Errors
    /// When the JSON of one is damaged.
    pub fn all(nodes: &'a [NodeJson]) -> Result<Vec<Self>, serde_json::Error> {
        let mut read = Vec::with_capacity(nodes.len());
        for json in nodes {
            read.push(Self::of(json)?);
        }
        Ok(read)
    }

    fn of(json: &'a NodeJson) -> Result<Self, serde_json::Error> {
        let Ok(entry) = serde_json::from_str(&json.entry) else {
            return Ok(Self(NodeForm::Whole(Box::new(json.read()?))));
        };
        let mut parts = Vec::with_capacity(json.parts.len());
        for part in &json.parts {
            parts.push(PartForm::of(part)?);
        }
        Ok(Self(NodeForm::Frequent(entry, parts)))
    }

    pub(super) fn id(&self) -> &EntryId {
        match &self.0 {
            NodeForm::Whole(node) => &node.entry.id,
            NodeForm::Frequent(entry, _) => &entry.id,
        }
    }

    /// The calls that its parts make.
    pub(super) fn calls(&self) -> Vec<&str> {
        match &self.0 {
            NodeForm::Whole(node) => node.parts.iter().filter_map(|part| part.kind.call()).collect(),
            NodeForm::Frequent(_, parts) => parts.iter().filter_map(PartForm::call).collect(),
        }
    }

    /// The call that it ends with its result, unless it is hidden.
    pub(super) fn result(&self) -> Option<(&str, ShownResult<'_>)> {
        match &self.0 {
            NodeForm::Whole(node) => match &node.entry.body {
                Body::ToolResult { result } if !node.entry.hidden => {
                    Some((&result.call, result.as_ref().into()))
                }
                _ => None,
            },
            NodeForm::Frequent(entry, _) => match &entry.body {
                StoredBody::ToolResult { result } if !entry.hidden => {
                    Some((&result.call, result.as_ref().into()))
                }
                _ => None,
            },
        }
    }
}

impl<'a> PartForm<'a> {
    fn of(json: &'a str) -> Result<Self, serde_json::Error> {
        match serde_json::from_str(json) {
            Ok(part) => Ok(Self::Frequent(part)),
            Err(_) => Ok(Self::Whole(Box::new(Part::from_json(json)?))),
        }
    }

    pub(super) fn call(&self) -> Option<&str> {
        match self {
            Self::Whole(part) => part.kind.call(),
            Self::Frequent(StoredContent { kind: StoredKind::Tool { call, .. }, .. }) => Some(call),
            Self::Frequent(_) => None,
        }
    }

    pub(super) fn is_hidden(&self) -> bool {
        match self {
            Self::Whole(part) => part.hidden,
            Self::Frequent(part) => part.hidden,
        }
    }
}
