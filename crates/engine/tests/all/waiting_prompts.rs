//! Prompts that wait: listed, changed, put in another order and taken back, until they are promoted.

use everturn_engine::inbox::WaitingOutcome;
use everturn_engine::{Error, Prompt};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, SessionId};

use crate::bench::Bench;

/// A session in which these prompts wait and nobody works.
async fn waiting(texts: &[&str], delivery: Delivery) -> (Bench, SessionId, Vec<EntryId>) {
    let bench = Bench::new().await;
    let id = bench.session.id.clone();
    let mut ids = Vec::new();
    for text in texts {
        let prompt = Prompt { delivery, resume: false, ..Prompt::text(text) };
        ids.push(bench.engine.inbox().admit(&id, prompt).await.unwrap().id);
    }
    (bench, id, ids)
}

fn text(item: &InboxItem) -> String {
    let texts = item.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

async fn listed(bench: &Bench) -> Vec<(String, Delivery)> {
    let items = bench.engine.inbox().waiting(&bench.session.id).await.unwrap();
    items.iter().map(|item| (text(item), item.delivery)).collect()
}

async fn go_on(bench: &Bench) {
    assert!(bench.engine.drains().resume(&bench.session.id).await.unwrap());
    bench.settled().await;
}

#[tokio::test]
async fn a_prompt_that_waits_is_answered_as_it_was_changed_last() {
    let (bench, id, ids) = waiting(&["SAY:one", "SAY:two"], Delivery::Queue).await;
    let before = bench.engine.inbox().waiting(&id).await.unwrap();
    let edited = bench.engine.inbox().edit(&id, &ids[0], Prompt::text("SAY:other")).await.unwrap();
    let WaitingOutcome::Done(edited) = edited else { panic!("{edited:?}") };
    assert_eq!(text(&edited), "SAY:other");
    let kept =
        |item: &InboxItem| (item.id.clone(), item.time, item.delivery, item.resume, item.user.model.clone());
    assert_eq!(kept(&edited), kept(&before[0]));
    let rerouted = bench.engine.inbox().reroute(&id, &ids[1], Delivery::Steer).await.unwrap();
    assert!(
        matches!(&rerouted, WaitingOutcome::Done(item) if item.delivery == Delivery::Steer),
        "{rerouted:?}"
    );
    assert_eq!(
        listed(&bench).await,
        [("SAY:other".to_owned(), Delivery::Queue), ("SAY:two".to_owned(), Delivery::Steer)]
    );
    go_on(&bench).await;
    let said = bench.transcript().await;
    assert_eq!(said, ["user: SAY:two", "assistant: two", "user: SAY:other", "assistant: other"]);
}

#[tokio::test]
async fn prompts_go_on_in_the_order_that_a_person_gives_them() {
    let (mut bench, id, ids) = waiting(&["SAY:a", "SAY:b", "SAY:c"], Delivery::Queue).await;
    let order = bench.engine.inbox().reorder(&id, &[ids[2].clone(), ids[0].clone()]).await.unwrap();
    assert_eq!(order.iter().map(text).collect::<Vec<_>>(), ["SAY:c", "SAY:a", "SAY:b"]);
    let late = Prompt { delivery: Delivery::Queue, resume: false, ..Prompt::text("SAY:d") };
    bench.engine.inbox().admit(&id, late).await.unwrap();
    let refused = bench.engine.inbox().reorder(&id, &[EntryId::new("msg_nobody")]).await;
    assert!(
        matches!(&refused, Err(Error::NoMessage(message)) if message.as_str() == "msg_nobody"),
        "{refused:?}"
    );
    // Each was looked up and went into the log, however often it was named.
    let twice = bench.engine.inbox().reorder(&id, &[ids[1].clone(), ids[0].clone(), ids[1].clone()]).await;
    assert!(matches!(&twice, Err(Error::Invalid(text)) if text.contains("named twice")), "{twice:?}");
    let many: Vec<EntryId> = (0..1001).map(|number| EntryId::new(format!("msg_{number}"))).collect();
    let many = bench.engine.inbox().reorder(&id, &many).await;
    assert!(matches!(&many, Err(Error::Invalid(text)) if text.contains("at most 1000")), "{many:?}");
    // A restart keeps it.
    bench.restart().await;
    go_on(&bench).await;
    let users: Vec<_> =
        bench.transcript().await.into_iter().filter(|said| said.starts_with("user")).collect();
    assert_eq!(users, ["user: SAY:c", "user: SAY:a", "user: SAY:b", "user: SAY:d"]);
}

#[tokio::test]
async fn a_prompt_that_was_taken_back_is_not_answered() {
    let (bench, id, ids) = waiting(&["SAY:a", "SAY:b"], Delivery::Steer).await;
    let cancelled = bench.engine.inbox().cancel(&id, &ids[0]).await.unwrap();
    assert!(matches!(&cancelled, WaitingOutcome::Done(item) if item.id == ids[0]), "{cancelled:?}");
    go_on(&bench).await;
    assert_eq!(bench.transcript().await, ["user: SAY:b", "assistant: b"]);
    // What is part of the conversation is not taken back any more, and that is an answer.
    let inbox = bench.engine.inbox();
    assert_eq!(inbox.cancel(&id, &ids[1]).await.unwrap(), WaitingOutcome::Promoted);
    assert_eq!(inbox.reroute(&id, &ids[1], Delivery::Queue).await.unwrap(), WaitingOutcome::Promoted);
    assert_eq!(inbox.edit(&id, &ids[1], Prompt::text("SAY:x")).await.unwrap(), WaitingOutcome::Promoted);
    for message in [&ids[0], &EntryId::new("msg_nobody")] {
        let refused = inbox.cancel(&id, message).await;
        assert!(matches!(&refused, Err(Error::NoMessage(found)) if found == message), "{refused:?}");
    }
    assert_eq!(bench.transcript().await.len(), 2);
}

#[tokio::test]
async fn whoever_changes_a_prompt_while_it_is_promoted_is_told_and_the_model_hears_what_the_log_says() {
    // The turn had read the prompt before it was changed, and asked the model about the old one.
    let bench = Bench::new().await;
    let (id, inbox) = (bench.session.id.clone(), bench.engine.inbox());
    for round in 0..40 {
        let prompt = Prompt { resume: false, ..Prompt::text(&format!("SAY:old{round}")) };
        let message = inbox.admit(&id, prompt).await.unwrap().id;
        let change = async {
            for _ in 0..round % 20 {
                tokio::task::yield_now().await;
            }
            if round % 2 == 0 {
                inbox.edit(&id, &message, Prompt::text(&format!("SAY:new{round}"))).await.unwrap()
            } else {
                inbox.cancel(&id, &message).await.unwrap()
            }
        };
        let (_, outcome) = tokio::join!(bench.engine.drains().resume(&id), change);
        bench.settled().await;
        let word = match (round % 2 == 0, &outcome) {
            (_, WaitingOutcome::Promoted) => Some(format!("old{round}")),
            (true, WaitingOutcome::Done(_)) => Some(format!("new{round}")),
            (false, WaitingOutcome::Done(_)) => None,
        };
        let said = bench.transcript().await;
        let asked = bench.model.prompts().last().map(ToString::to_string).unwrap_or_default();
        match word {
            Some(word) => {
                assert_eq!(
                    said[said.len() - 2..],
                    [format!("user: SAY:{word}"), format!("assistant: {word}")]
                );
                assert!(asked.contains(&word), "{asked}");
            }
            None => assert!(!said.iter().any(|said| said.contains(&format!("old{round}"))), "{said:?}"),
        }
        assert!(inbox.waiting(&id).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_waits_for_one_answer_is_promoted_in_one_batch() {
    // Whoever counts the steps of an answer begins anew with a batch, and not with each prompt of it.
    let (bench, id, ids) = waiting(&["SAY:one", "SAY:two", "SAY:three"], Delivery::Steer).await;
    go_on(&bench).await;
    let log = bench.engine.sessions().log(&id).await.unwrap();
    let begun: Vec<&str> = log
        .iter()
        .filter_map(|record| match &record.event {
            Event::PromptPromoted { id, .. } => Some(id.as_str()),
            Event::StepStarted { .. } => Some("step"),
            _ => None,
        })
        .collect();
    assert_eq!(begun, [ids[0].as_str(), ids[1].as_str(), ids[2].as_str(), "step"]);
}
