//! The durable event catalogue.
//!
//! An event says what happened in one session; the log of them is the only truth. Each type has a version, kept in
//! its stored name (`step.started.1`), so that old logs stay readable when a shape changes: what earlier versions wrote is
//! converted when it is read (`earlier`). Each event maps to at most one of OpenCode V2's durable events, so that `seq`
//! is an exact cursor there; events without a V2 form are gaps. `docs/design/0001-events.md` lists what V1, V2 and pi clients see of each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::{CarriedContext, Pins};
use crate::earlier;
use crate::entry::{Entry, UserSummary};
use crate::fault::Fault;
use crate::finish::Finish;
use crate::frame::RequestFrame;
use crate::inbox::{Delivery, InboxItem};
use crate::permission::Rule;
use crate::request::{CallRef, Reply, Request};
use crate::session::{ForkOrigin, ModelRef, Revert, Session, Summary};
use crate::subject::Subject;
use crate::todo::Todo;
use crate::tool::FileForecast;
use crate::tree::Node;
use crate::{EntryId, EventId, Map, Millis, Money, Part, PartId, RequestId, SessionId, Tokens};

/// An event with its place in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The event's own id; appending the same id twice is appending it once.
    pub id: EventId,
    /// The session it belongs to.
    pub session: SessionId,
    /// Its place: 0, 1, 2 … without gaps.
    pub seq: u64,
    /// When it happened.
    pub time: Millis,
    /// What happened.
    pub event: Event,
    /// What the event is about, where it names a row without saying what that is. Records of earlier versions have
    /// none; [`complete`](Self::complete) finds it.
    pub subject: Option<Subject>,
}

/// Entries that come into a session at once, by fork or import.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seed {
    /// The entries with their parts, parents before children where that is possible.
    pub nodes: Vec<Node>,
    /// The end of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<EntryId>,
    /// The task list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// Prompts that were waiting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<InboxItem>,
}

/// Why the leaf moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Somebody went to another place in the tree.
    Branch,
    /// A staged revert was committed.
    Revert {
        /// The message that the revert named.
        message: EntryId,
    },
}

/// A reversible change to an entry or a part that is already closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amendment {
    /// It is not shown and not given to the model.
    Hide,
    /// It is back.
    Unhide,
    /// The part has new content.
    ReplacePart {
        /// The new part, under the same id.
        part: Box<Part>,
    },
    /// The entry has new content; its parts stay.
    ReplaceEntry {
        /// The new entry, under the same id and parent.
        entry: Box<Entry>,
    },
}

/// A change to the session itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChange {
    /// Archived, or taken out again.
    Archived {
        /// When, or none.
        #[serde(default)]
        time: Option<Millis>,
    },
    /// New permission rules of the session.
    Permission {
        /// The rules.
        #[serde(default)]
        rules: Option<Vec<Rule>>,
    },
    /// More permission rules of the session, after those that it has: the last one that fits counts.
    PermissionAdded {
        /// The rules.
        rules: Vec<Rule>,
    },
    /// What a client keeps with it.
    Metadata {
        /// The new value.
        #[serde(default)]
        metadata: Option<Map>,
    },
    /// It has work left from another program and waits for a prompt before it goes on.
    Parked,
    /// What every compaction keeps word for word.
    Pinned {
        /// All that is pinned from now on.
        pins: Pins,
    },
    /// Shared, or no longer.
    Share {
        /// The address, or none.
        #[serde(default)]
        url: Option<String>,
    },
}

