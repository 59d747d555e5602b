//! The writer task: all appends of this process, in groups.
//!
//! What arrives while a transaction runs forms the next group. A group that the server refuses is tried again one by
//! one, so that one bad append does not disturb the others. A lost connection is made again and the group repeated: it
//! is known that nothing was committed, unless the commit itself was on its way; then the log tells.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use super::address::Address;
use super::failure::ServerFailure;
use super::group::{self, CommitListeners, GroupFailure, Outcomes};
use super::link::WriterConnection;
use super::pause::Pause;
use crate::Error;
use crate::append::{Appended, StreamPiece};
use crate::feed::sequencer::Sequencer;
use crate::options::CommitHook;
use crate::plan::AppendRequest;

/// How many jobs one transaction takes at most.
const GROUP: usize = 256;

/// How long an outage is waited out before callers are told.
const OUTAGE: Duration = Duration::from_secs(30);

/// How many connections a group may break before it is taken apart or given up.
const BREAKS: u32 = 8;

pub(super) enum Job {
    Append(Box<AppendRequest>, JobAnswer),
    Stream(Box<StreamPiece>),
}

type JobAnswer = oneshot::Sender<Result<Appended, Error>>;

/// The way to the writer task; dropping it ends the task after the jobs that wait.
#[derive(Debug)]
pub(super) struct WriterHandle(mpsc::UnboundedSender<Job>);

impl WriterHandle {
    /// Starts the task. It pokes `pokes` after every commit and holds it until it ends.
    pub(super) fn start(
        address: Address,
        link: WriterConnection,
        sequencer: Option<Arc<Sequencer>>,
        hook: Option<CommitHook>,
        pokes: watch::Sender<u64>,
    ) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        let writer = WriterTask { address, link: Some(link), lost: None, sequencer, hook, pokes };
        tokio::spawn(writer.run(queue));
        Self(jobs)
    }

    pub(super) fn send(&self, job: Job) -> Result<(), Error> {
        self.0.send(job).map_err(|_| Error::Closed)
    }
}

/// An append that waits for its commit.
struct PendingAppend {
    asked: AppendRequest,
    answer: JobAnswer,
}

/// Jobs that are tried together.
#[derive(Default)]
struct JobGroup {
    appends: Vec<PendingAppend>,
    pieces: Vec<StreamPiece>,
    /// How often the server refused it.
    refused: u32,
    /// How often the connection broke under it, one time after the other.
    broken: u32,
}

impl JobGroup {
    fn push(&mut self, job: Job) {
        match job {
            Job::Append(asked, answer) => self.appends.push(PendingAppend { asked: *asked, answer }),
            Job::Stream(piece) => self.pieces.push(*piece),
        }
    }

    fn asked(&self) -> Vec<&AppendRequest> {
        self.appends.iter().map(|pending| &pending.asked).collect()
    }

    /// The group in pieces that can fail alone: what is streamed first, as it came before the ends of its parts.
    fn split(self) -> impl DoubleEndedIterator<Item = Self> {
        let pieces = Self { pieces: self.pieces, ..Self::default() };
        let alone = |pending| Self { appends: vec![pending], ..Self::default() };
        std::iter::once(pieces)
            .filter(|group| !group.pieces.is_empty())
            .chain(self.appends.into_iter().map(alone))
    }

    fn is_single(&self) -> bool {
        self.appends.is_empty() || (self.appends.len() == 1 && self.pieces.is_empty())
    }
}

struct WriterTask {
    address: Address,
    link: Option<WriterConnection>,
    /// Since when there is no connection.
    lost: Option<Instant>,
    sequencer: Option<Arc<Sequencer>>,
    hook: Option<CommitHook>,
    pokes: watch::Sender<u64>,
}

