//! The System Context: what the model is told before the conversation begins, and what it is told when that changes.
//!
//! It is made of Context Sources, each with a key, the value that is observed now, and the words for it. At the
//! beginning of an epoch all of them together are the baseline, which is stored word for word in an `epoch` entry and
//! used unchanged until a compaction or a move begins a new epoch, so that a provider's cache of it holds across
//! restarts. Before each later turn the values are compared with those that were last admitted (the Context Snapshot,
//! kept with the epoch and with each `system` entry since), and what differs becomes one `system` entry.
//!
//! A source that cannot be observed keeps the first turn from beginning, and changes nothing about a later one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everturn_model::entry::Body;
use everturn_model::permission::{Action, Policy};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_tools::instructions::{self, Instruction};
use everturn_tools::skills;
use everturn_tools::{Observed, Places};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::projects::Location;

/// The prefix of the keys of instructions that were found beside a file.
const NESTED: &str = "core/nested-instructions";

/// The most bytes of nested instructions that a conversation takes in.
const NESTED_MAX: usize = 1024 * 1024;

/// One value of the System Context, and the words for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContextSource {
    /// Its name in the snapshot.
    pub(crate) key: String,
    /// What it is now.
    pub(crate) value: Observed<Value>,
    /// How it is said at first.
    pub(crate) baseline: String,
    /// How it is said when it has changed.
    pub(crate) update: String,
    /// How it is said that it is gone.
    pub(crate) removal: String,
}

/// A text for the model and the Context Snapshot after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdmittedContext {
    /// The text, word for word.
    pub(crate) text: String,
    /// One value for each Context Source that the model knows of.
    pub(crate) snapshot: Value,
}

/// What is looked at.
#[derive(Debug, Clone)]
pub(crate) struct ContextView {
    /// Where the session works.
    pub(crate) location: Location,
    /// Where instructions and skills are.
    pub(crate) places: Places,
    /// What the agent may do.
    pub(crate) policy: Policy,
    /// Files of instructions that were found beside files that were read.
    pub(crate) nested: Vec<PathBuf>,
    /// The time.
    pub(crate) now: i64,
}

/// Looks at every source, in the order in which the model is told of them.
pub(crate) fn observe(view: &ContextView) -> Vec<ContextSource> {
    let mut sources = vec![
        environment(&view.location),
        date(view.now),
        ambient(instructions::observe(&view.places)),
        guidance(skills::observe(&view.places), &view.policy),
    ];
    let mut room = NESTED_MAX;
    for path in &view.nested {
        let found = instructions::nested(&view.places, path);
        if let Observed::Present(found) = &found {
            match room.checked_sub(found.text.len()) {
                Some(left) => room = left,
                None => continue,
            }
        }
        sources.push(nested(path, found));
    }
    sources
}

fn environment(location: &Location) -> ContextSource {
    let directory = location.directory.display().to_string();
    let worktree = location.worktree.display().to_string();
    let git = location.project.vcs.is_some();
    let text = format!(
        "Working directory: {directory}\nProject root: {worktree}\nGit repository: {}\nPlatform: {}",
        if git { "yes" } else { "no" },
        std::env::consts::OS
    );
    ContextSource {
        key: "core/environment".to_owned(),
        value: Observed::Present(json!({"directory": directory, "worktree": worktree, "git": git})),
        baseline: text.clone(),
        update: format!("This is the environment now:\n{text}"),
        removal: String::new(),
    }
}

fn date(now: i64) -> ContextSource {
    let date = jiff::Timestamp::from_millisecond(now)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string())
        .unwrap_or_default();
    ContextSource {
        key: "core/date".to_owned(),
        value: Observed::Present(date.clone().into()),
        baseline: format!("Today is {date}."),
        update: format!("Today is {date}."),
        removal: String::new(),
    }
}

