//! What a person writes into their configuration and nothing heeds: it is named with its place, and as long as it may have
//! been meant to forbid something, that is not done without a question.

use std::time::Duration;

use everturn_engine::agents::Agent;
use everturn_engine::config::{ConfigSources, SandboxStrength, Trust, TurnLimits};
use everturn_engine::{Config, Configurations};
use everturn_model::permission::{Action, Policy};
use serde_json::json;

use crate::bench::Bench;

use Action::{Allow, Ask, Deny};

/// What a configuration of the person's says, with the places and words of what is wrong with it.
async fn read(text: &str) -> (Config, Vec<String>) {
    let bench = Bench::found(json!({}), &[]).await;
    let file = bench.data().join("own.json");
    std::fs::write(&file, text).unwrap();
    let config = bench.config().await;
    let name = format!("{}:", file.display());
    let plain = |problem: String| problem.strip_prefix(&name).map(str::to_owned).unwrap_or(problem);
    let problems = config.problems.iter().map(ToString::to_string).map(plain).collect();
    ((*config).clone(), problems)
}

fn verdict(config: &Config, agent: &str, permission: &str) -> Action {
    let agent = config.agents().all().iter().find(|known| known.name == agent).unwrap();
    agent.policy.decide(&[], permission, &["x".to_owned()])
}

