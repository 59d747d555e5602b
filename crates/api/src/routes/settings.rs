//! Configuration, providers, agents: read only.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use everturn_engine::agents::Agent;
use everturn_model::Map;
use serde_json::{Value, json};

use crate::App;
use crate::reply::{Result, ok};
use crate::wire::{provider, secret};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/config", get(config))
        .route("/global/config", get(config))
        .route("/config/providers", get(configured))
        .route("/provider", get(providers))
        .route("/provider/auth", get(auth_methods))
        .route("/agent", get(agents))
        .route("/command", get(commands))
}

/// The merged configuration without its secrets; clients read some of its maps without looking whether they are
/// there.
async fn config(State(app): State<App>) -> Result {
    let mut config = secret::without(&app.engine.config().raw);
    for key in ["agent", "command", "mode", "provider"] {
        config.entry(key).or_insert_with(|| Map::new().into());
    }
    config.entry("plugin").or_insert_with(|| Value::Array(Vec::new()));
    ok(&config)
}

/// The providers that can be used.
async fn configured(State(app): State<App>) -> Result {
    let usable = provider::usable(&app.engine)?;
    let default = provider::defaults(&app.engine, usable.iter().map(|(known, _)| *known));
    let providers = usable.iter().map(|known| provider::provider(app.engine.config(), known));
    ok(&json!({"providers": providers.collect::<Vec<_>>(), "default": default}))
}

/// All providers, and which of them can be used.
async fn providers(State(app): State<App>) -> Result {
    let config = app.engine.config();
    let usable = provider::usable(&app.engine)?;
    let connected: Vec<&str> = usable.iter().map(|(known, _)| known.id.as_ref()).collect();
    let all = config.catalogue().offered(&|_| true);
    let default = provider::defaults(&app.engine, all.iter().map(|(known, _)| *known));
    let all = all.iter().map(|known| provider::provider(config, known));
    ok(&json!({"all": all.collect::<Vec<_>>(), "default": default, "connected": connected}))
}

/// Keys come from the configuration; there is no way to sign in through the server.
async fn auth_methods() -> Result {
    ok(&Map::new())
}

async fn agents(State(app): State<App>) -> Result {
    ok(&app.engine.agents().all().iter().map(agent).collect::<Vec<_>>())
}

fn agent(agent: &Agent) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), agent.name.as_str().into());
    if let Some(description) = &agent.description {
        map.insert("description".to_owned(), description.as_str().into());
    }
    map.insert("mode".to_owned(), agent.mode.into());
    map.insert("native".to_owned(), true.into());
    if agent.hidden {
        map.insert("hidden".to_owned(), true.into());
    }
    map.insert("permission".to_owned(), json!(agent.permission));
    map.insert("options".to_owned(), Map::new().into());
    map.into()
}

/// None: commands cannot be run in this release, so none is offered.
async fn commands() -> Result {
    ok(&Vec::<Value>::new())
}
