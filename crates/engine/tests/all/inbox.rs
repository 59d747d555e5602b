//! Prompts: accepted once, promoted in order.

use everturn_engine::{Error, Prompt};
use everturn_model::EntryId;
use everturn_model::entry::AnswerShape;
use everturn_model::inbox::Delivery;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_testkit::within;
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn the_same_prompt_twice_is_one_prompt() {
    let bench = Bench::new().await;
    let id = bench.engine.mint().entry(&bench.session);
    let prompt = Prompt { id: Some(id.clone()), ..Prompt::text("SAY:once") };
    let first = bench.engine.inbox().admit(&bench.session.id, prompt.clone()).await.unwrap();
    let again = bench.engine.inbox().admit(&bench.session.id, prompt.clone()).await.unwrap();
    assert_eq!(first.parts, again.parts);
    bench.settled().await;
    let after = bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    assert_eq!(after.parts, first.parts, "and still once it is promoted");
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: SAY:once", "assistant: once"]);
    let other = Prompt { id: Some(id), ..Prompt::text("SAY:different") };
    let refused = bench.engine.inbox().admit(&bench.session.id, other).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
}

#[tokio::test]
async fn the_same_prompt_twice_at_once_is_one_prompt() {
    let bench = Bench::new().await;
    let mut expected = Vec::new();
    // Each time the two may come together at another place.
    for number in 0..8 {
        let (id, text) = (bench.engine.mint().entry(&bench.session), format!("SAY:once {number}"));
        let admit = || {
            let prompt = Prompt { id: Some(id.clone()), ..Prompt::text(&text) };
            bench.engine.inbox().admit(&bench.session.id, prompt)
        };
        let (first, second) = tokio::join!(admit(), admit());
        assert_eq!(first.unwrap().parts, second.unwrap().parts);
        bench.settled().await;
        expected.extend([format!("user: {text}"), format!("assistant: once {number}")]);
    }
    assert_eq!(bench.transcript().await, expected);
}

#[tokio::test]
async fn a_prompt_whose_process_died_is_answered_where_it_is_sent_again() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let prompt = Prompt { id: Some(bench.engine.mint().entry(&bench.session)), ..Prompt::text("SAY:once") };
    // It dies before it comes to it, because somebody else has the session.
    let store = bench.other_store().await;
    let lease = store.acquire(id).await.unwrap();
    let other = bench.beside().await;
    other.inbox().admit(id, prompt.clone()).await.unwrap();
    within("the other engine to end", other.close()).await;
    store.release(lease).await.unwrap();
    bench.engine.inbox().admit(id, prompt).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: SAY:once", "assistant: once"]);
}

#[tokio::test]
async fn a_steer_joins_at_the_next_boundary() {
    let bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:first answer")).await.unwrap();
    bench.model.held("x").await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:second")).await.unwrap();
    let waiting = bench.engine.sessions().conversation(&bench.session.id, None).await.unwrap();
    assert_eq!(waiting.inbox.len(), 1);
    bench.model.release("x");
    bench.settled().await;
    assert_eq!(
        bench.transcript().await,
        ["user: HOLD:x SAY:first answer", "assistant: first answer", "user: SAY:second", "assistant: second"]
    );
}

#[tokio::test]
async fn queued_prompts_wait_for_each_other_and_steers_go_first() {
    let bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:a b")).await.unwrap();
    bench.model.held("x").await;
    for (text, delivery) in
        [("SAY:q1", Delivery::Queue), ("SAY:q2", Delivery::Queue), ("SAY:s", Delivery::Steer)]
    {
        bench
            .engine
            .inbox()
            .admit(&bench.session.id, Prompt { delivery, ..Prompt::text(text) })
            .await
            .unwrap();
    }
    bench.model.release("x");
    bench.settled().await;
    let said: Vec<String> =
        bench.transcript().await.into_iter().filter(|line| line.starts_with("assistant")).collect();
    assert_eq!(said, ["assistant: a b", "assistant: s", "assistant: q1", "assistant: q2"]);
}

#[tokio::test]
async fn a_prompt_that_wants_no_answer_gets_none() {
    let bench = Bench::new().await;
    let prompt = Prompt { reply: false, ..Prompt::text("only so you know") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: only so you know"]);
    assert!(bench.model.prompts().is_empty());
}

#[tokio::test]
async fn sessions_run_side_by_side() {
    let bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:slow one")).await.unwrap();
    bench.model.held("x").await;
    bench.engine.inbox().admit(&other.id, Prompt::text("SAY:quick")).await.unwrap();
    within("the other session", bench.engine.drains().settled(&other.id)).await;
    assert!(bench.engine.drains().is_running(&bench.session.id));
    bench.model.release("x");
    bench.settled().await;
}

#[tokio::test]
async fn the_same_prompt_is_the_same_although_its_file_changed() {
    let bench = Bench::new().await;
    let kind = PartKind::File {
        mime: "text/plain".into(),
        filename: Some("a.txt".into()),
        url: format!("file://{}", bench.repo.join("a.txt").display()),
        source: None,
    };
    let file = everturn_engine::inbox::PartInput::new(kind);
    let mut prompt =
        Prompt { id: Some(bench.engine.mint().entry(&bench.session)), ..Prompt::text("SAY:read") };
    prompt.parts.push(file);
    bench.engine.inbox().admit(&bench.session.id, prompt.clone()).await.unwrap();
    bench.settled().await;
    bench.repo.write("a.txt", "something else");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.model.prompts().len(), 1);
    let told = bench.model.prompts()[0]["messages"].to_string();
    assert!(told.contains("a.txt:\\nhello"), "{told}");
}

