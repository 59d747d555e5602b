//! What comes from a server, matched with what it was asked.
//!
//! An answer that nobody waits for (given twice, too late, with a wrong id) is dropped. Progress keeps only its newest
//! state and a changed list only the fact, so that a server that floods us with either costs time but no memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot, watch};

use super::message::{METHOD_NOT_FOUND, RpcError, RpcMessage};
use super::{McpError, message, readable};

/// The most bytes of a text within a notification that are kept.
const TEXT_MAX: usize = 1024;

/// How far a call has come.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct CallProgress {
    /// How much is done.
    #[serde(default)]
    pub progress: f64,
    /// How much there is to do, where that is known.
    #[serde(default)]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default)]
    pub message: Option<String>,
}

type RpcResult = Result<Box<RawValue>, RpcError>;

#[derive(Debug)]
struct PendingReply {
    answer: oneshot::Sender<RpcResult>,
    progress: watch::Sender<CallProgress>,
}

/// What came in with one text.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    /// Whether it was JSON-RPC.
    pub(super) valid: bool,
    /// What is to be sent back.
    pub(super) answers: Vec<String>,
}

/// The inbox of one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    pending: Mutex<HashMap<u64, PendingReply>>,
    next: AtomicU64,
    closed: watch::Sender<Option<McpError>>,
    tools_changed: Notify,
    roots: Value,
}

impl Inbox {
    /// An inbox that answers questions for our folders with `roots`.
    pub(super) fn new(roots: Value) -> Self {
        Self {
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            closed: watch::Sender::new(None),
            tools_changed: Notify::new(),
            roots,
        }
    }

    /// Makes room for an answer.
    pub(super) fn reserve(&self) -> Result<ReplySlot<'_>, McpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = watch::channel(CallProgress::default());
        self.lock().insert(id, PendingReply { answer, progress });
        let slot = ReplySlot { inbox: self, id, answered, progressed };
        // Looked at after the insertion: whoever closes in between finds the entry and drops it.
        match &*self.closed.borrow() {
            Some(fault) => Err(fault.clone()),
            None => Ok(slot),
        }
    }

    /// Takes a text of the server.
    pub(super) fn receive(&self, text: &str) -> Receipt {
        let Some(messages) = message::parse(text) else { return Receipt::default() };
        let mut answers = Vec::new();
        for message in messages {
            match message {
                RpcMessage::Answer { id, outcome } => self.settle(id, outcome),
                RpcMessage::Request { id, method } => answers.push(self.serve(id, &method)),
                RpcMessage::Notice { method, params } => self.hear(&method, params),
            }
        }
        Receipt { valid: true, answers }
    }

    fn settle(&self, id: Option<u64>, outcome: Result<&RawValue, RpcError>) {
        match id.and_then(|id| self.lock().remove(&id)) {
            Some(pending) => drop(pending.answer.send(outcome.map(RawValue::to_owned))),
            None => tracing::debug!(id, "an MCP server answered what was not asked"),
        }
    }

    fn serve(&self, id: &RawValue, method: &str) -> String {
        match method {
            "ping" => message::answer(id, Ok(&json!({}))),
            "roots/list" => message::answer(id, Ok(&json!({"roots": self.roots}))),
            _ => {
                let message = "this client does not do that".to_owned();
                message::answer(id, Err(RpcError { code: METHOD_NOT_FOUND, message }))
            }
        }
    }

    fn hear(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map_or("null", RawValue::get);
        match method {
            "notifications/progress" => {
                #[derive(Deserialize)]
                struct Params {
                    #[serde(rename = "progressToken")]
                    token: Value,
                    #[serde(flatten)]
                    progress: CallProgress,
                }
                let Ok(Params { token, mut progress }) = serde_json::from_str(params) else { return };
                let id = token.as_u64().or_else(|| token.as_str()?.parse().ok());
                progress.message = progress.message.map(|text| readable(&text, TEXT_MAX));
                if let Some(pending) = id.and_then(|id| Some(self.lock().get(&id)?.progress.clone())) {
                    pending.send_replace(progress);
                }
            }
            "notifications/tools/list_changed" => self.tools_changed.notify_one(),
            "notifications/message" => {
                tracing::debug!(message = readable(params, TEXT_MAX), "an MCP server says");
            }
            // The list of resources is asked for when somebody wants it, and requests that the server
            // takes back were answered at once.
            _ => {}
        }
    }

    /// Waits until the server says that its tools are others.
    pub(super) async fn tools_changed(&self) {
        self.tools_changed.notified().await;
    }

    /// Ends everything that waits. The first reason stays.
    pub(super) fn close(&self, fault: McpError) {
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(fault);
            first
        });
        self.lock().clear();
    }

    /// Waits for the end, and says why.
    pub(super) async fn closed(&self) -> McpError {
        let mut closed = self.closed.subscribe();
        let fault = closed.wait_for(Option::is_some).await.ok().and_then(|fault| fault.clone());
        fault.unwrap_or_else(ended)
    }

    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, PendingReply>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> McpError {
    McpError::Closed("the connection has ended".to_owned())
}

fn refused(error: RpcError) -> McpError {
    McpError::Refused { code: error.code, message: error.message }
}

/// A place for one answer; it is given up when this is dropped.
#[derive(Debug)]
pub(super) struct ReplySlot<'a> {
    inbox: &'a Inbox,
    pub(super) id: u64,
    answered: oneshot::Receiver<RpcResult>,
    progressed: watch::Receiver<CallProgress>,
}

impl ReplySlot<'_> {
    /// Waits for the answer.
    pub(super) async fn answer(&mut self) -> Result<Box<RawValue>, McpError> {
        match (&mut self.answered).await {
            Ok(outcome) => outcome.map_err(refused),
            Err(_) => Err(self.inbox.closed.borrow().clone().unwrap_or_else(ended)),
        }
    }

    /// The answer, if it is there.
    pub(super) fn ready(&mut self) -> Option<Result<Box<RawValue>, McpError>> {
        self.answered.try_recv().ok().map(|outcome| outcome.map_err(refused))
    }

    /// The newest progress, as a channel of its own.
    pub(super) fn progress(&self) -> watch::Receiver<CallProgress> {
        self.progressed.clone()
    }
}

impl Drop for ReplySlot<'_> {
    fn drop(&mut self) {
        self.inbox.lock().remove(&self.id);
    }
}
