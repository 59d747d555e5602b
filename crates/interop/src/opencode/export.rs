//! The file that `opencode export` prints: one session with its messages.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::inbox::InboxItem;
use everturn_model::tree::Node;
use everturn_model::{Map, Session};
use serde_json::Value;

use super::shape::{object, put};
use super::v1::{self, V1Message, session};
use super::{ImportProblem, Imported};

/// Fields of the file that have no word here, kept beside the session.
const BESIDE: &str = "export";

/// Reads an export.
///
/// # Errors
/// When the bytes are no JSON, or hold no session.
pub fn read(bytes: &[u8]) -> Result<Imported, ImportProblem> {
    let value =
        serde_json::from_slice(bytes).map_err(|error| ImportProblem::new("export", error.to_string()))?;
    read_value(value)
}

/// Reads an export that is already JSON.
///
/// # Errors
/// When it holds no session.
pub fn read_value(value: Value) -> Result<Imported, ImportProblem> {
    let Value::Object(mut map) = value else { return Err(ImportProblem::new("export", "is no object")) };
    let Some(Value::Object(info)) = map.remove("info") else {
        return Err(ImportProblem::new("export.info", "is no session"));
    };
    let Some(mut session) = v1::read_session(info) else {
        return Err(ImportProblem::new("export.info", "has no id"));
    };
    let messages = match map.remove("messages") {
        Some(Value::Array(list)) => list.into_iter().map(message).collect::<Result<_, _>>()?,
        None => Vec::new(),
        Some(_) => return Err(ImportProblem::new("export.messages", "is no list")),
    };
    let mut mint = DerivedIds::new(session.id.as_str());
    let seed = v1::read_messages(&session.id, messages, &mut mint);
    session::adopt(&mut session, &seed);
    if !map.is_empty() {
        session::keep_beside(&mut session.extra, BESIDE, map.into());
    }
    Ok(Imported { project: None, session, seed })
}

fn message(value: Value) -> Result<V1Message, ImportProblem> {
    serde_json::from_value(value).map_err(|error| ImportProblem::new("export.messages", error.to_string()))
}

/// The export of a session: the messages of a path, and the prompts that wait.
#[must_use]
pub fn write<'a>(
    session: &'a Session,
    path: &[&'a Node],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> Value {
    let messages = v1::messages(&session.id, path, inbox);
    let messages = messages
        .into_iter()
        .map(|message| Value::from(object([("info", message.info), ("parts", message.parts.into())])));
    let mut map = Map::new();
    put(&mut map, "info", v1::session_info(session));
    put(&mut map, "messages", messages.collect::<Value>());
    if let Some(Value::Object(rest)) = session::beside(&session.extra, BESIDE) {
        map.extend(rest);
    }
    map.into()
}
