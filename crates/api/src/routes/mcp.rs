//! MCP servers: what they are doing, and switching them.

use std::collections::BTreeMap;

use axum::extract::State;

use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::ErrorKind::{Body, NoServer};
use crate::input::Path;
use crate::operation::Operation;
use crate::wire::server::{McpResource, McpState, ServerPath};
use crate::workdir::Workdir;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("mcp.status", "/mcp", statuses),
        Operation::get("experimental.resource.list", "/experimental/resource", resources),
        Operation::post("mcp.connect", "/mcp/{name}/connect", connect).fails_with([NoServer, Body]),
        Operation::post("mcp.disconnect", "/mcp/{name}/disconnect", disconnect).fails_with([NoServer]),
    ]
}

async fn statuses(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<BTreeMap<String, McpState>>> {
    let statuses = app.engine.mcp().statuses(&location).await;
    let shown: BTreeMap<String, McpState> =
        statuses.into_iter().map(|(name, status)| (name, status.into())).collect();
    answer(&shown)
}

async fn resources(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<BTreeMap<String, McpResource>>> {
    let resources = app.engine.mcp().resources(&location).await;
    let shown: BTreeMap<String, McpResource> =
        resources.into_iter().map(|(server, resource)| McpResource::of(&server, resource)).collect();
    answer(&shown)
}

async fn connect(
    State(app): State<App>,
    Workdir(location): Workdir,
    Path(server): Path<ServerPath>,
) -> Result<JsonAnswer<bool>> {
    app.engine.mcp().connect(&location, &server.name).await?;
    answer(&true)
}

async fn disconnect(
    State(app): State<App>,
    Workdir(location): Workdir,
    Path(server): Path<ServerPath>,
) -> Result<JsonAnswer<bool>> {
    app.engine.mcp().disconnect(&location, &server.name).await?;
    answer(&true)
}
