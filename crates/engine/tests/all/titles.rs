//! Names that sessions get by themselves: tried again when one cannot be made, and never over a person's.

use everturn_engine::SessionUpdate;
use everturn_engine::sessions::{NewSession, is_default_title};
use everturn_model::{Event, Tokens};
use everturn_testkit::hostile_provider::{HostileProvider, Malice};
use serde_json::json;

use crate::bench::Bench;

/// A session that nobody has named.
async fn nameless() -> Bench {
    let mut bench = Bench::new().await;
    unname(&mut bench).await;
    bench
}

/// Goes on with a session that nobody has named.
async fn unname(bench: &mut Bench) {
    let location = bench.engine.projects().location(None).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
}

/// What each title has used, and whether it failed.
async fn spent_on_titles(bench: &Bench) -> Vec<(Tokens, bool)> {
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let used = log.into_iter().filter_map(|record| match record.event {
        Event::UsageRecorded { source, tokens, failed, .. } if source == "title" => Some((tokens, failed)),
        _ => None,
    });
    used.collect()
}

async fn title(bench: &Bench) -> String {
    bench.engine.sessions().get(&bench.session.id).await.unwrap().title
}

/// Waits until so many requests for a title have come, and all that was made of them is done.
async fn tried(bench: &mut Bench, times: usize) {
    let all = bench.model.received(bench.model.prompts().len() + times).await;
    assert_eq!(all.len() - bench.model.prompts().len(), times);
}

#[tokio::test]
async fn a_title_that_could_not_be_made_is_made_with_a_later_prompt() {
    // It was tried with the first prompt only.
    let mut bench = nameless().await;
    bench.say("NOTITLE:400x1 SAY:one").await;
    tried(&mut bench, 1).await;
    assert!(is_default_title(&title(&bench).await));
    bench.say("SAY:two").await;
    let named = bench
        .notice(|update| match update {
            SessionUpdate::Committed(committed) => match &committed.record.event {
                Event::TitleChanged { title, .. } => Some(title.clone()),
                _ => None,
            },
            _ => None,
        })
        .await;
    assert_eq!(named, "Fake title: NOTITLE:400x1 SAY:one", "it is about the first one");
}

#[tokio::test]
async fn an_engine_that_closes_waits_for_a_title() {
    // A run ended before its title was written, so its sessions kept the default one.
    let mut bench = nameless().await;
    bench.say("SAY:one").await;
    bench.restart().await;
    assert_eq!(title(&bench).await, "Fake title: SAY:one");
}

#[tokio::test]
async fn a_name_that_a_person_gives_meanwhile_stays() {
    let bench = nameless().await;
    let before = title(&bench).await;
    bench.engine.sessions().update(&bench.session.id, Some("mine"), Vec::new()).await.unwrap();
    // The title comes from a request that was sent before that.
    let store = bench.other_store().await;
    let late = Event::TitleChanged {
        entry: bench.engine.mint().entry(&bench.session),
        parent: None,
        title: "theirs".to_owned(),
        replaces: Some(before),
    };
    let (id, time) = (bench.engine.mint().event(), bench.engine.mint().now());
    let late = everturn_store::NewEvent { id, time, event: late };
    store.append(&bench.session.id, everturn_store::Authority::Open, vec![late]).await.unwrap();
    assert_eq!(title(&bench).await, "mine");
    assert!(store.verify_all(None).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_title_that_is_made_replaces_no_name_that_was_given_meanwhile() {
    let bench = nameless().await;
    bench.say("MUTETITLE:t SAY:one").await;
    bench.model.held("t").await;
    bench.engine.sessions().update(&bench.session.id, Some("mine"), Vec::new()).await.unwrap();
    bench.model.release("t");
    bench.engine.close().await;
    assert_eq!(title(&bench).await, "mine");
    let spent = spent_on_titles(&bench).await;
    assert_eq!(spent.len(), 1, "it was made all the same: {spent:?}");
}

#[tokio::test]
async fn what_a_title_used_that_fails_is_recorded() {
    // It was recorded only with the end of the answer.
    let mut bench = Bench::at(|url| {
        let provider = HostileProvider::start(Malice::CountsAndBreaks).config(&json!({}));
        let mut config = everturn_testkit::opencode_config(url);
        config["provider"]["hostile"] = provider["provider"]["hostile"].clone();
        let enabled = json!(["fake", "hostile"]);
        json!({"provider": config["provider"], "enabled_providers": enabled, "small_model": "hostile/one"})
    })
    .await;
    unname(&mut bench).await;
    bench.say("SAY:one").await;
    bench.restart().await;
    let tokens = Tokens { input: 900, ..Tokens::default() };
    assert_eq!(spent_on_titles(&bench).await, [(tokens, true)]);
    assert!(is_default_title(&title(&bench).await));
}

#[tokio::test]
async fn what_a_title_used_that_nobody_counted_is_estimated() {
    let bench = nameless().await;
    bench.say("DROPTITLE:2 SAY:one").await;
    bench.engine.close().await;
    let [(tokens, true)] = spent_on_titles(&bench).await[..] else { panic!("one that failed") };
    assert!(tokens.input > 30 && (1..10).contains(&tokens.output), "{tokens:?}");
    assert!(is_default_title(&title(&bench).await));
}

#[tokio::test]
async fn a_session_that_works_for_another_gets_no_name_by_itself() {
    let mut bench = nameless().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let new = NewSession { parent: Some(bench.session.id.clone()), ..NewSession::default() };
    bench.session = bench.engine.sessions().create(&location, new).await.unwrap();
    let before = title(&bench).await;
    assert!(is_default_title(&before), "{before}");
    bench.say("SAY:one").await;
    // One that is being made would be waited for.
    bench.restart().await;
    assert_eq!(title(&bench).await, before);
    assert_eq!(bench.model.received(1).await.len(), 1, "nobody asked for one");
}
