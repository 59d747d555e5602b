//! Providers and models as clients see them. Keys are never among it.

use everturn_engine::Config;
use everturn_engine::config::{ModelConfig, ProviderConfig};
use everturn_model::Map;
use everturn_model::usage::Price;
use serde_json::{Value, json};

use super::secret;

/// The kinds of content that models are asked about.
const MODALITIES: [&str; 5] = ["text", "audio", "image", "video", "pdf"];

/// All providers.
pub(crate) fn providers(config: &Config) -> Vec<Value> {
    config.providers.values().map(provider).collect()
}

/// For each provider the model that stands for it.
pub(crate) fn defaults(config: &Config) -> Map {
    let chosen = config.model.as_ref();
    let of = |provider: &ProviderConfig| {
        let named = chosen.filter(|model| model.provider == provider.id).map(|model| model.model.clone());
        named.or_else(|| provider.models.keys().next().cloned())
    };
    let known =
        config.providers.values().filter_map(|provider| Some((provider.id.clone(), of(provider)?.into())));
    known.collect()
}

fn provider(provider: &ProviderConfig) -> Value {
    let models: Map =
        provider.models.iter().map(|(id, config)| (id.clone(), model(provider, config))).collect();
    json!({
        "id": provider.id,
        "name": provider.name,
        "source": "config",
        "env": provider.env,
        "options": secret::without(&provider.options),
        "models": models,
    })
}

fn model(provider: &ProviderConfig, model: &ModelConfig) -> Value {
    let takes = |list: &[String]| -> Map {
        let has = |kind: &str| list.iter().any(|name| name == kind);
        MODALITIES.iter().map(|kind| ((*kind).to_owned(), has(kind).into())).collect()
    };
    json!({
        "id": model.id,
        "providerID": provider.id,
        "api": {"id": model.wire, "url": "", "npm": provider.npm},
        "name": model.name,
        "family": "",
        "capabilities": {
            "temperature": model.temperature,
            "reasoning": model.reasoning,
            "attachment": model.attachment,
            "toolcall": model.tool_call,
            "input": takes(&model.input),
            "output": takes(&model.produces),
            "interleaved": false,
        },
        "cost": cost(model),
        "limit": {"context": model.context, "output": model.output},
        "status": "active",
        "options": secret::without(&model.options),
        "headers": {},
        "release_date": model.release_date,
        "variants": {},
    })
}

fn cost(model: &ModelConfig) -> Value {
    let mut cost = price(&model.pricing.base);
    let over = model.pricing.tiers.iter().find(|tier| tier.above == 200_000);
    if let (Some(tier), Some(map)) = (over, cost.as_object_mut()) {
        map.insert("experimentalOver200K".to_owned(), price(&tier.price));
    }
    cost
}

fn price(price: &Price) -> Value {
    json!({
        "input": price.input.to_json(),
        "output": price.output.to_json(),
        "cache": {"read": price.cache_read.to_json(), "write": price.cache_write.to_json()},
    })
}
