//! Compactions that a person asks for.

use everturn_engine::Error;
use everturn_engine::compaction::NewCompaction;
use everturn_model::compaction::Pins;
use everturn_model::entry::Body;
use everturn_model::finish::Trigger;
use everturn_model::part::PartKind;
use everturn_model::{Event, FaultKind, bill};
use serde_json::json;

use super::window;
use crate::bench::Bench;

/// What a part is, in a word.
fn word(kind: &PartKind) -> &'static str {
    match kind {
        PartKind::StepStart { .. } => "step-start",
        PartKind::Text { .. } => "text",
        PartKind::StepFinish { .. } => "step-finish",
        _ => "other",
    }
}

#[tokio::test]
async fn the_model_goes_on_with_the_summary() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    bench.say("SAY:two").await;
    let entry = bench.compact("TELL:we counted to two").await;
    bench.say("SAY:three").await;
    assert_eq!(
        bench.said(),
        ["user: What did we do so far?", "assistant: we counted to two", "user: SAY:three"]
    );
    let asked = bench.asked();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].contains("[User]: SAY:one\n[Assistant]: one\n[User]: SAY:two\n[Assistant]: two\n"),
        "{}",
        asked[0]
    );
    assert!(asked[0].contains("TELL:we counted to two\n\nWhat did we do so far?"));
    // Nothing of it is gone.
    assert_eq!(
        bench.transcript().await,
        [
            "user: SAY:one",
            "assistant: one",
            "user: SAY:two",
            "assistant: two",
            "compaction",
            "user: SAY:three",
            "assistant: three"
        ]
    );
    let ledger = bench.ledger().await;
    let [record] = ledger.as_slice() else { panic!("{ledger:?}") };
    assert_eq!(
        (
            &record.entry,
            record.reason.as_ref(),
            record.summary.as_deref(),
            record.dropped.entries,
            record.kept.entries
        ),
        (&entry, Some(&Trigger::Manual), Some("we counted to two"), 4, 0)
    );
}

#[tokio::test]
async fn what_it_used_is_counted_once() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let before = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    bench.compact("TELL:one").await;
    let after = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    let record = bench.ledger().await.remove(0);
    assert!(record.tokens.input > 0 && record.tokens.output > 0, "{record:?}");
    assert_eq!(after.spent.tokens.sum() - before.spent.tokens.sum(), record.tokens.sum());
    assert_eq!(after.tokens.sum() - before.tokens.sum(), record.tokens.sum());
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let recorded = log.iter().filter(|record| matches!(record.event, Event::UsageRecorded { .. }));
    assert_eq!(recorded.count(), 0, "it is in the end of the compaction");
}

#[tokio::test]
async fn a_short_conversation_is_summed_up_only_by_force() {
    let bench = Bench::new().await;
    let request = |force| {
        let new = NewCompaction { force, ..NewCompaction::default() };
        bench.engine.compactions().request(&bench.session.id, new)
    };
    for force in [false, true] {
        let error = request(force).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("nothing to sum up")), "{error}");
    }
    bench.say("SAY:one").await;
    let error = request(false).await.unwrap_err().to_string();
    assert!(error.contains("would keep all of them word for word"), "{error}");
    request(true).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.ledger().await.len(), 1);
}

#[tokio::test]
async fn the_newest_part_is_kept_word_for_word() {
    let bench = Bench::at(window(200_000, &json!({"preserve_recent_tokens": 400}))).await;
    for number in 0..6 {
        bench.say(&format!("number {number} {} SAY:answer {number}", "x".repeat(800))).await;
    }
    let new = NewCompaction { instructions: Some("TELL:it began".into()), ..NewCompaction::default() };
    bench.engine.compactions().request(&bench.session.id, new).await.unwrap();
    bench.settled().await;
    bench.say("SAY:next").await;
    let said = bench.said();
    let begins: Vec<String> = said.iter().map(|line| line.chars().take(22).collect()).collect();
    assert_eq!(
        begins,
        [
            "user: What did we do s",
            "assistant: it began",
            "user: number 4 xxxxxxx",
            "assistant: answer 4",
            "user: number 5 xxxxxxx",
            "assistant: answer 5",
            "user: SAY:next"
        ]
    );
    let record = bench.ledger().await.remove(0);
    assert_eq!((record.dropped.entries, record.kept.entries), (8, 4));
}

#[tokio::test]
async fn tasks_pins_and_files_are_carried_word_for_word_through_ten_of_them() {
    let bench = Bench::new().await;
    let goal = "Port the parser.\nKeep \"quotes\" & <tags>".to_owned();
    let pins =
        Pins { goal: Some(goal.clone()), facts: vec!["the port is 4096".into(), "tests need --all".into()] };
    bench.engine.compactions().pin(&bench.session.id, pins.clone()).await.unwrap();
    bench.say("TOOL:todo:first thing;second thing\nSAY:listed").await;
    let file = bench.repo.path().join("a.txt");
    bench.say(&format!("TOOL:read:{}\nSAY:read", file.display())).await;
    for round in 0..10 {
        bench.say(&format!("SAY:round {round}")).await;
        bench.compact(&format!("TELL:summary {round}")).await;
    }
    bench.say("SAY:after").await;
    let told = bench.said()[1].clone();
    let expected = format!(
        "assistant: summary 9\n\n<goal>\n{goal}\n</goal>\n\n<pinned-facts>\n- the port is 4096\n- tests need --all\n\
         </pinned-facts>\n\n<todo-list>\n- [completed] first thing (medium)\n- [in_progress] second thing (medium)\n\
         </todo-list>\n\n<read-files>\n{}\n</read-files>",
        file.display()
    );
    assert_eq!(told, expected);
    // Each one is told of the one before, and of nothing older.
    let asked = bench.asked();
    assert_eq!(asked.len(), 10);
    for (round, text) in asked.iter().enumerate().skip(1) {
        let earlier = format!("<earlier-summary>\nsummary {}\n</earlier-summary>", round - 1);
        assert!(text.contains(&earlier) && text.contains(&format!("SAY:round {round}")), "{text}");
        assert!(!text.contains(&format!("SAY:round {}", round - 1)), "{text}");
    }
    let records = bench.ledger().await;
    assert!(records.iter().all(|record| record.carried.pins == pins && record.carried.todos.len() == 2));
}

