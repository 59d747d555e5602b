//! Checking a session: does its log make sense, and are its rows what the log says.

use std::fmt;

use everturn_model::{Millis, SessionId};

use super::compare::RowComparison;
use super::stored_session::{self, KeyedId, StoredLog, StoredSession};
use crate::payload::Hash;
use crate::plan;
use crate::store::ask;
use crate::{Error, Store};

/// How many session ids are read at once.
const PAGE: usize = 256;

/// A kind of row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowTable {
    /// The session's own row.
    Session,
    /// An entry.
    Entry,
    /// A part.
    Part,
    /// A waiting prompt.
    Inbox,
    /// A request that waits for a person.
    Request,
    /// The task list.
    Todo,
    /// A line of the bill.
    Bill,
    /// A searchable text.
    Text,
}

impl fmt::Display for RowTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Session => "session",
            Self::Entry => "entry",
            Self::Part => "part",
            Self::Inbox => "waiting prompt",
            Self::Request => "request",
            Self::Todo => "task list",
            Self::Bill => "line of the bill",
            Self::Text => "searchable text",
        })
    }
}

/// Something that is wrong with a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionProblem {
    /// There are rows and no log.
    #[error("there is no log")]
    NoLog,
    /// The log has a hole.
    #[error("the log has no event {expected}; event {found} stands in its place")]
    Gap {
        /// The seq that is missing.
        expected: u64,
        /// The seq that is there instead.
        found: u64,
    },
    /// An event cannot be read.
    #[error("event {seq} cannot be read: {reason}")]
    Unreadable {
        /// Its seq.
        seq: u64,
        /// Why.
        reason: String,
    },
    /// An event holds something that is nested too deep. A rebuild by name cuts it.
    #[error("event {seq} is nested {depth} levels deep, which is too deep to be read; a rebuild cuts it")]
    TooDeep {
        /// Its seq.
        seq: u64,
        /// How deep it is nested.
        depth: usize,
    },
    /// An event does not fit what came before it.
    #[error("event {seq} does not fit what came before it: {reason}")]
    Unfit {
        /// Its seq.
        seq: u64,
        /// Why.
        reason: String,
    },
    /// An event is stored under the name of another kind.
    #[error("event {seq} is stored as {found} and is {expected}")]
    Misnamed {
        /// Its seq.
        seq: u64,
        /// The stored name.
        found: String,
        /// Its real one.
        expected: String,
    },
    /// The lines of the bill do not come to what the session has spent.
    #[error("the lines of its bill do not come to what it has spent")]
    Unbalanced,
    /// A column of the session's row is not what the log says.
    #[error("the column {0} of the session's row is not what the log says")]
    Column(&'static str),
    /// A row is missing.
    #[error("{table} {id} is missing")]
    Missing {
        /// Its kind.
        table: RowTable,
        /// Which one.
        id: String,
    },
    /// A row is there that the log knows nothing of.
    #[error("{table} {id} is there, and the log knows nothing of it")]
    Surplus {
        /// Its kind.
        table: RowTable,
        /// Which one.
        id: String,
    },
    /// A row cannot be read.
    #[error("{table} {id} cannot be read: {reason}")]
    Garbled {
        /// Its kind.
        table: RowTable,
        /// Which one.
        id: String,
        /// Why.
        reason: String,
    },
    /// A row says something else than the log.
    #[error("{table} {id} is not what the log says")]
    Differs {
        /// Its kind.
        table: RowTable,
        /// Which one.
        id: String,
    },
    /// A row stands elsewhere among its like than the log says.
    #[error("{table} {id} stands in the wrong place")]
    Misplaced {
        /// Its kind.
        table: RowTable,
        /// Which one.
        id: String,
    },
    /// A blob that the session needs is not there, or holds other bytes.
    #[error("blob {hash} is missing or damaged")]
    Blob {
        /// Its name.
        hash: Hash,
    },
    /// A blob that the session needs is not noted as used by it, so that it could be collected.
    #[error("blob {hash} is not noted as used")]
    Unnoted {
        /// Its name.
        hash: Hash,
    },
}

impl SessionProblem {
    /// True when the log itself is wrong, so that a rebuild cannot help.
    #[must_use]
    pub fn is_in_log(&self) -> bool {
        self.seq().is_some()
    }

    /// The first event that a fold cannot take, for problems of the log itself.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::NoLog => Some(0),
            Self::Gap { expected: seq, .. } | Self::Unreadable { seq, .. } | Self::Unfit { seq, .. } => {
                Some(*seq)
            }
            _ => None,
        }
    }
}

