//! The JSON file tree of OpenCode 1.1: one file for each project, session, message and part.
//!
//! Files are named by their path under `storage/`. An import goes one session at a time ([`read_one`]); [`read`] sorts
//! a whole tree. A file that cannot be read is named as a problem and left out; nothing else is lost by it.

use std::collections::BTreeMap;

use everturn_model::derived_ids::DerivedIds;
use everturn_model::todo::Todo;
use everturn_model::{Map, Tree, path};
use serde_json::Value;

use super::shape::text;
use super::v1::{self, IdPlacement, ReadMessage, info, session, view};
use super::{ImportProblem, Imported};

/// Files by their path under `storage/`, as bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFiles {
    /// `session/{project}/{session}.json`: its path and bytes.
    pub session: (String, Vec<u8>),
    /// `message/{session}/{message}.json`: the message's id and its bytes.
    pub messages: Vec<(String, Vec<u8>)>,
    /// `part/{message}/{part}.json`: the message's id, the part's and the bytes, in order.
    pub parts: Vec<(String, String, Vec<u8>)>,
    /// `todo/{session}.json`.
    pub todo: Option<Vec<u8>>,
    /// `session_diff/{session}.json`.
    pub diff: Option<Vec<u8>>,
    /// `share/{session}.json`.
    pub share: Option<Vec<u8>>,
}

/// The names of what is kept beside a session.
const DIFF: &str = "session_diff";
const SHARE: &str = "share";

/// Reads a whole tree.
#[must_use]
pub fn read(files: Files) -> (Vec<Imported>, Vec<ImportProblem>) {
    let mut sorted = SortedFiles::default();
    for (path, bytes) in files {
        sorted.sort(path, bytes);
    }
    let mut problems = std::mem::take(&mut sorted.problems);
    let mut list = Vec::new();
    for (id, file) in std::mem::take(&mut sorted.sessions) {
        let project = project_of(&file.0).and_then(|project| sorted.projects.get(project)).cloned();
        let files = sorted.session(&id, file);
        match read_one(files, project) {
            Ok((imported, mut found)) => {
                list.push(imported);
                problems.append(&mut found);
            }
            Err(problem) => problems.push(problem),
        }
    }
    sorted.orphans(&mut problems);
    (list, problems)
}

fn project_of(path: &str) -> Option<&str> {
    path.split('/').nth(1)
}

#[derive(Default)]
struct SortedFiles {
    projects: BTreeMap<String, Value>,
    sessions: BTreeMap<String, (String, Vec<u8>)>,
    messages: BTreeMap<String, Vec<(String, Vec<u8>)>>,
    parts: BTreeMap<String, Vec<(String, Vec<u8>)>>,
    beside: BTreeMap<(String, String), Vec<u8>>,
    problems: Vec<ImportProblem>,
}

impl SortedFiles {
    fn sort(&mut self, path: String, bytes: Vec<u8>) {
        if path == "migration" {
            return;
        }
        let words: Vec<&str> = path.strip_suffix(".json").unwrap_or_default().split('/').collect();
        match words.as_slice() {
            ["project", id] => match json(&path, &bytes) {
                Ok(value) => drop(self.projects.insert((*id).to_owned(), value)),
                Err(problem) => self.problems.push(problem),
            },
            ["session", _, id] => drop(self.sessions.insert((*id).to_owned(), (path, bytes))),
            ["message", session, id] => {
                self.messages.entry((*session).to_owned()).or_default().push(((*id).to_owned(), bytes));
            }
            ["part", message, id] => {
                self.parts.entry((*message).to_owned()).or_default().push(((*id).to_owned(), bytes));
            }
            [kind @ ("todo" | "session_diff" | "share"), session] => {
                drop(self.beside.insert(((*kind).to_owned(), (*session).to_owned()), bytes));
            }
            _ => self.problems.push(ImportProblem::new(path, "is no file of a session")),
        }
    }

    fn session(&mut self, id: &str, session: (String, Vec<u8>)) -> SessionFiles {
        let messages = self.messages.remove(id).unwrap_or_default();
        let mut parts = Vec::new();
        for (message, _) in &messages {
            let own = self.parts.remove(message).unwrap_or_default();
            parts.extend(own.into_iter().map(|(part, bytes)| (message.clone(), part, bytes)));
        }
        let mut beside = |kind: &str| self.beside.remove(&(kind.to_owned(), id.to_owned()));
        let (todo, diff, share) = (beside("todo"), beside("session_diff"), beside("share"));
        SessionFiles { session, messages, parts, todo, diff, share }
    }

    fn orphans(self, problems: &mut Vec<ImportProblem>) {
        let what = "belongs to a session that is not there";
        for (session, list) in &self.messages {
            let paths = list.iter().map(|(id, _)| format!("message/{session}/{id}.json"));
            problems.extend(paths.map(|path| ImportProblem::new(path, what)));
        }
        for (kind, session) in self.beside.keys() {
            problems.push(ImportProblem::new(format!("{kind}/{session}.json"), what));
        }
        for (message, list) in &self.parts {
            let paths = list.iter().map(|(id, _)| format!("part/{message}/{id}.json"));
            problems
                .extend(paths.map(|path| ImportProblem::new(path, "belongs to a message that is not there")));
        }
    }
}