fn ambient(found: Observed<Vec<Instruction>>) -> ContextSource {
    let texts = |found: &Vec<Instruction>| {
        let texts =
            found.iter().map(|file| format!("Instructions from {}:\n{}", file.path.display(), file.text));
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let text = if let Observed::Present(found) = &found { texts(found) } else { String::new() };
    let values = |found: Vec<Instruction>| found.iter().map(value).collect();
    ContextSource {
        key: "core/instructions".to_owned(),
        value: found.map(values),
        update: format!(
            "The instructions have changed. These apply now, in place of those given before.\n\n{text}"
        ),
        baseline: text,
        removal: "The instructions given before no longer apply: their files are gone.".to_owned(),
    }
}

fn nested(path: &Path, found: Observed<Instruction>) -> ContextSource {
    let name = path.display();
    let folder = path.parent().unwrap_or(path).display();
    let text = if let Observed::Present(found) = &found { found.text.as_str() } else { "" };
    ContextSource {
        key: format!("{NESTED}{name}"),
        baseline: format!("Instructions from {name}, for what is in {folder}:\n{text}"),
        update: format!(
            "The instructions from {name} have changed. For what is in {folder} these apply now:\n{text}"
        ),
        removal: format!("The instructions from {name} no longer apply: the file is gone."),
        value: found.map(|found| value(&found)),
    }
}

fn value(instruction: &Instruction) -> Value {
    json!({"path": instruction.path.display().to_string(), "text": instruction.text})
}

/// The skills that the agent may load; only their names and what they are for.
fn guidance(found: Observed<skills::Skills>, policy: &Policy) -> ContextSource {
    let allowed = |name: &str| policy.decide(&[], "skill", &[name.to_owned()]) != Action::Deny;
    let found = found.map(|found| {
        let skills = found.skills.into_iter();
        let loadable = skills.filter(|skill| !skill.description.is_empty() && allowed(&skill.name));
        loadable.map(|skill| (skill.name, skill.description)).collect::<Vec<_>>()
    });
    let found = match found {
        Observed::Present(list) if list.is_empty() => Observed::Absent,
        _ if policy.hides("skill") => Observed::Absent,
        other => other,
    };
    let list = if let Observed::Present(list) = &found {
        list.iter().map(|(name, about)| format!("\n- {name}: {about}")).collect()
    } else {
        String::new()
    };
    ContextSource {
        key: "core/skill-guidance".to_owned(),
        value: found.map(|list| {
            list.iter().map(|(name, about)| json!({"name": name, "description": about})).collect()
        }),
        baseline: format!(
            "Skills are guides for particular work. When one of these fits what is to be done, load it with the \
             `skill` tool before you begin:{list}"
        ),
        update: format!("The available skills have changed. These are all of them now:{list}"),
        removal: "No skills are available any more.".to_owned(),
    }
}

/// The baseline of a new epoch.
///
/// # Errors
/// When a source is unavailable: a conversation must not begin without something that the person wants it to know.
pub(crate) fn initialize(sources: &[ContextSource]) -> Result<AdmittedContext, Error> {
    let mut texts = Vec::new();
    let mut snapshot = Map::new();
    for source in sources {
        match &source.value {
            Observed::Present(value) => {
                texts.push(source.baseline.as_str());
                snapshot.insert(source.key.clone(), value.clone());
            }
            Observed::Absent => {}
            Observed::Unavailable { why } => return Err(Error::Unavailable(why.clone())),
        }
    }
    Ok(AdmittedContext { text: texts.join("\n\n"), snapshot: snapshot.into() })
}

/// What the model has to be told, given what it was told last. None when nothing has changed.
pub(crate) fn reconcile(previous: &Value, sources: &[ContextSource]) -> Option<AdmittedContext> {
    let mut snapshot = previous.as_object().cloned().unwrap_or_default();
    let mut texts = Vec::new();
    for source in sources {
        // An empty list was how nothing was kept before.
        let before =
            snapshot.get(&source.key).filter(|value| value.as_array().is_none_or(|list| !list.is_empty()));
        let text = match (&source.value, before) {
            (Observed::Unavailable { .. }, _) | (Observed::Absent, None) => continue,
            (Observed::Present(now), Some(before)) if now == before => continue,
            (Observed::Present(_), Some(_)) => &source.update,
            (Observed::Present(_), None) => &source.baseline,
            (Observed::Absent, Some(_)) => &source.removal,
        };
        texts.push(text.as_str());
        match &source.value {
            Observed::Present(now) => drop(snapshot.insert(source.key.clone(), now.clone())),
            _ => drop(snapshot.remove(&source.key)),
        }
    }
    (!texts.is_empty()).then(|| AdmittedContext { text: texts.join("\n\n"), snapshot: snapshot.into() })
}

/// The part of a path that belongs to its newest epoch.
fn epoch<'a, 'n>(path: &'a [&'n Node]) -> &'a [&'n Node] {
    let begin = path.iter().rposition(|node| matches!(node.entry.body, Body::Epoch { .. }));
    begin.and_then(|begin| path.get(begin..)).unwrap_or_default()
}

