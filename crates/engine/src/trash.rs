//! The trash: what is in it, taking sessions out again, and deleting them for good.
//!
//! [`Sessions::trash`](crate::sessions::Sessions::trash) puts a session into it together with those that belong to it, and
//! they come out or go for good together too. Nothing is deleted for good unless somebody asks for it, or has said how
//! long the trash is kept.

use std::collections::BTreeSet;
use std::time::Duration;

use everturn_model::{Event, Millis, Session, SessionId};
use everturn_store::{ArchivedSessions, Filter, Lease, Retention, Store};
pub use everturn_store::{Erasure, Swept, Tombstone};

use crate::Error;
use crate::drains::{Drains, SessionPause};
use crate::family::{Families, Family};
use crate::journal::Journal;
use crate::outputs::ToolOutputs;

/// The sessions in the trash; clones share it.
#[derive(Debug, Clone)]
pub struct Trash {
    store: Store,
    journal: Journal,
    drains: Drains,
    outputs: ToolOutputs,
}

impl Trash {
    /// The trash of a store.
    pub(crate) fn new(store: Store, journal: Journal, drains: Drains, outputs: ToolOutputs) -> Self {
        Self { store, journal, drains, outputs }
    }

    /// What is in it, the newest sessions first, without those that went there because they belong to another one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self) -> Result<Vec<Session>, Error> {
        let all = self.all().await?;
        let ids: BTreeSet<SessionId> = all.iter().map(|session| session.id.clone()).collect();
        let alone = |session: &Session| session.parent.as_ref().is_none_or(|parent| !ids.contains(parent));
        let mut heads: BTreeSet<SessionId> =
            all.iter().filter(|session| alone(session)).map(|session| session.id.clone()).collect();
        let families = Families::of(&all);
        let mut shown: BTreeSet<SessionId> = heads.iter().flat_map(|id| families.members(id)).collect();
        // Of those that belong to each other, the newest stands for all.
        for session in &all {
            if !shown.contains(&session.id) {
                heads.insert(session.id.clone());
                shown.extend(families.members(&session.id));
            }
        }
        Ok(all.into_iter().filter(|session| heads.contains(&session.id)).collect())
    }

    /// A session in it; none when it is not there.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        let session = self.store.session(id).await?;
        Ok(session.filter(|session| session.time.trashed.is_some()))
    }

    /// Takes a session out of it, with those that belong to it, and says which.
    ///
    /// # Errors
    /// When it is not in the trash.
    pub async fn restore(&self, id: &SessionId) -> Result<Vec<SessionId>, Error> {
        if self.find(id).await?.is_none() {
            return Err(Error::NoSession(id.clone()));
        }
        let mut family = Family::of(id);
        while let Some(parent) = family.next() {
            family.add(self.children(&parent, true).await?.into_iter().map(|child| child.id));
        }
        let family = family.into_members();
        // Those that belong to others first: what is cut off can be asked for again.
        for id in family.iter().rev() {
            self.journal.append(id, vec![Event::SessionRestored {}]).await?;
        }
        Ok(family)
    }

    /// Deletes a session for good, wherever it is and whatever of it can be read, with those that belong to it, and says
    /// which. It cannot be undone.
    ///
    /// # Errors
    /// When there is no such session, or another process runs one of them: then all of them stay.
    pub async fn purge(&self, id: &SessionId) -> Result<Vec<SessionId>, Error> {
        let family: Vec<SessionId> = self.family_ids(id).await?;
        let (mut leases, mut pauses) = (Vec::new(), Vec::new());
        let mut purged = Vec::new();
        let done = match self.take(&family, &mut leases, &mut pauses).await {
            Ok(()) => self.purge_taken(&family, &mut purged).await,
            Err(error) => Err(error),
        };
        for lease in leases.into_iter().filter(|lease| !purged.contains(&lease.session)) {
            self.store.release(lease).await?;
        }
        self.outputs.forget(purged.clone()).await;
        done?;
        if purged.contains(id) { Ok(purged) } else { Err(Error::NoSession(id.clone())) }
    }

    /// Takes all of a family, so that nobody begins to work on one of them while the others go. Work here is stopped.
    async fn take(
        &self,
        family: &[SessionId],
        leases: &mut Vec<Lease>,
        pauses: &mut Vec<SessionPause>,
    ) -> Result<(), Error> {
        for id in family {
            if self.drains.is_running(id) {
                self.drains.abort(id).await?;
            }
            pauses.push(self.drains.pause(id)?);
            match self.store.acquire(id).await {
                Ok(lease) => leases.push(lease),
                // Of which only the log is left: nobody can work on it.
                Err(everturn_store::Error::NoSession(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn purge_taken(&self, family: &[SessionId], purged: &mut Vec<SessionId>) -> Result<(), Error> {
        // Those that belong to others first: what fails leaves none behind whose owner is gone.
        for id in family.iter().rev() {
            if self.store.purge(id, self.journal.mint().now()).await? {
                purged.push(id.clone());
            }
        }
        Ok(())
    }

    /// What has been in the trash for `age` or longer, with those that belong to others: what [`sweep`](Self::sweep) deletes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn due(&self, age: Duration) -> Result<Vec<Session>, Error> {
        // What is kept for no time at all goes, also what a clock that was ahead has put there.
        let limit = match Millis::try_from(age.as_millis()) {
            Ok(0) => Millis::MAX,
            age => self.journal.mint().now().saturating_sub(age.unwrap_or(Millis::MAX)),
        };
        let mut sessions = self.all().await?;
        sessions.retain(|session| session.time.trashed.is_some_and(|trashed| trashed <= limit));
        Ok(sessions)
    }

    /// A session and those that belong to it, wherever they are: what [`purge`](Self::purge) deletes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn family(&self, id: &SessionId) -> Result<Vec<Session>, Error> {
        let mut sessions = Vec::new();
        for id in self.family_ids(id).await? {
            sessions.extend(self.store.session(&id).await?);
        }
        Ok(sessions)
    }

    async fn family_ids(&self, id: &SessionId) -> Result<Vec<SessionId>, Error> {
        let mut family = Family::of(id);
        while let Some(parent) = family.next() {
            for trashed in [true, false] {
                family.add(self.children(&parent, trashed).await?.into_iter().map(|child| child.id));
            }
        }
        Ok(family.into_members())
    }

    async fn children(&self, id: &SessionId, trashed: bool) -> Result<Vec<Session>, Error> {
        let archived = ArchivedSessions::Included;
        let filter = Filter { parent: Some(id.clone()), archived, trashed, ..Filter::default() };
        Ok(self.store.sessions(filter).await?)
    }

    /// Deletes for good what has been in the trash for `age` or longer, and gives the space back.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn sweep(&self, age: Duration) -> Result<Swept, Error> {
        let swept = self.store.sweep(Retention { trash: Some(age) }, self.journal.mint().now()).await?;
        self.outputs.forget(swept.purged.clone()).await;
        Ok(swept)
    }

    /// Gives back the space of what was deleted for good, and deletes nothing itself.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn reclaim(&self) -> Result<Swept, Error> {
        Ok(self.store.sweep(Retention::default(), self.journal.mint().now()).await?)
    }

    /// Makes sure that nothing of what was deleted for good is in a file any more.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn erase(&self) -> Result<Erasure, Error> {
        Ok(self.store.erase_deleted().await?)
    }

    /// When a session was deleted for good; none if it was not.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn purged(&self, id: &SessionId) -> Result<Option<Millis>, Error> {
        let graves = self.store.tombstones().await?;
        Ok(graves.into_iter().find(|grave| grave.session == *id).map(|grave| grave.time))
    }

    async fn all(&self) -> Result<Vec<Session>, Error> {
        Ok(self.store.sessions(Filter { trashed: true, ..Filter::default() }).await?)
    }
}
