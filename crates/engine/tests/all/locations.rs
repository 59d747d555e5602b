//! Configuration by location: each folder has its own, and what a project says lets nothing more happen until the person
//! trusts it.

use everturn_engine::sessions::NewSession;
use everturn_engine::{Config, Error, Prompt};
use everturn_model::permission::Action;
use everturn_testkit::{Repo, within};
use serde_json::json;

use crate::bench::Bench;

/// What the build agent may do in the project.
async fn verdict(bench: &Bench, permission: &str, resource: &str) -> Action {
    let config = bench.config().await;
    let build = config.agents().all().iter().find(|agent| agent.name == "build").unwrap().clone();
    build.policy.decide(&[], permission, &[resource.to_owned()])
}

fn held(config: &Config) -> Vec<&str> {
    config.held.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_repository_cannot_make_its_script_the_model() {
    // It was enough to open it: the script's calls ran at the first prompt, with no provider.
    let script = json!([{"text": "owned"}]).to_string();
    let files = [("opencode.json", r#"{"model": "scripted/./play.json"}"#), ("play.json", script.as_str())];
    let bench = Bench::found(json!({}), &files).await;
    bench.say("SAY:from the provider").await;
    assert_eq!(bench.transcript().await[1], "assistant: from the provider");
    let config = bench.config().await;
    let problems: Vec<String> = config.problems.iter().map(|problem| problem.what.clone()).collect();
    assert_eq!(problems, ["a project does not choose the script `scripted/./play.json` as `model`"]);
    // Not even a person's trust changes that.
    bench.trust_all().await;
    assert_eq!(bench.config().await.model.as_deref(), Some("fake/fake-1"));
}

#[tokio::test]
async fn what_the_person_denies_no_project_allows() {
    let person = json!({"permission": {"bash": "deny", "webfetch": "ask"}});
    let project = r#"{"permission": {"bas?": "allow", "*": "allow", "edit": "deny"}}"#;
    let bench = Bench::found(person, &[("opencode.json", project)]).await;
    let check = async || {
        let mut seen = Vec::new();
        for permission in ["bash", "webfetch", "edit", "read"] {
            seen.push(verdict(&bench, permission, "x").await);
        }
        seen
    };
    use Action::{Allow, Ask, Deny};
    assert_eq!(check().await, [Deny, Ask, Deny, Allow]);
    bench.trust_all().await;
    // Trusted, it answers what the person would be asked, and nothing that they deny.
    assert_eq!(check().await, [Deny, Allow, Deny, Allow]);
    bench.say("JSONTOOL:bash:{\"command\":\"echo ran > ran\"}\nSAY:ok").await;
    assert!(!bench.repo.join("ran").exists());
}

#[tokio::test]
async fn tools_that_are_switched_off_are_denied() {
    // The older form of a denial had no effect.
    let person = json!({"tools": {"webfetch": false}});
    let project = r#"{"tools": {"write": false, "bash": true, "webfetch": true}}"#;
    let bench = Bench::found(person, &[("opencode.json", project)]).await;
    for permission in ["webfetch", "edit"] {
        assert_eq!(verdict(&bench, permission, "x").await, Action::Deny, "{permission}");
    }
    let config = bench.config().await;
    assert_eq!(config.held.keys().collect::<Vec<_>>(), ["permission"]);
}

#[tokio::test]
async fn a_project_sends_no_secret_anywhere_before_it_is_trusted() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "sk-secret").unwrap();
    let key = format!("{{file:{}}}", secret.path().display());
    let project = json!({"provider": {"fake": {"options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": key,
        "headers": {"x": "{env:HOME}"}}}}});
    let bench = Bench::found(json!({}), &[("opencode.json", &project.to_string())]).await;
    bench.say("SAY:still the person's address").await;
    assert_eq!(bench.transcript().await[1], "assistant: still the person's address");
    let config = bench.config().await;
    assert_eq!(held(&config), ["provider.fake"]);
    assert!(!json!(config.raw).to_string().contains("sk-secret"), "{:?}", config.raw);
    // What it asks for is shown as it is written.
    assert_eq!(config.held["provider.fake"]["options"]["apiKey"], key);
    bench.trust_all().await;
    let config = bench.config().await;
    assert_eq!(config.raw["provider"]["fake"]["options"]["apiKey"], "sk-secret");
    // Another content is another request.
    bench.repo.write("opencode.json", project.to_string().replace("127.0.0.1:1", "127.0.0.1:2"));
    assert_eq!(held(&*bench.config().await), ["provider.fake"]);
}

