//! What others wrote, on a person's terminal: every command is run on one, with titles, answers, names, paths and errors
//! that would steer it or forge lines of their own.

use std::path::Path;
use std::process::{Command, Stdio};

use everturn_testkit::fixtures;
use serde_json::{Value, json};

use crate::shell::Home;

/// A title for the window, colours by two kinds of escape, a turn of the direction of writing, and lines of its own.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}x\r\nFORGED\rFORGED\u{2028}end";

/// What a command writes to a terminal, byte by byte.
fn on_terminal(home: &Home, folder: &Path, arguments: &[&str]) -> String {
    let command = home.command(arguments);
    let quoted = |word: &std::ffi::OsStr| {
        format!("'{}'", word.to_str().expect("a Unicode word").replace('\'', "'\\''"))
    };
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let mut script = Command::new("script");
    let line = format!("stty cols 400; {}", words.join(" "));
    script.args(["-qec", &line, "/dev/null"]).current_dir(folder).env_clear();
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = script.stdin(Stdio::null()).output().expect("`script` is installed");
    String::from_utf8(output.stdout).expect("text")
}

/// Fails if something in the output steers a terminal, or if a line begins as the hostile text wants it to.
fn check(printed: &str, what: &str) {
    let lines = printed.replace("\r\n", "\n");
    let steers = |character: char| {
        character.is_control() && !matches!(character, '\n' | '\t')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}')
    };
    assert!(!lines.contains(steers), "{what}: {lines:?}");
    assert!(!lines.lines().any(|line| line.starts_with("FORGED")), "{what}: {lines}");
}

/// Runs a command on a terminal and in pipes. It must show something of the hostile text, without its effect.
fn check_command(home: &Home, folder: &Path, arguments: &[&str]) {
    let what = arguments.join(" ").replace(HOSTILE, "…");
    let printed = on_terminal(home, folder, arguments);
    assert!(printed.contains("FORGED"), "{what} shows it: {printed}");
    check(&printed, &what);
    let piped = home.command(arguments).current_dir(folder).stdin(Stdio::null()).output().expect("it runs");
    for text in [piped.stdout, piped.stderr] {
        check(&String::from_utf8(text).expect("text"), &format!("{what}, in a pipe"));
    }
}

/// Makes a session in which everything that can be is hostile, and gives its id.
fn hostile_session(home: &Home) -> String {
    let script = json!([{"tools": [{"name": "bash", "input": {"command": "true", "description": "Say so"}}]},
                        {"text": "the answer"}]);
    let scratch = Home::new();
    std::fs::write(scratch.work().join("play.json"), script.to_string()).unwrap();
    scratch.run(&["run", "--model", "scripted/./play.json", "the prompt"]);
    let listed: Value = serde_json::from_str(&scratch.run(&["session", "list", "--json"]).success()).unwrap();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let mut export: Value =
        serde_json::from_str(&scratch.run(&["session", "export", &id]).success()).unwrap();
    export["info"]["title"] = json!(format!("needle {HOSTILE}"));
    export["info"]["directory"] = json!(format!("/tmp/{HOSTILE}"));
    for message in export["messages"].as_array_mut().unwrap() {
        if message["info"]["role"] == "assistant" {
            message["info"]["error"] = json!({"name": "UnknownError", "data": {"message": HOSTILE}});
        }
        for part in message["parts"].as_array_mut().unwrap() {
            match part["type"].as_str().unwrap() {
                "text" => part["text"] = json!(format!("needle {HOSTILE}")),
                "tool" => {
                    part["tool"] = json!(HOSTILE);
                    part["state"]["title"] = json!(HOSTILE);
                }
                _ => {}
            }
        }
    }
    let file = home.work().join("hostile.json");
    std::fs::write(&file, export.to_string()).unwrap();
    home.run(&["session", "import", file.to_str().unwrap()]);
    id
}

#[test]
fn sessions_of_others_steer_no_terminal_and_forge_no_line() {
    // Titles, names of tools, folders and errors with line ends made lines of their own, and in a pipe nothing was held
    // back.
    let home = Home::new();
    let id = hostile_session(&home);
    for arguments in [
        &["session", "list", "--all"][..],
        &["session", "list", "--all", "--json"],
        &["session", "search", "needle"],
        &["session", "search", "needle", "--json"],
        &["session", "show", &id],
        &["session", "show", &id, "--json"],
        &["session", "export", &id],
        &["doctor"],
    ] {
        check_command(&home, home.work(), arguments);
    }
    home.run(&["session", "delete", &id]).success();
    check_command(&home, home.work(), &["trash", "list"]);
    check_command(&home, home.work(), &["trash", "list", "--json"]);
}

