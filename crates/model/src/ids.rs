//! Identifiers: a prefix, twelve hex digits of time and counter, fourteen random base-62 digits.
//!
//! The 48 bits hold `milliseconds * 4096 + counter`, which is 2³⁶ ms: they wrap every 795 days (the last time on
//! 2026-08-14), so an id says nothing about age on its own. Order in a session is by `seq`, lists are by stored times.
//! Clients of OpenCode's V1 protocol nevertheless sort messages and parts by id; therefore a minted id is greater
//! than every earlier one of its session (the *floor*), whatever the clock, the host or the wrap says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Millis;

const BITS: u32 = 48;
const MASK: u64 = (1 << BITS) - 1;
const SPAN: Millis = 1 << 36;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// How many random digits follow the time.
pub const RANDOM: usize = 14;

/// The longest id that a client may choose, in bytes.
pub const ID_LIMIT: usize = 256;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What ids of this kind begin with, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Takes an id as it is; ids of other programs need not have our shape.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// True when the text begins with this kind's prefix, and is one line that is not too long.
            #[must_use]
            pub fn is_well_formed(text: &str) -> bool {
                text.len() <= ID_LIMIT
                    && !text.contains(char::is_control)
                    && text.strip_prefix($prefix).is_some_and(|rest| rest.starts_with('_') && rest.len() > 1)
            }

            /// Makes an id from a stamp, by which it sorts, and random digits.
            #[must_use]
            pub fn mint(value: Stamp, random: [u8; RANDOM]) -> Self {
                Self(render($prefix, value.0, random))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

id!(
    /// A session, `ses_…`: descending, so that the newest sorts first.
    SessionId, "ses"
);
id!(
    /// An entry of the tree; for entries that OpenCode shows it is the message id, `msg_…`.
    EntryId, "msg"
);
id!(
    /// A part of an entry, `prt_…`.
    PartId, "prt"
);
id!(
    /// A durable event, `evt_…`.
    EventId, "evt"
);
id!(
    /// A permission request (`per_…`) or a question (`que_…`).
    RequestId, "per"
);

/// The 48 bits of an ascending id: time and counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of a moment and a counter within it.
    #[must_use]
    pub fn at(now: Millis, counter: u64) -> Self {
        Self(now.unsigned_abs().wrapping_mul(4096).wrapping_add(counter) & MASK)
    }

    /// The next stamp: the clock's where that is above the floor, else one above the floor.
    #[must_use]
    pub fn after(floor: Self, now: Millis) -> Self {
        let clock = Self::at(now, 1);
        if clock > floor { clock } else { Self((floor.0 + 1).min(MASK)) }
    }

    /// The stamp inverted, as descending ids carry it.
    #[must_use]
    pub fn descending(self) -> Self {
        Self(!self.0 & MASK)
    }

    /// The stamp in an id's text, if it has the shape.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        let (_, rest) = id.split_once('_')?;
        let hex = rest.get(..12)?;
        u64::from_str_radix(hex, 16).ok().map(Self)
    }

    /// When an ascending id was made: the moment nearest to `reference` that has these bits.
    #[must_use]
    pub fn time(self, reference: Millis) -> Millis {
        let low = Millis::try_from(self.0 / 4096).unwrap_or_default();
        let base = reference.div_euclid(SPAN) * SPAN + low;
        [base - SPAN, base, base + SPAN]
            .into_iter()
            .min_by_key(|candidate| (candidate - reference).abs())
            .unwrap_or(base)
    }
}

fn render(prefix: &str, value: u64, random: [u8; RANDOM]) -> String {
    let mut text = format!("{prefix}_{value:012x}");
    for byte in random {
        let digit = DIGITS.get(usize::from(byte) % DIGITS.len()).copied().unwrap_or(b'0');
        text.push(char::from(digit));
    }
    text
}

/// An id of another kind (`que`, `pty`, `usr`, `tool`), ascending.
#[must_use]
pub fn other(prefix: &str, value: Stamp, random: [u8; RANDOM]) -> String {
    render(prefix, value.0, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_an_id_made_by_opencode() {
        // msg_1dd2… was made in November 2026, after the wrap of August.
        let created = 1_794_711_664_248;
        let stamp = Stamp::of("msg_1dd26b678001xsgWsFmC5jmwSd").unwrap();
        assert_eq!(stamp, Stamp::at(created, 1));
        assert_eq!(stamp.time(created + 3), created);
    }

    #[test]
    fn january_sorts_after_november_and_both_times_are_found() {
        let january = Stamp::of("msg_ba96934a1001WjD5LglrOPDmgC").unwrap();
        let november = Stamp::of("msg_1dd26b678001xsgWsFmC5jmwSd").unwrap();
        assert!(january > november);
        assert_eq!(january.time(1_794_711_664_248), 1_768_073_802_913);
        assert_eq!(november.time(1_768_073_802_913), 1_794_711_664_248);
    }

    #[test]
    fn a_minted_id_is_above_the_floor_whatever_the_clock_says() {
        let floor = Stamp::of("msg_ba96934a1001WjD5LglrOPDmgC").unwrap();
        let next = Stamp::after(floor, 1_794_711_664_248);
        assert!(next > floor);
        assert!(EntryId::mint(next, [0; RANDOM]).as_str() > "msg_ba96934a1001WjD5LglrOPDmgC");
        let later = Stamp::after(Stamp::at(1_794_711_664_000, 9), 1_794_711_664_248);
        assert_eq!(later, Stamp::at(1_794_711_664_248, 1));
    }

    #[test]
    fn sessions_descend() {
        let older = SessionId::mint(Stamp::at(1_794_711_664_171, 1).descending(), [0; RANDOM]);
        let newer = SessionId::mint(Stamp::at(1_794_711_664_172, 1).descending(), [0; RANDOM]);
        assert!(newer < older);
        assert!(older.as_str().starts_with("ses_e22d949d4ffe"));
    }

    #[test]
    fn ids_of_other_programs_have_no_stamp() {
        assert_eq!(Stamp::of("a1b2c3d4"), None);
        assert_eq!(Stamp::of("msg_0"), None);
        assert!(EntryId::is_well_formed("msg_0"));
        assert!(!EntryId::is_well_formed("message"));
    }
}
