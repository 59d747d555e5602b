//! Paths, projects, version control.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use everturn_engine::projects::Project;
use everturn_model::Map;
use serde_json::{Value, json};

use crate::App;
use crate::error::Error;
use crate::place::Place;
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/path", get(paths))
        .route("/project", get(projects))
        .route("/project/current", get(current))
        .route("/project/{project}/directories", get(directories))
        .route("/vcs", get(vcs))
}

async fn paths(State(app): State<App>, Place(location): Place) -> Result {
    let paths = app.engine.paths();
    ok(&json!({
        "home": paths.home,
        "state": paths.state,
        "config": paths.config,
        "worktree": location.worktree,
        "directory": location.directory,
    }))
}

fn shown(project: &Project) -> Value {
    let mut value = json!({"id": project.id, "worktree": project.worktree});
    if let Some(map) = value.as_object_mut() {
        map.extend(project.vcs.as_ref().map(|vcs| ("vcs".to_owned(), vcs.as_str().into())));
        map.insert("time".to_owned(), json!({"created": project.created, "updated": project.updated}));
        map.insert("sandboxes".to_owned(), Value::Array(Vec::new()));
    }
    value
}

async fn projects(State(app): State<App>) -> Result {
    ok(&app.engine.projects().all().await?.iter().map(shown).collect::<Vec<_>>())
}

async fn current(Place(location): Place) -> Result {
    ok(&shown(&location.project))
}

async fn directories(State(app): State<App>, Place(location): Place, Path(id): Path<String>) -> Result {
    let worktree = if location.project.id == id {
        Some(location.worktree)
    } else {
        app.engine
            .projects()
            .all()
            .await?
            .into_iter()
            .find(|project| project.id == id)
            .map(|project| project.worktree)
    };
    match worktree {
        Some(worktree) => ok(&json!([{"directory": worktree}])),
        None => Err(Error::NotFound(format!("project not found: {id}"))),
    }
}

async fn vcs(Place(location): Place) -> Result {
    let branch = location.branch().map(|branch| ("branch".to_owned(), Value::from(branch)));
    ok(&branch.into_iter().collect::<Map>())
}
