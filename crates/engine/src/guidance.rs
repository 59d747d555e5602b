//! Instructions and skills that a person or a project keeps for agents, and where they are.

use std::path::Path;
use std::sync::Arc;

use everturn_tools::host::LoadedSkill;
use everturn_tools::places::{ConfigOrigin, NamedPath, ProjectFiles};
use everturn_tools::skills::{self, Skills};
use everturn_tools::{Failure, Observed, Places};
use serde_json::Value;

use crate::background::blocking;
use crate::options::Paths;
use crate::projects::Location;
use crate::{Config, Error};

/// Instructions and skills; clones share it.
#[derive(Debug, Clone)]
pub struct Guidance {
    config: Arc<Config>,
    paths: Arc<Paths>,
    project_files: ProjectFiles,
}

impl Guidance {
    /// Guidance as it is configured.
    pub(crate) fn new(config: Arc<Config>, paths: Arc<Paths>, project_files: ProjectFiles) -> Self {
        Self { config, paths, project_files }
    }

    /// The person's home.
    pub(crate) fn home(&self) -> &Path {
        &self.paths.home
    }

    /// Where instructions and skills for a folder are looked for.
    #[must_use]
    pub fn places(&self, location: &Location) -> Places {
        let raw = &self.config.raw;
        let from_project = &self.config.from_project;
        let named = |list: Option<&Value>, from_project: bool| {
            let by = if from_project { ConfigOrigin::Project } else { ConfigOrigin::Person };
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(|text| NamedPath::new(text, by)).collect()
        };
        Places {
            home: self.paths.home.clone(),
            config: vec![self.paths.config.clone(), self.paths.opencode.clone()],
            directory: location.directory.clone(),
            worktree: location.worktree.clone(),
            project: self.project_files,
            instructions: named(raw.get("instructions"), from_project.instructions),
            skills: named(raw.get("skills").and_then(|skills| skills.get("paths")), from_project.skills),
        }
    }

    /// The skills for a folder, and what is wrong with others.
    ///
    /// # Errors
    /// When a folder of skills exists and cannot be read.
    pub async fn skills(&self, location: &Location) -> Result<Skills, Error> {
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
    pub async fn skill(&self, location: &Location, name: &str) -> Result<LoadedSkill, Failure> {
        let (places, name) = (self.places(location), name.to_owned());
        let found = blocking(move || skills::find(&places, &name)).await;
        found.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))
    }
}
