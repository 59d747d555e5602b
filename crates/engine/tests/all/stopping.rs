//! Stopping a session: the turn that is open ends, what waits is held, and nothing that was accepted is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use everturn_engine::{Prompt, Signal};
use everturn_model::event::SessionChange;
use everturn_model::inbox::Delivery;
use everturn_model::{EntryId, SessionId};
use everturn_testkit::within;
use everturn_tools::process::sandbox::{SandboxMachine, ToolPlaces};
use serde_json::json;

use crate::bench::Bench;

/// A session in the middle of an answer, with prompts behind it that wait.
async fn at_work(waiting: &[(&str, Delivery)]) -> (Bench, SessionId, Vec<EntryId>) {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    begin(&mut bench, "x").await;
    let mut ids = Vec::new();
    for (text, delivery) in waiting {
        let prompt = Prompt { delivery: *delivery, ..Prompt::text(text) };
        ids.push(bench.engine.inbox().admit(&id, prompt).await.unwrap().id);
    }
    (bench, id, ids)
}

/// Begins an answer that does not end. Without any text it would be left out of the next request, whose words would then
/// hold the model again.
async fn begin(bench: &mut Bench, hold: &str) {
    let prompt = Prompt::text(&format!("HOLD:{hold} SAY:{hold}one two"));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.streamed(&format!("{hold}one ")).await;
}

async fn waiting(bench: &Bench) -> Vec<EntryId> {
    let now = bench.engine.sessions().conversation(&bench.session.id, None).await.unwrap();
    now.inbox.into_iter().map(|item| item.id).collect()
}

#[tokio::test]
async fn what_waited_when_a_session_was_stopped_is_answered_with_the_next_prompt() {
    // It joined the conversation, and nobody answered it.
    let prompts = [("SAY:second", Delivery::Steer), ("SAY:third", Delivery::Queue)];
    let (bench, id, ids) = at_work(&prompts).await;
    bench.engine.drains().abort(&id).await.unwrap();
    assert_eq!(waiting(&bench).await, ids);
    let session = bench.engine.sessions().get(&id).await.unwrap();
    assert_eq!((session.open, session.held, session.waiting), (false, true, 2));
    // Each start took its lease and read all of it, only to find that it is held.
    assert_eq!(bench.engine.recover().await.unwrap(), 0);
    bench.settled().await;
    assert_eq!(waiting(&bench).await, ids, "a restart does not go on with what was stopped");
    bench.say("SAY:fourth").await;
    let said = bench.transcript().await;
    assert!(said[1].ends_with("!aborted"), "{said:?}");
    let answered =
        ["user: SAY:second", "user: SAY:fourth", "assistant: fourth", "user: SAY:third", "assistant: third"];
    assert_eq!(said[2..], answered);
    assert_eq!(waiting(&bench).await, Vec::<EntryId>::new());
}

#[tokio::test]
async fn what_wants_no_answer_lets_nothing_go_on_that_was_stopped() {
    // A note that a client left for later had all that was held answered.
    let (bench, id, ids) = at_work(&[("SAY:second", Delivery::Steer)]).await;
    bench.engine.drains().abort(&id).await.unwrap();
    let asked = bench.model.prompts().len();
    let note = Prompt { reply: false, ..Prompt::text("only so you know") };
    let note = bench.engine.inbox().admit(&id, note).await.unwrap();
    bench.settled().await;
    assert_eq!(waiting(&bench).await, [ids[0].clone(), note.id]);
    let session = bench.engine.sessions().get(&id).await.unwrap();
    assert_eq!((session.open, session.held, bench.model.prompts().len()), (false, true, asked));

    assert!(bench.engine.drains().resume(&id).await.unwrap());
    bench.settled().await;
    let said = bench.transcript().await;
    assert_eq!(said[2..], ["user: SAY:second", "user: only so you know", "assistant: second"]);
}

