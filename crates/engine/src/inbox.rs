//! The inbox, and admission to it: a prompt is durable when it is accepted, and accepted once however often it is sent.

mod waiting;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use everturn_model::entry::{AnswerShape, User};
use everturn_model::fault::Fault;
use everturn_model::ids::Stamp;
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Event, Extra, Map, Part, PartId, Session, SessionId};
use everturn_store::Lease;
use serde_json::{Value, json};

use crate::Error;
use crate::attachments::{Attachments, ReadAttachments};
use crate::bounds;
use crate::bus::Signal;
use crate::configurations::Configurations;
use crate::drains::Drains;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::models::Models;
use crate::requests::trust::TrustRequests;
use crate::reverts::Reverts;
pub use waiting::WaitingOutcome;

/// A day in milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// How many parts a prompt has.
pub(crate) const PART_LIMIT: usize = 10_000;

/// How many attachments that do not reach the model are named to whoever looks on; the prompt names all of them.
const MOST_NAMED: usize = 8;

/// A part of a new prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PartInput {
    /// Its id, where the client chose one.
    pub id: Option<PartId>,
    /// What it is.
    pub kind: PartKind,
    /// The resource of an MCP server that it attaches.
    pub resource: Option<ResourceAddress>,
}

impl PartInput {
    /// A part that attaches no resource, under an id of our own.
    #[must_use]
    pub fn new(kind: PartKind) -> Self {
        Self { id: None, kind, resource: None }
    }
}

/// Where a resource can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceAddress {
    /// The MCP server that has it, by its configured name.
    pub server: String,
    /// Its address there.
    pub uri: String,
}

/// A new prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The id of the message it becomes, where the client chose one.
    pub id: Option<EntryId>,
    /// The agent that is to answer.
    pub agent: Option<String>,
    /// The model that is to answer.
    pub model: Option<ModelRef>,
    /// Instructions for this prompt only.
    pub system: Option<String>,
    /// Tools switched on or off for this prompt.
    pub tools: Option<Map>,
    /// The shape that the answer must have.
    pub format: Option<AnswerShape>,
    /// Its parts.
    pub parts: Vec<PartInput>,
    /// When it is promoted.
    pub delivery: Delivery,
    /// Whether it wants an answer.
    pub reply: bool,
    /// Whether the session goes on with it at once. One that does not wait for the next that does.
    pub resume: bool,
}

impl Prompt {
    /// A prompt of one text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            id: None,
            agent: None,
            model: None,
            system: None,
            tools: None,
            format: None,
            parts: vec![PartInput::new(PartKind::text(text))],
            delivery: Delivery::Steer,
            reply: true,
            resume: true,
        }
    }
}

/// A prompt as it would be stored.
struct DraftedPrompt {
    item: InboxItem,
    /// What is attached and does not reach the model, in words for a person.
    unread: Vec<String>,
}

/// Accepts prompts; clones share it.
#[derive(Debug, Clone)]
pub struct PromptInbox {
    pub(crate) journal: Journal,
    pub(crate) configurations: Configurations,
    pub(crate) models: Models,
    pub(crate) attachments: Attachments,
    pub(crate) drains: Drains,
    pub(crate) leases: Leases,
    pub(crate) reverts: Reverts,
    pub(crate) trust: TrustRequests,
}

