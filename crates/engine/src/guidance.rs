//! What a person and a project keep for agents: where it is, and the skills among it.

use everturn_tools::host::Skill;
use everturn_tools::places::{Named, Origin};
use everturn_tools::skills::{self, Skills};
use everturn_tools::{Failure, Observed, Places};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::project::Location;
use crate::{Engine, Error};

/// Work that waits for the disk, away from the threads that carry the streams.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Io { context: "cannot look at files".to_owned(), source: error.into() })
}

/// The same, given up when `cancel` fires: a file system that does not answer must not keep a session from being
/// stopped. None when it was given up.
pub(crate) async fn unless_stopped<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    tokio::select! {
        biased;
        done = blocking(work) => done.map(Some),
        () = cancel.cancelled() => Ok(None),
    }
}

impl Engine {
    /// Where instructions and skills for a folder are looked for.
    #[must_use]
    pub fn places(&self, location: &Location) -> Places {
        let raw = &self.config().raw;
        let foreign = &self.config().foreign;
        let named = |list: Option<&Value>, foreign: bool| {
            let by = if foreign { Origin::Project } else { Origin::Person };
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(|text| Named { text: text.to_owned(), by }).collect()
        };
        Places {
            home: self.paths().home.clone(),
            config: vec![self.paths().config.clone(), self.paths().opencode.clone()],
            directory: location.directory.clone(),
            worktree: location.worktree.clone(),
            project: self.0.project_files,
            instructions: named(raw.get("instructions"), foreign.instructions),
            skills: named(raw.get("skills").and_then(|skills| skills.get("paths")), foreign.skills),
        }
    }

    /// The skills for a folder, and what is wrong with others.
    ///
    /// # Errors
    /// When a folder of skills is there and cannot be read.
    pub async fn skills_of(&self, location: &Location) -> Result<Skills, Error> {
        let places = self.places(location);
        match blocking(move || skills::observe(&places)).await? {
            Observed::Present(found) => Ok(found),
            Observed::Absent => Ok(Skills::default()),
            Observed::Unavailable { why } => Err(Error::Unavailable(why)),
        }
    }

    /// One skill for a folder, for the tool that loads it.
    ///
    /// # Errors
    /// When there is none of that name; the words are for the model.
    pub async fn skill_of(&self, location: &Location, name: &str) -> Result<Skill, Failure> {
        let (places, name) = (self.places(location), name.to_owned());
        let found = blocking(move || skills::find(&places, &name)).await;
        found.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_that_does_not_end_is_given_up() {
        // A call that was looked at on a file system that had stopped answering kept its session busy for good.
        let (cancel, (answer, silence)) = (CancellationToken::new(), mpsc::channel::<u8>());
        let stuck = unless_stopped(&cancel, move || silence.recv());
        cancel.cancel();
        assert_eq!(stuck.await.unwrap(), None);
        drop(answer);
        assert_eq!(unless_stopped(&CancellationToken::new(), || 1).await.unwrap(), Some(1));
    }
}
