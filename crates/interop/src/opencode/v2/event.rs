//! A V2 durable event from our record alone.

use everturn_model::entry::{Body, Entry};
use everturn_model::event::{Cause, Record};
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::subject::{Subject, SubjectKind};
use everturn_model::tool::ToolState;
use everturn_model::{EntryId, Event, Extra, Map, Millis, Part, Session, SessionId};
use serde_json::Value;

use super::message::{delivery, part_name, synthetic, tokens};
use super::{FOREIGN, NEXT, error, prompt, tool};
use crate::opencode::shape::{self, ModelKey, object, put, put_some};
use crate::opencode::v1::{session, session_info};

/// A durable event of V2.
#[derive(Debug, Clone, PartialEq)]
pub struct V2Event {
    /// Its own id.
    pub id: String,
    /// Its name without the version.
    pub name: String,
    /// The version of its shape.
    pub version: u64,
    /// The session.
    pub aggregate: String,
    /// Its place.
    pub seq: u64,
    /// What it says.
    pub data: Value,
}

impl V2Event {
    /// Its name and version, as the database keeps it.
    #[must_use]
    pub fn stored_name(&self) -> String {
        format!("{}.{}", self.name, self.version)
    }

    /// True when it is part of a session's public history; creation and renaming are not.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.name.starts_with(NEXT)
    }

    /// The event as streams and histories show it.
    #[must_use]
    pub fn value(&self) -> Value {
        let durable = object([
            ("aggregateID", self.aggregate.as_str().into()),
            ("seq", self.seq.into()),
            ("version", self.version.into()),
        ]);
        object([
            ("id", self.id.as_str().into()),
            ("type", self.name.as_str().into()),
            ("durable", durable.into()),
            ("data", self.data.clone()),
        ])
        .into()
    }
}

/// A record of an earlier version that does not say what it is about: [`Record::complete`] finds that in a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} of {session} was written before records said what they are about")]
pub struct IncompleteRecord {
    /// Its session.
    pub session: SessionId,
    /// Its place.
    pub seq: u64,
}

/// What V2 clients are told of a record; none for what their protocol has no word for.
///
/// # Errors
/// When the record is of an earlier version and was not completed.
pub fn write_event(record: &Record) -> Result<Option<V2Event>, IncompleteRecord> {
    let write = V2EventWriter { record }.write()?;
    Ok(write.map(|write| durable(record, write)))
}

/// What OpenCode's database also has in a session's log and V2 clients are not told: how the session came, changed and
/// went. It holds the whole session as it is after the event, so whoever writes a database folds the log on the way.
#[must_use]
pub fn write_session_event(record: &Record, session: &Session) -> Option<V2Event> {
    let name = match &record.event {
        Event::SessionCreated { .. } => "session.created",
        Event::TitleChanged { .. } | Event::SessionChanged { .. } => "session.updated",
        Event::SessionTrashed {} => "session.deleted",
        _ => return None,
    };
    let id = record.session.as_str();
    let data = object([("sessionID", id.into()), ("info", session_info(session))]);
    Some(durable(record, WrittenEvent { name: name.to_owned(), version: 1, data }))
}

fn durable(record: &Record, write: WrittenEvent) -> V2Event {
    V2Event {
        id: record.id.as_str().to_owned(),
        name: write.name,
        version: write.version,
        aggregate: record.session.as_str().to_owned(),
        seq: record.seq,
        data: write.data.into(),
    }
}

struct WrittenEvent {
    name: String,
    version: u64,
    data: Map,
}

struct V2EventWriter<'a> {
    record: &'a Record,
}