#[tokio::test]
async fn a_resume_says_that_work_is_left_although_nothing_held_it() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let resumed = async || bench.engine.drains().resume(id).await.unwrap();
    assert!(!resumed().await, "nothing is left to do");
    bench.settled().await;
    // What cannot go on for another reason waits unheld.
    let store = bench.other_store().await;
    let lease = store.acquire(id).await.unwrap();
    bench.engine.inbox().admit(id, Prompt::text("SAY:at last")).await.unwrap();
    let waits = bench.engine.sessions().get(id).await.unwrap();
    assert_eq!((waits.held, waits.parked, waits.waiting), (false, false, 1));
    assert!(resumed().await, "a prompt waits");
    store.release(lease).await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: SAY:at last", "assistant: at last"]);
    assert!(!resumed().await, "it was answered");
}

#[tokio::test]
async fn an_id_that_leaves_no_room_is_refused() {
    let bench = Bench::new().await;
    let id = Some(EntryId::new("msg_ffffffffffffaaaaaaaaaaaaaa"));
    let refused = bench.engine.inbox().admit(&bench.session.id, Prompt { id, ..Prompt::text("SAY:x") }).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let mut twice = Prompt::text("SAY:x");
    twice.parts[0].id = Some(everturn_model::PartId::new("prt_1"));
    twice.parts.push(twice.parts[0].clone());
    let refused = bench.engine.inbox().admit(&bench.session.id, twice).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn an_id_that_is_used_again_for_another_delivery_is_refused() {
    let bench = Bench::new().await;
    let id = Some(bench.engine.mint().entry(&bench.session));
    let prompt = Prompt { id, resume: false, ..Prompt::text("SAY:once") };
    bench.engine.inbox().admit(&bench.session.id, prompt.clone()).await.unwrap();
    let queued = Prompt { delivery: Delivery::Queue, ..prompt };
    let refused = bench.engine.inbox().admit(&bench.session.id, queued).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    assert_eq!(bench.engine.inbox().waiting(&bench.session.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_id_that_is_used_again_for_other_demands_is_refused() {
    let bench = Bench::new().await;
    let off = |name: &str| Some([(name.to_owned(), json!(false))].into_iter().collect());
    let shape = |retries| Some(AnswerShape { schema: json!({"type": "object"}), retries });
    let id = Some(bench.engine.mint().entry(&bench.session));
    let (system, tools, format) = (Some("Be brief.".to_owned()), off("bash"), shape(1));
    let prompt = Prompt { id, system, tools, format, resume: false, ..Prompt::text("SAY:once") };
    bench.engine.inbox().admit(&bench.session.id, prompt.clone()).await.unwrap();
    for other in [
        Prompt { system: Some("Be long.".to_owned()), ..prompt.clone() },
        Prompt { system: None, ..prompt.clone() },
        Prompt { tools: off("read"), ..prompt.clone() },
        Prompt { format: shape(2), ..prompt.clone() },
        Prompt { agent: Some("plan".to_owned()), ..prompt.clone() },
        Prompt { reply: false, ..prompt.clone() },
    ] {
        let refused = bench.engine.inbox().admit(&bench.session.id, other.clone()).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{other:?}: {refused:?}");
    }
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    assert_eq!(bench.engine.inbox().waiting(&bench.session.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn those_who_wake_a_session_together_get_one_answer() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let quiet = Prompt { resume: false, ..Prompt::text("SAY:once") };
    bench.engine.inbox().admit(id, quiet).await.unwrap();
    let resumes = (0..8).map(|_| bench.engine.drains().resume(id));
    let resumed = futures_util::future::join_all(resumes).await;
    assert!(resumed.into_iter().any(Result::unwrap));
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: SAY:once", "assistant: once"]);
    assert_eq!(bench.model.prompts().len(), 1);
}

#[tokio::test]
async fn a_prompt_that_waits_behind_a_turn_that_fails_is_answered() {
    let bench = Bench::new().await;
    let to = |provider: &str, model: &str, text: &str| {
        let model = ModelRef { provider: provider.to_owned(), model: model.to_owned(), variant: None };
        Prompt { model: Some(model), ..Prompt::text(text) }
    };
    bench.engine.inbox().admit(&bench.session.id, to("nowhere", "none", "hello")).await.unwrap();
    let behind = Prompt { delivery: Delivery::Queue, ..to("fake", "fake-1", "SAY:back") };
    bench.engine.inbox().admit(&bench.session.id, behind).await.unwrap();
    bench.settled().await;
    assert_eq!(
        bench.transcript().await,
        ["user: hello", "assistant:  !internal", "user: SAY:back", "assistant: back"]
    );
}

#[tokio::test]
async fn prompts_that_wait_behind_several_turns_that_fail_are_answered() {
    // A failure ended the work, and that somebody had come meanwhile counted once: the third waited until the next one came.
    let bench = Bench::new().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:a SAY:one")).await.unwrap();
    bench.model.held("a").await;
    for text in ["ERR:400 two", "ERR:400 three", "SAY:four"] {
        let prompt = Prompt { delivery: Delivery::Queue, ..Prompt::text(text) };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    }
    bench.model.release("a");
    bench.settled().await;
    let said = bench.transcript().await;
    let asked: Vec<&String> = said.iter().filter(|line| line.starts_with("user:")).collect();
    assert_eq!(asked, ["user: HOLD:a SAY:one", "user: ERR:400 two", "user: ERR:400 three", "user: SAY:four"]);
    assert!(said.last().unwrap().starts_with("assistant:"), "{said:?}");
}