impl PromptInbox {
    /// Accepts a prompt. When this returns, the prompt is on disk and will be answered, whatever happens to this
    /// process.
    ///
    /// # Errors
    /// When there is no such session, the id is used for something else, or a staged revert cannot be committed
    /// because the session is at work.
    pub async fn admit(&self, id: &SessionId, prompt: Prompt) -> Result<InboxItem, Error> {
        let drafted = self.draft(id, prompt).await;
        // Nothing will be begun here, and what is missing may be what the project would bring.
        if let Err(Error::NoModel | Error::Model(_)) = &drafted
            && let Err(error) = self.trust.review_stored(id).await
        {
            tracing::warn!(session = %id, %error, "nobody was asked whether the project is trusted");
        }
        let DraftedPrompt { item, unread } = drafted?;
        if let Some(seen) = self.admitted(id, &item).await? {
            // Sent again it changes nothing, also not that somebody has stopped the session since. But what was to wait may
            // begin now.
            if item.resume && item.reply && !seen.resume {
                self.drains.resume(id).await?;
            }
            self.drains.wake(id);
            return Ok(seen);
        }
        match self.record(id, &item).await {
            Ok(()) => {}
            // The same prompt came twice at once: the other one won.
            Err(Error::Store(everturn_store::Error::Unfit { .. })) => {
                let seen = self.admitted(id, &item).await?;
                return seen.ok_or_else(|| conflict(&item));
            }
            Err(error) => return Err(error),
        }
        self.report(id, unread).await;
        if item.resume {
            self.drains.wake(id);
        }
        Ok(item)
    }

    /// Tells whoever looks on what does not reach the model, as OpenCode does. It is said in the prompt as well.
    async fn report(&self, id: &SessionId, unread: Vec<String>) {
        let Some(rest) = unread.len().checked_sub(1) else { return };
        let mut said: Vec<String> = unread.into_iter().take(MOST_NAMED).collect();
        if rest >= MOST_NAMED {
            said.push(format!("So it is with {} more.", rest + 1 - MOST_NAMED));
        }
        if let Ok(session) = self.journal.session(id).await {
            self.journal.signal(&session, Signal::Failed { error: Fault::internal(said.join("\n")) });
        }
    }

    /// The prompt as it is stored: everything that it leaves open is decided here, once.
    async fn draft(&self, id: &SessionId, prompt: Prompt) -> Result<DraftedPrompt, Error> {
        bounds::check_prompt(&prompt)?;
        let session = self.journal.session(id).await?;
        let digest = digest(&prompt);
        let config = self.configurations.at(Path::new(&session.directory)).await;
        let agent =
            prompt.agent.or_else(|| session.agent.clone()).unwrap_or_else(|| config.agents().default_name());
        config.agents().check(&agent)?;
        for part in &prompt.parts {
            if let PartKind::Agent { name, .. } | PartKind::Subtask { agent: name, .. } = &part.kind {
                config.agents().check(name)?;
            }
        }
        let of_agent = config.agents().named(&agent).and_then(|agent| agent.model.as_deref());
        let model = self.models.of(&config).selected(prompt.model, of_agent, &session)?;
        let given = prompt.id.map(|message| self.check_id(&session, message)).transpose()?;
        // This may take a while, and others may prompt meanwhile: ids are in the order of admission.
        let ReadAttachments { parts, unread } = self.attachments.read(prompt.parts, &session).await;
        let message = given.unwrap_or_else(|| self.journal.mint().entry(&session));
        let part = |part: PartInput| {
            Part::new(part.id.unwrap_or_else(|| self.journal.mint().part(&session)), part.kind)
        };
        let parts: Vec<Part> = parts.into_iter().map(part).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = parts.iter().find(|part| !seen.insert(&part.id)) {
            return Err(Error::Invalid(format!("two parts have the id {}", twice.id)));
        }
        let user = User {
            agent: Some(agent),
            model: Some(model),
            system: prompt.system,
            tools: prompt.tools,
            format: prompt.format,
            summary: None,
            digest: Some(digest),
        };
        let item = InboxItem {
            id: message,
            time: self.journal.mint().now(),
            delivery: prompt.delivery,
            reply: prompt.reply,
            user,
            parts,
            extra: Extra::default(),
            resume: prompt.resume,
            place: None,
            revision: 0,
        };
        Ok(DraftedPrompt { item, unread })
    }

    /// A client's own message id, if it leaves room for later ones: clients sort by id.
    fn check_id(&self, session: &Session, message: EntryId) -> Result<EntryId, Error> {
        if !EntryId::is_well_formed(message.as_str()) {
            return Err(Error::Invalid(format!("a message id begins with msg_, not {message}")));
        }
        let latest = Stamp::at(self.journal.mint().now() + DAY, 0).max(session.floor);
        let wrapped = Stamp::at(self.journal.mint().now(), 0) > Stamp::at(self.journal.mint().now() + DAY, 0);
        match Stamp::of(message.as_str()) {
            Some(stamp) if stamp > latest && !wrapped => {
                Err(Error::Invalid(format!("the message id {message} is of a day to come")))
            }
            _ => Ok(message),
        }
    }

