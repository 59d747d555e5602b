//! What an event is about: enough of the rows that it names to tell a client of it without them.
//!
//! An event says what happened to an entry or a part, and names it by its id. A client of V2 knows it by more: by the
//! id of another program, the call, the tool; or it is told again what a prompt was. With that in the record, a client
//! can resume anywhere in a log, and nobody has to fold everything before it.

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::earlier;
use crate::entry::Body;
use crate::event::{Event, Record};
use crate::finish::Trigger;
use crate::inbox::InboxItem;
use crate::part::PartKind;
use crate::tree::{Node, Tree};
use crate::{EntryId, PartId};

/// What an event is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The id that OpenCode's clients know the entry by, where that is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// What it is, where the event does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SubjectKind>,
}

/// What the entry or part is that an event names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A text.
    Text {
        /// The name that another program's log knows it by, where that is not its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A thought.
    Reasoning {
        /// The name that another program's log knows it by, where that is not its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A tool call.
    Call {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
    },
    /// A command of the person.
    Shell {
        /// The call that clients know it by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// A compaction.
    Compaction {
        /// What made it begin.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Trigger>,
    },
    /// A prompt. What of it is long is kept once, however often it is said.
    Prompt {
        /// The prompt as it was promoted.
        item: Box<InboxItem>,
    },
}

impl Subject {
    /// What an event is about, from a tree that holds the rows that it touches, before the event or after it. None when
    /// the event says everything itself.
    #[must_use]
    pub fn of(event: &Event, tree: &Tree) -> Option<Self> {
        match event {
            Event::StepEnded { entry, .. }
            | Event::StepFailed { entry, .. }
            | Event::RetryScheduled { entry, .. }
            | Event::PartStarted { entry, .. }
            | Event::PartAdded { entry, .. } => Some(Self::entry(tree.node(entry)?, None)),
            Event::ToolSettled { assistant, .. } => Some(Self::entry(tree.node(assistant.as_ref()?)?, None)),
            Event::PartEnded { entry, part, .. }
            | Event::ToolCalled { entry, part, .. }
            | Event::ToolProgress { entry, part, .. } => Self::part(tree, entry, part),
            Event::ShellEnded { entry, .. } | Event::CompactionEnded { entry, .. } => {
                let node = tree.node(entry)?;
                let kind = match &node.entry.body {
                    Body::Shell(shell) => SubjectKind::Shell { call: shell.call.clone() },
                    Body::Compaction(compaction) => {
                        SubjectKind::Compaction { reason: compaction.reason.clone() }
                    }
                    _ => return None,
                };
                Some(Self::entry(node, Some(kind)))
            }
            Event::PromptPromoted { id, .. } => {
                let item = tree.waiting(id).cloned().or_else(|| promoted(tree.node(id)?))?;
                Some(Self { wire: None, kind: Some(SubjectKind::Prompt { item: Box::new(item) }) })
            }
            Event::SessionCreated { .. }
            | Event::SessionForked { .. }
            | Event::SessionImported { .. }
            | Event::SessionChanged { .. }
            | Event::SessionMoved { .. }
            | Event::SessionTrashed {}
            | Event::SessionRestored {}
            | Event::TitleChanged { .. }
            | Event::PromptAdmitted { .. }
            | Event::PromptEdited { .. }
            | Event::PromptRerouted { .. }
            | Event::InboxReordered { .. }
            | Event::PromptCancelled { .. }
            | Event::EntryAdded { .. }
            | Event::Labeled { .. }
            | Event::ShellStarted { .. }
            | Event::StepStarted { .. }
            | Event::TurnSummarized { .. }
            | Event::ToolBegun { .. }
            | Event::CompactionStarted { .. }
            | Event::CompactionFailed { .. }
            | Event::LeafMoved { .. }
            | Event::RevertStaged { .. }
            | Event::RevertCleared {}
            | Event::EntryAmended { .. }
            | Event::TodoUpdated { .. }
            | Event::RequestAsked { .. }
            | Event::RequestAnswered { .. }
            | Event::UsageRecorded { .. }
            | Event::UsageReported { .. }
            | Event::RecoveryBegun { .. }
            | Event::RecoveryLeft {}
            | Event::SessionParked { .. }
            | Event::SessionResumed {}
            | Event::InterruptRequested {} => None,
        }
    }

    fn entry(node: &Node, kind: Option<SubjectKind>) -> Self {
        Self { wire: node.entry.wire.clone(), kind }
    }

    fn part(tree: &Tree, entry: &EntryId, part: &PartId) -> Option<Self> {
        let node = tree.node(entry)?;
        let part = node.part(part)?;
        let name = part.wire.clone();
        let kind = match &part.kind {
            PartKind::Text { .. } => SubjectKind::Text { name },
            PartKind::Reasoning { .. } => SubjectKind::Reasoning { name },
            PartKind::Tool { call, tool, .. } => SubjectKind::Call { call: call.clone(), tool: tool.clone() },
            _ => return None,
        };
        Some(Self::entry(node, Some(kind)))
    }
}

/// A prompt that waits no longer, as its entry has it.
fn promoted(node: &Node) -> Option<InboxItem> {
    let Body::User(user) = &node.entry.body else { return None };
    Some(InboxItem {
        id: node.entry.id.clone(),
        time: node.entry.time,
        delivery: earlier::delivery(&node.entry.extra),
        reply: true,
        user: user.clone(),
        parts: node.parts.clone(),
        extra: node.entry.extra.clone(),
        resume: true,
        place: None,
        revision: 0,
    })
}

impl Record {
    /// Finds what the event is about in a tree, where an earlier version has not written it down. What an entry or a part
    /// is does not change, so today's rows will do.
    pub fn complete(&mut self, tree: &Tree) {
        if self.subject.is_none() {
            self.subject = Subject::of(&self.event, tree);
        }
    }

    /// What is stored of it besides its place in the log: the event, then the subject, where it has one.
    ///
    /// # Errors
    /// When something in it has no form in JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut json = serde_json::to_string(&self.event)?;
        if let Some(subject) = &self.subject {
            // An event is an object with one field. Its subject becomes the second.
            json.truncate(json.len().saturating_sub(1));
            json.push_str(&format!(",\"{SUBJECT}\":{}}}", serde_json::to_string(subject)?));
        }
        Ok(json)
    }
}

/// An event and its subject, as they are stored: `{"part.ended": {…}, "subject": {…}}`.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPayload {
    /// What happened.
    pub event: Event,
    /// What it is about.
    pub subject: Option<Subject>,
}

