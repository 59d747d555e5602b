//! What must hold when another process has taken over.
//!
//! - Each prompt that was accepted is there once, is promoted once or taken back, and the client that tries again changes
//!   nothing. Each one that was promoted is followed by a turn.
//! - No command ran twice, and one whose result says that it ran did.
//! - Each call is settled once.
//! - The session goes on with the next prompt and comes to rest; nobody is asked anything any more.
//! - What is stored is the fold of the log.
//! - Every request to the model was valid.
//! - What was used is counted once, what was saved is kept, and what was changed is named: [`accounts`].
//! - No process is left that works in the project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn_engine::sessions::{ArchivedSessions, Filter};
use everturn_engine::{Engine, Prompt};
use everturn_model::part::PartKind;
use everturn_model::request::{Ask, Reply};
use everturn_model::tool::{Outcome, ToolState};
use everturn_model::{Body, EntryId, Event, Part, Record, Session, SessionId, Tree, fold};
use everturn_testkit::{request_rules, within};

use super::accounts::{self, SavedText};
use super::child::Life;
use super::place::Ground;
use super::stories::Story;

/// The last prompt of each session.
const LAST: &str = "SAY:the last word";

/// Opens another engine where lives have ended, lets it recover, and checks all of it. Gives the text that had been saved.
pub(super) fn check(ground: &Ground, lives: &[Life], title: &str) -> Vec<SavedText> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let saved = runtime.block_on(async {
        ["talk", "stop", "begun"].iter().for_each(|name| ground.model.release(name));
        let moved = ground.repo.path().with_extension("moved");
        if moved.exists() {
            std::fs::rename(&moved, ground.repo.path()).unwrap();
        }
        let engine = Engine::open(ground.surroundings().options()).await.unwrap();
        let saved = SavedText::of(ground, &all(&engine).await).await;
        engine.recover().await.unwrap();
        for session in engine.trash().list().await.unwrap() {
            engine.trash().restore(&session.id).await.unwrap();
        }
        at_rest(&engine, title).await;
        try_again(&engine, lives, title).await;
        at_rest(&engine, title).await;
        for session in all(&engine).await {
            engine.inbox().admit(&session.id, Prompt::text(LAST)).await.unwrap();
        }
        at_rest(&engine, title).await;
        let sessions = all(&engine).await;
        assert_eq!(engine.requests().waiting().await.unwrap(), [], "{title}: somebody is asked");
        let mut logs = Vec::new();
        for session in &sessions {
            assert!(!session.is_at_work() && session.waiting == 0 && !session.held, "{title}: {session:?}");
            let log = engine.sessions().log(&session.id).await.unwrap();
            let tree = engine.sessions().tree(&session.id).await.unwrap();
            assert!(fold::replay(&log).unwrap() == Some(tree.clone()), "{title}: not the fold of the log");
            let said = tree.into_path(session.leaf.as_ref());
            let goes_on = said.iter().any(|node| {
                let Some(answer) = node.entry.body.assistant() else { return false };
                // A prompt that the model refused is part of the next one, which it refuses then too.
                let refused = ground.story == Story::Failures && answer.error.is_some();
                let words = |part: &Part| matches!(&part.kind, PartKind::Text { text, .. } if text == "the last word");
                refused || node.parts.iter().any(words)
            });
            assert!(goes_on, "{title}: {} does not go on: {said:#?}", session.title);
            logs.push((session.id.clone(), log));
        }
        check_prompts(&logs, lives, title);
        for session in &sessions {
            let tree = engine.sessions().tree(&session.id).await.unwrap();
            let log = logs.iter().find(|(id, _)| *id == session.id).map(|(_, log)| log).unwrap();
            check_calls(&tree, log, title);
            check_ledger(log, &ground.ledger(), title);
            accounts::check_usage(&tree, log, title);
            accounts::check_words(&tree, title);
            accounts::check_files(ground, log, title);
        }
        accounts::check_bill(&engine, &sessions, title).await;
        accounts::check_saved(&saved, &logs, title);
        let faults: Vec<_> = ground.model.arrivals().iter().flat_map(request_rules::broken).collect();
        assert_eq!(faults, Vec::<String>::new(), "{title}");
        within("the engine to close", engine.close()).await;
        saved
    });
    within_blocking(&format!("{title}: nobody to work in the project"), || {
        working_in(ground.repo.path()).is_empty()
    });
    saved
}

/// All sessions, those of tasks too.
pub(super) async fn all(engine: &Engine) -> Vec<Session> {
    let filter = Filter { archived: ArchivedSessions::Included, limit: Some(100), ..Filter::default() };
    engine.sessions().list(filter).await.unwrap()
}

