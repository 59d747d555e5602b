//! The two event streams.

use everturn_model::SessionId;
use serde_json::{Value, json};

use crate::support::Face;

fn kind(event: &Value) -> String {
    event["type"].as_str().unwrap_or_default().to_owned()
}

/// What a text turn shows, without what is repeated as often as a server likes.
fn outline(events: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for event in events {
        let properties = &event["properties"];
        let line = match kind(event).as_str() {
            "message.part.updated" => format!("part {}", properties["part"]["type"].as_str().unwrap()),
            "message.updated" => format!("message {}", properties["info"]["role"].as_str().unwrap()),
            "session.status" => format!("status {}", properties["status"]["type"].as_str().unwrap()),
            "session.updated" | "session.diff" | "server.heartbeat" => continue,
            other => other.to_owned(),
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

#[tokio::test]
async fn a_text_turn_in_the_recorded_order() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    events.wait_for_type("server.connected").await;
    let answer = face.prompt(&id, "SAY:two words").await;
    events.wait_for_type("session.idle").await;
    let seen: Vec<Value> = events.seen().into_iter().map(|received| received.data).collect();
    let mut lines = outline(&seen);
    let idle = lines.iter().position(|line| line == "session.idle").unwrap();
    lines.truncate(idle + 1);
    // The summary of what changed may come at any place of the turn.
    let user = lines.iter().position(|line| line == "message user").unwrap();
    let mut at = 0;
    lines.retain(|line| {
        at += 1;
        at - 1 == user || line != "message user"
    });
    assert_eq!(
        lines,
        [
            "server.connected",
            "message user",
            "part text",
            "status busy",
            "message assistant",
            "part step-start",
            "part text",
            "message.part.delta",
            "part text",
            "part step-finish",
            "message assistant",
            "status idle",
            "session.idle",
        ]
    );
    let deltas = seen.iter().filter(|event| kind(event) == "message.part.delta");
    let text: String = deltas.clone().map(|event| event["properties"]["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "two words");
    let delta = deltas.clone().next().unwrap();
    let part = &answer["parts"][1];
    assert_eq!(delta["properties"]["partID"], part["id"]);
    assert_eq!(delta["properties"]["messageID"], answer["info"]["id"]);
    assert_eq!(delta["properties"]["field"], "text");
    let last = seen.iter().rfind(|event| event["properties"]["part"]["id"] == part["id"]).unwrap();
    assert_eq!(&last["properties"]["part"], part);
    let mut ids: Vec<&str> = seen.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert!(ids.iter().all(|id| id.starts_with("evt_")));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "every event has its own id");
}

#[tokio::test]
async fn the_global_stream_names_the_place() {
    let face = Face::start().await;
    let mut events = face.client.events("/global/event").await;
    let connected = events.wait_for(|_| true).await;
    assert_eq!(connected["payload"]["type"], "server.connected");
    assert_eq!(connected.get("directory"), None);
    let id = face.session().await;
    let created = events.wait_for(|event| event["payload"]["type"] == "session.created").await;
    assert_eq!(created["directory"], face.repo.dir());
    assert_eq!(created["payload"]["properties"]["info"]["id"], id);
    assert_eq!(created["project"], created["payload"]["properties"]["info"]["projectID"]);
    face.client.patch(&format!("/session/{id}"), &json!({"title": "new name"})).await.ok();
    let updated = events.wait_for(|event| event["payload"]["type"] == "session.updated").await;
    assert_eq!(updated["payload"]["properties"]["info"]["title"], "new name");
    face.client.delete(&format!("/session/{id}")).await.ok();
    let deleted = events.wait_for(|event| event["payload"]["type"] == "session.deleted").await;
    assert_eq!(deleted["payload"]["properties"]["sessionID"], id);
}

#[tokio::test]
async fn a_session_that_a_command_deletes_for_good_is_gone_for_clients_too() {
    // No event of its log can say so: clients had it in their lists until they asked again.
    let face = Face::start().await;
    let (mut global, mut here) =
        (face.client.events("/global/event").await, face.client.events("/event").await);
    here.wait_for_type("server.connected").await;
    global.wait_for(|event| event["payload"]["type"] == "server.connected").await;
    let id = face.session().await;
    let created = here.wait_for_type("session.created").await["properties"]["info"].clone();
    // It is used after it was made.
    let made = created["time"]["created"].as_u64().unwrap();
    while std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() <= u128::from(made) {
        tokio::task::yield_now().await;
    }
    face.prompt(&id, "SAY:hello").await;
    let known = face.client.get(&format!("/session/{id}")).await.ok().json();
    assert_ne!(known["time"]["created"], known["time"]["updated"]);
    let command = face.command().await;
    command.trash().purge(&SessionId::new(id.as_str())).await.unwrap();
    let deleted = here.wait_for_type("session.deleted").await;
    assert_eq!(deleted["properties"]["sessionID"], id);
    // It said that the session was made now, by this version.
    let info = &deleted["properties"]["info"];
    for field in ["id", "projectID", "directory", "time"] {
        assert_eq!(info[field], known[field], "{field}");
    }
    for field in ["title", "version", "slug"] {
        assert_eq!(info[field], "", "{field} is gone for good");
    }
    let deleted = global.wait_for(|event| event["payload"]["type"] == "session.deleted").await;
    assert_eq!(deleted["directory"], face.repo.dir());
    assert_eq!(deleted["payload"]["properties"]["info"]["id"], id);
}

#[tokio::test]
async fn a_stream_shows_its_own_place_only() {
    let face = Face::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().canonicalize().unwrap().display().to_string().replace('/', "%2F");
    let mut here = face.client.events("/event").await;
    let mut there = face.client.events(&format!("/event?directory={other}")).await;
    here.wait_for_type("server.connected").await;
    there.wait_for_type("server.connected").await;
    // In turns, and the last one of each place comes after all of the other's: what was passed on wrongly has arrived.
    let (mut made_here, mut made_there) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        made_here.push(json!(face.session().await));
        let body = json!({"title": "there"});
        let made = face.client.post(&format!("/session?directory={other}"), &body).await.ok().json();
        made_there.push(made["id"].clone());
    }
    made_here.push(json!(face.session().await));
    for (events, made) in [(&mut here, &made_here), (&mut there, &made_there)] {
        let last = made.last().unwrap();
        events.wait_for(|event| event["properties"]["sessionID"] == *last).await;
        let seen: Vec<Value> = events.seen().into_iter().map(|received| received.data).collect();
        let seen = seen.iter().filter(|event| kind(event) != "server.heartbeat");
        let seen: Vec<(String, Value)> =
            seen.map(|event| (kind(event), event["properties"]["sessionID"].clone())).collect();
        let mut expected = vec![("server.connected".to_owned(), Value::Null)];
        expected.extend(made.iter().map(|id| ("session.created".to_owned(), id.clone())));
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn headers_of_a_stream() {
    let face = Face::start().await;
    for path in ["/event", "/global/event"] {
        let events = face.client.events(path).await;
        assert_eq!(events.header("content-type"), Some("text/event-stream"), "{path}");
        assert!(events.header("cache-control").unwrap().contains("no-cache"), "{path}");
        assert_eq!(events.header("x-accel-buffering"), Some("no"), "{path}");
    }
    let mut events = face.client.events("/global/event").await;
    let first = events.wait_for_event(|_| true).await;
    assert!(first.text.starts_with("{\"payload\":{\"id\":\"evt_"), "{}", first.text);
}

#[tokio::test]
async fn closing_ends_streams_and_the_server() {
    let mut face = Face::start().await;
    let mut events = face.client.events("/event").await;
    events.wait_for_type("server.connected").await;
    face.closing.cancel();
    events.ended().await;
    let served = face.served.take().unwrap();
    everturn_testkit::within("the server to end", served).await.unwrap();
}

#[tokio::test]
async fn a_failure_is_an_event() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut events = face.client.events("/event").await;
    let answer = face.prompt(&id, "ERR:400").await;
    assert_eq!(answer["info"]["error"]["name"], "APIError");
    let failed = events.wait_for_type("session.error").await;
    assert_eq!(failed["properties"]["sessionID"], id);
    assert_eq!(failed["properties"]["error"]["name"], "APIError");
    events.wait_for_type("session.idle").await;
}
