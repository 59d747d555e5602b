//! What can be asked of the store, and the shapes of its answers.

use everturn_model::inbox::InboxItem;
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{EntryId, Millis, Money, PartId, Session, SessionId, Tokens};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::words::Snippet;
use crate::{Error, shape};

/// Which sessions are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Of this project.
    pub project: Option<String>,
    /// In this folder.
    pub directory: Option<String>,
    /// Without those that belong to another session.
    pub roots: bool,
    /// Those that belong to this one.
    pub parent: Option<SessionId>,
    /// Whose title contains this, in any case.
    pub search: Option<String>,
    /// Active at or after this moment.
    pub since: Option<Millis>,
    /// What about archived ones; the trash shows them with the others, unless only they are meant.
    pub archived: ArchivedSessions,
    /// Those in the trash instead of those outside it.
    pub trashed: bool,
    /// At most so many; in pages, so many a page.
    pub limit: Option<u32>,
}

/// What a list does with archived sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchivedSessions {
    /// It leaves them out.
    #[default]
    Excluded,
    /// It shows them with the others.
    Included,
    /// It shows nothing else.
    Only,
}

impl Filter {
    /// What the filter says about archived sessions, as both engines ask for it.
    pub(crate) fn archived_condition(&self) -> &'static str {
        match (self.archived, self.trashed) {
            (ArchivedSessions::Only, _) => " AND archived IS NOT NULL",
            (ArchivedSessions::Excluded, false) => " AND archived IS NULL",
            (ArchivedSessions::Excluded, true) | (ArchivedSessions::Included, _) => "",
        }
    }
}

/// Which page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageRequest<Q> {
    /// The first one of a query.
    First(Q),
    /// The one behind a cursor, of the query that the cursor was given for.
    After(Cursor),
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// The way to the next one; none on the last.
    pub next: Option<Cursor>,
}

/// Which entries of a session's conversation are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathQuery {
    /// The session.
    pub session: SessionId,
    /// The end of the path; none means the session's leaf when the first page is asked for.
    pub leaf: Option<EntryId>,
    /// From the newest back, or from the oldest on.
    pub order: Order,
    /// So many a page.
    pub limit: u32,
}

/// In which direction a list runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// From the newest back.
    #[default]
    Newest,
    /// From the oldest on.
    Oldest,
}

/// The newest part of a session's path.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The session row.
    pub session: Session,
    /// The newest nodes of the path, oldest first.
    pub nodes: Vec<Node>,
    /// Waiting prompts.
    pub inbox: Vec<InboxItem>,
    /// True when the path has more before these.
    pub more: bool,
}

/// Which piece of a session's path is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPiece {
    /// All of it.
    Whole,
    /// The newest entries, until clients show so many messages of them.
    Newest(usize),
    /// The same of the path that ends with an entry, wherever the session's own path ends meanwhile.
    UpTo(EntryId, usize),
    /// An entry of the session's path, and what follows up to the next that clients show as a message: the results of
    /// its calls.
    At(EntryId),
}

/// A piece of a session's path, in the JSON that it is stored as.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPath {
    /// The session row.
    pub session: Session,
    /// The nodes, oldest first.
    pub nodes: Vec<NodeJson>,
    /// Waiting prompts, if the piece ends where they join the path.
    pub inbox: Vec<InboxItem>,
    /// True when the path has more before these.
    pub more: bool,
}

impl StoredPath {
    /// What is wrong when a node cannot be read.
    #[must_use]
    pub fn damaged(&self, reason: &serde_json::Error) -> Error {
        shape::damaged(self.session.id.as_str(), "path", reason)
    }
}

/// Text of a part that is still being streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamText {
    /// The entry.
    pub entry: EntryId,
    /// The part.
    pub part: PartId,
    /// What was saved of it.
    pub text: String,
}

/// What to look for in titles and texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// Words that must all occur; the last one may be unfinished.
    pub text: String,
    /// Only in this project.
    pub project: Option<String>,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// At most so many.
    pub limit: u32,
}

/// A place where the words occur.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// The entry; none when the title itself was found.
    pub entry: Option<EntryId>,
    /// The part; none when the entry's own text was found.
    pub part: Option<PartId>,
    /// The words with what stands around them.
    pub snippet: Snippet,
}

/// What sessions have used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// How many sessions.
    pub sessions: u64,
    /// Tokens of everything that ever ran in them.
    pub tokens: Tokens,
    /// Their cost, exact to a billionth of a dollar for each session.
    pub cost: Money,
}
