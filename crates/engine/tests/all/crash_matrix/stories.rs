//! What sessions do. Together the stories write every event that the engine writes.
//!
//! A story is played by a process that may be killed at any commit, and never twice: what is left is checked, not played
//! on. Commands leave lines in `ledger`, each with a word of its own.

use std::time::Duration;

use everturn_engine::compaction::NewCompaction;
use everturn_engine::inbox::PartInput;
use everturn_engine::sessions::{Filter, NewSession};
use everturn_engine::shell::ShellCommand;
use everturn_engine::{Engine, Prompt, SessionUpdate, Signal};
use everturn_model::event::SessionChange;
use everturn_model::inbox::Delivery;
use everturn_model::part::PartKind;
use everturn_model::request::{Reply, Request};
use everturn_model::{EntryId, Event, Session, SessionId};
use everturn_testkit::within;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use super::child::{Cut, Moment, Word, say};
use super::place::Surroundings;

/// A story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Story {
    /// Text, thoughts, a title, a steer and a queued prompt.
    Talk,
    /// Tools that read, change files, run commands and keep a list.
    Tools,
    /// Permissions and questions, asked and answered, allowed for ever and rejected.
    Requests,
    /// A task for another agent, which runs a command, and one that the person gives it.
    Delegation,
    /// Commands of a person: one that ends by itself, and one that is stopped with a prompt behind it.
    Commands,
    /// A stop with a prompt behind it, which goes on when a person says so.
    Stop,
    /// Prompts that wait, are changed, put in another order and taken back.
    Waiting,
    /// A revert that is undone, and one that is made final.
    Undo,
    /// Names, settings, a copy, a message out of view, the trash.
    Shelf,
    /// Failures that are tried again, that last, and that come in the middle.
    Failures,
    /// Summaries that are asked for, that fail, and one that makes room for a request.
    Compaction,
    /// A session of another program, and a project that is moved.
    Arrival,
    /// Another process was killed while a command ran, and this one takes its session over.
    Takeover,
    /// This one takes over what another has begun to say, and ends in an orderly way before it is said.
    Leaving,
    /// Three processes were killed while they took a session over, and this one is the fourth.
    Parking,
}

impl Story {
    pub(super) const ALL: [Self; 15] = [
        Self::Talk,
        Self::Tools,
        Self::Requests,
        Self::Delegation,
        Self::Commands,
        Self::Stop,
        Self::Waiting,
        Self::Undo,
        Self::Shelf,
        Self::Failures,
        Self::Compaction,
        Self::Arrival,
        Self::Takeover,
        Self::Leaving,
        Self::Parking,
    ];

    /// Where the processes are killed that come before the one that is looked at.
    pub(super) fn earlier_cuts(self) -> Vec<Cut> {
        let cut = |event: &str, nth, moment| Cut { event: event.into(), nth, moment };
        match self {
            Self::Takeover => vec![cut("tool.settled", 1, Moment::Before)],
            Self::Leaving => vec![cut("part.started", 0, Moment::After)],
            Self::Parking => {
                let closing = || cut("step.failed", 0, Moment::Before);
                vec![cut("part.started", 0, Moment::After), closing(), closing(), closing()]
            }
            _ => Vec::new(),
        }
    }

    /// Plays it. `later` is whether an earlier process has played the beginning.
    pub(super) async fn play(self, mut actor: Actor, later: bool) {
        match self {
            Self::Talk => actor.talk().await,
            Self::Tools => actor.tools().await,
            Self::Requests => actor.requests().await,
            Self::Delegation => actor.delegation().await,
            Self::Commands => actor.commands().await,
            Self::Stop => actor.stop().await,
            Self::Waiting => actor.waiting().await,
            Self::Undo => actor.undo().await,
            Self::Shelf => actor.shelf().await,
            Self::Failures => actor.failures().await,
            Self::Compaction => actor.compaction().await,
            Self::Arrival => actor.arrival().await,
            Self::Takeover | Self::Parking if later => actor.take_over().await,
            Self::Leaving if later => actor.take_over_and_leave().await,
            Self::Takeover => actor.tools().await,
            Self::Leaving | Self::Parking => actor.begin_to_say().await,
        }
    }
}

