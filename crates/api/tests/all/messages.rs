//! Prompts, answers, and messages afterwards.

use everturn_testkit::within;
use serde_json::json;

use crate::support::Face;

#[tokio::test]
async fn what_a_model_was_sent_is_shown_by_the_number_of_its_turn() {
    // Every number was refused.
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt(&id, "SAY:one").await;
    face.prompt(&id, "SAY:two").await;
    let shown = async |query: &str| {
        let sent = face.client.get(&format!("/everturn/session/{id}/request{query}")).await.ok().json();
        let asked = sent["body"]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        (sent["turn"].as_u64().unwrap(), asked)
    };
    assert_eq!(shown("?turn=1").await, (1, json!("SAY:one")));
    for newest in ["?turn=2", "?turn=", ""] {
        assert_eq!(shown(newest).await, (2, json!("SAY:two")), "{newest}");
    }
    for (query, words) in [
        ("0", "turn must be a whole number from 1 on, not \"0\""),
        ("x", "turn must be a whole number from 1 on, not \"x\""),
        ("3", "there is no turn 3: the conversation has 2"),
    ] {
        let refused = face.client.get(&format!("/everturn/session/{id}/request?turn={query}")).await;
        assert_eq!(refused.status, 400, "{query}");
        let said = refused.json().to_string();
        assert!(said.contains(&words.replace('"', "\\\"")), "{query}: {said}");
    }
}

#[tokio::test]
async fn a_prompt_is_answered_with_the_final_message() {
    let face = Face::start().await;
    let id = face.session().await;
    let answer = face.prompt(&id, "SAY:two words").await;
    let info = &answer["info"];
    assert_eq!((info["role"].as_str(), info["finish"].as_str()), (Some("assistant"), Some("stop")));
    assert_eq!((info["providerID"].as_str(), info["modelID"].as_str()), (Some("fake"), Some("fake-1")));
    assert_eq!(info["path"], json!({"cwd": face.repo.dir(), "root": face.repo.dir()}));
    assert!(info["time"]["completed"].is_i64());
    assert!(info["tokens"]["input"].as_u64().unwrap() > 0);
    assert_eq!(Face::text(&answer), "two words");
    let kinds: Vec<_> = answer["parts"].as_array().unwrap().iter().map(|part| part["type"].clone()).collect();
    assert_eq!(kinds, ["step-start", "text", "step-finish"]);
    let messages = face.messages(&id).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1], answer);
    assert_eq!(messages[0]["info"]["id"], info["parentID"]);
    let one = face.client.get(&format!("/session/{id}/message/{}", info["id"].as_str().unwrap())).await.ok();
    assert_eq!(one.json(), answer);
    // A session without a name of its own gets one; this one has one.
    assert_eq!(face.client.get(&format!("/session/{id}")).await.ok().json()["title"], "test");
}

#[tokio::test]
async fn a_tool_call_is_shown_with_its_result() {
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt(&id, "TOOL:bash:echo hi").await;
    let messages = face.messages(&id).await;
    assert_eq!(messages.len(), 3);
    let parts = messages[1]["parts"].as_array().unwrap();
    let tool = parts.iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!((tool["tool"].as_str(), tool["state"]["status"].as_str()), (Some("bash"), Some("completed")));
    assert_eq!(tool["state"]["output"], "hi\n");
    assert_eq!(tool["messageID"], messages[1]["info"]["id"]);
}

#[tokio::test]
async fn no_reply_and_client_chosen_ids() {
    let face = Face::start().await;
    let id = face.session().await;
    let body = json!({
        "messageID": "msg_1dd26b678001xsgWsFmC5jmwSd",
        "noReply": true,
        "parts": [{"id": "prt_1dd26b67d00123q1D4ZnUsZssq", "type": "text", "text": "for later"}],
    });
    let path = format!("/session/{id}/message");
    let shown = face.client.post(&path, &body).await.ok().json();
    assert_eq!(
        (shown["info"]["role"].as_str(), shown["info"]["id"].as_str()),
        (Some("user"), Some("msg_1dd26b678001xsgWsFmC5jmwSd"))
    );
    assert_eq!(shown["parts"][0]["id"], "prt_1dd26b67d00123q1D4ZnUsZssq");
    // The same again is the same; something else under that id is not.
    face.client.post(&path, &body).await.ok();
    let mut other = body.clone();
    other["parts"][0]["text"] = json!("something else");
    let refused = face.client.post(&path, &other).await;
    assert_eq!((refused.status, refused.json()["name"].as_str()), (409, Some("ConflictError")));
    within("the session to settle", face.engine.drains().settled(&id.as_str().into())).await;
    assert_eq!(face.messages(&id).await.len(), 1);
    assert_eq!(face.model.prompts().len(), 0);
    let answer = face.prompt(&id, "SAY:now").await;
    assert_eq!(Face::text(&answer), "now");
}

