//! Parts of messages as clients see them, and the states of tool calls.

#![expect(dead_code, reason = "these types describe what interop prints and reads")]

use everturn_interop::opencode::v1;
use everturn_model::{EntryId, Map, Millis, PartId, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::message::ApiErrorData;
use super::session::MessageTokens;
use crate::answer::shaped;
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

/// Where a part is.
#[derive(JsonSchema)]
struct OwnIds {
    id: Id<PartId>,
    #[serde(rename = "sessionID")]
    session: Id<SessionId>,
    #[serde(rename = "messageID")]
    message: Id<EntryId>,
}

macro_rules! part {
    ($name:ident, $kind:literal { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(JsonSchema)]
        pub(crate) struct $name {
            #[serde(flatten)]
            ids: OwnIds,
            #[schemars(rename = "type", extend("const" = $kind))]
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

#[derive(JsonSchema)]
#[schemars(inline)]
struct Period {
    start: Millis,
    end: Option<Millis>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct RetryTime {
    created: Millis,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct PartModel {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct MentionSource {
    value: String,
    start: i64,
    end: i64,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct RetryError {
    #[schemars(extend("const" = "APIError"))]
    name: String,
    data: ApiErrorData,
}

/// Where the text of a file came from.
#[derive(JsonSchema)]
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

#[derive(JsonSchema)]
pub(crate) struct FilePartSourceText {
    value: String,
    start: f64,
    end: f64,
}

#[derive(JsonSchema)]
pub(crate) struct Range {
    start: TextPosition,
    end: TextPosition,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct TextPosition {
    line: u32,
    character: u32,
}

/// How far a tool call is.
#[derive(JsonSchema)]
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

#[derive(JsonSchema)]
#[schemars(inline)]
struct StartTime {
    start: Millis,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct StartAndEnd {
    start: Millis,
    end: Millis,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CompletedTimes {
    start: Millis,
    end: Millis,
    compacted: Option<Millis>,
}
