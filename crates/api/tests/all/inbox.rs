//! The inbox from outside: prompts that wait are added, listed, changed, put in another order and taken back.

use everturn_testkit::within;
use serde_json::{Value, json};

use crate::support::{Face, error};

async fn add(face: &Face, id: &str, text: &str, more: Value) -> String {
    let mut body = json!({"parts": [{"type": "text", "text": text}], "resume": false});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let added = face.client.post(&format!("/everturn/session/{id}/inbox"), &body).await.ok().json();
    added["message"]["info"]["id"].as_str().unwrap().to_owned()
}

fn in_short(inbox: &Value) -> (bool, Vec<(String, String)>) {
    let prompts = inbox["prompts"].as_array().unwrap().iter();
    let short =
        |prompt: &Value| (Face::text(&prompt["message"]), prompt["delivery"].as_str().unwrap().to_owned());
    (inbox["held"].as_bool().unwrap(), prompts.map(short).collect())
}

async fn check(face: &Face, id: &str, expected: &[(&str, &str)]) {
    let inbox = face.client.get(&format!("/everturn/session/{id}/inbox")).await.ok().json();
    let expected = expected.iter().map(|(text, delivery)| ((*text).to_owned(), (*delivery).to_owned()));
    assert_eq!(in_short(&inbox), (!inbox["prompts"].as_array().unwrap().is_empty(), expected.collect()));
}

async fn said(face: &Face, id: &str) -> Vec<String> {
    face.messages(id).await.iter().map(Face::text).collect()
}