/// Reads one session.
///
/// # Errors
/// When the session's own file cannot be read.
pub fn read_one(
    files: SessionFiles,
    project: Option<Value>,
) -> Result<(Imported, Vec<ImportProblem>), ImportProblem> {
    let (path, bytes) = files.session;
    let Value::Object(info) = json(&path, &bytes)? else {
        return Err(ImportProblem::new(path, "is no session"));
    };
    let Some(mut row) = v1::read_session(info) else { return Err(ImportProblem::new(path, "has no id")) };
    let id = row.id.clone();
    let mut mint = DerivedIds::new(id.as_str());
    let mut problems = Vec::new();
    let mut parts: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for (message, part, bytes) in files.parts {
        match json(&format!("part/{message}/{part}.json"), &bytes) {
            Ok(value) => parts.entry(message).or_default().push((part, value)),
            Err(problem) => problems.push(problem),
        }
    }
    let mut read = Vec::with_capacity(files.messages.len());
    for (message, bytes) in files.messages {
        match json(&format!("message/{id}/{message}.json"), &bytes) {
            Ok(value) => {
                let head = info::read(value, &id, IdPlacement::Inside);
                let own = parts.remove(&message).unwrap_or_default();
                let own = own.into_iter().map(|(_, part)| part).collect();
                read.push(ReadMessage::new(&id, head, own, IdPlacement::Inside, &mut mint));
            }
            Err(problem) => problems.push(problem),
        }
    }
    for (message, list) in parts {
        let paths = list.into_iter().map(|(part, _)| format!("part/{message}/{part}.json"));
        problems.extend(paths.map(|path| ImportProblem::new(path, "belongs to a message that is not there")));
    }
    let mut seed = v1::assemble(read, &mut mint);
    let mut beside = |kind: &str, bytes: Option<Vec<u8>>| {
        let value = bytes.map(|bytes| json(&format!("{kind}/{id}.json"), &bytes))?;
        value.map_err(|problem| problems.push(problem)).ok()
    };
    let diff = beside("session_diff", files.diff);
    let share = beside("share", files.share);
    let todo = beside("todo", files.todo);
    session::adopt(&mut row, &seed);
    for (name, value) in [(DIFF, diff), (SHARE, share)] {
        if let Some(value) = value {
            session::keep_beside(&mut row.extra, name, value);
        }
    }
    if let Some(list) = todo {
        for (at, value) in list.as_array().into_iter().flatten().enumerate() {
            match read_todo(value) {
                Some(todo) => seed.todos.push(todo),
                None => {
                    problems
                        .push(ImportProblem::new(format!("todo/{id}.json"), format!("item {at} is no task")));
                }
            }
        }
    }
    Ok((Imported { project, session: row, seed }, problems))
}

/// A task, where it has what every task has.
#[must_use]
pub fn read_todo(value: &Value) -> Option<Todo> {
    let map = value.as_object()?;
    let word = |key: &str| text(map, key).map(str::to_owned);
    let known = ["content", "status", "priority"];
    let extra = map.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    Some(Todo {
        content: word("content")?,
        status: word("status")?,
        priority: word("priority")?,
        extra: extra.map(|(key, value)| (key.clone(), value.clone())).collect(),
    })
}

fn json(path: &str, bytes: &[u8]) -> Result<Value, ImportProblem> {
    serde_json::from_slice(bytes).map_err(|error| ImportProblem::new(path, format!("is no JSON: {error}")))
}

/// The files of a session's path, and of its project.
#[must_use]
pub fn write(project: Option<&Value>, tree: &Tree) -> Files {
    let mut files = Files::new();
    let id = &tree.session.id;
    if let Some(project) = project {
        let name = project.get("id").and_then(Value::as_str).unwrap_or(&tree.session.project);
        put(&mut files, format!("project/{name}.json"), project);
    }
    let owner = &tree.session.project;
    put(&mut files, format!("session/{owner}/{id}.json"), &v1::session_info(&tree.session));
    let way = path::to(tree, tree.session.leaf.as_ref());
    for shown in view::shown(&way, &tree.inbox) {
        put(&mut files, format!("message/{id}/{}.json", shown.id), &shown.info(id, IdPlacement::Inside));
        for (part, value) in shown.parts(id, IdPlacement::Inside) {
            put(&mut files, format!("part/{}/{part}.json", shown.id), &value);
        }
    }
    for name in [DIFF, SHARE] {
        if let Some(value) = session::beside(&tree.session.extra, name) {
            put(&mut files, format!("{name}/{id}.json"), &value);
        }
    }
    if !tree.todos.is_empty() {
        let todos: Value = tree.todos.iter().map(todo).collect();
        put(&mut files, format!("todo/{id}.json"), &todos);
    }
    files
}

fn todo(todo: &Todo) -> Value {
    let mut map = Map::new();
    for (key, value) in [("content", &todo.content), ("status", &todo.status), ("priority", &todo.priority)] {
        map.insert(key.to_owned(), value.as_str().into());
    }
    map.extend(todo.extra.clone());
    map.into()
}

fn put(files: &mut Files, path: String, value: &Value) {
    // A value prints without failing: its keys are texts.
    files.insert(path, serde_json::to_vec_pretty(value).unwrap_or_default());
}
