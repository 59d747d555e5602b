//! Ids that follow from a name: for copies, and for what comes from programs without our ids.
//!
//! An import or a copy must give the same ids each time, so that doing it twice finds what is there: ids here follow
//! from a name (the session's) and the order of calls, and are not random.

use crate::ids::{RANDOM, Stamp};
use crate::{EntryId, EventId, Millis, PartId};

/// Makes ids that ascend and that follow from a name.
#[derive(Debug, Clone)]
pub struct DerivedIds {
    last: Stamp,
    state: u64,
}

impl DerivedIds {
    /// Ids that follow from `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        // FNV-1a: the digits need spread, not secrecy.
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { last: Stamp::default(), state: seed }
    }

    /// Keeps later ids above one that is in use.
    pub fn above(&mut self, id: &str) {
        if let Some(stamp) = Stamp::of(id) {
            self.last = self.last.max(stamp);
        }
    }

    /// An id for an entry made at `time`.
    pub fn entry(&mut self, time: Millis) -> EntryId {
        EntryId::mint(self.stamp(time), self.digits())
    }

    /// An id for a part made at `time`.
    pub fn part(&mut self, time: Millis) -> PartId {
        PartId::mint(self.stamp(time), self.digits())
    }

    /// An id for an event made at `time`.
    pub fn event(&mut self, time: Millis) -> EventId {
        EventId::mint(self.stamp(time), self.digits())
    }

    fn stamp(&mut self, time: Millis) -> Stamp {
        self.last = Stamp::after(self.last, time);
        self.last
    }

    fn digits(&mut self) -> [u8; RANDOM] {
        let mut digits = [0; RANDOM];
        for digit in &mut digits {
            // splitmix64
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *digit = (word >> 56).to_le_bytes()[0];
        }
        digits
    }
}
