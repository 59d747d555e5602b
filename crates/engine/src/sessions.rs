//! Sessions as a whole: create, read, rename, archive, trash, fork.

mod conversation;
mod moves;

use std::mem::discriminant;

use everturn_model::entry::Body;
use everturn_model::event::{Amendment, SessionChange};
use everturn_model::permission::Rule;
use everturn_model::session::{FileDiff, ModelRef};
use everturn_model::todo::Todo;
use everturn_model::{EntryId, Event, Map, Part, PartId, Session, SessionId, Tree};
pub use everturn_store::{ArchivedSessions, Filter, Hit, PathPiece, StoredPath, StreamingPart};
use everturn_store::{Cut, Fork, Lease, Search, Store};

use crate::bounds;
use crate::drains::Drains;
use crate::family::Family;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::projects::{Location, Projects};
use crate::worker::{is_due, next_work};
use crate::{Error, VERSION};
pub use conversation::Conversation;

/// What a new session begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    /// Its id, where the caller chose one.
    pub id: Option<SessionId>,
    /// The session that it belongs to.
    pub parent: Option<SessionId>,
    /// Its name.
    pub title: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<ModelRef>,
    /// Rules of its own.
    pub permission: Option<Vec<Rule>>,
    /// What a client keeps with it.
    pub metadata: Option<Map>,
}

const DEFAULT_TITLE: &str = "New session - ";
const CHILD_TITLE: &str = "Child session - ";

/// True for a title that nobody chose.
#[must_use]
pub fn is_default_title(title: &str) -> bool {
    [DEFAULT_TITLE, CHILD_TITLE]
        .iter()
        .any(|prefix| title.strip_prefix(prefix).is_some_and(|rest| rest.parse::<jiff::Timestamp>().is_ok()))
}

fn iso(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map(|time| format!("{time:.3}")).unwrap_or_default()
}

const ADJECTIVES: [&str; 16] = [
    "amber", "brisk", "calm", "clear", "eager", "fair", "gentle", "keen", "lively", "mellow", "nimble",
    "proud", "quiet", "steady", "sunny", "warm",
];
const NOUNS: [&str; 16] = [
    "badger", "birch", "brook", "cedar", "comet", "falcon", "harbor", "heron", "lantern", "maple", "meadow",
    "otter", "pebble", "river", "sparrow", "willow",
];

/// The sessions of a store; clones share it.
#[derive(Debug, Clone)]
pub struct Sessions {
    store: Store,
    journal: Journal,
    drains: Drains,
    leases: Leases,
    projects: Projects,
}

impl Sessions {
    /// The sessions of a store.
    pub(crate) fn new(
        store: &Store,
        journal: &Journal,
        drains: &Drains,
        leases: &Leases,
        projects: &Projects,
    ) -> Self {
        let (store, journal, drains) = (store.clone(), journal.clone(), drains.clone());
        Self { store, journal, drains, leases: leases.clone(), projects: projects.clone() }
    }

