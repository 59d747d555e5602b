//! Paths, projects, version control.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::{Error, ErrorKind};
use crate::input::Path;
use crate::operation::Operation;
use crate::wire::project::{PathInfo, ProjectDirectory, ProjectInfo, VcsInfo};
use crate::workdir::Workdir;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("path.get", "/path", paths),
        Operation::get("project.list", "/project", projects),
        Operation::get("project.current", "/project/current", current),
        Operation::get("project.directories", "/project/{projectID}/directories", directories)
            .fails_with([ErrorKind::NotFound]),
        Operation::get("vcs.get", "/vcs", vcs),
    ]
}

async fn paths(State(app): State<App>, Workdir(location): Workdir) -> Result<JsonAnswer<PathInfo<'static>>> {
    let paths = app.engine.paths();
    answer(&PathInfo {
        home: &paths.home,
        state: &paths.state,
        config: &paths.config,
        worktree: &location.worktree,
        directory: &location.directory,
    })
}

async fn projects(State(app): State<App>) -> Result<JsonAnswer<Vec<ProjectInfo<'static>>>> {
    let projects = app.engine.projects().all().await?;
    answer(&projects.iter().map(ProjectInfo::of).collect::<Vec<_>>())
}

async fn current(Workdir(location): Workdir) -> Result<JsonAnswer<ProjectInfo<'static>>> {
    answer(&ProjectInfo::of(&location.project))
}

/// A project in the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct ProjectPath {
    #[serde(rename = "projectID")]
    project: String,
}

async fn directories(
    State(app): State<App>,
    Workdir(location): Workdir,
    Path(ProjectPath { project: id }): Path<ProjectPath>,
) -> Result<JsonAnswer<Vec<ProjectDirectory>>> {
    let worktree = if location.project.id == id {
        Some(location.worktree)
    } else {
        let mut projects = app.engine.projects().all().await?.into_iter();
        projects.find(|project| project.id == id).map(|project| project.worktree)
    };
    match worktree {
        Some(directory) => answer(&vec![ProjectDirectory { directory }]),
        None => Err(Error::NotFound(format!("project not found: {id}"))),
    }
}

async fn vcs(Workdir(location): Workdir) -> Result<JsonAnswer<VcsInfo>> {
    answer(&VcsInfo { branch: location.branch() })
}