#[tokio::test]
async fn undoing_one_gives_back_the_former_view() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    bench.say("SAY:two").await;
    let before = bench.model.requests().last().unwrap()["messages"].clone();
    let entry = bench.compact("TELL:all of it").await;
    let compactions = bench.engine.compactions();
    assert_eq!(compactions.undo(&bench.session.id, None).await.unwrap(), entry);
    bench.say("SAY:three").await;
    let after = bench.model.requests().last().unwrap()["messages"].clone();
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(after[..before.len()], before[..], "to the letter, with the same baseline");
    assert_eq!(bench.said()[3..], ["assistant: two", "user: SAY:three"]);
    // Nothing is left to undo, and what was undone can be had again.
    let error = compactions.undo(&bench.session.id, None).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("no compaction")), "{error}");
    assert_eq!(compactions.redo(&bench.session.id, None).await.unwrap(), entry);
    bench.say("SAY:four").await;
    assert_eq!(
        bench.said()[..3],
        ["user: What did we do so far?", "assistant: all of it", "user: SAY:three"]
    );
}

#[tokio::test]
async fn asking_twice_is_asking_once() {
    let mut bench = Bench::new().await;
    bench.say("SAY:one").await;
    let busy =
        bench.engine.inbox().admit(&bench.session.id, everturn_engine::Prompt::text("HOLD:h SAY:two")).await;
    busy.unwrap();
    bench.model.held("h").await;
    let request = || {
        let new = NewCompaction { force: true, ..NewCompaction::default() };
        bench.engine.compactions().request(&bench.session.id, new)
    };
    let (first, second) = (request().await.unwrap(), request().await.unwrap());
    assert_eq!(first.id, second.id);
    bench.model.release("h");
    bench.settled().await;
    assert_eq!(bench.ledger().await.len(), 1);
    // Whoever waits can also be taken back.
    bench
        .engine
        .inbox()
        .admit(&bench.session.id, everturn_engine::Prompt::text("HOLD:i SAY:three"))
        .await
        .unwrap();
    bench.model.held("i").await;
    let waiting = {
        let new = NewCompaction { force: true, ..NewCompaction::default() };
        bench.engine.compactions().request(&bench.session.id, new).await.unwrap()
    };
    bench.engine.inbox().cancel(&bench.session.id, &waiting.id).await.unwrap();
    bench.model.release("i");
    bench.settled().await;
    assert_eq!(bench.ledger().await.len(), 1);
    bench.restart().await;
}

#[tokio::test]
async fn one_that_is_stopped_changes_nothing() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let new =
        NewCompaction { instructions: Some("HOLDSUMMARY:h".into()), force: true, ..NewCompaction::default() };
    bench.engine.compactions().request(&bench.session.id, new).await.unwrap();
    bench.model.held("h").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    bench.settled().await;
    let record = bench.ledger().await.remove(0);
    assert_eq!((record.summary, record.fault.map(|fault| fault.kind)), (None, Some(FaultKind::Aborted)));
    bench.say("SAY:two").await;
    assert_eq!(bench.said(), ["user: SAY:one", "assistant: one", "user: SAY:two"]);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open && session.open_compaction.is_none() && session.time.compacting.is_none());
}

#[tokio::test]
async fn one_that_a_stop_of_the_server_cut_off_is_made_after_the_restart() {
    let mut bench = Bench::new().await;
    bench.say("SAY:one").await;
    let new = NewCompaction {
        instructions: Some("HOLDSUMMARY:h SAY:first second third".into()),
        force: true,
        ..NewCompaction::default()
    };
    let asked = bench.engine.compactions().request(&bench.session.id, new).await.unwrap();
    bench.model.held("h").await;
    bench.streamed("first ").await;
    bench.restart().await;
    bench.model.release("h");
    bench.settled().await;
    let ledger = bench.ledger().await;
    assert_eq!(
        ledger.iter().map(|record| (&record.entry, record.summary.as_deref())).collect::<Vec<_>>(),
        [(&asked.id, Some("first second third"))]
    );
    // What the first process had streamed of it is not shown beside the whole of it.
    let nodes = bench.nodes().await;
    let node = nodes.iter().find(|node| matches!(node.entry.body, Body::Compaction(_))).unwrap();
    let shown = node.parts.iter().filter(|part| part.second && !part.hidden).map(|part| word(&part.kind));
    assert_eq!(shown.collect::<Vec<_>>(), ["step-start", "text", "step-finish"]);
    // What the first one used is counted too.
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let billed = log.iter().filter_map(|record| match &record.event {
        Event::UsageRecorded { source, tokens, failed: true, .. } => {
            Some((source.as_str(), tokens.input > 0))
        }
        _ => None,
    });
    assert_eq!(billed.collect::<Vec<_>>(), [(bill::COMPACTION, true)]);
}
