//! Admission: a prompt is durable when it is accepted, and accepted once however often it is sent.

use everturn_model::entry::User;
use everturn_model::event::Cause;
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Event, Extra, Map, Part, PartId, SessionId};
use everturn_store::Authority;

use crate::{Engine, Error};

/// A part of a new prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PartInput {
    /// Its id, where the client chose one.
    pub id: Option<PartId>,
    /// What it is.
    pub kind: PartKind,
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
    /// Its parts.
    pub parts: Vec<PartInput>,
    /// When it is promoted.
    pub delivery: Delivery,
    /// Whether it wants an answer.
    pub reply: bool,
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
            parts: vec![PartInput { id: None, kind: PartKind::text(text) }],
            delivery: Delivery::Steer,
            reply: true,
        }
    }
}

impl Engine {
    /// Accepts a prompt. When this returns, the prompt is on disk and will be answered, whatever happens to this
    /// process.
    ///
    /// # Errors
    /// When there is no such session, the id is used for something else, or a staged revert cannot be committed
    /// because the session is at work.
    pub async fn prompt(&self, id: &SessionId, prompt: Prompt) -> Result<InboxItem, Error> {
        let session = self.session(id).await?;
        let agent = prompt.agent.or_else(|| session.agent.clone()).unwrap_or_else(|| self.default_agent());
        if !self.0.agents.iter().any(|known| known.name == agent) {
            let names: Vec<&str> = self.0.agents.iter().map(|agent| agent.name.as_str()).collect();
            return Err(Error::Invalid(format!("there is no agent {agent}; known: {}", names.join(", "))));
        }
        let selected = prompt.model.or_else(|| session.model.clone()).or_else(|| self.config().model.clone());
        let model = match selected {
            Some(model) => model,
            None => self.choose(None)?.reference,
        };
        let message = prompt.id.unwrap_or_else(|| self.mint().entry(&session));
        if !EntryId::is_well_formed(message.as_str()) {
            return Err(Error::Invalid(format!("a message id begins with msg_, not {message}")));
        }
        let parts = prompt.parts.into_iter().flat_map(|part| attach(part, &session.directory));
        let parts: Vec<Part> = parts
            .map(|part| Part::new(part.id.unwrap_or_else(|| self.mint().part(&session)), part.kind))
            .collect();
        let user = User {
            agent: Some(agent),
            model: Some(model),
            system: prompt.system,
            tools: prompt.tools,
            summary: None,
        };
        let mut extra = Extra::default();
        if prompt.delivery == Delivery::Queue {
            // V2 names the delivery again at promotion, when the inbox has forgotten it.
            extra.put("v2", "delivery", "queue".into());
        }
        let item = InboxItem {
            id: message.clone(),
            time: self.mint().now(),
            delivery: prompt.delivery,
            reply: prompt.reply,
            user,
            parts,
            extra,
        };
        if let Some(seen) = self.admitted(id, &item).await? {
            self.wake(id);
            return Ok(seen);
        }
        let mut events = Vec::new();
        let mut authority = Authority::Open;
        let mut hold = None;
        if let Some(revert) = &session.revert {
            // A prompt on a staged revert commits it: both in one transaction, by the right of the owner.
            let tree = self.tree(id).await?;
            let to = tree.node(&revert.message).and_then(|node| node.entry.parent.clone());
            hold = Some(self.hold(id)?);
            authority = Authority::Owned(self.0.store.acquire(id).await?);
            let cause = Cause::Revert { message: revert.message.clone() };
            events.push(Event::LeafMoved { from: session.leaf.clone(), to, cause });
        }
        events.push(Event::PromptAdmitted { item: Box::new(item.clone()) });
        let appended = self.append(id, authority.clone(), events).await;
        if let Authority::Owned(lease) = authority {
            self.0.store.release(lease).await?;
        }
        drop(hold);
        match appended {
            Ok(_) => {}
            // The same prompt came twice at once: the other one won.
            Err(Error::Store(everturn_store::Error::Unfit { .. })) => {
                let seen = self.admitted(id, &item).await?;
                return seen.ok_or_else(|| Error::Conflict(message.to_string()));
            }
            Err(error) => return Err(error),
        }
        self.wake(id);
        Ok(item)
    }

    pub(crate) fn default_agent(&self) -> String {
        self.config().default_agent.clone().unwrap_or_else(|| "build".to_owned())
    }

    /// What was admitted under this id before, if it asked for the same.
    async fn admitted(&self, id: &SessionId, item: &InboxItem) -> Result<Option<InboxItem>, Error> {
        let tail = self.0.store.tail(id, 0).await?.ok_or_else(|| Error::NoSession(id.clone()))?;
        if let Some(waiting) = tail.inbox.into_iter().find(|waiting| waiting.id == item.id) {
            return if waiting.same_request(item) { Ok(Some(waiting)) } else { Err(conflict(item)) };
        }
        let Some(node) = self.0.store.node(id, &item.id).await? else { return Ok(None) };
        let everturn_model::Body::User(mut user) = node.entry.body else { return Err(conflict(item)) };
        user.summary = None;
        let promoted = InboxItem { user, parts: node.parts, ..item.clone() };
        if promoted.same_request(item) { Ok(Some(promoted)) } else { Err(conflict(item)) }
    }
}

fn conflict(item: &InboxItem) -> Error {
    Error::Conflict(item.id.to_string())
}

/// A text file that is attached by its address comes with its content, so that the prompt means the same later.
fn attach(part: PartInput, directory: &str) -> Vec<PartInput> {
    let content = match &part.kind {
        PartKind::File { mime, url, .. } if mime.starts_with("text/") => {
            url.strip_prefix("file://").and_then(|path| {
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                let path = std::path::Path::new(directory).join(decode(path));
                let text = std::fs::read_to_string(&path).ok()?;
                Some(format!("Attached file {}:\n{text}", path.display()))
            })
        }
        _ => None,
    };
    let mut parts = Vec::new();
    if let Some(text) = content {
        let kind = PartKind::Text { text, synthetic: Some(true), ignored: None, time: None, metadata: None };
        parts.push(PartInput { id: None, kind });
    }
    parts.push(part);
    parts
}

/// An address's path with its `%xx` read.
fn decode(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded() {
        assert_eq!(decode("/srv/a%20b/%C3%A9.txt"), "/srv/a b/é.txt");
        assert_eq!(decode("/srv/100%/x%zz"), "/srv/100%/x%zz");
    }
}
