//! Configuration, providers, agents: read only.

use axum::extract::State;
use everturn_engine::Config;
use everturn_model::Map;
use everturn_model::secret_shape::mask;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::Body;
use crate::operation::Operation;
use crate::wire::agent::AgentInfo;
use crate::wire::provider::{self, KnownProviders, ProviderShape, UsableProviders};
use crate::wire::secret;
use crate::wire::server::{ConfigShape, EmptyMap};
use crate::workdir::Here;

/// Who lists agents. Rules that all have to do with each other take a while to be put together, and until then neither other
/// clients nor the end of the server wait for it.
static LISTING: Semaphore = Semaphore::const_new(1);

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("config.get", "/config", config),
        Operation::get("global.config.get", "/global/config", own_config),
        Operation::get("config.providers", "/config/providers", configured).fails_with([Body]),
        Operation::get("provider.list", "/provider", providers).fails_with([Body]),
        Operation::get("provider.auth", "/provider/auth", auth_methods),
        Operation::get("app.agents", "/agent", agents),
    ]
}

/// The merged configuration without its secrets; clients read some of its maps without looking whether they are
/// there. What is wrong with it is below a key of our own, if something is.
async fn config(here: Here) -> Result<JsonAnswer<ConfigShape>> {
    shown(&here.config)
}

/// The same without any project's.
async fn own_config(State(app): State<App>) -> Result<JsonAnswer<ConfigShape>> {
    shown(&*app.engine.configurations().own().await)
}

fn shown(config: &Config) -> Result<JsonAnswer<ConfigShape>> {
    let problems: Vec<String> =
        config.problems.iter().map(|problem| mask(&problem.to_string()).into_owned()).collect();
    let mut config = secret::without(&config.raw);
    if !problems.is_empty() {
        config.insert("everturn".to_owned(), json!({"problems": problems}));
    }
    for key in ["agent", "command", "mode", "provider"] {
        config.entry(key).or_insert_with(|| Map::new().into());
    }
    config.entry("plugin").or_insert_with(|| Value::Array(Vec::new()));
    answer(&config)
}

/// The providers that can be used.
async fn configured(State(app): State<App>, here: Here) -> Result<JsonAnswer<UsableProviders<'static>>> {
    let usable = provider::usable(&app.engine, &here)?;
    let default = provider::defaults(&app.engine, &here, usable.iter().map(|(known, _)| *known));
    let providers = usable.iter().map(|known| ProviderShape::of(&here.config, known));
    answer(&UsableProviders { providers: providers.collect(), default })
}

/// All providers, and which of them can be used.
async fn providers(State(app): State<App>, here: Here) -> Result<JsonAnswer<KnownProviders<'static>>> {
    let config = &here.config;
    let usable = provider::usable(&app.engine, &here)?;
    let connected = usable.iter().map(|(known, _)| known.id.as_ref()).collect();
    let all = config.catalogue().offered(&|_| true);
    let default = provider::defaults(&app.engine, &here, all.iter().map(|(known, _)| *known));
    let all = all.iter().map(|known| ProviderShape::of(config, known)).collect();
    answer(&KnownProviders { all, default, connected })
}

/// Keys come from the configuration; there is no way to sign in through the server.
async fn auth_methods() -> Result<JsonAnswer<EmptyMap>> {
    answer(&EmptyMap)
}

async fn agents(here: Here) -> Result<JsonAnswer<Vec<AgentInfo<'static>>>> {
    // One at a time: whoever comes second finds what the first has found out.
    let turn = LISTING.acquire().await.map_err(|error| Error::Internal(error.to_string()))?;
    let listed = move || {
        // Even if the client goes away meanwhile.
        let _turn = turn;
        answer(&here.config.agents().with_rules().map(AgentInfo::of).collect::<Vec<_>>())
    };
    tokio::task::spawn_blocking(listed).await?
}
