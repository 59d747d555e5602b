//! The Context Sources that are built in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_model::entry::Body;
use everturn_model::permission::{Action, Policy};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_tools::instructions::{self, Instruction};
use everturn_tools::{BoxFuture, Observed, skills};
use serde_json::{Value, json};

use super::snapshot::ContextSnapshot;
use super::{ContextKey, ContextProducer, ContextSource, ContextView, NestedInstructions, PathEpoch, epoch};
use crate::agents;
use crate::background::blocking;
use crate::projects::Location;

/// The name of instructions that were found beside a file.
const NESTED: &str = "nested-instructions";

/// The most bytes of nested instructions that a conversation takes in.
const NESTED_MAX: usize = 1024 * 1024;

/// A producer that is built in.
#[derive(Debug)]
struct BuiltinContext {
    name: &'static str,
    look: fn(&ContextView) -> Vec<ContextSource>,
}

impl ContextProducer for BuiltinContext {
    fn key(&self) -> ContextKey {
        ContextKey::core(self.name)
    }

    fn observe(&self, view: Arc<ContextView>) -> BoxFuture<'_, Vec<ContextSource>> {
        Box::pin(async move {
            let look = self.look;
            let found = blocking(move || look(&view)).await;
            found.unwrap_or_else(|error| vec![ContextSource::unavailable(self.key(), error.to_string())])
        })
    }
}

/// All of them.
pub(super) fn producers() -> Vec<Arc<dyn ContextProducer>> {
    let producer = |name, look| Arc::new(BuiltinContext { name, look }) as Arc<dyn ContextProducer>;
    vec![
        producer("environment", |view| vec![environment(&view.location)]),
        producer("date", |view| vec![date(view.now)]),
        producer("instructions", |view| vec![ambient(instructions::observe(&view.places))]),
        producer(NESTED, all_nested),
        producer("plan", |view| vec![plan(view)]),
        producer("skill-guidance", |view| vec![guidance(skills::observe(&view.places), &view.policy)]),
    ]
}

fn all_nested(view: &ContextView) -> Vec<ContextSource> {
    let mut room = NESTED_MAX;
    let mut sources = Vec::new();
    for NestedInstructions { path, known } in &view.nested {
        let mut found = instructions::nested(&view.places, path);
        if let Observed::Present(text) = &found {
            match room.checked_sub(text.text.len()) {
                Some(left) => room = left,
                None if *known => {
                    found = Observed::Unavailable { why: format!("{} has grown too long", path.display()) };
                }
                None => continue,
            }
        }
        sources.push(nested(path, found));
    }
    sources
}

/// The planning agent's file, and that the planning is over.
fn plan(view: &ContextView) -> ContextSource {
    let file = &view.plan;
    let planning = view.agent == agents::PLANNING;
    let value = planning.then(|| Value::from(file.display().to_string()));
    let note = agents::plan_note(file);
    let mut removal =
        "The planning is over: other files may be changed again, as the rules allow.".to_owned();
    if !planning && file.is_file() {
        removal.push_str(&format!(
            " The plan is in {}; go by it unless you are told otherwise.",
            file.display()
        ));
    }
    ContextSource {
        key: ContextKey::core("plan"),
        value: value.map_or(Observed::Absent, Observed::Present),
        baseline: note.clone(),
        update: note,
        removal: Some(removal),
    }
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
        key: ContextKey::core("environment"),
        value: Observed::Present(json!({"directory": directory, "worktree": worktree, "git": git})),
        baseline: text.clone(),
        update: format!("This is the environment now:\n{text}"),
        removal: None,
    }
}

fn date(now: i64) -> ContextSource {
    let date = jiff::Timestamp::from_millisecond(now)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string())
        .unwrap_or_default();
    ContextSource {
        key: ContextKey::core("date"),
        value: Observed::Present(date.clone().into()),
        baseline: format!("Today is {date}."),
        update: format!("Today is {date}."),
        removal: None,
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
        key: ContextKey::core("instructions"),
        value: found.map(values),
        update: format!(
            "The instructions have changed. These apply now, in place of those given before.\n\n{text}"
        ),
        baseline: text,
        removal: Some("The instructions given before no longer apply: their files are gone.".to_owned()),
    }
}

fn nested(path: &Path, found: Observed<Instruction>) -> ContextSource {
    let name = path.display();
    let folder = path.parent().unwrap_or(path).display();
    let text = if let Observed::Present(found) = &found { found.text.as_str() } else { "" };
    ContextSource {
        key: ContextKey::core(NESTED).of_one(&name.to_string()),
        baseline: format!("Instructions from {name}, for what is in {folder}:\n{text}"),
        update: format!(
            "The instructions from {name} have changed. For what is in {folder} these apply now:\n{text}"
        ),
        removal: Some(format!("The instructions from {name} no longer apply: the file is gone.")),
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
        key: ContextKey::core("skill-guidance"),
        value: found.map(|list| {
            list.iter().map(|(name, about)| json!({"name": name, "description": about})).collect()
        }),
        baseline: format!(
            "Skills are guides for particular work. When one of these fits what is to be done, load it with the \
             `skill` tool before you begin:{list}"
        ),
        update: format!("The available skills have changed. These are all of them now:{list}"),
        removal: Some("No skills are available any more.".to_owned()),
    }
}

/// Files of instructions that the conversation knows, or has to be told of because a file beside them was read.
pub(crate) fn found_beside(epoch: PathEpoch<'_>, path: &[&Node]) -> Vec<NestedInstructions> {
    let snapshot = epoch.told().and_then(ContextSnapshot::read).unwrap_or_default();
    let prefix = ContextKey::core(NESTED);
    let known = snapshot.0.keys().filter_map(|key| key.strip_prefix(prefix.as_str())).map(PathBuf::from);
    let known: BTreeSet<PathBuf> = known.collect();
    let results = epoch::newest(path).iter().filter_map(|node| match &node.entry.body {
        Body::ToolResult { result } if !node.entry.hidden => Some(result.as_ref()),
        _ => None,
    });
    let results = results.filter(|_| epoch != PathEpoch::Missing);
    let new: BTreeSet<PathBuf> = results.flat_map(loaded).filter(|path| !known.contains(path)).collect();
    let nested = |known| move |path| NestedInstructions { path, known };
    known.into_iter().map(nested(true)).chain(new.into_iter().map(nested(false))).collect()
}

fn loaded(result: &ToolResult) -> Vec<PathBuf> {
    let read = result.tool == "read" && result.outcome == Outcome::Completed;
    let list =
        result.metadata.as_ref().filter(|_| read).and_then(|metadata| metadata.get("loaded")?.as_array());
    list.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
}
