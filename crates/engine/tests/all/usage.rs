//! Usage is never lost: what was billed is recorded, whatever becomes of the answer; and so are the files it changed.

use std::time::Duration;

use everturn_engine::Prompt;
use everturn_model::{Event, Tokens};
use everturn_testkit::hostile_provider::{HostileProvider, Malice};
use serde_json::json;

use crate::bench::Bench;
use crate::limits::answers;
use crate::turn::begun;

/// With a provider that counts while it answers.
async fn counting(malice: Malice) -> Bench {
    Bench::configured(HostileProvider::start(malice).config(&json!({}))).await
}

async fn spent(bench: &Bench) -> Tokens {
    bench.engine.sessions().get(&bench.session.id).await.unwrap().spent.tokens
}

/// A prompt whose answer stands after its first words.
async fn stand(bench: &mut Bench, prompt: &str) {
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(prompt)).await.unwrap();
    bench.streamed("two ").await;
}

#[tokio::test]
async fn what_an_interrupted_answer_used_is_recorded() {
    // It was billed, and counted nowhere.
    let mut bench = counting(Malice::Counts).await;
    stand(&mut bench, "hello").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let answer = answers(&bench).await.pop().unwrap();
    let tokens = Tokens { input: 900, output: 2, ..Tokens::default() };
    assert_eq!(answer.tokens, tokens, "the provider has said what it read");
    assert!(answer.estimated, "and had no time to say all that it wrote");
    assert_eq!(spent(&bench).await, tokens);
}

#[tokio::test]
async fn what_nobody_counted_is_estimated() {
    let mut bench = Bench::new().await;
    stand(&mut bench, "HOLD:x SAY:one two three").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let answer = answers(&bench).await.pop().unwrap();
    assert!(answer.estimated && answer.tokens.input > 100 && answer.tokens.output == 2, "{answer:?}");
    assert_eq!(spent(&bench).await, answer.tokens);
}

#[tokio::test]
async fn a_restart_estimates_as_an_interrupt_does() {
    // The system prompt and the tools, most of what a request is, were left out of it.
    let mut bench = Bench::new().await;
    let prompt = "HOLD:x SAY:one two three";
    stand(&mut bench, prompt).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let stopped = answers(&bench).await.remove(0);
    let mut bench = Bench::new().await;
    stand(&mut bench, prompt).await;
    bench.restart().await;
    bench.settled().await;
    let cut = answers(&bench).await.remove(0);
    assert_eq!((cut.tokens, cut.estimated), (stopped.tokens, stopped.estimated));
    let request = bench.model.prompts().remove(0);
    let tools = request["tools"].to_string().len() as u64;
    assert!(cut.tokens.input > tools / 5, "{:?} for {tools} bytes of tools and more", cut.tokens);
}

#[tokio::test]
async fn an_answer_that_nobody_counted_is_estimated_and_marked() {
    let bench = Bench::new().await;
    bench.say("USAGE:0,0,0,0 SAY:one two").await;
    bench.say("USAGE:700,0,3,0 SAY:one two").await;
    let [guessed, counted] = &answers(&bench).await[..] else { panic!("two answers") };
    assert!(guessed.estimated && guessed.tokens.input > 100 && guessed.tokens.output == 2, "{guessed:?}");
    assert_eq!((counted.tokens.input, counted.tokens.output, counted.estimated), (700, 3, false));
    assert_eq!(spent(&bench).await, guessed.tokens.plus(&counted.tokens));
}

#[tokio::test]
async fn what_a_filtered_answer_used_is_recorded() {
    let bench = Bench::new().await;
    bench.say("REFUSE USAGE:900,0,50,0 SAY:no").await;
    let answer = answers(&bench).await.pop().unwrap();
    assert_eq!((answer.tokens.input, answer.tokens.output, answer.estimated), (900, 50, false));
    assert_eq!((spent(&bench).await.input, spent(&bench).await.output), (900, 50));
}

#[tokio::test]
async fn what_an_answer_used_that_a_restart_cut_off_is_recorded() {
    let mut bench = counting(Malice::Counts).await;
    stand(&mut bench, "hello").await;
    bench.restart().await;
    bench.settled().await;
    let answers = answers(&bench).await;
    // What it counted of the first word is in the estimate of both.
    let tokens = Tokens { input: 900, output: 2, ..Tokens::default() };
    assert_eq!((answers[0].tokens, answers[0].estimated), (tokens, true), "{:?}", answers[0]);
    assert_eq!((answers[1].tokens.input, answers[1].estimated), (1_000, false), "{:?}", answers[1]);
    let both = answers[0].tokens.plus(&answers[1].tokens);
    assert_eq!(spent(&bench).await, both);
}

#[tokio::test]
async fn what_an_attempt_used_that_is_made_again_is_recorded() {
    let bench = counting(Malice::CountsAndBreaks).await;
    bench.say("hello").await;
    assert_eq!(bench.transcript().await[1], "assistant: done");
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let recorded = log.iter().filter_map(|record| match &record.event {
        Event::UsageRecorded { source, tokens, failed, model, .. } => {
            Some((source.as_str(), tokens.input, *failed, model.as_ref().unwrap().model.as_str()))
        }
        _ => None,
    });
    assert_eq!(recorded.collect::<Vec<_>>(), [("attempt", 900, true, "one")]);
    assert_eq!(spent(&bench).await.input, 1_900);
}

#[tokio::test]
async fn what_an_attempt_used_is_not_recorded_for_the_next_one_too() {
    let bench = counting(Malice::CountsOnceAndBreaks).await;
    bench.say("hello").await;
    assert_eq!(bench.transcript().await[1], "assistant: done");
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let attempts = log.iter().filter(|record| matches!(record.event, Event::UsageRecorded { .. })).count();
    assert_eq!(attempts, 1);
    assert_eq!(spent(&bench).await.input, 1_900);
}

#[tokio::test]
async fn the_files_of_a_turn_that_was_cut_off_can_be_taken_back_and_a_persons_stay() {
    // Undo did nothing for such a turn.
    let mut bench = Bench::new().await;
    let (made, own) = (bench.repo.join("made.txt"), bench.repo.join("own.txt"));
    let prompt = format!("TOOL:bash:echo x > {}; echo begun; sleep 600\nSAY:looked", made.display());
    let message = bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap().id;
    bench.notice(begun).await;
    // As a person would write it while nobody runs.
    std::fs::write(&own, "mine").unwrap();
    let file = std::fs::File::options().write(true).open(&own).unwrap();
    let later = file.metadata().unwrap().modified().unwrap() + Duration::from_secs(60);
    file.set_modified(later).unwrap();
    bench.restart().await;
    bench.settled().await;
    assert!(made.exists() && own.exists());
    let cut = answers(&bench).await.remove(0);
    assert_eq!(cut.files, Some(vec![made.display().to_string()]));
    bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    assert!(!made.exists(), "what the turn made is gone");
    assert!(own.exists(), "what the person made is not");
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    assert!(made.exists());
}
