//! The System Context: what the model is told before the conversation begins, and what it is told when that changes.
//!
//! It is made of Context Sources, each with a key, the value that is observed now, and the words for it. Producers in a
//! [registry](ContextRegistry) give them: those that are built in, and those that a host registers. At the beginning of an
//! epoch all of them together are the baseline, which is stored word for word in an `epoch` entry and used unchanged until
//! a compaction or a move begins a new epoch, so that a provider's cache of it holds across restarts. Before each later
//! turn the values are compared with those that were last admitted (the Context Snapshot, kept with the epoch and with
//! each `system` entry since), and what differs becomes one `system` entry.
//!
//! All of that is a function of the path: a branch to before an update has not been told of it.
//!
//! A source that cannot be observed keeps the first turn in a folder from beginning, changes nothing about a later one, and
//! lets an epoch go on that a compaction has ended.

mod builtin;
mod epoch;
mod key;
mod registry;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::permission::Policy;
use everturn_model::{Millis, Session};
pub use everturn_tools::Observed;
use everturn_tools::Places;
use serde_json::Value;

use crate::projects::Location;
pub(crate) use builtin::found_beside;
pub(crate) use epoch::{ContextStep, PathEpoch, initialize, reconcile, replace};
pub use key::{ContextKey, InvalidContextKey};
pub use registry::{ContextProducer, ContextRegistration, ContextRegistry, DuplicateContextKey};
use snapshot::AdmittedValue;

/// One value of the System Context, and the words for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextSource {
    /// Its name in the snapshot.
    pub key: ContextKey,
    /// What it is now.
    pub value: Observed<Value>,
    /// How it is said at first.
    pub baseline: String,
    /// How it is said when it has changed: what holds now, in full.
    pub update: String,
    /// How it is said that it is gone. Without it, a new epoch begins when it goes.
    pub removal: Option<String>,
}

impl ContextSource {
    /// A source that cannot be observed, and why.
    #[must_use]
    pub fn unavailable(key: ContextKey, why: String) -> Self {
        let value = Observed::Unavailable { why };
        Self { key, value, baseline: String::new(), update: String::new(), removal: None }
    }

    /// What the snapshot keeps of it when the model is told this value.
    fn admitted(&self, value: &Value) -> AdmittedValue {
        AdmittedValue { value: value.clone(), removal: self.removal.clone() }
    }

    /// Whether it speaks for a key: its own, or one within a producer that could not be asked.
    fn covers(&self, key: &str) -> bool {
        let rest = key.strip_prefix(self.key.as_str());
        let silent = matches!(self.value, Observed::Unavailable { .. });
        rest.is_some_and(|rest| rest.is_empty() || silent && rest.starts_with('/'))
    }
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
pub struct ContextView {
    /// Where the session works.
    pub location: Location,
    /// The session.
    pub session: Arc<Session>,
    /// The name of the agent that answers.
    pub agent: String,
    /// The time.
    pub now: Millis,
    /// Where instructions and skills are.
    pub(crate) places: Places,
    /// What the agent may do.
    pub(crate) policy: Policy,
    /// Files of instructions that were found beside files that were read, those first of which the model was told.
    pub(crate) nested: Vec<NestedInstructions>,
    /// The file of the session's plan.
    pub(crate) plan: PathBuf,
}

/// A file of instructions that was found beside a file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NestedInstructions {
    /// The file.
    pub(crate) path: PathBuf,
    /// Whether the model was told of it.
    pub(crate) known: bool,
}