/// Who plays: an engine, and what its bus says.
pub(super) struct Actor {
    engine: Engine,
    updates: Receiver<SessionUpdate>,
    surroundings: Surroundings,
}

impl Actor {
    pub(super) fn new(engine: Engine, surroundings: Surroundings) -> Self {
        let updates = engine.bus().listen();
        Self { engine, updates, surroundings }
    }

    async fn session(&self, title: Option<&str>) -> Session {
        let location = self.engine.projects().location(None).await.unwrap();
        let new = NewSession { title: title.map(str::to_owned), ..NewSession::default() };
        self.engine.sessions().create(&location, new).await.unwrap()
    }

    /// Hands in a prompt under an id of its own, as a client does that will try again.
    async fn admit(&self, session: &Session, prompt: Prompt, text: &str) -> EntryId {
        let id = self.engine.mint().entry(session);
        let (of, name) = (session.id.to_string(), id.to_string());
        say(&Word::Tries { session: of, id: name.clone(), text: text.to_owned() });
        self.engine.inbox().admit(&session.id, Prompt { id: Some(id.clone()), ..prompt }).await.unwrap();
        say(&Word::Accepted { id: name });
        id
    }

    async fn begin(&self, session: &Session, text: &str) -> EntryId {
        self.admit(session, Prompt::text(text), text).await
    }

    async fn say(&self, session: &Session, text: &str) -> EntryId {
        let id = self.begin(session, text).await;
        self.settled(session).await;
        id
    }

    async fn settled(&self, session: &Session) {
        within("the session to settle", self.engine.drains().settled(&session.id)).await;
    }

    async fn notice<T>(&mut self, what: &str, wanted: impl Fn(&SessionUpdate) -> Option<T>) -> T {
        within(what, async {
            loop {
                if let Some(found) = wanted(&self.updates.recv().await.unwrap()) {
                    return found;
                }
            }
        })
        .await
    }

