//! Agents that are configured: their settings, how many steps they take, and answers in a shape of the prompt's own.

use everturn_engine::Prompt;
use everturn_model::entry::{AnswerShape, Assistant, Body};
use everturn_model::fault::FaultKind;
use everturn_model::finish::Finish;
use serde_json::{Value, json};

use crate::bench::Bench;

async fn say_as(bench: &Bench, agent: &str, text: &str) {
    let prompt = Prompt { agent: Some(agent.to_owned()), ..Prompt::text(text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
}

async fn answers(bench: &Bench) -> Vec<Assistant> {
    let answers = bench.nodes().await.into_iter().filter_map(|node| match node.entry.body {
        Body::Assistant(assistant) => Some(assistant),
        _ => None,
    });
    answers.collect()
}

#[tokio::test]
async fn settings_of_an_agent_in_markdown_reach_the_request() {
    let text = "---\ndescription: careful\nmode: primary\ntemperature: 0.25\ntop_p: 0.5\nsteps: 4\ntools:\n  bash: false\n---\nBe careful.\n";
    let bench = Bench::found(json!({}), &[(".opencode/agent/careful.md", text)]).await;
    bench.trust_all().await;
    say_as(&bench, "careful", "SAY:one").await;
    let sent = bench.model.prompts().pop().unwrap();
    assert_eq!((&sent["temperature"], &sent["top_p"]), (&json!(0.25), &json!(0.5)));
    let system = sent["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be careful."), "{system}");
    assert!(
        !sent["tools"].to_string().contains("\"bash\"") && sent["tools"].to_string().contains("\"read\"")
    );
}

#[tokio::test]
async fn the_last_step_answers_without_tools_and_a_promotion_allows_new_ones() {
    let bench = Bench::configured(json!({"agent": {"short": {"steps": 2}}})).await;
    let prompt = "TOOL:read:a.txt\nTOOL:read:a.txt\nTOOL:read:a.txt\nSAY:done";
    say_as(&bench, "short", prompt).await;
    let sent = bench.model.prompts();
    assert_eq!(sent.len(), 2, "the scripted model called a tool in the last step too, and that was the end");
    assert_eq!(
        (sent[0]["tool_choice"].as_str(), sent[1]["tool_choice"].as_str()),
        (Some("auto"), Some("none"))
    );
    let last = sent[1]["messages"].as_array().unwrap().last().unwrap().clone();
    assert!(last["role"] == "user" && last["content"].as_str().unwrap().contains("the last step"), "{last}");
    assert!(!sent[0].to_string().contains("the last step"));
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open, "nothing goes on");
    // What is said is in no entry: the next prompt begins anew.
    say_as(&bench, "short", "TOOL:read:a.txt\nSAY:more").await;
    let sent = bench.model.prompts();
    assert_eq!((sent.len(), sent[2]["tool_choice"].as_str()), (4, Some("auto")));
    assert_eq!(sent[3]["tool_choice"], "none");
}

#[tokio::test]
async fn several_prompts_that_promote_at_one_boundary_reset_the_allowance_once() {
    let mut bench = Bench::configured(json!({"agent": {"build": {"steps": 2}}})).await;
    bench
        .engine
        .inbox()
        .admit(&bench.session.id, Prompt::text("HOLD:x\nTOOL:read:a.txt\nSAY:first"))
        .await
        .unwrap();
    bench.model.held("x").await;
    for text in ["SAY:a", "TOOL:read:a.txt\nSAY:b"] {
        bench.engine.inbox().admit(&bench.session.id, Prompt::text(text)).await.unwrap();
    }
    bench.model.release("x");
    bench.settled().await;
    let choices: Vec<String> =
        bench.model.prompts().iter().map(|sent| sent["tool_choice"].to_string()).collect();
    assert_eq!(choices, ["\"auto\"", "\"auto\"", "\"none\""]);
    // They are counted on the path, so another process comes to the same.
    bench.restart().await;
    bench.say("SAY:c").await;
    assert_eq!(bench.model.prompts().pop().unwrap()["tool_choice"], "auto");
}

fn shaped(text: &str, retries: u64) -> Prompt {
    let schema = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    Prompt { format: Some(AnswerShape { schema, retries }), ..Prompt::text(text) }
}

async fn ask(bench: &Bench, prompt: Prompt) -> Assistant {
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    answers(bench).await.pop().unwrap()
}

