//! A V2 durable event from our record.

use everturn_model::entry::{Body, Compaction, Entry, Shell};
use everturn_model::event::{Cause, Record};
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::tool::ToolState;
use everturn_model::tree::{Node, Tree};
use everturn_model::{EntryId, Event, Extra, Map, Millis, Part, PartId, SessionId};
use serde_json::Value;

use super::message::{delivery, part_name, synthetic, tokens};
use super::{FOREIGN, NEXT, error, prompt, tool};
use crate::opencode::shape::{self, ModelKey, object, put, put_some};
use crate::opencode::v1::{session, session_info};

/// A durable event of V2.
#[derive(Debug, Clone, PartialEq)]
pub struct Durable {
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

impl Durable {
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

/// What V2 clients are told of a record; none for what their protocol has no word for. `tree` holds the session row
/// after the event and at least the rows that it touches.
#[must_use]
pub fn write_event(record: &Record, tree: &Tree) -> Option<Durable> {
    let told = Writer { record, tree }.told()?;
    Some(Durable {
        id: record.id.as_str().to_owned(),
        name: told.name,
        version: told.version,
        aggregate: record.session.as_str().to_owned(),
        seq: record.seq,
        data: told.data.into(),
    })
}

struct Told {
    name: String,
    version: u64,
    data: Map,
}

struct Writer<'a> {
    record: &'a Record,
    tree: &'a Tree,
}

impl Writer<'_> {
    fn told(&self) -> Option<Told> {
        let time = self.record.time;
        match &self.record.event {
            Event::SessionCreated { .. } => Some(self.session("session.created")),
            Event::TitleChanged { .. } | Event::SessionChanged { .. } => {
                Some(self.session("session.updated"))
            }
            Event::SessionTrashed {} => Some(self.session("session.deleted")),
            Event::SessionMoved { directory, extra, .. } => {
                let mut data = self.base(time);
                let place = object([("directory", directory.as_str().into())]);
                put(&mut data, "location", extra.get("location").cloned().unwrap_or_else(|| place.into()));
                put_some(&mut data, "subdirectory", extra.get("subdirectory").cloned());
                Some(next("moved", data))
            }
            Event::PromptAdmitted { item } => Some(next("prompt.admitted", self.prompt(item))),
            Event::PromptPromoted { id, .. } => self.promoted(id),
            Event::EntryAdded { entry, parts } => self.added(entry, parts),
            Event::ShellStarted { entry, .. } => {
                let Body::Shell(shell) = &entry.body else { return None };
                let mut data = self.message(entry, entry.time);
                put(&mut data, "callID", call(entry, shell));
                put(&mut data, "command", shell.command.as_str());
                Some(next("shell.started", data))
            }
            Event::ShellEnded { entry, output, .. } => {
                let entry = &self.node(entry)?.entry;
                let Body::Shell(shell) = &entry.body else { return None };
                let mut data = self.base(time);
                put(&mut data, "callID", call(entry, shell));
                put(&mut data, "output", output.as_str());
                Some(next("shell.ended", data))
            }
            Event::StepStarted { entry } => self.step_started(entry),
            Event::StepEnded { entry, finish, tokens: used, cost, snapshot, files, .. } => {
                let mut data = self.answer(&self.node(entry)?.entry);
                put(&mut data, "finish", finish.as_str());
                put(&mut data, "cost", shape::money(*cost));
                put(&mut data, "tokens", tokens(used));
                put_some(&mut data, "snapshot", snapshot.as_deref());
                put_some(&mut data, "files", files.clone());
                Some(Told { version: 2, ..next("step.ended", data) })
            }
            Event::StepFailed { entry, error: fault, .. } => {
                let mut data = self.answer(&self.node(entry)?.entry);
                put(&mut data, "error", error(fault));
                Some(Told { version: 2, ..next("step.failed", data) })
            }
            Event::CompactionStarted { entry, .. } => {
                let Body::Compaction(compaction) = &entry.body else { return None };
                let mut data = self.message(entry, entry.time);
                put(&mut data, "reason", reason(compaction));
                Some(next("compaction.started", data))
            }
            Event::CompactionEnded { entry, summary, recent, .. } => {
                let entry = &self.node(entry)?.entry;
                let Body::Compaction(compaction) = &entry.body else { return None };
                let mut data = self.message(entry, time);
                put(&mut data, "reason", reason(compaction));
                put(&mut data, "text", summary.as_str());
                put(&mut data, "recent", recent.as_deref().unwrap_or_default());
                Some(next("compaction.ended", data))
            }
            Event::RevertStaged { revert, .. } if revert.pending => None,
            Event::RevertStaged { revert, .. } => {
                let mut data = self.base(time);
                put(&mut data, "revert", session::revert(revert));
                Some(next("revert.staged", data))
            }
            Event::RevertCleared {} => Some(next("revert.cleared", self.base(time))),
            Event::LeafMoved { cause: Cause::Revert { message }, .. } => {
                let mut data = self.base(time);
                put(&mut data, "messageID", message.as_str());
                Some(next("revert.committed", data))
            }
            other => self.inside(other),
        }
    }

