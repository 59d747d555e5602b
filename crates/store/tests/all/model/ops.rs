//! The operations, as random numbers that mean something to any state.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::story::Step;

/// Which session, by a number that wraps around.
pub(super) type Which = u8;

/// Which of the two stores: true is the second.
pub(super) type Who = bool;

#[derive(Debug, Clone)]
pub(super) enum Op {
    /// A session, with so many entries from elsewhere.
    Create {
        who: Who,
        seed: u8,
    },
    /// Events that fit, by any right that there is.
    Append {
        who: Who,
        which: Which,
        right: u8,
        steps: Vec<Step>,
    },
    /// An event that is strange, and fits or not.
    Odd {
        who: Who,
        which: Which,
        odd: u8,
        a: u16,
        b: u16,
    },
    /// A session from a path of another one.
    Fork {
        who: Who,
        which: Which,
        leaf: u16,
        by_store: bool,
    },
    Trash {
        who: Who,
        which: Which,
    },
    Restore {
        who: Who,
        which: Which,
    },
    Purge {
        who: Who,
        which: Which,
    },
    Acquire {
        who: Who,
        which: Which,
    },
    Release {
        who: Who,
        which: Which,
    },
    /// An append by a lease that was lost.
    Stale {
        who: Who,
        which: Which,
        lost: u8,
    },
    /// Events that are there already, from one of them on.
    Repeat {
        who: Who,
        which: Which,
        from: u16,
        count: u8,
    },
    /// The id of an event that is there, with something else.
    Forge {
        who: Who,
        which: Which,
        at: u16,
    },
    /// A process ends, and another one comes.
    Restart {
        who: Who,
    },
    /// A look at a session.
    Look {
        who: Who,
        which: Which,
    },
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let (who, which) = (any::<Who>, any::<Which>);
    prop_oneof![
        5 => (who(), 0u8..6).prop_map(|(who, seed)| Op::Create { who, seed }),
        36 => (who(), which(), any::<u8>(), vec(any::<Step>(), 1..6))
            .prop_map(|(who, which, right, steps)| Op::Append { who, which, right, steps }),
        10 => (who(), which(), any::<u8>(), any::<u16>(), any::<u16>())
            .prop_map(|(who, which, odd, a, b)| Op::Odd { who, which, odd, a, b }),
        4 => (who(), which(), any::<u16>(), any::<bool>())
            .prop_map(|(who, which, leaf, by_store)| Op::Fork { who, which, leaf, by_store }),
        3 => (who(), which()).prop_map(|(who, which)| Op::Trash { who, which }),
        2 => (who(), which()).prop_map(|(who, which)| Op::Restore { who, which }),
        1 => (who(), which()).prop_map(|(who, which)| Op::Purge { who, which }),
        8 => (who(), which()).prop_map(|(who, which)| Op::Acquire { who, which }),
        3 => (who(), which()).prop_map(|(who, which)| Op::Release { who, which }),
        4 => (who(), which(), any::<u8>()).prop_map(|(who, which, lost)| Op::Stale { who, which, lost }),
        5 => (who(), which(), any::<u16>(), 1u8..5)
            .prop_map(|(who, which, from, count)| Op::Repeat { who, which, from, count }),
        3 => (who(), which(), any::<u16>()).prop_map(|(who, which, at)| Op::Forge { who, which, at }),
        1 => who().prop_map(|who| Op::Restart { who }),
        4 => (who(), which()).prop_map(|(who, which)| Op::Look { who, which }),
    ]
}
