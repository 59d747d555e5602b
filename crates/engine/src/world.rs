//! The world outside: time and randomness, which tests can control.

use std::fmt::Debug;

use everturn_model::Millis;
use everturn_model::ids::RANDOM;

/// What the world gives: the time and random digits.
pub trait World: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;

    /// Random bytes for an id.
    fn random(&self) -> [u8; RANDOM];
}

/// The real clock and the system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl World for System {
    fn now(&self) -> Millis {
        jiff::Timestamp::now().as_millisecond()
    }

    fn random(&self) -> [u8; RANDOM] {
        let mut bytes = [0; RANDOM];
        if getrandom::fill(&mut bytes).is_err() {
            tracing::error!("the system has no random numbers; ids are less unlike each other");
        }
        bytes
    }
}
