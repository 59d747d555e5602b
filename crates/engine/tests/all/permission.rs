//! Permissions: asked before the tool runs, answered by anybody, remembered when told so.

use std::path::Path;

use everturn_engine::sessions::NewSession;
use everturn_engine::{Error, Prompt, SessionUpdate};
use everturn_model::event::SessionChange;
use everturn_model::permission::{Action, Rule};
use everturn_model::request::{Ask, Reply, Request};
use everturn_model::{Event, SessionId};
use everturn_testkit::Repo;

use crate::bench::Bench;

pub(crate) async fn ask(bench: &mut Bench, prompt: &str) -> Request {
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(prompt)).await.unwrap();
    asked(bench).await
}

pub(crate) async fn asked(bench: &mut Bench) -> Request {
    bench
        .notice(|notice| match notice {
            SessionUpdate::Committed(committed) => match &committed.record.event {
                Event::RequestAsked { request } => Some((**request).clone()),
                _ => None,
            },
            SessionUpdate::Live(_) | SessionUpdate::Gap => None,
        })
        .await
}

#[tokio::test]
async fn once_allows_this_call_only() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    let Ask::Permission { permission, patterns, always, .. } = &request.ask else { panic!("{request:?}") };
    assert_eq!(
        (permission.as_str(), patterns, always),
        ("external_directory", &vec!["/etc/*".to_owned()], &vec!["/etc/*".to_owned()])
    );
    let as_question = [
        bench.engine.requests().dismiss(&request.id).await,
        bench.engine.requests().answer(&request.id, Vec::new()).await,
    ];
    assert!(as_question.iter().all(|answer| matches!(answer, Err(Error::NoRequest(_)))), "{as_question:?}");
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].starts_with("result: Completed"), "{transcript:?}");
    let again = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    assert_ne!(again.id, request.id);
    bench.engine.requests().reply(&again.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
}

#[tokio::test]
async fn reject_stops_the_session_and_tells_the_model_next_time() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hosts\nSAY:never said").await;
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    assert_eq!(
        bench.transcript().await[1..],
        ["assistant: (read)", "result: Error The user rejected permission to use this specific tool call."]
    );
    assert!(
        !bench.engine.sessions().get(&bench.session.id).await.unwrap().open,
        "a restart does not go on by itself"
    );
}

#[tokio::test]
async fn reject_with_words_lets_the_model_go_on() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hosts\nSAY:understood").await;
    bench
        .engine
        .requests()
        .reply(&request.id, Reply::Reject, Some("use the other file".into()))
        .await
        .unwrap();
    bench.settled().await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].contains("use the other file"), "{transcript:?}");
    assert_eq!(transcript[3], "assistant: understood");
}

/// Two calls of one answer that both wait.
async fn ask_twice(bench: &mut Bench) -> [Request; 2] {
    let prompt = "TOGETHER:2\nTOOL:read:/etc/hosts\nTOOL:read:/usr/share/x\nSAY:understood";
    let first = ask(bench, prompt).await;
    [first, asked(bench).await]
}

#[tokio::test]
async fn words_with_a_rejection_reach_the_model_although_another_call_waits() {
    // The other one was rejected without any, which ended the work: the model was not told what the person had said.
    let mut bench = Bench::new().await;
    let [first, _] = ask_twice(&mut bench).await;
    let words = Some("use the other file".to_owned());
    bench.engine.requests().reply(&first.id, Reply::Reject, words).await.unwrap();
    bench.settled().await;
    let rejected = "result: Error The user rejected permission to use this specific tool call.";
    let mut said = bench.transcript().await;
    let mut results: Vec<String> = said.extract_if(.., |line| line.starts_with("result:")).collect();
    results.sort();
    assert_eq!(
        results,
        [
            format!(
                "{rejected} It was rejected together with another call, of which they said: use the other file"
            ),
            format!("{rejected} They said: use the other file"),
        ]
    );
    assert_eq!(said[1..], ["assistant: (read) (read)", "assistant: understood"]);
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
}

