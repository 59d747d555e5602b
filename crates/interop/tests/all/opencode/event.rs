//! A recorded session of OpenCode 1.18.33, phase by phase: the durable events that stand for what was recorded are
//! told to V1 clients in the recorded words and order.
//!
//! What is live only (status, deltas, errors of the moment) is left out of the recording, and so are the moments at
//! which OpenCode touched a session or sent a part.

use std::collections::VecDeque;

use everturn_interop::opencode::v1;
use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Assistant, Body, Compaction, Pair, Shell, User, UserSummary};
use everturn_model::event::{Amendment, Cause, Record, SessionChange};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, CallRef, Reply, Request};
use everturn_model::session::{ModelRef, Revert, Summary};
use everturn_model::tool::ToolState;
use everturn_model::{
    Entry, EntryId, Event, EventId, Millis, Part, PartId, RequestId, Session, SessionId, Tree, fold,
};
use serde_json::Value;

use super::data::fixture;

const SESSION: &str = "ses_e228120ebffe8JdRT47Nh80huO";

struct Told {
    kind: String,
    body: Value,
}

/// Replays recorded events as records and compares what these show as.
struct Replay {
    stream: VecDeque<Told>,
    tree: Option<Tree>,
    seq: u64,
    mint: DerivedIds,
}

impl Replay {
    fn new() -> Self {
        Self { stream: VecDeque::new(), tree: None, seq: 0, mint: DerivedIds::new(SESSION) }
    }