/// Answers whatever is asked until no session works. What a stop holds rests.
pub(super) async fn at_rest(engine: &Engine, title: &str) {
    let rest = async {
        loop {
            for (_, request) in engine.requests().waiting().await.unwrap() {
                // Somebody may have withdrawn it meanwhile.
                drop(match &request.ask {
                    Ask::Question { .. } => {
                        engine.requests().answer(&request.id, vec![vec!["red".to_owned()]]).await
                    }
                    _ => engine.requests().reply(&request.id, Reply::Once, None).await,
                });
            }
            let sessions = all(engine).await;
            let works = |session: &Session| {
                let has_work = session.is_at_work() || (session.waiting > 0 && !session.held);
                engine.drains().is_running(&session.id) || (has_work && !session.parked)
            };
            if !sessions.iter().any(works) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(40), rest).await.is_err() {
        panic!("{title}: no rest: {:#?}", all(engine).await);
    }
}

/// The client whose prompt was not acknowledged hands it in again, and so does one whose was.
async fn try_again(engine: &Engine, lives: &[Life], title: &str) {
    let Some((session, id, text)) = lives.iter().flat_map(|life| &life.tried).last() else { return };
    let (session, id) = (SessionId::new(session.clone()), EntryId::new(id.clone()));
    let changed = |event: &Event| match event {
        Event::PromptEdited { item } => item.id == id,
        Event::PromptCancelled { id: cancelled } => *cancelled == id,
        _ => false,
    };
    let log = engine.sessions().log(&session).await.unwrap();
    if log.iter().any(|record| changed(&record.event)) {
        return;
    }
    let admitted = log.iter().find_map(|record| match &record.event {
        Event::PromptAdmitted { item } if item.id == id => Some(item),
        _ => None,
    });
    let mut prompt = Prompt { id: Some(id.clone()), ..Prompt::text(text) };
    if let Some(item) = admitted {
        prompt = Prompt { delivery: item.delivery, resume: item.resume, ..prompt };
    }
    engine.inbox().admit(&session, prompt).await.unwrap_or_else(|error| panic!("{title}: {error}"));
}

fn check_prompts(logs: &[(SessionId, Vec<Record>)], lives: &[Life], title: &str) {
    let mut admitted: BTreeMap<EntryId, usize> = BTreeMap::new();
    let mut ended: BTreeMap<EntryId, usize> = BTreeMap::new();
    for (_, log) in logs {
        let mut unanswered = Vec::new();
        for record in log {
            match &record.event {
                Event::PromptAdmitted { item } => *admitted.entry(item.id.clone()).or_default() += 1,
                Event::PromptPromoted { id, .. } => {
                    *ended.entry(id.clone()).or_default() += 1;
                    unanswered.push(id.clone());
                }
                Event::PromptCancelled { id } => *ended.entry(id.clone()).or_default() += 1,
                // One that was asked for waited like a prompt.
                Event::CompactionStarted { entry, .. } if admitted.contains_key(&entry.id) => {
                    *ended.entry(entry.id.clone()).or_default() += 1;
                }
                Event::StepStarted { .. } => unanswered.clear(),
                _ => {}
            }
        }
        assert_eq!(unanswered, [], "{title}: nobody began to answer");
    }
    for id in lives.iter().flat_map(|life| &life.accepted) {
        let id = EntryId::new(id.clone());
        assert_eq!(admitted.get(&id), Some(&1), "{title}: {id} was accepted");
    }
    assert!(admitted.values().all(|times| *times == 1), "{title}: accepted twice: {admitted:?}");
    assert_eq!(ended, admitted, "{title}: each prompt is promoted or taken back, and that once");
}

/// Each call has one result, and no answer is left open.
fn check_calls(tree: &Tree, log: &[Record], title: &str) {
    let (mut called, mut settled) = (BTreeMap::new(), BTreeMap::new());
    for record in log {
        match &record.event {
            Event::ToolCalled { part, hosted: false, .. } => *called.entry(part.clone()).or_insert(0) += 1,
            Event::ToolSettled { part: Some(part), .. } => *settled.entry(part.clone()).or_insert(0) += 1,
            _ => {}
        }
    }
    assert!(called.values().all(|times| *times == 1), "{title}: called twice: {called:?}");
    assert!(settled.values().all(|times| *times == 1), "{title}: settled twice: {settled:?}");
    assert!(called.keys().all(|part| settled.contains_key(part)), "{title}: {called:?} and {settled:?}");
    // What began to come and was never called is closed with its answer.
    let mut answers = tree.nodes().iter().filter_map(|node| node.entry.body.assistant());
    assert!(answers.all(|answer| answer.completed.is_some()), "{title}: an answer is left open");
}

/// No command ran twice, and those ran whose results say so.
fn check_ledger(log: &[Record], ledger: &[String], title: &str) {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    ledger.iter().for_each(|line| *lines.entry(line).or_default() += 1);
    assert!(lines.values().all(|times| *times == 1), "{title}: a command ran twice: {ledger:?}");
    let mut commands = BTreeMap::new();
    for record in log {
        match &record.event {
            Event::ShellStarted { parts, .. } => commands.extend(parts.iter().filter_map(|part| {
                let PartKind::Tool { state, .. } = &part.kind else { return None };
                Some((part.id.clone(), state.input()["command"].as_str()?))
            })),
            Event::ShellEnded { part: Some(part), .. } => {
                let PartKind::Tool { state: ToolState::Completed { .. }, .. } = &part.kind else { continue };
                let line =
                    commands[&part.id].strip_prefix("echo ").and_then(|rest| rest.split(" >> ").next());
                let ran = line.is_some_and(|line| lines.contains_key(line));
                // One that was stopped may not have got so far.
                assert!(ran || commands[&part.id].contains("sleep"), "{title}: {line:?}: {ledger:?}");
            }
            Event::ToolCalled { part, input, .. } => {
                commands.extend(input["command"].as_str().map(|command| (part.clone(), command)));
            }
            Event::ToolSettled { entry, part: Some(part), .. } => {
                let Body::ToolResult { result } = &entry.body else { continue };
                let Some(command) = commands.get(part) else { continue };
                let line = command.strip_prefix("echo ").and_then(|rest| rest.split(" >> ").next());
                let ran = line.is_some_and(|line| lines.contains_key(line));
                let right = ran || result.outcome != Outcome::Completed;
                assert!(right, "{title}: {command:?} is said to have run: {ledger:?}");
            }
            _ => {}
        }
    }
}

/// The processes whose folder is in the project.
fn working_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|process| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .collect()
}

fn within_blocking(what: &str, so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
