//! What a call may do that waits for a person: what its turn might do when it asked, over a switch, a change of the
//! configuration and a restart, and nothing that was forbidden meanwhile.

use std::path::Path;

use everturn_engine::sessions::NewSession;
use everturn_engine::{Error, Prompt};
use everturn_model::event::SessionChange;
use everturn_model::inbox::Delivery;
use everturn_model::permission::{Action, Rule};
use everturn_model::request::{Ask, Reply, Request};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission::{ask, asked};

/// A secret outside of the project, and a prompt that reads it: first the folder is asked for, then the file.
fn secret() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.env");
    std::fs::write(&file, "KEY=hidden\n").unwrap();
    let prompt = format!("TOOL:read:{}\nSAY:ok", file.display());
    (folder, prompt)
}

fn permission(request: &Request) -> &str {
    let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
    permission
}

/// Changes what the person has configured.
fn configure(bench: &Bench, permission: &Value) {
    let file: &Path = &bench.data().join("own.json");
    let mut own: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    own["permission"] = permission.clone();
    std::fs::write(file, own.to_string()).unwrap();
}

async fn reply(bench: &Bench, request: &Request, reply: Reply) {
    bench.engine.requests().reply(&request.id, reply, None).await.unwrap();
}

#[tokio::test]
async fn what_is_allowed_after_a_restart_is_not_allowed_to_a_call_that_asked_before() {
    // It went by what is configured by then: whoever allowed something for later answered a call that nobody had looked at.
    let (_folder, prompt) = secret();
    let mut bench = Bench::found(json!({}), &[]).await;
    let first = ask(&mut bench, &prompt).await;
    assert_eq!(permission(&first), "external_directory");
    configure(&bench, &json!({"read": "allow"}));
    bench.restart().await;
    reply(&bench, &first, Reply::Once).await;
    let second = asked(&mut bench).await;
    assert_eq!(permission(&second), "read");
    reply(&bench, &second, Reply::Once).await;
    bench.settled().await;
    // The next call goes by what is configured.
    let third = ask(&mut bench, &prompt).await;
    assert_eq!(permission(&third), "external_directory");
    reply(&bench, &third, Reply::Once).await;
    bench.settled().await;
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_forbidden_meanwhile_is_forbidden_to_a_call_that_waits() {
    let check = async |restarts: bool, forbidden: Value| {
        let (_folder, prompt) = secret();
        let mut bench = Bench::found(json!({}), &[]).await;
        let first = ask(&mut bench, &prompt).await;
        configure(&bench, &forbidden);
        if restarts {
            bench.restart().await;
        }
        reply(&bench, &first, Reply::Once).await;
        bench.settled().await;
        let said = bench.transcript().await;
        assert!(said[2].starts_with("result: Error Not allowed: a rule is against"), "{said:?}");
    };
    for restarts in [false, true] {
        check(restarts, json!({"read": {"*.env": "deny"}})).await;
        // Even what was asked for, whoever says yes to it now.
        check(restarts, json!({"external_directory": "deny"})).await;
    }
}

#[tokio::test]
async fn an_approval_releases_a_call_by_the_rules_of_its_turn_after_a_restart_too() {
    // Only the process that asked knew them.
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let first = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    let session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let prompt = Prompt::text("TOOL:read:/usr/share/x\nSAY:ok");
    bench.engine.inbox().admit(&session.id, prompt).await.unwrap();
    let second = asked(&mut bench).await;
    let rules = vec![Rule::new("external_directory", "/usr/share/*", Action::Allow)];
    let change = SessionChange::PermissionAdded { rules };
    bench.engine.sessions().change(&session.id, vec![change]).await.unwrap();
    bench.restart().await;
    reply(&bench, &first, Reply::Always).await;
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), [(session.id.clone(), second)]);
    bench.engine.drains().abort(&session.id).await.unwrap();
}

#[tokio::test]
async fn a_switch_of_the_agent_changes_nothing_for_a_call_that_waits() {
    let check = async |restarts: bool| {
        let mut bench = Bench::configured(json!({"permission": {"edit": "ask"}})).await;
        let request = ask(&mut bench, "TOOL:write:b.txt=written\nSAY:ok").await;
        // The one that plans may not edit.
        let prompt = Prompt {
            agent: Some("plan".to_owned()),
            delivery: Delivery::Steer,
            ..Prompt::text("TOOL:write:c.txt=written\nSAY:planned")
        };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
        if restarts {
            bench.restart().await;
        }
        reply(&bench, &request, Reply::Once).await;
        bench.settled().await;
        assert_eq!(bench.repo.read("b.txt"), "written");
        assert!(!bench.repo.join("c.txt").exists());
        assert_eq!(bench.transcript().await.last().unwrap(), "assistant: planned");
    };
    check(false).await;
    check(true).await;
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts_and_the_other_is_told() {
    let mut bench = Bench::new().await;
    let other = bench.beside().await;
    for _ in 0..8 {
        let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
        let (yes, no) = tokio::join!(
            bench.engine.requests().reply(&request.id, Reply::Once, None),
            other.requests().reply(&request.id, Reply::Reject, None),
        );
        bench.settled().await;
        let said = bench.transcript().await;
        match (&yes, &no) {
            (Ok(()), Err(Error::NoRequest(_))) => assert_eq!(said.last().unwrap(), "assistant: ok"),
            (Err(Error::NoRequest(_)), Ok(())) => {
                assert!(said.last().unwrap().contains("rejected permission"), "{said:?}");
            }
            both => panic!("{both:?}"),
        }
    }
}

#[tokio::test]
async fn a_call_waits_with_what_its_turn_may_do() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    let config = bench.config().await;
    let policy = config.agents().policy(&bench.session);
    assert_eq!(request.policy.as_deref(), Some(&policy));
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    // What would be too long is not kept with each request.
    let rule = |at: usize| Rule::new("read", &format!("/{at}/{}", "x".repeat(200)), Action::Deny);
    let rules = (0..400).map(rule).collect();
    let change = SessionChange::Permission { rules: Some(rules) };
    bench.engine.sessions().change(&bench.session.id, vec![change]).await.unwrap();
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    assert_eq!(request.policy, None);
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}
