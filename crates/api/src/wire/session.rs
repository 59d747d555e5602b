//! Sessions as clients see them, new ones and changes of them.

use everturn_engine::Signal;
use everturn_engine::config::misspelt_permission;
use everturn_engine::sessions::NewSession;
use everturn_interop::opencode::v1;
use everturn_model::event::SessionChange;
use everturn_model::permission::Rule;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Map, Millis, PartId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::shaped;
use crate::error::Error;
use crate::input::Id;

/// A session.
#[derive(JsonSchema)]
#[schemars(rename = "Session")]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes what interop prints")]
pub(crate) struct SessionShape {
    id: Id<SessionId>,
    slug: String,
    #[serde(rename = "projectID")]
    project: String,
    #[schemars(rename = "workspaceID", extend("pattern" = "^wrk"))]
    workspace: Option<String>,
    directory: String,
    /// Where the folder is inside its project.
    path: Option<String>,
    #[serde(rename = "parentID")]
    parent: Option<Id<SessionId>>,
    /// What it has changed in files.
    summary: Option<ChangesShape>,
    /// What its conversation cost, in dollars.
    cost: Option<f64>,
    tokens: Option<TokensShape>,
    share: Option<ShareShape>,
    title: String,
    agent: Option<String>,
    model: Option<SessionModel>,
    version: String,
    metadata: Option<Map>,
    time: SessionTime,
    permission: Option<Vec<PermissionRule>>,
    /// What is taken back, until a new prompt makes it final.
    revert: Option<SessionRevert>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct ChangesShape {
    additions: u64,
    deletions: u64,
    files: u64,
    diffs: Option<Vec<FileDiffShape>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct ShareShape {
    url: String,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct SessionModel {
    id: String,
    #[serde(rename = "providerID")]
    provider: String,
    variant: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct SessionTime {
    created: Millis,
    updated: Millis,
    compacting: Option<Millis>,
    archived: Option<Millis>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct SessionRevert {
    #[serde(rename = "messageID")]
    message: Id<EntryId>,
    #[serde(rename = "partID")]
    part: Option<Id<PartId>>,
    snapshot: Option<String>,
    diff: Option<String>,
}

/// What a conversation or a message used.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
pub(crate) struct TokensShape {
    input: u64,
    output: u64,
    reasoning: u64,
    cache: CacheTokens,
}

/// What a message used.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
pub(crate) struct MessageTokens {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache: CacheTokens,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "it describes what interop prints")]
struct CacheTokens {
    read: u64,
    write: u64,
}

/// What changed in a file.
#[derive(JsonSchema)]
#[schemars(rename = "SnapshotFileDiff")]
#[expect(dead_code, reason = "it describes what the model prints")]
pub(crate) struct FileDiffShape {
    file: Option<String>,
    patch: Option<String>,
    additions: u64,
    deletions: u64,
    #[schemars(with = "Option<FileDiffStatus>")]
    status: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes what the model prints")]
enum FileDiffStatus {
    Added,
    Deleted,
    Modified,
}

/// One rule of what an agent may do.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes what the model prints and reads")]
pub(crate) struct PermissionRule {
    permission: String,
    pattern: String,
    action: PermissionAction,
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes what the model prints and reads")]
enum PermissionAction {
    Allow,
    Deny,
    Ask,
}

/// One item of a task list.
#[derive(JsonSchema)]
#[schemars(rename = "Todo")]
#[expect(dead_code, reason = "it describes what the model prints")]
pub(crate) struct TodoShape {
    content: String,
    status: String,
    priority: String,
}

shaped! {
    v1::SessionInfo<'_> as SessionShape,
    everturn_model::todo::Todo as TodoShape,
    everturn_model::session::FileDiff as FileDiffShape,
    SessionStatus as SessionStatus,
}

/// What a session is doing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SessionStatus {
    /// Nothing.
    Idle,
    /// It waits to try again.
    Retry { attempt: u32, message: String, next: Millis },
    /// It is at work.
    Busy,
}

impl From<&Signal> for SessionStatus {
    fn from(signal: &Signal) -> Self {
        match signal {
            Signal::Retry { attempt, message, next } => {
                Self::Retry { attempt: *attempt, message: message.clone(), next: *next }
            }
            Signal::Idle => Self::Idle,
            Signal::Busy
            | Signal::Delta { .. }
            | Signal::Progress { .. }
            | Signal::CommandDone { .. }
            | Signal::Failed { .. }
            | Signal::Purged { .. }
            | Signal::FileEdited { .. } => Self::Busy,
        }
    }
}

/// A new session.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SessionCreate {
    /// An id that the client chose. If there is a session of it, that is the answer.
    id: Option<Id<SessionId>>,
    #[serde(rename = "parentID")]
    parent: Option<Id<SessionId>>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<ModelInSession>,
    #[schemars(with = "Option<Vec<PermissionRule>>")]
    permission: Option<Vec<Rule>>,
    metadata: Option<Map>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map,
}

/// A model as sessions name it: `id`; `modelID`, as messages do, is understood too.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct ModelInSession {
    #[serde(rename = "id", alias = "modelID")]
    model: String,
    #[serde(rename = "providerID")]
    provider: String,
    variant: Option<String>,
}

/// A model as messages name it: `modelID`; `id`, as sessions do, is understood too.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ModelInMessage {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID", alias = "id")]
    model: String,
    variant: Option<String>,
}

impl From<ModelInSession> for ModelRef {
    fn from(model: ModelInSession) -> Self {
        Self { provider: model.provider, model: model.model, variant: model.variant }
    }
}

impl From<ModelInMessage> for ModelRef {
    fn from(model: ModelInMessage) -> Self {
        Self { provider: model.provider, model: model.model, variant: model.variant }
    }
}

impl ModelInMessage {
    /// The same model in another variant, where one is given.
    pub(crate) fn with_variant(self, variant: Option<String>) -> ModelRef {
        let variant = variant.or_else(|| self.variant.clone());
        ModelRef { variant, ..self.into() }
    }
}

impl SessionCreate {
    /// What the engine is asked for.
    pub(crate) fn into_new(self) -> Result<NewSession, Error> {
        check_rules(&self.others, self.permission.as_deref())?;
        Ok(NewSession {
            id: self.id.map(|id| id.0),
            parent: self.parent.map(|id| id.0),
            title: self.title,
            agent: self.agent,
            model: self.model.map(ModelRef::from),
            permission: self.permission,
            metadata: self.metadata,
        })
    }
}

/// Where a session is to go on.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SessionMoveBody {
    #[serde(rename = "sessionID")]
    pub(crate) session: Id<SessionId>,
    pub(crate) destination: MoveDestination,
    /// Whether what is changed in the files comes along, which is not possible.
    #[serde(default, rename = "moveChanges")]
    pub(crate) changes: bool,
}

/// A place for a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct MoveDestination {
    pub(crate) directory: String,
}

