//! An interrupt that no process was there to hear.
//!
//! Whoever runs a session hears of an interrupt by the feed and stops. If that process has died, the interrupt is in the log
//! all the same: whoever takes the session over closes the turn that was meant instead of going on with it.

use everturn_model::{Event, Record, fold};

/// That somebody asked for the turn that is open to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopRequest {
    /// Whether a prompt was admitted after that.
    pub(crate) prompted: bool,
}

impl StopRequest {
    /// What a log says of the turn that is open at its end; none when nobody asked, or no turn is open.
    pub(crate) fn of(log: &[Record]) -> Option<Self> {
        let (first, rest) = log.split_first()?;
        let mut tree = fold::begin(first).ok()?;
        let mut asked = None;
        for record in rest {
            // A log that cannot be followed says nothing.
            fold::apply(&mut tree, record).ok()?;
            match &record.event {
                Event::InterruptRequested {} => asked = Some(Self { prompted: false }),
                Event::PromptAdmitted { .. } => asked = asked.map(|_| Self { prompted: true }),
                _ => {}
            }
            if !tree.session.open {
                asked = None;
            }
        }
        asked
    }
}