#[tokio::test]
async fn a_rejection_without_words_stops_the_session_with_all_that_waits() {
    let mut bench = Bench::new().await;
    let [_, second] = ask_twice(&mut bench).await;
    bench.engine.requests().reply(&second.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    let rejected = "result: Error The user rejected permission to use this specific tool call.";
    assert_eq!(said[1..], ["assistant: (read) (read)", rejected, rejected]);
    assert!(!bench.engine.sessions().get(&bench.session.id).await.unwrap().open);
}

#[tokio::test]
async fn what_a_person_said_with_a_rejection_survives_a_restart_with_both_calls() {
    let mut bench = Bench::new().await;
    let [first, _] = ask_twice(&mut bench).await;
    bench.engine.close().await;
    // Nobody waits for the answer yet.
    bench.engine = bench.beside().await;
    let words = Some("use the other file".to_owned());
    bench.engine.requests().reply(&first.id, Reply::Reject, words).await.unwrap();
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    let said = bench.transcript().await;
    let told = said.iter().filter(|line| line.contains("they said: use the other file"));
    assert_eq!(told.count(), 1, "{said:?}");
    assert_eq!(said.last().unwrap(), "assistant: understood");
}

async fn change_rules(bench: &Bench, session: &SessionId, rules: Vec<Rule>) {
    let change = SessionChange::PermissionAdded { rules };
    bench.engine.sessions().change(session, vec![change]).await.unwrap();
}

#[tokio::test]
async fn an_approval_releases_a_call_by_the_rules_of_the_turn_that_asked() {
    // It went by the rules that the session has by now: whoever loosened those for later answered a question that waited.
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let first = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    let mut others = Vec::new();
    for text in ["TOOL:read:/usr/share/x\nSAY:ok", "TOOL:read:/etc/hosts\nSAY:ok"] {
        let session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
        bench.engine.inbox().admit(&session.id, Prompt::text(text)).await.unwrap();
        others.push((session.id, asked(&mut bench).await));
    }
    let rule = |pattern, action| Rule::new("external_directory", pattern, action);
    let loosened = vec![rule("/usr/share/*", Action::Allow)];
    change_rules(&bench, &others[0].0, loosened).await;
    let forbidden = vec![rule("/etc/*", Action::Deny)];
    change_rules(&bench, &others[1].0, forbidden).await;
    bench.engine.requests().reply(&first.id, Reply::Always, None).await.unwrap();
    assert_eq!(
        bench.engine.requests().waiting().await.unwrap(),
        others,
        "what was forbidden since stays so, too"
    );
}

#[tokio::test]
async fn always_is_remembered_for_the_folder() {
    let mut bench = Bench::new().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await;
    bench.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
    bench.settled().await;
    bench.say("TOOL:read:/etc/hosts\nSAY:not asked").await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: not asked");
    let unknown = bench.engine.requests().reply(&request.id, Reply::Once, None).await;
    assert!(unknown.is_err(), "a request is answered once");
}

#[tokio::test]
async fn always_answers_everybody_who_waits_before_anybody_goes_on() {
    // They were answered one commit after the other: the last of a thousand waited for nine seconds.
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let mut requests = vec![ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:ok").await];
    for _ in 0..7 {
        let session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
        let prompt = Prompt::text("TOOL:read:/etc/hostname\nSAY:ok");
        bench.engine.inbox().admit(&session.id, prompt).await.unwrap();
        requests.push(asked(&mut bench).await);
    }
    bench.engine.requests().reply(&requests[0].id, Reply::Always, None).await.unwrap();
    let mut answered = Vec::new();
    for _ in 0..8 {
        let mut others = 0;
        let id = bench
            .notice(|notice| match notice {
                SessionUpdate::Committed(committed) => match &committed.record.event {
                    Event::RequestAnswered { id, .. } => Some(id.clone()),
                    _ => {
                        others += 1;
                        None
                    }
                },
                SessionUpdate::Live(_) | SessionUpdate::Gap => None,
            })
            .await;
        answered.push((id, others));
    }
    assert_eq!(answered[0].0, requests[0].id);
    let between: Vec<usize> = answered[2..].iter().map(|(_, others)| *others).collect();
    assert_eq!(between, [0; 6], "nothing else was committed between them");
}

#[tokio::test]
async fn a_configured_deny_is_not_asked_about() {
    let bench = Bench::configured(serde_json::json!({"permission": {"bash": {"rm *": "deny"}}})).await;
    bench.say("TOOL:bash:rm a.txt\nSAY:sorry").await;
    let transcript = bench.transcript().await;
    assert!(transcript[2].contains("a rule is against"), "{transcript:?}");
    assert_eq!(bench.repo.read("a.txt"), "hello\n");
}

/// The tools that the model was offered last.
pub(crate) fn offered(bench: &Bench) -> Vec<String> {
    let request = bench.model.prompts().pop().unwrap();
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn who_may_not_edit_is_offered_none_of_the_tools_that_edit() {
    let check = async |rules: serde_json::Value, expected: &[&str]| {
        let bench = Bench::configured(serde_json::json!({"permission": {"edit": rules}})).await;
        bench.say("SAY:ok").await;
        let edits = |name: &String| ["edit", "write", "apply_patch"].contains(&name.as_str());
        assert_eq!(offered(&bench).into_iter().filter(edits).collect::<Vec<_>>(), expected, "{rules}");
    };
    check(serde_json::json!("deny"), &[]).await;
    check(serde_json::json!({"*.md": "allow", "*": "deny"}), &[]).await;
    check(serde_json::json!({"*": "deny", "*.md": "allow"}), &["apply_patch", "edit", "write"]).await;
}

#[tokio::test]
async fn a_session_that_chose_no_agent_works_as_the_one_that_builds() {
    let bench = Bench::new().await;
    assert_eq!(bench.session.agent, None);
    bench.say("SAY:ok").await;
    let nodes = bench.nodes().await;
    let agents: Vec<_> =
        nodes.iter().filter_map(|node| node.entry.body.assistant()?.agent.as_deref()).collect();
    assert_eq!(agents, ["build"]);
}

#[tokio::test]
async fn an_interrupt_withdraws_the_request() {
    let mut bench = Bench::new().await;
    ask(&mut bench, "TOOL:read:/etc/hosts").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
}

#[tokio::test]
async fn always_in_one_folder_answers_nobody_in_another() {
    let mut bench = Bench::new().await;
    let other = Repo::new(&[("b.txt", "elsewhere\n")]);
    check_elsewhere(&mut bench, other.path()).await;
}

#[tokio::test]
async fn always_holds_in_no_other_clone_of_a_repository() {
    // Whoever forks a repository could have used what was approved in the original.
    let mut bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join("clone");
    let mut git = std::process::Command::new("git");
    let cloned = git.args(["clone", "-q"]).args([bench.repo.path(), &clone]).status().unwrap();
    assert!(cloned.success());
    let location = bench.engine.projects().location(clone.to_str()).await.unwrap();
    assert_eq!(location.project.id, bench.session.project);
    check_elsewhere(&mut bench, &clone).await;
}

#[tokio::test]
async fn always_outside_of_repositories_holds_in_one_folder() {
    // All of them are one project.
    let mut bench = Bench::new().await;
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let location = bench.engine.projects().location(one.path().to_str()).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    check_elsewhere(&mut bench, two.path()).await;
}

/// What is approved in the bench's session is asked for in another folder, whether that asked before or after.
async fn check_elsewhere(bench: &mut Bench, folder: &Path) {
    let location = bench.engine.projects().location(folder.to_str()).await.unwrap();
    let elsewhere = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let prompt = "TOOL:read:/etc/hostname\nSAY:ok";
    let here = ask(bench, prompt).await;
    bench.engine.inbox().admit(&elsewhere.id, Prompt::text(prompt)).await.unwrap();
    let there = asked(bench).await;
    assert_eq!(there.ask, here.ask, "it asks for the same");
    bench.engine.requests().reply(&here.id, Reply::Always, None).await.unwrap();
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), [(elsewhere.id.clone(), there)]);
    bench.settled().await;
    bench.engine.drains().abort(&elsewhere.id).await.unwrap();
    let later = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    bench.engine.inbox().admit(&later.id, Prompt::text(prompt)).await.unwrap();
    assert_eq!(asked(bench).await.ask, here.ask);
    bench.engine.drains().abort(&later.id).await.unwrap();
    // Here it still holds.
    bench.say(prompt).await;
    assert_eq!(bench.engine.requests().waiting().await.unwrap(), []);
}

#[tokio::test]
async fn a_file_that_makes_programs_run_is_asked_for_where_edits_are_allowed() {
    // Where edits were allowed, a task for the editor or a line of configuration gave everything that bash can do.
    let check = async |prompt: &str, file: &str| {
        let mut bench =
            Bench::configured(serde_json::json!({"permission": {"edit": "allow", "bash": "allow"}})).await;
        let request = ask(&mut bench, &format!("{prompt}\nSAY:ok")).await;
        let Ask::Permission { permission, patterns, .. } = &request.ask else { panic!("{request:?}") };
        assert_eq!(
            (permission.as_str(), patterns.as_slice()),
            ("protected_file", &[file.to_owned()][..]),
            "{prompt}"
        );
        bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
        bench.settled().await;
        assert!(!bench.repo.join(file).exists(), "{prompt}");
    };
    check("JSONTOOL:write:{\"filePath\":\"opencode.json\",\"content\":\"{}\"}", "opencode.json").await;
    check("JSONTOOL:write:{\"filePath\":\".vscode/tasks.json\",\"content\":\"{}\"}", ".vscode/tasks.json")
        .await;
    check("JSONTOOL:bash:{\"command\":\"echo x > AGENTS.md\"}", "AGENTS.md").await;
    check("JSONTOOL:bash:{\"command\":\"cp a.txt .envrc\"}", ".envrc").await;
    let patch = "*** Begin Patch\\n*** Add File: CLAUDE.md\\n+x\\n*** End Patch";
    check(&format!("JSONTOOL:apply_patch:{{\"patchText\":\"{patch}\"}}"), "CLAUDE.md").await;
}

/// What comes of a command where the person has such rules for commands: refused, asked about, or run.
async fn fate(rules: serde_json::Value, command: &str) -> &'static str {
    // Without a sandbox, what is not resolved asks for that besides.
    let config = serde_json::json!({"permission": {"bash": rules, "external_directory": "allow"}});
    let mut bench = Bench::configured(config).await;
    let input = serde_json::json!({ "command": command });
    let prompt = Prompt::text(&format!("JSONTOOL:bash:{input}\nSAY:ok"));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let (engine, session) = (bench.engine.clone(), bench.session.id.clone());
    tokio::select! {
        request = asked(&mut bench) => {
            let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
            assert_eq!(permission, "bash", "{command}");
            bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
            bench.settled().await;
            "asked"
        }
        _ = engine.drains().settled(&session) => {
            let said = bench.transcript().await.join("\n");
            if said.contains("a rule is against bash") { "refused" } else { "run" }
        }
    }
}

