//! New ids: unique, ascending in the process, and above the floor of their session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::ids::{Stamp, other};
use everturn_model::{EntryId, EventId, Millis, PartId, RequestId, Session, SessionId};

use crate::world::World;

/// How many sessions' floors are remembered between their commits.
const REMEMBERED: usize = 4096;

/// Makes ids.
#[derive(Debug, Clone)]
pub struct Mint {
    world: Arc<dyn World>,
    state: Arc<Mutex<MintState>>,
}

#[derive(Debug, Default)]
struct MintState {
    last: Stamp,
    floors: HashMap<SessionId, Stamp>,
}

impl Mint {
    /// A mint that takes time and randomness from a world.
    #[must_use]
    pub fn new(world: Arc<dyn World>) -> Self {
        Self { world, state: Arc::default() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.world.now()
    }

    fn stamp(&self) -> Stamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.world.now();
        // The process's own order follows the clock through its wrap: going far back is the wrap, not a correction.
        let clock = Stamp::at(now, 1);
        let wrapped = clock < state.last && Stamp::time(state.last, now) <= now - 60_000;
        state.last = if wrapped { clock } else { Stamp::after(state.last, now) };
        state.last
    }

    fn stamp_in(&self, session: &Session) -> Stamp {
        let clock = self.stamp();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.floors.len() > REMEMBERED {
            state.floors.clear();
        }
        let floor = state.floors.entry(session.id.clone()).or_default();
        let base = session.floor.max(*floor);
        let stamp = if clock > base { clock } else { Stamp::after(base, 0) };
        *floor = stamp;
        stamp
    }

    /// A session's id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        SessionId::mint(self.stamp().descending(), self.world.random())
    }

    /// An entry's id, greater than every earlier one of its session.
    #[must_use]
    pub fn entry(&self, session: &Session) -> EntryId {
        EntryId::mint(self.stamp_in(session), self.world.random())
    }

    /// A part's id, greater than every earlier one of its session.
    #[must_use]
    pub fn part(&self, session: &Session) -> PartId {
        PartId::mint(self.stamp_in(session), self.world.random())
    }

    /// An event's id.
    #[must_use]
    pub fn event(&self) -> EventId {
        EventId::mint(self.stamp(), self.world.random())
    }

    /// A permission request's id.
    #[must_use]
    pub fn request(&self) -> RequestId {
        RequestId::mint(self.stamp(), self.world.random())
    }

    /// A question's id.
    #[must_use]
    pub fn question(&self) -> RequestId {
        RequestId::from(self.other("que").as_str())
    }

    /// An id of another kind.
    #[must_use]
    pub fn other(&self, prefix: &str) -> String {
        other(prefix, self.stamp(), self.world.random())
    }

    /// A number from 0 to 1, for jitter.
    #[must_use]
    pub fn random_fraction(&self) -> f64 {
        f64::from(self.world.random()[0]) / 255.0
    }
}