    fn phase(&mut self, name: &str) {
        let text = std::fs::read_to_string(fixture("v1-events").join(format!("{name}.jsonl"))).unwrap();
        let live = ["session.status", "session.idle", "session.error", "message.part.delta", "file.edited"];
        for line in text.lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            let kind = event["type"].as_str().unwrap().to_owned();
            if live.contains(&kind.as_str()) || event["properties"]["sessionID"] != SESSION {
                continue;
            }
            self.stream.push_back(Told { kind, body: event["properties"].take() });
        }
        while let Some(told) = self.stream.pop_front() {
            self.step(told);
        }
    }

    fn tree(&self) -> &Tree {
        self.tree.as_ref().unwrap()
    }

    /// Appends a record, and compares what it shows as with what was recorded.
    fn commit(&mut self, time: Millis, event: Event, expected: Vec<Told>) {
        let id = EventId::new(format!("evt_{}", self.seq));
        let session = SessionId::new(SESSION);
        let record = Record { id, session, seq: self.seq, time, event, subject: None };
        self.seq += 1;
        let before = self.tree.as_ref().map(|tree| tree.session.clone());
        match &mut self.tree {
            None => self.tree = Some(fold::begin(&record).unwrap()),
            Some(tree) => drop(fold::apply(tree, &record).unwrap()),
        }
        let shown = v1::events(before.as_ref(), &record, self.tree());
        let shown: Vec<_> = shown.into_iter().map(|event| timeless(event.kind, event.properties)).collect();
        let expected: Vec<_> = expected.into_iter().map(|told| timeless(&told.kind, told.body)).collect();
        assert_eq!(shown, expected, "{:?}", record.event);
    }

    fn leaf(&self) -> Option<EntryId> {
        self.tree().session.leaf.clone()
    }

    fn next_is(&self, kind: &str, test: impl Fn(&Value) -> bool) -> bool {
        self.stream.front().is_some_and(|told| told.kind == kind && test(&told.body))
    }

    fn take(&mut self, kind: &str, test: impl Fn(&Value) -> bool) -> Option<Told> {
        let at = self.stream.iter().position(|told| told.kind == kind && test(&told.body))?;
        self.stream.remove(at)
    }

    fn known(&self, id: &str) -> bool {
        let id = EntryId::new(id);
        let second = |node: &everturn_model::tree::Node| match &node.entry.body {
            Body::Shell(Shell { pair: Some(pair), .. })
            | Body::Compaction(Compaction { pair: Some(pair), .. }) => pair.second == id.as_str(),
            _ => false,
        };
        let tree = self.tree();
        tree.node(&id).is_some() || tree.waiting(&id).is_some() || tree.nodes().iter().any(second)
    }

    /// The entry that shows a message.
    fn entry_of(&self, message: &str) -> EntryId {
        let found = self.tree().nodes().iter().find(|node| match &node.entry.body {
            Body::Shell(Shell { pair: Some(pair), .. })
            | Body::Compaction(Compaction { pair: Some(pair), .. }) => pair.second == message,
            _ => false,
        });
        found.map_or_else(|| EntryId::new(message), |node| node.entry.id.clone())
    }

    fn step(&mut self, told: Told) {
        let body = told.body.clone();
        match told.kind.as_str() {
            "session.created" => {
                let session = v1::read_session(body["info"].as_object().unwrap().clone()).unwrap();
                let event = Event::SessionCreated { session: Box::new(session.clone()) };
                self.commit(session.time.created, event, vec![told]);
            }
            "session.updated" => self.session_updated(told),
            "session.diff" => {
                let updated = self.stream.pop_front().unwrap();
                let staged = &updated.body["info"]["revert"];
                let revert = Box::new(Revert {
                    snapshot: staged["snapshot"].as_str().map(str::to_owned),
                    diff: staged["diff"].as_str().map(str::to_owned),
                    ..Revert::new(EntryId::new(staged["messageID"].as_str().unwrap()))
                });
                let mut summary: Summary =
                    serde_json::from_value(updated.body["info"]["summary"].clone()).unwrap();
                summary.diffs = Some(serde_json::from_value(body["diff"].clone()).unwrap());
                let time = moment(&updated.body["info"]["time"]["updated"]);
                self.commit(
                    time,
                    Event::RevertStaged { revert, summary: Some(summary) },
                    vec![told, updated],
                );
            }
            "message.updated" => self.message_updated(told),
            "message.part.updated" => self.part_updated(told),
            "message.removed" => self.message_removed(told),
            "message.part.removed" => {
                let entry = self.entry_of(body["messageID"].as_str().unwrap());
                let part = Some(PartId::new(body["partID"].as_str().unwrap()));
                self.commit(1, Event::EntryAmended { entry, part, change: Amendment::Hide }, vec![told]);
            }
            "todo.updated" => {
                let todos = serde_json::from_value(body["todos"].clone()).unwrap();
                self.commit(1, Event::TodoUpdated { todos }, vec![told]);
            }
            "permission.asked" => {
                let texts = |key: &str| serde_json::from_value(body[key].clone()).unwrap();
                let request = Box::new(Request::new(
                    RequestId::new(body["id"].as_str().unwrap()),
                    1,
                    Ask::Permission {
                        permission: body["permission"].as_str().unwrap().to_owned(),
                        patterns: texts("patterns"),
                        always: texts("always"),
                        metadata: body["metadata"].as_object().unwrap().clone(),
                    },
                    Some(CallRef {
                        entry: EntryId::new(body["tool"]["messageID"].as_str().unwrap()),
                        call: body["tool"]["callID"].as_str().unwrap().to_owned(),
                        part: None,
                    }),
                ));
                self.commit(1, Event::RequestAsked { request }, vec![told]);
            }
            "permission.replied" => {
                let id = RequestId::new(body["requestID"].as_str().unwrap());
                let reply: Option<Reply> = serde_json::from_value(body["reply"].clone()).unwrap();
                let event = Event::RequestAnswered {
                    id,
                    call: None,
                    reply,
                    message: None,
                    answers: None,
                    follows: None,
                };
                self.commit(1, event, vec![told]);
            }
            "session.compacted" => {
                let entry = self.leaf().unwrap();
                let event = Event::CompactionEnded {
                    entry,
                    summary: "two words".to_owned(),
                    first_kept: None,
                    recent: None,
                    carried: None,
                    remains: Box::default(),
                };
                self.commit(1, event, vec![told]);
            }
            "session.deleted" => self.commit(1, Event::SessionTrashed {}, vec![told]),
            other => panic!("{other} has no record"),
        }
    }

    fn session_updated(&mut self, told: Told) {
        let info = told.body["info"].clone();
        let time = moment(&info["time"]["updated"]);
        let is_user = |body: &Value| body["info"]["role"] == "user";
        if self.next_is("message.updated", is_user) {
            let message = self.stream.pop_front().unwrap();
            return self.admitted(message, vec![told]);
        }
        if self.next_is("session.diff", |_| true) {
            let diff = self.stream.pop_front().unwrap();
            let message =
                self.take("message.updated", |body| body["info"]["summary"]["diffs"].is_array()).unwrap();
            let entry = EntryId::new(message.body["info"]["id"].as_str().unwrap());
            let summary: UserSummary =
                serde_json::from_value(message.body["info"]["summary"].clone()).unwrap();
            let session = serde_json::from_value(info["summary"].clone()).unwrap();
            return self.commit(
                time,
                Event::TurnSummarized { entry, summary, session },
                vec![told, diff, message],
            );
        }
        let session: &Session = &self.tree().session;
        if session.revert.is_some() {
            self.commit(time, Event::RevertCleared {}, vec![told]);
        } else if info["title"] != session.title.as_str() {
            let title = info["title"].as_str().unwrap().to_owned();
            let (entry, parent) = (self.mint.entry(time), self.leaf());
            self.commit(time, Event::TitleChanged { entry, parent, title, replaces: None }, vec![told]);
        } else {
            let time = info["time"]["archived"].as_i64();
            let changes = vec![SessionChange::Archived { time }];
            self.commit(1, Event::SessionChanged { changes }, vec![told]);
        }
    }

    fn admitted(&mut self, message: Told, mut expected: Vec<Told>) {
        let info = message.body["info"].clone();
        let id = info["id"].as_str().unwrap().to_owned();
        let time = moment(&info["time"]["created"]);
        expected.push(message);
        let mut parts = Vec::new();
        while self.next_is("message.part.updated", |body| body["part"]["messageID"] == id.as_str()) {
            let part = self.stream.pop_front().unwrap();
            parts.push(self.read_part(&part.body["part"]));
            expected.push(part);
        }
        expected.extend(self.stream.pop_front());
        let item = InboxItem {
            id: EntryId::new(id),
            time,
            delivery: Delivery::Steer,
            reply: true,
            user: user(&info),
            parts,
            extra: everturn_model::Extra::default(),
            resume: true,
            place: None,
            revision: 0,
        };
        self.commit(time, Event::PromptAdmitted { item: Box::new(item) }, expected);
    }

    fn read_part(&mut self, part: &Value) -> Part {
        let message = part["messageID"].as_str().unwrap();
        v1::read_part(&SessionId::new(SESSION), message, part.clone(), 1, &mut self.mint)
    }

    fn message_updated(&mut self, told: Told) {
        let info = told.body["info"].clone();
        let id = info["id"].as_str().unwrap().to_owned();
        let created = moment(&info["time"]["created"]);
        if info["role"] == "user" {
            let paired = |told: &Told| {
                told.body["part"]["type"] == "compaction" || told.body["part"]["synthetic"] == true
            };
            if self.stream.front().is_some_and(paired) {
                self.pair(told);
            } else {
                self.admitted(told, Vec::new());
            }
            return;
        }
        if !self.known(&id) {
            let waiting: Vec<_> = self.tree().inbox.iter().map(|item| item.id.clone()).collect();
            for id in waiting {
                let parent = self.leaf();
                self.commit(created, Event::PromptPromoted { id, parent, revision: None }, Vec::new());
            }
            let body = Body::Assistant(assistant(&info));
            let entry = Entry::new(EntryId::new(id), self.leaf(), created, body);
            return self.commit(
                created,
                Event::StepStarted { entry: Box::new(entry), frame: None },
                vec![told],
            );
        }
        let entry = self.entry_of(&id);
        let completed = moment(&info["time"]["completed"]);
        if info.get("error").is_some() {
            let error = v1::read_fault(info["error"].clone());
            return self.commit(
                completed,
                Event::StepFailed { entry, error, resumes: false, remains: Box::default() },
                vec![told],
            );
        }
        // What is left is the end of a person's command.
        let ended = self.stream.pop_front().unwrap();
        let mut part = self.read_part(&ended.body["part"]);
        part.second = true;
        let output = ended.body["part"]["state"]["output"].as_str().unwrap().to_owned();
        let event = Event::ShellEnded { entry, output, exit: None, part: Some(Box::new(part)) };
        self.commit(completed, event, vec![told, ended]);
    }

    fn pair(&mut self, first: Told) {
        let info = first.body["info"].clone();
        let asked = self.stream.pop_front().unwrap();
        let second = self.stream.pop_front().unwrap();
        let answer = second.body["info"].clone();
        let mut parts = vec![self.read_part(&asked.body["part"])];
        let mut expected = vec![first, asked, second];
        let pair = Some(Box::new(Pair {
            user: user(&info),
            second: answer["id"].as_str().unwrap().to_owned(),
            second_time: moment(&answer["time"]["created"]),
            assistant: assistant(&answer),
            ..Pair::default()
        }));
        let time = moment(&info["time"]["created"]);
        let id = EntryId::new(info["id"].as_str().unwrap());
        if answer["summary"] == true {
            let body = Body::Compaction(Compaction { pair, ..Compaction::default() });
            let entry = Box::new(Entry::new(id, self.leaf(), time, body));
            return self.commit(time, Event::CompactionStarted { entry, parts }, expected);
        }
        let running = self.stream.pop_front().unwrap();
        let mut part = self.read_part(&running.body["part"]);
        part.second = true;
        parts.push(part);
        expected.push(running);
        let body = Body::Shell(Shell { command: "echo shell".to_owned(), pair, ..Shell::default() });
        let entry = Box::new(Entry::new(id, self.leaf(), time, body));
        self.commit(time, Event::ShellStarted { entry, parts }, expected);
    }

    fn part_updated(&mut self, told: Told) {
        let part = told.body["part"].clone();
        let message = part["messageID"].as_str().unwrap().to_owned();
        let entry = self.entry_of(&message);
        let id = PartId::new(part["id"].as_str().unwrap());
        let node = self.tree().node(&entry).unwrap();
        let (old, second) = (node.part(&id).cloned(), node.entry.id.as_str() != message);
        let mut new = self.read_part(&part);
        new.second = second;
        let time = moment(&told.body["time"]);
        let Some(old) = old else {
            if matches!(new.kind, PartKind::StepFinish { .. }) {
                return self.step_ended(entry, new, told);
            }
            let event = Event::PartStarted { entry, part: Box::new(new) };
            return self.commit(time, event, vec![told]);
        };
        match (old.kind, new.kind) {
            (_, PartKind::Text { text, time, .. } | PartKind::Reasoning { text, time, .. }) => {
                let end = time.unwrap().end.unwrap();
                self.commit(end, Event::PartEnded { entry, part: id, text, metadata: None }, vec![told]);
            }
            (
                PartKind::Tool { state: ToolState::Pending { .. }, .. },
                PartKind::Tool { state: ToolState::Running { input, metadata, start, .. }, .. },
            ) => {
                let ended = Event::PartEnded {
                    entry: entry.clone(),
                    part: id.clone(),
                    text: input.to_string(),
                    metadata: None,
                };
                self.commit(start, ended, Vec::new());
                let progress = metadata;
                let event =
                    Event::ToolCalled { entry, part: id, input, hosted: false, metadata: None, progress };
                self.commit(start, event, vec![told]);
            }
            (_, PartKind::Tool { state: ToolState::Running { metadata, .. }, .. }) => {
                let event = Event::ToolProgress { entry, part: id, metadata: metadata.unwrap() };
                self.commit(time, event, vec![told]);
            }
            (
                _,
                PartKind::Tool {
                    state: ToolState::Completed { result, .. } | ToolState::Error { result, .. },
                    ..
                },
            ) => {
                let body = Body::ToolResult { result };
                let settled = Box::new(Entry::new(self.mint.entry(time), self.leaf(), time, body));
                let event = Event::ToolSettled { entry: settled, assistant: Some(entry), part: Some(id) };
                self.commit(time, event, vec![told]);
            }
            (old, new) => panic!("{old:?} cannot become {new:?}"),
        }
    }

    fn step_ended(&mut self, entry: EntryId, finish: Part, told: Told) {
        let mut expected = vec![told, self.stream.pop_front().unwrap()];
        let mut parts = vec![finish];
        if self.next_is("message.part.updated", |body| body["part"]["type"] == "patch") {
            let patch = self.stream.pop_front().unwrap();
            parts.push(self.read_part(&patch.body["part"]));
            expected.push(patch);
        }
        let closed = self.stream.pop_front().unwrap();
        let info = closed.body["info"].clone();
        expected.push(closed);
        let event = Event::StepEnded {
            entry,
            finish: info["finish"].as_str().unwrap().to_owned().into(),
            tokens: serde_json::from_value(info["tokens"].clone()).unwrap(),
            cost: serde_json::from_value(info["cost"].clone()).unwrap(),
            snapshot: None,
            files: None,
            parts,
            declined: false,
            estimated: false,
            error: None,
            structured: None,
        };
        self.commit(moment(&info["time"]["completed"]), event, expected);
    }

    fn message_removed(&mut self, told: Told) {
        let first = EntryId::new(told.body["messageID"].as_str().unwrap());
        if self.tree().session.revert.is_none() {
            let event = Event::EntryAmended { entry: first, part: None, change: Amendment::Hide };
            return self.commit(1, event, vec![told]);
        }
        let mut expected = vec![told];
        while self.next_is("message.removed", |_| true) {
            expected.extend(self.stream.pop_front());
        }
        let updated = self.stream.pop_front().unwrap();
        let time = moment(&updated.body["info"]["time"]["updated"]);
        expected.push(updated);
        let to = self.tree().node(&first).unwrap().entry.parent.clone();
        let event = Event::LeafMoved { from: self.leaf(), to, cause: Cause::Revert { message: first } };
        self.commit(time, event, expected);
    }
}

