//! What each session last saw of the files, for as long as somebody works on it.
//!
//! A session that is forgotten here loses nothing that is true: its next edit asks for a fresh look first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::SessionId;
use everturn_tools::Seen;

/// How many sessions are remembered; the one that was at work longest ago is forgotten first.
const REMEMBERED: usize = 512;

/// The files as the sessions of this process saw them.
#[derive(Debug, Default)]
pub(crate) struct Sights(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    sessions: HashMap<SessionId, Sight>,
    /// Counts calls, to tell what was used when.
    calls: u64,
}

#[derive(Debug)]
struct Sight {
    seen: Arc<Seen>,
    used: u64,
}

impl Sights {
    /// What a session saw; the same for all its calls.
    pub(crate) fn of(&self, session: &SessionId) -> Arc<Seen> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.calls += 1;
        let now = known.calls;
        if known.sessions.len() >= REMEMBERED && !known.sessions.contains_key(session) {
            // What a call still holds is in use, however long ago it began.
            let idle = known.sessions.iter().filter(|(_, sight)| Arc::strong_count(&sight.seen) == 1);
            let oldest = idle.min_by_key(|(_, sight)| sight.used).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                known.sessions.remove(&oldest);
            }
        }
        let fresh = || Sight { seen: Arc::default(), used: now };
        let sight = known.sessions.entry(session.clone()).or_insert_with(fresh);
        sight.used = now;
        Arc::clone(&sight.seen)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_session_that_rested_longest_is_forgotten() {
        let sights = Sights::default();
        let id = |number: usize| SessionId::from(format!("ses_{number}").as_str());
        let file = Path::new("/a");
        let held = sights.of(&id(0));
        for number in 1..REMEMBERED {
            sights.of(&id(number)).record(file, number.to_string());
        }
        assert_eq!(sights.of(&id(1)).last(file), Some("1".to_owned()));
        sights.of(&id(REMEMBERED)).record(file, "new".to_owned());
        assert!(Arc::ptr_eq(&held, &sights.of(&id(0))), "it is in use");
        assert_eq!(sights.of(&id(1)).last(file), Some("1".to_owned()), "it was used again");
        assert_eq!(sights.of(&id(REMEMBERED)).last(file), Some("new".to_owned()));
        assert_eq!(sights.of(&id(2)).last(file), None, "it rested longest");
    }
}
