//! File views: what each session last saw of the files.
//!
//! Each result keeps what its call saw, so what is forgotten here, or was known to an earlier process, is put together
//! again from the conversation when the session next works.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_model::SessionId;
use everturn_model::entry::Body;
use everturn_model::tool::{SeenFile, ToolResult};
use everturn_model::tree::Node;
use everturn_tools::SeenFiles;
use everturn_tools::seen::FileView;

/// How many sessions are remembered; the one that was at work longest ago is forgotten first.
const REMEMBERED: usize = 512;

/// The files as the sessions of this process saw them; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileViews(Arc<Mutex<RememberedViews>>);

#[derive(Debug, Default)]
struct RememberedViews {
    sessions: HashMap<SessionId, SessionView>,
    /// Counts calls, to tell what was used when.
    calls: u64,
}

#[derive(Debug)]
struct SessionView {
    seen: Arc<SeenFiles>,
    used: u64,
}

/// Puts what a session saw since it was last asked into a result.
pub(crate) fn store_in(seen: &SeenFiles, result: &mut ToolResult) {
    // A path that is not text cannot be in the log; without it, the session only has to read the file once more.
    let news = seen.news().into_iter();
    let seen = |view: FileView| SeenFile { fingerprint: view.fingerprint, shown: view.shown };
    result.seen.extend(news.filter_map(|(path, view)| Some((path.to_str()?.to_owned(), view.map(seen)))));
}

impl FileViews {
    /// What a session saw, from the results on its path if nothing is known here.
    pub(crate) fn recall(&self, session: &SessionId, path: &[&Node]) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).sessions.contains_key(session) {
            return;
        }
        let seen = self.of(session);
        let stored = path.iter().filter_map(|node| match &node.entry.body {
            Body::ToolResult { result } => Some(&result.seen),
            _ => None,
        });
        for (path, view) in stored.flatten() {
            let view = view.clone().map(|SeenFile { fingerprint, shown }| FileView { fingerprint, shown });
            seen.recall(path.into(), view);
        }
    }

    /// What a session saw; the same for all its calls.
    pub(crate) fn of(&self, session: &SessionId) -> Arc<SeenFiles> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.calls += 1;
        let now = known.calls;
        if known.sessions.len() >= REMEMBERED && !known.sessions.contains_key(session) {
            // What a call still holds is in use, however long ago it began.
            let idle = known.sessions.iter().filter(|(_, view)| Arc::strong_count(&view.seen) == 1);
            let oldest = idle.min_by_key(|(_, view)| view.used).map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                known.sessions.remove(&oldest);
            }
        }
        let fresh = || SessionView { seen: Arc::default(), used: now };
        let view = known.sessions.entry(session.clone()).or_insert_with(fresh);
        view.used = now;
        Arc::clone(&view.seen)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_session_that_rested_longest_is_forgotten() {
        let views = FileViews::default();
        let id = |number: usize| SessionId::from(format!("ses_{number}").as_str());
        let file = Path::new("/a");
        let held = views.of(&id(0));
        for number in 1..REMEMBERED {
            views.of(&id(number)).record(file, number.to_string());
        }
        assert_eq!(views.of(&id(1)).last(file), Some("1".to_owned()));
        views.of(&id(REMEMBERED)).record(file, "new".to_owned());
        assert!(Arc::ptr_eq(&held, &views.of(&id(0))), "it is in use");
        assert_eq!(views.of(&id(1)).last(file), Some("1".to_owned()), "it was used again");
        assert_eq!(views.of(&id(REMEMBERED)).last(file), Some("new".to_owned()));
        assert_eq!(views.of(&id(2)).last(file), None, "it rested longest");
    }
}
