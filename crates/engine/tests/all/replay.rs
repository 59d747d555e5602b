//! What a provider attached to its answers goes back to the same model as it came, and to nobody else.

use everturn_engine::{Prompt, SessionUpdate};
use everturn_model::Event;
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use serde_json::{Value, json};

use crate::bench::Bench;

/// A thought, two tools that the provider runs itself and one that it does not; then another thought, two more and text.
const PROMPT: &str = "THINK HOSTED:2\nTOOL:read:a.txt\nSAY:done";

/// A session that can speak to two models of each protocol.
pub(crate) async fn polyglot() -> Bench {
    let packages = [
        ("messages", "@ai-sdk/anthropic"),
        ("responses", "@ai-sdk/openai"),
        ("gemini", "@ai-sdk/google"),
        ("chat", "@ai-sdk/openai-compatible"),
    ];
    Bench::at(|address| {
        let provider = |(name, package): (&str, &str)| {
            let options = json!({"baseURL": address, "apiKey": "none"});
            (name.to_owned(), json!({"npm": package, "options": options, "models": {"one": {}, "two": {}}}))
        };
        let providers: serde_json::Map<String, Value> = packages.into_iter().map(provider).collect();
        let names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
        json!({"provider": providers, "enabled_providers": names, "model": "chat/one", "small_model": "chat/one"})
    })
    .await
}

/// What the newest request says that the model said, piece by piece.
fn said(bench: &Bench, pieces: impl Fn(&Value) -> Vec<Value>) -> Vec<String> {
    pieces(bench.model.prompts().last().unwrap()).iter().map(Value::to_string).collect()
}

fn answers(request: &Value, list: &str, role: &str, content: &str) -> Vec<Value> {
    let messages = request[list].as_array().unwrap().iter().filter(|message| message["role"] == role);
    messages.flat_map(|message| message[content].as_array().unwrap().clone()).collect()
}

/// Expects what `provider` said in the first turn in all later requests to the same model, to the byte, across a
/// restart; and nothing of what only it understands in requests to others.
async fn check(provider: &str, pieces: impl Fn(&Value) -> Vec<Value>, expected: &[Value]) {
    let expected: Vec<String> = expected.iter().map(Value::to_string).collect();
    let mut bench = polyglot().await;
    bench.say_to(provider, "one", PROMPT).await;
    let (first, second) = expected.split_at(said(&bench, &pieces).len());
    assert_eq!(said(&bench, &pieces), first, "when the tool is done");
    assert!(!second.is_empty());

    bench.restart().await;
    bench.say_to(provider, "one", "SAY:two").await;
    assert_eq!(said(&bench, &pieces), expected, "after a restart");

    let others =
        [(provider, "two"), ("messages", "two"), ("responses", "two"), ("gemini", "two"), ("chat", "one")];
    for (other, model) in others {
        bench.say_to(other, model, "SAY:three").await;
        let request = bench.model.prompts().pop().unwrap().to_string();
        assert!(
            request.contains("a.txt") && request.contains("done"),
            "the plain words are there: {request}"
        );
        for secret in ["sig-", "enc-", "srv_", "rs_", "msg_0", "web_search", "executableCode"] {
            assert!(!request.contains(secret), "{secret} of {provider} went to {other}/{model}: {request}");
        }
    }

    bench.restart().await;
    bench.say_to(provider, "one", "SAY:four").await;
    assert_eq!(said(&bench, &pieces)[..expected.len()], expected, "back again");
}

fn call_id(number: u64) -> String {
    format!("call_{}_{number}", std::process::id())
}

