//! MCP servers: what they are doing, and switching them.

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use everturn_engine::mcp::Status;
use serde_json::{Value, json};

use crate::App;
use crate::error::Error;
use crate::place::Place;
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    let login = "logging in to an MCP server";
    Router::new()
        .route("/mcp", get(statuses).post(|| absent("adding an MCP server over HTTP")))
        .route("/mcp/{name}/connect", post(connect))
        .route("/mcp/{name}/disconnect", post(disconnect))
        .route("/mcp/{name}/auth", post(move || absent(login)).delete(move || absent(login)))
        .route("/mcp/{name}/auth/callback", post(move || absent(login)))
        .route("/mcp/{name}/auth/authenticate", post(move || absent(login)))
}

fn absent(what: &'static str) -> Ready<Result> {
    ready(Err(Error::Absent(what)))
}

async fn statuses(State(app): State<App>, Place(location): Place) -> Result {
    let statuses = app.engine.servers_in(&location).await;
    let shown: BTreeMap<String, Value> =
        statuses.into_iter().map(|(name, status)| (name, shape(&status))).collect();
    ok(&shown)
}

/// A state as OpenCode's clients read it; they know of none in between.
fn shape(status: &Status) -> Value {
    match status {
        Status::Connected => json!({"status": "connected"}),
        Status::Disabled => json!({"status": "disabled"}),
        Status::Failed(error) => json!({"status": "failed", "error": error}),
        Status::NeedsAuth(error) => json!({"status": "needs_auth", "error": error}),
        Status::Connecting => json!({"status": "failed", "error": "it is still connecting"}),
    }
}

async fn connect(State(app): State<App>, Place(location): Place, Path(name): Path<String>) -> Result {
    app.engine.connect_server(&location, &name).await?;
    ok(&true)
}

async fn disconnect(State(app): State<App>, Place(location): Place, Path(name): Path<String>) -> Result {
    app.engine.disconnect_server(&location, &name)?;
    ok(&true)
}
