//! What a look finds: the sessions that changed since the last one, and those that were deleted for good.

use everturn_model::SessionId;
use serde_json::Value;

use super::PurgedSession;
use super::position::Position;

/// What changed since a moment.
#[derive(Debug)]
pub(crate) struct FeedChanges {
    /// The sessions, each with the seq of its last event.
    pub(crate) sessions: Vec<(SessionId, u64)>,
    /// Notes of sessions that are gone.
    pub(crate) purged: Vec<PurgeNote>,
    /// Something changed that cannot be named: nobody can be told what.
    pub(crate) gap: bool,
    /// The moment of this answer.
    pub(crate) now: Position,
}

impl FeedChanges {
    /// Nothing so far.
    pub(crate) fn until(now: Position) -> Self {
        Self { sessions: Vec::new(), purged: Vec::new(), gap: false, now }
    }
}

/// The note in the audit that a session was deleted for good.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PurgeNote {
    /// The session.
    pub(crate) purged: PurgedSession,
    /// How many events it had.
    events: u64,
    /// The stamp of its last event, if it was in the trash.
    trashed: Option<u64>,
}

impl PurgeNote {
    /// None when the note does not say where the session was.
    pub(crate) fn read(detail: &str) -> Option<Self> {
        let detail: Value = serde_json::from_str(detail).ok()?;
        let text = |key: &str| detail.get(key)?.as_str().map(str::to_owned);
        let time = |key: &str| detail.get(key)?.as_i64();
        let purged = PurgedSession {
            session: SessionId::new(text("session")?),
            project: text("project")?,
            directory: text("directory")?,
            created: time("created")?,
            updated: time("updated")?,
        };
        let number = |key: &str| detail.get(key)?.as_u64();
        Some(Self { purged, events: number("events")?, trashed: number("trashed") })
    }

    /// Whether it was told that the session is gone: by the event that put it into the trash. Everything before `since` was
    /// told, and of the session everything up to `last`, but for its event `missed`.
    pub(crate) fn was_told(&self, since: &Position, last: Option<u64>, missed: Option<u64>) -> bool {
        let is_end = |seq: u64| seq.saturating_add(1) >= self.events;
        let covers = |stamp| since.covers(stamp) && !missed.is_some_and(is_end);
        self.trashed.is_some_and(covers) || (self.trashed.is_some() && last.is_some_and(is_end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_was_told_if_the_event_was_that_put_the_session_into_the_trash() {
        let note = |trashed: &str| {
            let text = format!(
                r#"{{"session":"ses_1","events":3,"project":"p","directory":"/srv","created":1,"updated":2{trashed}}}"#
            );
            PurgeNote::read(&text).unwrap()
        };
        let (listed, trashed) = (note(""), note(r#","trashed":7"#));
        let (before, after) = (Position::Newest(6), Position::Newest(7));
        for (since, last, missed, told) in [
            (&before, None, None, false),
            (&before, Some(1), None, false),
            (&before, Some(2), None, true),
            (&after, None, None, true),
            (&after, None, Some(1), true),
            (&after, None, Some(2), false),
            (&after, Some(2), Some(2), true),
        ] {
            let case = format!("{since:?}, {last:?}, {missed:?}");
            assert_eq!(trashed.was_told(since, last, missed), told, "{case}");
            assert!(!listed.was_told(since, last, missed), "no event says so: {case}");
        }
    }
}