#[tokio::test]
async fn a_denial_that_is_misspelt_or_malformed_asks() {
    // Each of them was accepted and allowed everything, most without a word.
    for (text, permission) in [
        (r#"{"permissions": {"bash": "deny"}}"#, "bash"),
        (r#"{"permision": {"bash": "deny"}}"#, "bash"),
        (r#"{"Permission": {"read": "deny"}}"#, "read"),
        (r#"{"permissions": "deny"}"#, "read"),
        (r#"{"permissions": "deny"}"#, "webfetch"),
        // Agents come before it, and it is about all of them.
        (r#"{"agent": {"other": {"description": "x"}}, "permissions": {"bash": "deny"}}"#, "bash"),
        (r#"{"permissions": {"deny": ["Bash(rm *)"]}}"#, "bash"),
        (r#"{"rules": {"glob": "deny"}}"#, "glob"),
        (r#"{"disallowedTools": ["bash"]}"#, "bash"),
        (r#"{"tool": {"read": false}}"#, "read"),
        (r#"{"agents": {"build": {"permission": {"bash": "deny"}}}}"#, "bash"),
        (r#"{"agents": {"build": {"permission": {"read": "deny"}}}}"#, "read"),
        (r#"{"modes": {"build": {"tools": {"grep": false}}}}"#, "grep"),
        (r#"{"agent": ["build"]}"#, "bash"),
        (r#"{"agent": {"build": "deny"}}"#, "bash"),
        (r#"{"agent": {"build": {"permissions": {"read": "deny"}}}}"#, "read"),
        (r#"{"agent": {"build": {"tool": {"bash": false}}}}"#, "bash"),
        (r#"{"agent": {"build": {"tools": "Read, Grep"}}}"#, "bash"),
        (r#"{"agent": {"buidl": {"permission": {"read": "deny"}}}}"#, "read"),
        (r#"{"agent": {"Build": {"tools": {"bash": false}}}}"#, "bash"),
        (r#"{"mode": {"build": {"permissions": {"bash": "deny"}}}}"#, "bash"),
        (r#"{"permission": {"shell": "deny"}}"#, "bash"),
        (r#"{"permission": {"execute": "ask"}}"#, "bash"),
        (r#"{"permission": {"bash(echo *)": "deny"}}"#, "bash"),
        (r#"{"permission": {"Read(./secrets/**)": "deny"}}"#, "read"),
        (r#"{"permission": {"rm -rf *": "deny"}}"#, "bash"),
        (r#"{"permission": {"Write": "deny"}}"#, "edit"),
        (r#"{"permission": {"raed": "deny"}}"#, "read"),
        (r#"{"permission": {"read": "denny"}}"#, "read"),
        (r#"{"permission": "denny"}"#, "read"),
        (r#"{"agent": {"*": {"permission": {"read": "deny"}}}}"#, "read"),
        (r#"{"agent": {"default": {"permission": {"bash": "deny"}}}}"#, "bash"),
        (r#"{"agent": {"all": {"tools": {"bash": false}}}}"#, "bash"),
        (r#"{"mode": {"Main": {"tools": {"bash": false}}}}"#, "bash"),
        (r#"{"agent": {"build, plan": {"tools": {"bash": false}}}}"#, "bash"),
        (r#"{"config": {"tools": {"bash": false}}}"#, "bash"),
        (r#"{"whitelist": ["read"]}"#, "bash"),
        (r#"{"only": ["read"]}"#, "bash"),
        (r#"{"trusted": false}"#, "bash"),
        (r#"{"lockdown": true}"#, "bash"),
    ] {
        let (config, problems) = read(text).await;
        assert_eq!(verdict(&config, "build", permission), Ask, "{text}");
        let end = "; more is asked until it is mended";
        assert!(
            problems.len() == 1 && problems[0].starts_with("1:") && problems[0].ends_with(end),
            "{text}: {problems:?}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_is_neither_on_nor_off_is_off() {
    for tools in [r#"{"bash": "false"}"#, r#"{"bash": 0}"#, r#"{"bash": null}"#, r#"["bash"]"#, r#"["Bash"]"#]
    {
        for text in [
            format!("{{\"tools\": {tools}}}"),
            format!("{{\"agent\": {{\"build\": {{\"tools\": {tools}}}}}}}"),
        ] {
            let (config, problems) = read(&text).await;
            assert_eq!(verdict(&config, "build", "bash"), Deny, "{text}");
            assert_eq!(verdict(&config, "build", "edit"), Ask, "{text}");
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_agent_changes_nothing_for_the_others() {
    for text in [
        r#"{"agent": {"plan": {"permissions": {"bash": "deny"}}}}"#,
        r#"{"agent": {"paln": {"permission": {"bash": "deny"}}}}"#,
        r#"{"mode": {"plan": {"tool": {"bash": false}}}}"#,
    ] {
        let (config, _) = read(text).await;
        assert_eq!(
            [verdict(&config, "build", "bash"), verdict(&config, "plan", "bash")],
            [Allow, Ask],
            "{text}"
        );
    }
}

#[tokio::test]
async fn modes_are_agents() {
    let (config, problems) = read(
        r#"{"agent": {"build": {"permission": {"edit": "deny"}}},
            "mode": {"build": {"tools": {"bash": false}}, "plan": {"permission": {"read": "ask"}},
                "careful": {"prompt": "Careful.", "permission": {"bash": "ask"}}}}"#,
    )
    .await;
    assert_eq!(problems, [""; 0]);
    let verdicts = |agent: &str| ["bash", "edit", "read"].map(|name| verdict(&config, agent, name));
    assert_eq!(
        [verdicts("build"), verdicts("plan"), verdicts("careful")],
        [[Deny, Deny, Allow], [Allow, Deny, Ask], [Ask, Allow, Allow]]
    );
    let careful = config.agents().all().iter().find(|agent| agent.name == "careful").unwrap();
    assert_eq!((careful.role.as_str(), careful.prompt.as_str()), ("primary", "Careful."));
}

#[tokio::test]
async fn tools_loosen_nothing_but_tools() {
    // One of them let commands out of the sandbox.
    let others = [
        "doom_loop",
        "external_directory",
        "local_network",
        "outside_sandbox",
        "protected_file",
        "secret_file",
    ];
    for tools in
        [others.map(|name| format!("\"{name}\": true")).join(", "), "\"*\": true, \"?*_*\": true".into()]
    {
        for text in [
            format!("{{\"tools\": {{{tools}}}}}"),
            format!("{{\"agent\": {{\"build\": {{\"tools\": {{{tools}}}}}}}}}"),
        ] {
            let (config, _) = read(&text).await;
            assert_eq!(others.map(|name| verdict(&config, "build", name)), [Ask; 6], "{text}");
        }
    }
    let (config, problems) =
        read(r#"{"permission": {"*": "ask"}, "tools": {"*": true, "network": false}}"#).await;
    let verdicts = ["bash", "edit", "network"].map(|name| verdict(&config, "build", name));
    assert_eq!((verdicts, problems), ([Ask, Ask, Deny], Vec::new()));
}

#[tokio::test]
async fn an_unknown_sandbox_is_the_strictest() {
    let mode = "the sandbox can be `workspace`, `read-only` or `off`";
    let (end, asked) =
        ("; until it is mended, the project can only be read", "; more is asked until it is mended");
    for (text, expected) in [
        (r#"{"sandbox": "readonly"}"#, format!("1:2: {mode}, not \"readonly\"{end}")),
        (r#"{"sandbox": {"mode": "ReadOnly"}}"#, format!("1:14: {mode}, not \"ReadOnly\"{end}")),
        (
            r#"{"sandbox": {"mdoe": "off"}}"#,
            format!("1:14: there is no `sandbox.mdoe`: did you mean `mode`?{end}{asked}"),
        ),
        (r#"{"sandbox": false}"#, format!("1:2: {mode}, not false{end}")),
    ] {
        let (config, problems) = read(text).await;
        assert_eq!(
            (config.sandbox.strength, problems),
            (SandboxStrength::ReadOnly, vec![expected]),
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_a_sandbox_does_not_know_asks() {
    // Beside a mode it was named, and nothing more was asked.
    for (sandbox, permission) in [
        (r#"{"mode": "workspace", "network": "deny"}"#, "network"),
        (r#"{"mode": "workspace", "network": false}"#, "network"),
        (r#"{"mode": "workspace", "read_only": true}"#, "bash"),
        (r#"{"mode": "workspace", "deny_network": true}"#, "bash"),
        (r#"{"mode": "workspace", "mode ": "read-only"}"#, "bash"),
        (r#"{"network": "deny"}"#, "network"),
    ] {
        let (config, problems) = read(&format!("{{\"sandbox\": {sandbox}}}")).await;
        assert_eq!(
            [verdict(&config, "build", permission), verdict(&config, "build", "read")],
            [Ask, Allow],
            "{sandbox}"
        );
        let end = "; more is asked until it is mended";
        assert!(problems.len() == 1 && problems[0].ends_with(end), "{sandbox}: {problems:?}");
    }
}

#[tokio::test]
async fn an_unknown_sandbox_of_a_project_is_nothing_to_trust() {
    for sandbox in [r#""of""#, r#"{"mode": "of", "readable": ["/srv/keys"]}"#] {
        let text = format!("{{\n\"sandbox\": {sandbox}}}");
        let bench = Bench::found(json!({}), &[("opencode.json", &text)]).await;
        let config = bench.config().await;
        assert_eq!((config.held.len(), &config.sandbox.readable), (0, &Vec::new()), "{text}");
        assert_eq!(config.sandbox.strength, SandboxStrength::ReadOnly);
        let places: Vec<_> = config
            .problems
            .iter()
            .map(|problem| (problem.file.ends_with("/opencode.json"), problem.place.map(|place| place.0)))
            .collect();
        assert_eq!(places, [(true, Some(2))], "{text}");
    }
}

#[tokio::test]
async fn every_problem_has_its_place() {
    // Only rules had one.
    let person = "{\n\"provider\": {\n  \"gone\": {\"options\": {\"apiKey\": \"{file:/nowhere/key}\"}},\n  \"odd\": {\"env\": 1}},\n \"websearch\": {\"provider\": \"nobody\"}}";
    let (config, _) = read(person).await;
    let places = |config: &Config| {
        let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        let places = config.problems.iter().map(|problem| (name(&problem.file), problem.place));
        places.collect::<Vec<_>>()
    };
    let own = |line, column| ("own.json".to_owned(), Some((line, column)));
    assert_eq!(places(&config), [own(3, 3), own(4, 3), own(5, 2)]);
    let files = [
        (
            "opencode.json",
            "{\"trash\": {},\n\"model\": \"scripted/./a.json\",\n\"agent\": {\"x\": {\"prompt\": \"x\",\n  \"model\": \"scripted/b\"}}}",
        ),
        (".opencode/agents/odd.md", "---\ndescription: x\nmode: [\n---\nLook.\n"),
    ];
    let bench = Bench::found(json!({}), &files).await;
    let brought = |line, column| ("opencode.json".to_owned(), Some((line, column)));
    let expected = [("odd.md".to_owned(), Some((3, 7))), brought(1, 2), brought(2, 1), brought(4, 3)];
    assert_eq!(places(&*bench.config().await), expected);
}

#[tokio::test]
async fn what_is_there_twice_is_named_and_forbids_no_less() {
    // The last one counted, and the denial before it was lost without a word.
    let asked = "; more is asked until it is mended";
    for (text, agent, permission, expected) in [
        (
            r#"{"permission": {"bash": "deny"}, "permission": {"edit": "ask"}}"#,
            "build",
            "bash",
            "1:34: `permission`",
        ),
        (r#"{"permission": {"read": "deny"}, "permission": "allow"}"#, "build", "read", "1:34: `permission`"),
        (r#"{"permission": "deny", "permission": {"edit": "ask"}}"#, "build", "read", "1:24: `permission`"),
        (r#"{"permission": {"bash": "deny", "bash": "allow"}}"#, "build", "bash", "1:33: `permission.bash`"),
        (
            "{\"permission\": {\"read\": {\"x\": \"deny\", // no\n \"\\u0078\": \"allow\"}}}",
            "build",
            "read",
            "2:2: `permission.read.x`",
        ),
        (r#"{"tools": {"grep": false, "grep": true}}"#, "build", "grep", "1:27: `tools.grep`"),
        (r#"{"agent": {"plan": {"tools": {"read": false}}}, "agent": {}}"#, "plan", "read", "1:49: `agent`"),
        (
            r#"{"mode": {"plan": {"permission": {"read": "deny"}, "permission": {}}}}"#,
            "plan",
            "read",
            "1:52: `mode.plan.permission`",
        ),
        (
            r#"{"agent": {"build": {"disable": true, "disable": false}}}"#,
            "build",
            "bash",
            "1:39: `agent.build.disable`",
        ),
    ] {
        let (config, problems) = read(text).await;
        assert_eq!(verdict(&config, agent, permission), Ask, "{text}");
        let expected = format!("{expected} is there twice, and only the last one counts{asked}");
        assert_eq!(problems, [expected], "{text}");
    }
    let (config, problems) =
        read(r#"{"agent": {"plan": {"prompt": "a", "prompt": "b"}}, "theme": 1, "theme": 2}"#).await;
    assert_eq!(["build", "plan"].map(|agent| verdict(&config, agent, "bash")), [Allow, Allow]);
    let twice = "is there twice, and only the last one counts";
    assert_eq!(problems, [format!("1:36: `agent.plan.prompt` {twice}"), format!("1:65: `theme` {twice}")]);
}

#[tokio::test]
async fn a_sandbox_that_is_there_twice_is_the_strictest() {
    let end =
        "is there twice, and only the last one counts; until it is mended, the project can only be read";
    for (text, expected) in [
        (r#"{"sandbox": "read-only", "sandbox": "off"}"#, "1:26: `sandbox`"),
        (r#"{"sandbox": {"mode": "read-only", "mode": "off"}}"#, "1:35: `sandbox.mode`"),
        (r#"{"sandbox": {"mcp": true, "mcp": false}}"#, "1:27: `sandbox.mcp`"),
    ] {
        let (config, problems) = read(text).await;
        let found = (config.sandbox.strength, config.sandbox.own_servers, problems);
        assert_eq!(found, (SandboxStrength::ReadOnly, true, vec![format!("{expected} {end}")]), "{text}");
        let bench = Bench::found(json!({}), &[("opencode.json", text)]).await;
        let config = bench.config().await;
        assert_eq!((config.held.len(), config.sandbox.strength), (0, SandboxStrength::ReadOnly), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_there_twice_does_not_start() {
    let server = r#""type": "remote", "url": "http://127.0.0.1:9""#;
    let end = "is there twice, and only the last one counts; until it is mended, the server does not start";
    for (text, expected) in [
        (
            format!(r#"{{"mcp": {{"docs": {{{server}, "enabled": false, "enabled": true}}}}}}"#),
            "1:84: `mcp.docs.enabled`",
        ),
        (format!(r#"{{"mcp": {{"docs": {{"enabled": false}}, "docs": {{{server}}}}}}}"#), "1:38: `mcp.docs`"),
        (
            format!(r#"{{"mcp": {{"docs": {{"enabled": false}}}}, "mcp": {{"docs": {{{server}}}}}}}"#),
            "1:39: `mcp`",
        ),
    ] {
        let (config, problems) = read(&text).await;
        assert_eq!(problems, [format!("{expected} {end}")], "{text}");
        let why = problems[0].split_once(' ').map(|(_, why)| why.to_owned());
        assert_eq!(
            (config.mcp.launches().len(), config.mcp.invalid().get("docs").cloned()),
            (0, why),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_server_that_may_have_been_switched_off_does_not_start() {
    let server = r#""type": "remote", "url": "http://127.0.0.1:9""#;
    // One that was `stopped` started: the word was none of those that were thought of.
    for more in [
        r#""enabeld": false"#,
        r#""disabled": true"#,
        r#""disabled": 1"#,
        r#""disable": "yes""#,
        r#""active": false"#,
        r#""stopped": true"#,
        r#""stop": "yes""#,
        r#""halted": true"#,
        r#""turned_off": true"#,
        r#""state": "stopped""#,
        r#""status": "Off""#,
        r#""autostart": false"#,
        r#""read_only": true"#,
        r#""require_approval": "always""#,
        r#""deny": ["write"]"#,
    ] {
        let (config, problems) = read(&format!("{{\"mcp\": {{\"docs\": {{{server}, {more}}}}}}}")).await;
        assert_eq!(config.mcp.launches().len(), 0, "{more}");
        let why = config.mcp.invalid().get("docs").cloned().unwrap_or_default();
        assert!(why.ends_with("; until it is mended, the server does not start"), "{more}: {why}");
        assert_eq!(problems, [format!("1:66: {why}")], "{more}");
    }
    for (more, problems) in [
        (r#""enabled": true"#, 0),
        (r#""disabled": false"#, 1),
        (r#""trust": true"#, 1),
        (r#""startup_timeout": 5"#, 1),
        (r#""stop_timeout": 5"#, 1),
        (r#""stop_after": 0.5"#, 1),
        (r#""stopped": false"#, 1),
        (r#""stopped": 0"#, 1),
        (r#""autostart": true"#, 1),
        (r#""read_only": false"#, 1),
        (r#""auto_approve": ["search"]"#, 1),
        (r#""state": "running""#, 1),
    ] {
        let (config, found) = read(&format!("{{\"mcp\": {{\"docs\": {{{server}, {more}}}}}}}")).await;
        assert_eq!((config.mcp.launches().len(), found.len()), (1, problems), "{more}: {found:?}");
    }
}

#[tokio::test]
async fn words_of_restriction_ask() {
    // They were named, and nothing more was asked.
    for (text, permission) in [
        (r#"{"agent": {"build": {"disabled": true}}}"#, "bash"),
        (r#"{"agent": {"build": {"read_only": true}}}"#, "edit"),
        (r#"{"agent": {"build": {"bash": false}}}"#, "bash"),
        (r#"{"bash": false}"#, "bash"),
        (r#"{"read": false}"#, "read"),
        (r#"{"disable": ["bash"]}"#, "bash"),
        (r#"{"disable": ["read"]}"#, "read"),
        (r#"{"read_only": true}"#, "edit"),
        (r#"{"readOnly": true}"#, "edit"),
        (r#"{"approval": "always"}"#, "bash"),
        (r#"{"ask": ["bash"]}"#, "bash"),
        (r#"{"ask": true}"#, "bash"),
        (r#"{"safe_mode": true}"#, "bash"),
        (r#"{"deny": true}"#, "bash"),
        (r#"{"confirm": 1}"#, "bash"),
        (r#"{"auto_approve": false}"#, "bash"),
        (r#"{"auto_approve": ["read"]}"#, "bash"),
        (r#"{"network": {"127.0.0.1": "deny"}}"#, "network"),
        // These had no effect without a word.
        (r#"{"permission": {"tools": {"bash": "deny"}}}"#, "bash"),
        (r#"{"permission": {"rules": {"read": "deny"}}}"#, "read"),
        (r#"{"permission": {"default": "deny"}}"#, "read"),
        (r#"{"permission": {"all": "ask"}}"#, "bash"),
        (r#"{"permission": {"any": {"*": "deny"}}}"#, "bash"),
        (r#"{"tools": {"all": false}}"#, "bash"),
        (r#"{"server": {"permission": {"read": "deny"}}}"#, "read"),
        (r#"{"experimental": {"permission": "deny"}}"#, "bash"),
        (r#"{"experimental": {"x": [{"tools": {"grep": false}}]}}"#, "grep"),
        (r#"{"agent": {"build": {"options": {"permissions": {"grep": "deny"}}}}}"#, "grep"),
    ] {
        let (config, problems) = read(text).await;
        assert_eq!(verdict(&config, "build", permission), Ask, "{text}");
        let end = "; more is asked until it is mended";
        assert!(
            problems.len() == 1 && problems[0].starts_with("1:") && problems[0].ends_with(end),
            "{text}: {problems:?}"
        );
    }
    for text in [
        r#"{"agent": {"build": {"disabled": false}}}"#,
        r#"{"agent": {"build": {"disableParallelToolUse": true, "safePrompt": true}}}"#,
        r#"{"bash": true}"#,
        r#"{"permission": {"all": "allow"}}"#,
        r#"{"experimental": {"permission": {"bash": "allow"}, "primary_tools": ["bash"]}}"#,
        r#"{"provider": {"x": {"models": {"y": {"tools": true}}}}}"#,
        r#"{"confirm": false}"#,
        // It was taken for a restriction, and asked more of who wanted to be asked less.
        r#"{"auto_approve": true}"#,
    ] {
        let (config, _) = read(text).await;
        assert_eq!(verdict(&config, "build", "bash"), Allow, "{text}");
    }
}

#[tokio::test]
async fn a_limit_that_is_none_is_named() {
    // Each of them was taken for the default without a word.
    let form = "is a number of seconds above 0 and no more than 31622400, not";
    for (key, value, usual) in [
        ("inactivity", "-3", 300),
        ("inactivity", "0", 300),
        ("inactivity", "1e30", 300),
        ("turn", "\"5m\"", 1800),
        ("turn", "true", 1800),
        ("turn", "null", 1800),
        ("retry_after", "-1", 3600),
        ("retry_after", "0", 3600),
    ] {
        let (config, problems) = read(&format!("{{\"limits\": {{\"{key}\": {value}}}}}")).await;
        let shown = if value == "1e30" { "1e+30" } else { value };
        let expected = format!("1:13: `limits.{key}` {form} {shown}; without it the limit is {usual}");
        assert_eq!((problems, config.limits), (vec![expected], TurnLimits::default()), "{key}: {value}");
    }
    let (_, problems) = read(r#"{"limits": 5}"#).await;
    let each = "`inactivity`, `turn` and `retry_after`";
    let end = "without it they are 300, 1800 and 3600 seconds";
    assert_eq!(problems, [format!("1:2: `limits` has {each}, and is not 5; {end}")]);
    let (config, problems) = read(r#"{"limits": {"turns": 5, "turn": 2.5}}"#).await;
    let unknown = "`limits.turns` has no effect: there is no such setting: did you mean `turn`?";
    assert_eq!(problems, [format!("1:13: {unknown}")]);
    assert_eq!(config.limits.turn, Duration::from_millis(2500));
}

#[tokio::test]
async fn a_setting_of_an_agent_that_cannot_be_used_is_named() {
    // Each of them was left out without a word, or sent to the provider.
    for (key, value, form) in [
        ("steps", "-2", "a whole number above 0"),
        ("maxSteps", "\"x\"", "a whole number above 0"),
        ("top_p", "5", "a number from 0 to 1"),
        ("temperature", "\"hot\"", "a number from 0 to 2"),
        ("temperature", "2.5", "a number from 0 to 2"),
        ("variant", "3", "a text"),
        ("model", "[]", "a text"),
        ("prompt", "1", "a text"),
        ("description", "{}", "a text"),
        ("hidden", "\"no\"", "`true` or `false`"),
        ("mode", "\"x\"", "`primary`, `subagent` or `all`"),
    ] {
        let what = format!("`agent.build.{key}` has no effect: it is {form}, not `{value}`");
        let (config, problems) = read(&format!("{{\"agent\": {{\"build\": {{\"{key}\": {value}}}}}}}")).await;
        assert_eq!(problems, [format!("1:22: {what}")]);
        let build = |config: &Config| {
            let build = config.agents().all().iter().find(|agent| agent.name == "build").cloned().unwrap();
            Agent { policy: Policy::default(), ..build }
        };
        assert_eq!(build(&config), build(&Config::default()), "{key}: {value}");
        // In Markdown as well, of a project too. There, the text is the prompt.
        if key != "prompt" {
            let text = format!("---\n# mine\n{key}: {value}\n---\nBuild.\n");
            let bench = Bench::found(json!({}), &[(".opencode/agent/build.md", &text)]).await;
            let config = bench.config().await;
            let told: Vec<String> = config.problems.iter().map(ToString::to_string).collect();
            let end = format!(".opencode/agent/build.md:3:1: {what}");
            assert!(told.len() == 1 && told[0].ends_with(&end), "{told:?} {end}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_used_does_not_replace_what_another_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("config.json");
    let sound = json!({"limits": {"turn": 60}, "agent": {"build": {"steps": 5, "temperature": 0.5, "disable": true}}});
    std::fs::write(&base, sound.to_string()).unwrap();
    let wrong = json!({"limits": {"turn": "2s"}, "agent": {"build": {"steps": 0, "temperature": "hot"}},
        "mode": {"build": {"disable": "no"}}});
    let sources =
        ConfigSources { base: Some(base), text: Some(wrong.to_string()), ..ConfigSources::default() };
    let trust = Trust::new(folder.path());
    let found = Configurations::found(sources, trust, folder.path(), everturn_tools::Secrets::default());
    let config = found.look_at(folder.path());
    let build = &config.agents["build"];
    assert_eq!((config.limits.turn.as_secs(), build.steps, build.temperature), (60, Some(5), Some(0.5)));
    assert!(build.disabled && config.problems.len() == 4, "{:?}", config.problems);
}

#[tokio::test]
async fn rules_of_the_environment_count_most() {
    let folder = tempfile::tempdir().unwrap();
    let look = |rules: &str| {
        let base = folder.path().join("config.json");
        std::fs::write(&base, r#"{"permission": {"edit": "deny", "webfetch": "allow"}}"#).unwrap();
        let text = r#"{"permission": {"bash": "allow"}}"#.to_owned();
        let sources = ConfigSources {
            base: Some(base),
            text: Some(text),
            rules: Some(rules.to_owned()),
            ..ConfigSources::default()
        };
        let trust = Trust::new(folder.path());
        let found = Configurations::found(sources, trust, folder.path(), everturn_tools::Secrets::default());
        let config = found.look_at(folder.path());
        let verdicts = ["bash", "edit", "webfetch"].map(|name| verdict(&config, "build", name));
        (verdicts, config.problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(look(r#"{"bash": "deny", "webfetch": "ask"}"#), ([Deny, Deny, Ask], Vec::new()));
    assert_eq!(look(r#""ask""#), ([Ask, Ask, Ask], Vec::new()));
    let unread = "; nothing of this file counts until it is mended, and more is asked";
    let kind = format!("OPENCODE_PERMISSION: it must be an object, or `allow`, `ask` or `deny`{unread}");
    assert_eq!(look("[]"), ([Ask, Deny, Ask], vec![kind]));
    let twice = "OPENCODE_PERMISSION:1:18: `permission.bash` is there twice, and only the last one counts; more is asked until it is mended";
    assert_eq!(look(r#"{"bash": "deny", "bash": "allow"}"#), ([Ask, Deny, Ask], vec![twice.to_owned()]));
}
