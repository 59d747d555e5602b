//! Following logs.
//!
//! A [`Watch`] follows one session, a [`Feed`] all of them from now on. Both are cursors, not subscriptions: they read
//! what stands behind their place and then wait. So they can neither miss an event nor see one twice, whoever wrote it
//! and however slow their reader is. Commits of this process wake them at once; those of other processes are found by
//! looking again, and where the database can tell of them, as soon as it does.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everturn_model::{Record, SessionId};
use tokio::sync::watch;

use crate::{Error, Store};

/// How many events are read at once.
const PAGE: usize = 256;

/// A moment in the history of the database, in the engine's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) String);

/// What wakes those who follow.
#[derive(Debug)]
pub(crate) struct Wakes {
    look: Duration,
    commits: watch::Sender<u64>,
    /// The last known seq of each session that is followed, and by how many.
    heads: Mutex<HashMap<SessionId, (usize, Option<u64>)>>,
    /// Somebody else committed and it is not known what.
    stale: AtomicBool,
    /// What is known of other processes, and since when.
    looked: tokio::sync::Mutex<Option<(Instant, Position)>>,
}

impl Wakes {
    pub(crate) fn new(look: Duration) -> Self {
        Self {
            look,
            commits: watch::channel(0).0,
            heads: Mutex::default(),
            stale: AtomicBool::new(false),
            looked: tokio::sync::Mutex::default(),
        }
    }

    /// Sessions have new events.
    pub(crate) fn note(&self, changed: &[(SessionId, u64)]) {
        {
            let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, seq) in changed {
                if let Some((_, head)) = heads.get_mut(id) {
                    *head = Some(head.map_or(*seq, |head| head.max(*seq)));
                }
            }
        }
        self.commits.send_modify(|count| *count += 1);
    }

    /// Something changed elsewhere.
    pub(crate) fn note_outside(&self) {
        self.stale.store(true, Ordering::Release);
        self.commits.send_modify(|count| *count += 1);
    }

    fn enter(&self, id: &SessionId) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.entry(id.clone()).or_insert((0, None)).0 += 1;
    }

    fn leave(&self, id: &SessionId) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = heads.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                heads.remove(id);
            }
        }
    }

    fn head(&self, id: &SessionId) -> Option<u64> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).get(id).and_then(|(_, head)| *head)
    }

    /// Waits until there may be something new.
    async fn wait(&self, seen: &mut watch::Receiver<u64>) -> Result<(), Error> {
        tokio::select! {
            changed = seen.changed() => changed.map_err(|_| Error::Closed),
            () = tokio::time::sleep(self.look) => Ok(()),
        }
    }

    /// Asks what changed elsewhere, once for all who follow, unless that was asked just now.
    async fn look(&self, store: &Store) -> Result<(), Error> {
        let mut looked = self.looked.lock().await;
        let question = PositionQuery::put(&self.stale);
        match looked.as_ref() {
            Some((at, _)) if !question.stale && at.elapsed() < self.look => {}
            Some((_, position)) => {
                let (changed, now) = store.changed(position).await?;
                *looked = Some((Instant::now(), now));
                if !changed.is_empty() {
                    self.note(&changed);
                }
            }
            None => *looked = Some((Instant::now(), store.position().await?)),
        }
        question.answered();
        Ok(())
    }
}

/// A question to the database. If it gets no answer, because it failed or nobody waits for it any more, the next one
/// who follows has to put it again.
struct PositionQuery<'w> {
    flag: &'w AtomicBool,
    stale: bool,
}

impl<'w> PositionQuery<'w> {
    fn put(flag: &'w AtomicBool) -> Self {
        Self { flag, stale: flag.swap(false, Ordering::AcqRel) }
    }

    fn answered(mut self) {
        self.stale = false;
    }
}

impl Drop for PositionQuery<'_> {
    fn drop(&mut self) {
        if self.stale {
            self.flag.store(true, Ordering::Release);
        }
    }
}

/// A place in a session's log from which to read on.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    wakes: Arc<Wakes>,
    session: SessionId,
    after: Option<u64>,
    seen: watch::Receiver<u64>,
    fresh: bool,
}

