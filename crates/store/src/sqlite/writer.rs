//! The writer thread: all writes of this process, in groups.
//!
//! A job that fails is rolled back to its own savepoint and does not disturb the others of its group. Answers are
//! given only after the commit, and the observer hears of events before their appender does, in the order of the log.
//! What the write-ahead log has gathered is moved into the database after the answers, not within somebody's commit.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use everturn_model::{EventId, Record, SessionId};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::write::WrittenAppend;
use super::{index, reader, schema, write};
use crate::Error;
use crate::append::{Appended, Committed, StreamPiece};
use crate::feed::sequencer::Sequencer;
use crate::options::{CommitHook, CommitMoment};
use crate::plan::AppendRequest;

/// How many jobs one transaction takes at most.
const GROUP: usize = 256;

/// How many pages the write-ahead log gathers before they are moved into the database.
const PAGES: i32 = 1000;

pub(super) type JobAnswer<T> = oneshot::Sender<Result<T, Error>>;

/// Tells the asker how it went, once the group is committed or has failed.
pub(super) type WriteFinish = Box<dyn FnOnce(Option<Error>) + Send>;

/// A write, or what keeps it from being tried.
pub(super) type WriteWork = dyn FnOnce(Result<&Connection, Error>) -> WriteFinish + Send;

pub(super) enum Job {
    Append(Box<AppendRequest>, JobAnswer<Appended>),
    Stream(Box<StreamPiece>),
    /// Any other write that takes part in a group.
    Other(Box<WriteWork>),
    /// Work that must not be in a transaction.
    Alone(Box<dyn FnOnce(&mut Connection) + Send>),
}

impl Job {
    /// A write that takes part in a group, and the way to its answer.
    pub(super) fn other<T: Send + 'static>(
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (answer, result) = oneshot::channel();
        let job = Self::Other(Box::new(move |connection| {
            let outcome = connection.and_then(|connection| guarded(connection, || work(connection)));
            Box::new(move |failure| {
                // A caller that went away wants no answer.
                drop(answer.send(failure.map_or(outcome, Err)));
            })
        }));
        (job, result)
    }

    /// Work outside transactions, and the way to its answer.
    pub(super) fn alone<T: Send + 'static>(
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, Error>>) {
        let (answer, result) = oneshot::channel();
        let job = Self::Alone(Box::new(move |connection| drop(answer.send(work(connection)))));
        (job, result)
    }
}

/// The way to the writer thread; dropping it ends the thread after the jobs that wait.
#[derive(Debug)]
pub(super) struct WriterHandle {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl WriterHandle {
    pub(super) fn start(
        connection: Connection,
        path: PathBuf,
        sequencer: Option<Arc<Sequencer>>,
        hook: Option<CommitHook>,
    ) -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let mut writer = WriterThread { connection, path, sequencer, hook, pages: Arc::default() };
        writer.count_pages()?;
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(|source| Error::io("store-writer thread", source))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) fn send(&self, job: Job) -> Result<(), Error> {
        self.jobs.as_ref().ok_or(Error::Closed)?.send(job).map_err(|_| Error::Closed)
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer thread ended with a panic");
        }
    }
}

/// What a job comes to once its group is committed.
enum JobDone {
    Append(PendingAppend),
    Other(WriteFinish),
    Quiet,
}

/// An append that waits for its commit.
struct PendingAppend {
    answer: JobAnswer<Appended>,
    session: SessionId,
    ids: Vec<EventId>,
    result: Result<WrittenAppend, Error>,
}

/// How a group's commit failed.
struct CommitFailure {
    error: Arc<rusqlite::Error>,
    /// The transaction is surely not on the disk.
    certain: bool,
}

struct WriterThread {
    connection: Connection,
    path: PathBuf,
    sequencer: Option<Arc<Sequencer>>,
    hook: Option<CommitHook>,
    /// How many pages the write-ahead log has, as of the last commit.
    pages: Arc<AtomicI32>,
}

