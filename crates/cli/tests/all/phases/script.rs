//! The requests of each phase, as they were made for the recording.

use std::collections::BTreeMap;
use std::time::Duration;

use everturn_testkit::{Client, EventReader, within};
use serde_json::{Value, json};

use crate::stage::{Stage, prompt};

/// How long the original works on after it said that it is idle, without telling anybody when it is done.
const AFTERTHOUGHT: Duration = Duration::from_millis(1500);

/// How often the server is asked while something is waited for.
const GLANCE: Duration = Duration::from_millis(20);

/// Drives a server through the phases.
#[derive(Debug)]
pub(super) struct Script<'a> {
    stage: &'a Stage,
    client: Client,
    reader: EventReader,
    /// Whether the server works on in the background when a phase is over.
    afterthought: bool,
    session: String,
    /// Sessions that only mark a place in the stream.
    marks: Vec<String>,
    /// Where the phase begins.
    start: usize,
    /// The message of the person in each phase.
    prompts: BTreeMap<String, String>,
}

impl<'a> Script<'a> {
    pub(super) async fn new(stage: &'a Stage, afterthought: bool) -> Self {
        let client = stage.client();
        let mut reader = client.events("/event").await;
        reader.wait_for_type("server.connected").await;
        let (session, marks, prompts) = (String::new(), Vec::new(), BTreeMap::new());
        Self { stage, client, reader, afterthought, session, marks, start: 0, prompts }
    }

    /// Plays a phase and returns its events.
    pub(super) async fn play(&mut self, phase: &str) -> Vec<Value> {
        if phase == "19-provider-error" {
            // The session was there before the recording of this phase began.
            let kept = std::mem::take(&mut self.session);
            self.session = self.stage.session("bench").await;
            self.begin().await;
            self.prompt(phase, "ERR:400 please").await;
            self.until("the error in the message", |events| {
                events.iter().any(|event| event.pointer("/properties/info/error").is_some())
            })
            .await;
            let events = self.end().await;
            self.session = kept;
            return events;
        }
        self.begin().await;
        self.act(phase).await;
        self.end().await
    }

    async fn act(&mut self, phase: &str) {
        let project = self.stage.repo.dir();
        match phase {
            "01-create" => self.session = self.stage.session("bench").await,
            "02-text" => self.prompt(phase, "SAY:two words").await,
            "03-reasoning" => self.prompt(phase, "THINK SAY:after thought").await,
            "04-bash" => self.prompt(phase, "TOOL:bash:echo hi").await,
            "05-bash-fails" => self.prompt(phase, "TOOL:bash:exit 3").await,
            "06-write" => self.prompt(phase, &format!("TOOL:write:{project}/w.txt=written")).await,
            "07-edit-error" => self.prompt(phase, &format!("TOOL:edit:{project}/a.txt=absent=>x")).await,
            "08-todo" => self.prompt(phase, "TOOL:todo:one;two;three").await,
            "09-revert" => self.revert("06-write").await,
            "10-unrevert" => drop(self.post("unrevert", &json!({})).await),
            "11-revert-then-prompt" => {
                self.revert("07-edit-error").await;
                self.prompt(phase, "SAY:on a new path").await;
            }
            "12-fork" => drop(self.post("fork", &json!({"messageID": self.prompts["04-bash"]})).await),
            "13-permission-once" => self.ask(phase, "TOOL:read:/etc/hostname", "once").await,
            "14-permission-reject" => self.ask(phase, "TOOL:read:/etc/hosts", "reject").await,
            "15-abort" => self.abort().await,
            "16-prompt-while-busy" => self.prompt_while_busy(phase).await,
            "17-task" => self.prompt(phase, "TOOL:task:SAY:child speaks").await,
            "18-shell" => {
                drop(self.post("shell", &json!({"agent": "build", "command": "echo shell"})).await);
                self.idle(1).await;
            }
            "20-rename" => self.patch(&json!({"title": "renamed"})).await,
            "21-summarize" => {
                let model = json!({"providerID": "fake", "modelID": "fake-1"});
                drop(self.post("summarize", &model).await);
                self.idle(1).await;
            }
            "22-prompt-after-compaction" => self.prompt(phase, "SAY:after compaction").await,
            "23-part-delete" => {
                let (message, part) = self.last().await;
                self.delete(&format!("/message/{message}/part/{part}")).await;
            }
            "24-message-delete" => {
                let (message, _) = self.last().await;
                self.delete(&format!("/message/{message}")).await;
            }
            "25-archive" => self.patch(&json!({"time": {"archived": 1_794_711_797_549_u64}})).await,
            "26-delete" => self.delete("").await,
            other => panic!("no script for the phase {other}"),
        }
    }

    /// Prompts, waits for the answer and then for the session to be idle.
    async fn prompt(&mut self, phase: &str, text: &str) {
        let answer = self.post("message", &prompt(text)).await;
        let parent = answer["info"]["parentID"].as_str().expect("what the answer belongs to");
        self.prompts.insert(phase.to_owned(), parent.to_owned());
        self.idle(1).await;
    }

