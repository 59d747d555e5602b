//! What is permitted by its own name alone: no permission for a folder around it is one for it, and one answer is enough.

use everturn_engine::Prompt;
use everturn_model::request::{Ask, Reply};
use everturn_tools::process::sandbox::{SandboxMachine, SandboxPart};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::permission::asked;

/// What a call is asked about under these rules, in order, each time with the answer *once*.
async fn questions(rules: &Value, tool: &str, input: &Value) -> Vec<(String, Vec<String>)> {
    // Commands would need a real one.
    let whole = || SandboxMachine::known(SandboxPart::ALL.into());
    let machine = if tool == "bash" { SandboxMachine::unused() } else { whole() };
    let config = |_: &str| json!({ "permission": rules });
    let mut bench = Bench::with(config, |options| options.sandbox = machine).await;
    let text = format!("JSONTOOL:{tool}:{input}\nSAY:done");
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(&text)).await.unwrap();
    let (engine, session) = (bench.engine.clone(), bench.session.id.clone());
    let mut found = Vec::new();
    loop {
        tokio::select! {
            request = asked(&mut bench) => {
                let Ask::Permission { permission, patterns, .. } = request.ask else { panic!("{request:?}") };
                found.push((permission, patterns));
                bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
            }
            _ = engine.drains().settled(&session) => return found,
        }
    }
}

async fn check(rules: Value, tool: &str, input: Value, expected: &[(&str, &str)]) {
    let found = questions(&rules, tool, &input).await;
    let found: Vec<(&str, String)> = found.iter().map(|(name, on)| (name.as_str(), on.join(" "))).collect();
    let expected: Vec<(&str, String)> = expected.iter().map(|(name, on)| (*name, (*on).to_owned())).collect();
    assert_eq!(found, expected, "{rules} {tool} {input}");
}

#[tokio::test]
async fn a_hook_of_the_project_is_asked_for_whatever_is_allowed_outside() {
    // `external_directory` was enough, and a denial of `protected_file` denied nothing.
    let wide = json!({ "external_directory": "allow" });
    let write = json!({ "filePath": ".git/hooks/pre-push", "content": "x" });
    let bash = json!({ "command": "echo x > .git/hooks/pre-push" });
    let hook = [("protected_file", ".git/hooks/pre-push")];
    check(wide.clone(), "write", write.clone(), &hook).await;
    check(wide, "bash", bash.clone(), &hook).await;
    let denied = json!({ "external_directory": "allow", "protected_file": "deny" });
    check(denied.clone(), "write", write.clone(), &[]).await;
    check(denied, "bash", bash.clone(), &[]).await;
    // By default both are asked about, with one question.
    check(json!({}), "write", write, &hook).await;
    check(json!({}), "bash", bash, &hook).await;
    let two = json!({ "command": "mkdir .vscode; echo x > .vscode/tasks.json" });
    check(json!({}), "bash", two, &[("protected_file", ".vscode .vscode/tasks.json")]).await;
}

#[tokio::test]
async fn a_secret_is_asked_for_whatever_else_is_allowed() {
    let read = json!({ "filePath": "/etc/wireguard/none.conf" });
    let secret = [("secret_file", "/etc/wireguard/none.conf")];
    for rules in [
        json!({}),
        json!("allow"),
        json!({ "external_directory": "allow" }),
        json!({ "*": "allow", "secret_*": "allow" }),
    ] {
        check(rules, "read", read.clone(), &secret).await;
    }
    check(json!({ "external_directory": "allow", "secret_file": "allow" }), "read", read.clone(), &[]).await;
    check(
        json!({ "secret_file": "allow" }),
        "read",
        read.clone(),
        &[("external_directory", "/etc/wireguard/*")],
    )
    .await;
    check(json!({ "*": "allow", "secret_file": "deny" }), "read", read, &[]).await;
}