/// Changes of a session.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SessionPatch {
    /// A new name.
    pub(crate) title: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<Vec<PermissionRule>>")]
    permission: Option<Option<Vec<Rule>>>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Option<Map>>,
    time: Option<NewTimes>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct NewTimes {
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<f64>")]
    archived: Option<Option<Value>>,
}

impl SessionPatch {
    /// What changes beside the name.
    pub(crate) fn changes(self) -> Result<Vec<SessionChange>, Error> {
        check_rules(&self.others, self.permission.as_ref().and_then(Option::as_deref))?;
        let mut changes = Vec::new();
        if let Some(archived) = self.time.and_then(|time| time.archived) {
            changes.push(SessionChange::Archived { time: archived.as_ref().map(moment).transpose()? });
        }
        match self.permission {
            // Rules are added after those that exist, and the last one counts.
            Some(Some(rules)) => changes.push(SessionChange::PermissionAdded { rules }),
            Some(None) => changes.push(SessionChange::Permission { rules: None }),
            None => {}
        }
        if let Some(metadata) = self.metadata {
            changes.push(SessionChange::Metadata { metadata });
        }
        Ok(changes)
    }
}

/// Refuses rules that nothing would heed: a session would do without a question what its maker has forbidden. Other unknown
/// fields are passed over, as OpenCode does.
fn check_rules(others: &Map, rules: Option<&[Rule]>) -> Result<(), Error> {
    let sounds = |key: &&String| {
        let word = key.to_lowercase();
        ["deny", "permi", "rule", "sandbox", "tool"].iter().any(|stem| word.contains(stem))
    };
    if let Some(key) = others.keys().find(sounds) {
        return Err(Error::Body(format!("a session has no `{key}`: its rules are `permission`")));
    }
    let wrong = rules.unwrap_or_default().iter().find_map(|rule| misspelt_permission(&rule.permission));
    wrong.map_or(Ok(()), |what| Err(Error::Body(what)))
}

fn moment(value: &Value) -> Result<Millis, Error> {
    let whole = value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.is_finite())?;
        format!("{:.0}", number.trunc()).parse().ok()
    });
    let moment = whole.filter(|millis| *millis >= 0);
    moment.ok_or_else(|| Error::Body(format!("time.archived must be milliseconds, not {value}")))
}

// Tells a field that is null from one that is left out.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Where a copy ends.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ForkBody {
    /// The copy has what comes before this message; all of it where none is named.
    #[serde(rename = "messageID")]
    pub(crate) message: Option<Id<EntryId>>,
}

/// What to take back.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct RevertBody {
    #[serde(rename = "messageID")]
    pub(crate) message: Id<EntryId>,
    #[serde(rename = "partID")]
    pub(crate) part: Option<Id<PartId>>,
}
