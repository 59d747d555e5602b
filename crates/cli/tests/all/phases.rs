//! What OpenCode 1.18.33 said on `/event` while one session was driven through 26 phases, against what we say.
//!
//! The same requests are made phase by phase, and the events are compared in order: types, order, fields. What has
//! to differ between two runs (ids, times, folders, token counts of the prompt, versions) gets a name on both sides;
//! repetitions that carry nothing new are dropped on both sides. Everything else that differs has to be in
//! [`DIFFERENCES`] with its reason, and what is in there has to differ.

mod compare;
mod normalise;
mod script;

use everturn_testkit::{ModelServer, fixtures};
use serde_json::Value;

use crate::stage::{self, Stage};
use compare::{Difference, differences};
use normalise::{Normaliser, Skipped};
use script::Script;

/// The phases, named as their files.
const PHASES: [&str; 26] = [
    "01-create",
    "02-text",
    "03-reasoning",
    "04-bash",
    "05-bash-fails",
    "06-write",
    "07-edit-error",
    "08-todo",
    "09-revert",
    "10-unrevert",
    "11-revert-then-prompt",
    "12-fork",
    "13-permission-once",
    "14-permission-reject",
    "15-abort",
    "16-prompt-while-busy",
    "17-task",
    "18-shell",
    "19-provider-error",
    "20-rename",
    "21-summarize",
    "22-prompt-after-compaction",
    "23-part-delete",
    "24-message-delete",
    "25-archive",
    "26-delete",
];

/// Phases that need what we do not have yet, and what that is. What they leave behind is taken out of the later ones.
const NOT_YET: &[(&str, &str)] = &[];

/// What differs, and why it may: phase, event and field, reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "05-bash-fails",
        "message.part.updated(tool running) is extra",
        "running is told before there is output, as in 04; here the original's two updates fell together",
    ),
    (
        "06-write",
        "message.updated(user) has moved",
        "the original computes the summary in the background; ours follows session.diff at once",
    ),
    (
        "07-edit-error",
        "message.part.updated(tool error) part.state.error",
        "told to the model in our own words",
    ),
    (
        "08-todo",
        "todo.updated has moved",
        "the original tells of the list before it tells that the call runs; ours after it",
    ),
    ("15-abort", "message.updated(assistant) info.tokens", USED),
    ("16-prompt-while-busy", "session.updated info.tokens", USED),
    ("16-prompt-while-busy", "session.updated is extra", USED),
    (
        "16-prompt-while-busy",
        "message.updated(user) has moved",
        "the original summarises the second prompt when all is over; ours when its turn begins",
    ),
    (
        "17-task",
        "message.part.updated(tool running) is extra",
        "running is told before the child is there, as in 05",
    ),
    (
        "17-task",
        "message.part.updated(tool running) part.state.title",
        "the title is the description in the input, and comes with the end",
    ),
    ("17-task", "session.updated info.tokens", USED),
    ("17-task", "session.created info.permission", RULES_OF_A_CHILD),
    ("17-task", "session.updated info.permission", RULES_OF_A_CHILD),
    (
        "17-task",
        "session.updated has moved",
        "the child sums up before its parent goes on; the original afterwards",
    ),
    ("19-provider-error", "session.error error.data.responseHeaders", OTHER_MODEL_SERVER),
    ("19-provider-error", "message.updated(assistant) info.error.data.responseHeaders", OTHER_MODEL_SERVER),
    ("20-rename", "session.updated info.tokens", USED),
    ("21-summarize", "message.part.delta delta", OTHER_SUMMARY),
    ("21-summarize", "message.part.updated(text) part.text", OTHER_SUMMARY),
    ("21-summarize", "session.updated info.tokens", USED),
    ("22-prompt-after-compaction", "session.updated info.tokens", USED),
    ("25-archive", "session.updated info.tokens", USED),
    ("26-delete", "session.deleted info.tokens", USED),
    ("26-delete", "session.deleted info.permission", RULES_OF_A_CHILD),
];

const USED: &str = "what an answer used that was stopped is counted; the original forgets it";

const RULES_OF_A_CHILD: &str =
    "a child's own rules are all that the one it works for may do, so that no configured one gives it more";

/// The same for the original itself, driven again.
const DIFFERENCES_OF_ORIGINAL: &[(&str, &str, &str)] = &[
    ("19-provider-error", "session.error error.data.responseHeaders", OTHER_MODEL_SERVER),
    ("19-provider-error", "message.updated(assistant) info.error.data.responseHeaders", OTHER_MODEL_SERVER),
    ("21-summarize", "message.part.delta delta", OTHER_SUMMARY),
    ("21-summarize", "message.part.updated(text) part.text", OTHER_SUMMARY),
];

/// What differs between two runs of the original by its timing, and so may differ or not.
const TIMING_OF_ORIGINAL: &[(&str, &str, &str)] = &[(
    "06-write",
    "message.updated(user) has moved",
    "the summary is computed in the background; on a busy machine that of the first step comes before the second",
)];