#[tokio::test]
async fn prompts_that_wait_are_in_a_clients_hands() {
    let face = Face::start().await;
    let id = face.session().await;
    let a = add(&face, &id, "SAY:a", json!({})).await;
    let b = add(&face, &id, "SAY:b", json!({"delivery": "queue"})).await;
    let c = add(&face, &id, "SAY:c", json!({"delivery": "steer"})).await;
    check(&face, &id, &[("SAY:a", "steer"), ("SAY:b", "queue"), ("SAY:c", "steer")]).await;
    let one = |message: &str| format!("/everturn/session/{id}/inbox/{message}");
    let text = json!({"prompt": {"parts": [{"type": "text", "text": "SAY:other"}]}, "delivery": "queue"});
    let changed = face.client.patch(&one(&c), &text).await.ok().json();
    assert_eq!(
        (&changed["promoted"], Face::text(&changed["prompt"]["message"])),
        (&json!(false), "SAY:other".into())
    );
    let order = json!({"messageIDs": [c, b]});
    let ordered = face.client.post(&format!("/everturn/session/{id}/inbox-order"), &order).await.ok().json();
    let expected = [("SAY:other", "queue"), ("SAY:b", "queue"), ("SAY:a", "steer")];
    assert_eq!(in_short(&ordered).1, expected.map(|(text, delivery)| (text.to_owned(), delivery.to_owned())));
    check(&face, &id, &expected).await;
    let cancelled = face.client.delete(&one(&b)).await.ok().json();
    assert_eq!(
        (&cancelled["promoted"], Face::text(&cancelled["prompt"]["message"])),
        (&json!(false), "SAY:b".into())
    );
    let resume = format!("/everturn/session/{id}/resume");
    assert_eq!(face.client.post(&resume, &json!({})).await.ok().json(), json!({"resumed": true}));
    // What comes while they wait for their turn would be answered together with them.
    within("the session to settle", face.engine.drains().settled(&id.as_str().into())).await;
    face.prompt(&id, "SAY:last").await;
    assert_eq!(face.client.post(&resume, &json!({})).await.ok().json(), json!({"resumed": false}));
    check(&face, &id, &[]).await;
    let heard = said(&face, &id).await;
    assert!(heard.contains(&"a".to_owned()) && heard.contains(&"other".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|text| text == "SAY:b" || text == "SAY:c"), "{heard:?}");
    // Who comes too late is told so.
    for reply in [face.client.delete(&one(&a)).await, face.client.patch(&one(&a), &text).await] {
        assert_eq!(reply.ok().json(), json!({"promoted": true}));
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let face = Face::start().await;
    let id = face.session().await;
    let waiting = add(&face, &id, "SAY:a", json!({})).await;
    let inbox = format!("/everturn/session/{id}/inbox");
    let nothing = face.client.patch(&format!("{inbox}/{waiting}"), &json!({})).await;
    assert_eq!((nothing.status, error(&nothing.json()).0), (400, "BadRequest"));
    for (method, path, body) in [
        ("post", inbox.clone(), json!({"parts": [{"type": "text", "text": "x"}], "delivery": "soon"})),
        ("post", inbox.clone(), json!({"parts": []})),
        ("post", format!("/everturn/session/{id}/inbox-order"), json!({"messageIDs": ["nonsense"]})),
    ] {
        let reply = face.client.post(&path, &body).await;
        assert_eq!(reply.status, 400, "{method} {path} {body}");
    }
    let unknown = json!({"messageIDs": ["msg_1dd26b678001xsgWsFmC5jmwSd"]});
    let reply = face.client.post(&format!("/everturn/session/{id}/inbox-order"), &unknown).await;
    assert_eq!(reply.status, 404);
    assert_eq!(face.client.delete(&format!("{inbox}/msg_1dd26b678001xsgWsFmC5jmwSd")).await.status, 404);
    assert_eq!(face.client.get("/everturn/session/ses_1dd26b678001xsgWsFmC5jmwSd/inbox").await.status, 404);
    check(&face, &id, &[("SAY:a", "steer")]).await;
}

#[tokio::test]
async fn a_client_of_opencode_takes_back_what_waits_by_deleting_the_message() {
    let face = Face::start().await;
    let id = face.session().await;
    let waiting = add(&face, &id, "SAY:a", json!({})).await;
    assert_eq!(said(&face, &id).await, ["SAY:a"]);
    face.client.delete(&format!("/session/{id}/message/{waiting}")).await.ok();
    assert_eq!(said(&face, &id).await, Vec::<String>::new());
    check(&face, &id, &[]).await;
    face.prompt(&id, "SAY:b").await;
    assert_eq!(said(&face, &id).await, ["SAY:b", "b"]);
}

#[tokio::test]
async fn a_client_of_opencode_changes_what_waits_part_by_part() {
    // It was told that there is no such message, which it was shown a moment before.
    let face = Face::start().await;
    let id = face.session().await;
    let url = format!("file://{}/a.txt", face.repo.path().display());
    let parts = json!([
        {"type": "text", "text": "SAY:a"},
        {"type": "file", "mime": "text/plain", "url": url},
    ]);
    let waiting = add(&face, &id, "", json!({ "parts": parts })).await;
    let shown = face.messages(&id).await[0]["parts"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 3, "with what the model is told: {shown}");
    let path =
        |part: &Value| format!("/session/{id}/message/{waiting}/part/{}", part["id"].as_str().unwrap());
    let mut text = shown[0].clone();
    text["text"] = json!("SAY:other");
    assert_eq!(face.client.patch(&path(&text), &text).await.ok().json(), text);
    let refused = face.client.patch(&path(&shown[2]), &shown[2]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("is not a text, and waits"), "{}", refused.body);
    assert_eq!(face.client.delete(&path(&shown[2])).await.ok().json(), json!(true));
    assert_eq!(face.messages(&id).await[0]["parts"], json!([text]));
    assert_eq!(face.client.delete(&path(&shown[2])).await.status, 404);
    let last = face.client.delete(&path(&text)).await;
    assert_eq!(last.status, 400);
    assert!(last.body.contains("take the prompt back instead"), "{}", last.body);
    face.client.post(&format!("/everturn/session/{id}/resume"), &json!({})).await.ok();
    face.prompt(&id, "SAY:b").await;
    assert!(said(&face, &id).await.contains(&"other".to_owned()));
    assert!(!face.model.prompts()[0].to_string().contains("a.txt"));
}

#[tokio::test]
async fn a_client_of_opencode_goes_back_to_what_waits() {
    let face = Face::start().await;
    let id = face.session().await;
    let mut waiting = Vec::new();
    for text in ["SAY:a", "SAY:b", "SAY:c"] {
        waiting.push(add(&face, &id, text, json!({})).await);
    }
    let (revert, body) = (format!("/session/{id}/revert"), json!({"messageID": waiting[1]}));
    let staged = face.client.post(&revert, &body).await.ok().json();
    assert_eq!(staged["revert"]["messageID"], json!(waiting[1]));
    let back = face.client.post(&format!("/session/{id}/unrevert"), &json!({})).await.ok().json();
    assert_eq!(back["revert"], Value::Null);
    check(&face, &id, &[("SAY:a", "steer"), ("SAY:b", "steer"), ("SAY:c", "steer")]).await;
    face.client.post(&revert, &body).await.ok();
    face.prompt(&id, "SAY:d").await;
    assert_eq!(said(&face, &id).await, ["SAY:a", "SAY:d", "d"]);
    check(&face, &id, &[]).await;
}

#[tokio::test]
async fn a_prompt_that_waits_attaches_lines_and_is_read_again_when_it_is_changed() {
    let face = Face::start().await;
    let id = face.session().await;
    let path = face.repo.path().join("lines.txt");
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let parts = |lines: &str| {
        let url = format!("file://{}?{lines}", path.display());
        json!([{"type": "text", "text": "SAY:a"}, {"type": "file", "mime": "text/plain", "url": url}])
    };
    let waiting = add(&face, &id, "", json!({"parts": parts("start=2&end=2")})).await;
    std::fs::write(&path, "one\ntwo\nnew\n").unwrap();
    let change = json!({"prompt": {"parts": parts("start=2&end=3")}});
    face.client.patch(&format!("/everturn/session/{id}/inbox/{waiting}"), &change).await.ok();
    face.prompt(&id, "SAY:b").await;
    let told = face.model.prompts()[0].to_string();
    let expected = format!("Lines 2 to 3 of the attached file {}:\\ntwo\\nnew\\n", path.display());
    assert!(told.contains(&expected) && !told.contains("Lines 2 to 2"), "{told}");
}

#[tokio::test]
async fn no_more_prompts_wait_than_can_be_answered() {
    let face = Face::start().await;
    let id = face.session().await;
    let path = format!("/everturn/session/{id}/inbox");
    let body = json!({"parts": [{"type": "text", "text": "SAY:a"}], "resume": false});
    // Many at a time: each waits for the disk.
    for _ in 0..20 {
        let some = (0..50).map(|_| face.client.post(&path, &body));
        let replies = futures_util::future::join_all(some).await;
        assert!(
            replies.iter().all(|reply| reply.status == 200),
            "{:?}",
            replies.first().map(|reply| &reply.body)
        );
    }
    let refused = face.client.post(&path, &body).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("1000 prompts wait in session"), "{}", refused.body);
    let listed = face.client.get(&path).await.ok().json();
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 1_000);
    let first = listed["prompts"][0]["message"]["info"]["id"].as_str().unwrap().to_owned();
    face.client.delete(&format!("{path}/{first}")).await.ok();
    assert_eq!(face.client.post(&path, &body).await.status, 200, "there is room for one");
}
