//! A session whose model uses the tools of an MCP server, and servers that nobody allowed.

use everturn_engine::inbox::{PartInput, ResourceAddress};
use everturn_engine::mcp::ServerStatus;
use everturn_engine::{Engine, Prompt};
use everturn_model::part::PartKind;
use everturn_testkit::{Repo, within};
use serde_json::{Value, json};

use crate::bench::Bench;

fn scripted(mode: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/tests/all/mcp/scripted.py");
    json!({"type": "local", "command": ["python3", script, mode, "/dev/null"]})
}

/// The names of the tools that the model was told about last.
fn offered(bench: &Bench) -> Vec<String> {
    let prompt = bench.model.prompts().pop().unwrap();
    let tools = prompt["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_model_calls_a_servers_tool() {
    let config = json!({"mcp": {"my server": scripted("plain"), "off": {"type": "local", "command": ["x"], "enabled": false},
        "odd": {"type": "local"}, "gone": {"type": "local", "command": ["/nowhere"]}, "only-off": {"enabled": false}},
        "permission": "allow"});
    let bench = Bench::configured(config).await;
    bench.say("JSONTOOL:my_server_echo:{\"message\": \"through\"}\nSAY:done").await;
    let transcript = bench.transcript().await;
    let expected = ["assistant: (my_server_echo)", "result: Completed through", "assistant: done"];
    assert_eq!(transcript[1..], expected);
    let offered = offered(&bench);
    assert!(
        offered.contains(&"bash".to_owned()) && offered.contains(&"my_server_echo".to_owned()),
        "{offered:?}"
    );

    let location = bench.engine.projects().location(None).await.unwrap();
    let mut statuses = bench.engine.mcp().statuses(&location).await;
    assert_eq!(statuses.remove("my server"), Some(ServerStatus::Connected));
    assert_eq!(statuses.remove("off"), Some(ServerStatus::Disabled));
    let reason = |status: Option<ServerStatus>| match status {
        Some(ServerStatus::Failed(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(
        reason(statuses.remove("odd"))
            .starts_with("its configuration cannot be used: missing field `command`")
    );
    assert!(reason(statuses.remove("gone")).starts_with("could not start \"/nowhere\""));
    assert_eq!(statuses, [].into());
    within("the end of the servers", bench.engine.close()).await;
}

#[tokio::test]
async fn a_servers_tool_asks_under_its_own_name() {
    let bench =
        Bench::configured(json!({"mcp": {"s": scripted("plain")}, "permission": {"s_echo": "deny"}})).await;
    bench.say("JSONTOOL:s_echo:{}\nSAY:done").await;
    assert!(!offered(&bench).contains(&"s_echo".to_owned()));
    assert!(offered(&bench).contains(&"s_other".to_owned()));
}

#[tokio::test]
async fn a_dying_server_fails_its_call_and_not_the_turn() {
    let bench = Bench::configured(json!({"mcp": {"s": scripted("plain")}, "permission": "allow"})).await;
    bench.say("JSONTOOL:s_die:{}\nSAY:went on").await;
    let transcript = bench.transcript().await;
    assert!(
        transcript[2].starts_with("result: Error The call to the MCP server 's' failed: the server ended")
    );
    assert_eq!(transcript[3], "assistant: went on");
}

#[tokio::test]
async fn a_hanging_call_is_interrupted() {
    let mut bench = Bench::configured(json!({"mcp": {"s": scripted("plain")}, "permission": "allow"})).await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("JSONTOOL:s_slow:{}")).await.unwrap();
    bench.notice(|notice| format!("{notice:?}").contains("working").then_some(())).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
}

#[tokio::test]
async fn an_attached_resource_comes_with_its_content() {
    // Clients list resources and let people attach them; the model got nothing of them.
    let bench = Bench::configured(json!({"mcp": {"s": scripted("plain")}})).await;
    let attached = |server: &str, uri: &str| {
        let file = json!({"file": {"mime": "text/plain", "filename": "notes", "url": uri}});
        let resource = ResourceAddress { server: server.to_owned(), uri: uri.to_owned() };
        PartInput { id: None, kind: serde_json::from_value(file).unwrap(), resource: Some(resource) }
    };
    let mut prompt = Prompt::text("SAY:read");
    prompt.parts.extend([attached("s", "x://notes"), attached("s", "x://gone"), attached("none", "x://a")]);
    let item = bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let parts: Vec<String> = item
        .parts
        .iter()
        .map(|part| match &part.kind {
            PartKind::Text { text, synthetic, .. } => format!("{synthetic:?} {text}"),
            PartKind::File { mime, url, .. } => format!("{mime} {url}"),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "None SAY:read",
        "Some(true) Attached resource x://notes of the MCP server s:\nthe notes",
        "text/plain x://notes",
        "image/png data:image/png;base64,AAEC",
        "Some(true) [raw.bin (application/octet-stream) of that resource is not shown.]",
        "Some(true) The resource x://gone of the MCP server s could not be read: the server answered with error -32002: no such resource",
        "text/plain x://gone",
        "Some(true) The resource x://a of the MCP server none could not be read: there is no MCP server of that name",
        "text/plain x://a",
    ];
    assert_eq!(parts, expected);
    let sent = bench.model.prompts().pop().unwrap().to_string();
    assert!(sent.contains("the notes") && sent.contains("data:image/png;base64,AAEC"), "{sent}");
}

#[tokio::test]
async fn servers_are_switched() {
    let bench = Bench::configured(json!({"mcp": {"s": scripted("plain")}})).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let status = async |engine: &Engine| engine.mcp().statuses(&location).await.remove("s").unwrap();
    assert_eq!(status(&bench.engine).await, ServerStatus::Connected);
    bench.engine.mcp().disconnect(&location, "s").await.unwrap();
    within("the server to stop", async {
        while status(&bench.engine).await != ServerStatus::Disabled {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    bench.engine.mcp().connect(&location, "s").await.unwrap();
    within("the server to start", async {
        while status(&bench.engine).await != ServerStatus::Connected {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let missing = bench.engine.mcp().connect(&location, "x").await.unwrap_err().to_string();
    assert_eq!(missing, "there is no MCP server named x");
}

#[tokio::test]
async fn what_a_project_brings_waits_for_the_person() {
    let brought = json!({"mcp": {"s": scripted("plain")}}).to_string();
    let bench =
        Bench::found(json!({"mcp": {"mine": scripted("plain")}}), &[("opencode.json", &brought)]).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let statuses = bench.engine.mcp().statuses(&location).await;
    let ServerStatus::Failed(reason) = &statuses["s"] else { panic!("{statuses:?}") };
    assert!(reason.contains("run `everturn mcp trust s` in"), "{reason}");
    assert_eq!(statuses["mine"], ServerStatus::Connected);
    let refused = bench.engine.mcp().connect(&location, "s").await.unwrap_err().to_string();
    assert_eq!(&refused, reason);
    bench.say("SAY:nothing").await;
    assert!(!offered(&bench).contains(&"s_echo".to_owned()));

    // Trusted from outside while the engine runs.
    bench.trust_all().await;
    let status = async |wanted: ServerStatus| {
        while bench.engine.mcp().statuses(&location).await["s"] != wanted {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the server to start", status(ServerStatus::Connected)).await;
    bench.say("SAY:something").await;
    assert!(offered(&bench).contains(&"s_echo".to_owned()));

    // Another definition is another server.
    bench.repo.write("opencode.json", brought.replace("/dev/null", "/dev/zero"));
    within("the server to be held", status(ServerStatus::Failed(reason.clone()))).await;
    bench.say("SAY:nothing again").await;
    assert!(!offered(&bench).contains(&"s_echo".to_owned()));
    within("the end of the servers", bench.engine.close()).await;
}

#[tokio::test]
async fn what_was_allowed_in_one_project_runs_in_no_other() {
    // The approval was looked up for the project that the engine was started in, and the program started in the folder
    // that a client named: allowing `sh ./m.sh` in one project ran the `m.sh` of every other.
    let line = "echo ran > ran; exec sh ./m.sh";
    let brought = json!({"mcp": {"s": {"type": "local", "command": ["sh", "-c", line]}}}).to_string();
    let files = [("opencode.json", brought.as_str()), ("m.sh", "exit 1\n")];
    let bench = Bench::found(json!({}), &files).await;
    let there = Repo::new(&files);
    bench.trust_all().await;
    let location = bench.engine.projects().location(Some(there.dir())).await.unwrap();
    let status = bench.engine.mcp().statuses(&location).await.remove("s");
    assert!(
        matches!(&status, Some(ServerStatus::Failed(reason)) if reason.contains("nobody has allowed it")),
        "{status:?}"
    );
    let own = bench.engine.projects().location(None).await.unwrap();
    bench.engine.mcp().statuses(&own).await;
    assert!(bench.repo.join("ran").exists(), "it does not run where it was allowed");
    assert!(!there.join("ran").exists(), "it ran where nobody had allowed it");
    // Where no configuration names it there is none.
    let elsewhere = Repo::new(&[("m.sh", "exit 1\n")]);
    let location = bench.engine.projects().location(Some(elsewhere.dir())).await.unwrap();
    assert_eq!(bench.engine.mcp().statuses(&location).await, [].into());
    bench.engine.close().await;
}

#[tokio::test]
async fn what_a_project_brings_does_not_run_where_it_cannot_be_kept_from_the_network() {
    let line = "echo ran > ran; exit 1";
    let brought = json!({"mcp": {"s": {"type": "local", "command": ["sh", "-c", line]}}}).to_string();
    let files = [("opencode.json", brought.as_str())];
    for (network, runs) in [("allow", true), ("ask", false), ("deny", false)] {
        let bench = Bench::found(json!({"sandbox": "off", "permission": {"network": network}}), &files).await;
        bench.trust_all().await;
        let location = bench.engine.projects().location(None).await.unwrap();
        let status = bench.engine.mcp().statuses(&location).await.remove("s");
        assert_eq!(bench.repo.join("ran").exists(), runs, "{network}: {status:?}");
        let Some(ServerStatus::Failed(reason)) = status else { panic!("{network}: {status:?}") };
        let kept = "it is not started: the rule `network` does not allow it to use the network, and without a sandbox it \
                    cannot be kept from that";
        assert_eq!(reason == kept, !runs, "{network}: {reason}");
        // Not by asking again either.
        bench.engine.mcp().connect(&location, "s").await.unwrap();
        assert_eq!(bench.repo.join("ran").exists(), runs, "{network}");
        bench.engine.close().await;
    }
    // The person's own are not confined unless they want it.
    let own =
        json!({"sandbox": "off", "permission": {"network": "deny"}, "mcp": {"mine": scripted("plain")}});
    let bench = Bench::found(own, &[]).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    assert_eq!(
        bench.engine.mcp().statuses(&location).await,
        [("mine".to_owned(), ServerStatus::Connected)].into()
    );
    bench.engine.close().await;
}