#[tokio::test]
async fn a_prompt_that_comes_while_a_stop_is_being_settled_is_answered() {
    // It was accepted, and never answered: the stop took every prompt that waited along.
    let (mut bench, id, _) = at_work(&[]).await;
    for round in 0..20 {
        let (abort, admit) = (bench.engine.drains().abort(&id), async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            bench.engine.inbox().admit(&id, Prompt::text(&format!("SAY:later{round}"))).await.unwrap()
        });
        let (aborted, _) = tokio::join!(abort, admit);
        aborted.unwrap();
        bench.settled().await;
        let session = bench.engine.sessions().get(&id).await.unwrap();
        if session.held {
            // It came before the stop: then it waits, and is not lost.
            assert_eq!(session.waiting, 1);
            assert!(bench.engine.drains().resume(&id).await.unwrap());
            bench.settled().await;
        }
        let said = bench.transcript().await;
        // One that was promoted before the stop was heard has an answer that says so.
        let ends = [format!("assistant: later{round}"), "assistant:  !aborted".to_owned()];
        assert!(said.last().is_some_and(|last| ends.contains(last)), "{said:?}");
        assert_eq!(waiting(&bench).await, Vec::<EntryId>::new());
        begin(&mut bench, &round.to_string()).await;
    }
    bench.engine.drains().abort(&id).await.unwrap();
}

#[tokio::test]
async fn a_session_that_was_stopped_goes_on_when_a_person_says_so() {
    let (bench, id, ids) = at_work(&[("SAY:second", Delivery::Steer)]).await;
    bench.engine.drains().abort(&id).await.unwrap();
    assert_eq!(waiting(&bench).await, ids);
    assert!(bench.engine.drains().resume(&id).await.unwrap());
    bench.settled().await;
    assert_eq!(bench.transcript().await[2..], ["user: SAY:second", "assistant: second"]);
}

#[tokio::test]
async fn stopping_a_session_without_work_leaves_no_trace() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let before = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(bench.engine.sessions().get(&bench.session.id).await.unwrap(), before);
}

#[tokio::test]
async fn a_prompt_that_wakes_nobody_is_answered_with_the_next() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let quiet = Prompt { resume: false, ..Prompt::text("SAY:one") };
    let item = bench.engine.inbox().admit(id, quiet.clone()).await.unwrap();
    bench.settled().await;
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    assert_eq!(waiting(&bench).await, std::slice::from_ref(&item.id), "also after a restart");
    assert!(bench.model.prompts().is_empty());
    bench.say("SAY:two").await;
    assert_eq!(bench.transcript().await, ["user: SAY:one", "user: SAY:two", "assistant: two"]);
    let again = Prompt { id: Some(EntryId::new("msg_quiet")), ..quiet };
    bench.engine.inbox().admit(id, again.clone()).await.unwrap();
    bench.settled().await;
    assert_eq!(waiting(&bench).await, [EntryId::new("msg_quiet")]);
    bench.engine.inbox().admit(id, Prompt { resume: true, ..again }).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await[3..], ["user: SAY:one", "assistant: one"], "sent again to begin");
}

#[tokio::test]
async fn a_prompt_that_waits_can_be_taken_back_like_any_other_message() {
    let prompts = [("SAY:a", Delivery::Steer), ("SAY:b", Delivery::Steer), ("SAY:c", Delivery::Steer)];
    let (bench, id, ids) = at_work(&prompts).await;
    bench.engine.drains().abort(&id).await.unwrap();
    let staged = bench.engine.reverts().revert(&id, &ids[1], None).await.unwrap();
    assert_eq!(staged.revert.unwrap().message, ids[1]);
    bench.engine.reverts().unrevert(&id).await.unwrap();
    bench.settled().await;
    assert_eq!(waiting(&bench).await, ids, "it is back, and still held");
    bench.engine.reverts().revert(&id, &ids[1], None).await.unwrap();
    bench.say("SAY:next").await;
    let said = bench.transcript().await;
    assert_eq!(said[2..], ["user: SAY:a", "user: SAY:next", "assistant: next"]);
    assert_eq!(waiting(&bench).await, Vec::<EntryId>::new());
}

