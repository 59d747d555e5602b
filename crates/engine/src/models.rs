//! From a model's name to a provider, its limits and its prices.

use std::sync::Arc;

use everturn_llm::{Endpoint, OpenAiChat, Origin, Provider, Scripted, Secret};
use everturn_model::session::ModelRef;
use serde_json::Value;

use crate::config::{Config, ModelConfig, ProviderConfig};
use crate::{Engine, Error};

/// The provider that plays scripts without a network.
pub const SCRIPTED: &str = "scripted";

/// A model that can be asked.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Which one.
    pub reference: ModelRef,
    /// Its settings.
    pub model: ModelConfig,
    /// The way to it.
    pub provider: Arc<dyn Provider>,
}

impl Chosen {
    /// The model as the conversation names it.
    pub(crate) fn origin(&self) -> Origin {
        Origin { provider: self.reference.provider.clone(), model: self.reference.model.clone() }
    }
}

impl Engine {
    /// The model that a selection means.
    ///
    /// # Errors
    /// When there is none or its provider cannot be spoken to.
    pub fn choose(&self, wanted: Option<&ModelRef>) -> Result<Chosen, Error> {
        let config = self.config();
        let first = || {
            let provider = config.providers.values().find(|provider| !provider.models.is_empty())?;
            let model = provider.models.values().next()?;
            Some(ModelRef { provider: provider.id.clone(), model: model.id.clone(), variant: None })
        };
        let reference = wanted
            .cloned()
            .or_else(|| config.model.clone())
            .or_else(first)
            .ok_or_else(|| unknown(config, "(none chosen)"))?;
        if reference.provider == SCRIPTED {
            let model =
                ModelConfig { id: reference.model.clone(), tool_call: true, ..ModelConfig::default() };
            return Ok(Chosen { reference, model, provider: Arc::new(Scripted::demo()) });
        }
        let name = format!("{}/{}", reference.provider, reference.model);
        let provider = config.providers.get(&reference.provider).ok_or_else(|| unknown(config, &name))?;
        let model = provider.models.get(&reference.model).ok_or_else(|| unknown(config, &name))?;
        Ok(Chosen { reference, model: model.clone(), provider: connect(provider)? })
    }
}

fn unknown(config: &Config, name: &str) -> Error {
    let known: Vec<String> = config
        .providers
        .values()
        .flat_map(|provider| provider.models.keys().map(|model| format!("{}/{model}", provider.id)))
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::NoModel { name: name.to_owned(), known }
}

fn connect(provider: &ProviderConfig) -> Result<Arc<dyn Provider>, Error> {
    let base = match provider.npm.as_str() {
        "@ai-sdk/openai" | "@ai-sdk/openai-compatible" | "" => option(provider, "baseURL"),
        other => {
            let protocol = other.to_owned();
            return Err(Error::NoProtocol { provider: provider.id.clone(), protocol });
        }
    };
    let base = match (base, provider.id.as_str()) {
        (Some(base), _) => base,
        (None, "openai") => "https://api.openai.com/v1".to_owned(),
        (None, id) => return Err(Error::Invalid(format!("provider {id} has no `baseURL` in its options"))),
    };
    let mut endpoint = Endpoint::new(base);
    if let Some(key) = option(provider, "apiKey") {
        endpoint = endpoint.with_api_key(Secret::from(key));
    }
    for (name, value) in provider.options.get("headers").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = value.as_str() {
            endpoint.headers.push((name.clone(), Secret::from(value.to_owned())));
        }
    }
    Ok(Arc::new(OpenAiChat::new(endpoint)))
}

fn option(provider: &ProviderConfig, name: &str) -> Option<String> {
    provider.options.get(name).and_then(Value::as_str).map(str::to_owned)
}
