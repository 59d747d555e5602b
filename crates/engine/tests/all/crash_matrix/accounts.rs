//! What must be right of what a session has used, said and changed, wherever a process was killed.
//!
//! - Every answer costs what its tokens cost, and one that the model began has some. Each is counted once: the log, the
//!   session and the bill come to the same sum.
//! - An answer is what the model said, one that was cut off its beginning, and no text is lost that was saved.
//! - What an edit made is there, and its answer names the file.

use std::collections::BTreeMap;

use everturn_engine::Engine;
use everturn_engine::spending::SpendingGroup;
use everturn_model::part::PartKind;
use everturn_model::session::Spent;
use everturn_model::tool::Outcome;
use everturn_model::{Body, EntryId, Event, Money, PartId, Record, Session, SessionId, Tokens, Tree, path};
use everturn_testkit::model_server::RECORDED_GREETING;

use super::place::Ground;
use super::stories::Story;

/// What the model says before it answers.
const THOUGHT: &str = "Let me think about this request.";

/// What tokens cost by the configuration, in a sum of its own.
fn price(tokens: &Tokens) -> Money {
    let each = [
        (tokens.input, 2_000),
        (tokens.output + tokens.reasoning, 10_000),
        (tokens.cache.read, 500),
        (tokens.cache.write, 3_000),
    ];
    Money::from_nanos(each.iter().map(|(count, nanos)| i64::try_from(*count).unwrap() * nanos).sum())
}

fn sum(all: impl IntoIterator<Item = (Tokens, Money)>) -> Spent {
    all.into_iter().fold(Spent::default(), |sum, (tokens, cost)| Spent {
        tokens: sum.tokens.plus(&tokens),
        cost: sum.cost + cost,
    })
}

/// Without the totals, which not every provider gives.
fn counted(spent: Spent) -> (Tokens, Money) {
    (Tokens { total: None, ..spent.tokens }, spent.cost)
}

/// What a session has used.
pub(super) fn check_usage(tree: &Tree, log: &[Record], title: &str) {
    let mut closed: BTreeMap<&EntryId, usize> = BTreeMap::new();
    let mut used = Vec::new();
    for record in log {
        let (tokens, cost, entry) = match &record.event {
            Event::StepEnded { entry, tokens, cost, .. } => (tokens, cost, Some(entry)),
            Event::StepFailed { entry, remains, .. }
            | Event::CompactionEnded { entry, remains, .. }
            | Event::CompactionFailed { entry, remains, .. } => (&remains.tokens, &remains.cost, Some(entry)),
            Event::UsageRecorded { tokens, cost, .. } => (tokens, cost, None),
            Event::UsageReported { tokens, cost, .. } => {
                assert_eq!(*cost, price(tokens), "{title}: {:?}", record.event);
                continue;
            }
            _ => continue,
        };
        assert_eq!(*cost, price(tokens), "{title}: {:?}", record.event);
        if let Some(entry) = entry {
            *closed.entry(entry).or_default() += 1;
        }
        used.push((*tokens, *cost));
    }
    assert!(closed.values().all(|times| *times == 1), "{title}: closed twice: {closed:?}");
    assert_eq!(counted(tree.session.spent), counted(sum(used)), "{title}: what was spent");
    let mut path_sum = Vec::new();
    for node in path::to(tree, tree.session.leaf.as_ref()) {
        path_sum.extend(node.entry.body.assistant().map(|answer| (answer.tokens, answer.cost)));
    }
    let session = Spent { tokens: tree.session.tokens, cost: tree.session.cost };
    assert_eq!(counted(session), counted(sum(path_sum)), "{title}: what the conversation used");
    for node in tree.nodes() {
        // No model wrote what a person ran, or gave to another agent.
        let wrote = !matches!(node.entry.body, Body::Shell(_));
        let Some(answer) = node.entry.body.assistant().filter(|answer| wrote && !answer.delegated) else {
            continue;
        };
        assert_eq!(answer.cost, price(&answer.tokens), "{title}: {node:#?}");
        let came: usize = node.parts.iter().map(|part| length(&part.kind)).sum();
        let counted = answer.tokens.output + answer.tokens.reasoning;
        let all_counted = !answer.estimated || usize::try_from(counted).unwrap() * 4 >= came;
        let read = answer.tokens.input + answer.tokens.cache.read + answer.tokens.cache.write > 0;
        assert!(came == 0 || read && counted > 0 && all_counted, "{title}: {came} came: {node:#?}");
    }
}

/// How many bytes of a part the model wrote.
fn length(kind: &PartKind) -> usize {
    match kind {
        PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } => text.len(),
        PartKind::Tool { state, .. } if state.input().as_object().is_some_and(|input| !input.is_empty()) => {
            state.input().to_string().len()
        }
        _ => 0,
    }
}

