//! What OpenCode has and this release has not. A client is told so; nothing pretends to have been done.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{MethodRouter, patch, post};

use crate::App;
use crate::error::Error;
use crate::input::session_id;
use crate::reply::Result;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/summarize", of_session("compacting a session on request"))
        .route("/session/{session}/shell", of_session("running a command in a session"))
        .route("/session/{session}/command", of_session("running a slash command"))
        .route("/session/{session}/init", of_session("writing AGENTS.md"))
        .route("/session/{session}/share", share())
        .route("/config", patch(settings))
        .route("/global/config", patch(settings))
}

fn of_session(what: &'static str) -> MethodRouter<App> {
    post(move |state, path| missing(state, path, what))
}

fn share() -> MethodRouter<App> {
    let what = "sharing a session";
    of_session(what).delete(move |state, path| missing(state, path, what))
}

// A session that is not there is said first, as everywhere.
async fn missing(State(app): State<App>, Path(id): Path<String>, what: &'static str) -> Result {
    app.engine.sessions().get(&session_id(id)?).await?;
    Err(Error::Absent(what))
}

async fn settings() -> Result {
    Err(Error::Absent("changing the configuration over HTTP"))
}
