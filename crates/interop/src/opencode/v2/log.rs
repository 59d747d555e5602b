//! Our records from a V2 log, one for one.

use std::collections::{HashMap, HashSet};

use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Assistant, Body, Compaction, Shell, User};
use everturn_model::event::{Cause, Record};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::{PartKind, Span};
use everturn_model::tool::ToolState;
use everturn_model::{Entry, EntryId, Event, EventId, Extra, Map, Millis, Part, PartId, SessionId};
use serde_json::Value;

use super::{FOREIGN, NEXT, V2, read_error, read_prompt, tool};
use crate::opencode::ImportProblem;
use crate::opencode::rows::OpenCodeEventRow;
use crate::opencode::shape::{self, ModelKey, millis, object, text};
use crate::opencode::v1::read_session;
use crate::opencode::v1::session::read_revert;

/// The records of one session's events, which must come in order and from the first on.
///
/// # Errors
/// When the log does not begin with the session's creation, has a gap, or holds data that is no object.
pub fn read_events(rows: Vec<OpenCodeEventRow>) -> Result<Vec<Record>, ImportProblem> {
    let mut reader: Option<V2LogReader> = None;
    let mut records = Vec::with_capacity(rows.len());
    for (at, row) in (0..).zip(rows) {
        let problem = |what: &str| ImportProblem::new(format!("event {} at seq {}", row.id, row.seq), what);
        let seq = u64::try_from(row.seq).map_err(|_| problem("its seq is no place"))?;
        if seq != at {
            return Err(problem(&format!("expected seq {at}")));
        }
        let Ok(Value::Object(data)) = serde_json::from_str(&row.data) else {
            return Err(problem("its data is no object"));
        };
        let (time, event) = match &mut reader {
            Some(reader) => {
                let time = millis(&data, "timestamp").unwrap_or(reader.last);
                reader.last = reader.last.max(time);
                (time, reader.event(&row.kind, data, time))
            }
            None => {
                let info = data.get("info").and_then(Value::as_object).cloned();
                let session = info.filter(|_| row.kind == "session.created.1").and_then(read_session);
                let session = session.ok_or_else(|| problem("a log begins with session.created.1"))?;
                let time = session.time.created;
                reader = Some(V2LogReader::new(&session));
                (time, Event::SessionCreated { session: Box::new(session) })
            }
        };
        let session = SessionId::new(row.aggregate_id.as_str());
        records.push(Record { id: EventId::new(row.id), session, seq, time, event, subject: None });
    }
    Ok(records)
}

/// What later events refer to.
struct V2LogReader {
    mint: DerivedIds,
    last: Millis,
    project: String,
    directory: String,
    leaf: Option<EntryId>,
    user: Option<EntryId>,
    waiting: HashSet<String>,
    /// Parts by assistant and the name V2 gives them, with the tool's name and when its call began.
    parts: HashMap<(String, String), OpenV2Part>,
    shells: HashMap<String, EntryId>,
}

#[derive(Clone)]
struct OpenV2Part {
    id: PartId,
    tool: String,
    ran: Option<Millis>,
}

impl V2LogReader {
    fn new(session: &everturn_model::Session) -> Self {
        Self {
            mint: DerivedIds::new(session.id.as_str()),
            last: session.time.created,
            project: session.project.clone(),
            directory: session.directory.clone(),
            leaf: None,
            user: None,
            waiting: HashSet::new(),
            parts: HashMap::new(),
            shells: HashMap::new(),
        }
    }

    fn event(&mut self, kind: &str, data: Map, time: Millis) -> Event {
        let known = kind.strip_prefix(NEXT).and_then(|name| self.known(name, &data, time));
        known.unwrap_or_else(|| self.foreign(kind, data, time))
    }

    // Kept whole in an entry that nobody sees.
    fn foreign(&mut self, kind: &str, data: Map, time: Millis) -> Event {
        let raw = object([("type", kind.into()), ("data", data.into())]);
        let body = Body::Custom { custom_type: FOREIGN.to_owned(), data: Some(raw.into()) };
        let id = self.mint.entry(time);
        self.added(id, time, body)
    }

