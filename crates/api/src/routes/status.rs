//! Health, and what clients ask for at their start and can do without: language servers, formatters, consoles.
//!
//! Where Everturn has no such thing the answer is the true one of a server without any: an empty list.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use everturn_engine::LoadedSkill;
use everturn_model::Map;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::App;
use crate::input::Json;
use crate::place::Place;
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/global/health", get(health))
        .route("/lsp", get(nothing))
        .route("/formatter", get(nothing))
        .route("/skill", get(skills))
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
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

/// The skills for a folder; what is wrong with others is in the log.
async fn skills(State(app): State<App>, Place(location): Place) -> Result {
    let found = app.engine.guidance().skills(&location).await?;
    for problem in &found.problems {
        tracing::warn!(path = %problem.path.display(), why = problem.why, "a skill is left out");
    }
    let shown = |skill: &LoadedSkill| {
        let mut map = Map::new();
        map.insert("name".to_owned(), skill.name.as_str().into());
        if !skill.description.is_empty() {
            map.insert("description".to_owned(), skill.description.as_str().into());
        }
        map.insert("location".to_owned(), skill.location.display().to_string().into());
        map.insert("content".to_owned(), skill.content.as_str().into());
        map
    };
    ok(&found.skills.iter().map(shown).collect::<Vec<_>>())
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