#[tokio::test]
async fn two_projects_have_nothing_of_each_other() {
    // There was one configuration for the whole engine: that of the folder it was started in.
    let here = r#"{"permission": {"bash": "deny"}, "agent": {"reviewer": {"prompt": "Review."}}}"#;
    let bench = Bench::found(json!({}), &[("opencode.json", here)]).await;
    let there = Repo::new(&[(
        "everturn.toml",
        "[permission]\nedit = \"deny\"\n[agent.writer]\nprompt = \"Write.\"\n",
    )]);
    let location = bench.engine.projects().location(Some(there.dir())).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let names = async |folder: &std::path::Path| {
        let config = bench.engine.configurations().at(folder).await;
        let agents = config.agents().all().iter().filter(|agent| !agent.native);
        agents.map(|agent| agent.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(bench.repo.path()).await, ["reviewer"]);
    assert_eq!(names(there.path()).await, ["writer"]);
    // In each the other's rules do not hold, and the other's agents are not known.
    bench.say("JSONTOOL:bash:{\"command\":\"echo ran > ran\"}\nSAY:ok").await;
    assert!(!bench.repo.join("ran").exists());
    let text = "JSONTOOL:bash:{\"command\":\"echo ran > ran\"}\nSAY:ok";
    bench.engine.inbox().admit(&other.id, Prompt::text(text)).await.unwrap();
    within("the other session", bench.engine.drains().settled(&other.id)).await;
    assert!(there.join("ran").exists());
    let unknown = Prompt { agent: Some("reviewer".into()), ..Prompt::text("SAY:x") };
    let refused = bench.engine.inbox().admit(&other.id, unknown).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Invalid(why) if why.starts_with("there is no agent reviewer")),
        "{refused}"
    );
    let known = Prompt { agent: Some("reviewer".into()), ..Prompt::text("SAY:x") };
    bench.engine.inbox().admit(&bench.session.id, known).await.unwrap();
    bench.settled().await;
    let sent = bench.model.prompts().pop().unwrap().to_string();
    assert!(sent.contains("Review.") && !sent.contains("Write."), "{sent}");
}