#[tokio::test]
async fn anthropic_gets_its_signatures_and_searches_back() {
    let thought = |number: u64| {
        let text = "Let me think about this request.";
        json!({"type": "thinking", "thinking": text, "signature": format!("sig-msg_{number:08}")})
    };
    let search = |number: u64| {
        let input = json!({"query": format!("about srv_{number}")});
        json!({"type": "server_tool_use", "id": format!("srv_{number}"), "name": "web_search", "input": input})
    };
    let found = |number: u64| {
        let page = json!({"type": "web_search_result", "url": "https://example.org/", "title": "Example",
            "encrypted_content": format!("enc-srv_{number}"), "page_age": null});
        json!({"type": "web_search_tool_result", "tool_use_id": format!("srv_{number}"), "content": [page]})
    };
    let call = json!({"type": "tool_use", "id": call_id(4), "name": "read", "input": {"filePath": "a.txt"}});
    let expected = [
        thought(1),
        search(2),
        search(3),
        found(2),
        found(3),
        call,
        thought(5),
        search(6),
        search(7),
        found(6),
        found(7),
        json!({"type": "text", "text": "done"}),
    ];
    check("messages", |request| answers(request, "messages", "assistant", "content"), &expected).await;
}

#[tokio::test]
async fn openai_gets_its_items_back() {
    let thought = |number: u64| {
        let summary = json!([{"type": "summary_text", "text": "Let me think about this request."}]);
        json!({"type": "reasoning", "id": format!("rs_resp_{number:08}_0"), "summary": summary,
            "encrypted_content": format!("enc-resp_{number:08}")})
    };
    let search = |number: u64, place: u64, id: u64| {
        let sources = json!([{"type": "url", "url": "https://example.org/"}]);
        let action = json!({"type": "search", "query": format!("about srv_{id}"), "sources": sources});
        json!({"type": "web_search_call", "id": format!("ws_resp_{number:08}_{place}"), "status": "completed",
            "action": action})
    };
    let call = json!({"type": "function_call", "call_id": call_id(4), "name": "read",
        "arguments": r#"{"filePath": "a.txt"}"#, "id": "fc_resp_00000001_3", "status": "completed"});
    let text = json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "done", "annotations": []}],
        "id": "msg_resp_00000005_3", "status": "completed"});
    let expected = [
        thought(1),
        search(1, 1, 2),
        search(1, 2, 3),
        call,
        thought(5),
        search(5, 1, 6),
        search(5, 2, 7),
        text,
    ];
    let items = |request: &Value| {
        let own = |item: &&Value| {
            let others = ["user", "system"].iter().any(|role| item["role"] == **role);
            !others && item["type"] != "function_call_output"
        };
        request["input"].as_array().unwrap().iter().filter(own).cloned().collect()
    };
    check("responses", items, &expected).await;
}

#[tokio::test]
async fn gemini_gets_its_signatures_and_its_code_back() {
    let run = |number: u64, id: u64| {
        let code =
            json!({"id": format!("srv_{id}"), "language": "PYTHON", "code": format!("print('srv_{id}')")});
        json!({"executableCode": code, "thoughtSignature": format!("sig-gem-{number:08}-srv_{id}")})
    };
    let printed = |id: u64| {
        let (id, output) = (format!("srv_{id}"), format!("srv_{id}\n"));
        json!({"codeExecutionResult": {"id": id, "outcome": "OUTCOME_OK", "output": output}})
    };
    let call = json!({"functionCall": {"id": call_id(4), "name": "read", "args": {"filePath": "a.txt"}},
        "thoughtSignature": "sig-gem-00000001"});
    let expected = [
        run(1, 2),
        printed(2),
        run(1, 3),
        printed(3),
        call,
        run(5, 6),
        printed(6),
        run(5, 7),
        printed(7),
        json!({"text": "done"}),
    ];
    check("gemini", |request| answers(request, "contents", "model", "parts"), &expected).await;
}

