//! The contract between the engine and one tool.
//!
//! Everything here is plain data, so that the engine can store a need, a progress report or an output as it
//! is. Texts are written for the model: a [`Failure`] is shown to it word for word.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::host::{Host, NoHost};
use crate::regular_file::fingerprint;
use crate::scope::{PROTECTED, SECRET, Scope};
use crate::seen::SeenFiles;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What recovery may assume about a call that had begun when the process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It changes nothing: run it again.
    Pure,
    /// It replaces whole files: compare them with [`Tool::forecast`] before deciding.
    Edit,
    /// Running it twice comes to the same as running it once: what it did is found again, or done again with the same
    /// result.
    Repeatable,
    /// Nobody can tell what happened: never run it a second time.
    Opaque,
}

/// Where the metadata of a need has the permission that it is asked with.
const ASKED_WITH: &str = "askedWith";

/// One thing that must be permitted before a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The kind of permission, as rules name it: `read`, `edit`, `bash`, `external_directory`.
    pub permission: String,
    /// What the call touches; every pattern must be allowed.
    pub patterns: Vec<String>,
    /// The patterns to remember when the person answers "always".
    pub always: Vec<String>,
    /// What a client shows beside the question.
    pub metadata: Map<String, Value>,
}

impl Need {
    /// The permission that is needed for the same file by its name: whoever is asked for that is asked for both.
    #[must_use]
    pub fn asked_with(&self) -> Option<&str> {
        self.metadata.get(ASKED_WITH)?.as_str()
    }

    /// Notes that.
    pub(crate) fn set_asked_with(&mut self, permission: &str) {
        self.metadata.insert(ASKED_WITH.to_owned(), permission.into());
    }

    /// Whether whoever permits this permits another one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.permission == other.permission
            && other.patterns.iter().all(|pattern| self.patterns.contains(pattern))
    }

    /// Adds a need to others, so that one question is for all files that are asked for by name.
    pub(crate) fn add_to(self, needs: &mut Vec<Self>) {
        if let Some(known) = needs.iter_mut().find(|known| known.covers(&self)) {
            // What holds for one of the files need not hold for the other.
            if known.asked_with() != self.asked_with() {
                known.metadata.remove(ASKED_WITH);
            }
            return;
        }
        let named = [PROTECTED, SECRET].contains(&self.permission.as_str());
        match needs.iter_mut().find(|known| named && known.permission == self.permission) {
            Some(known) => {
                known.patterns.extend(self.patterns);
                known.always.extend(self.always);
            }
            None => needs.push(self),
        }
    }
}

/// A file that travels with an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The media type.
    pub mime: String,
    /// Where the bytes are; built-in tools use `data:` addresses.
    pub url: String,
    /// The file's name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

/// What a call that succeeded hands back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// A short line for people.
    pub title: String,
    /// The text for the model, already within bounds.
    pub output: String,
    /// What clients draw the result from.
    pub metadata: Map<String, Value>,
    /// Whether the tool has chosen itself what to show of a longer text; only a gross excess is then cut.
    pub shaped: bool,
    /// Media for the model.
    pub attachments: Vec<Attachment>,
    /// Files that the call wrote, as absolute paths.
    pub edited: Vec<PathBuf>,
    /// The Managed Tool Output File with the complete text, when `output` is only a preview of it.
    pub output_path: Option<PathBuf>,
}

/// Why a call has no output. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The arguments do not fit the tool's schema.
    #[error("{0}")]
    InvalidInput(String),
    /// The tool could not do what was asked.
    #[error("{0}")]
    Failed(String),
    /// The person was asked and said no: the session waits for them.
    #[error("{0}")]
    Declined(String),
    /// The call was cancelled before it had any effect.
    #[error("The call was cancelled before it did anything.")]
    Cancelled,
}

impl Failure {
    /// A failure of the file system, naming the path.
    pub(crate) fn io(action: &str, path: &std::path::Path, error: &io::Error) -> Self {
        Self::Failed(format!("Could not {action} {}: {error}", path.display()))
    }
}

/// A report from a call that is still running.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Replaces the metadata that clients show for the running call.
    pub metadata: Map<String, Value>,
}

