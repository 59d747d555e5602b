//! Context Epochs: how long a baseline lasts.

use everturn_engine::Prompt;
use everturn_engine::compaction::NewCompaction;
use everturn_engine::context::Observed;
use everturn_model::entry::Body;
use everturn_model::{Event, path};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;
use serde_json::json;

use super::{Gauge, add, baselines, gauged, sent, updates, was_sent, with};
use crate::bench::Bench;

/// Records events for the session as its owner, while nobody works on it.
async fn record(bench: &Bench, events: Vec<Event>) {
    let (store, mint) = (bench.other_store().await, bench.engine.mint());
    let lease = within("the session to be free", async {
        loop {
            match store.acquire(&bench.session.id).await {
                Ok(lease) => return lease,
                Err(everturn_store::Error::Busy { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    let new = events.into_iter().map(|event| NewEvent { id: mint.event(), time: mint.now(), event });
    store.append(&bench.session.id, Authority::Owned(lease.clone()), new.collect()).await.unwrap();
    store.release(lease).await.unwrap();
}

/// Ends what the conversation was so far with a summary.
async fn compact(bench: &Bench) {
    let instructions = Some("TELL:what was said".to_owned());
    let new = NewCompaction { instructions, force: true, ..NewCompaction::default() };
    bench.engine.compactions().request(&bench.session.id, new).await.unwrap();
    bench.settled().await;
}

#[tokio::test]
async fn an_epoch_begins_with_one_immutable_baseline() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    let first = baselines(&bench).await;
    for value in 2..5 {
        gauge.rise(value);
        bench.say("SAY:more").await;
    }
    assert_eq!(baselines(&bench).await, first);
    assert_eq!(updates(&bench).await.len(), 3);
}

#[tokio::test]
async fn the_baseline_is_reused_with_identical_bytes_after_a_restart() {
    let gauge = Gauge::at("test/gauge", 1);
    let mut bench = with(&gauge).await;
    bench.repo.write("AGENTS.md", "rules");
    bench.say("SAY:one").await;
    let before = sent(&bench).remove(0);
    bench.restart().await;
    gauge.rise(2);
    bench.repo.write("AGENTS.md", "other rules");
    bench.say("SAY:two").await;
    assert_eq!(sent(&bench).remove(0), before);
    assert!(baselines(&bench).await[0].ends_with("test/gauge is 1"));
}

#[tokio::test]
async fn the_baseline_preserves_the_exact_text_of_the_cached_prefix() {
    let bench = with(&Gauge::at("test/gauge", 1)).await;
    bench.say("SAY:one").await;
    let stored = baselines(&bench).await.remove(0);
    assert!(sent(&bench)[0].ends_with(&stored), "{:?}", sent(&bench)[0]);
}

#[tokio::test]
async fn a_compaction_starts_a_new_epoch_with_a_fresh_baseline() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("SAY:two").await;
    compact(&bench).await;
    gauge.rise(3);
    bench.say("SAY:three").await;
    let found = baselines(&bench).await;
    assert!(found.len() == 2 && found[1].ends_with("test/gauge is 3"), "{found:?}");
    // The message from before is in the log still, and the model does not see it any more.
    assert_eq!(updates(&bench).await, ["test/gauge is now 2"]);
    assert!(!was_sent(&bench, "is now 2") && !was_sent(&bench, "is 1"));
    assert!(sent(&bench)[0].ends_with("test/gauge is 3"));
    gauge.rise(4);
    bench.say("SAY:four").await;
    assert_eq!(updates(&bench).await[1], "test/gauge is now 4");
}

#[tokio::test]
async fn blocked_replacement_after_a_compaction_keeps_the_old_epoch_and_what_was_told_in_it() {
    let gauge = Gauge::at("test/gauge", 1);
    let mut bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("SAY:two").await;
    compact(&bench).await;
    gauge.hide();
    bench.say("SAY:three").await;
    assert_eq!(baselines(&bench).await.len(), 1);
    let now = sent(&bench);
    assert!(now[0].ends_with("test/gauge is 1"), "{now:?}");
    // The change was told before the compaction, and counts still.
    let told = now[1..].join("\n");
    let (summary, update) = (told.find("what was said"), told.find("test/gauge is now 2"));
    assert!(summary.is_some() && summary < update, "{now:?}");
    // It goes on after a restart, and what else changes is told.
    bench.restart().await;
    bench.repo.write("AGENTS.md", "rules");
    bench.say("SAY:four").await;
    assert!(baselines(&bench).await.len() == 1 && was_sent(&bench, "rules"));
    // As soon as everything can be seen, the new epoch begins.
    gauge.rise(2);
    bench.say("SAY:five").await;
    assert_eq!(baselines(&bench).await.len(), 2);
    assert!(sent(&bench)[0].ends_with("test/gauge is 2") && !was_sent(&bench, "is now 2"));
}

#[tokio::test]
async fn a_change_without_words_replaces_the_epoch_or_is_blocked() {
    let (bench, registry) = gauged(json!({})).await;
    let mute = Gauge::new("test/mute", Observed::Present(1.into()), None);
    let other = Gauge::at("test/other", 1);
    add(&registry, &mute).keep();
    add(&registry, &other).keep();
    bench.say("SAY:one").await;
    mute.set(Observed::Absent);
    other.hide();
    bench.say("SAY:two").await;
    assert_eq!((baselines(&bench).await.len(), updates(&bench).await.len()), (1, 0), "blocked");
    other.rise(2);
    bench.say("SAY:three").await;
    let found = baselines(&bench).await;
    assert!(found.len() == 2 && found[1].ends_with("test/other is 2"), "{found:?}");
    assert!(!was_sent(&bench, "test/mute"));
}

#[tokio::test]
async fn a_moved_session_initializes_a_complete_baseline_before_another_prompt_promotes() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    let there = bench.repo.join("sub");
    bench.repo.write("sub/AGENTS.md", "rules of the destination");
    let moved = Event::SessionMoved {
        project: bench.session.project.clone(),
        directory: there.display().to_string(),
        path: Some("sub".to_owned()),
        extra: Default::default(),
    };
    record(&bench, vec![moved]).await;
    gauge.hide();
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:two")).await.unwrap();
    bench.settled().await;
    assert_eq!((baselines(&bench).await.len(), bench.model.prompts().len()), (1, 1), "the prompt waits");
    gauge.rise(2);
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    let found = baselines(&bench).await;
    assert!(found.len() == 2 && found[1].contains(&format!("Working directory: {}", there.display())));
    assert!(found[1].contains("rules of the destination"), "{found:?}");
    assert_eq!(sent(&bench)[0].matches("Working directory").count(), 1, "the old baseline is out of use");
}

#[tokio::test]
async fn an_epoch_of_another_folder_does_not_hold_on_a_branch_either() {
    let bench = with(&Gauge::at("test/gauge", 1)).await;
    bench.say("SAY:one").await;
    let second = bench.say("SAY:two").await;
    bench.repo.write("sub/a.txt", "a");
    let directory = bench.repo.join("sub").display().to_string();
    let project = bench.session.project.clone();
    let moved = Event::SessionMoved { project, directory, path: None, extra: Default::default() };
    record(&bench, vec![moved]).await;
    bench.say("SAY:three").await;
    bench.engine.reverts().revert(&bench.session.id, &second, None).await.unwrap();
    bench.say("SAY:four").await;
    let found = baselines(&bench).await;
    assert!(found.len() == 2 && found[1].contains("/sub\n"), "{found:?}");
}

#[tokio::test]
async fn a_model_switch_preserves_the_epoch() {
    let models = json!({"fake-model": {}, "other-model": {}});
    let bench = Bench::at(|address| {
        let options = json!({"baseURL": address, "apiKey": "none"});
        let fake = json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": models});
        json!({"provider": {"fake": fake}})
    })
    .await;
    bench.say("SAY:one").await;
    let before = sent(&bench).remove(0);
    bench.say_to("fake", "other-model", "SAY:two").await;
    assert_eq!(bench.model.prompts().pop().unwrap()["model"], "other-model");
    assert_eq!(sent(&bench).remove(0), before);
    assert_eq!((baselines(&bench).await.len(), updates(&bench).await.len()), (1, 0));
}

#[tokio::test]
async fn a_branch_to_before_an_update_has_not_been_told_of_it() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    let second = bench.say("SAY:two").await;
    bench.engine.reverts().revert(&bench.session.id, &second, None).await.unwrap();
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, ["test/gauge is now 2"], "it is told there too");
    let tree = bench.engine.sessions().tree(&bench.session.id).await.unwrap();
    let all = tree.nodes().iter().filter(|node| matches!(node.entry.body, Body::System { .. })).count();
    assert_eq!((all, path::to(&tree, tree.session.leaf.as_ref()).len()), (2, 6));
    // Where the branch has the old state again, there is nothing to tell.
    let fourth = bench.say("SAY:four").await;
    gauge.rise(5);
    bench.say("SAY:five").await;
    bench.engine.reverts().revert(&bench.session.id, &fourth, None).await.unwrap();
    gauge.rise(2);
    bench.say("SAY:six").await;
    assert_eq!(updates(&bench).await, ["test/gauge is now 2"]);
}

#[tokio::test]
async fn an_import_with_a_compaction_begins_an_epoch_of_its_own() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let session = everturn_model::SessionId::new("ses_compacted");
    let (time, began) = (json!({"created": 1, "completed": 2}), 1_794_711_664_171_i64);
    let model = json!({"providerID": "fake", "modelID": "fake-model"});
    let user = json!({"id": "msg_001", "sessionID": session, "role": "user", "time": {"created": 1}, "agent": "build",
        "model": model});
    let answer = json!({"id": "msg_002", "sessionID": session, "role": "assistant", "time": time, "agent": "build",
        "parentID": "msg_001", "providerID": "fake", "modelID": "fake-model", "mode": "build", "cost": 0, "summary": true,
        "path": {"cwd": "/", "root": "/"}, "finish": "stop",
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    let part = |id: &str, message: &str, kind: serde_json::Value| {
        let mut part = kind;
        part["id"] = id.into();
        part["messageID"] = message.into();
        part["sessionID"] = session.as_str().into();
        part
    };
    let mark = part("prt_001", "msg_001", json!({"type": "compaction", "auto": true}));
    let text = part("prt_002", "msg_002", json!({"type": "text", "text": "the summary"}));
    let info = json!({"id": session, "slug": "s", "projectID": "global", "directory": bench.repo.dir(), "title": "t",
        "version": "1.0.0", "time": {"created": began, "updated": began}});
    let export = json!({"info": info, "messages": [{"info": user, "parts": [mark]}, {"info": answer, "parts": [text]}]});
    let report = bench.engine.imports().export(export.to_string().as_bytes()).await.unwrap();
    assert_eq!(report.problems, [""; 0]);
    bench.engine.inbox().admit(&session, Prompt::text("SAY:two")).await.unwrap();
    bench.engine.drains().settled(&session).await;
    let tree = bench.engine.sessions().tree(&session).await.unwrap();
    assert!(tree.session.epoch.is_some() && tree.session.compaction.is_some());
    assert!(sent(&bench)[0].contains("Today is ") && was_sent(&bench, "the summary"));
}
