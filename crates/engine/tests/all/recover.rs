//! Restarts: what was open goes on by itself, and nothing that may have had an effect happens twice.

use everturn_engine::{Notice, Prompt, Signal};
use everturn_model::request::Reply;

use crate::bench::Bench;
use crate::permission::{ask, asked};

#[tokio::test]
async fn a_permission_request_survives_under_its_id() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    bench.restart().await;
    assert_eq!(
        bench.engine.requests().waiting().await.unwrap(),
        [(bench.session.id.clone(), request.clone())]
    );
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].starts_with("result: Completed"), "{transcript:?}");
    assert_eq!(transcript[3], "assistant: read it");
}

#[tokio::test]
async fn an_answer_after_a_restart_covers_only_what_it_was_asked_for() {
    // The answer to the folder question once let every further need of the call pass.
    let extra = serde_json::json!({"permission": {"read": "ask"}});
    let mut bench = Bench::configured(extra).await;
    let folder = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:done").await;
    bench.restart().await;
    bench.engine.requests().reply(&folder.id, Reply::Once, None).await.unwrap();
    let file = asked(&mut bench).await;
    assert_ne!(file.ask, folder.ask);
    bench.engine.requests().reply(&file.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    assert!(bench.transcript().await[2].starts_with("result: Error"));
}

#[tokio::test]
async fn a_half_streamed_answer_is_kept_and_continued() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench
        .notice(|notice| match notice {
            Notice::Live(live) => {
                matches!(&live.signal, Signal::Delta { text, .. } if text == "two ").then_some(())
            }
            Notice::Committed(_) => None,
        })
        .await;
    bench.model.release("x");
    bench.restart().await;
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert_eq!(transcript[0], "user: HOLD:x SAY:one two three");
    assert!(transcript[1].starts_with("assistant: one two"), "{transcript:?}");
    assert_eq!(transcript[2], "synthetic");
    assert!(transcript[3].starts_with("assistant: "), "{transcript:?}");
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn a_command_that_was_running_is_not_run_again() {
    let mut bench = Bench::new().await;
    let log = bench.repo.join("runs");
    let prompt = format!("TOOL:bash:echo ran >> {}; echo begun; sleep 600\nSAY:looked", log.display());
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap();
    bench
        .notice(|notice| match notice {
            Notice::Live(live) => match &live.signal {
                Signal::Progress { part, .. } => format!("{part:?}").contains("begun\\n").then_some(()),
                _ => None,
            },
            Notice::Committed(_) => None,
        })
        .await;
    bench.restart().await;
    bench.settled().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\n");
    let transcript = bench.transcript().await;
    assert!(transcript[2].starts_with("result: Unknown"), "{transcript:?}");
    assert_eq!(transcript[3], "assistant: looked");
    let told = bench.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(told.contains("outcome of this call is unknown"), "{told}");
}

#[tokio::test]
async fn an_imported_session_with_work_left_waits_for_a_prompt() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    bench.model.release("x");
    let parked = vec![everturn_model::event::SessionChange::Parked];
    bench.engine.sessions().change(&bench.session.id, parked).await.unwrap();
    bench.restart().await;
    bench.settled().await;
    let before = bench.model.prompts().len();
    assert!(bench.engine.sessions().get(&bench.session.id).await.unwrap().parked);
    bench.say("SAY:again").await;
    assert!(bench.model.prompts().len() > before);
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: again");
}
