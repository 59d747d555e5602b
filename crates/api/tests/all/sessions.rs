//! Sessions as a whole.

use serde_json::{Value, json};

use crate::support::Face;

#[tokio::test]
async fn a_new_session_looks_as_recorded() {
    let face = Face::start().await;
    let body = json!({"agent": "build", "model": {"providerID": "fake", "id": "fake-1"}});
    let session = face.client.post("/session", &body).await.ok().json();
    assert!(session["id"].as_str().unwrap().starts_with("ses_"));
    assert!(session["title"].as_str().unwrap().starts_with("New session - "));
    assert_eq!(session["directory"], face.repo.dir());
    assert_eq!(session["path"], "");
    assert_eq!(session["agent"], "build");
    assert_eq!(session["model"]["providerID"], "fake");
    assert_eq!(session["cost"], 0);
    assert_eq!(session["tokens"]["cache"]["read"], 0);
    assert!(session["time"]["created"].is_i64() && session["time"]["updated"].is_i64());
    let id = session["id"].as_str().unwrap();
    assert_eq!(face.client.get(&format!("/session/{id}")).await.ok().json(), session);
    for empty in ["children", "todo", "diff", "message"] {
        assert_eq!(
            face.client.get(&format!("/session/{id}/{empty}")).await.ok().json(),
            json!([]),
            "{empty}"
        );
    }
}

#[tokio::test]
async fn a_session_without_a_body_and_with_a_folder_in_the_header() {
    let face = Face::start().await;
    std::fs::create_dir(face.repo.join("sub dir")).unwrap();
    let folder = face.repo.join("sub dir").display().to_string();
    let encoded = folder.replace('/', "%2F").replace(' ', "%20");
    let client = face.client.clone().with_header("x-opencode-directory", &encoded);
    let session = client.send("POST".parse().unwrap(), "/session", None).await.ok().json();
    assert_eq!((session["directory"].as_str(), session["path"].as_str()), (Some(&*folder), Some("sub dir")));
    // The query wins over the header.
    let path = format!("/session?directory={}", face.repo.dir().replace('/', "%2F"));
    let other = client.post(&path, &json!({})).await.ok().json();
    assert_eq!(other["directory"], face.repo.dir());
    let listed = |list: Value| list.as_array().unwrap().len();
    assert_eq!(listed(face.client.get(&format!("/session?directory={encoded}")).await.ok().json()), 1);
    assert_eq!(listed(face.client.get("/session?path=").await.ok().json()), 2);
    assert_eq!(listed(face.client.get("/session?path=sub%20dir").await.ok().json()), 1);
    assert_eq!(listed(face.client.get("/session?path=sub").await.ok().json()), 0);
    assert_eq!(listed(face.client.get("/session").await.ok().json()), 2);
}