impl<'a> V2EventWriter<'a> {
    fn write(&self) -> Result<Option<WrittenEvent>, IncompleteRecord> {
        let time = self.record.time;
        Ok(Some(match &self.record.event {
            Event::SessionMoved { directory, extra, .. } => {
                let mut data = self.base(time);
                let place = object([("directory", directory.as_str().into())]);
                put(&mut data, "location", extra.get("location").cloned().unwrap_or_else(|| place.into()));
                put_some(&mut data, "subdirectory", extra.get("subdirectory").cloned());
                next("moved", data)
            }
            Event::PromptAdmitted { item } => {
                next("prompt.admitted", self.prompt(item, delivery(item.delivery).into()))
            }
            // The promotion says again what was admitted, and when.
            Event::PromptPromoted { .. } => match &self.subject()?.kind {
                Some(SubjectKind::Prompt { item }) => {
                    next("prompted", self.prompt(item, delivery(item.delivery).into()))
                }
                _ => return Ok(None),
            },
            Event::EntryAdded { entry, parts } => return Ok(self.added(entry, parts)),
            Event::ShellStarted { entry, .. } => {
                let Body::Shell(shell) = &entry.body else { return Ok(None) };
                let mut data = self.message(entry.wire_id(), entry.time);
                put(&mut data, "callID", shell.call.as_deref().unwrap_or(entry.wire_id()));
                put(&mut data, "command", shell.command.as_str());
                next("shell.started", data)
            }
            Event::ShellEnded { entry, output, .. } => {
                let subject = self.subject()?;
                let Some(SubjectKind::Shell { call }) = &subject.kind else { return Ok(None) };
                let mut data = self.base(time);
                put(&mut data, "callID", call.as_deref().unwrap_or(wire(subject, entry)));
                put(&mut data, "output", output.as_str());
                next("shell.ended", data)
            }
            Event::StepStarted { entry, .. } => return Ok(self.step_started(entry)),
            Event::StepEnded { entry, finish, tokens: used, cost, snapshot, files, .. } => {
                let mut data = self.answer(entry)?;
                put(&mut data, "finish", shape::finish(finish));
                put(&mut data, "cost", shape::money(*cost));
                put(&mut data, "tokens", tokens(used));
                put_some(&mut data, "snapshot", snapshot.as_deref());
                put_some(&mut data, "files", files.clone());
                WrittenEvent { version: 2, ..next("step.ended", data) }
            }
            Event::StepFailed { entry, error: fault, .. } => {
                let mut data = self.answer(entry)?;
                put(&mut data, "error", error(fault));
                WrittenEvent { version: 2, ..next("step.failed", data) }
            }
            Event::CompactionStarted { entry, .. } => {
                let Body::Compaction(compaction) = &entry.body else { return Ok(None) };
                let mut data = self.message(entry.wire_id(), entry.time);
                put(&mut data, "reason", shape::trigger(compaction.reason.as_ref()));
                next("compaction.started", data)
            }
            Event::CompactionEnded { entry, summary, recent, .. } => {
                let subject = self.subject()?;
                let Some(SubjectKind::Compaction { reason }) = &subject.kind else { return Ok(None) };
                let mut data = self.message(wire(subject, entry), time);
                put(&mut data, "reason", shape::trigger(reason.as_ref()));
                put(&mut data, "text", summary.as_str());
                put(&mut data, "recent", recent.as_deref().unwrap_or_default());
                next("compaction.ended", data)
            }
            Event::RevertStaged { revert, .. } if revert.pending => return Ok(None),
            Event::RevertStaged { revert, .. } => {
                let mut data = self.base(time);
                put(&mut data, "revert", session::revert(revert));
                next("revert.staged", data)
            }
            Event::RevertCleared {} => next("revert.cleared", self.base(time)),
            Event::LeafMoved { cause: Cause::Revert { message }, .. } => {
                let mut data = self.base(time);
                put(&mut data, "messageID", message.as_str());
                next("revert.committed", data)
            }
            Event::PartStarted { .. }
            | Event::PartEnded { .. }
            | Event::PartAdded { .. }
            | Event::ToolCalled { .. }
            | Event::ToolProgress { .. }
            | Event::ToolSettled { .. } => return self.inside(&self.record.event),
            // The first six are in OpenCode's database, or nowhere; the rest is not said in V2.
            Event::SessionCreated { .. }
            | Event::SessionForked { .. }
            | Event::SessionImported { .. }
            | Event::SessionChanged { .. }
            | Event::SessionTrashed {}
            | Event::TitleChanged { .. }
            | Event::SessionRestored {}
            | Event::PromptEdited { .. }
            | Event::PromptRerouted { .. }
            | Event::InboxReordered { .. }
            | Event::PromptCancelled { .. }
            | Event::Labeled { .. }
            | Event::TurnSummarized { .. }
            | Event::ToolBegun { .. }
            | Event::CompactionFailed { .. }
            | Event::LeafMoved { cause: Cause::Branch, .. }
            | Event::EntryAmended { .. }
            | Event::TodoUpdated { .. }
            | Event::RequestAsked { .. }
            | Event::RequestAnswered { .. }
            | Event::UsageRecorded { .. }
            | Event::UsageReported { .. }
            | Event::RetryScheduled { .. }
            | Event::RecoveryBegun { .. }
            | Event::RecoveryLeft {}
            | Event::SessionParked { .. }
            | Event::SessionResumed {}
            | Event::InterruptRequested {} => return Ok(None),
        }))
    }