    fn known(&mut self, name: &str, data: &Map, time: Millis) -> Option<Event> {
        let id = text(data, "messageID").map(EntryId::new);
        match name {
            "prompt.admitted.1" => self.admitted(id?, data, time),
            "prompted.1" => self.prompted(id?, data, time),
            "agent.switched.1" => {
                let agent = text(data, "agent")?.to_owned();
                Some(self.added(id?, time, Body::AgentSwitch { agent }))
            }
            "model.switched.1" => {
                let (model, true) = shape::read_model(data.get("model")?, ModelKey::Id)? else { return None };
                Some(self.added(id?, time, Body::ModelSwitch { model }))
            }
            "context.updated.1" => {
                let text = text(data, "text")?.to_owned();
                Some(self.added(id?, time, Body::System { text, snapshot: None }))
            }
            "synthetic.1" => {
                let text = Some(text(data, "text")?.to_owned());
                Some(self.added(id?, time, Body::Synthetic { text, origin_type: None, display: None }))
            }
            "moved.1" => self.moved(data),
            "shell.started.1" => {
                let (call, command) = (text(data, "callID")?, text(data, "command")?.to_owned());
                let entry = self.entry(
                    id?,
                    time,
                    Body::Shell(Shell { command, call: Some(call.to_owned()), ..Shell::default() }),
                );
                self.shells.insert(call.to_owned(), entry.id.clone());
                Some(Event::ShellStarted { entry: Box::new(entry), parts: Vec::new() })
            }
            "shell.ended.1" => {
                let entry = self.shells.remove(text(data, "callID")?)?;
                let output = text(data, "output")?.to_owned();
                Some(Event::ShellEnded { entry, output, exit: None, part: None })
            }
            "compaction.started.1" => {
                let reason = Some(shape::read_trigger(text(data, "reason")?));
                let body = Body::Compaction(Compaction { reason, ..Compaction::default() });
                let entry = Box::new(self.entry(id?, time, body));
                Some(Event::CompactionStarted { entry, parts: Vec::new() })
            }
            "compaction.ended.1" => Some(Event::CompactionEnded {
                entry: id?,
                summary: text(data, "text")?.to_owned(),
                first_kept: None,
                recent: Some(text(data, "recent")?.to_owned()),
                carried: None,
                remains: Box::default(),
            }),
            "revert.staged.1" => {
                let revert = Box::new(read_revert(data.get("revert")?)?);
                Some(Event::RevertStaged { revert, summary: None })
            }
            "revert.cleared.1" => Some(Event::RevertCleared {}),
            "revert.committed.1" => {
                let message = id?;
                // The message itself stays; what follows it leaves.
                let from = self.leaf.replace(message.clone());
                Some(Event::LeafMoved { from, to: Some(message.clone()), cause: Cause::Revert { message } })
            }
            other => self.turn(other, data, time),
        }
    }

