//! Who lets a command out of the sandbox: a person who says so by name, and never a rule that allows everything.

use std::collections::BTreeSet;

use everturn_engine::Prompt;
use everturn_engine::sessions::NewSession;
use everturn_model::request::{Ask, Reply};
use everturn_testkit::within;
use everturn_tools::process::sandbox::{SandboxMachine, SandboxPart};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission::asked;

/// A session on a machine that has these parts of a sandbox, with these rules of the person's.
async fn bench(parts: &BTreeSet<SandboxPart>, rules: &Value) -> Bench {
    let config = |_: &str| json!({ "permission": rules });
    Bench::with(config, |options| options.sandbox = SandboxMachine::known(parts.clone())).await
}

/// Whether an agent's command that wants out is asked about; without a question it has run outside.
async fn is_asked(parts: &BTreeSet<SandboxPart>, rules: Value, agent: &str) -> bool {
    let mut bench = bench(parts, &rules).await;
    let input = json!({ "command": "touch out", "description": "a test", "outside_sandbox": true });
    let text = format!("JSONTOOL:bash:{input}\nSAY:done");
    let prompt = Prompt { agent: Some(agent.into()), ..Prompt::text(&text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (ran, engine, session) = (bench.repo.join("out"), bench.engine.clone(), bench.session.id.clone());
    tokio::select! {
        request = asked(&mut bench) => {
            let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
            assert_eq!(permission, "outside_sandbox", "{rules} {agent}");
            bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
            bench.settled().await;
            assert!(ran.exists(), "an answer lets it out: {rules} {agent}");
            true
        }
        _ = engine.drains().settled(&session) => {
            assert!(ran.exists(), "{rules} {agent}");
            false
        }
    }
}

#[tokio::test]
async fn a_rule_that_allows_everything_lets_no_command_out_of_a_whole_sandbox() {
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    for rules in [
        json!("allow"),
        json!({ "*": "allow" }),
        json!({ "outside_*": "allow" }),
        json!({ "bash": "allow", "*": { "*": "allow" } }),
    ] {
        assert!(is_asked(&whole, rules.clone(), "build").await, "{rules}");
    }
    for rules in [
        json!({ "outside_sandbox": "allow" }),
        json!({ "outside_sandbox": "allow", "*": "allow" }),
        json!({ "outside_sandbox": { "touch *": "allow" } }),
    ] {
        assert!(!is_asked(&whole, rules.clone(), "build").await, "{rules}");
    }
}

#[tokio::test]
async fn where_a_part_is_missing_there_is_no_wall_to_leave() {
    let none = BTreeSet::new();
    assert!(is_asked(&none, json!({}), "build").await);
    assert!(!is_asked(&none, json!("allow"), "build").await);
    assert!(is_asked(&none, json!({ "*": "allow", "outside_sandbox": "ask" }), "build").await);
}

#[tokio::test]
async fn an_agent_that_may_not_edit_leaves_by_no_rule() {
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let rules = json!({ "*": "allow", "outside_sandbox": "allow" });
    for parts in [&whole, &BTreeSet::new()] {
        assert!(is_asked(parts, rules.clone(), "plan").await, "{parts:?}");
    }
    let denied = json!({ "edit": "deny", "outside_sandbox": "allow" });
    assert!(is_asked(&whole, denied, "build").await);
}

#[tokio::test]
async fn what_was_approved_for_good_lets_out_no_agent_that_may_not_edit() {
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let mut bench = bench(&whole, &json!({})).await;
    let input = json!({ "command": "touch out", "description": "a test", "outside_sandbox": true });
    let text = format!("JSONTOOL:bash:{input}\nSAY:done");
    let say = async |bench: &mut Bench, agent: &str| {
        let prompt = Prompt { agent: Some(agent.into()), ..Prompt::text(&text) };
        bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    };
    say(&mut bench, "build").await;
    let request = asked(&mut bench).await;
    bench.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
    bench.settled().await;
    std::fs::remove_file(bench.repo.join("out")).unwrap();
    say(&mut bench, "build").await;
    bench.settled().await;
    assert!(bench.repo.join("out").exists(), "the person has said so for good");
    std::fs::remove_file(bench.repo.join("out")).unwrap();
    say(&mut bench, "plan").await;
    let request = asked(&mut bench).await;
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    assert!(!bench.repo.join("out").exists());
}

#[tokio::test]
async fn an_approval_of_something_else_lets_nobody_out_who_waits() {
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let mut bench = bench(&whole, &json!({ "*": "allow", "read": "ask" })).await;
    let input = json!({ "command": "touch out", "description": "a test", "outside_sandbox": true });
    let prompt = Prompt::text(&format!("JSONTOOL:bash:{input}\nSAY:done"));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let leaving = asked(&mut bench).await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.engine.inbox().admit(&other.id, Prompt::text("TOOL:read:a.txt\nSAY:done")).await.unwrap();
    let reading = asked(&mut bench).await;
    bench.engine.requests().reply(&reading.id, Reply::Always, None).await.unwrap();
    within("the other session to settle", bench.engine.drains().settled(&other.id)).await;
    let waiting = bench.engine.requests().waiting().await.unwrap();
    assert_eq!(waiting.into_iter().map(|(_, request)| request.id).collect::<Vec<_>>(), [leaving.id]);
    assert!(!bench.repo.join("out").exists());
}

/// What comes of a command that nobody can cut off from the network: `true` if it has run, after the questions that are
/// listed.
async fn uncut(extra: Value, parts: Option<&BTreeSet<SandboxPart>>, outside: bool) -> (bool, Vec<String>) {
    let change = |options: &mut everturn_engine::Options| {
        if let Some(parts) = parts {
            options.sandbox = SandboxMachine::known(parts.clone());
        }
    };
    let mut bench = Bench::with(|_| extra, change).await;
    let input = json!({ "command": "touch out", "description": "a test", "outside_sandbox": outside });
    let prompt = Prompt::text(&format!("JSONTOOL:bash:{input}\nSAY:done"));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (engine, session) = (bench.engine.clone(), bench.session.id.clone());
    let mut questions = Vec::new();
    loop {
        tokio::select! {
            request = asked(&mut bench) => {
                let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
                questions.push(permission.clone());
                bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
            }
            _ = engine.drains().settled(&session) => break,
        }
    }
    let ran = bench.repo.join("out").exists();
    let transcript = bench.transcript().await.join("\n");
    let told = transcript.contains("a rule is against network on touch out");
    assert_eq!(told, !ran, "{transcript}");
    (ran, questions)
}

#[tokio::test]
async fn one_rule_asks_once_about_a_command() {
    // It was asked whether the command may use the network, and then whether it may run, by one and the same rule.
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let check = async |permission: Value, expected: &[&str]| {
        let off = json!({ "sandbox": "off", "permission": permission });
        assert_eq!(
            uncut(off, None, false).await,
            (true, expected.iter().map(|name| (*name).to_owned()).collect()),
            "{permission}"
        );
    };
    check(json!("ask"), &["bash"]).await;
    check(json!({ "*": "ask", "bash": { "touch *": "ask" } }), &["bash"]).await;
    // What is asked for by name is asked for by itself, and so is what another rule has allowed the command.
    check(json!({ "*": "ask", "network": "ask" }), &["network", "bash"]).await;
    check(json!({ "*": "ask", "bash": "allow" }), &["network"]).await;
    check(json!({ "*": "ask", "network": "allow" }), &["bash"]).await;
    // Where it can be kept from the network, to leave the sandbox is asked for, and then the network with it.
    let leaving = uncut(json!({ "permission": "ask" }), Some(&whole), true).await;
    assert_eq!(leaving, (true, ["outside_sandbox", "network", "bash"].map(str::to_owned).to_vec()));
}

#[tokio::test]
async fn an_answer_for_good_is_for_the_network_as_well() {
    let mut bench = Bench::with(|_| json!({ "sandbox": "off", "permission": "ask" }), |_| {}).await;
    let input = json!({ "command": "touch out", "description": "a test" });
    let prompt = || Prompt::text(&format!("JSONTOOL:bash:{input}\nSAY:done"));
    bench.engine.inbox().admit(&bench.session.id, prompt()).await.unwrap();
    let request = asked(&mut bench).await;
    bench.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
    within("the first command", bench.engine.drains().settled(&bench.session.id)).await;
    std::fs::remove_file(bench.repo.join("out")).unwrap();
    bench.engine.inbox().admit(&bench.session.id, prompt()).await.unwrap();
    within("the second command", bench.engine.drains().settled(&bench.session.id)).await;
    assert!(bench.repo.join("out").exists());
}

#[tokio::test]
async fn who_cannot_be_cut_off_needs_the_network_to_be_allowed() {
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let only = json!({ "*": "deny", "touch *": "allow" });
    let but = json!({ "*": "allow", "touch *": "deny" });
    for (network, expected) in [
        (json!("allow"), (true, vec![])),
        (json!("ask"), (true, vec!["network".to_owned()])),
        (json!("deny"), (false, vec![])),
        (only, (true, vec![])),
        (but, (false, vec![])),
    ] {
        let rules = json!({ "network": network, "outside_sandbox": "allow" });
        let off = json!({ "sandbox": "off", "permission": rules });
        assert_eq!(uncut(off, None, false).await, expected, "switched off: {rules}");
        let on = json!({ "permission": rules });
        assert_eq!(uncut(on.clone(), Some(&whole), true).await, expected, "outside: {rules}");
        assert_eq!(uncut(on, Some(&BTreeSet::new()), false).await, expected, "nothing of it: {rules}");
    }
}