#[tokio::test]
async fn a_denied_command_in_disguise_is_asked_about() {
    // That everything else is allowed by default let each of these run, without a question.
    let denied = || serde_json::json!({"rm *": "deny", "git push *": "deny"});
    let disguised = [
        "bash -c 'rm -f a'",
        "eval rm -f a",
        "$(echo rm) -f a",
        "x=rm; $x -f a",
        "alias x=rm",
        "x() { \"$@\"; }; x echo",
        "git $(echo push) .",
        "/bin/r? -f a",
    ];
    for command in disguised {
        assert_eq!(fate(denied(), command).await, "asked", "{command}");
        assert_eq!(fate(serde_json::json!({}), command).await, "run", "{command}");
    }
    for command in
        ["rm -f a", "command rm -f a", "/bin/rm -f a", "\\rm a", "r\"\"m a", "env rm a", "echo a | xargs rm"]
    {
        assert_eq!(fate(denied(), command).await, "refused", "{command}");
    }
    for command in ["echo \"$HOME\"", "cat *.txt", "echo \"$(echo a)\" || true", "ls && echo '$x'"] {
        assert_eq!(fate(denied(), command).await, "run", "{command}");
    }
    // Only who names such commands means them.
    for (rule, command, expected) in [
        ("*", "bash -c 'echo a'", "asked"),
        ("bash *", "bash -c 'echo a'", "asked"),
        ("(runs other programs) *", "bash -c 'echo a'", "run"),
        ("(runs other programs) bash -c *", "bash -c 'echo a'", "run"),
        ("(runs other programs) sh -c *", "bash -c 'echo a'", "asked"),
        ("(not resolved) cat *", "cat $x a.txt", "run"),
        ("cat *", "cat $x a.txt", "asked"),
    ] {
        let rules = serde_json::json!({(rule): "allow", "rm *": "deny", "cat -v *": "deny"});
        assert_eq!(fate(rules, command).await, expected, "{rule}: {command}");
    }
}

#[tokio::test]
async fn an_approval_of_a_disguise_is_for_the_same_text_alone() {
    let config = serde_json::json!({"permission": {"bash": {"rm *": "deny"}, "external_directory": "allow"}});
    let mut bench = Bench::configured(config).await;
    let line = |command: &str| format!("JSONTOOL:bash:{}\nSAY:ok", serde_json::json!({ "command": command }));
    let request = ask(&mut bench, &line("bash -c 'echo a > made'")).await;
    bench.engine.requests().reply(&request.id, Reply::Always, None).await.unwrap();
    bench.settled().await;
    assert!(bench.repo.join("made").exists());
    bench.say(&line("bash -c 'echo a > made'")).await;
    let other = ask(&mut bench, &line("bash -c 'echo b > made'")).await;
    bench.engine.requests().reply(&other.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
}