#[tokio::test]
async fn clients_see_a_hosted_call_as_a_finished_tool() {
    let bench = polyglot().await;
    bench.say_to("messages", "one", "HOSTED:1 SAY:done").await;
    let found = r#"[{"type":"web_search_result","url":"https://example.org/","title":"Example","encrypted_content":"enc-srv_2","page_age":null}]"#;
    assert_eq!(
        bench.transcript().await,
        [
            "user: HOSTED:1 SAY:done".to_owned(),
            "assistant: (web_search) done".to_owned(),
            format!("result: Completed {found}")
        ]
    );
    let nodes = bench.nodes().await;
    let part = nodes.iter().flat_map(|node| &node.parts).find(|part| part.kind.is_hosted()).unwrap();
    let result = nodes.iter().find_map(|node| match &node.entry.body {
        Body::ToolResult { result } => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    let shown = everturn_interop::opencode::v1::part(&bench.session.id, "msg_x", part, Some(result));
    let time = json!({"start": result.start.unwrap(), "end": result.end.unwrap()});
    let block = json!({"type": "server_tool_use", "id": "srv_2", "name": "web_search",
        "input": {"query": "about srv_2"}});
    let expected = json!({
        "id": part.id, "sessionID": bench.session.id, "messageID": "msg_x", "type": "tool", "callID": "srv_2",
        "tool": "web_search",
        "state": {"status": "completed", "input": {"query": "about srv_2"}, "output": found, "title": "",
            "metadata": {}, "time": time},
        "metadata": {"anthropic": {"block": block}, "providerExecuted": true},
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_hosted_call_is_never_run_here_whatever_its_name() {
    let bench = Bench::new().await;
    let script = json!([{
        "hosted": [
            {"name": "write", "input": {"filePath": "never.txt", "content": "x"}, "output": "written"},
            {"name": "read", "input": {"filePath": "a.txt"}, "output": "not there", "failed": true},
            {"name": "read", "input": {"filePath": "a.txt"}},
        ],
        "text": "done",
    }]);
    bench.repo.write("play.json", script.to_string());
    bench.say_to("scripted", "play.json", "go").await;
    assert_eq!(
        bench.transcript().await,
        [
            "user: go",
            "assistant: (write) (read) (read) done",
            "result: Completed written",
            "result: Error not there",
            "result: Error The provider did not say what came of this call."
        ]
    );
    assert!(!bench.repo.join("never.txt").exists());
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open, "nothing is left to answer");
}

#[tokio::test]
async fn a_restart_does_not_run_a_hosted_call() {
    let mut bench = Bench::new().await;
    // The tool of this name changes nothing, so a call of it would be made again if it were one of this machine's.
    let script = json!([{
        "hosted": [{"name": "read", "input": {"filePath": "a.txt"}}],
        "pace": 600_000,
        "text": "never said",
    }]);
    bench.repo.write("play.json", script.to_string());
    let model = ModelRef { provider: "scripted".into(), model: "play.json".into(), variant: None };
    let prompt = Prompt { model: Some(model), ..Prompt::text("go") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench
        .notice(|notice| match notice {
            // The text begins when the call is recorded, and then nothing more comes.
            SessionUpdate::Committed(committed) => match &committed.record.event {
                Event::PartStarted { part, .. } => matches!(part.kind, PartKind::Text { .. }).then_some(()),
                _ => None,
            },
            SessionUpdate::Live(_) | SessionUpdate::Gap => None,
        })
        .await;
    bench.repo.write("play.json", r#"[{"text": "back"}]"#);
    bench.restart().await;
    bench.settled().await;
    assert_eq!(
        bench.transcript().await,
        [
            "user: go",
            "assistant: (read)  !cut off",
            "result: Error Tool execution aborted",
            "assistant: back"
        ]
    );
}

#[tokio::test]
async fn a_thought_is_kept_to_its_last_space() {
    // A signature does not hold for a thought that was trimmed.
    let bench = Bench::new().await;
    let metadata = json!({"anthropic": {"signature": "s"}});
    let script = json!([{"reasoning": {"text": "hm \n", "metadata": metadata}, "text": "ok \n"}]);
    bench.repo.write("play.json", script.to_string());
    bench.say_to("scripted", "play.json", "go").await;
    let nodes = bench.nodes().await;
    let kept: Vec<(&str, Option<Value>)> = nodes
        .iter()
        .filter(|node| matches!(node.entry.body, Body::Assistant(_)))
        .flat_map(|node| &node.parts)
        .filter_map(|part| match &part.kind {
            PartKind::Reasoning { text, metadata, .. } | PartKind::Text { text, metadata, .. } => {
                Some((text.as_str(), metadata.clone().map(Value::Object)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(kept, [("hm \n", Some(metadata)), ("ok", None)]);
}