    /// Waits for a piece of text.
    async fn streamed(&mut self, wanted: &str) {
        let found = |update: &SessionUpdate| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Delta { text, .. } => text.contains(wanted).then_some(()),
                _ => None,
            },
            _ => None,
        };
        self.notice(wanted, found).await;
    }

    /// Waits until text that streams is saved.
    async fn saved(&self, session: &Session) {
        let store = self.surroundings.store().await;
        within("the text to be saved", async {
            while store.streams(&session.id).await.unwrap().iter().all(|stream| stream.text.is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    async fn committed<T>(&mut self, what: &str, wanted: impl Fn(&Event) -> Option<T>) -> T {
        let found = |update: &SessionUpdate| match update {
            SessionUpdate::Committed(committed) => wanted(&committed.record.event),
            _ => None,
        };
        self.notice(what, found).await
    }

    async fn asked(&mut self) -> Request {
        let asked = |event: &Event| match event {
            Event::RequestAsked { request } => Some((**request).clone()),
            _ => None,
        };
        self.committed("a request", asked).await
    }

    async fn talk(&mut self) {
        let session = self.session(None).await;
        self.say(&session, "THINK SAY:one two three").await;
        self.committed("the title", |event| matches!(event, Event::TitleChanged { .. }).then_some(())).await;
        self.begin(&session, "HOLD:talk SAY:alpha beta").await;
        self.streamed("alpha").await;
        self.saved(&session).await;
        self.begin(&session, "SAY:steered").await;
        let queued = Prompt { delivery: Delivery::Queue, ..Prompt::text("SAY:queued") };
        self.admit(&session, queued, "SAY:queued").await;
        say(&Word::Release("talk".into()));
        self.settled(&session).await;
    }

    async fn tools(&mut self) {
        let session = self.session(Some("tools")).await;
        let text = "TOGETHER:2\nTOOL:read:a.txt\nTOOL:bash:echo together >> ledger\nTOOL:edit:a.txt=hello=>bye\n\
                    TOOL:bash:echo alone >> ledger; echo more >> made.txt\nTOOL:todo:one;two\nSAY:all done";
        self.say(&session, text).await;
    }

    async fn requests(&mut self) {
        let session = self.session(Some("requests")).await;
        self.begin(&session, "TOOL:bash:echo asked one >> ledger\nSAY:allowed").await;
        let request = self.asked().await;
        self.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
        self.settled(&session).await;
        let option = json!({"label": "red", "description": "a colour"});
        let question = json!({"question": "Which?", "header": "Colour", "options": [option]});
        let text = format!("JSONTOOL:question:{}\nSAY:answered", json!({"questions": [question]}));
        self.begin(&session, &text).await;
        let request = self.asked().await;
        self.engine.requests().answer(&request.id, vec![vec!["red".to_owned()]]).await.unwrap();
        self.settled(&session).await;
        self.begin(&session, "TOGETHER:2\nTOOL:bash:echo asked two >> ledger\nTOOL:read:/etc/hosts\nSAY:no")
            .await;
        let request = self.asked().await;
        self.asked().await;
        let words = Some("not now".to_owned());
        self.engine.requests().reply(&request.id, Reply::Reject, words).await.unwrap();
        self.settled(&session).await;
        self.begin(&session, "TOOL:bash:echo asked three >> ledger\nSAY:for ever").await;
        let request = self.asked().await;
        self.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
        self.settled(&session).await;
    }

    async fn delegation(&mut self) {
        let session = self.session(Some("delegation")).await;
        let text = "TOOL:task:TOOL:bash:echo child >> ledger\\nSAY:the child is done\nSAY:the parent is done";
        self.say(&session, text).await;
        let task = PartInput::new(PartKind::Subtask {
            prompt: "TOOL:bash:echo given >> ledger\nSAY:the task is done".to_owned(),
            description: "a task".to_owned(),
            agent: "general".to_owned(),
            model: None,
            command: Some("check".to_owned()),
        });
        let prompt = Prompt { parts: vec![task], ..Prompt::text("") };
        self.engine.inbox().admit(&session.id, prompt).await.unwrap();
        self.settled(&session).await;
    }

    async fn commands(&mut self) {
        let session = self.session(Some("commands")).await;
        let run = |command: &str| {
            let command = ShellCommand { command: command.to_owned(), ..ShellCommand::default() };
            let (engine, id) = (self.engine.clone(), session.id.clone());
            tokio::spawn(async move { engine.shell().run(&id, command).await.unwrap() })
        };
        run("echo person one >> ledger").await.unwrap();
        self.say(&session, "SAY:seen").await;
        // Nobody stops it here when its process is killed.
        let ran = run("echo person two >> ledger; exec sleep 8");
        let wanted = |event: &Event| match event {
            Event::ShellStarted { entry, .. } => {
                serde_json::to_string(entry).unwrap().contains("two").then_some(())
            }
            _ => None,
        };
        self.committed("the second command", wanted).await;
        self.begin(&session, "SAY:behind it").await;
        self.engine.drains().abort(&session.id).await.unwrap();
        ran.await.unwrap();
        self.engine.drains().resume(&session.id).await.unwrap();
        self.settled(&session).await;
    }

    async fn stop(&mut self) {
        let session = self.session(Some("stop")).await;
        self.begin(&session, "HOLD:stop SAY:one two").await;
        self.streamed("one").await;
        self.begin(&session, "SAY:later").await;
        self.engine.drains().abort(&session.id).await.unwrap();
        assert!(self.engine.drains().resume(&session.id).await.unwrap());
        self.settled(&session).await;
    }

    async fn waiting(&mut self) {
        let session = self.session(Some("waiting")).await;
        let mut ids = Vec::new();
        for text in ["SAY:first", "SAY:second", "SAY:third", "SAY:fourth"] {
            let prompt = Prompt { delivery: Delivery::Queue, resume: false, ..Prompt::text(text) };
            ids.push(self.admit(&session, prompt, text).await);
        }
        let inbox = self.engine.inbox();
        inbox.edit(&session.id, &ids[0], Prompt::text("SAY:edited")).await.unwrap();
        inbox.reroute(&session.id, &ids[1], Delivery::Steer).await.unwrap();
        inbox.reorder(&session.id, &[ids[2].clone(), ids[0].clone()]).await.unwrap();
        inbox.cancel(&session.id, &ids[3]).await.unwrap();
        assert!(self.engine.drains().resume(&session.id).await.unwrap());
        self.settled(&session).await;
    }

    async fn undo(&mut self) {
        let session = self.session(Some("undo")).await;
        let message = self.say(&session, "TOOL:write:b.txt=made\nSAY:written").await;
        self.engine.reverts().revert(&session.id, &message, None).await.unwrap();
        self.engine.reverts().unrevert(&session.id).await.unwrap();
        self.engine.reverts().revert(&session.id, &message, None).await.unwrap();
        self.say(&session, "SAY:something else").await;
    }

    async fn shelf(&mut self) {
        let session = self.session(Some("shelf")).await;
        let message = self.say(&session, "SAY:said").await;
        let sessions = self.engine.sessions();
        let metadata = json!({"a": 1}).as_object().cloned();
        sessions
            .update(&session.id, Some("renamed"), vec![SessionChange::Metadata { metadata }])
            .await
            .unwrap();
        sessions.fork(&session.id, None).await.unwrap();
        sessions.hide_message(&session.id, &message).await.unwrap();
        sessions.trash(&session.id).await.unwrap();
        self.engine.trash().restore(&session.id).await.unwrap();
    }

    async fn failures(&mut self) {
        let session = self.session(Some("failures")).await;
        self.say(&session, "ERR:503x1 RETRY-AFTER:0 SAY:tried again").await;
        self.say(&session, "ERR:400 SAY:never").await;
        self.say(&session, "FAIL:invalid_request_error ERRTEXT:broken\nSAY:one two three").await;
    }

    async fn compaction(&mut self) {
        let session = self.session(Some("compaction")).await;
        self.say(&session, "TOOL:todo:one;two\nSAY:first").await;
        for instructions in ["TELL:what was done", "NOSUMMARY:400"] {
            let new = NewCompaction {
                instructions: Some(instructions.to_owned()),
                force: true,
                ..NewCompaction::default()
            };
            self.engine.compactions().request(&session.id, new).await.unwrap();
            self.settled(&session).await;
        }
        self.say(&session, "TELL:all of it\nSAY:second").await;
        let overlong = "ERR:400x1 ERRTYPE:invalid_request_error\nERRTEXT:prompt is too long: 9 tokens > 8 maximum\nSAY:third";
        self.say(&session, overlong).await;
    }

    async fn arrival(&mut self) {
        let now = 1_700_000_000_000_u64;
        let directory = self.surroundings.folder().display().to_string();
        let id = "ses_arrivalarrivalarrivalarri";
        let info = json!({"id": id, "slug": "a", "projectID": "global", "directory": directory, "title": "arrived",
            "version": "1.1.0", "time": {"created": now, "updated": now}});
        let message = json!({"info": {"id": "msg_arrival00000000000000000", "sessionID": id, "role": "user",
            "time": {"created": now}, "agent": "build", "model": {"providerID": self.surroundings.provider, "modelID": "one"}},
            "parts": [{"id": "prt_arrival00000000000000000", "sessionID": id,
                "messageID": "msg_arrival00000000000000000", "type": "text", "text": "hi"}]});
        let export = json!({"info": info, "messages": [message]});
        self.engine.imports().export(export.to_string().as_bytes()).await.unwrap();
        let session = self.session(Some("moves")).await;
        self.say(&session, "SAY:before").await;
        // The repository is renamed, and put back when its sessions have come along.
        let (from, to) = (self.surroundings.folder(), self.surroundings.folder().with_extension("moved"));
        std::fs::rename(from, &to).unwrap();
        self.engine.projects().location(to.to_str()).await.unwrap();
    }

    async fn begin_to_say(&mut self) {
        let session = self.session(Some("begun")).await;
        self.begin(&session, "HOLD:begun SAY:one two").await;
        self.settled(&session).await;
    }

    /// Goes on with what another process has left, and ends in the middle of it.
    async fn take_over_and_leave(&mut self) {
        self.engine.recover().await.unwrap();
        self.streamed("one").await;
    }

    /// Goes on with what another process has left. The model has found its words by then.
    async fn take_over(&mut self) {
        say(&Word::Release("begun".into()));
        self.engine.recover().await.unwrap();
        let all = self.engine.sessions().list(Filter::default()).await.unwrap();
        let ids: Vec<SessionId> = all.into_iter().map(|session| session.id).collect();
        for id in ids {
            within("the session to settle", self.engine.drains().settled(&id)).await;
        }
    }
}
