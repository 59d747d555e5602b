//! The calls of this process that wait for a person, and what they are answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::request::{GivenAnswer, Reply, Request};
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
    /// Do not.
    Rejected(Rejection),
    /// The work was interrupted while it waited.
    Interrupted,
}

/// A person's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// What they said with it.
    message: Option<String>,
    /// Whether they said it of another request, with which this one was settled.
    follows: bool,
}

impl Rejection {
    /// What the model is told, after words that say what was refused. None when the person said nothing: then they want
    /// the work to stop.
    pub(crate) fn words(&self, refused: &str) -> Option<String> {
        let message = self.message.as_deref()?;
        Some(if self.follows {
            format!("{refused} It was rejected together with another call, of which they said: {message}")
        } else {
            format!("{refused} They said: {message}")
        })
    }
}

impl RequestAnswer {
    /// What an answer in the log says.
    pub(crate) fn of(given: GivenAnswer) -> Self {
        match (given.answers, given.reply) {
            (Some(answers), _) => Self::Chosen(labels(&answers)),
            (None, Some(Reply::Once | Reply::Always)) => Self::Allowed,
            (None, Some(Reply::Reject)) => {
                Self::Rejected(Rejection { message: given.message, follows: given.follows.is_some() })
            }
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
fn labels(answers: &Value) -> Vec<Vec<String>> {
    let texts = |one: &Value| {
        one.as_array().into_iter().flatten().filter_map(|label| label.as_str().map(str::to_owned)).collect()
    };
    answers.as_array().into_iter().flatten().map(texts).collect()
}