const SUBJECT: &str = "subject";

impl<'de> Deserialize<'de> for EventPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = EventPayload;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventPayload, A::Error> {
        let event = Event::deserialize(MapAccessDeserializer::new(&mut map))?;
        let mut subject = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == SUBJECT {
                subject = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(EventPayload { event, subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Assistant, Compaction, Entry, Shell};
    use crate::{Fault, Part, Session, SessionId};

    #[test]
    fn an_entry_and_a_part_are_known_by_the_names_of_another_program() {
        // V2 clients know them by no other.
        let mut entry = Entry::new(EntryId::new("msg_1"), None, 0, Body::Assistant(Assistant::default()));
        entry.wire = Some("msg_theirs".into());
        let mut text = Part::new(PartId::new("prt_1"), PartKind::text("hello"));
        text.wire = Some("text_theirs".into());
        let mut tree = Tree::new(Session::new(SessionId::new("ses_1"), "global", "/srv", "t", "1", 0));
        let id = entry.id.clone();
        tree.insert(Node::new(entry, vec![text.clone()]));
        let failed = Event::StepFailed {
            entry: id.clone(),
            error: Fault::internal("no"),
            resumes: false,
            remains: Box::default(),
        };
        let ended = Event::PartEnded { entry: id, part: text.id, text: "hello".into(), metadata: None };
        let wire = Some("msg_theirs".to_owned());
        assert_eq!(Subject::of(&failed, &tree), Some(Subject { wire: wire.clone(), kind: None }));
        let kind = SubjectKind::Text { name: Some("text_theirs".into()) };
        assert_eq!(Subject::of(&ended, &tree), Some(Subject { wire, kind: Some(kind) }));
    }

    #[test]
    fn what_ends_says_which_call_or_what_reason_it_was() {
        let shell = Shell { call: Some("call_1".into()), ..Shell::default() };
        let compaction = Compaction { reason: Some(Trigger::Manual), ..Compaction::default() };
        let mut tree = Tree::new(Session::new(SessionId::new("ses_1"), "global", "/srv", "t", "1", 0));
        for (id, body) in [("msg_1", Body::Shell(shell)), ("msg_2", Body::Compaction(compaction))] {
            tree.insert(Node::new(Entry::new(EntryId::new(id), None, 0, body), Vec::new()));
        }
        let run =
            Event::ShellEnded { entry: EntryId::new("msg_1"), output: String::new(), exit: None, part: None };
        let shorter = Event::CompactionEnded {
            entry: EntryId::new("msg_2"),
            summary: String::new(),
            first_kept: None,
            recent: None,
            carried: None,
            remains: Box::default(),
        };
        let kind = |event| Subject::of(&event, &tree).unwrap().kind.unwrap();
        assert_eq!(kind(run), SubjectKind::Shell { call: Some("call_1".into()) });
        assert_eq!(kind(shorter), SubjectKind::Compaction { reason: Some(Trigger::Manual) });
    }
}