#[test]
fn json_has_every_character() {
    // On a terminal some of them were replaced.
    let home = Home::new();
    let id = hostile_session(&home);
    let printed = on_terminal(&home, home.work(), &["session", "export", &id]);
    let value: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value["info"]["title"], format!("needle {HOSTILE}"));
    let piped: Value = serde_json::from_str(&home.run(&["session", "export", &id]).success()).unwrap();
    assert_eq!(value, piped);
}

#[test]
fn what_a_run_shows_steers_nothing() {
    let home = Home::new();
    let script = json!([{"tools": [{"name": HOSTILE, "input": {}},
                                   {"name": "bash", "input": {"command": "true", "description": HOSTILE}}]},
                        {"text": "an \u{1b}[31manswer\u{9b}0m"}]);
    std::fs::write(home.work().join("play.json"), script.to_string()).unwrap();
    check_command(&home, home.work(), &["run", "--model", "scripted/./play.json", "go"]);
    let failing = json!([{"error": {"status": 400, "message": HOSTILE}}]);
    std::fs::write(home.work().join("fail.json"), failing.to_string()).unwrap();
    check_command(&home, home.work(), &["run", "--model", "scripted/./fail.json", "go"]);
}

#[test]
fn names_in_configuration_steer_nothing() {
    let home = Home::new();
    let provider = json!({"name": HOSTILE, "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "http://127.0.0.1:1", "apiKey": "k"}, "models": {HOSTILE: {"name": HOSTILE}}});
    let config = json!({"provider": {HOSTILE: provider},
                        "mcp": {HOSTILE: {"type": "local", "command": [HOSTILE]},
                                "odd FORGED": {"type": HOSTILE}}});
    std::fs::write(home.work().join("opencode.json"), config.to_string()).unwrap();
    for arguments in [
        &["trust", "--show"][..],
        &["trust", "--json"],
        &["mcp", "list"],
        &["mcp", "trust", "another"],
        &["mcp", "trust"],
        &["mcp", "trust", "--yes"],
        &["mcp", "list"],
        &["trust", "--yes"],
        &["models"],
        &["models", "--json"],
        &["auth", "list"],
    ] {
        check_command(&home, home.work(), arguments);
    }
}

#[test]
fn session_files_of_others_steer_nothing() {
    let home = Home::new();
    let file = home.work().join(format!("{}.jsonl", HOSTILE.replace('/', "")));
    let recorded = std::fs::read_to_string(fixtures::path("pi/a05-branched-summary.jsonl")).unwrap();
    let hostile = serde_json::to_string(HOSTILE).unwrap();
    let inner = hostile.trim_matches('"');
    let changed = recorded
        .replace("/srv/everturn/proj", &format!("/srv/{inner}"))
        .replace("tried-A", inner)
        .replace("root question", &format!("FORGED {inner}"));
    std::fs::write(&file, changed).unwrap();
    let file = file.to_str().unwrap();
    for option in [None, Some("--context"), Some("--tree"), Some("--meta")] {
        let arguments: Vec<&str> = ["inspect", file].into_iter().chain(option).collect();
        check_command(&home, home.work(), &arguments);
    }
}

#[test]
fn errors_steer_nothing() {
    let home = Home::new();
    for arguments in [
        // As long as there is no store.
        &["restore", HOSTILE][..],
        &["session", "show", HOSTILE],
        &["run", "--model", HOSTILE, "go"],
        &["run", "--model", "scripted/demo", "--agent", HOSTILE, "go"],
        &["auth", "set", HOSTILE],
        &["inspect", HOSTILE],
        &["session", "import", HOSTILE],
        &["import", "opencode", HOSTILE],
        &["doctor", "--rebuild", HOSTILE],
        // What is said of arguments that are wrong.
        &[HOSTILE],
        &["session", "list", "--limit", HOSTILE],
        &["trash", "empty", "--older-than", HOSTILE],
        &["serve", "--port", HOSTILE],
    ] {
        check_command(&home, home.work(), arguments);
    }
}

#[test]
fn values_in_the_log_forge_no_line_of_it() {
    // A path was logged as it is: with a line end in it, it wrote lines of the log.
    let mut home = Home::new();
    let folder = home.work().join(HOSTILE);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("opencode.json"), json!({"trash": {"keep": "1d"}}).to_string()).unwrap();
    check_command(&home, &folder, &["session", "list"]);
    home.set("EVERTURN_LOG_FORMAT", "json");
    check_command(&home, &folder, &["session", "list"]);
    let mut home = Home::new();
    home.set("EVERTURN_LOG_FORMAT", HOSTILE);
    home.set("EVERTURN_LOG", HOSTILE);
    check_command(&home, home.work(), &["session", "list"]);
}
