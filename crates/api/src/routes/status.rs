//! Health, and what clients ask for at their start and can do without: language servers, formatters, consoles.
//!
//! Where Everturn has no such thing the answer is the true one of a server without any: an empty list.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use everturn_model::Map;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::input::Json;
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/global/health", get(health))
        .route("/lsp", get(nothing))
        .route("/formatter", get(nothing))
        .route("/skill", get(nothing))
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
        .route("/experimental/resource", get(no_map))
        .route("/experimental/workspace", get(nothing))
        .route("/experimental/workspace/status", get(nothing))
        .route("/experimental/tool/ids", get(tools))
        .route("/log", post(log))
}

async fn health() -> Result {
    ok(&json!({"healthy": true, "version": everturn_engine::VERSION}))
}

async fn nothing() -> Result {
    ok(&Vec::<Value>::new())
}

async fn no_map() -> Result {
    ok(&Map::new())
}

async fn capabilities() -> Result {
    ok(&json!({"backgroundSubagents": false}))
}

async fn console() -> Result {
    ok(&json!({"consoleManagedProviders": [], "switchableOrgCount": 0}))
}

async fn tools(State(app): State<App>) -> Result {
    ok(&app.engine.tool_names())
}

#[derive(Debug, Deserialize)]
struct Line {
    service: String,
    level: Level,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// A line of a client for the server's log.
async fn log(Json(line): Json<Line>) -> Result {
    let Line { service, level, message } = line;
    match level {
        Level::Debug => tracing::debug!(service, message, "a client says"),
        Level::Info => tracing::info!(service, message, "a client says"),
        Level::Warn => tracing::warn!(service, message, "a client says"),
        Level::Error => tracing::error!(service, message, "a client says"),
    }
    ok(&true)
}
