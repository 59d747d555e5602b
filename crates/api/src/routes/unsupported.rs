//! What clients of OpenCode offer to a person and this release has not. A client is told so; nothing pretends to have been
//! done. What else OpenCode has is no route here.

use std::convert::Infallible;
use std::future::ready;

use axum::extract::State;

use crate::App;
use crate::answer::Result;
use crate::error::{Error, ErrorKind};
use crate::input::{Path, SessionPath};
use crate::operation::{HttpMethod, Operation};

pub(super) fn operations() -> Vec<Operation> {
    let share = "sharing a session";
    let settings = "changing the configuration over HTTP";
    let (add, login) = ("adding an MCP server over HTTP", "logging in to an MCP server");
    vec![
        of_session(HttpMethod::Post, "session.share", "/session/{sessionID}/share", share),
        of_session(HttpMethod::Delete, "session.unshare", "/session/{sessionID}/share", share),
        of_server(HttpMethod::Patch, "config.update", "/config", settings),
        of_server(HttpMethod::Patch, "global.config.update", "/global/config", settings),
        of_server(HttpMethod::Post, "mcp.add", "/mcp", add),
        of_server(HttpMethod::Post, "mcp.auth.start", "/mcp/{name}/auth", login),
        of_server(HttpMethod::Delete, "mcp.auth.remove", "/mcp/{name}/auth", login),
        of_server(HttpMethod::Post, "mcp.auth.callback", "/mcp/{name}/auth/callback", login),
        of_server(HttpMethod::Post, "mcp.auth.authenticate", "/mcp/{name}/auth/authenticate", login),
    ]
}

fn of_server(method: HttpMethod, id: &'static str, path: &'static str, what: &'static str) -> Operation {
    Operation::on(method, id, path, move || ready(Err::<Infallible, _>(Error::Unsupported(what))))
        .unsupported(what)
}

// A missing session is reported first, as everywhere.
fn of_session(method: HttpMethod, id: &'static str, path: &'static str, what: &'static str) -> Operation {
    let handler = move |State(app): State<App>, Path(at): Path<SessionPath>| missing(app, at, what);
    Operation::on(method, id, path, handler).unsupported(what).fails_with([ErrorKind::NotFound])
}

async fn missing(app: App, at: SessionPath, what: &'static str) -> Result<Infallible> {
    app.engine.sessions().get(&at.session.0).await?;
    Err(Error::Unsupported(what))
}
