//! Recovery: which sessions go on by themselves, after a start and when another process died. How a turn that was cut
//! off is closed is in `turn/leftovers.rs`.

use everturn_model::Session;
use everturn_store::Store;

use crate::Error;
use crate::commands::is_of_command;
use crate::drains::Drains;
use crate::projects::Projects;
use crate::requests::Requests;

/// Wakes sessions that were left with work to do; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Recovery {
    store: Store,
    projects: Projects,
    drains: Drains,
    requests: Requests,
}

impl Recovery {
    /// Recovery of the sessions of a store.
    pub(crate) fn new(store: Store, projects: Projects, drains: Drains, requests: Requests) -> Self {
        Self { store, projects, drains, requests }
    }

    /// Continues every session that a crash or a stop left with work to do.
    pub(crate) async fn recover(&self) -> Result<usize, Error> {
        // Whoever waited for the answer is gone, or gives the command again.
        for (session, request) in self.requests.waiting().await? {
            if is_of_command(&request) {
                self.requests.take_back(&session, &request).await?;
            }
        }
        // Sessions of a project that was moved here go on here.
        self.projects.location(None).await?;
        let mut count = 0;
        for id in self.store.unfinished().await? {
            let Some(session) = self.store.session(&id).await?.filter(|session| !rests(session)) else {
                continue;
            };
            self.drains.wake(&id);
            // To read the session takes a while, and whoever asks before that is told when it goes on.
            if let Some(retry) = &session.retry {
                self.drains.set_status(&id, retry.into());
            }
            count += 1;
        }
        Ok(count)
    }

    /// Continues sessions whose process died while they were at work.
    pub(crate) async fn adopt(&self) -> Result<(), Error> {
        for id in self.store.orphans().await? {
            if !self.drains.is_running(&id) && self.store.session(&id).await?.is_some_and(|row| !rests(&row))
            {
                self.drains.wake(&id);
            }
        }
        self.drains.review_elsewhere();
        Ok(())
    }
}

/// Whether nothing is to be settled in a session and it waits for a person: parked, or with nothing but prompts that a stop holds. To find that out as its owner
/// would take a lease and a reading of all of it, at each start, for as long as nobody goes on with it.
fn rests(session: &Session) -> bool {
    session.shell.is_none() && (session.parked || (session.held && !session.open))
}
