//! Parts: the twelve kinds of content that an entry holds.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::earlier;
use crate::fault::Fault;
use crate::finish::Finish;
use crate::request::OpenCall;
use crate::session::ModelRef;
use crate::tool::ToolState;
use crate::{Extra, Map, Millis, Money, PartId, Tokens};

/// When a part was streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub start: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Millis>,
}

/// A part of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredPart")]
pub struct Part {
    /// Its id.
    pub id: PartId,
    /// What it is.
    pub kind: PartKind,
    /// True in the second message of a pair (`shell`, `compaction`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second: bool,
    /// True when an amendment hides it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// The name that another program's log knows it by, where that is not its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// What is known of a call until it settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Box<OpenCall>>,
    /// Fields of other programs.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,
}

impl Part {
    /// A part with nothing riding along.
    #[must_use]
    pub fn new(id: PartId, kind: PartKind) -> Self {
        Self { id, kind, second: false, hidden: false, wire: None, open: None, extra: Extra::default() }
    }
}

/// A part as it was stored, by this version or an earlier one.
#[derive(Deserialize)]
struct StoredPart {
    id: PartId,
    kind: PartKind,
    #[serde(default)]
    second: bool,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    wire: Option<String>,
    #[serde(default)]
    open: Option<Box<OpenCall>>,
    #[serde(default)]
    extra: Extra,
}

impl From<StoredPart> for Part {
    fn from(StoredPart { id, kind, second, hidden, wire, open, extra }: StoredPart) -> Self {
        let mut part = Self { id, kind, second, hidden, wire, open, extra };
        earlier::part(&mut part);
        part
    }
}

/// The twelve kinds, and what another program calls a part that has no kind here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Text of a person or a model.
    Text {
        /// The text.
        text: String,
        /// Written by a program, not by the person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        synthetic: Option<bool>,
        /// Shown, but not given to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ignored: Option<bool>,
        /// When it was streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        /// Provider metadata for replay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
    },
    /// What the model thought.
    Reasoning {
        /// The text.
        text: String,
        /// When it was streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        /// Provider metadata for replay: signatures, encrypted content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
    },
    /// A tool call.
    Tool {
        /// The call's id; it may repeat in a session.
        call: String,
        /// The tool's name.
        tool: String,
        /// The call's own state.
        state: ToolState,
        /// True when the provider runs it itself: nobody else may.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hosted: bool,
        /// Provider metadata for replay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
    },
    /// An attached file.
    File {
        /// Its media type.
        mime: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
        /// Where it is, or its content as a `data:` address.
        url: String,
        /// What in the prompt stands for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Value>,
    },
    /// A checkpoint of the files.
    Snapshot {
        /// The snapshot's id.
        snapshot: String,
    },
    /// Files that a step changed.
    Patch {
        /// The snapshot before the step.
        hash: String,
        /// The files.
        files: Vec<String>,
    },
    /// An agent that the prompt mentions.
    Agent {
        /// Its name.
        name: String,
        /// What in the prompt stands for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Value>,
    },
    /// A request for a compaction.
    Compaction {
        /// True when nobody asked for it.
        auto: bool,
    },
    /// Work for a subagent.
    Subtask {
        /// What it is to do.
        prompt: String,
        /// The same in a few words.
        description: String,
        /// Which agent.
        agent: String,
        /// Which model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// The command it came from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// A provider call that was tried again.
    Retry {
        /// Which attempt failed.
        attempt: u64,
        /// How.
        error: Fault,
        /// When.
        created: Millis,
    },
    /// A provider turn begins.
    StepStart {
        /// The files before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    },
    /// A provider turn ended.
    StepFinish {
        /// Why.
        reason: Finish,
        /// The files after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
        /// What it used.
        tokens: Tokens,
        /// What that cost.
        cost: Money,
    },
    /// A part of another program with no kind here.
    Foreign {
        /// The part as it came, without its ids.
        body: Map,
    },
}

impl PartKind {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), synthetic: None, ignored: None, time: None, metadata: None }
    }

    /// The call id of a tool part.
    #[must_use]
    pub fn call(&self) -> Option<&str> {
        match self {
            Self::Tool { call, .. } => Some(call),
            _ => None,
        }
    }

    /// True for a call that the provider runs itself: nobody else may run it.
    #[must_use]
    pub fn is_hosted(&self) -> bool {
        matches!(self, Self::Tool { hosted: true, .. })
    }
}