    async fn prompt_later(&self, text: &str) {
        let path = format!("/session/{}/prompt_async", self.session);
        assert_eq!(self.client.post(&path, &prompt(text)).await.ok().status, 204);
    }

    async fn revert(&mut self, phase: &str) {
        let message = json!({"messageID": self.prompts[phase]});
        self.post("revert", &message).await;
    }

    /// Prompts for something that needs a permission and gives `answer` when asked.
    async fn ask(&mut self, phase: &str, text: &str, answer: &str) {
        self.prompt_later(text).await;
        let asked = self.reader.wait_for_type("permission.asked").await;
        let id = asked["properties"]["id"].as_str().expect("the id of the request");
        self.client.post(&format!("/permission/{id}/reply"), &json!({"reply": answer})).await.ok();
        self.idle(1).await;
        let messages = self.stage.messages(&self.session).await;
        let user = messages.iter().rfind(|message| message["info"]["role"] == "user").expect("the prompt");
        self.prompts.insert(phase.to_owned(), user["info"]["id"].as_str().expect("its id").to_owned());
    }

    async fn abort(&mut self) {
        self.prompt_later("SLOW:100 TEXT:100").await;
        self.delta("word2 ").await;
        self.post("abort", &json!({})).await;
        self.until("the message with its error", |events| {
            events.iter().any(|event| event.pointer("/properties/info/error").is_some())
        })
        .await;
        self.idle(1).await;
    }

    async fn prompt_while_busy(&mut self, phase: &str) {
        self.prompt_later("SLOW:50 TEXT:30").await;
        self.delta("word5 ").await;
        self.prompt(phase, "SAY:while busy").await;
    }

    /// Waits for a piece of streamed text.
    async fn delta(&mut self, text: &str) {
        self.reader.wait_for(|data| data.pointer("/properties/delta") == Some(&json!(text))).await;
    }

    /// The last message and its last part.
    async fn last(&self) -> (String, String) {
        let messages = self.stage.messages(&self.session).await;
        let parts = messages.last().expect("a message")["parts"].as_array().expect("its parts").clone();
        let part = parts.last().expect("a part");
        let text = |key: &str| part[key].as_str().expect("an id").to_owned();
        (text("messageID"), text("id"))
    }

    async fn post(&self, action: &str, body: &Value) -> Value {
        self.client.post(&format!("/session/{}/{action}", self.session), body).await.ok().json()
    }

    async fn patch(&self, body: &Value) {
        self.client.patch(&format!("/session/{}", self.session), body).await.ok();
    }

    async fn delete(&self, path: &str) {
        self.client.delete(&format!("/session/{}{path}", self.session)).await.ok();
    }

    /// Waits until the session has become idle `times` times in this phase.
    async fn idle(&mut self, times: usize) {
        let idle = json!({"sessionID": self.session});
        self.until("the session to be idle", |events| {
            let mine =
                events.iter().filter(|event| event["type"] == "session.idle" && event["properties"] == idle);
            mine.count() >= times
        })
        .await;
    }

    /// Waits until the events of this phase fulfil `wanted`.
    async fn until(&mut self, what: &str, wanted: impl Fn(&[Value]) -> bool) {
        let waiting = async {
            while !wanted(&self.events()) {
                self.reader.wait_for(|_| true).await;
            }
        };
        within(what, waiting).await;
    }

    /// The events of this phase so far.
    fn events(&self) -> Vec<Value> {
        let own = |event: &Value| {
            let session = event.pointer("/properties/sessionID").and_then(Value::as_str);
            !self.marks.iter().any(|mark| Some(mark.as_str()) == session)
        };
        self.reader.seen().into_iter().skip(self.start).map(|received| received.data).filter(own).collect()
    }

    async fn begin(&mut self) {
        self.mark().await;
        self.start = self.reader.seen().len();
    }

    async fn end(&mut self) -> Vec<Value> {
        self.settled().await;
        if self.afterthought {
            tokio::time::sleep(AFTERTHOUGHT).await;
        }
        self.mark().await;
        self.events()
    }

    /// Waits until the session does not work any more: it sums up after it has said that it is idle.
    async fn settled(&self) {
        let settled = async {
            loop {
                let statuses = self.client.get("/session/status").await.ok().json();
                if statuses.get(&self.session).is_none_or(|status| status["type"] == "idle") {
                    return;
                }
                tokio::time::sleep(GLANCE).await;
            }
        };
        within("the session to settle", settled).await;
    }

    /// Makes a session and waits for its event: whatever was said before has arrived then.
    async fn mark(&mut self) {
        let id = self.stage.session("mark").await;
        self.marks.push(id.clone());
        let made = |data: &Value| {
            data["type"] == "session.created" && data["properties"]["sessionID"] == id.as_str()
        };
        self.reader.wait_for(made).await;
    }
}