/// What the model was told last in the newest epoch of a path.
pub(crate) fn admitted<'n>(path: &[&'n Node]) -> Option<&'n Value> {
    epoch(path).iter().rev().find_map(|node| match &node.entry.body {
        Body::Epoch { snapshot, .. } | Body::System { snapshot: Some(snapshot), .. } => Some(snapshot),
        _ => None,
    })
}

/// Files of instructions that this epoch of the conversation knows, or has to be told of because a file beside them was
/// read.
pub(crate) fn found_beside(path: &[&Node]) -> BTreeSet<PathBuf> {
    let snapshot = admitted(path).and_then(Value::as_object);
    let keys = snapshot.into_iter().flat_map(Map::keys);
    let known = keys.filter_map(|key| key.strip_prefix(NESTED)).map(PathBuf::from);
    let results = epoch(path).iter().filter_map(|node| match &node.entry.body {
        Body::ToolResult { result } if !node.entry.hidden => Some(result.as_ref()),
        _ => None,
    });
    known.chain(results.flat_map(loaded)).collect()
}

fn loaded(result: &ToolResult) -> Vec<PathBuf> {
    let read = result.tool == "read" && result.outcome == Outcome::Completed;
    let list =
        result.metadata.as_ref().filter(|_| read).and_then(|metadata| metadata.get("loaded")?.as_array());
    list.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(key: &str, value: Observed<Value>) -> ContextSource {
        let say = |word: &str| format!("{key} {word}");
        ContextSource {
            key: key.to_owned(),
            value,
            baseline: say("is"),
            update: say("changed"),
            removal: say("went"),
        }
    }

    fn there(value: u32) -> Observed<Value> {
        Observed::Present(value.into())
    }

    fn unknown() -> Observed<Value> {
        Observed::Unavailable { why: "a reason".to_owned() }
    }

    #[test]
    fn an_epoch_begins_with_everything_or_not_at_all() {
        let sources = [source("a", there(1)), source("b", Observed::Absent), source("c", there(2))];
        let expected = AdmittedContext { text: "a is\n\nc is".to_owned(), snapshot: json!({"a": 1, "c": 2}) };
        assert_eq!(initialize(&sources).unwrap(), expected);
        let error = initialize(&[source("a", there(1)), source("b", unknown())]).unwrap_err();
        assert!(error.to_string().ends_with("a reason"), "{error}");
    }

    #[test]
    fn only_what_differs_is_said() {
        let check = |previous: Value, value: Observed<Value>, expected: Option<(&str, Value)>| {
            let found = reconcile(&previous, &[source("a", value.clone())]);
            let expected =
                expected.map(|(text, snapshot)| AdmittedContext { text: text.to_owned(), snapshot });
            assert_eq!(found, expected, "{previous} {value:?}");
        };
        check(json!({"a": 1, "x": 3}), there(1), None);
        check(json!({"a": 1, "x": 3}), there(2), Some(("a changed", json!({"a": 2, "x": 3}))));
        check(json!({"x": 3}), there(2), Some(("a is", json!({"a": 2, "x": 3}))));
        check(json!({"a": 1}), Observed::Absent, Some(("a went", json!({}))));
        check(json!({}), Observed::Absent, None);
        // Instructions that nobody had were once kept as an empty list.
        check(json!({"a": []}), Observed::Absent, None);
        check(json!({"a": []}), there(1), Some(("a is", json!({"a": 1}))));
        // What cannot be seen has not changed.
        check(json!({"a": 1}), unknown(), None);
        check(json!({}), unknown(), None);
        // A snapshot that nobody understands is as good as none.
        check(json!("?"), there(1), Some(("a is", json!({"a": 1}))));
    }

    #[test]
    fn changes_of_one_moment_are_one_text() {
        let sources = [source("a", there(2)), source("b", there(2)), source("c", Observed::Absent)];
        let found = reconcile(&json!({"a": 1, "b": 2, "c": 3}), &sources).unwrap();
        assert_eq!(
            found,
            AdmittedContext { text: "a changed\n\nc went".to_owned(), snapshot: json!({"a": 2, "b": 2}) }
        );
    }
}
