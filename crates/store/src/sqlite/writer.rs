//! The writer thread: all writes of this process, in groups.
//!
//! A job that fails is rolled back to its own savepoint and does not disturb the others of its group. Answers are
//! given only after the commit, and the observer hears of events before their appender does, in the order of the log.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use everturn_model::permission::Rule;
use everturn_model::{EntryId, EventId, PartId, SessionId};
use rusqlite::{Connection, params};
use tokio::sync::{oneshot, watch};

use super::{lease, projection};
use crate::append::{Appended, Authority, Lease, NewEvent, Observer};
use crate::{Committed, Error};

/// How many jobs one transaction takes at most.
const GROUP: usize = 256;

pub(super) type Answer<T> = oneshot::Sender<Result<T, Error>>;

#[derive(Debug)]
pub(super) struct Append {
    pub(super) session: SessionId,
    pub(super) authority: Authority,
    pub(super) events: Vec<NewEvent>,
    pub(super) answer: Answer<Appended>,
}

/// A piece of streamed text.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) lease: Lease,
    pub(super) entry: EntryId,
    pub(super) part: PartId,
    pub(super) start: usize,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) enum Job {
    Append(Box<Append>),
    Stream(Box<Piece>),
    Acquire { session: SessionId, owner: lease::Owner, answer: Answer<Lease> },
    Release { lease: Lease, answer: Answer<()> },
    Approve { project: String, rules: Vec<Rule>, time: i64, answer: Answer<()> },
    Project { id: String, data: String, answer: Answer<()> },
}

/// The way to the writer thread; dropping it ends the thread after the jobs that wait.
#[derive(Debug)]
pub(super) struct Handle {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub(super) fn start(
        connection: Connection,
        observer: Option<Observer>,
        commits: watch::Sender<u64>,
    ) -> Result<Self, Error> {
        let (jobs, queue) = channel();
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(&connection, &queue, observer.as_ref(), &commits))
            .map_err(|source| Error::Io { path: "store-writer thread".into(), source })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) fn send(&self, job: Job) -> Result<(), Error> {
        self.jobs.as_ref().ok_or(Error::Closed)?.send(job).map_err(|_| Error::Closed)
    }
}

impl Drop for Handle {
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
enum Done {
    Append(Answer<Appended>, Vec<EventId>, Result<(Appended, Vec<Committed>), Error>),
    Lease(Answer<Lease>, Result<Lease, Error>),
    Plain(Answer<()>, Result<(), Error>),
    Quiet,
}

fn run(
    connection: &Connection,
    queue: &Receiver<Job>,
    observer: Option<&Observer>,
    commits: &watch::Sender<u64>,
) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(job) = queue.try_recv()
        {
            group.push(job);
        }
        commit_group(connection, group, observer);
        commits.send_modify(|count| *count += 1);
    }
}

fn commit_group(connection: &Connection, group: Vec<Job>, observer: Option<&Observer>) {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let text = error.to_string();
        tracing::error!(error = text, "cannot begin a transaction");
        group.into_iter().for_each(|job| refuse(job, &error));
        return;
    }
    let done: Vec<Done> = group.into_iter().map(|job| perform(connection, job, observer.is_some())).collect();
    match connection.execute_batch("COMMIT") {
        Ok(()) => done.into_iter().for_each(|done| acknowledge(done, observer)),
        Err(error) => {
            tracing::error!(error = error.to_string(), "cannot commit");
            if !connection.is_autocommit() {
                drop(connection.execute_batch("ROLLBACK"));
            }
            // The commit may have reached the disk although it reported a failure: the log itself tells.
            for done in done {
                settle(connection, done, &error, observer);
            }
        }
    }
}

