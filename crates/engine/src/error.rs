//! What can go wrong, by what the caller can do about it.

use everturn_model::{EntryId, RequestId, SessionId, fold};

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such session.
    #[error("session not found: {0}")]
    NoSession(SessionId),
    /// The session has no such message.
    #[error("message not found: {0}")]
    NoMessage(EntryId),
    /// The message has no such part.
    #[error("part not found: {0}")]
    NoPart(String),
    /// Nobody waits for an answer to this request.
    #[error("no such request is waiting for an answer: {0}")]
    NoRequest(RequestId),
    /// No MCP server of this name is configured.
    #[error("there is no MCP server named {0}")]
    NoServer(String),
    /// The session is at work: wait for it or interrupt it.
    #[error("session {0} is busy; wait until it is idle, or stop it with `everturn session abort`")]
    Busy(SessionId),
    /// The id is used for something else.
    #[error("{0} is already used for something else")]
    Conflict(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Something that the model has to be told cannot be read.
    #[error("what the model has to be told cannot be read; nothing was sent, and the prompt waits: {0}")]
    Unavailable(String),
    /// No model is chosen and none can be used.
    #[error(
        "no model can be used: there is no key for any provider. Set one such as ANTHROPIC_API_KEY, or give a provider its `baseURL` in the configuration; `everturn models --all` lists what there is"
    )]
    NoModel,
    /// The name of a model means nothing.
    #[error(transparent)]
    Model(#[from] everturn_llm::catalogue::LookupError),
    /// A model cannot be reached.
    #[error(transparent)]
    Connect(#[from] everturn_llm::catalogue::ConnectError),
    /// A script cannot be played.
    #[error(transparent)]
    Script(#[from] everturn_llm::scripted::ScriptError),
    /// The keys of providers cannot be read.
    #[error(transparent)]
    Keys(#[from] everturn_llm::credential::CredentialError),
    /// The store refused.
    #[error(transparent)]
    Store(everturn_store::Error),
    /// The store took an event that the turn cannot follow.
    #[error("the store and the turn of session {session} disagree about event {seq}: {reason}")]
    Diverged {
        /// The session.
        session: SessionId,
        /// The event.
        seq: u64,
        /// Why it does not fit.
        reason: String,
    },
    /// The files could not be recorded or restored.
    #[error("snapshot: {0}")]
    Snapshot(#[from] everturn_tools::snapshot::SnapshotError),
    /// A foreign session cannot be understood.
    #[error("{0}")]
    Import(String),
    /// The machine refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried.
        context: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl From<everturn_store::Error> for Error {
    fn from(error: everturn_store::Error) -> Self {
        use everturn_store::Error as Store;
        match error {
            Store::NoSession(id) => Self::NoSession(id),
            Store::Busy { session, .. } | Store::Fenced(session) => Self::Busy(session),
            Store::TooDeep { .. } | Store::InboxFull(_) => Self::Invalid(error.to_string()),
            Store::Unfit { source: fold::Error::TooManyRules, .. } => {
                Self::Invalid(fold::Error::TooManyRules.to_string())
            }
            other => Self::Store(other),
        }
    }
}