    /// Events of a Provider Turn.
    fn turn(&mut self, name: &str, data: &Map, time: Millis) -> Option<Event> {
        let assistant = text(data, "assistantMessageID")?;
        let entry = EntryId::new(assistant);
        match name {
            "step.started.1" => {
                let (model, true) = shape::read_model(data.get("model")?, ModelKey::Id)? else { return None };
                let body = Body::Assistant(Assistant {
                    agent: Some(text(data, "agent")?.to_owned()),
                    model: Some(model),
                    answers: self.user.as_ref().map(|user| user.as_str().to_owned()),
                    cwd: Some(self.directory.clone()),
                    root: Some(self.directory.clone()),
                    snapshot_start: text(data, "snapshot").map(str::to_owned),
                    ..Assistant::default()
                });
                Some(Event::StepStarted { entry: Box::new(self.entry(entry, time, body)), frame: None })
            }
            "step.ended.2" => {
                let ((tokens, true), (cost, true)) =
                    (shape::read_tokens(data.get("tokens")?), shape::read_money(data.get("cost")?))
                else {
                    return None;
                };
                let files = data.get("files").and_then(Value::as_array);
                let names =
                    |files: &Vec<Value>| files.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                Some(Event::StepEnded {
                    entry,
                    finish: shape::read_finish(text(data, "finish")?.to_owned()),
                    tokens,
                    cost,
                    snapshot: text(data, "snapshot").map(str::to_owned),
                    files: files.map(names),
                    parts: Vec::new(),
                    declined: false,
                    estimated: false,
                    error: None,
                    structured: None,
                })
            }
            "step.failed.2" => Some(Event::StepFailed {
                entry,
                error: read_error(data.get("error")?),
                resumes: false,
                remains: Box::default(),
            }),
            "text.started.1" => {
                let name = text(data, "textID")?;
                let mut kind = PartKind::text("");
                if let PartKind::Text { time: slot, .. } = &mut kind {
                    *slot = Some(Span { start: time, end: None });
                }
                let part = self.open(assistant, name, "", kind, Map::new(), time);
                Some(Event::PartStarted { entry, part })
            }
            "reasoning.started.1" => {
                let name = text(data, "reasoningID")?;
                let kind = PartKind::Reasoning {
                    text: String::new(),
                    time: Some(Span { start: time, end: None }),
                    metadata: data.get("providerMetadata").and_then(Value::as_object).cloned(),
                };
                let part = self.open(assistant, name, "", kind, Map::new(), time);
                Some(Event::PartStarted { entry, part })
            }
            "text.ended.1" => self.ended(assistant, text(data, "textID")?, data),
            "reasoning.ended.1" => self.ended(assistant, text(data, "reasoningID")?, data),
            "tool.input.ended.1" => self.ended(assistant, text(data, "callID")?, data),
            "tool.input.started.1" => {
                let (call, tool) = (text(data, "callID")?, text(data, "name")?);
                let state = ToolState::Pending { input: Map::new().into(), raw: String::new() };
                let kind = call_part(call, tool, state, (false, None));
                let part = self.open(assistant, call, tool, kind, object([("created", time.into())]), time);
                Some(Event::PartStarted { entry, part })
            }
            "tool.called.1" => self.called(assistant, data, time),
            "tool.progress.1" => {
                let open = self.find(assistant, text(data, "callID")?)?;
                Some(Event::ToolProgress { entry, part: open.id, metadata: tool::read_progress(data) })
            }
            "tool.success.1" => self.settled(assistant, data, false, time),
            "tool.failed.1" => self.settled(assistant, data, true, time),
            _ => None,
        }
    }

    fn admitted(&mut self, id: EntryId, data: &Map, time: Millis) -> Option<Event> {
        let delivery = match text(data, "delivery")? {
            "steer" => Delivery::Steer,
            "queue" => Delivery::Queue,
            _ => return None,
        };
        let (parts, extra) = self.prompt(data, time)?;
        self.waiting.insert(id.as_str().to_owned());
        let (reply, user, resume) = (true, User::default(), true);
        let item =
            InboxItem { id, time, delivery, reply, user, parts, extra, resume, place: None, revision: 0 };
        Some(Event::PromptAdmitted { item: Box::new(item) })
    }

    fn prompt(&mut self, data: &Map, time: Millis) -> Option<(Vec<Part>, Extra)> {
        Some(read_prompt(data.get("prompt")?.as_object()?, time, &mut self.mint))
    }

    fn prompted(&mut self, id: EntryId, data: &Map, time: Millis) -> Option<Event> {
        self.user = Some(id.clone());
        if self.waiting.remove(id.as_str()) {
            let parent = self.leaf.replace(id.clone());
            return Some(Event::PromptPromoted { id, parent, revision: None });
        }
        let (parts, mut extra) = self.prompt(data, time)?;
        if let Some(delivery) = data.get("delivery").filter(|delivery| *delivery != "steer") {
            extra.put(V2, "delivery", delivery.clone());
        }
        let mut entry = self.entry(id, time, Body::User(User::default()));
        entry.extra = extra;
        Some(Event::EntryAdded { entry: Box::new(entry), parts })
    }

