//! Rebuilding rows from the log.

use std::collections::BTreeSet;

use everturn_model::{Millis, SessionId};
use serde_json::json;

use super::audit::Audit;
use super::stored_session::{self, StoredLog, StoredSession, StreamRow};
use crate::payload::{Blob, Hash};
use crate::plan::{self, ReplayedLog};
use crate::row::{LogRow, Rows, SessionRow};
use crate::store::ask;
use crate::{Error, Store, payload};

/// The version of the fold. A change to what events mean in rows raises it, and every store rebuilds the rows that it
/// concerns when it is opened the next time. It rises together with the schema, so that older versions only read what it
/// made.
///
/// Version 2 keeps with a call what it asked and whether it has begun, until it settles. Version 3 keeps that an open turn
/// was asked to stop, until it closes, and with each prompt that waits how often that was asked before; it came with the
/// same schema. Version 4 counts the prompts that wait, and holds them when the session is stopped. All of these concern
/// sessions with work left, which are few; rows in the shapes of version 1 are read as they are.
pub const FOLD_VERSION: i64 = 4;

/// The earliest fold whose rows can be read as they are.
const FIRST_FOLD: i64 = 1;

/// How often a session may change under a rebuild before it is given up.
const TRIES: usize = 64;

/// How many session ids are read at once.
const PAGE: usize = 256;

/// What a rebuild made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The session.
    pub session: SessionId,
    /// How many events were folded.
    pub events: u64,
    /// How many entries that gave.
    pub entries: u64,
    /// How many parts.
    pub parts: u64,
    /// The events that were nested too deep to be read and were cut.
    pub cut: Vec<u64>,
}

/// What a rebuild of all sessions came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuiltAll {
    /// How many sessions were rebuilt.
    pub sessions: u64,
    /// The ones that could not be, and why. They are set aside.
    pub refused: Vec<(SessionId, String)>,
}

/// Rows of a session that replace what is there, in one transaction.
#[derive(Debug)]
pub(crate) struct RebuiltRows {
    pub(crate) id: SessionId,
    /// The last event that the rows are made of. When the log ends elsewhere by now, nothing is written.
    pub(crate) last: u64,
    /// What the log said when the rows were made. A scrub changes that and not where the log ends.
    pub(crate) digest: Hash,
    pub(crate) session: SessionRow,
    /// All rows. Blobs that are there already are overwritten, because they may be damaged.
    pub(crate) rows: Rows,
    /// Rows of the log that get other data and another name; everything else of them stays.
    pub(crate) log: Vec<LogRow>,
    /// Blobs that the log needs, so that they are noted as used.
    pub(crate) uses: BTreeSet<Hash>,
    /// Blobs that the session uses no longer.
    pub(crate) unused: BTreeSet<Hash>,
    /// Blobs of the log, and others that the session uses.
    pub(crate) blobs: Vec<Blob>,
    /// Saved pieces that get another text.
    pub(crate) streams: Vec<StreamRow>,
    /// Whether it is taken back if it was set aside.
    pub(crate) lift: bool,
    /// What is noted of it.
    pub(crate) audit: Option<Audit>,
}

impl RebuiltRows {
    /// The rows of a log as they should be.
    pub(crate) fn of(id: &SessionId, stored: &StoredSession, log: &StoredLog, replayed: ReplayedLog) -> Self {
        let misnamed = stored.log.iter().zip(&log.records).filter_map(|(row, record)| {
            let named = record.event.is_stored_as(&row.name);
            (!named).then(|| LogRow { name: record.event.stored_name(), ..row.clone() })
        });
        Self {
            id: id.clone(),
            last: replayed.session.seq,
            digest: stored_session::digest(&stored.log),
            log: misnamed.collect(),
            session: replayed.session,
            rows: replayed.rows,
            uses: log.named.clone(),
            unused: BTreeSet::new(),
            blobs: Vec::new(),
            streams: Vec::new(),
            lift: true,
            audit: None,
        }
    }

    /// Puts what is left of events that were nested too deep into the log.
    fn cut_log(&mut self, stored: &StoredSession, log: &StoredLog) -> Result<(), Error> {
        if log.cut.is_empty() {
            return Ok(());
        }
        self.log.retain(|row| !log.cut.contains_key(&row.seq));
        self.uses.clear();
        for ((row, record), payload) in stored.log.iter().zip(&log.records).zip(&log.payloads) {
            let Some(json) = log.cut.get(&row.seq) else {
                self.uses.extend(&payload.named);
                continue;
            };
            let packed = payload::pack(json.clone()).map_err(|source| Error::io("compression", source))?;
            // An earlier version's shape keeps its name.
            let named = record.event.is_stored_as(&row.name);
            let name = if named { row.name.clone() } else { record.event.stored_name() };
            self.log.push(LogRow { name, data: packed.data, ..row.clone() });
            self.blobs.extend(packed.blobs);
        }
        let kept: BTreeSet<Hash> = self.blobs.iter().chain(&self.rows.blobs).map(|blob| blob.hash).collect();
        self.unused = log
            .named
            .iter()
            .filter(|hash| !self.uses.contains(hash) && !kept.contains(hash))
            .copied()
            .collect();
        Ok(())
    }
}

fn ids(refused: &[(SessionId, String)]) -> Vec<&SessionId> {
    refused.iter().map(|(id, _)| id).collect()
}

/// Folds a log that was read, or says where it is broken.
pub(crate) fn fold(id: &SessionId, log: &StoredLog) -> Result<ReplayedLog, Error> {
    if let Some(seq) = log.cut.keys().next() {
        let reason = format!("it is nested too deep to be read; `everturn doctor --rebuild {id}` cuts it");
        return Err(Error::Broken { session: id.clone(), seq: *seq, reason });
    }
    fold_cut(id, log)
}