    /// Puts a prompt into the log. On a staged revert it commits that first: both in one transaction, as the owner.
    pub(crate) async fn record(&self, id: &SessionId, item: &InboxItem) -> Result<(), Error> {
        let admitted = Event::PromptAdmitted { item: Box::new(item.clone()) };
        match self.journal.append_admission(id, admitted.clone()).await {
            Err(Error::Store(everturn_store::Error::Staged(_))) => {}
            other => return other.map(drop),
        }
        self.leases.at_rest(id, |lease| self.admit_on_revert(lease, admitted)).await
    }

    async fn admit_on_revert(&self, lease: Lease, admitted: Event) -> Result<(), Error> {
        let mut events = self.reverts.committing(&lease).await?;
        events.push(admitted);
        self.journal.append_owned(&lease, events).await?;
        Ok(())
    }

    /// The prompt that was admitted under an id before, whatever it asked for.
    pub(crate) async fn accepted_before(
        &self,
        id: &SessionId,
        message: &EntryId,
    ) -> Result<Option<InboxItem>, Error> {
        if let Some(waiting) = self.journal.waiting_prompt(id, message).await? {
            return Ok(Some(waiting));
        }
        let Some(node) = self.journal.node(id, message).await? else { return Ok(None) };
        let everturn_model::Body::User(user) = node.entry.body else {
            return Err(Error::Conflict(message.to_string()));
        };
        Ok(Some(InboxItem {
            id: message.clone(),
            time: node.entry.time,
            delivery: Delivery::Steer,
            reply: true,
            user,
            parts: node.parts,
            extra: node.entry.extra,
            resume: true,
            place: None,
            revision: 0,
        }))
    }

    /// What was admitted under this id before, if it asked for the same.
    async fn admitted(&self, id: &SessionId, item: &InboxItem) -> Result<Option<InboxItem>, Error> {
        // Before the entry that it becomes, so that it is not missed in between.
        if let Some(waiting) = self.journal.waiting_prompt(id, &item.id).await? {
            return if waiting.same_request(item) { Ok(Some(waiting)) } else { Err(conflict(item)) };
        }
        let Some(node) = self.journal.node(id, &item.id).await? else { return Ok(None) };
        let everturn_model::Body::User(mut user) = node.entry.body else { return Err(conflict(item)) };
        user.summary = None;
        let promoted = InboxItem { user, parts: node.parts, extra: node.entry.extra, ..item.clone() };
        if promoted.same_request(item) { Ok(Some(promoted)) } else { Err(conflict(item)) }
    }
}

/// What the client asked for, as a hash that does not depend on the order of keys.
fn digest(prompt: &Prompt) -> String {
    let model = prompt.model.as_ref().map(|model| json!([model.provider, model.model, model.variant]));
    let parts: Vec<_> = prompt.parts.iter().map(|part| json!([part.id, part.kind])).collect();
    let mut asked = json!({
        "version": 1, "agent": prompt.agent, "model": model, "system": prompt.system, "tools": prompt.tools,
        "parts": parts, "delivery": prompt.delivery, "reply": prompt.reply,
    });
    // Only where there is one: a prompt that was admitted before there were any has the same digest still.
    if let (Some(format), Some(asked)) = (&prompt.format, asked.as_object_mut()) {
        asked.insert("format".to_owned(), json!([format.schema, format.retries]));
    }
    let mut text = String::new();
    write_sorted(&asked, &mut text);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            for (key, value) in sorted {
                out.push_str(&format!("{key:?}:"));
                write_sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            items.iter().for_each(|item| write_sorted(item, out));
            out.push(']');
        }
        other => out.push_str(&format!("{other},")),
    }
}

fn conflict(item: &InboxItem) -> Error {
    Error::Conflict(item.id.to_string())
}
