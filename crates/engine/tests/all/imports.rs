//! Sessions of other programs: what is odd about them is said, and does not spoil what is here.

use everturn_engine::{Error, Prompt};
use everturn_model::SessionId;
use everturn_model::permission::Action;
use everturn_testkit::{Refusal, within};
use serde_json::json;

use crate::bench::Bench;

/// An export without messages.
fn export(id: &str, parent: &str) -> Vec<u8> {
    let info = json!({
        "id": id, "parentID": parent, "slug": "s", "projectID": "global", "directory": "/srv/demo", "title": "t",
        "version": "1.0.0", "time": {"created": 1_794_711_664_171_i64, "updated": 1_794_711_664_171_i64},
    });
    json!({"info": info, "messages": []}).to_string().into_bytes()
}

#[tokio::test]
async fn a_session_that_belongs_to_itself_comes_in_without_a_parent() {
    // It was taken in as it was, and whoever deleted it waited for ever.
    let bench = Bench::new().await;
    let id = SessionId::new("ses_selfselfselfselfselfself01");
    let report = bench.engine.imports().export(&export(id.as_str(), id.as_str())).await.unwrap();
    assert_eq!(report.imported, std::slice::from_ref(&id));
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(bench.engine.sessions().get(&id).await.unwrap().parent, None);
    let again = bench.engine.imports().export(&export(id.as_str(), id.as_str())).await.unwrap();
    assert_eq!((again.imported.len(), again.present), (0, 1), "{again:?}");
    within("it to go into the trash", bench.engine.sessions().trash(&id)).await.unwrap();
}

#[tokio::test]
async fn sessions_that_belong_to_each_other_do_so_one_way() {
    let bench = Bench::new().await;
    let [a, b, c] = ["ses_a", "ses_b", "ses_c"];
    for (id, parent, problems) in [(a, c, 0), (b, a, 0), (c, b, 1)] {
        let report = bench.engine.imports().export(&export(id, parent)).await.unwrap();
        assert_eq!((report.imported.len(), report.problems.len()), (1, problems), "{report:?}");
    }
    let parent = async |id: &str| bench.engine.sessions().get(&SessionId::new(id)).await.unwrap().parent;
    assert_eq!(parent(a).await, Some(SessionId::new(c)), "known before its parent was");
    assert_eq!(parent(b).await, Some(SessionId::new(a)));
    assert_eq!(parent(c).await, None);
}

#[tokio::test]
async fn an_import_that_the_store_refuses_fails() {
    let bench = Bench::new().await;
    let refusal = Refusal::of(bench.data(), "session.imported");
    let refused = bench.engine.imports().export(&export("ses_a", "ses_b")).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    refusal.lift();
    let report = bench.engine.imports().export(&export("ses_a", "ses_b")).await.unwrap();
    assert_eq!(report.imported, [SessionId::new("ses_a")]);
}

#[tokio::test]
async fn every_session_of_many_is_counted_once() {
    // More than are on their way at once.
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("storage/session/global");
    std::fs::create_dir_all(&sessions).unwrap();
    for number in 0..300 {
        let id = format!("ses_{number:03}");
        let export: serde_json::Value = serde_json::from_slice(&export(&id, "ses_none")).unwrap();
        std::fs::write(sessions.join(format!("{id}.json")), export["info"].to_string()).unwrap();
    }
    let mut counted = Vec::new();
    let progress = |done, total| counted.push((done, total));
    let report = bench.engine.imports().opencode(folder.path(), progress).await.unwrap();
    assert_eq!((report.imported.len(), report.present, report.problems), (300, 0, Vec::new()));
    assert_eq!(counted, (1..=300).map(|done| (done, 300)).collect::<Vec<_>>());
}

#[tokio::test]
async fn rules_and_scripts_that_an_import_brings_let_nothing_happen() {
    // Its rules came after the person's, and the last one counts; its model could be a file of the project.
    let bench = Bench::configured(json!({"permission": {"bash": {"*": "ask", "rm *": "deny"}}})).await;
    bench.repo.write("play.json", "not even a script");
    let mut export: serde_json::Value = serde_json::from_slice(&export("ses_a", "ses_none")).unwrap();
    // What a session that works for another may do is bounded by that one anyway.
    export["info"].as_object_mut().unwrap().remove("parentID");
    export["info"]["directory"] = bench.repo.dir().into();
    export["info"]["model"] = json!({"id": "./play.json", "providerID": "scripted"});
    let rules = json!([{"permission": "*", "pattern": "*", "action": "allow"},
        {"permission": "webfetch", "pattern": "*", "action": "deny"}]);
    export["info"]["permission"] = rules.clone();
    let id = bench.engine.imports().export(export.to_string().as_bytes()).await.unwrap().imported.remove(0);
    let session = bench.engine.sessions().get(&id).await.unwrap();
    let config = bench.config().await;
    let check = |session: &everturn_model::Session, permission: &str, resource: &str| {
        let policy = config.agents().policy(session);
        policy.decide(&[], permission, &[resource.to_owned()])
    };
    assert_eq!(check(&session, "bash", "rm x"), Action::Deny);
    assert_eq!(check(&session, "bash", "ls"), Action::Ask);
    assert_eq!(check(&session, "webfetch", "x"), Action::Deny);
    assert_eq!(check(&session, "read", "x"), Action::Allow);
    // Clients see the rules, and an export has them again.
    assert_eq!(session.permission, None);
    let shown = everturn_interop::opencode::v1::session_info(&session);
    assert_eq!(shown["permission"], rules);
    bench.engine.inbox().admit(&id, Prompt::text("SAY:the usual model")).await.unwrap();
    within("the session to settle", bench.engine.drains().settled(&id)).await;
    assert_eq!(bench.transcript_of(&id).await.last().unwrap(), "assistant: the usual model");
    // So it is with its forks.
    let fork = bench.engine.sessions().fork(&id, None).await.unwrap();
    assert_eq!(check(&fork, "webfetch", "x"), Action::Deny);
}

#[tokio::test]
async fn a_session_that_could_never_be_read_again_is_named_and_left_out() {
    // It was taken in, and every list that it was in failed from then on.
    let bench = Bench::new().await;
    let mut deep: serde_json::Value = serde_json::from_slice(&export("ses_deep", "ses_none")).unwrap();
    deep["info"]["metadata"] = json!({"deep": (0..118).fold(json!(1), |inner, _| json!([inner]))});
    let report = bench.engine.imports().export(deep.to_string().as_bytes()).await.unwrap();
    assert_eq!((report.imported.len(), report.present, report.problems.len()), (0, 0, 1), "{report:?}");
    let problem = &report.problems[0];
    assert!(problem.contains("session ses_deep is nested") && problem.contains("at most 112"), "{problem}");
    let missing = bench.engine.sessions().get(&SessionId::new("ses_deep")).await;
    assert!(matches!(missing, Err(Error::NoSession(_))), "{missing:?}");
}