#[tokio::test]
async fn an_agent_in_markdown_answers() {
    let files = [(
        ".opencode/agent/poet.md",
        "---\nmode: primary\npermission:\n  bash: deny\n---\nAnswer in verse.\n",
    )];
    let bench = Bench::found(json!({}), &files).await;
    let prompt = Prompt { agent: Some("poet".into()), ..Prompt::text("SAY:a rose") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let sent = bench.model.prompts().remove(0).to_string();
    assert!(sent.contains("Answer in verse."), "{sent}");
    let config = bench.config().await;
    let poet = config.agents().all().iter().find(|agent| agent.name == "poet").unwrap().clone();
    assert_eq!(poet.policy.decide(&[], "bash", &["ls".to_owned()]), Action::Deny);
    assert_eq!((held(&config), config.problems.len()), (Vec::new(), 0));
}

#[tokio::test]
async fn a_change_takes_effect_with_the_next_turn() {
    let bench = Bench::found(json!({}), &[]).await;
    assert_eq!(verdict(&bench, "bash", "ls").await, Action::Allow);
    bench.repo.write("opencode.json", r#"{"permission": {"bash": "deny"}}"#);
    assert_eq!(verdict(&bench, "bash", "ls").await, Action::Deny);
    std::fs::remove_file(bench.repo.join("opencode.json")).unwrap();
    assert_eq!(verdict(&bench, "bash", "ls").await, Action::Allow);
    bench.repo.write(".opencode/config.toml", "[permission]\nbash = \"ask\"\n");
    assert_eq!(verdict(&bench, "bash", "ls").await, Action::Ask);
}

#[tokio::test]
async fn a_broken_file_is_named_and_stops_nothing_else() {
    let files = [("opencode.json", "{\n  \"permission\" {}"), ("opencode.jsonc", r#"{"theme": "dark"}"#)];
    let bench = Bench::found(json!({}), &files).await;
    let config = bench.config().await;
    let path = bench.repo.join("opencode.json");
    let problems: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
    let expected = format!(
        "{}:2:16: Expected colon after the string or word in object property; nothing of this file counts until it is \
         mended, and more is asked",
        path.display()
    );
    assert_eq!(problems, [expected]);
    assert_eq!(config.raw["theme"], "dark");
    // It may have forbidden something.
    assert_eq!(verdict(&bench, "bash", "ls").await, Action::Ask);
    assert_eq!(verdict(&bench, "read", "a.txt").await, Action::Allow);
    bench.say("SAY:answers").await;
    assert_eq!(bench.transcript().await[1], "assistant: answers");
}

#[tokio::test]
async fn a_misspelt_rule_is_named_and_more_is_asked() {
    // It was a denial that nobody heard of and nothing obeyed.
    let check = async |person: &str, expected: &str, verdicts: [Action; 2]| {
        let bench = Bench::found(json!({}), &[]).await;
        let file = bench.data().join("own.json");
        std::fs::write(&file, person).unwrap();
        let config = bench.config().await;
        let problems: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [format!("{}:{expected}", file.display())], "{person}");
        let policy = |name: &str| {
            let agent = config.agents().all().iter().find(|agent| agent.name == name).unwrap();
            agent.policy.decide(&[], "bash", &["ls".to_owned()])
        };
        assert_eq!([policy("build"), policy("plan")], verdicts, "{person}");
    };
    use Action::{Allow, Ask};
    let name = "no permission is called `bahs`: did you mean `bash`?";
    let asked = "; more is asked until it is mended";
    check(
        "{\n  \"permission\": {\"bahs\": \"deny\"}}",
        &format!("2:18: `permission.bahs` has no effect: {name}{asked}"),
        [Ask, Ask],
    )
    .await;
    check(
        "{\"permission\": {\"bahs\": \"allow\"}}",
        &format!("1:17: `permission.bahs` has no effect: {name}"),
        [Allow, Allow],
    )
    .await;
    check(
        "{\"permission\": {\n\"bash\": {\n\"rm *\": \"denny\"}}}",
        &format!(
            "3:1: `permission.bash.rm *` has no effect: `denny` is none of `allow`, `ask` and `deny`: did you mean `deny`?{asked}"
        ),
        [Ask, Ask],
    )
    .await;
    // What is wrong with one agent's rules changes nothing for the others.
    check(
        "{\"agent\": {\"plan\": {\"permission\": {\"bahs\": \"ask\"}}}}",
        &format!("1:36: `agent.plan.permission.bahs` has no effect: {name}{asked}"),
        [Allow, Ask],
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_used_is_left_out_and_named() {
    let person = json!({
        "provider": {"odd": {"models": {"m": {"limit": {"context": "large"}}}},
            "gone": {"options": {"apiKey": "{file:/nowhere/key}"}}},
        "websearch": {"provider": "nobody"},
    });
    let bench = Bench::found(person, &[]).await;
    let config = bench.config().await;
    let problems: Vec<&str> = config.problems.iter().map(|problem| problem.what.as_str()).collect();
    assert_eq!(
        problems,
        [
            "`provider.gone` is left out: it names /nowhere/key, which is not there",
            "`provider.odd` is left out: `provider.odd.models.m.limit.context` in the configuration must be a whole \
             number, not this text: correct it or remove it",
            "websearch: there is no provider \"nobody\"; known are \"exa\" and \"searxng\"",
        ]
    );
}

#[tokio::test]
async fn an_agents_own_rules_model_and_temperature_count() {
    let person = json!({"agent": {
        "build": {"permission": {"bash": "deny"}},
        "careful": {"mode": "primary", "prompt": "Careful.", "temperature": 0.25, "tools": {"bash": false}},
        "plan": {"disable": true},
    }, "permission": {"bash": "allow"}});
    // A project's agent of the same name restricts at most.
    let project = r#"{"agent": {"build": {"permission": {"bash": "allow", "webfetch": "deny"}}}}"#;
    let bench = Bench::found(person, &[("opencode.json", project)]).await;
    use Action::{Allow, Deny};
    for trusted in [false, true] {
        assert_eq!(verdict(&bench, "bash", "ls").await, Deny, "{trusted}");
        assert_eq!(verdict(&bench, "webfetch", "x").await, Deny, "{trusted}");
        assert_eq!(verdict(&bench, "edit", "x").await, Allow, "{trusted}");
        bench.trust_all().await;
    }
    let config = bench.config().await;
    assert!(config.agents().check("plan").is_err());
    let prompt = Prompt {
        agent: Some("careful".into()),
        ..Prompt::text("JSONTOOL:bash:{\"command\":\"ls\"}\nSAY:ok")
    };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
    let sent = bench.model.prompts().remove(0);
    assert_eq!(sent["temperature"], 0.25);
    assert!(sent.to_string().contains("Careful."), "{sent}");
    let offered = sent["tools"].as_array().unwrap().iter().any(|tool| tool["function"]["name"] == "bash");
    assert!(!offered, "{sent}");
}

#[tokio::test]
async fn what_is_in_a_file_that_a_project_names_is_trusted_with_it() {
    // Only the name of the file was: who had trusted it ran whatever was written there later.
    let project = json!({
        "mcp": {"s": {"type": "local", "command": ["sh", "-c", "{file:./run.txt}"]}},
        "provider": {"fake": {"options": {"baseURL": "{file:url.txt}"}}},
    });
    let files = [("opencode.json", project.to_string()), ("run.txt", "echo one".to_owned())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let bench = Bench::found(json!({}), &files).await;
    let run = bench.repo.path().canonicalize().unwrap().join("run.txt");
    let shown = |content: &str| {
        let text = format!("{{file:{}}}[{} bytes: {content}]", run.display(), content.len());
        json!({"type": "local", "command": ["sh", "-c", text]})
    };
    let config = bench.config().await;
    assert_eq!(config.held["mcp.s"], shown("echo one"));
    let problems = |config: &Config| -> Vec<String> {
        config
            .problems
            .iter()
            .map(|problem| problem.to_string())
            .filter(|text| text.contains("url.txt"))
            .collect()
    };
    assert_eq!((held(&config), problems(&config).len()), (vec!["mcp.s"], 1), "{config:?}");
    assert!(problems(&config)[0].contains("`provider.fake` is left out: it names "), "{:?}", config.problems);
    bench.repo.write("url.txt", "http://127.0.0.1:1/v1");
    assert_eq!(held(&*bench.config().await), ["mcp.s", "provider.fake"]);
    bench.trust_all().await;
    let config = bench.config().await;
    assert_eq!(held(&config), [] as [&str; 0]);
    assert_eq!(config.raw["mcp"]["s"]["command"], json!(["sh", "-c", "echo one"]));
    assert_eq!(config.raw["provider"]["fake"]["options"]["baseURL"], "http://127.0.0.1:1/v1");

    bench.repo.write("run.txt", "echo two");
    bench.repo.write("url.txt", "http://127.0.0.1:2/v1");
    let config = bench.config().await;
    assert_eq!(held(&config), ["mcp.s", "provider.fake"]);
    assert_eq!(config.held["mcp.s"], shown("echo two"));
    assert_eq!(config.raw.get("mcp"), None);
    assert_ne!(config.raw["provider"]["fake"]["options"]["baseURL"], "http://127.0.0.1:2/v1");
    // As it was trusted it still is.
    bench.repo.write("run.txt", "echo one\n");
    assert_eq!(held(&*bench.config().await), ["provider.fake"]);
}