fn moment(value: &Value) -> Millis {
    value.as_i64().unwrap()
}

fn timeless(kind: &str, mut body: Value) -> (String, Value) {
    if kind == "message.part.updated" {
        body.as_object_mut().unwrap().shift_remove("time");
        // A call that runs has no title in the log, only what it shows.
        if body["part"]["state"]["status"] == "running" {
            body["part"]["state"].as_object_mut().unwrap().shift_remove("title");
        }
    }
    if kind.starts_with("session.") && body.get("info").is_some() {
        body["info"]["time"].as_object_mut().unwrap().shift_remove("updated");
    }
    (kind.to_owned(), body)
}

fn model(info: &Value, provider: &str, model: &str) -> Option<ModelRef> {
    let word = |key: &str| info[key].as_str().unwrap().to_owned();
    Some(ModelRef { provider: word(provider), model: word(model), variant: None })
}

fn user(info: &Value) -> User {
    User {
        agent: info["agent"].as_str().map(str::to_owned),
        model: model(&info["model"], "providerID", "modelID"),
        ..User::default()
    }
}

fn assistant(info: &Value) -> Assistant {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    Assistant {
        agent: word(&info["agent"]),
        model: model(info, "providerID", "modelID"),
        answers: word(&info["parentID"]),
        cwd: word(&info["path"]["cwd"]),
        root: word(&info["path"]["root"]),
        ..Assistant::default()
    }
}

#[test]
fn a_recorded_session_is_told_in_the_recorded_words() {
    let mut replay = Replay::new();
    for phase in [
        "01-create",
        "02-text",
        "03-reasoning",
        "04-bash",
        "05-bash-fails",
        "06-write",
        "07-edit-error",
        "08-todo",
        "09-revert",
        "10-unrevert",
        "11-revert-then-prompt",
        "13-permission-once",
        "14-permission-reject",
        "15-abort",
        "16-prompt-while-busy",
        "17-task",
        "18-shell",
        "20-rename",
        "21-summarize",
        "22-prompt-after-compaction",
        "23-part-delete",
        "24-message-delete",
        "25-archive",
        "26-delete",
    ] {
        replay.phase(phase);
    }
    assert!(replay.tree().session.time.trashed.is_some());
}
