//! Permission requests, questions and their answers.

use everturn_model::SessionId;
use everturn_model::request::{Ask, Reply, Request};
use serde::Deserialize;
use serde_json::{Value, json};

/// Which requests are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Permission requests.
    Permission,
    /// Questions.
    Question,
}

/// A request as clients see it, when it is of this kind.
pub(crate) fn show(session: &SessionId, request: &Request, wanted: Kind) -> Option<Value> {
    let mut value = match (&request.ask, wanted) {
        (Ask::Permission { permission, patterns, always, metadata }, Kind::Permission) => json!({
            "id": request.id,
            "sessionID": session,
            "permission": permission,
            "patterns": patterns,
            "metadata": metadata,
            "always": always,
        }),
        (Ask::Question { questions }, Kind::Question) => {
            json!({"id": request.id, "sessionID": session, "questions": questions})
        }
        _ => return None,
    };
    if let (Some(call), Some(map)) = (&request.call, value.as_object_mut()) {
        map.insert("tool".to_owned(), json!({"messageID": call.entry, "callID": call.call}));
    }
    Some(value)
}

/// An answer to a permission request.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    /// The answer; older clients say `response`.
    #[serde(alias = "response")]
    pub(crate) reply: Reply,
    /// Why, for the model to read.
    pub(crate) message: Option<String>,
}

/// The answers to questions.
#[derive(Debug, Deserialize)]
pub(crate) struct Answers {
    /// For each question the chosen labels, or what the person typed.
    pub(crate) answers: Vec<Vec<String>>,
}