    /// Events about parts of a turn.
    fn inside(&self, event: &Event) -> Result<Option<WrittenEvent>, IncompleteRecord> {
        match event {
            Event::PartStarted { entry, part } => self.part_started(entry, part),
            Event::PartEnded { entry, part, text, metadata } => {
                let mut data = self.answer(entry)?;
                let name = match &self.subject()?.kind {
                    Some(SubjectKind::Text { name }) => {
                        put(&mut data, "textID", name.as_deref().unwrap_or(part.as_str()));
                        "text.ended"
                    }
                    Some(SubjectKind::Reasoning { name }) => {
                        put(&mut data, "reasoningID", name.as_deref().unwrap_or(part.as_str()));
                        "reasoning.ended"
                    }
                    Some(SubjectKind::Call { call, .. }) => {
                        put(&mut data, "callID", call.as_str());
                        "tool.input.ended"
                    }
                    _ => return Ok(None),
                };
                put(&mut data, "text", text.as_str());
                put_some(&mut data, "providerMetadata", metadata.clone());
                Ok(Some(next(name, data)))
            }
            Event::PartAdded { entry, part } => match &part.kind {
                PartKind::Tool { call, tool, state: ToolState::Running { input, .. }, hosted, metadata } => {
                    self.called(entry, (call, tool), input, *hosted, metadata.as_ref()).map(Some)
                }
                _ => Ok(None),
            },
            Event::ToolCalled { entry, input, hosted, metadata, .. } => match &self.subject()?.kind {
                Some(SubjectKind::Call { call, tool }) => {
                    self.called(entry, (call, tool), input, *hosted, metadata.as_ref()).map(Some)
                }
                _ => Ok(None),
            },
            Event::ToolProgress { entry, metadata, .. } => {
                let mut data = self.answer(entry)?;
                let Some(SubjectKind::Call { call, .. }) = &self.subject()?.kind else { return Ok(None) };
                put(&mut data, "callID", call.as_str());
                data.extend(tool::progress(Some(metadata)).map(|(key, value)| (key.to_owned(), value)));
                Ok(Some(next("tool.progress", data)))
            }
            Event::ToolSettled { entry, assistant: Some(assistant), .. } => {
                let Body::ToolResult { result } = &entry.body else { return Ok(None) };
                let mut data = self.answer(assistant)?;
                put(&mut data, "callID", result.call.as_str());
                let (failed, fields) = tool::settled(result);
                data.extend(fields);
                Ok(Some(next(if failed { "tool.failed" } else { "tool.success" }, data)))
            }
            _ => Ok(None),
        }
    }

