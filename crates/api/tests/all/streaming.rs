//! Text while it streams: however a client mixes what it loads with what it is told, it shows each word once.

use std::collections::{HashMap, HashSet};

use everturn_testkit::http::EventReader;
use serde_json::{Value, json};

use crate::support::Face;

/// Keeps parts as OpenCode's terminal does: a whole part replaces, a piece of text is appended to a part that is
/// known. What the client was told while it loaded the messages counts more than what it loaded; so does a text that
/// it has over an empty one.
#[derive(Default)]
struct Client {
    texts: HashMap<String, String>,
    told: HashSet<String>,
}

impl Client {
    /// What a client shows that begins to load the messages after some events and has them after some more.
    fn showing(events: &[Value], messages: &[Value], began: usize, loaded: usize) -> String {
        let mut client = Self::default();
        events[..began].iter().for_each(|event| client.hear(event));
        client.told.clear();
        events[began..loaded].iter().for_each(|event| client.hear(event));
        client.load(messages);
        events[loaded..].iter().for_each(|event| client.hear(event));
        let answer = messages.last().unwrap()["parts"].as_array().unwrap().iter();
        let texts = answer.filter(|part| part["type"] == "text");
        texts.map(|part| client.texts[part["id"].as_str().unwrap()].as_str()).collect()
    }

    fn hear(&mut self, event: &Value) {
        let properties = &event["properties"];
        match event["type"].as_str().unwrap() {
            "message.part.updated" => {
                let (id, text) = text_of(&properties["part"]);
                self.told.insert(id.clone());
                self.texts.insert(id, text);
            }
            "message.part.delta" => {
                let id = properties["partID"].as_str().unwrap();
                if let Some(text) = self.texts.get_mut(id) {
                    self.told.insert(id.to_owned());
                    text.push_str(properties["delta"].as_str().unwrap());
                }
            }
            _ => {}
        }
    }

    fn load(&mut self, messages: &[Value]) {
        for part in messages.iter().flat_map(|message| message["parts"].as_array().unwrap()) {
            let (id, text) = text_of(part);
            let keeps = self.texts.get(&id).is_some_and(|own| text.is_empty() && !own.is_empty());
            if !self.told.contains(&id) && !keeps {
                self.texts.insert(id, text);
            }
        }
    }
}

fn text_of(part: &Value) -> (String, String) {
    (part["id"].as_str().unwrap().to_owned(), part["text"].as_str().unwrap_or_default().to_owned())
}

/// Whatever the moment at which a client loads the messages, it shows `expected` in the end.
fn check(events: &[Value], messages: &[Value], expected: &str) {
    for loaded in 0..=events.len() {
        for began in 0..=loaded {
            let shown = Client::showing(events, messages, began, loaded);
            assert_eq!(shown, expected, "loaded from event {began} to {loaded} of {events:#?}");
        }
    }
}

fn heard(events: &EventReader) -> Vec<Value> {
    events.seen().into_iter().map(|received| received.data).collect()
}

fn delta<'a>(text: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |event| event["properties"]["delta"] == text
}

fn ended(event: &Value) -> bool {
    let part = &event["properties"]["part"];
    part["type"] == "text" && part["time"]["end"].is_i64()
}

#[tokio::test]
async fn text_is_shown_once_whenever_the_messages_are_loaded() {
    // The messages had the text so far, and clients appended the pieces of it that reached them later.
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    events.wait_for_type("server.connected").await;
    face.prompt_async(&id, "HOLD:a SAY:never to be finished").await;
    face.model.held("a").await;
    events.wait_for(delta("be ")).await;
    let messages = face.messages(&id).await;
    assert_eq!(Face::text(&messages[1]), "", "as it is stored: the rest is on the event stream");
    let answer = messages[1]["info"]["id"].as_str().unwrap();
    let alone = face.client.get(&format!("/session/{id}/message/{answer}")).await.ok().json();
    assert_eq!(alone, messages[1]);
    check(&heard(&events), &messages, "never to be ");

    face.client.post(&format!("/session/{id}/abort"), &json!({})).await.ok();
    let whole = events.wait_for(ended).await;
    assert_eq!(
        whole["properties"]["part"]["text"], "never to be ",
        "what was interrupted is told as a whole"
    );
    let messages = face.messages(&id).await;
    assert_eq!(Face::text(&messages[1]), "never to be ");
    check(&heard(&events), &messages, "never to be ");
}

#[tokio::test]
async fn who_attaches_in_the_middle_of_a_text_has_all_of_it() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut first = face.client.events("/event").await;
    face.prompt_async(&id, "HOLD:a SAY:one two three").await;
    face.model.held("a").await;
    first.wait_for(delta("two ")).await;

    let mut second = face.client.events("/event").await;
    let mut anywhere = face.client.events("/global/event").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().canonicalize().unwrap().display().to_string().replace('/', "%2F");
    let mut there = face.client.events(&format!("/event?directory={other}")).await;
    second.wait_for_type("message.part.updated").await;
    let wrapped = anywhere.wait_for(|event| event["payload"]["type"] == "message.part.updated").await;
    assert_eq!(wrapped["payload"]["properties"]["part"]["text"], "one two ");
    assert_eq!(wrapped["directory"], face.repo.dir());
    let messages = face.messages(&id).await;
    check(&heard(&second), &messages, "one two ");

    face.model.release("a");
    second.wait_for(delta("three")).await;
    let pieces = heard(&second).into_iter().filter(|event| event["type"] == "message.part.delta").count();
    assert_eq!(pieces, 1, "what came before is in the part, and only there");
    check(&heard(&second), &messages, "one two three");
    second.wait_for_type("session.idle").await;

    // A text that has ended is in the messages, and streams begin without it.
    let mut third = face.client.events("/event").await;
    third.wait_for_type("server.connected").await;
    face.session().await;
    third.wait_for_type("session.created").await;
    let parts = heard(&third).into_iter().filter(|event| event["type"] == "message.part.updated").count();
    assert_eq!(parts, 0);
    let body = json!({"title": "there"});
    face.client.post(&format!("/session?directory={other}"), &body).await.ok();
    there.wait_for_type("session.created").await;
    let kinds: Vec<_> = heard(&there).into_iter().map(|event| event["type"].clone()).collect();
    let kinds: Vec<_> = kinds.into_iter().filter(|kind| kind != "server.heartbeat").collect();
    assert_eq!(kinds, ["server.connected", "session.created"], "another place hears nothing of it");
}