fn perform(connection: &Connection, job: Job, observed: bool) -> Done {
    match job {
        Job::Append(job) => {
            let Append { session, authority, events, answer } = *job;
            let ids = events.iter().map(|event| event.id.clone()).collect();
            let result = guarded(connection, || {
                projection::append(connection, &session, &authority, events, observed)
            });
            Done::Append(answer, ids, result)
        }
        Job::Stream(piece) => {
            if let Err(error) = guarded(connection, || projection::save_stream(connection, &piece)) {
                let session = &piece.lease.session;
                tracing::warn!(%session, error = error.to_string(), "streamed text was not saved");
            }
            Done::Quiet
        }
        Job::Acquire { session, owner, answer } => {
            Done::Lease(answer, guarded(connection, || lease::acquire(connection, &session, &owner)))
        }
        Job::Release { lease, answer } => {
            Done::Plain(answer, guarded(connection, || lease::release(connection, &lease)))
        }
        Job::Approve { project, rules, time, answer } => {
            Done::Plain(answer, guarded(connection, || approve(connection, &project, &rules, time)))
        }
        Job::Project { id, data, answer } => {
            let put = || {
                connection
                    .prepare_cached(
                        "INSERT INTO project VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2",
                    )?
                    .execute(params![id, data])?;
                Ok(())
            };
            Done::Plain(answer, guarded(connection, put))
        }
    }
}

/// Runs one job in a savepoint, so that its failure is its own.
fn guarded<T>(connection: &Connection, job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    connection.execute_batch("SAVEPOINT job")?;
    let result = job();
    if result.is_err() {
        connection.execute_batch("ROLLBACK TO job")?;
    }
    connection.execute_batch("RELEASE job")?;
    result
}

fn approve(connection: &Connection, project: &str, rules: &[Rule], time: i64) -> Result<(), Error> {
    let mut statement =
        connection.prepare_cached("INSERT OR IGNORE INTO approval VALUES (?1, ?2, ?3, ?4)")?;
    for rule in rules {
        statement.execute(params![project, rule.permission, rule.pattern, time])?;
    }
    Ok(())
}

fn acknowledge(done: Done, observer: Option<&Observer>) {
    // A caller that went away wants no answer.
    match done {
        Done::Append(answer, _, Ok((appended, committed))) => {
            if let Some(observer) = observer {
                committed.into_iter().for_each(|committed| observer(Arc::new(committed)));
            }
            drop(answer.send(Ok(appended)));
        }
        Done::Append(answer, _, Err(error)) => drop(answer.send(Err(error))),
        Done::Lease(answer, result) => drop(answer.send(result)),
        Done::Plain(answer, result) => drop(answer.send(result)),
        Done::Quiet => {}
    }
}

fn settle(connection: &Connection, done: Done, error: &rusqlite::Error, observer: Option<&Observer>) {
    match done {
        Done::Append(_, ref ids, Ok(_)) => {
            let there = |id: &EventId| matches!(super::reader::find_event(connection, id), Ok(Some(_)));
            let landed = !ids.is_empty() && ids.iter().all(there);
            if landed {
                acknowledge(done, observer);
            } else if let Done::Append(answer, ..) = done {
                drop(answer.send(Err(failure(error))));
            }
        }
        Done::Append(answer, _, Err(own)) => drop(answer.send(Err(own))),
        Done::Lease(answer, _) => drop(answer.send(Err(failure(error)))),
        Done::Plain(answer, _) => drop(answer.send(Err(failure(error)))),
        Done::Quiet => {}
    }
}

fn refuse(job: Job, error: &rusqlite::Error) {
    match job {
        Job::Append(job) => drop(job.answer.send(Err(failure(error)))),
        Job::Acquire { answer, .. } => drop(answer.send(Err(failure(error)))),
        Job::Release { answer, .. } | Job::Approve { answer, .. } | Job::Project { answer, .. } => {
            drop(answer.send(Err(failure(error))));
        }
        Job::Stream(_) => {}
    }
}

/// SQLite's errors cannot be cloned, and each caller of a group needs one.
fn failure(error: &rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            Error::Sqlite(rusqlite::Error::SqliteFailure(*code, text.clone()))
        }
        other => Error::Sqlite(rusqlite::Error::ToSqlConversionFailure(other.to_string().into())),
    }
}
