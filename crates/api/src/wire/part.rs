//! Parts of messages as clients see them, and the states of tool calls.

#![expect(
    dead_code,
    reason = "these types describe what interop prints and reads, and check what clients send"
)]

use everturn_interop::opencode::v1;
use everturn_model::{EntryId, Map, Millis, PartId, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::message::ApiErrorData;
use super::session::MessageTokens;
use crate::answer::shaped;
use crate::error::Error;
use crate::input::Id;

/// A part of a message.
#[derive(JsonSchema)]
#[schemars(rename = "Part")]
#[serde(untagged)]
pub(crate) enum PartShape {
    Text(TextPart),
    Subtask(SubtaskPart),
    Reasoning(ReasoningPart),
    File(FilePart),
    Tool(ToolPart),
    StepStart(StepStartPart),
    StepFinish(StepFinishPart),
    Snapshot(SnapshotPart),
    Patch(PatchPart),
    Agent(AgentPart),
    Retry(RetryPart),
    Compaction(CompactionPart),
}

shaped! { v1::PartInfo<'_> as PartShape }

/// A part that a client gives new content, as it came.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transparent)]
pub(crate) struct NewPart(#[schemars(with = "PartShape")] pub(crate) Value);

impl NewPart {
    /// Whether it is a part of one of the kinds that there are, with everything that its kind has.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let kind = self.0.get("type").and_then(Value::as_str).unwrap_or_default();
        let checked = match kind {
            "text" => self.is::<TextPart>(),
            "subtask" => self.is::<SubtaskPart>(),
            "reasoning" => self.is::<ReasoningPart>(),
            "file" => self.is::<FilePart>(),
            "tool" => self.is::<ToolPart>(),
            "step-start" => self.is::<StepStartPart>(),
            "step-finish" => self.is::<StepFinishPart>(),
            "snapshot" => self.is::<SnapshotPart>(),
            "patch" => self.is::<PatchPart>(),
            "agent" => self.is::<AgentPart>(),
            "retry" => self.is::<RetryPart>(),
            "compaction" => self.is::<CompactionPart>(),
            _ => return Err(Error::Body(format!("there are no parts of the type {kind:?}"))),
        };
        checked.map_err(|error| Error::Body(format!("this is no part of the type {kind:?}: {error}")))
    }

    fn is<T: DeserializeOwned>(&self) -> serde_json::Result<()> {
        T::deserialize(&self.0).map(drop)
    }
}

/// Where a part is.
#[derive(Deserialize, JsonSchema)]
struct OwnIds {
    id: Id<PartId>,
    #[serde(rename = "sessionID")]
    session: Id<SessionId>,
    #[serde(rename = "messageID")]
    message: Id<EntryId>,
}

macro_rules! part {
    ($name:ident, $kind:literal { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize, JsonSchema)]
        pub(crate) struct $name {
            #[serde(flatten)]
            ids: OwnIds,
            #[serde(rename = "type")]
            #[schemars(extend("const" = $kind))]
            kind: String,
            $($(#[$about])* $field: $type,)*
        }
    };
}

part!(TextPart, "text" {
    text: String,
    /// Said by a program and not by a person.
    synthetic: Option<bool>,
    /// Not shown to the model.
    ignored: Option<bool>,
    time: Option<Period>,
    metadata: Option<Map>,
});

part!(SubtaskPart, "subtask" {
    prompt: String,
    description: String,
    agent: String,
    model: Option<PartModel>,
    command: Option<String>,
});

part!(ReasoningPart, "reasoning" {
    text: String,
    metadata: Option<Map>,
    time: Option<Period>,
});

part!(FilePart, "file" {
    mime: String,
    filename: Option<String>,
    url: String,
    source: Option<FilePartSource>,
});

part!(ToolPart, "tool" {
    #[serde(rename = "callID")]
    call: String,
    tool: String,
    state: ToolStateShape,
    metadata: Option<Map>,
});

part!(StepStartPart, "step-start" {
    snapshot: Option<String>,
});

part!(StepFinishPart, "step-finish" {
    reason: String,
    snapshot: Option<String>,
    cost: f64,
    tokens: MessageTokens,
});

part!(SnapshotPart, "snapshot" {
    snapshot: String,
});

part!(PatchPart, "patch" {
    hash: String,
    files: Vec<String>,
});

part!(AgentPart, "agent" {
    name: String,
    source: Option<MentionSource>,
});

part!(RetryPart, "retry" {
    attempt: u32,
    error: RetryError,
    time: RetryTime,
});

part!(CompactionPart, "compaction" {
    auto: bool,
    overflow: Option<bool>,
    #[serde(rename = "tail_start_id")]
    tail: Option<Id<EntryId>>,
});

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Period {
    start: Millis,
    end: Option<Millis>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct RetryTime {
    created: Millis,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct PartModel {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct MentionSource {
    value: String,
    start: i64,
    end: i64,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct RetryError {
    #[schemars(extend("const" = "APIError"))]
    name: String,
    data: ApiErrorData,
}

/// Where the text of a file came from.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum FilePartSource {
    File {
        text: FilePartSourceText,
        path: String,
    },
    Symbol {
        text: FilePartSourceText,
        path: String,
        range: Range,
        name: String,
        kind: u32,
    },
    Resource {
        text: FilePartSourceText,
        #[serde(rename = "clientName")]
        client: String,
        uri: String,
    },
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FilePartSourceText {
    value: String,
    start: f64,
    end: f64,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Range {
    start: TextPosition,
    end: TextPosition,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct TextPosition {
    line: u32,
    character: u32,
}

/// How far a tool call is.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolState")]
#[serde(tag = "status", rename_all = "lowercase")]
enum ToolStateShape {
    Pending {
        input: Map,
        raw: String,
    },
    Running {
        input: Map,
        title: Option<String>,
        metadata: Option<Map>,
        time: StartTime,
    },
    Completed {
        input: Map,
        output: String,
        title: String,
        metadata: Map,
        time: CompletedTimes,
        attachments: Option<Vec<FilePart>>,
    },
    Error {
        input: Map,
        error: String,
        metadata: Option<Map>,
        time: StartAndEnd,
    },
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct StartTime {
    start: Millis,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct StartAndEnd {
    start: Millis,
    end: Millis,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct CompletedTimes {
    start: Millis,
    end: Millis,
    compacted: Option<Millis>,
}
