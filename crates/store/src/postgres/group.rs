//! A group of appends in one transaction.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use everturn_model::{EventId, Record, SessionId};

use tokio_postgres::error::SqlState;

use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::load::LoadedGroup;
use super::pool::{StatementValues, limited};
use super::rows::GroupBatch;
use crate::append::{Appended, StreamPiece};
use crate::feed::sequencer::Sequencer;
use crate::options::{CommitHook, CommitMoment};
use crate::plan::{self, AppendOutcome, AppendPlan, AppendRequest, KnownEvent};
use crate::{Committed, Error, row};

/// What an append came to.
pub(super) type Outcomes = Vec<Result<(Appended, Vec<Arc<Committed>>), Error>>;

/// Who is told of a commit while it is made.
pub(super) struct CommitListeners<'a> {
    pub(super) sequencer: Option<&'a Sequencer>,
    pub(super) hook: Option<&'a CommitHook>,
}

impl CommitListeners<'_> {
    /// Whether anybody wants to see each event.
    fn observe(&self) -> bool {
        self.sequencer.is_some() || self.hook.is_some()
    }

    fn call_hook(&self, moment: CommitMoment, outcomes: &Outcomes) {
        let Some(hook) = self.hook else { return };
        let records: Vec<&Record> = fresh(outcomes).map(|committed| &*committed.record).collect();
        if !records.is_empty() {
            hook(moment, &records);
        }
    }
}

/// What the appends of a group put into the log.
fn fresh(outcomes: &Outcomes) -> impl Iterator<Item = &Arc<Committed>> {
    outcomes.iter().flatten().flat_map(|(_, committed)| committed)
}

/// How a group's transaction failed.
#[derive(Debug)]
pub(super) enum GroupFailure {
    /// Nothing of it was committed.
    Before(ServerFailure),
    /// The commit was sent and no answer came: what it would have come to, and the transaction's number.
    Doubt { outcomes: Outcomes, xid: String, reason: String },
}

/// Commits a group of appends and pieces of streamed text, and says under which number. An append that is refused fails
/// alone. The feed knows of the events before anybody can read them.
pub(super) async fn commit(
    link: &WriterConnection,
    appends: &[&AppendRequest],
    pieces: &[StreamPiece],
    told: &CommitListeners<'_>,
) -> Result<(Outcomes, String), GroupFailure> {
    let prepared = limited(prepare(link, appends, pieces, told.observe())).await;
    let (outcomes, xid, wrote) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return Err(GroupFailure::Before(undo(link, failure).await)),
    };
    if let Some(sequencer) = told.sequencer {
        sequencer.announce(stamp(&xid), fresh(&outcomes));
    }
    told.call_hook(CommitMoment::Before, &outcomes);
    match limited(link.run("COMMIT")).await {
        Ok(()) => {
            told.call_hook(CommitMoment::After, &outcomes);
            Ok((outcomes, xid))
        }
        Err(ServerFailure::Lost(reason)) if wrote => Err(GroupFailure::Doubt { outcomes, xid, reason }),
        // What the server says while it fails itself does not tell what its disk has.
        Err(ServerFailure::Statement { code, text }) if wrote && !is_refusal(&code) => {
            Err(GroupFailure::Doubt { outcomes, xid, reason: text })
        }
        Err(failure) => Err(GroupFailure::Before(failure)),
    }
}

/// A transaction's number as a stamp. One that cannot be read counts as later than every look.
pub(super) fn stamp(xid: &str) -> u64 {
    xid.parse().unwrap_or(u64::MAX)
}

/// Codes with which the server turns a commit down: broken rules and conflicts.
fn is_refusal(code: &SqlState) -> bool {
    code.code().starts_with("23") || code.code().starts_with("40")
}

/// Ends a transaction that failed; a connection on which that is not possible is lost.
async fn undo(link: &WriterConnection, failure: ServerFailure) -> ServerFailure {
    if matches!(failure, ServerFailure::Lost(_)) {
        return failure;
    }
    match limited(link.run("ROLLBACK")).await {
        Ok(()) => failure,
        Err(ServerFailure::Lost(reason)) => ServerFailure::Lost(reason),
        Err(other) => ServerFailure::Lost(format!("{other:?}")),
    }
}

/// Everything up to the commit. Says too whether anything was written.
async fn prepare(
    link: &WriterConnection,
    appends: &[&AppendRequest],
    pieces: &[StreamPiece],
    observed: bool,
) -> Result<(Outcomes, String, bool), ServerFailure> {
    let mut loaded = LoadedGroup::load(link, appends, pieces).await?;
    let mut batch = GroupBatch::default();
    for piece in pieces {
        match loaded.sessions.get(&piece.lease.session) {
            Some(session) if session.admits(piece) => batch.save(session.key, piece),
            _ => {
                let session = &piece.lease.session;
                tracing::warn!(%session, "streamed text was not saved: the lease is lost");
            }
        }
    }
    let outcomes = plan_all(&mut loaded, appends, observed, &mut batch);
    let wrote = !batch.is_empty();
    if wrote {
        batch.write(link).await?;
    }
    Ok((outcomes, loaded.xid, wrote))
}