#[tokio::test]
async fn a_structured_answer_is_the_input_of_its_tool_and_ends_the_turn() {
    let bench = Bench::new().await;
    let text = "TOOL:read:a.txt\nJSONTOOL:StructuredOutput:{\"name\":\"Ada\"}\nSAY:never said";
    let answer = ask(&bench, shaped(text, 2)).await;
    assert_eq!(answer.structured, Some(json!({"name": "Ada"})));
    assert_eq!((answer.error, answer.finish), (None, Some(Finish::Stop)));
    let sent = bench.model.prompts();
    assert_eq!((sent.len(), &sent[0]["tool_choice"]), (2, &json!("required")));
    assert!(sent[0]["tools"].to_string().contains("StructuredOutput"));
    // The next prompt asks for none.
    bench.say("SAY:plain").await;
    let sent = bench.model.prompts().pop().unwrap();
    assert!(sent["tool_choice"] == "auto" && !sent["tools"].to_string().contains("StructuredOutput"));
}

#[tokio::test]
async fn a_structured_answer_of_another_shape_is_tried_again_so_often_and_then_fails() {
    let wrong = "JSONTOOL:StructuredOutput:{\"name\":1}";
    let bench = Bench::new().await;
    let right = "JSONTOOL:StructuredOutput:{\"name\":\"Ada\"}";
    let answer = ask(&bench, shaped(&format!("{wrong}\n{wrong}\n{right}\nSAY:x"), 2)).await;
    assert_eq!(answer.structured, Some(json!({"name": "Ada"})));
    let said = bench.transcript().await;
    assert!(said[2].contains("the answer.name must be of type string"), "{said:?}");
    let answer = ask(&bench, shaped(&format!("{wrong}\n{wrong}\n{wrong}\nSAY:x"), 1)).await;
    let kind = answer.error.map(|error| error.kind);
    assert_eq!((answer.structured, kind), (None, Some(FaultKind::StructuredOutput { retries: Some(1) })));
}

#[tokio::test]
async fn a_plain_answer_where_a_structured_one_was_asked_for_is_an_error() {
    let bench = Bench::new().await;
    let answer = ask(&bench, shaped("SAY:plain", 2)).await;
    let kind = answer.error.map(|error| error.kind);
    assert_eq!(kind, Some(FaultKind::StructuredOutput { retries: Some(0) }));
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open);
}

#[tokio::test]
async fn in_the_last_step_only_the_structured_answer_can_be_given() {
    let bench = Bench::configured(json!({"agent": {"build": {"steps": 1}}})).await;
    let answer = ask(&bench, shaped("JSONTOOL:StructuredOutput:{\"name\":\"Ada\"}\nSAY:x", 2)).await;
    assert_eq!(answer.structured, Some(json!({"name": "Ada"})));
    let sent = bench.model.prompts().pop().unwrap();
    let names: Vec<&Value> =
        sent["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["StructuredOutput"]);
}

#[tokio::test]
async fn a_shape_that_no_tool_can_take_is_refused_at_the_door() {
    let bench = Bench::new().await;
    let format = Some(AnswerShape { schema: json!({"type": "array"}), retries: 2 });
    let prompt = Prompt { format, ..Prompt::text("SAY:x") };
    let error = bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap_err();
    assert_eq!(error.to_string(), "format.schema must be a schema of type object");
}

#[tokio::test]
async fn tools_of_a_prompt_are_switched_for_it_alone() {
    let bench = Bench::new().await;
    let off = json!({"*": false, "read": true}).as_object().cloned();
    ask(&bench, Prompt { tools: off, ..Prompt::text("SAY:one") }).await;
    let names = |sent: &Value| -> Vec<String> {
        let tools = sent["tools"].as_array().into_iter().flatten();
        tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&bench.model.prompts()[0]), ["read"]);
    bench.say("SAY:two").await;
    assert!(names(&bench.model.prompts()[1]).len() > 5);
}

#[tokio::test]
async fn the_agent_that_is_configured_answers_where_nobody_chose_one() {
    let poet = json!({"poet": {"mode": "primary", "prompt": "Answer in verse."}});
    let bench = Bench::configured(json!({"default_agent": "poet", "agent": poet})).await;
    bench.say("SAY:one").await;
    let sent = bench.model.prompts().pop().unwrap();
    let system = sent["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Answer in verse."), "{system}");
    assert_eq!(answers(&bench).await.pop().unwrap().agent.as_deref(), Some("poet"));
}

#[tokio::test]
async fn the_model_that_was_chosen_last_answers_until_another_is_chosen() {
    let models = json!({"one": {}, "two": {}});
    let mut bench = Bench::at(|address| {
        let options = json!({"baseURL": address, "apiKey": "none"});
        let fake = json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": models});
        json!({"provider": {"fake": fake}, "model": "fake/one"})
    })
    .await;
    bench.say_to("fake", "two", "SAY:first").await;
    bench.restart().await;
    bench.say("SAY:second").await;
    assert_eq!(bench.model.prompts().pop().unwrap()["model"], "two");
}
