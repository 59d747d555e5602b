//! Compactions that nobody asks for.

use everturn_engine::Prompt;
use everturn_model::FaultKind;
use everturn_model::finish::Trigger;
use serde_json::json;

use super::window;
use crate::bench::Bench;

/// Words that are about so many tokens.
fn words(tokens: usize) -> String {
    "word ".repeat(tokens * 4 / 5)
}

/// What the model server is told to use does not count here: it says little.
async fn fill(bench: &Bench, prompts: usize, tokens: usize) {
    for number in 0..prompts {
        bench.say(&format!("TELL:summed up\n{} SAY:answer {number}", words(tokens))).await;
    }
}

#[tokio::test]
async fn a_conversation_that_would_not_fit_is_summed_up_before_the_request() {
    let bench = Bench::at(window(30_000, &json!({}))).await;
    fill(&bench, 8, 4_000).await;
    let ledger = bench.ledger().await;
    assert!(!ledger.is_empty() && ledger.len() < 4, "{}", ledger.len());
    assert!(ledger.iter().all(|record| record.reason == Some(Trigger::Auto) && record.summary.is_some()));
    // No request is larger than the window leaves, by the same measure, and none lacks its newest prompt.
    for request in bench.model.requests() {
        assert!(request.to_string().len() / 4 < 30_000 - 1_000 + 500, "{}", request.to_string().len());
    }
    let said = bench.said();
    assert!(said[1] == "assistant: summed up" && said.last().unwrap().ends_with("SAY:answer 7"), "{said:?}");
    let errors =
        bench.nodes().await.into_iter().filter_map(|node| node.entry.body.assistant()?.error.clone());
    assert_eq!(errors.count(), 0);
}

#[tokio::test]
async fn what_the_provider_counted_counts_too() {
    let bench = Bench::at(window(30_000, &json!({}))).await;
    bench.say("TELL:short\nUSAGE:29500,0,10,0 SAY:one").await;
    bench.say("SAY:two").await;
    assert_eq!(bench.ledger().await.len(), 0, "there is nothing in it that could be left out");
    // With much to leave out there is.
    let bench = Bench::at(window(30_000, &json!({"preserve_recent_tokens": 2}))).await;
    bench.say("TELL:short\nUSAGE:29500,0,10,0 SAY:one").await;
    bench.say("SAY:two").await;
    assert_eq!(bench.ledger().await.len(), 1);
    assert_eq!(bench.said(), ["user: What did we do so far?", "assistant: short", "user: SAY:two"]);
}

#[tokio::test]
async fn the_work_goes_on_in_the_middle_of_a_turn() {
    let bench = Bench::at(window(30_000, &json!({"preserve_recent_tokens": 3_000}))).await;
    bench.repo.write("long.txt", format!("{}\n", words(100)).repeat(90));
    let path = bench.repo.path().join("long.txt");
    let read = |number: usize| {
        let offset = json!({"filePath": path, "offset": number});
        format!("JSONTOOL:read:{offset}")
    };
    let steps: Vec<String> = (1..6).map(read).collect();
    bench.say(&format!("TELL:half of it was read\n{}\nSAY:done", steps.join("\n"))).await;
    let ledger = bench.ledger().await;
    let [record] = ledger.as_slice() else { panic!("{ledger:?}") };
    // What it asked for last is there with its result, and the beginning of the turn is in the summary.
    assert_eq!((record.dropped.entries, record.kept.entries), (5, 2));
    let said = bench.said();
    let read = format!("<read-files>\n{}\n</read-files>", path.display());
    let told = format!("assistant: half of it was read\n\n{read} (1 calls)");
    assert_eq!(said[..2], ["user: What did we do so far?".to_owned(), told]);
    assert!(said.len() == 3 && said[2].starts_with("tool: "), "{said:?}");
    assert!(bench.asked()[0].contains("The conversation ends in the middle of the agent's work"));
    let transcript = bench.transcript().await;
    let kinds: Vec<&str> = transcript.iter().filter_map(|line| line.split([':', ' ']).next()).collect();
    let expected = [
        "user",
        "assistant",
        "result",
        "assistant",
        "result",
        "assistant",
        "result",
        "compaction",
        "assistant",
    ];
    assert_eq!(kinds, expected);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open && session.open_compaction.is_none());
    assert!(record.carried.read.len() == 1 && record.summary.is_some());
}