/// Plans the appends one after the other, each on what those before it left.
fn plan_all(
    loaded: &mut LoadedGroup,
    appends: &[&AppendRequest],
    observed: bool,
    batch: &mut GroupBatch,
) -> Outcomes {
    let mut left: HashMap<&SessionId, usize> = HashMap::new();
    for asked in appends {
        *left.entry(&asked.session).or_default() += 1;
    }
    let repeated = repeated(appends);
    let mut outcomes = Vec::with_capacity(appends.len());
    for asked in appends {
        let follows = left.get_mut(&asked.session).is_some_and(|left| {
            *left -= 1;
            *left > 0
        });
        outcomes.push(plan_one(loaded, asked, follows, observed, &repeated, batch));
    }
    outcomes
}

fn plan_one(
    loaded: &mut LoadedGroup,
    asked: &AppendRequest,
    follows: bool,
    observed: bool,
    repeated: &HashSet<&EventId>,
    batch: &mut GroupBatch,
) -> Result<(Appended, Vec<Arc<Committed>>), Error> {
    let id = &asked.session;
    let known = loaded.known(asked)?;
    if let Some(key) = loaded.sessions.get(id).map(|session| session.key) {
        loaded.reserve(asked, key)?;
    }
    let Some(target) = loaded.sessions.get_mut(id) else { return Err(Error::NoSession(id.clone())) };
    target.check(id)?;
    // A refused append leaves a state that must not be used again.
    let before = follows.then(|| target.state.clone());
    let planned =
        plan::plan(&mut target.state, asked.clone(), &known, observed).and_then(|outcome| match outcome {
            AppendOutcome::Present(appended) => Ok(Err(appended)),
            AppendOutcome::Fresh(mut plan) => Ok(Ok((row::finish(std::mem::take(&mut plan.log))?, plan))),
        });
    match planned {
        Ok(Err(present)) => Ok((present, Vec::new())),
        Ok(Ok(((log, blobs), plan))) => {
            let AppendPlan { session, given_back, mut rows, appended, committed, .. } = *plan;
            rows.blobs.extend(blobs);
            batch.add(target.key, session, log, rows);
            if given_back {
                batch.give_back(target.key);
            }
            for (seq, new) in (appended.first..).zip(&asked.events) {
                if repeated.contains(&new.id) {
                    let (id, session, event) = (new.id.clone(), id.clone(), new.event.clone());
                    loaded.remember(KnownEvent { id, session, seq, event });
                }
            }
            Ok((appended, committed))
        }
        Err(error) => {
            if let Some(before) = before {
                target.state = before;
            }
            Err(error)
        }
    }
}

/// Events that several appends of the group have: the later ones have to know of the first.
fn repeated<'a>(appends: &[&'a AppendRequest]) -> HashSet<&'a EventId> {
    let mut seen = HashSet::new();
    let all = appends.iter().flat_map(|asked| &asked.events).map(|event| &event.id);
    all.filter(|id| !seen.insert(*id)).collect()
}

/// Whether the transaction of a commit without an answer took place. Waits until it is over.
pub(super) async fn took_place(
    link: &WriterConnection,
    xid: &str,
    appends: &[&AppendRequest],
    outcomes: &Outcomes,
) -> Result<bool, ServerFailure> {
    while in_progress(link, xid).await? {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let sessions: Vec<&str> = appends.iter().map(|asked| asked.session.as_str()).collect();
    let fresh = appends.iter().zip(outcomes).filter_map(|(asked, outcome)| match outcome {
        Ok((appended, _)) if appended.fresh => Some((asked, appended.first)),
        _ => None,
    });
    let mut expected = HashMap::new();
    for (asked, first) in fresh {
        for (seq, event) in (first..).zip(&asked.events) {
            expected.insert(event.id.as_str(), (asked.session.as_str(), seq));
        }
    }
    let ids: Vec<&str> = expected.keys().copied().collect();
    let statements = &link.statements;
    let (sessions, ids): (StatementValues<'_>, StatementValues<'_>) = (&[&sessions], &[&ids]);
    // The rows are locked first: whatever holds them, the old transaction too, is over when they are ours.
    let (_, _, found) = tokio::try_join!(
        biased;
        link.run("BEGIN"),
        link.query(&statements.lock, sessions),
        link.query(&statements.known, ids),
    )?;
    link.run("ROLLBACK").await?;
    let mut there = 0;
    for row in &found {
        let (id, session): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let seq = super::reader::count(row, 2)?;
        if expected.get(id) == Some(&(session, seq)) {
            there += 1;
        }
    }
    Ok(there == expected.len())
}

/// Whether a transaction still runs. After a crash of the server its number may be unknown or another's; it is over
/// then in any case.
async fn in_progress(link: &WriterConnection, xid: &str) -> Result<bool, ServerFailure> {
    let sql = "SELECT coalesce(pg_xact_status($1::text::xid8), '')";
    match super::pool::query(&link.client, sql, &[&xid]).await {
        Ok(rows) => Ok(rows.first().map(|row| row.try_get::<_, &str>(0)).transpose()? == Some("in progress")),
        Err(ServerFailure::Statement { .. }) => Ok(false),
        Err(failure) => Err(failure),
    }
}