/// What a check of one session found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCheck {
    /// The session.
    pub session: SessionId,
    /// How many events its log has.
    pub events: u64,
    /// What is wrong. While the log itself is wrong, rows are not compared with it.
    pub problems: Vec<SessionProblem>,
}

impl SessionCheck {
    /// True when nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// True when a rebuild from the log makes it sound.
    #[must_use]
    pub fn can_be_rebuilt(&self) -> bool {
        !self.problems.iter().any(SessionProblem::is_in_log)
    }

    fn summary(&self) -> String {
        let first = self.problems.first().map(ToString::to_string).unwrap_or_default();
        match self.problems.len() {
            0 | 1 => first,
            count => format!("{first} (and {} more)", count - 1),
        }
    }
}

/// What a check of all sessions found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How many sessions were looked at.
    pub sessions: u64,
    /// How many events.
    pub events: u64,
    /// The ones that something is wrong with.
    pub damaged: Vec<SessionCheck>,
    /// The ones that could not be read at all, and why.
    pub unread: Vec<(SessionId, String)>,
}

impl CheckReport {
    /// True when nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.unread.is_empty()
    }
}

impl Store {
    /// Checks a session: its log has no gaps, every event can be read and fits, and the rows are what the log says.
    ///
    /// # Errors
    /// When there is no such session, or the database cannot be read.
    pub async fn verify(&self, id: &SessionId) -> Result<SessionCheck, Error> {
        let Some(stored) = self.stored(id).await? else { return Err(self.missing(id).await?) };
        verify(self, id, &stored).await
    }

    /// Checks all sessions, one at a time, with those in the trash. With a time, the damaged ones are set aside then.
    ///
    /// # Errors
    /// When the database cannot be read at all; a session that cannot be read is in the report.
    pub async fn verify_all(&self, aside: Option<Millis>) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let mut after = None;
        loop {
            let page = self.ids(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(report) };
            after = Some(last.key);
            for KeyedId { id, .. } in page {
                let reason = match self.verify(&id).await {
                    Ok(verdict) => {
                        report.sessions += 1;
                        report.events += verdict.events;
                        if verdict.is_sound() {
                            continue;
                        }
                        let reason = verdict.summary();
                        report.damaged.push(verdict);
                        reason
                    }
                    // Deleted since the list was read.
                    Err(Error::Purged(_) | Error::NoSession(_)) => continue,
                    Err(Error::Closed) => return Err(Error::Closed),
                    Err(error) => {
                        report.sessions += 1;
                        report.unread.push((id.clone(), error.to_string()));
                        error.to_string()
                    }
                };
                if let Some(time) = aside {
                    self.set_aside(&id, &reason, time).await?;
                }
            }
        }
    }

    pub(crate) async fn stored(&self, id: &SessionId) -> Result<Option<StoredSession>, Error> {
        ask!(self, engine => engine.stored(id).await)
    }

    /// A page of all sessions, in the order of their keys, from behind one: an id may be damaged.
    pub(crate) async fn ids(&self, after: Option<i64>, limit: usize) -> Result<Vec<KeyedId>, Error> {
        ask!(self, engine => engine.ids(after, limit).await)
    }

    pub(crate) async fn missing(&self, id: &SessionId) -> Result<Error, Error> {
        let purged = self.is_purged(id).await?;
        Ok(if purged { Error::Purged(id.clone()) } else { Error::NoSession(id.clone()) })
    }
}

async fn verify(store: &Store, id: &SessionId, stored: &StoredSession) -> Result<SessionCheck, Error> {
    let log = stored_session::read(store, id, &stored.log).await?;
    let StoredLog { records, named, mut problems, .. } = log;
    for (row, record) in stored.log.iter().zip(&records) {
        if !record.event.is_stored_as(&row.name) {
            let expected = record.event.stored_name();
            problems.push(SessionProblem::Misnamed { seq: row.seq, found: row.name.clone(), expected });
        }
    }
    let mut check = RowComparison { store, stored, named, problems };
    if check.problems.iter().all(|problem| !problem.is_in_log()) {
        match plan::replay(id, &records) {
            Ok(Some(replayed)) => check.rows(&replayed).await?,
            Ok(None) => {}
            Err(stuck) => check.problems.push(SessionProblem::Unfit { seq: stuck.seq, reason: stuck.reason }),
        }
    }
    check.blobs().await?;
    let events = u64::try_from(stored.log.len()).unwrap_or(u64::MAX);
    Ok(SessionCheck { session: id.clone(), events, problems: check.problems })
}
