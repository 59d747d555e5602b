//! `everturn run` beside a server on the same database: whose work it shows, answers and stops.

use everturn_model::{Event, EventId, SessionId};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::{Pair, heard, hears_prompt, is_of, say};

/// What a command printed, once it has ended with a status.
async fn printed(mut command: Command, status: i32) -> String {
    let output = within("the command to end", command.output()).await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// `everturn run` in a session that a server runs shows what that one says, to its end.
async fn check_run(pair: &Pair) {
    // It printed the pieces that had been saved, without the rest, and nothing at all of a short answer.
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("run beside").await;
    say(&pair.far.client(), &session, "HOLD:first SAY:one two three").await;
    pair.model.held("first").await;
    let run = tokio::spawn(printed(pair.run(&session, &["SAY:hi there"]), 0));
    let prompted = |event: &Value| {
        is_of(event, "message.part.updated", &session)
            && event["properties"]["part"]["text"] == "SAY:hi there"
    };
    far.wait_for(prompted).await;
    pair.model.release("first");
    assert_eq!(run.await.unwrap(), "one two three\nhi there\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_shows_the_whole_answer_of_a_server_on_one_file() {
    check_run(&Pair::on_a_file().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_shows_the_whole_answer_of_a_server_on_one_postgres() {
    check_run(&Pair::on_a_server().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_answers_what_a_server_asks_in_that_session() {
    // It waited for ever, because only what its own process asked was answered.
    let pair = Pair::on_a_file().await;
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("asked").await;
    let refused = "✗ read The user rejected permission to use this specific tool call.\n";
    for (hold, arguments, status, begin, end) in
        [("yes", &["--yes"][..], 0, "✓ read ", "\nand on\n"), ("no", &[][..], 3, refused, refused)]
    {
        say(&pair.far.client(), &session, &format!("HOLD:{hold} SAY:one two")).await;
        pair.model.held(hold).await;
        let text = format!("for {hold}\nTOOL:read:/etc/hostname\nSAY:and on");
        let command = pair.run(&session, &[arguments, &[text.as_str()]].concat());
        let run = tokio::spawn(printed(command, status));
        hears_prompt(&mut far, &session, &text).await;
        pair.model.release(hold);
        let printed = run.await.unwrap();
        let answer = printed.strip_prefix("one two\n").unwrap_or_default();
        assert!(answer.starts_with(begin) && answer.ends_with(end), "{printed}");
        heard(&mut far, "session.idle", &session).await;
    }
}

/// `everturn run` for a session that another process has, until somebody deletes it.
async fn check_run_deleted(pair: &Pair) {
    // It waited for the work to be tried ten times, or ended as if it had been answered.
    let mut far = pair.far.client().events("/event").await;
    let store = pair.store().await;
    for (purge, said) in
        [(false, "is in the trash; `everturn session restore"), (true, "was deleted for good at")]
    {
        let session = pair.session("deleted").await;
        let id = SessionId::new(session.as_str());
        store.acquire(&id).await.unwrap();
        let mut run = pair.run(&session, &["SAY:never"]);
        let run = tokio::spawn(async move { within("the run to end", run.output()).await.unwrap() });
        let prompted = |event: &Value| {
            is_of(event, "message.part.updated", &session)
                && event["properties"]["part"]["text"] == "SAY:never"
        };
        far.wait_for(prompted).await;
        if purge {
            assert!(store.purge(&id, 1).await.unwrap());
        } else {
            let event =
                NewEvent { id: EventId::new("evt_trashed"), time: 1, event: Event::SessionTrashed {} };
            store.append(&id, Authority::Open, vec![event]).await.unwrap();
        }
        let ended = run.await.unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{complaint}");
        let deleted =
            format!("everturn: the session was deleted before the answer was complete: {session} {said}");
        assert!(complaint.contains(&deleted), "{complaint}");
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_ends_when_its_session_is_deleted_on_one_file() {
    check_run_deleted(&Pair::on_a_file().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_ends_when_its_session_is_deleted_on_one_postgres() {
    check_run_deleted(&Pair::on_a_server().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_ends_when_the_session_that_a_server_runs_is_deleted() {
    let pair = Pair::on_a_file().await;
    let mut far = pair.far.client().events("/event").await;
    for (hold, deleted_by) in [("near", &pair.near), ("far", &pair.far)] {
        let session = pair.session("deleted at work").await;
        say(&pair.far.client(), &session, &format!("HOLD:{hold} SAY:one two three")).await;
        pair.model.held(hold).await;
        let mut run = pair.run(&session, &["SAY:never"]);
        let run = tokio::spawn(async move { within("the run to end", run.output()).await.unwrap() });
        let prompted = |event: &Value| {
            is_of(event, "message.part.updated", &session)
                && event["properties"]["part"]["text"] == "SAY:never"
        };
        far.wait_for(prompted).await;
        deleted_by.client().delete(&format!("/session/{session}")).await.ok();
        let ended = run.await.unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{hold}: {complaint}");
        let deleted = format!(
            "everturn: the session was deleted before the answer was complete: {session} is in the trash; \
             `everturn session restore {session}` takes it out again\n"
        );
        assert!(complaint.ends_with(&deleted), "{hold}: {complaint}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_on_the_command_line_shows_the_whole_answer_to_a_late_reader() {
    // More pieces than the bus holds went by while nobody read: a quarter of the answer was left out.
    let pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    let words: Vec<String> = (0..40_000).map(|number| format!("{number:04x}")).collect();
    let answer = words.join(" ");
    let script = json!({"title": "long", "pace": 0, "steps": [{"text": answer}]});
    std::fs::write(pair.repo.path().join("long.json"), script.to_string()).unwrap();
    let session = pair.session("read late").await;
    let run = pair.run(&session, &["--model", "scripted/./long.json", "go"]).spawn().unwrap();
    heard(&mut near, "session.idle", &session).await;
    let ended = within("the run to end", run.wait_with_output()).await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(printed.len(), answer.len() + 1, "the answer and the end of its line");
    assert!(printed.trim_end_matches('\n') == answer, "in its order");
}

/// Presses Ctrl-C for a run.
fn interrupt(run: &Child) {
    let pid = run.id().and_then(|id| Pid::from_raw(i32::try_from(id).unwrap())).expect("it runs");
    kill_process(pid, Signal::INT).unwrap();
}

/// Reads what a run prints until `text` is there.
async fn reads(output: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut read = Vec::new();
    let wait = async {
        while !String::from_utf8_lossy(&read).contains(text) {
            let count = output.read_buf(&mut read).await.unwrap();
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&read));
        }
    };
    within(&format!("the run to print {text:?}"), wait).await;
}

/// The texts of the answers in a session.
async fn answers(pair: &Pair, session: &str) -> Vec<String> {
    let messages = pair.near.client().get(&format!("/session/{session}/message")).await.ok().json();
    let messages = messages.as_array().unwrap().iter();
    let parts = messages
        .filter(|message| message["info"]["role"] == "assistant")
        .flat_map(|message| message["parts"].as_array().unwrap());
    parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_before_the_prompt_has_begun_leaves_the_turn_of_a_server_alone() {
    // It stopped that turn, and the prompt with it.
    let pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    let session = pair.session("left alone").await;
    say(&pair.far.client(), &session, "HOLD:first SAY:one two three").await;
    pair.model.held("first").await;
    let run = pair.run(&session, &["SAY:and this"]).spawn().unwrap();
    hears_prompt(&mut near, &session, "SAY:and this").await;
    interrupt(&run);
    let ended = within("the run to end", run.wait_with_output()).await.unwrap();
    let expected = format!(
        "everturn: left; another process is at work on the session {session}, and answers the prompt after that\n"
    );
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap()), (Some(1), expected));
    pair.model.release("first");
    heard(&mut near, "session.idle", &session).await;
    assert_eq!(answers(&pair, &session).await, ["one two three", "and this"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_ctrl_c_leaves_although_the_work_has_not_stopped() {
    let pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    let session = pair.session("frozen").await;
    say(&pair.far.client(), &session, "HOLD:first SAY:one two").await;
    pair.model.held("first").await;
    let mut run = pair.run(&session, &["HOLD:own SAY:three four"]).spawn().unwrap();
    let (mut out, mut notes) = (run.stdout.take().unwrap(), run.stderr.take().unwrap());
    hears_prompt(&mut near, &session, "HOLD:own SAY:three four").await;
    pair.model.release("first");
    // Text is there before its line ends.
    reads(&mut out, "three ").await;
    // A process that stands still stops nothing.
    let far = Pid::from_raw(pair.far.pid()).unwrap();
    kill_process(far, Signal::STOP).unwrap();
    interrupt(&run);
    reads(&mut notes, "stopping; Ctrl-C again leaves at once\n").await;
    interrupt(&run);
    reads(&mut notes, &format!("everturn: left before the session {session} had stopped\n")).await;
    assert_eq!(within("the run to end", run.wait()).await.unwrap().code(), Some(1));
}

/// What a run says when another process asks something that is not about its prompt.
const ASKED: &str =
    "another process asks something in this session; it goes on when that is answered there\n";

/// A turn in which two things are asked for at once.
const ASKING: &str = "TOGETHER:2\nTOOL:read:/etc/hostname\nTOOL:read:/etc/passwd\nSAY:read them";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_asks_before_the_prompt_has_begun_is_not_answered_for_it() {
    // With --yes it was allowed, and without refused, by somebody who had not been asked.
    let pair = Pair::on_a_file().await;
    let mut near = pair.near.client().events("/event").await;
    for arguments in [&["--yes"][..], &[][..]] {
        let session = pair.session("asked elsewhere").await;
        say(&pair.far.client(), &session, ASKING).await;
        let mut requests = Vec::new();
        for _ in 0..2 {
            requests.push(heard(&mut near, "permission.asked", &session).await["properties"]["id"].clone());
        }
        let mut run = pair.run(&session, &[arguments, &["SAY:and on"]].concat()).spawn().unwrap();
        let mut notes = run.stderr.take().unwrap();
        reads(&mut notes, ASKED).await;
        hears_prompt(&mut near, &session, "SAY:and on").await;
        let waiting = pair.near.client().get("/permission").await.ok().json();
        let waiting: Vec<Value> =
            waiting.as_array().unwrap().iter().map(|request| request["id"].clone()).collect();
        assert_eq!(waiting, requests);
        for id in &requests {
            let reply = format!("/permission/{}/reply", id.as_str().unwrap());
            pair.near.client().post(&reply, &json!({"reply": "once"})).await.ok();
        }
        let ended = within("the run to end", run.wait_with_output()).await.unwrap();
        assert_eq!(ended.status.code(), Some(0));
        let printed = String::from_utf8(ended.stdout).unwrap();
        assert!(!printed.contains('✗') && printed.ends_with("and on\n"), "{printed}");
        let mut rest = String::new();
        notes.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, format!("session {session}\n"), "it is said once");
    }
}

/// A server dies while a turn of its waits for `asked` answers, and the run that waited for it goes on.
async fn check_takes_over(text: &str, asked: usize, expected: &str) {
    let mut pair = Pair::on_a_file().await;
    let mut far = pair.far.client().events("/event").await;
    let session = pair.session("taken over").await;
    // Else it might be this one that goes on.
    pair.near.kill9().await;
    say(&pair.far.client(), &session, text).await;
    for _ in 0..asked {
        far.wait_for(|event| event["type"] == "permission.asked").await;
    }
    let mut run = pair.run(&session, &["--yes", "SAY:and on"]).spawn().unwrap();
    let mut notes = run.stderr.take().unwrap();
    reads(&mut notes, ASKED).await;
    pair.far.kill9().await;
    let ended = within("the run to end", run.wait_with_output()).await.unwrap();
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{printed}");
    assert_eq!(printed.matches(expected).count(), asked, "{printed}");
    assert!(printed.ends_with("and on\n"), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_asked_before_it_died_is_answered_by_the_run_that_goes_on() {
    check_takes_over(ASKING, 2, "✓ read").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_subagent_asked_before_its_server_died_is_answered_by_the_run_that_goes_on() {
    let text = "TOOL:task:TOOL:read:/etc/hostname\\nSAY:looked\nSAY:done";
    check_takes_over(text, 1, "✓ task").await;
}