/// Which files the rules let a call read without asking, by the name that rules know them by.
///
/// A search comes across files that nobody has named; those that would have to be asked about stay closed.
#[derive(Clone)]
pub struct Readable(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Readable {
    /// Every file for which `allowed` says yes.
    pub fn by(allowed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allowed))
    }

    /// Whether a file may be read without asking.
    #[must_use]
    pub fn allows(&self, pattern: &str) -> bool {
        (self.0)(pattern)
    }
}

impl Default for Readable {
    /// Every file.
    fn default() -> Self {
        Self::by(|_| true)
    }
}

impl fmt::Debug for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readable")
    }
}

/// What a running call works with.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where it works.
    pub scope: Arc<Scope>,
    /// Fires when the call must stop.
    pub cancel: CancellationToken,
    /// Takes live reports; a closed channel is not an error.
    pub progress: mpsc::UnboundedSender<Progress>,
    /// What was permitted: the needs of this call as they were when somebody said yes.
    pub granted: Arc<[Need]>,
    /// Which other files may be read without asking.
    pub readable: Readable,
    /// What the session last saw of each file.
    pub seen: Arc<SeenFiles>,
    /// The session.
    pub host: Arc<dyn Host>,
}

impl Context {
    /// A context without a session, in which nothing was permitted yet, and the reports of the call.
    #[must_use]
    pub fn new(scope: Arc<Scope>) -> (Self, mpsc::UnboundedReceiver<Progress>) {
        let (progress, reports) = mpsc::unbounded_channel();
        let context = Self {
            scope,
            cancel: CancellationToken::new(),
            progress,
            granted: Arc::new([]),
            readable: Readable::default(),
            seen: Arc::default(),
            host: Arc::new(NoHost),
        };
        (context, reports)
    }

    /// Sends a live report, or drops it when nobody listens any more.
    pub fn report(&self, metadata: Map<String, Value>) {
        self.progress.send(Progress { metadata }).ok();
    }
}

/// The state that an [`Effect::Edit`] call will leave one file in.
///
/// Recorded before the call starts, it lets recovery tell from the disk alone whether the call happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// BLAKE3 of the content before the call, in hex; nothing if the file was absent. A file too large to hash
    /// has its identity and the time of its last change here.
    pub before: Option<String>,
    /// BLAKE3 of the content after the call, in hex; nothing if the call removes the file.
    pub after: Option<String>,
}

/// What the disk says about a [`Forecast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForecastVerdict {
    /// The file is as the call leaves it.
    Applied,
    /// The file is as it was before the call.
    Untouched,
    /// The file is neither: someone else changed it.
    Conflict,
}

impl Forecast {
    /// Compares the file with the forecast. A file that cannot be read is a conflict.
    #[must_use]
    pub fn verdict(&self) -> ForecastVerdict {
        let Ok(now) = fingerprint(&self.path) else { return ForecastVerdict::Conflict };
        if now == self.after {
            ForecastVerdict::Applied
        } else if now == self.before {
            ForecastVerdict::Untouched
        } else {
            ForecastVerdict::Conflict
        }
    }
}

/// One thing an agent can do.
pub trait Tool: Send + Sync + fmt::Debug {
    /// The name the model calls it by.
    fn name(&self) -> &str;

    /// What the model is told about it.
    fn description(&self) -> &str;

    /// The kind of permission that hides it when denied altogether; tools that change files share `edit`.
    fn permission(&self) -> &str {
        self.name()
    }

    /// The JSON schema of its arguments: [`crate::input::schema`] of the type that decodes them.
    fn schema(&self) -> Value;

    /// What recovery may assume about an unfinished call.
    fn effect(&self) -> Effect;

    /// Whether the model is told about it.
    fn advertised(&self) -> bool {
        true
    }

    /// What must be permitted before [`Tool::run`]; it may look at files but changes nothing.
    ///
    /// Nothing learnt from a file's content may reach the failure text: the model sees it, and the read has
    /// not been permitted yet.
    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure>;

    /// The files that an [`Effect::Edit`] call would leave behind; empty for every other call.
    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let _ = (input, scope);
        Ok(Vec::new())
    }

    /// Acts. Called only after every need was permitted.
    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>>;
}
