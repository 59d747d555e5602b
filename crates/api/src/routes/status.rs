//! Health, and what clients ask for at their start and can do without: language servers, formatters, consoles.
//!
//! Where Everturn has none of these, it says so with an empty list.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::answer::{JsonAnswer, Result, answer, printed};
use crate::describe::{Describe, Description};
use crate::document;
use crate::error::ErrorKind;
use crate::input::Json;
use crate::operation::Operation;
use crate::wire::agent::SkillInfo;
use crate::wire::server::{ConsoleState, EmptyList, ExperimentalCapabilities, Health, LogLevel, LogLine};
use crate::workdir::{Here, Workdir};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("doc.get", "/doc", document),
        Operation::get("global.health", "/global/health", health),
        Operation::get("lsp.status", "/lsp", nothing),
        Operation::get("formatter.status", "/formatter", nothing),
        Operation::get("app.skills", "/skill", skills).fails_with([ErrorKind::Body]),
        Operation::get("experimental.capabilities.get", "/experimental/capabilities", capabilities),
        Operation::get("experimental.console.get", "/experimental/console", console),
        Operation::get("experimental.workspace.list", "/experimental/workspace", nothing),
        Operation::get("experimental.workspace.status", "/experimental/workspace/status", nothing),
        Operation::get("tool.ids", "/experimental/tool/ids", tools),
        Operation::post("app.log", "/log", log),
    ]
}

/// The document of this server.
struct Document;

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        printed(StatusCode::OK, document::printed())
    }
}

impl Describe for Document {
    fn describe(description: &mut Description<'_>) {
        description.gives::<everturn_model::Map>("application/json", "OpenAPI 3.1.");
    }
}

async fn document() -> Result<Document> {
    Ok(Document)
}

async fn health() -> Result<JsonAnswer<Health>> {
    answer(&Health { healthy: true, version: everturn_engine::VERSION })
}

async fn nothing() -> Result<JsonAnswer<EmptyList>> {
    answer(&EmptyList)
}

/// The skills for a folder; what is wrong with others is in the log.
async fn skills(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<Vec<SkillInfo<'static>>>> {
    let found = app.engine.guidance().skills(&location).await?;
    for problem in &found.problems {
        tracing::warn!(path = %problem.path.display(), why = problem.why, "a skill is left out");
    }
    answer(&found.skills.iter().map(SkillInfo::of).collect::<Vec<_>>())
}

async fn capabilities() -> Result<JsonAnswer<ExperimentalCapabilities>> {
    answer(&ExperimentalCapabilities { background_subagents: false })
}

async fn console() -> Result<JsonAnswer<ConsoleState>> {
    answer(&ConsoleState { console_managed_providers: Vec::new(), switchable_org_count: 0 })
}

async fn tools(State(app): State<App>, here: Here) -> Result<JsonAnswer<Vec<String>>> {
    answer(&app.engine.tool_names(&here.config))
}

/// A line of a client for the server's log.
async fn log(Json(line): Json<LogLine>) -> Result<JsonAnswer<bool>> {
    let LogLine { service, level, message } = line;
    match level {
        LogLevel::Debug => tracing::debug!(service, message, "a client says"),
        LogLevel::Info => tracing::info!(service, message, "a client says"),
        LogLevel::Warn => tracing::warn!(service, message, "a client says"),
        LogLevel::Error => tracing::error!(service, message, "a client says"),
    }
    answer(&true)
}