/// What a turn had used and changed when it ended before it was complete.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRemains {
    /// Why the model stopped, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// What it used.
    #[serde(default)]
    pub tokens: Tokens,
    /// What that cost.
    #[serde(default)]
    pub cost: Money,
    /// True when the provider did not say all of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The files after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The files it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The parts that say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl StepRemains {
    /// True when nothing was used and nothing is known to have changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! catalogue {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal v $version:literal { $( $(#[$field_doc:meta])* $field:ident : $type:ty ),* $(,)? } )*) => {
        /// What can happen in a session.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(from = "StoredEvent")]
        pub enum Event {
            $(
                $(#[$doc])*
                #[serde(rename = $name)]
                $variant { $( $(#[$field_doc])* $field: $type ),* },
            )*
        }

        /// An event as it was stored, by this version or an earlier one.
        #[derive(Deserialize)]
        enum StoredEvent {
            $( #[serde(rename = $name)] $variant { $( $(#[$field_doc])* $field: $type ),* }, )*
        }

        impl From<StoredEvent> for Event {
            fn from(stored: StoredEvent) -> Self {
                let mut event = match stored {
                    $( StoredEvent::$variant { $( $field ),* } => Self::$variant { $( $field ),* }, )*
                };
                earlier::event(&mut event);
                event
            }
        }

        impl Event {
            /// The event's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $name, )* }
            }

            /// The version of the event's shape.
            #[must_use]
            pub fn version(&self) -> u16 {
                match self { $( Self::$variant { .. } => $version, )* }
            }
        }

        /// Every event type with its version.
        pub const CATALOGUE: &[(&str, u16)] = &[ $( ($name, $version) ),* ];
    };
}

catalogue! {
    /// The session exists. Always seq 0.
    SessionCreated = "session.created" v 1 {
        /// The session as it begins.
        session: Box<Session>,
    }
    /// The session was copied from a path of another one.
    SessionForked = "session.forked" v 2 {
        /// From where.
        origin: ForkOrigin,
        /// The copied path.
        seed: Box<Seed>,
    }
    /// The session came in from another program.
    SessionImported = "session.imported" v 2 {
        /// The dialect it came in.
        dialect: String,
        /// What came.
        seed: Box<Seed>,
    }
    /// Fields of the session changed.
    SessionChanged = "session.changed" v 1 {
        /// The changes, in order.
        changes: Vec<SessionChange>,
    }
    /// The session works in another folder.
    SessionMoved = "session.moved" v 1 {
        /// The project there.
        project: String,
        /// The new folder.
        directory: String,
        /// The same relative to its worktree.
        #[serde(default)]
        path: Option<String>,
        /// Fields of other programs.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extra: Map,
    }
    /// The session went into the trash.
    SessionTrashed = "session.trashed" v 1 {}
    /// It came back out.
    SessionRestored = "session.restored" v 1 {}
    /// Somebody lets a session go on that a stop holds, or that waits for a person.
    SessionResumed = "session.resumed" v 1 {}
    /// The session has a new name.
    TitleChanged = "title.changed" v 1 {
        /// The entry that keeps it; it does not move the leaf.
        entry: EntryId,
        /// The leaf when it was set.
        #[serde(default)]
        parent: Option<EntryId>,
        /// The name.
        title: String,
        /// The name that it takes the place of: if the session has another one by then, nothing changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<String>,
    }
    /// A prompt was accepted.
    PromptAdmitted = "prompt.admitted" v 2 {
        /// The prompt.
        item: Box<InboxItem>,
    }
    /// A waiting prompt was changed.
    PromptEdited = "prompt.edited" v 2 {
        /// The new prompt under the same id.
        item: Box<InboxItem>,
    }
    /// A waiting prompt is delivered differently.
    PromptRerouted = "prompt.rerouted" v 1 {
        /// Which prompt.
        id: EntryId,
        /// The new delivery.
        delivery: Delivery,
    }
    /// Waiting prompts go on in another order.
    InboxReordered = "inbox.reordered" v 1 {
        /// The prompts, the next one first. What is not among them comes after them.
        ids: Vec<EntryId>,
    }
    /// A waiting prompt was taken back.
    PromptCancelled = "prompt.cancelled" v 1 {
        /// Which prompt.
        id: EntryId,
    }
    /// An Admitted Prompt became part of the conversation.
    PromptPromoted = "prompt.promoted" v 2 {
        /// Which prompt.
        id: EntryId,
        /// The entry it follows.
        #[serde(default)]
        parent: Option<EntryId>,
        /// How often it had been changed when that was decided. Logs of earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<u32>,
    }
    /// An entry that has no event of its own came into being at the leaf: a switch, a system message, a synthetic
    /// text, a branch summary, an epoch, extension state.
    EntryAdded = "entry.added" v 2 {
        /// The entry.
        entry: Box<Entry>,
        /// Its parts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    }
    /// A bookmark was set or removed; it does not move the leaf.
    Labeled = "labeled" v 1 {
        /// The label entry.
        entry: Box<Entry>,
    }
    /// A person's command began.
    ShellStarted = "shell.started" v 2 {
        /// The shell entry.
        entry: Box<Entry>,
        /// Its parts in V1.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    }
    /// A person's command ended.
    ShellEnded = "shell.ended" v 2 {
        /// The shell entry.
        entry: EntryId,
        /// What it printed.
        output: String,
        /// Its exit status.
        #[serde(default)]
        exit: Option<i64>,
        /// Its tool part in V1, as it ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Box<Part>>,
    }
    /// A Provider Turn began.
    StepStarted = "step.started" v 1 {
        /// The assistant entry.
        entry: Box<Entry>,
        /// The surroundings of the request, where this step is the first with them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<Box<RequestFrame>>,
    }
    /// A Provider Turn ended.
    StepEnded = "step.ended" v 2 {
        /// The assistant entry.
        entry: EntryId,
        /// Why the model stopped.
        finish: Finish,
        /// What it used.
        tokens: Tokens,
        /// What that cost.
        cost: Money,
        /// The files after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
        /// The files it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Vec<String>>,
        /// The step-finish and patch parts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
        /// True when nothing follows although the model called tools: the person declined, or no step is left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        declined: bool,
        /// True when the provider did not say all of what it used.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        /// What is wrong with the answer although it ended: it reached its longest length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Fault>,
        /// The answer in the shape that was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
    }
    /// A Provider Turn failed or was interrupted.
    StepFailed = "step.failed" v 2 {
        /// The assistant entry.
        entry: EntryId,
        /// Why.
        error: Fault,
        /// True when the conversation goes on by itself all the same: a recovery continues it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumes: bool,
        /// What it had used and changed by then. Logs of earlier versions do not say.
        #[serde(default, skip_serializing_if = "StepRemains::is_empty")]
        remains: Box<StepRemains>,
    }
    /// The provider is to be asked again for the same answer: the session waits until then.
    RetryScheduled = "retry.scheduled" v 1 {
        /// The assistant entry.
        entry: EntryId,
        /// The retry part: which attempt failed, and how.
        part: Box<Part>,
        /// When it is asked again.
        next: Millis,
    }
    /// The provider says what the answer has used so far. It counts when the turn closes.
    UsageReported = "usage.reported" v 1 {
        /// The assistant entry.
        entry: EntryId,
        /// What it has used so far.
        tokens: Tokens,
        /// What that costs.
        cost: Money,
        /// Whether the answer has ended, so that this is all.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        last: bool,
    }
    /// A turn that a process left open is taken up again.
    RecoveryBegun = "recovery.begun" v 1 {
        /// The assistant entry.
        entry: EntryId,
    }
    /// The process that took it up ends in an orderly way: neither is at fault.
    RecoveryLeft = "recovery.left" v 1 {}
    /// The session waits for a person, because going on with it failed again and again.
    SessionParked = "session.parked" v 1 {
        /// Why.
        reason: Fault,
    }
    /// The files that a prompt's turns changed so far.
    TurnSummarized = "turn.summarized" v 1 {
        /// The user entry, or an admitted prompt.
        entry: EntryId,
        /// What changed.
        summary: UserSummary,
        /// The same for the whole session.
        session: Summary,
    }
    /// A part began to stream.
    PartStarted = "part.started" v 2 {
        /// The entry.
        entry: EntryId,
        /// The part as it begins.
        part: Box<Part>,
    }
    /// A part is complete: text, reasoning, or the input of a tool call.
    PartEnded = "part.ended" v 2 {
        /// The entry.
        entry: EntryId,
        /// The part.
        part: PartId,
        /// Its text, or the text of the input.
        text: String,
        /// Provider metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
    }
    /// A part came complete.
    PartAdded = "part.added" v 2 {
        /// The entry.
        entry: EntryId,
        /// The part.
        part: Box<Part>,
    }
    /// A tool call was accepted and is about to run.
    ToolCalled = "tool.called" v 2 {
        /// The assistant entry.
        entry: EntryId,
        /// The tool part.
        part: PartId,
        /// The input.
        input: Value,
        /// True when the provider runs it itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hosted: bool,
        /// Provider metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
        /// What shows already as it begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Map>,
    }
    /// A call whose permission had to be asked for, or one that says beforehand what it will make of which files, is
    /// about to act. Without this event a call that had to ask has not begun.
    ToolBegun = "tool.begun" v 1 {
        /// The assistant entry.
        entry: EntryId,
        /// The tool part.
        part: PartId,
        /// What it will make of the files that it changes, where that is known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        forecast: Vec<FileForecast>,
    }
    /// A running tool shows something.
    ToolProgress = "tool.progress" v 2 {
        /// The assistant entry.
        entry: EntryId,
        /// The tool part.
        part: PartId,
        /// What it shows.
        metadata: Map,
    }
    /// A call ended; its result is an entry of its own.
    ToolSettled = "tool.settled" v 2 {
        /// The `tool_result` entry.
        entry: Box<Entry>,
        /// The assistant entry that holds the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assistant: Option<EntryId>,
        /// The tool part of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PartId>,
    }
    /// A compaction began.
    CompactionStarted = "compaction.started" v 2 {
        /// The compaction entry, without a summary yet.
        entry: Box<Entry>,
        /// Its parts in V1.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    }
    /// A compaction ended: the model sees the summary from now on.
    CompactionEnded = "compaction.ended" v 2 {
        /// The compaction entry.
        entry: EntryId,
        /// The summary.
        summary: String,
        /// The first earlier entry that stays in view.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_kept: Option<EntryId>,
        /// Recent conversation kept as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recent: Option<String>,
        /// What is carried over word for word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<Box<CarriedContext>>,
        /// What the request for the summary used.
        #[serde(default, skip_serializing_if = "StepRemains::is_empty")]
        remains: Box<StepRemains>,
    }
    /// A compaction failed and changed nothing of what the model sees.
    CompactionFailed = "compaction.failed" v 2 {
        /// The compaction entry.
        entry: EntryId,
        /// Why.
        error: Fault,
        /// What the request for the summary used.
        #[serde(default, skip_serializing_if = "StepRemains::is_empty")]
        remains: Box<StepRemains>,
    }
    /// The conversation ends elsewhere.
    LeafMoved = "leaf.moved" v 1 {
        /// Where it ended.
        #[serde(default)]
        from: Option<EntryId>,
        /// Where it ends now; none before the first entry.
        #[serde(default)]
        to: Option<EntryId>,
        /// Why.
        cause: Cause,
    }
    /// A revert was staged.
    RevertStaged = "revert.staged" v 1 {
        /// What it would take back.
        revert: Box<Revert>,
        /// How much the files changed by what is taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Summary>,
    }
    /// A staged revert was undone.
    RevertCleared = "revert.cleared" v 1 {}
    /// A closed entry or part was changed.
    EntryAmended = "entry.amended" v 2 {
        /// The entry.
        entry: EntryId,
        /// The part, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PartId>,
        /// The change.
        change: Amendment,
    }
    /// The task list was replaced.
    TodoUpdated = "todo.updated" v 1 {
        /// The new list.
        todos: Vec<Todo>,
    }
    /// Somebody has to answer before a call goes on.
    RequestAsked = "request.asked" v 2 {
        /// The request.
        request: Box<Request>,
    }
    /// Somebody answered.
    RequestAnswered = "request.answered" v 2 {
        /// Which request.
        id: RequestId,
        /// The call that waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallRef>,
        /// The answer to a permission request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Reply>,
        /// What the person said with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The answers to questions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<Value>,
        /// The request that was really answered, where this one was settled together with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        follows: Option<RequestId>,
    }
    /// Tokens were used outside a turn: a title, a summary.
    UsageRecorded = "usage.recorded" v 1 {
        /// For what.
        source: String,
        /// What it used.
        tokens: Tokens,
        /// What that cost.
        cost: Money,
        /// By which model. Logs of earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        /// True when nothing came of it: the provider is asked again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    }
    /// Somebody asked the running turn to stop.
    InterruptRequested = "interrupt.requested" v 1 {}
}

impl Event {
    /// The name and version under which it is stored.
    #[must_use]
    pub fn stored_name(&self) -> String {
        format!("{}.{}", self.name(), self.version())
    }

    /// True when an event of this kind may be stored under `name`: its own, or that of an earlier version.
    #[must_use]
    pub fn is_stored_as(&self, name: &str) -> bool {
        let version = name.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix('.'));
        (1..=self.version()).any(|known| version == Some(known.to_string().as_str()))
    }
}

/// Rows that an event needs to be folded, for stores that fold without loading the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsToFold<'a> {
    /// Everything: the event looks at whole paths.
    pub whole: bool,
    /// These entries.
    pub entries: Vec<&'a EntryId>,
    /// These parts.
    pub parts: Vec<&'a PartId>,
    /// These waiting prompts.
    pub inbox: Vec<&'a EntryId>,
    /// These requests.
    pub requests: Vec<&'a RequestId>,
}

impl<'a> RowsToFold<'a> {
    /// The part of a call; without its id, only a look at all parts finds it.
    fn call(&mut self, call: &'a CallRef) {
        self.entries.push(&call.entry);
        match &call.part {
            Some(part) => self.parts.push(part),
            None => self.whole = true,
        }
    }
}

impl Event {
    /// The rows that folding it needs, besides the session's own.
    #[must_use]
    pub fn touches(&self) -> RowsToFold<'_> {
        let mut touches = RowsToFold::default();
        match self {
            Self::LeafMoved { .. } | Self::SessionForked { .. } | Self::SessionImported { .. } => {
                touches.whole = true;
            }
            Self::PromptEdited { item } => touches.inbox.push(&item.id),
            Self::PromptRerouted { id, .. } | Self::PromptCancelled { id } => touches.inbox.push(id),
            Self::InboxReordered { ids } => touches.inbox.extend(ids),
            Self::PromptPromoted { id, .. } => {
                touches.entries.push(id);
                touches.inbox.push(id);
            }
            Self::StepEnded { entry, parts, .. } => {
                touches.entries.push(entry);
                touches.parts.extend(parts.iter().map(|part| &part.id));
            }
            Self::StepFailed { entry, remains, .. } => {
                touches.entries.push(entry);
                touches.parts.extend(remains.parts.iter().map(|part| &part.id));
            }
            Self::UsageReported { entry, .. } | Self::RecoveryBegun { entry } => touches.entries.push(entry),
            Self::CompactionEnded { entry, remains, .. } | Self::CompactionFailed { entry, remains, .. } => {
                touches.entries.push(entry);
                touches.parts.extend(remains.parts.iter().map(|part| &part.id));
            }
            Self::PartStarted { entry, part }
            | Self::PartAdded { entry, part }
            | Self::RetryScheduled { entry, part, .. } => {
                touches.entries.push(entry);
                touches.parts.push(&part.id);
            }
            // The rows below are new; naming them lets the fold see an id that is taken.
            Self::EntryAdded { entry, .. }
            | Self::Labeled { entry }
            | Self::ShellStarted { entry, .. }
            | Self::StepStarted { entry, .. } => touches.entries.push(&entry.id),
            Self::CompactionStarted { entry, .. } => {
                touches.entries.push(&entry.id);
                touches.inbox.push(&entry.id);
            }
            Self::TitleChanged { entry, .. } => touches.entries.push(entry),
            Self::PromptAdmitted { item } => {
                touches.entries.push(&item.id);
                touches.inbox.push(&item.id);
            }
            Self::TurnSummarized { entry, .. } => {
                touches.entries.push(entry);
                touches.inbox.push(entry);
            }
            Self::ShellEnded { entry, part, .. } => {
                touches.entries.push(entry);
                touches.parts.extend(part.iter().map(|part| &part.id));
            }
            Self::PartEnded { entry, part, .. }
            | Self::ToolBegun { entry, part, .. }
            | Self::ToolCalled { entry, part, .. }
            | Self::ToolProgress { entry, part, .. } => {
                touches.entries.push(entry);
                touches.parts.push(part);
            }
            Self::EntryAmended { entry, part, change } => {
                touches.entries.push(entry);
                touches.parts.extend(part);
                if let Amendment::ReplacePart { part } = change {
                    touches.parts.push(&part.id);
                }
            }
            Self::ToolSettled { entry, assistant, part } => {
                touches.entries.push(&entry.id);
                touches.entries.extend(assistant);
                touches.parts.extend(part);
            }
            Self::RequestAsked { request } => {
                if let Some(call) = &request.call {
                    touches.call(call);
                }
            }
            Self::RequestAnswered { id, call, .. } => {
                touches.requests.push(id);
                match call {
                    Some(call) => touches.call(call),
                    // Only the request says which call it is.
                    None => touches.whole = true,
                }
            }
            Self::SessionCreated { .. }
            | Self::SessionChanged { .. }
            | Self::SessionMoved { .. }
            | Self::SessionTrashed {}
            | Self::SessionRestored {}
            | Self::SessionResumed {}
            | Self::SessionParked { .. }
            | Self::RecoveryLeft {}
            | Self::RevertStaged { .. }
            | Self::RevertCleared {}
            | Self::TodoUpdated { .. }
            | Self::UsageRecorded { .. }
            | Self::InterruptRequested {} => {}
        }
        touches
    }
}

#[cfg(test)]
mod tests;
