//! Script files on the command line: a script is played with real tools, and a bad one leaves nothing behind.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::shell::Home;

const GUIDE: &str = include_str!("../../../../docs/scripts.md");

/// The script that the guide shows.
fn example() -> &'static str {
    let (_, rest) = GUIDE.split_once("```json\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_example_of_the_guide_writes_its_file() {
    let home = Home::new();
    std::fs::write(home.work().join("play.json"), example()).unwrap();
    let played = home.run(&["run", "--model", "scripted/./play.json", "write the file"]);
    assert_eq!(played.status, Some(0), "{}", played.stderr);
    assert_eq!(std::fs::read_to_string(home.work().join("made.txt")).unwrap(), "from a script\n");
    let mut lines: Vec<&str> = played.stdout.lines().filter(|line| !line.is_empty()).collect();
    // The two tools run at the same time.
    lines.get_mut(2..4).expect("two calls").sort_unstable();
    assert_eq!(
        lines,
        [
            "A file with one line.",
            "I write the file.",
            "✓ bash echo at the same time",
            "✓ write made.txt",
            "The file is written."
        ]
    );

    // The second step is tried three times.
    let notes: Vec<&str> = played.stderr.lines().collect();
    let [
        "attempt 1 failed: come back; the next one is in 0 s",
        "attempt 2 failed: come back; the next one is in 0 s",
        session,
    ] = notes[..]
    else {
        panic!("{notes:?}")
    };
    let id = session.strip_prefix("session ").expect("the session's id");
    let more = home.run(&["run", "--session", id, "--model", "scripted/./play.json", "read it"]);
    assert_eq!((more.status, more.stdout.trim()), (Some(0), "I only know how to write."), "{}", more.stderr);
}

#[test]
fn a_script_that_cannot_be_played_makes_no_session() {
    let home = Home::new();
    let work = home.work().canonicalize().unwrap();
    std::fs::write(work.join("bad.json"), "[\n  {\"txet\": \"hello\"}\n]\n").unwrap();
    let check = |model: &str, expected: &str| {
        let complaint = home.run(&["run", "--model", model, "hello"]).failure(1);
        assert!(complaint.contains(expected), "{complaint}");
    };
    let bad = work.join("bad.json");
    check(
        "scripted/bad.json",
        &format!("the script {} cannot be played: unknown field `txet`", bad.display()),
    );
    check("scripted/bad.json", "at line 2 column 9");
    let absolute = format!("scripted/{}", bad.display());
    check(&absolute, &format!("the script {} cannot be played", bad.display()));
    let nowhere = work.join("nowhere.json");
    check(
        "scripted/./nowhere.json",
        &format!("the script {} cannot be read: No such file", nowhere.display()),
    );
    // An agent that is not there, or a model without a key, left an empty session behind.
    let agent = home.run(&["run", "--agent", "nobody", "--model", "scripted/demo", "hello"]).failure(1);
    assert!(agent.contains("there is no agent nobody; known: build"), "{agent}");
    check("anthropic/claude-sonnet-4-5", "there is no key for anthropic: set ANTHROPIC_API_KEY");
    assert_eq!(home.run(&["session", "list", "--json"]).success().trim(), "[]", "no session was made for it");
}

/// A question, or a permission that a subagent asked for in its own session, was answered by nobody, and the command
/// waited for ever.
#[test]
fn nobody_waits_for_an_answer_that_cannot_come() {
    let home = Home::new();
    let script = serde_json::json!([
        {"when": "outside", "tools": [{"name": "read", "input": {"filePath": "/etc/hostname"}}]},
        {"when": "outside", "text": "It was not allowed."},
        {"when": "begin", "tools": [
            {"name": "task", "input": {"description": "look", "prompt": "look outside", "subagent_type": "general"}},
            {"name": "read", "input": {"filePath": "nowhere.txt"}},
        ]},
        {"when": "begin", "tools": [{"name": "question", "input": {"questions": [
            {"question": "Which one?", "header": "Which", "options": [{"label": "A", "description": "the first"}]},
        ]}}]},
        {"when": "begin", "text": "Never said."},
    ]);
    std::fs::write(home.work().join("play.json"), script.to_string()).unwrap();
    let played = home.run(&["run", "--model", "scripted/./play.json", "begin"]);
    // It stopped at the question. What was refused to the subagent did not stop it.
    assert_eq!(played.status, Some(3), "{}", played.stderr);
    let mut lines: Vec<&str> = played.stdout.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let absent = home.work().canonicalize().unwrap().join("nowhere.txt");
    let read = format!("✗ read File not found: {}", absent.display());
    let question = "✗ question The person dismissed the question without an answer.";
    let task = lines.pop().unwrap_or_default();
    assert_eq!(lines, [question, read.as_str()]);
    assert!(task.starts_with("✗ task <task id=") && task.ends_with("state=\"error\">"), "{task}");
    assert!(played.stderr.contains("a question was asked, and nobody is here"), "{}", played.stderr);
    let refused =
        "`external_directory` was asked for and refused (/etc/*); --yes allows all that is asked for";
    assert!(played.stderr.contains(refused), "{}", played.stderr);
}

#[test]
fn instructions_that_cannot_be_taken_are_named_and_stop_no_run() {
    // It was tried again for minutes, and the command waited; later nothing was answered until somebody had mended them.
    let home = Home::new();
    std::fs::write(home.work().join("play.json"), example()).unwrap();
    std::fs::write(home.work().join("opencode.json"), r#"{"instructions": ["notes.md"]}"#).unwrap();
    std::os::unix::fs::symlink("/nowhere", home.work().join("notes.md")).unwrap();
    let run = home.run(&["run", "--model", "scripted/./play.json", "write the file"]);
    assert!(run.stderr.contains("notes.md: it is a link that leads nowhere"), "{}", run.stderr);
    assert!(run.stdout.ends_with("The file is written.\n"), "{}", run.stdout);
    assert_eq!(run.status, Some(0));
    assert!(home.work().join("made.txt").exists());
}

/// Ctrl-C was taken for a crash: the session was left open, and the next process went on with what was stopped.
#[test]
fn work_that_a_person_stops_is_over() {
    let home = Home::new();
    let words = "word ".repeat(2000);
    let script = serde_json::json!({"pace": 20, "steps": [{"when": "begin", "text": words}, {"text": "Something else."}]});
    std::fs::write(home.work().join("long.json"), script.to_string()).unwrap();
    let mut command = home.command(&["run", "--model", "scripted/./long.json", "begin"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 20];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    let noted = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{noted}");
    assert!(noted.starts_with("stopping; Ctrl-C again leaves at once\nsession ses_"), "{noted}");
    assert!(noted.ends_with("everturn: the work was stopped\n"), "{noted}");
    let id = noted.lines().nth(1).and_then(|line| line.strip_prefix("session ")).expect("the session's id");

    let more = home.run(&["run", "--session", id, "and now?"]);
    assert_eq!((more.status, more.stdout.trim()), (Some(0), "Something else."), "{}", more.stderr);
    let shown = home.run(&["session", "show", id]).success();
    assert!(shown.contains("word word") && !shown.contains("restarted"), "{shown}");
}
