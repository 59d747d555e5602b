//! Records events: each gets an id and a time and is appended, by anybody or only by the owner of the session.
//!
//! It also reads what is needed before writing: a session or its tree, unless it is in the trash. Live signals are not
//! recorded; they go out over the bus.

use std::sync::Arc;

use everturn_model::inbox::InboxItem;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Event, Record, Session, SessionId, Tree};
use everturn_store::{Appended, Authority, Lease, NewEvent, Store};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::bus::{Bus, Live, SessionUpdate, Signal};
use crate::mint::Mint;

/// Records events and sends signals; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    store: Store,
    mint: Mint,
    bus: Bus,
}

impl Journal {
    /// A journal that writes to a store and signals on a bus.
    pub(crate) fn new(store: Store, mint: Mint, bus: Bus) -> Self {
        Self { store, mint, bus }
    }

    /// New ids and the time.
    pub(crate) fn mint(&self) -> &Mint {
        &self.mint
    }

    /// The bus that signals go out on.
    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Records events that anybody may record.
    pub(crate) async fn append(&self, session: &SessionId, events: Vec<Event>) -> Result<Appended, Error> {
        Ok(self.store.append(session, Authority::Open, self.stamped(events)).await?)
    }

    /// Records the admission of a prompt; refused while a revert is staged.
    pub(crate) async fn append_admission(
        &self,
        session: &SessionId,
        event: Event,
    ) -> Result<Appended, Error> {
        Ok(self.store.append(session, Authority::Admission, self.stamped(vec![event])).await?)
    }

    /// Records that somebody stops a session; refused where there is nothing to stop.
    pub(crate) async fn append_interrupt(&self, session: &SessionId) -> Result<Appended, Error> {
        let event = self.stamped(vec![Event::InterruptRequested {}]);
        Ok(self.store.append(session, Authority::Interrupt, event).await?)
    }

    /// Records events as the owner of the session.
    pub(crate) async fn append_owned(&self, lease: &Lease, events: Vec<Event>) -> Result<Appended, Error> {
        let authority = Authority::Owned(lease.clone());
        Ok(self.store.append(&lease.session, authority, self.stamped(events)).await?)
    }

    /// Records events as the owner of the session, who gives it back with them.
    pub(crate) async fn append_leaving(&self, lease: &Lease, events: Vec<Event>) -> Result<Appended, Error> {
        let authority = Authority::Leaving(lease.clone());
        Ok(self.store.append(&lease.session, authority, self.stamped(events)).await?)
    }

    /// Records events as the owner of the session, who keeps a copy of the tree: the events come back as they are in
    /// the log.
    pub(crate) async fn record_owned(
        &self,
        lease: &Lease,
        events: Vec<Event>,
    ) -> Result<(Appended, Vec<Record>), Error> {
        let new = self.stamped(events);
        let authority = Authority::Owned(lease.clone());
        let appended = self.store.append(&lease.session, authority, new.clone()).await?;
        let record = |(seq, NewEvent { id, time, event })| Record {
            id,
            session: lease.session.clone(),
            seq,
            time,
            event,
            subject: None,
        };
        let records = (appended.first..).zip(new).map(record).collect();
        Ok((appended, records))
    }

    fn stamped(&self, events: Vec<Event>) -> Vec<NewEvent> {
        let time = self.mint.now();
        events.into_iter().map(|event| NewEvent { id: self.mint.event(), time, event }).collect()
    }

    /// Sends a live signal. It never overtakes what was committed to the session before.
    pub(crate) fn signal(&self, session: &Session, signal: Signal) {
        self.signal_unless(&CancellationToken::new(), session, signal);
    }

    /// The same, unless this has fired by then.
    pub(crate) fn signal_unless(&self, lost: &CancellationToken, session: &Session, signal: Signal) {
        let live = Live {
            session: session.id.clone(),
            project: session.project.clone(),
            directory: session.directory.clone(),
            signal,
        };
        let (bus, lost) = (self.bus.clone(), lost.clone());
        self.store.tell_after(&session.id, move || {
            if !lost.is_cancelled() {
                bus.send(SessionUpdate::Live(Arc::new(live)));
            }
        });
    }

    /// A session that is not in the trash.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        let session = self.store.session(id).await?;
        session.filter(|session| session.time.trashed.is_none()).ok_or_else(|| Error::NoSession(id.clone()))
    }

    /// The tree of a session that is not in the trash.
    pub(crate) async fn tree(&self, id: &SessionId) -> Result<Tree, Error> {
        let tree = self.store.tree(id).await?;
        tree.filter(|tree| tree.session.time.trashed.is_none()).ok_or_else(|| Error::NoSession(id.clone()))
    }

    /// The log of a session, whole.
    pub(crate) async fn log(&self, id: &SessionId) -> Result<Vec<Record>, Error> {
        Ok(self.store.events(id, None, usize::MAX).await?)
    }

    /// A prompt that waits in a session's inbox.
    pub(crate) async fn waiting_prompt(
        &self,
        id: &SessionId,
        prompt: &EntryId,
    ) -> Result<Option<InboxItem>, Error> {
        Ok(self.store.waiting_prompt(id, prompt).await?)
    }

    /// An entry of a session with its parts.
    pub(crate) async fn node(&self, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
        Ok(self.store.node(id, entry).await?)
    }

    /// The newest message of a session and what belongs to it.
    pub(crate) async fn newest_nodes(&self, id: &SessionId) -> Result<Vec<Node>, Error> {
        Ok(self.store.tail(id, 1).await?.map(|tail| tail.nodes).unwrap_or_default())
    }

    /// A session and what waits in its inbox, without its conversation.
    pub(crate) async fn outline(&self, id: &SessionId) -> Result<Tree, Error> {
        let now = self.store.tail(id, 0).await?.ok_or_else(|| Error::NoSession(id.clone()))?;
        let mut tree = Tree::new(now.session);
        tree.inbox.extend(now.inbox);
        Ok(tree)
    }
}
