//! What comes with a prompt reaches the model, or it is said that it does not.

use std::io::Write as _;

use everturn_engine::inbox::{PartInput, WaitingOutcome};
use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::entry::AnswerShape;
use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_testkit::within;
use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use crate::bench::Bench;

fn file(mime: &str, url: &str) -> PartInput {
    let kind: PartKind =
        serde_json::from_value(json!({"file": {"mime": mime, "filename": "it", "url": url}})).unwrap();
    PartInput::new(kind)
}

/// A prompt with these attached.
fn prompt(files: impl IntoIterator<Item = PartInput>) -> Prompt {
    let mut prompt = Prompt::text("SAY:I see");
    prompt.parts.extend(files);
    prompt
}

/// What the model was told with the newest prompt, besides its text.
fn told(bench: &Bench) -> Vec<String> {
    let request = bench.model.prompts().pop().unwrap();
    let message = request["messages"].as_array().unwrap().last().unwrap().clone();
    // The texts of a message, with an empty line between them.
    let (said, rest) = message["content"].as_str().unwrap().split_once("\n\n").unwrap();
    assert_eq!(said, "SAY:I see");
    rest.split("\n\n").map(str::to_owned).collect()
}

/// Attaches something and compares what the model and whoever looks on are told; `$` is the path of the project.
async fn check(bench: &mut Bench, mime: &str, url: &str, model: &str, person: Option<&str>) {
    let root = bench.repo.path().display().to_string();
    let attached = prompt([file(mime, &url.replace('$', &root))]);
    within("the prompt", bench.engine.inbox().admit(&bench.session.id, attached)).await.unwrap();
    bench.settled().await;
    assert_eq!(told(bench), [model.replace('$', &root)], "{url}");
    let heard = bench
        .notice(|update| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Failed { error } => Some(error.message.clone()),
                Signal::Idle => Some(None),
                _ => None,
            },
            _ => None,
        })
        .await;
    assert_eq!(heard, person.map(|said| said.replace('$', &root)), "{url}");
    if heard.is_some() {
        let idle = |update: &SessionUpdate| {
            matches!(update, SessionUpdate::Live(live) if live.signal == Signal::Idle).then_some(())
        };
        bench.notice(idle).await;
    }
}

/// What the person hears next that failed.
async fn failure(bench: &mut Bench) -> String {
    bench
        .notice(|update| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Failed { error } => Some(error.text().to_owned()),
                _ => None,
            },
            _ => None,
        })
        .await
}

#[tokio::test]
async fn the_lines_that_a_client_names_reach_the_model() {
    // The whole file did, or nothing of one that is large.
    let mut bench = Bench::new().await;
    bench.repo.write("b.txt", "one\ntwo\nthree\nfour\n");
    let said = |lines: &str| format!("Lines {lines}");
    for (range, lines) in [
        ("start=2&end=3", said("2 to 3 of the attached file $/b.txt:\ntwo\nthree\n")),
        ("start=4", said("4 to 4 of the attached file $/b.txt:\nfour\n")),
        ("start=3&end=90", said("3 to 4 of the attached file $/b.txt:\nthree\nfour\n")),
    ] {
        check(&mut bench, "text/plain", &format!("file://$/b.txt?{range}"), &lines, None).await;
    }
    let mut large = std::fs::File::create(bench.repo.path().join("large.log")).unwrap();
    for _ in 0..1024 {
        large.write_all(format!("{}\n", "x".repeat(1023)).as_bytes()).unwrap();
    }
    large.write_all(b"the end\n").unwrap();
    let end = "Lines 1025 to 1025 of the attached file $/large.log:\nthe end\n";
    check(&mut bench, "text/plain", "file://$/large.log?start=1025", end, None).await;
    let whole = "Attached file $/large.log has more than 262144 bytes; read it in parts.";
    check(&mut bench, "text/plain", "file://$/large.log", whole, Some(whole)).await;
    let cut = format!(
        "Lines 2 to 258 of the attached file $/large.log:\n{}[Cut here, in line 258: no more than 262144 bytes are shown.]",
        format!("{}\n", "x".repeat(1023)).repeat(256)
    );
    check(&mut bench, "text/plain", "file://$/large.log?start=2", &cut, None).await;
}