    fn subject(&self) -> Result<&'a Subject, IncompleteRecord> {
        let (session, seq) = (&self.record.session, self.record.seq);
        self.record.subject.as_ref().ok_or_else(|| IncompleteRecord { session: session.clone(), seq })
    }

    fn base(&self, time: Millis) -> Map {
        object([("timestamp", time.into()), ("sessionID", self.record.session.as_str().into())])
    }

    fn message(&self, id: &str, time: Millis) -> Map {
        let mut data = self.base(time);
        put(&mut data, "messageID", id);
        data
    }

    fn answer(&self, entry: &EntryId) -> Result<Map, IncompleteRecord> {
        let mut data = self.base(self.record.time);
        put(&mut data, "assistantMessageID", wire(self.subject()?, entry));
        Ok(data)
    }

    fn prompt(&self, item: &InboxItem, delivery: Value) -> Map {
        let mut data = self.message(item.id.as_str(), item.time);
        put(&mut data, "prompt", prompt(&item.parts, &item.extra));
        put(&mut data, "delivery", delivery);
        data
    }

    fn added(&self, entry: &Entry, parts: &[Part]) -> Option<WrittenEvent> {
        let mut data = self.message(entry.wire_id(), entry.time);
        match &entry.body {
            Body::User(_) => {
                put(&mut data, "prompt", prompt(parts, &entry.extra));
                put(&mut data, "delivery", kept_delivery(&entry.extra));
                Some(next("prompted", data))
            }
            Body::AgentSwitch { agent } => {
                put(&mut data, "agent", agent.as_str());
                Some(next("agent.switched", data))
            }
            Body::ModelSwitch { model } => {
                put(&mut data, "model", shape::model(model, ModelKey::Id));
                Some(next("model.switched", data))
            }
            Body::System { text, .. } => {
                put(&mut data, "text", text.as_str());
                Some(next("context.updated", data))
            }
            Body::Synthetic { .. } | Body::BranchSummary { .. } => {
                put(&mut data, "text", synthetic(&entry.body, parts));
                Some(next("synthetic", data))
            }
            Body::Custom { custom_type, data: Some(Value::Object(raw)) } if custom_type == FOREIGN => {
                let stored = shape::text(raw, "type")?;
                let (name, version) = stored.rsplit_once('.')?;
                let data = raw.get("data").and_then(Value::as_object).cloned()?;
                Some(WrittenEvent { name: name.to_owned(), version: version.parse().ok()?, data })
            }
            _ => None,
        }
    }

    fn step_started(&self, entry: &Entry) -> Option<WrittenEvent> {
        let Body::Assistant(assistant) = &entry.body else { return None };
        let mut data = self.base(entry.time);
        put(&mut data, "assistantMessageID", entry.wire_id());
        put(&mut data, "agent", assistant.agent.as_deref().unwrap_or("build"));
        put_some(&mut data, "model", assistant.model.as_ref().map(|model| shape::model(model, ModelKey::Id)));
        put_some(&mut data, "snapshot", assistant.snapshot_start.as_deref());
        Some(next("step.started", data))
    }

    fn part_started(&self, entry: &EntryId, part: &Part) -> Result<Option<WrittenEvent>, IncompleteRecord> {
        let mut data = self.answer(entry)?;
        let name = match &part.kind {
            PartKind::Text { .. } => {
                put(&mut data, "textID", part_name(part));
                "text.started"
            }
            PartKind::Reasoning { metadata, .. } => {
                put(&mut data, "reasoningID", part_name(part));
                put_some(&mut data, "providerMetadata", metadata.clone());
                "reasoning.started"
            }
            PartKind::Tool { call, tool, .. } => {
                put(&mut data, "callID", call.as_str());
                put(&mut data, "name", tool.as_str());
                "tool.input.started"
            }
            _ => return Ok(None),
        };
        Ok(Some(next(name, data)))
    }

    fn called(
        &self,
        entry: &EntryId,
        (call, tool): (&str, &str),
        input: &Value,
        hosted: bool,
        metadata: Option<&Map>,
    ) -> Result<WrittenEvent, IncompleteRecord> {
        let mut data = self.answer(entry)?;
        put(&mut data, "callID", call);
        put(&mut data, "tool", tool);
        put(&mut data, "input", input.clone());
        put(&mut data, "provider", tool::provider(hosted, metadata));
        Ok(next("tool.called", data))
    }
}

/// The id that V2 knows the entry of an event by.
fn wire<'a>(subject: &'a Subject, entry: &'a EntryId) -> &'a str {
    subject.wire.as_deref().unwrap_or(entry.as_str())
}

fn next(name: &str, data: Map) -> WrittenEvent {
    WrittenEvent { name: format!("{NEXT}{name}"), version: 1, data }
}

// An entry does not say how its prompt was delivered, unless its log had no admission that did.
fn kept_delivery(extra: &Extra) -> Value {
    extra.field(super::V2, "delivery").cloned().unwrap_or_else(|| "steer".into())
}
