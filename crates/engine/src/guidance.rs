//! What a person and a project keep for agents: where it is, and the skills among it.

use everturn_tools::host::Skill;
use everturn_tools::places::{Named, Origin};
use everturn_tools::skills::{self, Skills};
use everturn_tools::{Failure, Observed, Places};
use serde_json::Value;

use crate::project::Location;
use crate::{Engine, Error};

/// Work that waits for the disk, away from the threads that carry the streams.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Io { context: "cannot look at files".to_owned(), source: error.into() })
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
