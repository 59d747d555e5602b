//! What other processes do to the sessions of this one: it is looked for again and again.
//!
//! All looking is here, so that whoever is to be told instead has one place to change.

use std::time::Duration;

use everturn_model::{RequestId, SessionId};
use everturn_store::Store;
use tokio_util::sync::CancellationToken;

/// How often this process looks at what another one does.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// Looks at what other processes do; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    store: Store,
}

impl Elsewhere {
    /// Looks into a store.
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Resolves when it is time to look again whether a session is free.
    pub(crate) async fn may_be_free(&self) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }

    /// Resolves when another process has taken the answer to a request.
    pub(crate) async fn answered(&self, id: &RequestId) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            // What cannot be read now is looked at again.
            if let Ok(None) = self.store.request(id).await {
                return;
            }
        }
    }

    /// Fires `cancel` when another process asks for an interrupt, for as long as the drain lasts.
    pub(crate) async fn watch_interrupts(self, id: SessionId, cancel: CancellationToken) {
        let mut before = None;
        loop {
            // What cannot be read now is looked at again.
            if let Ok(Some(session)) = self.store.session(&id).await {
                let before = *before.get_or_insert(session.interrupts);
                if session.interrupts > before {
                    cancel.cancel();
                    return;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
