//! MCP servers: what they are doing, and switching them.

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use everturn_engine::mcp::{Resource, ServerStatus};
use everturn_model::Map;
use serde_json::{Value, json};

use crate::App;
use crate::error::Error;
use crate::place::Place;
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    let login = "logging in to an MCP server";
    Router::new()
        .route("/mcp", get(statuses).post(|| absent("adding an MCP server over HTTP")))
        .route("/experimental/resource", get(resources))
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
    let statuses = app.engine.mcp().statuses(&location).await;
    let shown: BTreeMap<String, Value> =
        statuses.into_iter().map(|(name, status)| (name, shape(&status))).collect();
    ok(&shown)
}

/// A state as OpenCode's clients read it; they know of none in between.
fn shape(status: &ServerStatus) -> Value {
    match status {
        ServerStatus::Connected => json!({"status": "connected"}),
        ServerStatus::Disabled => json!({"status": "disabled"}),
        ServerStatus::Failed(error) => json!({"status": "failed", "error": error}),
        ServerStatus::NeedsAuth(_) => json!({"status": "needs_auth"}),
        ServerStatus::Connecting => json!({"status": "failed", "error": "it is still connecting"}),
    }
}

async fn resources(State(app): State<App>, Place(location): Place) -> Result {
    let resources = app.engine.mcp().resources(&location).await;
    ok(&resources.into_iter().map(|(server, resource)| resource_of(&server, resource)).collect::<Map>())
}

/// A resource under the name that clients list it by.
fn resource_of(server: &str, resource: Resource) -> (String, Value) {
    let plain = |text: &str| -> String {
        let keep = |char: char| if char.is_ascii_alphanumeric() || "_-".contains(char) { char } else { '_' };
        text.chars().map(keep).collect()
    };
    let key = format!("{}:{}", plain(server), plain(&resource.name));
    let mut map = Map::new();
    map.insert("name".to_owned(), resource.name.into());
    map.insert("uri".to_owned(), resource.uri.into());
    map.extend(resource.description.map(|text| ("description".to_owned(), text.into())));
    map.extend(resource.mime_type.map(|text| ("mimeType".to_owned(), text.into())));
    map.insert("client".to_owned(), server.into());
    (key, map.into())
}

async fn connect(State(app): State<App>, Place(location): Place, Path(name): Path<String>) -> Result {
    app.engine.mcp().connect(&location, &name).await?;
    ok(&true)
}

async fn disconnect(State(app): State<App>, Place(location): Place, Path(name): Path<String>) -> Result {
    app.engine.mcp().disconnect(&location, &name)?;
    ok(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_resources_have_the_shapes_of_the_protocol() {
        // A login that is missing carried a field more than clients' schemas allow.
        assert_eq!(shape(&ServerStatus::NeedsAuth("401".to_owned())), json!({"status": "needs_auth"}));
        let resource = Resource {
            uri: "demo://a".to_owned(),
            name: "A note.md".to_owned(),
            description: None,
            mime_type: Some("text/markdown".to_owned()),
        };
        let expected = json!({"name": "A note.md", "uri": "demo://a", "mimeType": "text/markdown", "client": "my server"});
        assert_eq!(resource_of("my server", resource), ("my_server:A_note_md".to_owned(), expected));
    }
}