#[tokio::test]
async fn taking_back_an_answer_takes_back_what_waited_behind_it() {
    let (bench, id, _) = at_work(&[("SAY:behind", Delivery::Queue)]).await;
    bench.engine.drains().abort(&id).await.unwrap();
    let now = bench.engine.sessions().conversation(&id, None).await.unwrap();
    let first =
        now.nodes.iter().find(|node| matches!(node.entry.body, everturn_model::Body::User(_))).unwrap();
    bench.engine.reverts().revert(&id, &first.entry.id, None).await.unwrap();
    bench.say("SAY:next").await;
    assert_eq!(bench.transcript().await, ["user: SAY:next", "assistant: next"]);
    assert_eq!(waiting(&bench).await, Vec::<EntryId>::new());
}

#[tokio::test]
async fn what_a_session_does_is_known_right_after_a_restart() {
    let (mut bench, id, _) = at_work(&[("SAY:behind", Delivery::Queue)]).await;
    let statuses = |bench: &Bench| bench.engine.drains().statuses();
    assert_eq!(statuses(&bench), [(id.clone(), Signal::Busy)]);
    bench.restart().await;
    assert_eq!(statuses(&bench), [(id.clone(), Signal::Busy)], "before anything was read of it");
    bench.engine.drains().abort(&id).await.unwrap();
    bench.settled().await;
    bench.restart().await;
    assert_eq!(statuses(&bench), [], "what waits is held");
    // Nobody goes on with a session that waits for a person, and it is not busy with that.
    bench.engine.drains().resume(&id).await.unwrap();
    bench.settled().await;
    begin(&mut bench, "y").await;
    bench.engine.sessions().change(&id, vec![SessionChange::Parked]).await.unwrap();
    bench.restart().await;
    assert_eq!(statuses(&bench), []);
    assert!(bench.engine.sessions().get(&id).await.unwrap().open);
    bench.model.release("y");
    assert!(bench.engine.drains().resume(&id).await.unwrap());
    bench.settled().await;
    assert!(!bench.engine.sessions().get(&id).await.unwrap().open);
}

#[tokio::test]
async fn a_session_is_stopped_while_it_is_found_out_what_commands_can_run_in() {
    // Where that did not end, the session stayed busy, and so did whoever wanted to stop it; the server did not end.
    let folder = tempfile::tempdir().unwrap();
    let (program, begun, end) =
        (folder.path().join("stuck"), folder.path().join("begun"), folder.path().join("end"));
    assert!(Command::new("mkfifo").args([&begun, &end]).status().unwrap().success());
    let text = format!("#!/bin/sh\necho > {}\nexec cat {}\n", begun.display(), end.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let machine = SandboxMachine::new(Some(program), ToolPlaces::default());
    let bench = Bench::with(|_| json!({}), |options| options.sandbox = machine.clone()).await;
    let session = bench.session.id.clone();
    bench.engine.inbox().admit(&session, Prompt::text("SAY:never")).await.unwrap();
    let seen = tokio::task::spawn_blocking(move || std::fs::read(begun));
    within("the look at the machine", seen).await.unwrap().unwrap();
    bench.engine.drains().abort(&session).await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    bench.engine.inbox().admit(&session, Prompt::text("SAY:later")).await.unwrap();
    within("the engine to close", bench.engine.close()).await;
    assert!(!machine.is_known(), "it ended by itself");
    assert_eq!(said, ["user: SAY:never", "assistant:  !aborted"]);
    // Now the thread that waits for it can end.
    tokio::task::spawn_blocking(move || std::fs::write(end, "")).await.unwrap().unwrap();
}
