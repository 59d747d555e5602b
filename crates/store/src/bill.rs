//! What sessions have used, asked of the bills of all of them at once.
//!
//! A bill has a line for each step, title and the like, which the append that says so writes too, so nothing here reads
//! logs. Only sessions of earlier versions have no bill at first: theirs is made of their log when [`Store::settle_bills`]
//! is called.

use std::collections::HashMap;

use everturn_model::{Millis, Money, SessionId, Tokens};

use crate::row::{BillRow, SpentSums};
use crate::store::ask;
use crate::{Error, Store, plan};

/// By what uses are added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UseGroup {
    /// All together.
    Everything,
    /// By model.
    Model,
    /// By the project that the session is in now.
    Project {
        /// The project of all that is in no repository: its sessions are added up by the folder that they are in now.
        by_folder: String,
    },
    /// By these spans of time, each from its first moment to before its last.
    Spans(Vec<(Millis, Millis)>),
}

/// What one of the sums is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UseKey {
    /// Everything.
    Everything,
    /// A provider and its model; none where no model is known.
    Model(Option<(String, String)>),
    /// The id of a project.
    Project(String),
    /// A folder of the project that is added up by folder.
    Folder(String),
    /// Which span of those that were asked for.
    Span(usize),
}

/// Which uses are meant, and by what they are added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseQuery {
    /// By what.
    pub group: UseGroup,
    /// Those at or after this moment.
    pub since: Millis,
}

/// What was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseSum {
    /// What this is about.
    pub key: UseKey,
    /// In how many sessions.
    pub sessions: u64,
    /// How often.
    pub uses: u64,
    /// How much.
    pub tokens: Tokens,
    /// What it cost.
    pub cost: Money,
}

/// A session whose bill cannot be made, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbilled {
    /// The session.
    pub session: SessionId,
    /// Why.
    pub reason: String,
}

/// A row of sums as both engines give it: two names, sessions, uses, sums.
#[derive(Debug)]
pub(crate) struct UseRow {
    pub(crate) names: (String, String),
    pub(crate) sessions: u64,
    pub(crate) uses: u64,
    pub(crate) spent: SpentSums,
}

impl UseRow {
    fn sum(self, group: &UseGroup) -> UseSum {
        let (first, second) = self.names;
        let key = match group {
            UseGroup::Everything => UseKey::Everything,
            UseGroup::Model if first.is_empty() && second.is_empty() => UseKey::Model(None),
            UseGroup::Model => UseKey::Model(Some((first, second))),
            UseGroup::Project { .. } if second.is_empty() => UseKey::Project(first),
            UseGroup::Project { .. } => UseKey::Folder(second),
            UseGroup::Spans(_) => UseKey::Span(first.parse().unwrap_or(usize::MAX)),
        };
        let (tokens, cost) = (self.spent.tokens(), self.spent.money());
        UseSum { key, sessions: self.sessions, uses: self.uses, tokens, cost }
    }
}

impl Store {
    /// What was used, added up. Sessions whose bill is not made yet are not in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn uses(&self, query: UseQuery) -> Result<Vec<UseSum>, Error> {
        let UseQuery { group, since } = query;
        let rows = ask!(self, engine => engine.uses(group.clone(), since).await)?;
        let mut sums: Vec<UseSum> = rows.into_iter().map(|row| row.sum(&group)).collect();
        sums.retain(|sum| sum.uses > 0);
        sums.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(sums)
    }

    /// When the first of all uses was.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn first_use(&self) -> Result<Option<Millis>, Error> {
        ask!(self, engine => engine.first_use().await)
    }

    /// What each of these sessions has used together with those that belong to it, and to those; also in the archive and
    /// in the trash.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn family_totals(
        &self,
        roots: Vec<SessionId>,
    ) -> Result<HashMap<SessionId, crate::Totals>, Error> {
        let rows = ask!(self, engine => engine.family_totals(roots).await)?;
        let totals = rows.into_iter().map(|row| {
            let (tokens, cost) = (row.spent.tokens(), row.spent.money());
            (SessionId::new(row.names.0), crate::Totals { sessions: row.sessions, tokens, cost })
        });
        Ok(totals.collect())
    }

    /// Makes the bills of sessions that have none, which earlier versions left. Gives those of which the log cannot be
    /// read; while the store may only be read, all that have none.
    ///
    /// # Errors
    /// When the database cannot be read, or the disk refuses.
    pub async fn settle_bills(&self) -> Result<Vec<Unbilled>, Error> {
        let mut unbilled = Vec::new();
        for session in ask!(self, engine => engine.unbilled().await)? {
            if let Some(reason) = self.read_only() {
                unbilled.push(Unbilled { session, reason: reason.to_string() });
                continue;
            }
            match self.bill_of_log(&session).await {
                Ok(Some(bill)) => ask!(self, engine => engine.put_bill(&session, bill).await)?,
                // Deleted meanwhile.
                Ok(None) => {}
                Err(error @ (Error::Broken { .. } | Error::Corrupt { .. } | Error::Damaged { .. })) => {
                    unbilled.push(Unbilled { session, reason: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(unbilled)
    }

    async fn bill_of_log(&self, session: &SessionId) -> Result<Option<Vec<BillRow>>, Error> {
        let records = self.events(session, None, usize::MAX).await?;
        let replayed = plan::replay(session, &records).map_err(|stuck| Error::Broken {
            session: session.clone(),
            seq: stuck.seq,
            reason: stuck.reason,
        })?;
        Ok(replayed.map(|replayed| replayed.rows.bill))
    }
}
