//! Projects, paths and version control as clients see them.

use std::path::Path;

use everturn_engine::projects::Project;
use everturn_model::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::shaped;

/// Where things are.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Path")]
pub(crate) struct PathInfo<'a> {
    pub(crate) home: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) config: &'a Path,
    pub(crate) worktree: &'a Path,
    pub(crate) directory: &'a Path,
}

/// A project.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Project")]
pub(crate) struct ProjectInfo<'a> {
    id: &'a str,
    worktree: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vcs>")]
    vcs: Option<&'a str>,
    time: ProjectTime,
    sandboxes: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the words of the engine")]
enum Vcs {
    Git,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ProjectTime {
    created: Millis,
    updated: Millis,
}

impl<'a> ProjectInfo<'a> {
    /// A project as clients see it.
    pub(crate) fn of(project: &'a Project) -> Self {
        Self {
            id: &project.id,
            worktree: &project.worktree,
            vcs: project.vcs.as_deref(),
            time: ProjectTime { created: project.created, updated: project.updated },
            sandboxes: Vec::new(),
        }
    }
}

/// A folder of a project.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ProjectDirectory {
    pub(crate) directory: std::path::PathBuf,
}

/// What version control says of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VcsInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
}

shaped! {
    PathInfo<'_> as PathInfo<'static>,
    ProjectInfo<'_> as ProjectInfo<'static>,
    ProjectDirectory as ProjectDirectory,
    VcsInfo as VcsInfo,
}