#[tokio::test]
async fn a_folder_reaches_the_model_as_its_names() {
    let mut bench = Bench::new().await;
    for name in ["pieces/one.txt", "pieces/sub/two.txt"] {
        bench.repo.write(name, "x");
    }
    let names = "Attached folder $/pieces:\none.txt\nsub/";
    check(&mut bench, "application/x-directory", "file://$/pieces", names, None).await;
    // What is there counts, whatever the client takes it for.
    check(&mut bench, "text/plain", "file://$/pieces", names, None).await;
    check(&mut bench, "image/png", "file://$/pieces", names, None).await;
    let text = "Attached file $/a.txt:\nhello\n";
    check(&mut bench, "application/x-directory", "file://$/a.txt", text, None).await;
    std::fs::create_dir(bench.repo.path().join("empty")).unwrap();
    let empty = "Attached folder $/empty is empty.";
    check(&mut bench, "application/x-directory", "file://$/empty", empty, None).await;
    let many = bench.repo.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..1_001 {
        std::fs::write(many.join(format!("{number:04}")), "").unwrap();
    }
    let listed: String = (0..1_000).map(|number| format!("\n{number:04}")).collect();
    let most = format!("The first 1000 of 1001 names in the attached folder $/many:{listed}");
    check(&mut bench, "application/x-directory", "file://$/many", &most, None).await;
}

#[tokio::test]
async fn text_in_an_address_reaches_the_model_decoded() {
    let mut bench = Bench::new().await;
    for (url, text) in [
        ("data:text/plain,a%20b%0Ac", "a b\nc"),
        ("data:text/plain;charset=iso-8859-1,caf%E9", "café"),
        ("data:text/plain;base64,aGVsbG8=", "hello"),
        ("data:text/plain;base64,aGVsbG8", "hello"),
    ] {
        check(&mut bench, "text/plain", url, &format!("Attached file it:\n{text}"), None).await;
    }
    let damaged = "Attached file it could not be read: its base64 is damaged.";
    check(&mut bench, "text/plain", "data:text/plain;base64,a", damaged, Some(damaged)).await;
}

#[tokio::test]
async fn what_does_not_reach_the_model_is_said_to_it_and_to_the_person() {
    // Nobody learned of it: the model answered as if nothing had been attached.
    let mut bench = Bench::new().await;
    std::fs::write(bench.repo.path().join("a.zip"), b"PK\x03\x04\0").unwrap();
    let pipe = bench.repo.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for (mime, url, said) in [
        (
            "text/plain",
            "file://$/none.txt",
            "Attached file $/none.txt could not be read: No such file or directory (os error 2).",
        ),
        (
            "application/x-directory",
            "file://$/none",
            "Attached folder $/none could not be read: No such file or directory (os error 2).",
        ),
        (
            "image/png",
            "file://$/pipe",
            "Attached file $/pipe could not be read: it is a named pipe, not an ordinary file.",
        ),
        (
            "application/zip",
            "file://$/a.zip",
            "Attached file $/a.zip (application/zip) is not shown; look at it with tools.",
        ),
        (
            "text/plain",
            "file://$/a.zip",
            "Attached file $/a.zip (text/plain) is not shown; look at it with tools.",
        ),
        ("text/plain", "file://$/a.txt?start=7", "Attached file $/a.txt has no line 7: it has 1."),
        (
            "text/plain",
            "file://$/a.txt?start=7&end=3",
            "Attached file $/a.txt is not shown: there is nothing from line 7 to line 3.",
        ),
        (
            "image/png",
            "https://example.com/a.png",
            "Attached file https://example.com/a.png is not shown: only files of this machine are read.",
        ),
    ] {
        check(&mut bench, mime, url, said, Some(said)).await;
    }
    // What is text is shown, whatever it is called.
    bench.repo.write("a.json", "{}");
    check(&mut bench, "application/json", "file://$/a.json", "Attached file $/a.json:\n{}", None).await;
}

