//! Entries: the nodes of the tree.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::CarriedContext;
use crate::fault::Fault;
use crate::finish::{Finish, Trigger};
use crate::frame::RequestDigests;
use crate::session::{FileDiff, ModelRef};
use crate::tool::ToolResult;
use crate::usage::InterimUsage;
use crate::{EntryId, Extra, Map, Millis, Money, Tokens, earlier};

/// A node of the tree. Its parts are kept beside it, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredEntry")]
pub struct Entry {
    /// Its id in this session.
    pub id: EntryId,
    /// The entry it follows; several roots are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<EntryId>,
    /// When it was made.
    pub time: Millis,
    /// What it is.
    pub body: Body,
    /// True when an amendment hides it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// The id that OpenCode's clients know it by, where that is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Where it is in the file it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Provenance>,
    /// Fields of other programs.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,
}

/// An entry as it was stored, by this version or an earlier one.
#[derive(Deserialize)]
struct StoredEntry {
    id: EntryId,
    #[serde(default)]
    parent: Option<EntryId>,
    time: Millis,
    body: Body,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    wire: Option<String>,
    #[serde(default)]
    origin: Option<Provenance>,
    #[serde(default)]
    extra: Extra,
}

impl From<StoredEntry> for Entry {
    fn from(stored: StoredEntry) -> Self {
        let StoredEntry { id, parent, time, body, hidden, wire, origin, extra } = stored;
        let mut entry = Self { id, parent, time, body, hidden, wire, origin, extra };
        earlier::entry(&mut entry);
        entry
    }
}

/// An imported entry's place in its file, so that unchanged entries leave byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The id that the other program gave it, which may repeat or be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The first byte of its line.
    pub start: u64,
    /// One past its last byte, without the line's end.
    pub end: u64,
}

/// What a person asked, as an entry keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The agent that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Instructions for this prompt only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools switched on or off for this prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Map>,
    /// The shape that the answer must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<AnswerShape>,
    /// What the turn changed, filled in afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<UserSummary>,
    /// A digest of what the client asked for: it tells the same prompt, sent again, from another one under the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The shape that an answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerShape {
    /// Its JSON schema.
    pub schema: Value,
    /// How often an answer that does not have it is tried again.
    pub retries: u64,
}

/// What came of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserSummary {
    /// A title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The files it changed.
    #[serde(default)]
    pub diffs: Vec<FileDiff>,
    /// Fields without a word here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map,
}

/// One provider turn, as an entry keeps it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// The agent that spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The user message it answers, as V1 links them; not the tree's parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The folder it worked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The root of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Which turn of the session it is, counted from one. Those of earlier versions and of other programs do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// True when no model was asked: the person gave a task to another agent, and its call is all that is here. Agent and
    /// model are those of the task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delegated: bool,
    /// When the turn was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Why the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// What it used.
    #[serde(default)]
    pub tokens: Tokens,
    /// What that cost.
    #[serde(default)]
    pub cost: Money,
    /// True when the provider did not say all of what it used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// What the provider has said of an answer that is not complete. It counts when the turn closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Box<InterimUsage>>,
    /// The files before the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_start: Option<String>,
    /// The files after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_end: Option<String>,
    /// The files it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The answer in the shape that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// By what the request that it answers is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<RequestDigests>,
}

/// A command that the person ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shell {
    /// The command line.
    pub command: String,
    /// What it printed; none while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Its exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i64>,
    /// The id of the call that V1 and V2 show it as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
    /// The two messages that V1 shows it as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Box<Pair>>,
}

/// A summary that stands for what came before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// The summary; none while it is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The first earlier entry that the model still sees after the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kept: Option<EntryId>,
    /// How large the context was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// What made it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Trigger>,
    /// Recent conversation kept as text, as V2 keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<String>,
    /// What it carries over word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Box<CarriedContext>>,
    /// When the summary was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
    /// The two messages that V1 shows it as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Box<Pair>>,
}

/// The two messages that V1 shows for one entry. The first has the entry's own id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The user message.
    pub user: User,
    /// Fields of the user message that have no word here.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub user_extra: Extra,
    /// The id of the assistant message.
    pub second: String,
    /// When the assistant message was made.
    pub second_time: Millis,
    /// The assistant message.
    pub assistant: Assistant,
    /// Fields of the assistant message that have no word here.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub second_extra: Extra,
}

