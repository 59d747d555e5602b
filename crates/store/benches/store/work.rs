//! The work that is measured: sessions, and entries with a part of text.

use everturn_model::entry::{Body, Entry, User};
use everturn_model::event::Event;
use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::{EntryId, EventId, Part, PartId, PartKind, Session, SessionId};
use everturn_store::{Authority, NewEvent, Store};

/// The moment at which everything happens.
pub(crate) const NOW: i64 = 1_794_711_664_171;

/// Makes ids that never repeat.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ids {
    next: u64,
}

impl Ids {
    /// Ids of one of several that count at the same time.
    pub(crate) fn of(lane: u64) -> Self {
        Self { next: lane << 22 }
    }

    pub(crate) fn stamp(&mut self) -> Stamp {
        self.next += 1;
        Stamp::at(NOW, self.next)
    }

    pub(crate) fn event(&mut self) -> EventId {
        EventId::mint(self.stamp(), [1; RANDOM])
    }

    pub(crate) fn entry(&mut self) -> EntryId {
        EntryId::mint(self.stamp(), [2; RANDOM])
    }

    pub(crate) fn part(&mut self) -> PartId {
        PartId::mint(self.stamp(), [3; RANDOM])
    }
}

pub(crate) fn session_id(number: usize) -> SessionId {
    SessionId::new(format!("ses_{number:026}"))
}

pub(crate) fn session(number: usize) -> Session {
    let time = NOW + i64::try_from(number).unwrap();
    Session::new(session_id(number), "global", "/srv/demo", &format!("Session {number}"), "0.1.0", time)
}

pub(crate) fn created(ids: &mut Ids, number: usize) -> NewEvent {
    NewEvent {
        id: ids.event(),
        time: NOW,
        event: Event::SessionCreated { session: Box::new(session(number)) },
    }
}

/// About a thousand bytes of text of a few thousand words, different each time.
pub(crate) fn text(number: u64) -> String {
    (0..140u64).fold(String::with_capacity(1100), |mut text, at| {
        let mixed = (number << 8 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // Common words come often and rare ones seldom, as in prose.
        let word = (mixed % 64) * (mixed / 64 % 64);
        text.push_str(&format!("word{word:x} "));
        text
    })
}

/// An entry with a part of text behind the one before it.
pub(crate) fn entry(ids: &mut Ids, parent: &mut Option<EntryId>) -> NewEvent {
    let id = ids.entry();
    let entry = Entry::new(id.clone(), parent.replace(id), NOW, Body::User(User::default()));
    let part = Part::new(ids.part(), PartKind::text(text(ids.next)));
    let event = Event::EntryAdded { entry: Box::new(entry), parts: vec![part] };
    NewEvent { id: ids.event(), time: NOW, event }
}

/// Makes a session with so many entries.
pub(crate) async fn long_session(store: &Store, number: usize, entries: usize) -> Option<EntryId> {
    let mut ids = Ids::of(500_000 + u64::try_from(number).unwrap());
    let id = session_id(number);
    store.append(&id, Authority::Open, vec![created(&mut ids, number)]).await.unwrap();
    let mut parent = None;
    let mut left = entries;
    while left > 0 {
        let now = left.min(200);
        let events = (0..now).map(|_| entry(&mut ids, &mut parent)).collect();
        store.append(&id, Authority::Open, events).await.unwrap();
        left -= now;
    }
    parent
}

/// Seconds as a person reads them.
pub(crate) fn show(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// The value below which so large a share of them lies.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    let at = ((values.len() as f64 * share) as usize).min(values.len() - 1);
    values[at]
}
