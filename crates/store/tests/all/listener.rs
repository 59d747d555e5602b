//! Somebody who is told what the feed has, and keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_model::{Record, SessionId};
use everturn_store::{Committed, FeedItem, Observer, Store};
use everturn_testkit::deadline::within;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::events::{begin, titled};
use crate::place::Place;

/// The listening end of an observer.
#[derive(Debug)]
pub(crate) struct Listener(UnboundedReceiver<FeedItem>);

impl Listener {
    /// An observer, and who hears what it is told.
    pub(crate) fn new() -> (Observer, Self) {
        let (sender, receiver) = unbounded_channel();
        (Arc::new(move |item| drop(sender.send(item))), Self(receiver))
    }

    /// A store of that name with somebody who listens.
    pub(crate) async fn open(place: &Place, owner: &str) -> (Store, Self) {
        let (observer, listener) = Self::new();
        (place.open_with(owner, |options| options.observer = Some(observer)).await, listener)
    }

    /// The next thing it is told.
    pub(crate) async fn next(&mut self) -> FeedItem {
        within("what the feed tells next", self.0.recv()).await.unwrap()
    }

    /// What it was told until now.
    pub(crate) fn heard(&mut self) -> Vec<FeedItem> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }

    /// The events it was told of until now.
    pub(crate) fn events(&mut self) -> Vec<Arc<Committed>> {
        self.heard().into_iter().map(committed).collect()
    }

    /// The next event; nothing else may come before it.
    pub(crate) async fn event(&mut self) -> Arc<Committed> {
        committed(self.next().await)
    }

    /// So many events, those of each session.
    pub(crate) async fn gather(&mut self, count: usize) -> BTreeMap<SessionId, Vec<Record>> {
        let mut seen: BTreeMap<SessionId, Vec<Record>> = BTreeMap::new();
        for _ in 0..count {
            let record = self.event().await.record.clone();
            seen.entry(record.session.clone()).or_default().push(Record::clone(&record));
        }
        seen
    }

    /// Nothing waits to be told: what the other one does now is the next thing that is heard.
    pub(crate) async fn check_quiet(&mut self, other: &Store) {
        let id = begin(other).await;
        let next = self.event().await;
        assert_eq!((&next.record.session, next.record.seq), (&id, 0), "nothing else had happened");
        other.append(&id, everturn_store::Authority::Open, vec![titled("quiet")]).await.unwrap();
        let next = self.event().await;
        assert_eq!((&next.record.session, next.record.seq), (&id, 1));
    }
}

fn committed(item: FeedItem) -> Arc<Committed> {
    match item {
        FeedItem::Committed(committed) => committed,
        other => panic!("{other:?}"),
    }
}
