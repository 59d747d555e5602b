//! Summaries that fail: no loop, and a session that can still be used.

use everturn_model::FaultKind;
use serde_json::json;

use super::window;
use crate::bench::Bench;

/// Why each compaction failed, in a word.
async fn faults(bench: &Bench) -> Vec<&'static str> {
    let ledger = bench.ledger().await;
    let word = |kind: &FaultKind| match kind {
        FaultKind::Api(_) => "refused",
        FaultKind::OutputLength => "length",
        FaultKind::Internal => "nothing",
        other => panic!("{other:?}"),
    };
    ledger.iter().map(|record| record.fault.as_ref().map_or("made", |fault| word(&fault.kind))).collect()
}

/// A summariser that does this, in a session that would have to be summed up before each prompt.
async fn check(directive: &str, word: &'static str) {
    let bench = Bench::at(window(30_000, &json!({"preserve_recent_tokens": 2}))).await;
    bench.say(&format!("{directive} USAGE:29500,0,10,0 SAY:one")).await;
    for number in 0..8 {
        bench.say(&format!("USAGE:29500,0,10,0 SAY:answer {number}")).await;
        let newest = format!("user: USAGE:29500,0,10,0 SAY:answer {number}");
        assert_eq!(bench.said().last().unwrap(), &newest);
    }
    // It is tried less and less often: at the next prompt, two later, and four after that.
    assert_eq!(faults(&bench).await, [word; 4], "{directive}");
    let asked = bench.asked().len();
    assert_eq!(asked, 4, "{directive}");
    // Nothing is gone, and whoever asks for it is not held up.
    assert_eq!(bench.said()[0], format!("user: {directive} USAGE:29500,0,10,0 SAY:one"));
    bench.compact("TELL:at last").await;
    bench.say("SAY:next").await;
    let said = bench.said();
    let expected = ["user: What did we do so far?", "assistant: at last\n\nanswer 7", "user: SAY:next"];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_summariser_that_fails_is_not_asked_in_a_loop() {
    check("NOSUMMARY:400", "refused").await;
}

#[tokio::test]
async fn a_summariser_that_says_nothing_is_not_asked_in_a_loop() {
    check("BLANKSUMMARY", "nothing").await;
}

#[tokio::test]
async fn a_summariser_that_says_too_much_is_not_asked_in_a_loop() {
    check("LONGSUMMARY:40000", "length").await;
}

#[tokio::test]
async fn a_summariser_that_is_cut_is_not_asked_in_a_loop() {
    check("CUTSUMMARY", "length").await;
}

#[tokio::test]
async fn an_overlong_request_fails_as_such_where_it_cannot_be_summed_up() {
    let bench = Bench::at(window(0, &json!({"preserve_recent_tokens": 10}))).await;
    bench.say("NOSUMMARY:400 SAY:one").await;
    let prompt = bench.say("ERR:400\nERRTEXT:This model's maximum context length is 10 tokens").await;
    let nodes = bench.nodes().await;
    let answers: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.entry.body.assistant()?.error.as_ref())
        .map(|it| &it.kind)
        .collect();
    assert!(
        matches!(answers.as_slice(), [FaultKind::ContextOverflow { .. }, FaultKind::Api(_)]),
        "{answers:?}"
    );
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open && session.open_compaction.is_none());
    bench.engine.reverts().revert(&bench.session.id, &prompt, None).await.unwrap();
    bench.say("SAY:still there").await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: still there");
}

#[tokio::test]
async fn a_provider_that_is_busy_is_asked_again() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    bench.compact("NOSUMMARY:503x1 RETRY-AFTER:0 SAY:one thing").await;
    assert_eq!(faults(&bench).await, ["made"]);
    assert_eq!(bench.asked().len(), 2);
}