/// Folds a log that was read, with events that had to be cut.
fn fold_cut(id: &SessionId, log: &StoredLog) -> Result<ReplayedLog, Error> {
    let broken = |seq, reason| Error::Broken { session: id.clone(), seq, reason };
    let wrong = log.problems.iter().filter_map(|problem| Some((problem.seq()?, problem.to_string())));
    if let Some((seq, reason)) = wrong.min() {
        return Err(broken(seq, reason));
    }
    let replayed = plan::replay(id, &log.records).map_err(|stuck| broken(stuck.seq, stuck.reason))?;
    replayed.ok_or_else(|| broken(0, "there is no log".to_owned()))
}

impl Store {
    /// Rebuilds a session's rows from its log, and takes the session back if it was set aside. What is nested too deep in
    /// an event to be read is replaced by a note there, and the audit says so.
    ///
    /// # Errors
    /// `Broken` when the log itself is damaged: nothing is changed then. Or when there is no such session, or the disk
    /// refuses.
    pub async fn rebuild(&self, id: &SessionId, time: Millis) -> Result<Rebuilt, Error> {
        self.rebuild_session_with(id, Some(time)).await
    }

    /// Rebuilds the rows of all sessions, one at a time, and notes that they are of this version's fold. Those whose
    /// log is damaged are set aside.
    ///
    /// # Errors
    /// When the database cannot be read, or the disk refuses.
    pub async fn rebuild_all(&self, time: Millis) -> Result<RebuiltAll, Error> {
        let mut all = RebuiltAll::default();
        let mut after = None;
        loop {
            let page = self.ids(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            let these = page.into_iter().map(|session| session.id).collect();
            let these = self.rebuild_these(these, time).await?;
            all.sessions += these.sessions;
            all.refused.extend(these.refused);
        }
        let detail = json!({ "sessions": all.sessions, "refused": ids(&all.refused), "fold": FOLD_VERSION });
        let audit = Audit::new(time, "rebuild", detail);
        ask!(self, engine => engine.note_fold(FOLD_VERSION, audit).await)?;
        Ok(all)
    }

    /// Rebuilds the rows of some sessions. Those whose log is damaged are set aside.
    async fn rebuild_these(&self, these: Vec<SessionId>, time: Millis) -> Result<RebuiltAll, Error> {
        let mut all = RebuiltAll::default();
        for id in these {
            match self.rebuild_session(&id).await {
                Ok(_) => all.sessions += 1,
                Err(Error::Purged(_) | Error::NoSession(_)) => {}
                Err(error @ (Error::Broken { .. } | Error::Corrupt { .. })) => {
                    tracing::error!(session = %id, error = error.to_string(), "a session is set aside");
                    self.set_aside(&id, &error.to_string(), time).await?;
                    all.refused.push((id, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Sessions with work left: an open turn, a prompt that waits, or somebody to be asked.
    async fn left_open(&self) -> Result<Vec<SessionId>, Error> {
        ask!(self, engine => engine.left_open().await)
    }

    /// Rebuilds the rows that this version's fold makes differently, if an older version's made them.
    pub(crate) async fn follow_fold(&self) -> Result<(), Error> {
        if self.read_only().is_some() {
            return Ok(());
        }
        let (found, now) = ask!(self, engine => engine.fold_version().await)?;
        if found < FIRST_FOLD {
            let all = self.rebuild_all(now).await?;
            tracing::info!(from = found, to = FOLD_VERSION, sessions = all.sessions, "rows were made anew");
        } else if found < FOLD_VERSION {
            let all = self.rebuild_these(self.left_open().await?, now).await?;
            let detail =
                json!({ "sessions": all.sessions, "refused": ids(&all.refused), "fold": FOLD_VERSION });
            let audit = Audit::new(now, "rebuild", detail);
            ask!(self, engine => engine.note_fold(FOLD_VERSION, audit).await)?;
            tracing::info!(from = found, to = FOLD_VERSION, sessions = all.sessions, "rows were made anew");
        }
        Ok(())
    }

    /// A rebuild that nobody asked for by name.
    pub(crate) async fn rebuild_session(&self, id: &SessionId) -> Result<Rebuilt, Error> {
        self.rebuild_session_with(id, None).await
    }

    /// A rebuild; with a time, one that a person asked for, which may change the log.
    async fn rebuild_session_with(&self, id: &SessionId, asked: Option<Millis>) -> Result<Rebuilt, Error> {
        for _ in 0..TRIES {
            let Some(stored) = self.stored(id).await? else { return Err(self.missing(id).await?) };
            let log = stored_session::read(self, id, &stored.log).await?;
            let replayed = if asked.is_some() { fold_cut(id, &log)? } else { fold(id, &log)? };
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            let rebuilt = Rebuilt {
                session: id.clone(),
                events: count(log.records.len()),
                entries: count(replayed.rows.entries.len()),
                parts: count(replayed.rows.parts.len()),
                cut: log.cut.keys().copied().collect(),
            };
            let mut rows = RebuiltRows::of(id, &stored, &log, replayed);
            rows.cut_log(&stored, &log)?;
            let detail = match rebuilt.cut.as_slice() {
                [] => json!({ "session": id }),
                cut => json!({ "session": id, "cut": cut }),
            };
            rows.audit = asked.map(|time| Audit::new(time, "rebuild", detail));
            if self.replace_rows(rows).await? {
                return Ok(rebuilt);
            }
        }
        Err(Error::Changing(id.clone()))
    }

    pub(crate) async fn replace_rows(&self, rebuilt: RebuiltRows) -> Result<bool, Error> {
        ask!(self, engine => engine.replace_rows(rebuilt).await)
    }
}