impl Watch {
    pub(crate) fn new(store: Store, wakes: Arc<Wakes>, session: SessionId, after: Option<u64>) -> Self {
        wakes.enter(&session);
        let seen = wakes.commits.subscribe();
        Self { store, wakes, session, after, seen, fresh: true }
    }

    /// The next events, at least one, in order. It may be dropped at any point without losing any.
    ///
    /// # Errors
    /// When the log cannot be read. `Purged` when the session was deleted for good; where another process did that,
    /// a watch that is already waiting may go on waiting instead.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            // Marked as seen before reading: a commit during the read wakes the wait below.
            self.seen.borrow_and_update();
            // Before the log is read, so that nothing falls between. Each time, and not only after a wait: a caller
            // with less patience than a wait is long would never get there.
            self.wakes.look(&self.store).await?;
            if self.fresh || self.wakes.head(&self.session) > self.after {
                let page = self.store.events(&self.session, self.after, PAGE).await?;
                // After a full page there may be more that nothing announces again.
                self.fresh = page.len() == PAGE;
                if let Some(last) = page.last() {
                    self.after = Some(last.seq);
                    return Ok(page);
                }
                if self.store.is_purged(&self.session).await? {
                    return Err(Error::Purged(self.session.clone()));
                }
            }
            self.wakes.wait(&mut self.seen).await?;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wakes.leave(&self.session);
    }
}

/// Everything that happens in the whole instance from now on: each event once, in the order of its session.
#[derive(Debug)]
pub struct Feed {
    store: Store,
    wakes: Arc<Wakes>,
    start: Position,
    now: Position,
    seen: watch::Receiver<u64>,
    /// How far each session was read that changed since the start.
    cursors: HashMap<SessionId, Option<u64>>,
    /// Sessions that have something to read.
    waiting: VecDeque<SessionId>,
}

impl Feed {
    pub(crate) async fn new(store: Store, wakes: Arc<Wakes>) -> Result<Self, Error> {
        let seen = wakes.commits.subscribe();
        let start = store.position().await?;
        let (cursors, waiting) = (HashMap::new(), VecDeque::new());
        Ok(Self { store, wakes, now: start.clone(), start, seen, cursors, waiting })
    }

    /// A session that cannot be read is reported once, and must not hold up the others.
    fn skip(&mut self, error: Error) -> Error {
        if matches!(error, Error::Corrupt { .. } | Error::Damaged { .. } | Error::Purged(_)) {
            self.waiting.pop_front();
        }
        error
    }

    /// The next events, at least one, all of one session. It may be dropped at any point without losing any.
    ///
    /// # Errors
    /// When a log cannot be read; the others are read on by asking again.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            while let Some(id) = self.waiting.front().cloned() {
                let after = match self.cursors.get(&id) {
                    Some(after) => *after,
                    None => {
                        let first = match self.store.first_since(&id, &self.start).await {
                            Err(error) => return Err(self.skip(error)),
                            Ok(first) => first,
                        };
                        let Some(first) = first else {
                            self.waiting.pop_front();
                            continue;
                        };
                        let after = first.checked_sub(1);
                        self.cursors.insert(id.clone(), after);
                        after
                    }
                };
                let page = match self.store.events(&id, after, PAGE).await {
                    Err(error) => return Err(self.skip(error)),
                    Ok(page) => page,
                };
                if page.len() < PAGE {
                    self.waiting.pop_front();
                }
                if let Some(last) = page.last() {
                    self.cursors.insert(id, Some(last.seq));
                    return Ok(page);
                }
            }
            self.seen.borrow_and_update();
            let (changed, now) = self.store.changed(&self.now).await?;
            self.now = now;
            for (id, seq) in changed {
                let read = self.cursors.get(&id).is_some_and(|after| *after >= Some(seq));
                if !read {
                    self.waiting.push_back(id);
                }
            }
            if self.waiting.is_empty() {
                self.wakes.wait(&mut self.seen).await?;
            }
        }
    }
}