impl WriterThread {
    /// Counts the pages in place of SQLite's own hook, which would move them while an appender waits.
    fn count_pages(&mut self) -> Result<(), Error> {
        let pages = Arc::clone(&self.pages);
        let count = move |_: &mut Wal, found| {
            pages.store(found, Ordering::Relaxed);
            Ok(())
        };
        self.connection.wal_hook(Some(count))?;
        Ok(())
    }

    /// Moves the write-ahead log's pages into the database once there are many.
    fn checkpoint(&self) {
        if self.pages.load(Ordering::Relaxed) < PAGES {
            return;
        }
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = moved {
            // They are safe where they are; the next commit tries again.
            tracing::warn!(error = error.to_string(), "the write-ahead log was not moved into the database");
        }
    }

    fn run(&mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut next = Some(first);
            let mut group = Vec::new();
            while let Some(job) = next.take() {
                if let Job::Alone(work) = job {
                    self.commit_all(std::mem::take(&mut group));
                    work(&mut self.connection);
                } else {
                    group.push(job);
                }
                if group.len() < GROUP {
                    next = queue.try_recv().ok();
                }
            }
            self.commit_all(group);
        }
    }

    fn commit_all(&self, mut group: Vec<Job>) {
        while !group.is_empty() {
            group = self.commit_group(group);
        }
        self.checkpoint();
    }

    /// Commits a group. Gives back the jobs that were not tried because the transaction ended before them.
    fn commit_group(&self, group: Vec<Job>) -> Vec<Job> {
        let begun = self.begin(&group);
        let stamp = match begun {
            Ok(stamp) => stamp,
            Err(error) => {
                tracing::error!(error = error.to_string(), "cannot begin a transaction");
                let failure = CommitFailure { error: error.into(), certain: true };
                group.into_iter().for_each(|job| self.refuse(job, &failure));
                return Vec::new();
            }
        };
        let mut done = Vec::with_capacity(group.len());
        let mut indexed = 0;
        let mut jobs = group.into_iter().peekable();
        let mut written = Ok(());
        while let Some(job) = jobs.peek() {
            if matches!(job, Job::Other(_)) {
                // It may look for them, or take the session away.
                written = self.put_texts(&done, &mut indexed);
            }
            if written.is_err() {
                break;
            }
            done.extend(jobs.next().map(|job| self.perform(job, stamp)));
            if self.connection.is_autocommit() {
                break;
            }
        }
        let written = written.and_then(|()| self.put_texts(&done, &mut indexed));
        if let Err(error) = &written {
            tracing::error!(error = error.to_string(), "cannot write the index");
            if !self.connection.is_autocommit() {
                drop(self.connection.execute_batch("ROLLBACK"));
            }
            if let Error::Sqlite(error) = error {
                self.heal(error);
            }
        }
        if self.connection.is_autocommit() {
            // SQLite gave the whole transaction up: nothing of this group is in the file.
            let failure = CommitFailure { error: given_up(&done, written.as_ref().err()), certain: true };
            done.into_iter().for_each(|done| self.settle(done, stamp, &failure));
            return jobs.collect();
        }
        self.announce(&done, stamp);
        self.call_hook(CommitMoment::Before, &done);
        match self.connection.execute_batch("COMMIT") {
            Ok(()) => {
                self.call_hook(CommitMoment::After, &done);
                for done in &done {
                    self.tell(done, stamp);
                }
                self.pass(stamp);
                done.into_iter().for_each(|done| self.acknowledge(done));
            }
            Err(error) => {
                tracing::error!(error = error.to_string(), "cannot commit");
                if !self.connection.is_autocommit() {
                    drop(self.connection.execute_batch("ROLLBACK"));
                }
                self.heal(&error);
                // A failed sync does not tell what the disk has. Everything else happened before the disk had it.
                let certain = error.sqlite_error_code() != Some(ErrorCode::SystemIoFailure);
                let failure = CommitFailure { error: error.into(), certain };
                done.into_iter().for_each(|done| self.settle(done, stamp, &failure));
            }
        }
        Vec::new()
    }

    /// Rebuilds the index, if the error is about the index: what comes next must not fail for it again.
    fn heal(&self, error: &rusqlite::Error) {
        if !index::is_damaged(error) {
            return;
        }
        match index::heal(&self.connection) {
            Ok(()) => tracing::warn!("the full-text index was damaged and has been made anew"),
            Err(error) => tracing::error!(error = error.to_string(), "cannot make the full-text index anew"),
        }
    }

    fn begin(&self, group: &[Job]) -> Result<i64, rusqlite::Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        if !group.iter().any(|job| matches!(job, Job::Append(..))) {
            return Ok(0);
        }
        let newest = schema::NEWEST_COMMIT;
        let next = format!("UPDATE meta SET value = {newest} + 1 WHERE name = 'commits' RETURNING value");
        let stamp = self.connection.prepare_cached(&next);
        let stamp = stamp.and_then(|mut statement| statement.query_row([], |row| row.get(0)));
        if stamp.is_err() && !self.connection.is_autocommit() {
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        stamp
    }

    /// Makes the texts of all jobs from `indexed` on findable.
    fn put_texts(&self, done: &[JobDone], indexed: &mut usize) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        for done in done.iter().skip(*indexed) {
            if let JobDone::Append(PendingAppend {
                result: Ok(WrittenAppend { fresh: Some(fresh), .. }),
                ..
            }) = done
            {
                fresh.put_texts(&self.connection)?;
            }
        }
        *indexed = done.len();
        Ok(())
    }

    fn perform(&self, job: Job, stamp: i64) -> JobDone {
        match job {
            Job::Append(asked, answer) => {
                let (session, ids) = (asked.session.clone(), asked.ids());
                let observed = self.sequencer.is_some() || self.hook.is_some();
                let result =
                    guarded(&self.connection, || write::append(&self.connection, *asked, observed, stamp));
                JobDone::Append(PendingAppend { answer, session, ids, result })
            }
            Job::Stream(piece) => {
                if let Err(error) = guarded(&self.connection, || write::save_stream(&self.connection, &piece))
                {
                    let session = &piece.lease.session;
                    tracing::warn!(%session, error = error.to_string(), "streamed text was not saved");
                }
                JobDone::Quiet
            }
            Job::Other(work) => JobDone::Other(work(Ok(&self.connection))),
            // Taken out before.
            Job::Alone(_) => JobDone::Quiet,
        }
    }

    /// Tells the feed what is about to be committed: from then on others may read it before this thread goes on.
    fn announce(&self, done: &[JobDone], stamp: i64) {
        let Some(sequencer) = &self.sequencer else { return };
        sequencer.announce(u64::try_from(stamp).unwrap_or_default(), fresh(done));
    }

    fn call_hook(&self, moment: CommitMoment, done: &[JobDone]) {
        let Some(hook) = &self.hook else { return };
        let records: Vec<&Record> = fresh(done).map(|committed| &*committed.record).collect();
        if !records.is_empty() {
            hook(moment, &records);
        }
    }

    /// Tells the feed what was committed.
    fn tell(&self, done: &JobDone, stamp: i64) {
        if let (Some(sequencer), JobDone::Append(PendingAppend { result: Ok(written), .. })) =
            (&self.sequencer, done)
        {
            sequencer.commit(u64::try_from(stamp).unwrap_or_default(), &written.committed);
        }
    }

    /// Tells the feed that it has heard of the whole commit.
    fn pass(&self, stamp: i64) {
        // A group without appends has no number.
        if let Some(sequencer) = &self.sequencer
            && let Some(stamp) = u64::try_from(stamp).ok().filter(|stamp| *stamp > 0)
        {
            sequencer.pass(stamp);
        }
    }

    fn acknowledge(&self, done: JobDone) {
        // A caller that went away wants no answer.
        match done {
            JobDone::Append(PendingAppend { answer, result: Ok(WrittenAppend { appended, .. }), .. }) => {
                drop(answer.send(Ok(appended)));
            }
            JobDone::Append(PendingAppend { answer, result: Err(error), .. }) => {
                drop(answer.send(Err(super::named(&self.path, error))));
            }
            JobDone::Other(finish) => finish(None),
            JobDone::Quiet => {}
        }
    }

    fn settle(&self, done: JobDone, stamp: i64, failure: &CommitFailure) {
        match done {
            JobDone::Append(pending) if pending.result.is_ok() => {
                // The commit may have reached the disk although it reported a failure: the log itself tells.
                let there =
                    |id: &EventId| reader::find_event(&self.connection, id).map(|found| found.is_some());
                match pending.ids.iter().map(there).collect::<Result<Vec<_>, _>>() {
                    Ok(found) if !found.is_empty() && found.iter().all(|found| *found) => {
                        let done = JobDone::Append(pending);
                        self.tell(&done, stamp);
                        self.acknowledge(done);
                    }
                    Ok(_) if failure.certain => drop(pending.answer.send(Err(self.failure(failure)))),
                    _ => {
                        let (session, reason) = (pending.session.to_string(), failure.error.to_string());
                        drop(pending.answer.send(Err(Error::Unknown { session, reason })));
                    }
                }
            }
            JobDone::Append(PendingAppend { answer, result, .. }) => {
                let named = |error| super::named(&self.path, error);
                drop(answer.send(result.map(|written| written.appended).map_err(named)));
            }
            JobDone::Other(finish) => finish(Some(self.failure(failure))),
            JobDone::Quiet => {}
        }
    }

    fn refuse(&self, job: Job, failure: &CommitFailure) {
        match job {
            Job::Append(_, answer) => drop(answer.send(Err(self.failure(failure)))),
            Job::Other(work) => work(Err(self.failure(failure)))(None),
            Job::Stream(_) | Job::Alone(_) => {}
        }
    }

    fn failure(&self, failure: &CommitFailure) -> Error {
        super::failure(&self.path, Arc::clone(&failure.error))
    }
}

