//! The exact request of each turn, shown again.

use everturn_engine::Prompt;
use everturn_engine::sent_requests::SentRequest;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::{Event, Part};
use serde_json::json;

use crate::bench::Bench;

async fn shown(bench: &Bench, turn: Option<usize>) -> SentRequest {
    bench.engine.sent_requests().of(&bench.session.id, turn).await.unwrap()
}

/// Expects that each turn is shown as the server got it, to the byte.
async fn check(bench: &Bench, when: &str) {
    let arrived: Vec<String> = bench.model.prompts().iter().map(ToString::to_string).collect();
    for (turn, body) in (1..).zip(arrived) {
        let sent = shown(bench, Some(turn)).await;
        assert_eq!(sent.body, body, "turn {turn} {when}");
        assert!(sent.exact && !sent.masked && sent.turn == turn, "turn {turn} {when}");
    }
}

/// A bench with a model of each protocol.
async fn polyglot() -> Bench {
    let packages = [
        ("messages", "@ai-sdk/anthropic"),
        ("responses", "@ai-sdk/openai"),
        ("gemini", "@ai-sdk/google"),
        ("chat", "@ai-sdk/openai-compatible"),
    ];
    Bench::at(|address| {
        let provider = |(name, package): (&str, &str)| {
            let options = json!({"baseURL": address, "apiKey": "none"});
            (name.to_owned(), json!({"npm": package, "options": options, "models": {"one": {}}}))
        };
        let providers: serde_json::Map<String, serde_json::Value> = packages.into_iter().map(provider).collect();
        let names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
        json!({"provider": providers, "enabled_providers": names, "model": "chat/one", "small_model": "chat/one"})
    })
    .await
}

#[tokio::test]
async fn what_is_shown_is_what_was_sent_in_every_protocol_whatever_happened_since() {
    for provider in ["messages", "responses", "gemini", "chat"] {
        let mut bench = polyglot().await;
        bench.repo.write("AGENTS.md", "rules");
        bench.say_to(provider, "one", "THINK\nTOOL:read:a.txt\nSAY:done").await;
        bench.repo.write("AGENTS.md", "other rules");
        bench.say_to(provider, "one", "SAY:two").await;
        let model = Some(ModelRef { provider: provider.into(), model: "one".into(), variant: None });
        let prompt = Prompt {
            agent: Some("plan".into()),
            system: Some("Be brief.".to_owned()),
            model,
            ..Prompt::text("ERR:400")
        };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
        bench.settled().await;
        check(&bench, "right away").await;
        // What is changed now was sent as it was then.
        let nodes = bench.nodes().await;
        let first = nodes.iter().find(|node| node.entry.body.kind() == "user").unwrap();
        let id = first.entry.id.clone();
        let part = Part::new(first.parts[0].id.clone(), PartKind::text("amended"));
        bench.engine.sessions().replace_part(&bench.session.id, &id, part).await.unwrap();
        check(&bench, "after an amendment").await;
        bench.restart().await;
        check(&bench, "after a restart").await;
        // A turn that leaves the conversation takes its number with it; the others stay as they were.
        let last = bench
            .nodes()
            .await
            .iter()
            .rev()
            .find(|node| node.entry.body.kind() == "user")
            .unwrap()
            .entry
            .id
            .clone();
        bench.engine.reverts().revert(&bench.session.id, &last, None).await.unwrap();
        check(&bench, "after a revert that is staged").await;
        let before = bench.model.prompts().len();
        bench.say_to(provider, "one", "SAY:four").await;
        let arrived: Vec<String> = bench.model.prompts().iter().map(ToString::to_string).collect();
        let found = [shown(&bench, Some(before - 1)).await, shown(&bench, None).await];
        assert_eq!(
            found.map(|sent| sent.body),
            [arrived[before - 2].clone(), arrived[before].clone()],
            "{provider}"
        );
        bench.engine.close().await;
    }
}

#[tokio::test]
async fn the_surroundings_of_requests_are_recorded_once() {
    let bench = Bench::new().await;
    for text in ["SAY:one", "SAY:two", "TOOL:read:a.txt\nSAY:three"] {
        bench.say(text).await;
    }
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let frames =
        log.iter().filter(|record| matches!(&record.event, Event::StepStarted { frame: Some(_), .. }));
    assert_eq!(frames.count(), 1);
    let prompt = Prompt { agent: Some("plan".into()), ..Prompt::text("SAY:four") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!(session.frames.len(), 2);
}

#[tokio::test]
async fn secrets_in_what_the_configuration_adds_are_not_stored_and_not_shown() {
    let bench = Bench::at(|address| {
        let options = json!({"baseURL": address, "apiKey": "none"});
        let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF";
        let model = json!({"options": {"gateway": {"api_key": key}}});
        let fake =
            json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"fake-1": model}});
        json!({"provider": {"fake": fake}})
    })
    .await;
    bench.say("SAY:one").await;
    let arrived = bench.model.prompts().pop().unwrap().to_string();
    assert!(arrived.contains("sk-proj-"), "{arrived}");
    let sent = shown(&bench, None).await;
    assert!(sent.exact && sent.masked && !sent.body.contains("sk-proj-abc"), "{}", sent.body);
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    assert!(log.iter().all(|record| !serde_json::to_string(&record.event).unwrap().contains("sk-proj-abc")));
}

#[tokio::test]
async fn a_copied_turn_is_shown_as_it_would_be_sent_now() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let fork = bench.engine.sessions().fork(&bench.session.id, None).await.unwrap();
    let sent = bench.engine.sent_requests().of(&fork.id, None).await.unwrap();
    assert!(!sent.exact && sent.body.contains("SAY:one") && sent.body.contains("\"read\""), "{}", sent.body);
    let missing = bench.engine.sent_requests().of(&fork.id, Some(2)).await.unwrap_err();
    assert_eq!(missing.to_string(), "there is no turn 2: the conversation has 1");
}