#[tokio::test]
async fn pages_go_back_from_the_newest() {
    let face = Face::start().await;
    let id = face.session().await;
    for word in ["one", "two", "three"] {
        face.prompt(&id, &format!("SAY:{word}")).await;
    }
    let all = face.messages(&id).await;
    assert_eq!(all.len(), 6);
    let mut path = format!("/session/{id}/message?limit=4");
    let newest = face.client.get(&path).await.ok();
    assert_eq!(newest.json().as_array().unwrap(), &all[2..]);
    // A client that knows only the document has to find the cursor there.
    let document = everturn_api::openapi();
    let told = &document["paths"]["/session/{sessionID}/message"]["get"]["responses"]["200"]["headers"];
    for name in ["x-next-cursor", "link"] {
        assert!(newest.header(name).is_some() && told[name]["schema"]["type"] == "string", "{name}: {told}");
    }
    let cursor = newest.header("x-next-cursor").unwrap();
    assert!(newest.header("link").unwrap().contains(cursor));
    path = format!("{path}&before={cursor}");
    let rest = face.client.get(&path).await.ok();
    assert_eq!(rest.json().as_array().unwrap(), &all[..2]);
    assert_eq!(rest.header("x-next-cursor"), None);
    let whole = face.client.get(&format!("/session/{id}/message?limit=6")).await.ok();
    assert_eq!(whole.json().as_array().unwrap(), &all);
    assert_eq!(whole.header("x-next-cursor"), None);
    for bad in ["limit=2&before=!!", "limit=2&before=bXNnX25vbmU", "before=bXNnX25vbmU"] {
        assert_eq!(face.client.get(&format!("/session/{id}/message?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_message_and_a_page_are_what_the_list_has() {
    // Each is read by itself; the results of its calls are entries of their own and must come with it.
    let face = Face::start().await;
    let id = face.session().await;
    for word in ["one", "two", "three"] {
        face.prompt(&id, &format!("TOOL:bash:echo {word}\nSAY:{word}")).await;
    }
    let all = face.messages(&id).await;
    assert_eq!(all.len(), 9);
    let calls = all.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let ended = calls.filter(|part| part["type"] == "tool" && part["state"]["status"] == "completed");
    assert_eq!(ended.count(), 3, "{all:#?}");
    for message in &all {
        let path = format!("/session/{id}/message/{}", message["info"]["id"].as_str().unwrap());
        assert_eq!(&face.client.get(&path).await.ok().json(), message);
    }
    for limit in 1..=all.len() {
        let (mut pages, mut path) = (Vec::new(), format!("/session/{id}/message?limit={limit}"));
        loop {
            let page = face.client.get(&path).await.ok();
            pages.splice(..0, page.json().as_array().unwrap().clone());
            let Some(cursor) = page.header("x-next-cursor") else { break };
            path = format!("/session/{id}/message?limit={limit}&before={cursor}");
        }
        assert_eq!(pages, all, "pages of {limit}");
    }
}

#[tokio::test]
async fn messages_and_parts_can_be_taken_out_and_changed() {
    let face = Face::start().await;
    let id = face.session().await;
    let answer = face.prompt(&id, "SAY:first words").await;
    let message = answer["info"]["id"].as_str().unwrap();
    let mut part = answer["parts"][1].clone();
    let path = format!("/session/{id}/message/{message}/part/{}", part["id"].as_str().unwrap());
    part["text"] = json!("other words");
    assert_eq!(face.client.patch(&path, &part).await.ok().json(), part);
    assert_eq!(Face::text(&face.messages(&id).await[1]), "other words");
    let mut elsewhere = part.clone();
    elsewhere["messageID"] = json!("msg_other");
    assert_eq!(face.client.patch(&path, &elsewhere).await.status, 400);
    assert_eq!(face.client.delete(&path).await.ok().json(), json!(true));
    assert_eq!(Face::text(&face.messages(&id).await[1]), "");
    let path = format!("/session/{id}/message/{message}");
    assert_eq!(face.client.delete(&path).await.ok().json(), json!(true));
    assert_eq!(face.messages(&id).await.len(), 1);
    assert_eq!(face.client.get(&path).await.status, 404);
    assert_eq!(face.client.delete(&format!("/session/{id}/message/msg_none")).await.status, 404);
}

#[tokio::test]
async fn abort_settles_what_was_said_so_far() {
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt_async(&id, "HOLD:a\nSAY:never the end").await;
    face.model.held("a").await;
    let status = face.client.get("/session/status").await.ok().json();
    assert_eq!(status, json!({id.as_str(): {"type": "busy"}}));
    let busy = face
        .client
        .delete(&format!(
            "/session/{id}/message/{}",
            face.messages(&id).await[0]["info"]["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!((busy.status, busy.json()["_tag"].as_str()), (409, Some("SessionBusyError")));
    let abort = face.client.send("POST".parse().unwrap(), &format!("/session/{id}/abort"), None).await;
    assert_eq!(abort.ok().json(), json!(true));
    face.model.abandoned("a").await;
    let messages = face.messages(&id).await;
    assert_eq!(messages[1]["info"]["error"]["name"], "MessageAbortedError");
    assert!(messages[1]["info"]["time"]["completed"].is_i64());
    assert_eq!(face.client.get("/session/status").await.ok().json(), json!({}));
    // Without work it does nothing.
    face.client.post(&format!("/session/{id}/abort"), &json!({})).await.ok();
    assert_eq!(face.client.post("/session/ses_none/abort", &json!({})).await.status, 404);
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_session_working() {
    let face = Face::start().await;
    let id = face.session().await;
    let (client, path) = (face.client.clone(), format!("/session/{id}/message"));
    let waiting = tokio::spawn(async move {
        client.post(&path, &json!({"parts": [{"type": "text", "text": "HOLD:b\nSAY:done"}]})).await
    });
    face.model.held("b").await;
    waiting.abort();
    face.model.release("b");
    within("the session to settle", face.engine.drains().settled(&id.as_str().into())).await;
    assert_eq!(Face::text(&face.messages(&id).await[1]), "done");
}
