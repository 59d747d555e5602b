//! Limits of a turn: whatever a provider does, the session ends in time and says why.

use std::time::{Duration, Instant};

use everturn_engine::Prompt;
use everturn_engine::sessions::NewSession;
use everturn_model::entry::{Assistant, Body};
use everturn_model::request::Reply;
use everturn_model::session::ModelRef;
use everturn_model::{Event, FaultKind, Finish};
use everturn_testkit::hostile_provider::{HostileProvider, Malice};
use serde_json::json;

use crate::bench::Bench;
use crate::permission::asked;
use crate::replay::polyglot;

/// The answers of a session, in order.
pub(crate) async fn answers(bench: &Bench) -> Vec<Assistant> {
    let nodes = bench.nodes().await.into_iter();
    nodes
        .filter_map(|node| match node.entry.body {
            Body::Assistant(answer) => Some(answer),
            _ => None,
        })
        .collect()
}

/// How the newest answer ended.
async fn end(bench: &Bench) -> (FaultKind, String) {
    let fault = answers(bench).await.pop().unwrap().error.unwrap();
    (fault.kind.clone(), fault.text().to_owned())
}

async fn check_in_time(malice: Malice) {
    let provider = HostileProvider::start(malice);
    let config = provider.config(&json!({"inactivity": 0.3, "turn": 1}));
    let bench = Bench::configured(config).await;
    let began = Instant::now();
    bench.say("hello").await;
    assert!(began.elapsed() < Duration::from_secs(20), "{malice:?}: {:?}", began.elapsed());
    let (kind, words) = end(&bench).await;
    assert_eq!(kind, FaultKind::TimedOut { limit: 300 }, "{malice:?}");
    assert_eq!(words, "the provider sent nothing for 0.3 seconds", "{malice:?}");
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn a_provider_that_hangs_is_given_up() {
    check_in_time(Malice::Hangs).await;
}

#[tokio::test]
async fn a_provider_that_only_says_that_it_lives_is_given_up() {
    // Each byte of it began the wait anew, for ever.
    check_in_time(Malice::Drips).await;
}

#[tokio::test]
async fn a_provider_that_only_counts_is_given_up() {
    check_in_time(Malice::OnlyCounts).await;
}

#[tokio::test]
async fn waiting_for_a_place_is_not_the_providers_time() {
    let limits = |_: &str| json!({"limits": {"turn": 1}});
    let mut bench = Bench::with(limits, |options| options.turns = 1).await;
    // It has the only place until its time is over.
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    let location = bench.engine.projects().location(None).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.say("SLOW:40 TEXT:10").await;
    assert_eq!(answers(&bench).await.pop().unwrap().error, None);
}

#[tokio::test]
async fn an_answer_that_never_ends_reaches_the_limit_of_its_turn() {
    let bench = Bench::configured(json!({"limits": {"turn": 0.5}})).await;
    bench.say("SLOW:40 TEXT:500").await;
    let (kind, words) = end(&bench).await;
    assert_eq!(kind, FaultKind::TimedOut { limit: 500 });
    assert_eq!(words, "The provider took longer for this turn than the 500 milliseconds that are allowed.");
    assert!(bench.transcript().await[1].starts_with("assistant: word0 "), "what came is kept");
}

#[tokio::test]
async fn a_provider_that_breaks_off_every_answer_is_asked_to_go_on_twice() {
    let provider = HostileProvider::start(Malice::Cuts);
    let bench = Bench::configured(provider.config(&json!({}))).await;
    bench.say("hello").await;
    let transcript = bench.transcript().await;
    let cut = |word: &str| format!("assistant: {word} !cut stream");
    let expected = [
        "user: hello".to_owned(),
        cut("word0"),
        "synthetic".to_owned(),
        cut("word1"),
        "synthetic".to_owned(),
        cut("word2"),
    ];
    let said: Vec<String> = transcript.iter().map(|line| line.replace("  !", " !")).collect();
    assert_eq!(said, expected);
    assert_eq!(provider.asked(), 3);
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn an_answer_that_breaks_off_goes_on_in_a_new_turn() {
    // The turn failed, and with it everything that had come.
    let bench = Bench::new().await;
    bench.say("DROP:1x1 SAY:one two three").await;
    let transcript = bench.transcript().await;
    assert_eq!(transcript[1].trim_end_matches("!cut stream").trim_end(), "assistant: one", "{transcript:?}");
    assert_eq!(transcript[2], "synthetic");
    assert!(transcript[3].starts_with("assistant: ") && !transcript[3].contains('!'), "{transcript:?}");
    let told = bench.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(told.contains("Your answer broke off") && told.contains("one"), "{told}");
}

#[tokio::test]
async fn a_provider_that_asks_for_too_long_a_pause_is_not_waited_for() {
    let bench = Bench::new().await;
    bench.say("ERR:429 RETRY-AFTER:90000").await;
    let (kind, words) = end(&bench).await;
    assert!(matches!(&kind, FaultKind::Api(api) if api.status == Some(429)), "{kind:?}");
    assert!(words.contains("The provider asks to wait 25 hours"), "{words}");
    assert_eq!(bench.model.prompts().len(), 1);
}

#[tokio::test]
async fn faults_have_their_names() {
    let check = async |prompt: &str, expected: &str| {
        let bench = Bench::new().await;
        bench.say(prompt).await;
        let (kind, _) = end(&bench).await;
        assert_eq!(format!("{kind:?}").split([' ', '(']).next().unwrap(), expected, "{prompt}");
        bench
    };
    check("ERR:400 ERRCODE:context_length_exceeded", "ContextOverflow").await;
    check("ERR:401", "Authentication").await;
    check("REFUSE SAY:no", "ContentFilter").await;
    let bench = check("LENGTH SAY:as far as it goes", "OutputLength").await;
    let answer = answers(&bench).await.pop().unwrap();
    assert_eq!(answer.finish, Some(Finish::Length), "it is an answer all the same");
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: as far as it goes !output length");
}

#[tokio::test]
async fn a_missing_key_is_a_matter_of_authentication() {
    let bench = Bench::configured(json!({"enabled_providers": ["fake", "anthropic"]})).await;
    let model = ModelRef { provider: "anthropic".into(), model: "claude-sonnet-4-5".into(), variant: None };
    let prompt = Prompt { model: Some(model), ..Prompt::text("hello") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let (kind, words) = end(&bench).await;
    assert_eq!(kind, FaultKind::Authentication { provider: "anthropic".to_owned() }, "{words}");
}

#[tokio::test]
async fn a_pause_that_the_provider_makes_is_continued() {
    let bench = Bench::new().await;
    let script = json!({"steps": [{"text": "looking", "finish": "paused"}, {"text": "found"}]});
    bench.repo.write("play.json", script.to_string());
    bench.say_to("scripted", "play.json", "search").await;
    assert_eq!(bench.transcript().await, ["user: search", "assistant: looking", "assistant: found"]);
    let finishes: Vec<Option<Finish>> =
        answers(&bench).await.into_iter().map(|answer| answer.finish).collect();
    assert_eq!(finishes, [Some(Finish::Paused), Some(Finish::Stop)]);
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let failed = log.iter().filter(|record| matches!(record.event, Event::StepFailed { .. })).count();
    assert_eq!(failed, 0);
}

#[tokio::test]
async fn a_provider_that_makes_nothing_but_pauses_is_continued_ten_times() {
    let bench = Bench::new().await;
    let steps = vec![json!({"text": "looking", "finish": "paused"}); 14];
    bench.repo.write("play.json", json!({ "steps": steps }).to_string());
    bench.say_to("scripted", "play.json", "search").await;
    let answers = answers(&bench).await;
    let paused = answers.iter().filter(|answer| answer.finish == Some(Finish::Paused)).count();
    assert_eq!((answers.len(), paused), (11, 10));
    assert_eq!(answers[10].finish, Some(Finish::Unknown));
}

#[tokio::test]
async fn what_a_provider_found_after_its_pause_is_the_result_of_its_search() {
    let bench = Bench::configured(HostileProvider::start(Malice::PausesInSearch).config(&json!({}))).await;
    bench.say("search").await;
    let said = bench.transcript().await;
    assert_eq!(said[..2], ["user: search", "assistant: (web_search)"]);
    assert!(said[2..].iter().any(|line| line.starts_with("result: Completed") && line.contains("found it")));
    assert!(said.iter().all(|line| !line.starts_with("result: Error")), "{said:?}");
    assert!(said.contains(&"assistant: done".to_owned()), "{said:?}");
}

/// The beginning of a prompt whose answer breaks off behind its first call.
const BEHIND_A_CALL: &str = "DROP:4x1\nTOGETHER:2\n";

#[tokio::test]
async fn an_answer_that_breaks_off_behind_its_calls_goes_on_with_their_results() {
    let bench = polyglot().await;
    let calls = "TOOL:bash:echo 1\nTOOL:bash:echo 2\nSAY:done";
    bench.say_to("messages", "one", &format!("{BEHIND_A_CALL}{calls}")).await;
    let said = bench.transcript().await;
    assert!(
        said[1].ends_with("!cut stream") && said[2..].contains(&"result: Completed 1".to_owned()),
        "{said:?}"
    );
    // The results say enough.
    assert!(!said.contains(&"synthetic".to_owned()), "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: done");
}

#[tokio::test]
async fn an_answer_that_breaks_off_behind_a_call_that_was_declined_does_not_go_on() {
    let mut bench = polyglot().await;
    let calls = "TOOL:read:/etc/hostname\nTOOL:bash:echo 2\nSAY:never";
    let model = ModelRef { provider: "messages".into(), model: "one".into(), variant: None };
    let prompt = Prompt { model: Some(model), ..Prompt::text(&format!("{BEHIND_A_CALL}{calls}")) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let request = asked(&mut bench).await;
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    assert_eq!((end(&bench).await.0, bench.model.prompts().len()), (FaultKind::CutStream, 1));
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn a_step_that_failed_is_none_of_those_that_an_agent_may_take() {
    let bench = Bench::configured(json!({"agent": {"build": {"steps": 2}}})).await;
    bench.say("DROP:1x1 SAY:one two three").await;
    let told: Vec<bool> = bench
        .model
        .prompts()
        .iter()
        .map(|request| request["messages"].to_string().contains("This is the last step"))
        .collect();
    assert_eq!(told, [false, false]);
}