#[tokio::test]
async fn lists_are_filtered_and_limited() {
    let face = Face::start().await;
    let mut ids = Vec::new();
    for title in ["first one", "second one", "third"] {
        let session = face.client.post("/session", &json!({"title": title})).await.ok().json();
        ids.push(session["id"].as_str().unwrap().to_owned());
        // Lists are by time; two sessions of one millisecond have no order.
        let made = session["time"]["updated"].as_u64().unwrap();
        while std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() <= u128::from(made) {
            tokio::task::yield_now().await;
        }
    }
    let child =
        face.client.post("/session", &json!({"title": "child", "parentID": ids[0]})).await.ok().json();
    let titles = async |query: &str| {
        let list = face.client.get(&format!("/session?{query}")).await.ok().json();
        list.as_array().unwrap().iter().map(|s| s["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles("").await, ["child", "third", "second one", "first one"]);
    assert_eq!(titles("roots=true&limit=2").await, ["third", "second one"]);
    assert_eq!(titles("search=ONE").await, ["second one", "first one"]);
    assert_eq!(titles("start=99999999999999").await, Vec::<String>::new());
    let children = face.client.get(&format!("/session/{}/children", ids[0])).await.ok().json();
    assert_eq!(children, json!([child]));
    let orphan = face.client.post("/session", &json!({"parentID": "ses_none"})).await;
    assert_eq!(orphan.status, 404);
}

#[tokio::test]
async fn rename_archive_rules_and_delete() {
    let face = Face::start().await;
    let id = face.session().await;
    let path = format!("/session/{id}");
    let renamed = face.client.patch(&path, &json!({"title": "better"})).await.ok().json();
    assert_eq!(renamed["title"], "better");
    let archived = face.client.patch(&path, &json!({"time": {"archived": 5.0}})).await.ok().json();
    assert_eq!(archived["time"]["archived"], 5);
    let back = face.client.patch(&path, &json!({"time": {"archived": null}})).await.ok().json();
    assert_eq!(back["time"].get("archived"), None);
    let rule = |pattern: &str| json!({"permission": "bash", "pattern": pattern, "action": "ask"});
    face.client.patch(&path, &json!({"permission": [rule("a")]})).await.ok();
    let ruled =
        face.client.patch(&path, &json!({"permission": [rule("b")], "metadata": {"x": 1}})).await.ok().json();
    assert_eq!(ruled["permission"], json!([rule("a"), rule("b")]));
    assert_eq!(ruled["metadata"], json!({"x": 1}));
    assert_eq!(face.client.delete(&path).await.ok().json(), json!(true));
    assert_eq!(face.client.get(&path).await.status, 404);
    assert_eq!(face.client.delete(&path).await.status, 404);
    assert_eq!(face.client.get("/session").await.ok().json(), json!([]));
}

#[tokio::test]
async fn a_fork_holds_what_came_before() {
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt(&id, "SAY:one").await;
    face.prompt(&id, "SAY:two").await;
    let messages = face.messages(&id).await;
    let whole =
        face.client.send("POST".parse().unwrap(), &format!("/session/{id}/fork"), None).await.ok().json();
    assert_eq!(whole["title"], "test (fork #1)");
    let copied = face.messages(whole["id"].as_str().unwrap()).await;
    assert_eq!(copied.len(), 4);
    assert_eq!(Face::text(&copied[3]), "two");
    assert_ne!(copied[0]["info"]["id"], messages[0]["info"]["id"]);
    let body = json!({"messageID": messages[2]["info"]["id"]});
    let half = face.client.post(&format!("/session/{id}/fork"), &body).await.ok().json();
    assert_eq!(face.messages(half["id"].as_str().unwrap()).await.len(), 2);
    let missing = face.client.post(&format!("/session/{id}/fork"), &json!({"messageID": "msg_none"})).await;
    assert_eq!(missing.status, 404);
    // The fork is a conversation of its own.
    let answer = face.prompt(half["id"].as_str().unwrap(), "SAY:three").await;
    assert_eq!(Face::text(&answer), "three");
    assert_eq!(face.messages(&id).await.len(), 4);
}

#[tokio::test]
async fn revert_and_unrevert() {
    let face = Face::start().await;
    let id = face.session().await;
    face.prompt(&id, "SAY:one").await;
    let file = face.repo.join("new.txt");
    face.prompt(&id, &format!("TOOL:write:{}=made", file.display())).await;
    assert_eq!(face.repo.read("new.txt"), "made");
    let prompt = face.messages(&id).await[2]["info"]["id"].clone();
    let body = json!({"messageID": prompt});
    let reverted = face.client.post(&format!("/session/{id}/revert"), &body).await.ok().json();
    assert_eq!(reverted["revert"]["messageID"], prompt);
    assert!(!file.exists());
    let back =
        face.client.send("POST".parse().unwrap(), &format!("/session/{id}/unrevert"), None).await.ok().json();
    assert_eq!(back.get("revert"), None);
    assert_eq!(face.repo.read("new.txt"), "made");
    face.client.post(&format!("/session/{id}/revert"), &body).await.ok();
    face.prompt(&id, "SAY:instead").await;
    let messages = face.messages(&id).await;
    assert_eq!(messages.len(), 4);
    assert_eq!(Face::text(&messages[3]), "instead");
    let missing = face.client.post(&format!("/session/{id}/revert"), &json!({"messageID": "msg_none"})).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn what_means_nothing_is_refused() {
    // It was accepted and had no effect.
    let face = Face::start().await;
    let id = face.session().await;
    assert_eq!(face.client.get("/session?scope=nonsense").await.status, 400);
    for scope in ["scope=project", "scope="] {
        face.client.get(&format!("/session?{scope}")).await.ok();
    }
    let path = format!("/session/{id}");
    let refused = face.client.patch(&path, &json!({"time": {"archived": -5}})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(face.client.get(&path).await.ok().json()["time"].get("archived"), None);
    for value in [json!("no"), json!(5), Value::Null] {
        let body =
            json!({"noReply": true, "tools": {"bash": value}, "parts": [{"type": "text", "text": "x"}]});
        let refused = face.client.post(&format!("{path}/message"), &body).await;
        assert_eq!(refused.status, 400, "{value}: {}", refused.body);
    }
    assert_eq!(face.messages(&id).await, Vec::<Value>::new());
    let body = json!({"noReply": true, "tools": {"bash": false}, "parts": [{"type": "text", "text": "x"}]});
    face.client.post(&format!("{path}/message"), &body).await.ok();
}

#[tokio::test]
async fn rules_that_nothing_would_heed_are_refused() {
    // Both were answered with 200, and the session did what its maker had forbidden.
    let face = Face::start().await;
    let session = face.client.post("/session", &json!({"title": "x", "workspaceID": "w"})).await.ok().json();
    let path = format!("/session/{}", session["id"].as_str().unwrap());
    let rule = |name: &str| json!([{"permission": name, "pattern": "*", "action": "deny"}]);
    for (body, named) in [
        (json!({"permissions": rule("bash")}), "`permissions`"),
        (json!({"tools": {"bash": false}}), "`tools`"),
        (json!({"permission": rule("bahs")}), "did you mean `bash`?"),
        (json!({"permission": rule("Bash(rm *)")}), "`Bash(rm *)`"),
    ] {
        for answer in [face.client.post("/session", &body).await, face.client.patch(&path, &body).await] {
            assert_eq!(answer.status, 400, "{body}");
            assert!(answer.body.contains(named), "{body}: {}", answer.body);
        }
    }
    for name in ["bash", "docs_search", "*", "plan_exit"] {
        face.client.post("/session", &json!({"permission": rule(name)})).await.ok();
    }
}

#[tokio::test]
async fn rules_that_are_added_at_once_are_all_kept() {
    // Each was put behind those that had been read before: of eight, six were kept.
    let face = Face::start().await;
    let id = face.session().await;
    let path = format!("/session/{id}");
    let bodies: Vec<_> = (0..8)
        .map(|number| json!({"permission": [{"permission": "bash", "pattern": format!("c{number} *"), "action": "deny"}]}))
        .collect();
    let added = bodies.iter().map(|body| face.client.patch(&path, body));
    for reply in futures_util::future::join_all(added).await {
        reply.ok();
    }
    let session = face.client.get(&path).await.ok().json();
    let mut patterns: Vec<_> = session["permission"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["pattern"].as_str().unwrap())
        .collect();
    patterns.sort_unstable();
    assert_eq!(patterns, ["c0 *", "c1 *", "c2 *", "c3 *", "c4 *", "c5 *", "c6 *", "c7 *"]);
    let many: Vec<_> =
        (0..1000).map(|_| json!({"permission": "bash", "pattern": "x", "action": "deny"})).collect();
    let refused = face.client.patch(&path, &json!({"permission": many})).await;
    assert_eq!(refused.status, 400, "{}", refused.json());
    let after = face.client.get(&path).await.ok().json();
    assert_eq!(after["permission"].as_array().unwrap().len(), 8, "all of it or nothing");
}

#[tokio::test]
async fn a_session_of_a_chosen_id_is_made_once() {
    let face = Face::start().await;
    let id = "ses_0123456789abchosenbyaclient";
    let first = face.client.post("/session", &json!({"id": id, "title": "one"})).await.ok().json();
    assert_eq!((&first["id"], &first["title"]), (&json!(id), &json!("one")));
    let again = face.client.post("/session", &json!({"id": id, "title": "two"})).await.ok().json();
    assert_eq!(again, first);
    assert_eq!(face.client.get("/session").await.ok().json(), json!([first]));
}

#[tokio::test]
async fn a_session_is_moved_to_another_folder() {
    let face = Face::start().await;
    let session = face.client.post("/session", &json!({})).await.ok().json();
    let id = session["id"].as_str().unwrap();
    std::fs::create_dir(face.repo.join("sub")).unwrap();
    let there = face.repo.join("sub").display().to_string();
    let path = "/experimental/control-plane/move-session";
    let moved = json!({"sessionID": id, "destination": {"directory": there}});
    assert_eq!(face.client.post(path, &moved).await.status, 204);
    let session = face.client.get(&format!("/session/{id}")).await.ok().json();
    assert_eq!((&session["directory"], &session["path"]), (&json!(there), &json!("sub")));
    let mut with_changes = moved.clone();
    with_changes["moveChanges"] = json!(true);
    assert_eq!(face.client.post(path, &with_changes).await.status, 400);
    for nowhere in ["/no/such/folder", "", "/proc/1", "/sys/kernel"] {
        let body = json!({"sessionID": id, "destination": {"directory": nowhere}});
        assert_eq!(face.client.post(path, &body).await.status, 400, "{nowhere}");
    }
    let missing = json!({"sessionID": "ses_missing", "destination": {"directory": there}});
    assert_eq!(face.client.post(path, &missing).await.status, 404);
}
