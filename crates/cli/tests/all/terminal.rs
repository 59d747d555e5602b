//! OpenCode's own terminal, `opencode attach`, on our server: what a person types and what the screen shows.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lag::Lag;
use crate::opencode;
use crate::stage::{self, Stage};
use crate::tmux::{Screen, Terminal};

/// The line under an answer, while it is made and when it is complete.
const OPEN: &str = "▣  Build · Fake One";
const DONE: &str = "▣  Build · Fake One · done";

/// A terminal attached to a server.
struct Attached {
    terminal: Terminal,
    stage: Stage,
    _home: TempDir,
}

fn attach(stage: Stage, arguments: &[&str]) -> Attached {
    let address = stage.server.base_url().to_owned();
    attach_at(&address, stage, arguments)
}

/// A terminal that finds its server at another address.
fn attach_at(address: &str, stage: Stage, arguments: &[&str]) -> Attached {
    let home = tempfile::tempdir().unwrap();
    let mut words = vec!["attach", address];
    words.extend(arguments);
    let environment = opencode::environment(home.path());
    let terminal = Terminal::open(opencode::program(), &words, &environment, stage.repo.path());
    Attached { terminal, stage, _home: home }
}

/// A terminal on its first screen.
async fn at_home() -> Attached {
    let attached = attach(Stage::new().await, &[]);
    // Frames are drawn in pieces: the whole of it is waited for.
    let home = |screen: &Screen| {
        screen.text().contains("Ask anything")
            && screen.bottom().last().is_some_and(|line| line == "Build · Fake One Fake")
    };
    attached.terminal.until("the first screen", home).await;
    attached
}

/// The prompt box with `text` in it.
fn prompt_box(screen: &Screen, text: &str) -> bool {
    let expected: Vec<&str> =
        [text, "Build · Fake One Fake"].into_iter().filter(|line| !line.is_empty()).collect();
    screen.bottom() == expected
}

#[tokio::test]
async fn text_streams_and_a_tool_runs() {
    let Attached { terminal, stage, _home } = at_home().await;
    let first = "HOLD:middle SAY:one two three";
    terminal.enter(first).await;
    stage.model.held("middle").await;
    terminal.conversation(&[first, "one two", OPEN]).await;
    terminal.shows("esc interrupt").await;

    stage.model.release("middle");
    terminal.conversation(&[first, "one two three", DONE]).await;
    let idle = |screen: &Screen| prompt_box(screen, "") && !screen.text().contains("interrupt");
    terminal.until("an empty prompt and no work", idle).await;

    let second = "TOOL:bash:echo from the tool";
    terminal.enter(second).await;
    let answer = format!("Hello from the fake model. You said: {second}");
    let all = [first, "one two three", DONE, second, "$ echo from the tool", "from the tool", &answer, DONE];
    terminal.conversation(&all).await;
}

#[tokio::test]
async fn a_command_of_the_person_runs() {
    let Attached { terminal, stage: _stage, _home } = at_home().await;
    terminal.press(&["!"]);
    terminal.shows("Shell").await;
    terminal.enter("echo from the person").await;
    terminal.conversation(&["$ echo from the person", "from the person", OPEN]).await;
    let prompt = "SAY:seen";
    terminal.enter(prompt).await;
    terminal.conversation(&["$ echo from the person", "from the person", prompt, "seen", DONE]).await;
}

#[tokio::test]
async fn an_answer_is_interrupted() {
    let Attached { terminal, stage, _home } = at_home().await;
    let prompt = "HOLD:long SAY:never to be finished";
    terminal.enter(prompt).await;
    stage.model.held("long").await;
    terminal.conversation(&[prompt, "never to be", OPEN]).await;

    terminal.press(&["Escape"]);
    terminal.shows("again to interrupt").await;
    terminal.press(&["Escape"]);
    stage.model.abandoned("long").await;
    terminal.conversation(&[prompt, "never to be", "▣  Build · Fake One · interrupted"]).await;
    terminal.until("an empty prompt", |screen| prompt_box(screen, "")).await;
}

#[tokio::test]
async fn a_session_opened_before_its_text_arrives_shows_it_once() {
    // The terminal knows that the text began, loads the messages, and then gets the pieces of the text. The messages
    // once had those pieces too, and the screen showed them twice until the answer ended.
    let stage = Stage::new().await;
    let lag = Lag::to(stage.server.base_url()).await;
    let Attached { terminal, stage, _home } = attach_at(&lag.base_url(), stage, &[]);
    terminal.shows("Ask anything").await;
    let session = stage.session("the slow one").await;
    let prompt = "HOLD:end SAY:one two three";
    let path = format!("/session/{session}/prompt_async");
    stage.client().post(&path, &stage::prompt(prompt)).await.ok();
    stage.model.held("end").await;
    lag.held().await;

    terminal.write("/sessions").await;
    terminal.shows("Switch session").await;
    terminal.press(&["Enter"]);
    let listed =
        |screen: &Screen| screen.text().contains("pin/unpin") && screen.text().contains("the slow one");
    terminal.until("the list of sessions", listed).await;
    terminal.write("slow").await;
    terminal.press(&["Enter"]);
    terminal.shows(OPEN).await;
    lag.release();
    terminal.conversation(&[prompt, "one two", OPEN]).await;
    stage.model.release("end");
    terminal.conversation(&[prompt, "one two three", DONE]).await;
}