/// The bill has what the sessions say, and no more.
pub(super) async fn check_bill(engine: &Engine, sessions: &[Session], title: &str) {
    let all = sum(sessions.iter().map(|session| (session.spent.tokens, session.spent.cost)));
    for group in [SpendingGroup::Day, SpendingGroup::Model, SpendingGroup::Project] {
        let report = engine.spending().report(group, None).await.unwrap();
        assert_eq!(counted(report.total.spent), counted(all), "{title}: the bill by {group:?}");
        let rows = sum(report.rows.iter().map(|row| (row.spent.tokens, row.spent.cost)));
        assert_eq!(counted(rows), counted(all), "{title}: the rows by {group:?}");
    }
}

/// What the model was told to say.
fn script(prompt: &str) -> Option<&str> {
    prompt.rsplit_once("SAY:")?.1.lines().next()
}

/// The words of answers.
pub(super) fn check_words(tree: &Tree, title: &str) {
    let mut scripts: Vec<String> = Vec::new();
    for node in path::to(tree, tree.session.leaf.as_ref()) {
        for part in &node.parts {
            let (text, wanted) = match (&node.entry.body, &part.kind) {
                (Body::User(_), PartKind::Text { text, .. }) => {
                    scripts.extend(script(text).map(str::to_owned));
                    continue;
                }
                (Body::Assistant(_), PartKind::Text { text, .. }) => (text, &scripts[..]),
                (Body::Assistant(_), PartKind::Reasoning { text, .. }) => (text, &[THOUGHT.to_owned()][..]),
                _ => continue,
            };
            let whole = node.entry.body.assistant().is_some_and(|answer| answer.error.is_none());
            // What it is told to go on with is no script.
            let said = text.is_empty()
                || text.starts_with(RECORDED_GREETING)
                || RECORDED_GREETING.starts_with(text.as_str())
                || wanted.iter().any(|wanted| if whole { wanted == text } else { wanted.starts_with(text) });
            assert!(said, "{title}: nobody said {text:?}: {wanted:?}");
        }
    }
}

/// What had been saved of a text when its process was killed.
pub(super) struct SavedText {
    session: SessionId,
    part: PartId,
    text: String,
}

impl SavedText {
    /// All that was saved in these sessions.
    pub(super) async fn of(ground: &Ground, sessions: &[Session]) -> Vec<Self> {
        let store = ground.surroundings().store().await;
        let mut saved = Vec::new();
        for session in sessions {
            let streams = store.streams(&session.id).await.unwrap().into_iter();
            saved.extend(streams.map(|stream| Self {
                session: session.id.clone(),
                part: stream.part,
                text: stream.text,
            }));
        }
        saved
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }
}

/// No text is lost that was saved.
pub(super) fn check_saved(saved: &[SavedText], logs: &[(SessionId, Vec<Record>)], title: &str) {
    for SavedText { session, part, text } in saved {
        let Some((_, log)) = logs.iter().find(|(id, _)| id == session) else { continue };
        let kept = log.iter().any(|record| match &record.event {
            Event::PartEnded { part: ended, text: kept, .. } => ended == part && kept.starts_with(text),
            _ => false,
        });
        assert!(kept, "{title}: {text:?} was saved, and is gone");
    }
}

/// What was changed is there, and its answer names it.
pub(super) fn check_files(ground: &Ground, log: &[Record], title: &str) {
    let mut calls = BTreeMap::new();
    let mut named: BTreeMap<&EntryId, Vec<String>> = BTreeMap::new();
    for record in log {
        match &record.event {
            Event::ToolCalled { part, input, .. } => {
                let changed = [("echo more >> made.txt", "made.txt", "more")];
                let edited =
                    input["filePath"].as_str().zip(input["newString"].as_str().or(input["content"].as_str()));
                let ran = changed
                    .iter()
                    .find(|(command, ..)| input["command"].as_str().is_some_and(|all| all.contains(command)));
                calls.extend(edited.or(ran.map(|(_, file, text)| (*file, *text))).map(|made| (part, made)));
            }
            Event::StepEnded { entry, files: Some(files), .. } => {
                named.insert(entry, files.clone());
            }
            Event::StepFailed { entry, remains, .. } => {
                named.insert(entry, remains.files.clone().unwrap_or_default());
            }
            _ => {}
        }
    }
    for record in log {
        let Event::ToolSettled { entry, assistant: Some(answer), part: Some(part) } = &record.event else {
            continue;
        };
        let Body::ToolResult { result } = &entry.body else { continue };
        let Some((file, text)) = calls.get(part).filter(|_| result.outcome == Outcome::Completed) else {
            continue;
        };
        let name = ground.repo.join(file).display().to_string();
        let names = named.get(answer).cloned().unwrap_or_default();
        assert!(names.contains(&name), "{title}: {name} is not named: {names:?}");
        // That story takes it back.
        if ground.story != Story::Undo {
            let there = std::fs::read_to_string(&name).unwrap_or_default();
            assert!(there.contains(text), "{title}: {name} is {there:?}");
        }
    }
}