    fn moved(&mut self, data: &Map) -> Option<Event> {
        let location = data.get("location")?;
        let directory = location.get("directory").and_then(Value::as_str)?.to_owned();
        let extra = data.iter().filter(|(key, _)| matches!(key.as_str(), "location" | "subdirectory"));
        self.directory.clone_from(&directory);
        Some(Event::SessionMoved {
            project: self.project.clone(),
            directory,
            path: text(data, "subdirectory").map(str::to_owned),
            extra: extra.map(|(key, value)| (key.clone(), value.clone())).collect(),
        })
    }

    fn called(&mut self, assistant: &str, data: &Map, time: Millis) -> Option<Event> {
        let (call, name) = (text(data, "callID")?, text(data, "tool")?);
        let entry = EntryId::new(assistant);
        let input = data.get("input")?.clone();
        let (hosted, metadata) = tool::read_provider(data.get("provider"));
        match self.parts.get_mut(&(assistant.to_owned(), call.to_owned())) {
            Some(open) => {
                open.ran = Some(time);
                let part = open.id.clone();
                Some(Event::ToolCalled { entry, part, input, hosted, metadata, progress: None })
            }
            None => {
                let state = ToolState::Running { input, title: None, metadata: None, start: time };
                let kind = call_part(call, name, state, (hosted, metadata));
                let part = self.open(assistant, call, name, kind, Map::new(), time);
                Some(Event::PartAdded { entry, part })
            }
        }
    }

    fn ended(&mut self, assistant: &str, name: &str, data: &Map) -> Option<Event> {
        Some(Event::PartEnded {
            entry: EntryId::new(assistant),
            part: self.find(assistant, name)?.id,
            text: text(data, "text")?.to_owned(),
            metadata: data.get("providerMetadata").and_then(Value::as_object).cloned(),
        })
    }

    fn settled(&mut self, assistant: &str, data: &Map, failed: bool, time: Millis) -> Option<Event> {
        let call = text(data, "callID")?;
        let open = self.find(assistant, call)?;
        let result = tool::read_result(call, &open.tool, data, failed, open.ran, time);
        let id = self.mint.entry(time);
        let entry = self.entry(id, time, Body::ToolResult { result: Box::new(result) });
        let assistant = Some(EntryId::new(assistant));
        Some(Event::ToolSettled { entry: Box::new(entry), assistant, part: Some(open.id) })
    }

    fn find(&self, assistant: &str, name: &str) -> Option<OpenV2Part> {
        self.parts.get(&(assistant.to_owned(), name.to_owned())).cloned()
    }

    fn open(
        &mut self,
        assistant: &str,
        name: &str,
        tool: &str,
        kind: PartKind,
        kept: Map,
        time: Millis,
    ) -> Box<Part> {
        let ran = matches!(&kind, PartKind::Tool { state: ToolState::Running { .. }, .. }).then_some(time);
        let mut part = Part::new(self.mint.part(time), kind);
        if part.kind.call().is_none() {
            part.wire = Some(name.to_owned());
        }
        part.extra.set(V2, kept);
        let open = OpenV2Part { id: part.id.clone(), tool: tool.to_owned(), ran };
        self.parts.insert((assistant.to_owned(), name.to_owned()), open);
        Box::new(part)
    }

    fn entry(&mut self, id: EntryId, time: Millis, body: Body) -> Entry {
        let parent = self.leaf.replace(id.clone());
        Entry::new(id, parent, time, body)
    }

    fn added(&mut self, id: EntryId, time: Millis, body: Body) -> Event {
        Event::EntryAdded { entry: Box::new(self.entry(id, time, body)), parts: Vec::new() }
    }
}

fn call_part(call: &str, tool: &str, state: ToolState, (hosted, metadata): (bool, Option<Map>)) -> PartKind {
    PartKind::Tool { call: call.to_owned(), tool: tool.to_owned(), state, hosted, metadata }
}
