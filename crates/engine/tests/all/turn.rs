//! Turns: text, tools, errors, interrupts, retries.

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::session::ModelRef;
use everturn_model::{Event, FaultKind};
use everturn_testkit::within;

use crate::bench::Bench;

#[tokio::test]
async fn a_prompt_is_answered() {
    let bench = Bench::new().await;
    bench.say("SAY:two words").await;
    assert_eq!(bench.transcript().await, ["user: SAY:two words", "assistant: two words"]);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(!session.open);
    assert_eq!(session.tokens.output, 20);
}

#[tokio::test]
async fn a_tools_result_goes_back_to_the_model() {
    let bench = Bench::new().await;
    bench.say("TOOL:bash:echo hi; exit 3\nSAY:done").await;
    assert_eq!(
        bench.transcript().await,
        [
            "user: TOOL:bash:echo hi; exit 3\nSAY:done",
            "assistant: (bash)",
            "result: Completed hi",
            "assistant: done"
        ]
    );
    let second = bench.model.prompts().pop().unwrap();
    let roles: Vec<&str> =
        second["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_the_model_hears_of() {
    let bench = Bench::new().await;
    bench.say("JSONTOOL:nosuchtool:{\"x\":1}\nSAY:ok").await;
    let transcript = bench.transcript().await;
    assert_eq!(transcript.len(), 4);
    assert!(transcript[2].starts_with("result: Error There is no tool named 'nosuchtool'"), "{transcript:?}");
}

#[tokio::test]
async fn each_call_is_in_the_log_before_its_tool_starts() {
    let mut bench = Bench::new().await;
    bench
        .engine
        .inbox()
        .admit(&bench.session.id, Prompt::text("TOOL:bash:echo begun; sleep 600"))
        .await
        .unwrap();
    bench.notice(begun).await;
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let names: Vec<&str> = log.iter().map(|record| record.event.name()).collect();
    assert!(names.contains(&"tool.called"), "{names:?}");
    assert!(!names.contains(&"tool.settled"), "{names:?}");
    let seqs: Vec<u64> = log.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}

/// The command has printed its first line.
pub(crate) fn begun(notice: &SessionUpdate) -> Option<()> {
    match notice {
        SessionUpdate::Live(live) => match &live.signal {
            Signal::Progress { part, .. } => format!("{part:?}").contains("begun\\n").then_some(()),
            _ => None,
        },
        SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
    }
}

#[tokio::test]
async fn what_a_stopped_step_did_is_known_and_can_be_undone() {
    // A finished call was once overwritten as aborted, and its files could not be undone.
    let mut bench = Bench::new().await;
    let file = bench.repo.join("made.txt");
    let prompt = format!("TOOL:bash:echo x > {}; echo begun; sleep 600", file.display());
    let message = bench.engine.inbox().admit(&bench.session.id, Prompt::text(&prompt)).await.unwrap().id;
    bench.notice(begun).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert!(file.exists());
    bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    assert!(!file.exists(), "the file of the stopped step is gone");
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    assert!(file.exists());
}

#[tokio::test]
async fn a_failing_provider_is_an_answer_that_says_why() {
    let mut bench = Bench::new().await;
    bench.say("ERR:400 please").await;
    assert_eq!(bench.transcript().await, ["user: ERR:400 please", "assistant:  !api"]);
    let error = bench
        .notice(|notice| match notice {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Failed { error } => Some(error.clone()),
                _ => None,
            },
            SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
        })
        .await;
    let FaultKind::Api(api) = &error.kind else { panic!("{error:?}") };
    assert_eq!((api.status, api.retryable), (Some(400), Some(false)));
    assert_eq!(error.message.as_deref(), Some("fake error"));
}

#[tokio::test]
async fn an_overloaded_provider_is_asked_again() {
    let bench = Bench::new().await;
    bench.say("ERR:503x2 RETRY-AFTER:0 SAY:at last").await;
    let transcript = bench.transcript().await;
    assert_eq!(transcript[1], "assistant: at last", "{transcript:?}");
    assert_eq!(bench.model.prompts().len(), 3);
}

#[tokio::test]
async fn an_interrupt_keeps_what_was_said() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two three")).await.unwrap();
    bench
        .notice(|notice| match notice {
            SessionUpdate::Live(live) => {
                matches!(&live.signal, Signal::Delta { text, .. } if text == "two ").then_some(())
            }
            SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
        })
        .await;
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    assert_eq!(bench.transcript().await, ["user: HOLD:x SAY:one two three", "assistant: one two  !aborted"]);
    bench.model.abandoned("x").await;
    bench.model.release("x");
    bench.say("SAY:again").await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: again");
}

#[tokio::test]
async fn an_interrupt_in_a_tool_settles_the_call() {
    let mut bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("TOOL:bash:sleep 600")).await.unwrap();
    bench
        .notice(|notice| match notice {
            SessionUpdate::Live(live) => matches!(live.signal, Signal::Progress { .. }).then_some(()),
            SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
        })
        .await;
    within("the abort", bench.engine.drains().abort(&bench.session.id)).await.unwrap();
    let transcript = bench.transcript().await;
    assert_eq!(transcript.len(), 3, "{transcript:?}");
    assert!(transcript[2].starts_with("result: "), "{transcript:?}");
}

#[tokio::test]
async fn an_unknown_model_fails_the_turn_and_not_the_session() {
    let bench = Bench::new().await;
    let model = |provider: &str, model: &str| {
        Some(ModelRef { provider: provider.to_owned(), model: model.to_owned(), variant: None })
    };
    let prompt = Prompt { model: model("nowhere", "none"), ..Prompt::text("hello") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: hello", "assistant:  !internal"]);
    let prompt = Prompt { model: model("fake", "fake-1"), ..Prompt::text("SAY:back") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: back");
}

#[tokio::test]
async fn a_session_without_a_name_gets_one() {
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
    bench.say("SAY:hi").await;
    let title = bench
        .notice(|notice| match notice {
            SessionUpdate::Committed(committed) => match &committed.record.event {
                Event::TitleChanged { title, .. } => Some(title.clone()),
                _ => None,
            },
            SessionUpdate::Live(_) | SessionUpdate::Gap => None,
        })
        .await;
    assert_eq!(title, "Fake title: SAY:hi");
}

#[tokio::test]
async fn the_baseline_is_rendered_once_and_reused() {
    let bench = Bench::new().await;
    bench.repo.write("AGENTS.md", "Always be brief.");
    bench.say("SAY:one").await;
    bench.repo.write("AGENTS.md", "Never be brief.");
    bench.say("SAY:two").await;
    let systems: Vec<String> =
        bench.model.prompts().iter().map(|request| request["messages"][0]["content"].to_string()).collect();
    assert!(systems[0].contains("Always be brief."));
    assert_eq!(systems[0], systems[1], "the provider's cache holds");
}