/// The kinds of entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A promoted prompt.
    User(User),
    /// One provider turn.
    Assistant(Assistant),
    /// The result of one call.
    ToolResult {
        /// The result.
        result: Box<ToolResult>,
    },
    /// A Mid-Conversation System Message.
    System {
        /// The text that the model was given.
        text: String,
        /// The Context Snapshot after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<Value>,
    },
    /// Text that a program put in and the model sees.
    Synthetic {
        /// The text, where it is one text and not parts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Which extension put it in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin_type: Option<String>,
        /// Whether people see it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<bool>,
    },
    /// A command the person ran.
    Shell(Shell),
    /// A summary of what came before.
    Compaction(Compaction),
    /// A summary of the branch just left.
    BranchSummary {
        /// The summary.
        summary: String,
        /// Where the branch was left, as the other program named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// The agent for later turns.
    AgentSwitch {
        /// Its name.
        agent: String,
    },
    /// The model for later turns.
    ModelSwitch {
        /// The model.
        model: ModelRef,
    },
    /// The thinking level for later turns.
    ThinkingSwitch {
        /// The level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// A new Context Epoch.
    Epoch {
        /// The Baseline System Context, byte for byte.
        baseline: String,
        /// The Context Snapshot.
        snapshot: Value,
        /// The folder that it is about. Logs of earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
    },
    /// The session's name; the last in the log wins.
    Title {
        /// The name; none clears it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A bookmark on an entry.
    Label {
        /// The entry; none when the file names one that is not there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<EntryId>,
        /// The bookmark's text; none removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// State of an extension, never in context.
    Custom {
        /// Whose state it is.
        custom_type: String,
        /// The state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// An entry of another program with no meaning here.
    Foreign {
        /// Its type there.
        foreign_type: String,
    },
}

impl Body {
    /// The kind's name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult { .. } => "tool_result",
            Self::System { .. } => "system",
            Self::Synthetic { .. } => "synthetic",
            Self::Shell(_) => "shell",
            Self::Compaction(_) => "compaction",
            Self::BranchSummary { .. } => "branch_summary",
            Self::AgentSwitch { .. } => "agent_switch",
            Self::ModelSwitch { .. } => "model_switch",
            Self::ThinkingSwitch { .. } => "thinking_switch",
            Self::Epoch { .. } => "epoch",
            Self::Title { .. } => "title",
            Self::Label { .. } => "label",
            Self::Custom { .. } => "custom",
            Self::Foreign { .. } => "foreign",
        }
    }

    /// The assistant in it: its own, or a pair's.
    #[must_use]
    pub fn assistant(&self) -> Option<&Assistant> {
        match self {
            Self::Assistant(assistant) => Some(assistant),
            Self::Shell(Shell { pair: Some(pair), .. })
            | Self::Compaction(Compaction { pair: Some(pair), .. }) => Some(&pair.assistant),
            _ => None,
        }
    }

    /// The two messages that V1 shows it as, where it keeps them.
    #[must_use]
    pub fn pair(&self) -> Option<&Pair> {
        match self {
            Self::Shell(Shell { pair, .. }) | Self::Compaction(Compaction { pair, .. }) => pair.as_deref(),
            _ => None,
        }
    }

    /// The assistant in it, to change.
    pub fn assistant_mut(&mut self) -> Option<&mut Assistant> {
        match self {
            Self::Assistant(assistant) => Some(assistant),
            Self::Shell(Shell { pair: Some(pair), .. })
            | Self::Compaction(Compaction { pair: Some(pair), .. }) => Some(&mut pair.assistant),
            _ => None,
        }
    }
}

impl Entry {
    /// An entry with nothing riding along.
    #[must_use]
    pub fn new(id: EntryId, parent: Option<EntryId>, time: Millis, body: Body) -> Self {
        Self { id, parent, time, body, hidden: false, wire: None, origin: None, extra: Extra::default() }
    }

    /// The id that OpenCode's clients know it by.
    #[must_use]
    pub fn wire_id(&self) -> &str {
        self.wire.as_deref().unwrap_or(self.id.as_str())
    }
}