    /// The parts that other processes are streaming now, with what was saved of their text.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn streaming_parts(&self) -> Result<Vec<StreamingPart>, Error> {
        Ok(self.store.streaming_parts().await?)
    }

    /// Makes a session in a place. If there is one of the id that the caller chose, that is the answer, whatever else was
    /// asked for: it was made by this call, tried before, or by one at the same moment.
    ///
    /// # Errors
    /// When a session of this id is in the trash or was deleted, or the store refuses.
    pub async fn create(&self, location: &Location, new: NewSession) -> Result<Session, Error> {
        bounds::check_new_session(&new)?;
        let id = new.id.clone().unwrap_or_else(|| self.journal.mint().session());
        let session = self.blank(location, id, new);
        let id = session.id.clone();
        let event = Event::SessionCreated { session: Box::new(session) };
        match self.journal.append(&id, vec![event]).await {
            Ok(appended) => Ok((*appended.session).clone()),
            Err(Error::Store(everturn_store::Error::Exists(_))) => match self.get(&id).await {
                Err(Error::NoSession(id)) => Err(Error::Conflict(id.to_string())),
                found => found,
            },
            Err(Error::Store(everturn_store::Error::Purged(id))) => Err(Error::Conflict(id.to_string())),
            Err(error) => Err(error),
        }
    }

    fn blank(&self, location: &Location, id: SessionId, new: NewSession) -> Session {
        let now = self.journal.mint().now();
        let prefix = if new.parent.is_some() { CHILD_TITLE } else { DEFAULT_TITLE };
        let title =
            new.title.filter(|title| !title.is_empty()).unwrap_or_else(|| format!("{prefix}{}", iso(now)));
        let directory = location.directory.display().to_string();
        let mut session = Session::new(id, &location.project.id, &directory, &title, VERSION, now);
        session.slug = self.slug();
        session.path = Some(location.path.clone());
        session.parent = new.parent;
        session.agent = new.agent;
        session.model = new.model;
        session.permission = new.permission;
        session.metadata = new.metadata;
        session
    }

    fn slug(&self) -> String {
        let chance = self.journal.mint().random_fraction();
        let other = self.journal.mint().random_fraction();
        let pick = |list: &[&'static str; 16], chance: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 15")]
            list.get((chance * 15.99) as usize).copied().unwrap_or("calm")
        };
        format!("{}-{}", pick(&ADJECTIVES, chance), pick(&NOUNS, other))
    }

    /// A session.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(&self, id: &SessionId) -> Result<Session, Error> {
        self.journal.session(id).await
    }

    /// Sessions by a filter.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn list(&self, filter: Filter) -> Result<Vec<Session>, Error> {
        Ok(self.store.sessions(filter).await?)
    }

    /// The sessions that belong to one.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn children(&self, id: &SessionId) -> Result<Vec<Session>, Error> {
        Ok(self.store.children(id).await?)
    }

    /// A whole session.
    ///
    /// # Errors
    /// When there is none.
    pub async fn tree(&self, id: &SessionId) -> Result<Tree, Error> {
        self.journal.tree(id).await
    }

    /// A session's log, whole.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn log(&self, id: &SessionId) -> Result<Vec<everturn_model::Record>, Error> {
        self.journal.log(id).await
    }

    /// What happened in a session after an event, or all of it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn log_after(
        &self,
        id: &SessionId,
        seq: Option<u64>,
    ) -> Result<Vec<everturn_model::Record>, Error> {
        Ok(self.store.events(id, seq, usize::MAX).await?)
    }

    /// The task list.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        self.get(id).await?;
        Ok(self.store.todos(id).await?)
    }

    /// The files that one prompt changed, or none for the session as a whole, as V1 answers.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn diff(&self, id: &SessionId, message: Option<&EntryId>) -> Result<Vec<FileDiff>, Error> {
        self.get(id).await?;
        let Some(message) = message else { return Ok(Vec::new()) };
        let node = self.store.node(id, message).await?.ok_or_else(|| Error::NoMessage(message.clone()))?;
        Ok(match node.entry.body {
            Body::User(user) => user.summary.unwrap_or_default().diffs,
            _ => Vec::new(),
        })
    }

    /// Changes fields of a session.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn change(&self, id: &SessionId, changes: Vec<SessionChange>) -> Result<Session, Error> {
        self.update(id, None, changes).await
    }

    /// Gives a session another name and changes fields of it, all of it or nothing.
    ///
    /// # Errors
    /// When there is no such session, or something is too large for its place.
    pub async fn update(
        &self,
        id: &SessionId,
        title: Option<&str>,
        changes: Vec<SessionChange>,
    ) -> Result<Session, Error> {
        title.map_or(Ok(()), bounds::check_title)?;
        bounds::check_changes(&changes)?;
        let session = self.get(id).await?;
        let mut events = Vec::new();
        if let Some(title) = title {
            let (entry, parent) = (self.journal.mint().entry(&session), session.leaf.clone());
            events.push(Event::TitleChanged { entry, parent, title: title.to_owned(), replaces: None });
        }
        if !changes.is_empty() {
            events.push(Event::SessionChanged { changes });
        }
        if events.is_empty() {
            return Ok(session);
        }
        Ok((*self.journal.append(id, events).await?.session).clone())
    }

    /// Puts a session and those that belong to it into the trash, and says which.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn trash(&self, id: &SessionId) -> Result<Vec<SessionId>, Error> {
        self.get(id).await?;
        let mut family = Family::of(id);
        while let Some(parent) = family.next() {
            family.add(self.children(&parent).await?.into_iter().map(|child| child.id));
        }
        let family = family.into_members();
        for id in family.iter().rev() {
            self.drains.abort(id).await?;
            self.journal.append(id, vec![Event::SessionTrashed {}]).await?;
        }
        Ok(family)
    }

    /// Takes a message out of the conversation's view.
    ///
    /// # Errors
    /// When there is no such message, or the session is at work.
    pub async fn hide_message(&self, id: &SessionId, message: &EntryId) -> Result<(), Error> {
        self.amend(id, message, None, Amendment::Hide).await
    }

    /// Takes a part out of a message's view.
    ///
    /// # Errors
    /// When there is no such part, or the session is at work.
    pub async fn hide_part(&self, id: &SessionId, message: &EntryId, part: &PartId) -> Result<(), Error> {
        self.amend(id, message, Some(part), Amendment::Hide).await
    }

    /// Gives a part new content, of the same kind.
    ///
    /// # Errors
    /// When there is no such part, it is of another kind, or the session is at work.
    pub async fn replace_part(&self, id: &SessionId, message: &EntryId, part: Part) -> Result<(), Error> {
        bounds::check_new_part(&part)?;
        let name = part.id.clone();
        self.amend(id, message, Some(&name), Amendment::ReplacePart { part: Box::new(part) }).await
    }

    async fn amend(
        &self,
        id: &SessionId,
        message: &EntryId,
        part: Option<&PartId>,
        change: Amendment,
    ) -> Result<(), Error> {
        self.get(id).await?;
        let node = self.store.node(id, message).await?.ok_or_else(|| Error::NoMessage(message.clone()))?;
        let own =
            part.map(|part| node.part(part).ok_or_else(|| Error::NoPart(part.to_string()))).transpose()?;
        if let (Some(own), Amendment::ReplacePart { part: new }) = (own, &change)
            && discriminant(&own.kind) != discriminant(&new.kind)
        {
            return Err(Error::Invalid(format!(
                "part {} is of another type, and cannot change that",
                own.id
            )));
        }
        let event = Event::EntryAmended { entry: message.clone(), part: part.cloned(), change };
        let amend = |lease: Lease| async move {
            let now = self.journal.outline(&lease.session).await?;
            // A turn that a process left open goes on by itself: only its drain knows what became of its calls.
            if now.session.open && next_work(&now).is_some() {
                return Ok(false);
            }
            self.journal.append_owned(&lease, vec![event]).await.map(|_| true)
        };
        let amended = self.leases.at_rest(id, amend).await?;
        // The session of a process that died has no owner now whose death others could see.
        if is_due(&self.journal.outline(id).await?) {
            self.drains.wake(id);
        }
        if amended { Ok(()) } else { Err(Error::Busy(id.clone())) }
    }

    /// Titles and texts in which all words occur, newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn search(&self, words: &str, limit: u32) -> Result<Vec<Hit>, Error> {
        let search = Search { text: words.to_owned(), limit, ..Search::default() };
        Ok(self.store.search(search).await?)
    }

    /// Copies a conversation into a session of its own: all of it, or what comes before a message.
    ///
    /// # Errors
    /// When there is no such session or message.
    pub async fn fork(&self, id: &SessionId, before: Option<&EntryId>) -> Result<Session, Error> {
        let missing = || Error::NoSession(id.clone());
        let source = self.store.session(id).await?.ok_or_else(missing)?;
        if let Some(message) = before
            && self.store.node(id, message).await?.is_none()
        {
            return Err(Error::NoMessage(message.clone()));
        }
        let new = NewSession { title: Some(fork_title(&source.title)), ..NewSession::default() };
        let location = self.projects.location(Some(&source.directory)).await?;
        let mut session = self.blank(&location, self.journal.mint().session(), new);
        session.foreign_rules.clone_from(&source.foreign_rules);
        let fork = Fork {
            source: id.clone(),
            cut: before.map_or(Cut::Leaf, |message| Cut::Before(message.clone())),
            session,
            events: [self.journal.mint().event(), self.journal.mint().event()],
            time: self.journal.mint().now(),
        };
        Ok((*self.store.fork(fork).await?.session).clone())
    }
}

fn fork_title(title: &str) -> String {
    let base = title.rsplit_once(" (fork #").and_then(|(base, rest)| {
        let number: u64 = rest.strip_suffix(')')?.parse().ok()?;
        Some((base, number + 1))
    });
    let (base, number) = base.unwrap_or((title, 1));
    format!("{base} (fork #{number})")
}
