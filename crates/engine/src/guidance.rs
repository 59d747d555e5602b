//! Instructions and skills that a person or a project keeps for agents, and where they are.

use std::path::Path;
use std::sync::Arc;

use everturn_tools::host::LoadedSkill;
use everturn_tools::places::ProjectFiles;
use everturn_tools::skills::{self, Skills};
use everturn_tools::{Failure, Observed, Places};

use crate::background::blocking;
use crate::configurations::Configurations;
use crate::options::Paths;
use crate::projects::Location;
use crate::{Config, Error};

/// Instructions and skills; clones share it.
#[derive(Debug, Clone)]
pub struct Guidance {
    configurations: Configurations,
    paths: Arc<Paths>,
    project_files: ProjectFiles,
}

impl Guidance {
    /// Guidance as it is configured.
    pub(crate) fn new(
        configurations: Configurations,
        paths: Arc<Paths>,
        project_files: ProjectFiles,
    ) -> Self {
        Self { configurations, paths, project_files }
    }

    /// Where instructions and skills for a folder are looked for, as it is configured.
    #[must_use]
    pub fn places(&self, config: &Config, location: &Location) -> Places {
        Places {
            worktree: location.worktree.clone(),
            ..places(config, &self.paths, &location.directory, self.project_files)
        }
    }

    /// The skills for a folder, and what is wrong with others.
    ///
    /// # Errors
    /// When a folder of skills exists and cannot be read.
    pub async fn skills(&self, location: &Location) -> Result<Skills, Error> {
        let config = self.configurations.at(&location.directory).await;
        let places = self.places(&config, location);
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
        let config = self.configurations.at(&location.directory).await;
        let (places, name) = (self.places(&config, location), name.to_owned());
        let found = blocking(move || skills::find(&places, &name)).await;
        found.unwrap_or_else(|error| Err(Failure::Failed(error.to_string())))
    }
}

/// Where instructions and skills for a folder are looked for, for those who have no engine.
#[must_use]
pub fn places(config: &Config, paths: &Paths, directory: &Path, project: ProjectFiles) -> Places {
    Places {
        home: paths.home.clone(),
        config: vec![paths.config.clone(), paths.opencode.clone()],
        directory: directory.to_owned(),
        worktree: config.root.clone(),
        project,
        instructions: config.instructions.clone(),
        skills: config.skills.clone(),
    }
}
