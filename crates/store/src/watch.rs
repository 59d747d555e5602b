//! Following a session's log.
//!
//! A watch is a cursor, not a subscription: it reads what stands behind its seq and then waits. So it can neither miss an
//! event nor see one twice, whoever wrote it and however slow its reader is. Commits of this process wake it at once;
//! those of other processes are found by looking again.

use std::time::Duration;

use everturn_model::{Record, SessionId};
use tokio::sync::watch;

use crate::{Error, Store};

/// How many events are read at once.
const PAGE: usize = 256;

/// How often other processes' commits are looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A place in a session's log from which to read on.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    session: SessionId,
    after: Option<u64>,
    commits: watch::Receiver<u64>,
}

impl Watch {
    pub(crate) fn new(
        store: Store,
        session: SessionId,
        after: Option<u64>,
        commits: watch::Receiver<u64>,
    ) -> Self {
        Self { store, session, after, commits }
    }

    /// The next events, at least one, in order. It may be dropped at any point without losing any.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            // Marked as seen before reading: a commit during the read wakes the wait below.
            self.commits.borrow_and_update();
            let page = self.store.events(&self.session, self.after, PAGE).await?;
            if let Some(last) = page.last() {
                self.after = Some(last.seq);
                return Ok(page);
            }
            tokio::select! {
                changed = self.commits.changed() => changed.map_err(|_| Error::Closed)?,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }
}