impl WriterTask {
    async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Job>) {
        let mut jobs = Vec::with_capacity(GROUP);
        while queue.recv_many(&mut jobs, GROUP).await > 0 {
            let mut group = JobGroup::default();
            jobs.drain(..).for_each(|job| group.push(job));
            let mut groups = VecDeque::from([group]);
            while let Some(group) = groups.pop_front() {
                self.commit(group, &mut groups).await;
            }
        }
    }

    /// Commits a group, or puts what has to be tried again at the front of the others.
    async fn commit(&mut self, group: JobGroup, others: &mut VecDeque<JobGroup>) {
        let link = match self.link().await {
            Ok(link) => link,
            Err(failure) => return self.give_up(group, failure),
        };
        let told = CommitListeners { sequencer: self.sequencer.as_deref(), hook: self.hook.as_ref() };
        match group::commit(&link, &group.asked(), &group.pieces, &told).await {
            Ok((outcomes, xid)) => {
                self.link = Some(link);
                self.acknowledge(group, outcomes, &xid);
            }
            Err(GroupFailure::Before(ServerFailure::Lost(reason))) => {
                tracing::warn!(reason, "the connection to the database server broke; it is made again");
                self.repeat(group, reason, others);
            }
            Err(GroupFailure::Before(failure)) => {
                self.link = Some(link);
                self.refuse(group, failure, others).await;
            }
            Err(GroupFailure::Doubt { outcomes, xid, reason }) => {
                tracing::warn!(reason, "the connection to the database server broke during a commit");
                drop(link);
                self.resolve(group, outcomes, &xid, reason, others).await;
            }
        }
    }

    /// Tries a group again whose connection broke before its commit. One that breaks every connection is taken apart,
    /// and what still does so alone is given up: it must not keep all others waiting.
    fn repeat(&self, mut group: JobGroup, reason: String, others: &mut VecDeque<JobGroup>) {
        group.broken += 1;
        if group.broken < BREAKS {
            others.push_front(group);
        } else if group.is_single() {
            self.give_up(group, ServerFailure::Lost(reason));
        } else {
            group.split().rev().for_each(|alone| others.push_front(alone));
        }
    }

    /// A connection. During an outage it is tried again for a while; when that is over, once for each group.
    async fn link(&mut self) -> Result<WriterConnection, ServerFailure> {
        if let Some(link) = self.link.take().filter(|link| !link.is_closed()) {
            return Ok(link);
        }
        let lost = *self.lost.get_or_insert_with(Instant::now);
        let mut pause = Pause::default();
        loop {
            match WriterConnection::make(&self.address).await {
                Ok(link) => {
                    self.lost = None;
                    return Ok(link);
                }
                Err(ServerFailure::Lost(reason)) if lost.elapsed() < OUTAGE => {
                    tracing::warn!(reason, "the database server cannot be reached; trying again");
                    pause.wait().await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Deals with a group that the server refused; nothing of it was committed.
    async fn refuse(&self, mut group: JobGroup, failure: ServerFailure, others: &mut VecDeque<JobGroup>) {
        if !group.is_single() {
            group.split().rev().for_each(|alone| others.push_front(alone));
            return;
        }
        if group.refused < failure.chances() {
            group.refused += 1;
            Pause::after(group.refused).wait().await;
            others.push_front(group);
            return;
        }
        self.give_up(group, failure);
    }

    /// Tells the callers of a group that nothing of it was saved.
    fn give_up(&self, group: JobGroup, failure: ServerFailure) {
        let error = failure.into_error(self.address.name());
        if !group.pieces.is_empty() {
            tracing::warn!(error = error.to_string(), "streamed text was not saved");
        }
        for pending in group.appends {
            // A caller that went away wants no answer.
            drop(pending.answer.send(Err(error.clone())));
        }
    }

    /// Finds out what came of a commit that was sent and not answered.
    async fn resolve(
        &mut self,
        group: JobGroup,
        outcomes: Outcomes,
        xid: &str,
        reason: String,
        others: &mut VecDeque<JobGroup>,
    ) {
        for _ in 0..BREAKS {
            let Ok(link) = self.link().await else { break };
            let asked = group.asked();
            let asking = group::took_place(&link, xid, &asked, &outcomes);
            match tokio::time::timeout(OUTAGE, asking).await {
                Ok(Ok(took_place)) => {
                    self.link = Some(link);
                    if took_place {
                        self.acknowledge(group, outcomes, xid);
                    } else {
                        others.push_front(group);
                    }
                    return;
                }
                Ok(Err(ServerFailure::Lost(_))) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        for (pending, outcome) in group.appends.into_iter().zip(outcomes) {
            let session = pending.asked.session.to_string();
            let answer = match outcome {
                Ok(_) => Err(Error::Unknown { session, reason: reason.clone() }),
                Err(error) => Err(error),
            };
            drop(pending.answer.send(answer));
        }
    }

    /// The observer hears of events before their appender does, in the order of the log.
    fn acknowledge(&self, group: JobGroup, outcomes: Outcomes, xid: &str) {
        let stamp = group::stamp(xid);
        let mut fresh = false;
        let mut answers = Vec::with_capacity(group.appends.len());
        for (pending, outcome) in group.appends.into_iter().zip(outcomes) {
            let answer = outcome.map(|(appended, committed)| {
                if let Some(sequencer) = &self.sequencer {
                    sequencer.commit(stamp, &committed);
                }
                fresh |= appended.fresh;
                appended
            });
            answers.push((pending.answer, answer));
        }
        for (way, answer) in answers {
            // A caller that went away wants no answer.
            drop(way.send(answer));
        }
        if fresh {
            self.pokes.send_modify(|count| *count += 1);
        }
    }
}