#[tokio::test]
async fn what_a_changed_prompt_attaches_is_read_again() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let url = |lines: &str| format!("file://{}/a.txt{lines}", bench.repo.path().display());
    let waiting = Prompt { resume: false, ..prompt([file("text/plain", &url(""))]) };
    let item = bench.engine.inbox().admit(id, waiting).await.unwrap();
    bench.repo.write("a.txt", "new\nhello\n");
    let edited =
        bench.engine.inbox().edit(id, &item.id, prompt([file("text/plain", &url("?start=1&end=1"))])).await;
    assert!(matches!(edited, Ok(WaitingOutcome::Done(_))), "{edited:?}");
    assert!(bench.engine.drains().resume(id).await.unwrap());
    bench.settled().await;
    let expected = format!("Lines 1 to 1 of the attached file {}/a.txt:\nnew\n", bench.repo.path().display());
    assert_eq!(told(&bench), [expected]);
}

#[tokio::test]
async fn what_a_changed_prompt_cannot_attach_is_said_to_the_person() {
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    let waiting = Prompt { resume: false, ..Prompt::text("SAY:I see") };
    let item = bench.engine.inbox().admit(&id, waiting).await.unwrap();
    bench.engine.inbox().edit(&id, &item.id, prompt([file("text/plain", "file:///none/x")])).await.unwrap();
    let said = "Attached file /none/x could not be read: No such file or directory (os error 2).";
    assert_eq!(failure(&mut bench).await, said);
}

#[tokio::test]
async fn a_changed_prompt_demands_what_it_did_unless_it_says_more() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let off = |name: &str| Some([(name.to_owned(), json!(false))].into_iter().collect());
    let url = format!("file://{}/a.txt", bench.repo.path().display());
    let waiting = Prompt {
        system: Some("Be brief.".to_owned()),
        tools: off("bash"),
        format: Some(AnswerShape { schema: json!({"type": "object"}), retries: 1 }),
        resume: false,
        ..prompt([file("text/plain", &url)])
    };
    let item = bench.engine.inbox().admit(id, waiting).await.unwrap();
    let edited = bench.engine.inbox().edit(id, &item.id, Prompt::text("SAY:other")).await;
    let Ok(WaitingOutcome::Done(edited)) = edited else { panic!("{edited:?}") };
    let demands =
        |item: &InboxItem| (item.user.system.clone(), item.user.tools.clone(), item.user.format.clone());
    assert_eq!(demands(&edited), demands(&item));
    assert_eq!(edited.parts.len(), 1, "it attaches what it says now: {:?}", edited.parts);
    let other =
        Prompt { system: Some("Be long.".to_owned()), tools: off("read"), ..Prompt::text("SAY:third") };
    bench.engine.inbox().edit(id, &item.id, other).await.unwrap();
    assert!(bench.engine.drains().resume(id).await.unwrap());
    bench.settled().await;
    let request = bench.model.prompts().swap_remove(0);
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("Be long.") && !system.contains("Be brief."), "{system}");
    let tools: Vec<&str> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    assert!(tools.contains(&"bash") && !tools.contains(&"read"), "{tools:?}");
    assert!(tools.contains(&"StructuredOutput"), "the shape stayed: {tools:?}");
}

#[tokio::test]
async fn attachments_that_hang_do_not_hold_a_prompt_up() {
    // Each may take ten seconds, and eight are read at once.
    let bench = Bench::new().await;
    let endless = bench.repo.path().join("endless");
    std::fs::File::create(&endless).unwrap().set_len(1 << 43).unwrap();
    let files = (0..20).map(|_| file("text/plain", &format!("file://{}?start=2", endless.display())));
    // The clock runs ahead whenever all tasks wait.
    tokio::time::pause();
    bench.engine.inbox().admit(&bench.session.id, prompt(files)).await.unwrap();
    tokio::time::resume();
    bench.settled().await;
    let told = told(&bench);
    let after = |seconds: u64| {
        move |said: &String| said.ends_with(&format!("it took longer than {seconds} seconds."))
    };
    // The second eight come to both ends at once.
    assert!(told[..8].iter().all(after(10)) && told[16..].iter().all(after(20)), "{told:?}");
    assert_eq!(told.len(), 20);
}

#[tokio::test]
async fn many_attachments_that_are_missing_are_named_in_short() {
    let mut bench = Bench::new().await;
    let files = (0..20).map(|number| file("text/plain", &format!("file:///none/{number}")));
    bench.engine.inbox().admit(&bench.session.id, prompt(files)).await.unwrap();
    bench.settled().await;
    assert_eq!(told(&bench).len(), 20);
    let heard = failure(&mut bench).await;
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!((lines.len(), lines[8]), (9, "So it is with 12 more."));
}