#[tokio::test]
async fn an_overlong_request_is_made_again_after_a_compaction() {
    let bench = Bench::at(window(0, &json!({}))).await;
    bench.say("TELL:one and two\nSAY:one").await;
    bench.say("SAY:two").await;
    let overlong = "ERR:400x1\nERRTEXT:This model's maximum context length is 10 tokens\nSAY:three";
    bench.say(overlong).await;
    assert_eq!(bench.said()[..2], ["user: What did we do so far?", "assistant: one and two"]);
    let transcript = bench.transcript().await;
    let end: Vec<&str> = transcript.iter().rev().take(2).rev().map(String::as_str).collect();
    assert_eq!(end, ["compaction", "assistant: three"]);
    let shown = bench.nodes().await;
    let failed = shown.iter().filter(|node| {
        node.entry.body.assistant().is_some_and(|answer| answer.error.is_some()) && !node.entry.hidden
    });
    assert_eq!(failed.count(), 0, "the request that was too long is not shown");
}

#[tokio::test]
async fn a_second_overlong_request_is_a_failure() {
    let bench = Bench::at(window(0, &json!({}))).await;
    bench.say("TELL:one\nSAY:one").await;
    let overlong = "ERR:400\nERRTEXT:This model's maximum context length is 10 tokens";
    bench.say(overlong).await;
    assert_eq!(bench.ledger().await.len(), 1);
    let last = bench.nodes().await.pop().unwrap();
    let fault = last.entry.body.assistant().unwrap().error.clone().unwrap();
    assert!(matches!(fault.kind, FaultKind::ContextOverflow { .. }), "{fault:?}");
    // The session can be used: what is said next reaches the model.
    bench.say("SAY:all right").await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: all right");
}

#[tokio::test]
async fn nothing_is_summed_up_where_that_is_switched_off() {
    let bench = Bench::at(window(30_000, &json!({"auto": false}))).await;
    fill(&bench, 8, 4_000).await;
    bench.say("ERR:400x1\nERRTEXT:This model's maximum context length is 10 tokens\nSAY:three").await;
    assert_eq!(bench.ledger().await.len(), 0);
}

#[tokio::test]
async fn many_messages_are_summed_up_where_they_are_limited() {
    let limits = json!({"max_messages": 10, "recent_messages": 4});
    let bench = Bench::at(window(200_000, &limits)).await;
    for number in 0..12 {
        bench.say(&format!("TELL:so far\nSAY:answer {number}")).await;
        // With the question and its answer.
        assert!(bench.said().len() <= 12, "{:?}", bench.said());
    }
    let ledger = bench.ledger().await;
    assert!(ledger.len() >= 2, "{}", ledger.len());
    assert!(ledger.iter().all(|record| record.kept.entries <= 4));
}

#[tokio::test]
async fn a_prompt_that_fills_the_window_is_summed_up_itself() {
    let bench = Bench::at(window(30_000, &json!({}))).await;
    bench.say("SAY:one").await;
    bench.say(&format!("TELL:a long text was given\n{} SAY:two", words(40_000))).await;
    let said = bench.said();
    assert_eq!(said[..2], ["user: What did we do so far?", "assistant: a long text was given"]);
    assert!(
        said.len() == 3 && said[2].starts_with("user: The conversation so far was summed up"),
        "{said:?}"
    );
}

#[tokio::test]
async fn two_thousand_messages_fit_again() {
    let bench = Bench::at(window(30_000, &json!({"auto": false}))).await;
    let text = words(100);
    for number in 0..500 {
        let prompt = Prompt { reply: false, ..Prompt::text(&format!("{number} {text}")) };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    }
    bench.settled().await;
    bench.compact("TELL:five hundred notes").await;
    bench.say("SAY:next").await;
    assert_eq!(bench.said()[1], "assistant: five hundred notes");
    assert!(bench.model.requests().iter().all(|request| request.to_string().len() / 4 < 30_000));
}
