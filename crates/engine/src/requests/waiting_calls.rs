//! The calls of this process that wait for a person, and what they are answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::request::{Reply, Request};
use everturn_model::{PartId, RequestId};
use serde_json::Value;
use tokio::sync::oneshot;

/// The calls of this process that wait for an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingCalls(Arc<Mutex<HashMap<RequestId, HeldRequest>>>);

/// A call that waits, and for what.
#[derive(Debug)]
struct HeldRequest {
    request: Request,
    answer: oneshot::Sender<RequestAnswer>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestAnswer {
    /// Go on.
    Allowed,
    /// The labels that were chosen for each question.
    Chosen(Vec<Vec<String>>),
    /// Do not; with what the person said.
    Rejected(Option<String>),
    /// The work was interrupted while it waited.
    Interrupted,
}

impl RequestAnswer {
    /// What an answer in the log says.
    pub(crate) fn of(reply: Option<Reply>, message: Option<&str>, answers: Option<&Value>) -> Self {
        match (answers, reply) {
            (Some(answers), _) => Self::Chosen(labels(answers)),
            (None, Some(Reply::Once | Reply::Always)) => Self::Allowed,
            (None, Some(Reply::Reject)) => Self::Rejected(message.map(str::to_owned)),
            (None, None) => Self::Interrupted,
        }
    }
}

impl WaitingCalls {
    /// Waits for an answer from now on.
    pub(super) fn wait(&self, request: &Request) -> oneshot::Receiver<RequestAnswer> {
        let (answer, receiver) = oneshot::channel();
        let call = HeldRequest { request: request.clone(), answer };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.id.clone(), call);
        receiver
    }

    /// What a call waits for.
    pub(super) fn request_of(&self, part: &PartId) -> Option<Request> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of =
            |request: &Request| request.call.as_ref().is_some_and(|call| call.part.as_ref() == Some(part));
        waiting.values().map(|call| &call.request).find(|request| of(request)).cloned()
    }

    /// Gives an answer to the call that waits for it, if one does here.
    pub(crate) fn answer(&self, id: &RequestId, answer: RequestAnswer) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(call) = waiting {
            call.answer.send(answer).ok();
        }
    }
}

/// The chosen labels from a log.
pub(super) fn labels(answers: &Value) -> Vec<Vec<String>> {
    let texts = |one: &Value| {
        one.as_array().into_iter().flatten().filter_map(|label| label.as_str().map(str::to_owned)).collect()
    };
    answers.as_array().into_iter().flatten().map(texts).collect()
}