const OTHER_MODEL_SERVER: &str =
    "headers of the scripted model: it is another program today, and the date is another one";

const OTHER_SUMMARY: &str = "words of the scripted model: of a conversation to be summed up it repeats the last line today, not the first";

fn recorded(phase: &str) -> Vec<Value> {
    fixtures::json_lines(format!("opencode/v1-events/{phase}.jsonl"))
}

/// The recorded side, phase by phase, without `not_yet`.
fn recording(not_yet: &[(&str, &str)]) -> Vec<(&'static str, Vec<Value>)> {
    let mut normaliser = Normaliser::recorded();
    let mut skipped = Skipped::default();
    let mut kept = Vec::new();
    for phase in PHASES {
        if not_yet.iter().any(|(name, _)| *name == phase) {
            skipped.learn(&recorded(phase));
        } else {
            let events = skipped.remove(recorded(phase));
            check_deltas(phase, &events);
            kept.push((phase, normaliser.phase(phase, events)));
        }
    }
    kept
}

/// What was streamed is what the part holds in the end.
fn check_deltas(phase: &str, events: &[Value]) {
    let properties = |kind: &'static str| {
        events.iter().filter(move |event| event["type"] == kind).map(|event| &event["properties"])
    };
    for part in properties("message.part.updated").map(|properties| &properties["part"]) {
        let mine = |delta: &&Value| delta["partID"] == part["id"];
        let deltas: Vec<&str> = properties("message.part.delta")
            .filter(mine)
            .filter_map(|delta| delta["delta"].as_str())
            .collect();
        if part.pointer("/time/end").is_some() && !deltas.is_empty() {
            assert_eq!(part["text"], deltas.concat().as_str(), "{phase}: the deltas of {part}");
        }
    }
}

#[tokio::test]
async fn the_same_events_in_the_same_order() {
    let original = stage::original();
    let (not_yet, known, timing) = match &original {
        Some(_) => (&[][..], DIFFERENCES_OF_ORIGINAL, TIMING_OF_ORIGINAL),
        None => (NOT_YET, DIFFERENCES, &[][..]),
    };
    let recording = recording(not_yet);
    let stage = Stage::with(&stage::binary(), ModelServer::recorded()).await;
    let mut normaliser = Normaliser::live(stage.repo.dir());
    let mut script = Script::new(&stage, original.is_some()).await;
    let mut found = Vec::new();
    for (phase, expected) in &recording {
        let events = script.play(phase).await;
        check_deltas(phase, &events);
        let events = normaliser.phase(phase, events);
        found.extend(differences(phase, expected, &events));
    }
    check(&found, known, timing);
}

/// All that differs is known, and all that is known differs, but for what depends on timing.
fn check(found: &[Difference], known: &[(&str, &str, &str)], timing: &[(&str, &str, &str)]) {
    let covers = |(phase, what, _): &(&str, &str, &str), difference: &Difference| {
        *phase == difference.phase && difference.what.starts_with(what)
    };
    let surprises: Vec<String> = found
        .iter()
        .filter(|difference| !known.iter().chain(timing).any(|entry| covers(entry, difference)))
        .map(|Difference { phase, what, values }| format!("{phase}: {what}: {values}"))
        .collect();
    let stale: Vec<String> = known
        .iter()
        .filter(|entry| !found.iter().any(|difference| covers(entry, difference)))
        .map(|(phase, what, _)| format!("{phase}: {what}: listed, but does not differ any more"))
        .collect();
    let complaints = [surprises, stale].concat();
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn the_recording_agrees_with_itself() {
    for (phase, events) in recording(&[]) {
        assert!(!events.is_empty(), "{phase} is empty");
        assert!(differences(phase, &events, &events).is_empty(), "{phase}");
    }
}

#[test]
fn a_change_in_the_recording_is_noticed() {
    let (_, events) = recording(&[]).swap_remove(5);
    let notice = |change: &dyn Fn(&mut Vec<Value>)| -> Vec<String> {
        let mut changed = events.clone();
        change(&mut changed);
        differences("06-write", &events, &changed).into_iter().map(|difference| difference.what).collect()
    };
    let edited = events.iter().position(|event| event["type"] == "file.edited").unwrap();
    assert_eq!(notice(&|events| drop(events.remove(edited))), ["file.edited is missing"]);
    assert_eq!(notice(&|events| events.push(events[edited].clone())), ["file.edited is extra"]);
    assert_eq!(notice(&|events| events.swap(edited, edited + 1)), ["file.edited has moved"]);
    let tool = |events: &mut Vec<Value>| {
        let part = &mut events[edited + 1]["properties"]["part"];
        part["state"]["output"] = "other".into();
        part["state"]["metadata"].as_object_mut().unwrap().remove("exists");
    };
    let label = "message.part.updated(tool completed)";
    let fields = [format!("{label} part.state.output"), format!("{label} part.state.metadata.exists")];
    assert_eq!(notice(&tool), fields);
}
