//! Configuration, providers, places, and what clients ask for at their start.

use serde_json::{Value, json};

use crate::support::Face;

#[tokio::test]
async fn keys_are_never_shown() {
    let face = Face::start().await;
    for path in ["/config", "/global/config", "/config/providers", "/provider"] {
        let reply = face.client.get(path).await.ok();
        assert!(!reply.body.contains("sk-never-shown"), "{path}");
        assert!(reply.body.contains("baseURL"), "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_configuration_is_shown() {
    // It was in the log of the server alone.
    let face =
        Face::found(&[("opencode.json", "{\n\"permissions\": {\"bash\": \"sk-proj-Ab3dEf6hIj9kLm2n\"}}")])
            .await;
    let config = face.client.get("/config").await.ok().json();
    let problems = config["everturn"]["problems"].as_array().unwrap();
    let end = "opencode.json:2:1: `permissions` has no effect: there is no such setting: did you mean `permission`?; more is \
               asked until it is mended";
    assert!(problems.len() == 1 && problems[0].as_str().unwrap().ends_with(end), "{problems:?}");
    assert_eq!(face.client.get("/global/config").await.ok().json().get("everturn"), None);
    let agents = face.client.get("/agent").await.ok().json();
    let rules = agents[0]["permission"].as_array().unwrap().iter().rev();
    let mut of_bash = rules.filter(|rule| ["*", "bash"].contains(&rule["permission"].as_str().unwrap()));
    assert_eq!(of_bash.next().map(|rule| &rule["action"]), Some(&json!("ask")));
}

#[tokio::test]
async fn providers_and_models_look_as_recorded() {
    let face = Face::start().await;
    let configured = face.client.get("/config/providers").await.ok().json();
    let all = face.client.get("/provider").await.ok().json();
    assert_eq!(configured["providers"], all["all"]);
    assert_eq!((&all["connected"], &all["default"]), (&json!(["fake"]), &json!({"fake": "fake-1"})));
    let provider = &all["all"][0];
    assert_eq!((provider["id"].as_str(), provider["source"].as_str()), (Some("fake"), Some("config")));
    let expected = json!({
        "id": "fake-1", "providerID": "fake",
        "api": {"id": "fake-1", "url": "", "npm": "@ai-sdk/openai-compatible"},
        "name": "Fake One", "family": "",
        "capabilities": {
            "temperature": false, "reasoning": false, "attachment": true, "toolcall": true,
            "input": {"text": true, "audio": false, "image": true, "video": false, "pdf": false},
            "output": {"text": true, "audio": false, "image": false, "video": false, "pdf": false},
            "interleaved": false,
        },
        "cost": {"input": 0, "output": 0, "cache": {"read": 0, "write": 0}},
        "limit": {"context": 200_000, "output": 8_000},
        "status": "active", "options": {}, "headers": {}, "release_date": "", "variants": {},
    });
    assert_eq!(provider["models"]["fake-1"], expected);
}

#[tokio::test]
async fn agents_have_what_clients_need() {
    let face = Face::start().await;
    let agents = face.client.get("/agent").await.ok().json();
    let names: Vec<&str> =
        agents.as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"build") && names.contains(&"plan"), "{names:?}");
    for agent in agents.as_array().unwrap() {
        assert!(agent["mode"].is_string() && agent["permission"].is_array() && agent["options"].is_object());
    }
}

#[tokio::test]
async fn places() {
    let face = Face::start().await;
    let path = face.client.get("/path").await.ok().json();
    assert_eq!(
        (path["directory"].as_str(), path["worktree"].as_str()),
        (Some(face.repo.dir()), Some(face.repo.dir()))
    );
    let current = face.client.get("/project/current").await.ok().json();
    assert_eq!((current["worktree"].as_str(), current["vcs"].as_str()), (Some(face.repo.dir()), Some("git")));
    assert_eq!(current["sandboxes"], json!([]));
    assert!(current["time"]["created"].is_i64());
    assert_eq!(face.client.get("/project").await.ok().json(), json!([current]));
    let path = format!("/project/{}/directories", current["id"].as_str().unwrap());
    assert_eq!(face.client.get(&path).await.ok().json(), json!([{"directory": face.repo.dir()}]));
    assert_eq!(face.client.get("/project/none/directories").await.status, 404);
    assert_eq!(face.client.get("/vcs").await.ok().json(), json!({"branch": "main"}));
}

#[tokio::test]
async fn what_the_terminal_asks_for_at_its_start() {
    let face = Face::start().await;
    let health = face.client.get("/global/health").await.ok().json();
    assert_eq!(health["healthy"], true);
    for path in ["/lsp", "/formatter", "/skill", "/experimental/workspace", "/experimental/workspace/status"]
    {
        assert_eq!(face.client.get(path).await.ok().json(), json!([]), "{path}");
    }
    for path in ["/mcp", "/provider/auth", "/session/status", "/experimental/resource"] {
        assert_eq!(face.client.get(path).await.ok().json(), json!({}), "{path}");
    }
    let tools = face.client.get("/experimental/tool/ids").await.ok().json();
    assert!(tools.as_array().unwrap().contains(&Value::from("bash")));
    let line = json!({"service": "test", "level": "info", "message": "hello"});
    assert_eq!(face.client.post("/log", &line).await.ok().json(), json!(true));
}

#[tokio::test]
async fn skills_are_listed_with_their_texts() {
    let face = Face::start().await;
    let file = ".opencode/skill/good/SKILL.md";
    face.repo.write(file, "---\nname: good\ndescription: for good\n---\nText.\n");
    face.repo.write(".opencode/skill/bad/SKILL.md", "no front matter");
    let skill = json!({"name": "good", "description": "for good", "location": face.repo.join(file), "content": "Text."});
    assert_eq!(face.client.get("/skill").await.ok().json(), json!([skill]));
}