    /// Events about parts of a turn.
    fn inside(&self, event: &Event) -> Option<Told> {
        match event {
            Event::PartStarted { entry, part } => self.part_started(entry, part),
            Event::PartEnded { entry, part, text, metadata } => {
                let (node, part) = self.part(entry, part)?;
                let mut data = self.answer(&node.entry);
                let name = match &part.kind {
                    PartKind::Text { .. } => {
                        put(&mut data, "textID", part_name(part));
                        "text.ended"
                    }
                    PartKind::Reasoning { .. } => {
                        put(&mut data, "reasoningID", part_name(part));
                        "reasoning.ended"
                    }
                    PartKind::Tool { call, .. } => {
                        put(&mut data, "callID", call.as_str());
                        "tool.input.ended"
                    }
                    _ => return None,
                };
                put(&mut data, "text", text.as_str());
                put_some(&mut data, "providerMetadata", metadata.clone());
                Some(next(name, data))
            }
            Event::PartAdded { entry, part } => {
                let PartKind::Tool { state: ToolState::Running { input, .. }, metadata, .. } = &part.kind
                else {
                    return None;
                };
                let node = self.node(entry)?;
                self.called(node, part, input, metadata.as_ref())
            }
            Event::ToolCalled { entry, part, input, metadata, .. } => {
                let (node, part) = self.part(entry, part)?;
                self.called(node, part, input, metadata.as_ref())
            }
            Event::ToolProgress { entry, part, metadata } => {
                let (node, part) = self.part(entry, part)?;
                let mut data = self.answer(&node.entry);
                put(&mut data, "callID", part.kind.call()?);
                data.extend(tool::progress(Some(metadata)).map(|(key, value)| (key.to_owned(), value)));
                Some(next("tool.progress", data))
            }
            Event::ToolSettled { entry, assistant, .. } => {
                let Body::ToolResult { result } = &entry.body else { return None };
                let mut data = self.answer(&self.node(assistant.as_ref()?)?.entry);
                put(&mut data, "callID", result.call.as_str());
                let (failed, fields) = tool::settled(result);
                data.extend(fields);
                Some(next(if failed { "tool.failed" } else { "tool.success" }, data))
            }
            _ => None,
        }
    }

    fn session(&self, name: &str) -> Told {
        let info = session_info(&self.tree.session);
        let data = object([("sessionID", self.id().as_str().into()), ("info", info)]);
        Told { name: name.to_owned(), version: 1, data }
    }

    fn id(&self) -> &SessionId {
        &self.record.session
    }

    fn base(&self, time: Millis) -> Map {
        object([("timestamp", time.into()), ("sessionID", self.id().as_str().into())])
    }

    fn message(&self, entry: &Entry, time: Millis) -> Map {
        let mut data = self.base(time);
        put(&mut data, "messageID", entry.wire_id());
        data
    }

    fn answer(&self, entry: &Entry) -> Map {
        let mut data = self.base(self.record.time);
        put(&mut data, "assistantMessageID", entry.wire_id());
        data
    }

    fn node(&self, id: &EntryId) -> Option<&Node> {
        self.tree.node(id)
    }

    fn part(&self, entry: &EntryId, part: &PartId) -> Option<(&Node, &Part)> {
        let node = self.node(entry)?;
        Some((node, node.part(part)?))
    }

    fn prompt(&self, item: &InboxItem) -> Map {
        let mut data = self.base(item.time);
        put(&mut data, "messageID", item.id.as_str());
        put(&mut data, "prompt", prompt(&item.parts, &item.extra));
        put(&mut data, "delivery", delivery(item.delivery));
        data
    }

    // The promotion says again what was admitted, and when.
    fn promoted(&self, id: &EntryId) -> Option<Told> {
        let node = self.node(id)?;
        Some(self.prompted(&node.entry, &node.parts))
    }

    fn prompted(&self, entry: &Entry, parts: &[Part]) -> Told {
        let mut data = self.message(entry, entry.time);
        put(&mut data, "prompt", prompt(parts, &entry.extra));
        put(&mut data, "delivery", kept_delivery(&entry.extra));
        next("prompted", data)
    }

    fn added(&self, entry: &Entry, parts: &[Part]) -> Option<Told> {
        let mut data = self.message(entry, entry.time);
        match &entry.body {
            Body::User(_) => Some(self.prompted(entry, parts)),
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
                Some(Told { name: name.to_owned(), version: version.parse().ok()?, data })
            }
            _ => None,
        }
    }

    fn step_started(&self, entry: &Entry) -> Option<Told> {
        let Body::Assistant(assistant) = &entry.body else { return None };
        let mut data = self.base(entry.time);
        put(&mut data, "assistantMessageID", entry.wire_id());
        put(&mut data, "agent", assistant.agent.as_deref().unwrap_or("build"));
        put_some(&mut data, "model", assistant.model.as_ref().map(|model| shape::model(model, ModelKey::Id)));
        put_some(&mut data, "snapshot", assistant.snapshot_start.as_deref());
        Some(next("step.started", data))
    }

    fn part_started(&self, entry: &EntryId, part: &Part) -> Option<Told> {
        let mut data = self.answer(&self.node(entry)?.entry);
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
            _ => return None,
        };
        Some(next(name, data))
    }

    fn called(&self, node: &Node, part: &Part, input: &Value, metadata: Option<&Map>) -> Option<Told> {
        let PartKind::Tool { call, tool, .. } = &part.kind else { return None };
        let mut data = self.answer(&node.entry);
        put(&mut data, "callID", call.as_str());
        put(&mut data, "tool", tool.as_str());
        put(&mut data, "input", input.clone());
        put(&mut data, "provider", tool::provider(metadata));
        Some(next("tool.called", data))
    }
}

fn next(name: &str, data: Map) -> Told {
    Told { name: format!("{NEXT}{name}"), version: 1, data }
}

fn call<'a>(entry: &'a Entry, shell: &'a Shell) -> &'a str {
    shell.call.as_deref().unwrap_or(entry.wire_id())
}

fn reason(compaction: &Compaction) -> &str {
    compaction.reason.as_deref().unwrap_or("auto")
}

// The entry of a promoted prompt no longer says how it was delivered, unless it was queued.
fn kept_delivery(extra: &Extra) -> Value {
    extra.field(super::V2, "delivery").cloned().unwrap_or_else(|| "steer".into())
}