/// What the appends of a group put into the log.
fn fresh(done: &[JobDone]) -> impl Iterator<Item = &Arc<Committed>> {
    let committed = done.iter().filter_map(|done| match done {
        JobDone::Append(PendingAppend { result: Ok(written), .. }) => Some(&written.committed),
        JobDone::Append(_) | JobDone::Other(_) | JobDone::Quiet => None,
    });
    committed.flatten()
}

/// Why SQLite gave a transaction up: what it said of the index, or to the job during which it happened.
fn given_up(done: &[JobDone], index: Option<&Error>) -> Arc<rusqlite::Error> {
    let job = done.iter().rev().find_map(|done| match done {
        JobDone::Append(PendingAppend { result: Err(error), .. }) => Some(error),
        _ => None,
    });
    match index.or(job) {
        Some(Error::Sqlite(error)) => Arc::clone(error),
        Some(other) => Arc::new(rusqlite::Error::ToSqlConversionFailure(other.to_string().into())),
        None => Arc::new(rusqlite::Error::ToSqlConversionFailure("the transaction was given up".into())),
    }
}

/// Runs one job in a savepoint, so that its failure is its own.
fn guarded<T>(connection: &Connection, job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([]);
    run("SAVEPOINT job")?;
    let result = job();
    if connection.is_autocommit() {
        // The failure took the whole transaction with it.
        return result;
    }
    let undone = if result.is_err() { run("ROLLBACK TO job") } else { Ok(0) };
    if let Err(error) = undone.and_then(|_| run("RELEASE job")) {
        // What the job has done so far must not be committed with the others.
        if !connection.is_autocommit() {
            drop(connection.execute_batch("ROLLBACK"));
        }
        return Err(error.into());
    }
    result
}

#[cfg(test)]
mod tests;