#[tokio::test]
async fn a_terminal_that_comes_in_the_middle_of_an_answer_shows_what_is_missing() {
    let stage = Stage::new().await;
    let session = stage.session("half way").await;
    let prompt = "HOLD:end SAY:one two three";
    let path = format!("/session/{session}/prompt_async");
    stage.client().post(&path, &stage::prompt(prompt)).await.ok();
    stage.model.held("end").await;

    let Attached { terminal, stage, _home } = attach(stage, &["--session", &session]);
    // The original shows only what comes from now on, until the answer ends.
    let so_far = if stage::original().is_some() { vec![prompt, OPEN] } else { vec![prompt, "one two", OPEN] };
    terminal.conversation(&so_far).await;
    stage.model.release("end");
    terminal.conversation(&[prompt, "one two three", DONE]).await;
}

#[tokio::test]
async fn a_permission_is_given_and_another_one_refused() {
    let Attached { terminal, stage, _home } = at_home().await;
    let first = "TOOL:read:/etc/hostname";
    terminal.enter(first).await;
    let asked = [
        "△ Permission required",
        "← Access external directory /etc",
        "Patterns",
        "- /etc/*",
        "Allow once   Allow always   Reject           ctrl+f fullscreen  ⇆ select  enter confirm",
    ];
    // The dialog was once compared when its first line was there, and the rest was not.
    terminal.until(&format!("the question {asked:#?}"), |screen| screen.bottom() == asked).await;

    terminal.press(&["Enter"]);
    let answer = format!("Hello from the fake model. You said: {first}");
    let allowed = [first, "→ Read /etc/hostname", &answer, DONE];
    terminal.conversation(&allowed).await;

    let second = "TOOL:read:/etc/hosts";
    terminal.enter(second).await;
    terminal.until("the same question again", |screen| screen.bottom() == asked).await;
    terminal.press(&["Right"]);
    terminal.press(&["Right"]);
    terminal.press(&["Enter"]);
    let mut refused = allowed.to_vec();
    refused.extend([second, "→ Read /etc/hosts", OPEN]);
    terminal.conversation(&refused).await;
    terminal.until("an empty prompt", |screen| prompt_box(screen, "")).await;

    let session = only_session(&stage).await;
    let tools = tool_states(&stage, &session).await;
    assert_eq!(tools, [("/etc/hostname".into(), "completed".into()), ("/etc/hosts".into(), "error".into())]);
}

/// The file and the status of each tool call.
async fn tool_states(stage: &Stage, session: &str) -> Vec<(String, String)> {
    let messages = stage.messages(session).await;
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let tools = parts.filter(|part| part["type"] == "tool").map(|part| &part["state"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    tools.map(|state| (text(&state["input"]["filePath"]), text(&state["status"]))).collect()
}

async fn only_session(stage: &Stage) -> String {
    let sessions = stage.client().get("/session").await.ok().json();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    sessions[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn undo_and_redo() {
    let Attached { terminal, stage, _home } = at_home().await;
    terminal.enter("SAY:before").await;
    let before = ["SAY:before", "before", DONE];
    terminal.conversation(&before).await;
    let prompt = format!("TOOL:write:{}/w.txt=written", stage.repo.dir());
    terminal.enter(&prompt).await;
    let answer = format!("Hello from the fake model. You said: {prompt}");
    let mut written = before.to_vec();
    written.extend([&prompt, "# Wrote w.txt", "1 written", &answer, DONE]);
    terminal.conversation(&written).await;
    assert_eq!(stage.repo.read("w.txt"), "written");

    terminal.write("/undo").await;
    terminal.shows("Undo previous message").await;
    terminal.press(&["Enter"]);
    let mut undone = before.to_vec();
    undone.extend(["1 message reverted", "ctrl+x r or /redo to restore", "w.txt -1"]);
    terminal.conversation(&undone).await;
    terminal.until("the prompt to be back in its box", |screen| prompt_box(screen, &prompt)).await;
    assert!(!stage.repo.join("w.txt").exists(), "undo takes the file away");

    terminal.press(&["C-x", "r"]);
    terminal.conversation(&written).await;
    assert_eq!(stage.repo.read("w.txt"), "written");
}

#[tokio::test]
async fn sessions_are_listed_and_switched() {
    let stage = Stage::new().await;
    let red = stage.session("the red one").await;
    stage.prompt(&red, "SAY:red answer").await;
    let blue = stage.session("the blue one").await;
    stage.prompt(&blue, "SAY:blue answer").await;

    let Attached { terminal, stage, _home } = attach(stage, &["--session", &blue]);
    terminal.conversation(&["SAY:blue answer", "blue answer", DONE]).await;
    terminal.shows("the blue one").await;

    terminal.write("/sessions").await;
    terminal.shows("Switch session").await;
    terminal.press(&["Enter"]);
    let listed = |screen: &Screen| {
        let text = screen.text();
        text.contains("pin/unpin") && text.contains("● the blue one") && text.contains("the red one")
    };
    terminal.until("the list of sessions", listed).await;

    terminal.write("red").await;
    let found =
        |screen: &Screen| screen.text().contains("the red one") && !screen.text().contains("● the blue one");
    terminal.until("only what was searched for", found).await;
    terminal.press(&["Enter"]);
    terminal.conversation(&["SAY:red answer", "red answer", DONE]).await;

    // What others do in this session shows up here as well.
    stage.prompt(&red, "SAY:from elsewhere").await;
    let all = ["SAY:red answer", "red answer", DONE, "SAY:from elsewhere", "from elsewhere", DONE];
    terminal.conversation(&all).await;
    stage.client().patch(&format!("/session/{red}"), &json!({"title": "the green one"})).await.ok();
    terminal.shows("the green one").await;
}
