//! The inbox from outside: prompts that wait are added, listed, changed, put in another order and taken back.

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
