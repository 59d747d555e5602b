//! Providers and models as clients see them. Keys are never among it.

use everturn_engine::models::catalogue::variant::effort_word;
use everturn_engine::models::catalogue::{Catalogue, Modalities, Modality, ModelInfo, ProviderInfo};
use everturn_engine::models::pricing;
use everturn_engine::{Config, Engine, Error};
use everturn_model::Map;
use everturn_model::session::ModelRef;
use everturn_model::usage::Price;
use serde_json::{Value, json};

use super::secret;

/// A provider and its models.
pub(crate) type Offer<'a> = (&'a ProviderInfo, Vec<&'a ModelInfo>);

/// What can be used, the best first: a client that has to choose takes the first.
pub(crate) fn usable(engine: &Engine) -> Result<Vec<Offer<'_>>, Error> {
    let mut offers = engine.config().catalogue().offered(&engine.models().usable()?);
    let chosen = chosen(engine);
    offers.sort_by_key(|(known, _)| chosen.as_ref().is_none_or(|chosen| chosen.provider != known.id));
    Ok(offers)
}

/// For each provider the model that stands for it.
pub(crate) fn defaults<'a>(engine: &Engine, providers: impl Iterator<Item = &'a ProviderInfo>) -> Map {
    let chosen = chosen(engine);
    let of = |provider: &ProviderInfo| {
        let named = chosen.as_ref().filter(|model| model.provider == provider.id);
        let named = named.map(|model| model.model.clone());
        named.or_else(|| Catalogue::default_of(provider).map(|model| model.id.to_string()))
    };
    providers.filter_map(|provider| Some((provider.id.to_string(), of(provider)?.into()))).collect()
}

/// The model that is configured for sessions that choose none.
fn chosen(engine: &Engine) -> Option<ModelRef> {
    engine.models().named(engine.config().model.as_ref()?, engine.directory()).ok()
}

/// A provider with its models.
pub(crate) fn provider(config: &Config, (provider, models): &Offer<'_>) -> Value {
    let written = config.raw.get("provider").and_then(|all| all.get(provider.id.as_ref()));
    let options = written.and_then(|written| written.get("options")).and_then(Value::as_object);
    let models = models.iter().map(|known| (known.id.to_string(), model(provider, known)));
    json!({
        "id": provider.id,
        "name": provider.name,
        "source": if provider.configured { "config" } else { "env" },
        "env": provider.env,
        "options": options.map(secret::without).unwrap_or_default(),
        "models": models.collect::<Map>(),
    })
}

fn model(provider: &ProviderInfo, model: &ModelInfo) -> Value {
    // An address in the configuration is among the provider's options.
    let url = if provider.open { None } else { model.base_url(provider) };
    let variants = model.variants().into_iter().map(|variant| {
        let mut options = secret::without(&variant.options);
        if let Some(effort) = variant.reasoning.effort {
            options.insert("reasoningEffort".to_owned(), effort_word(effort).into());
        }
        (variant.name.into_owned(), options.into())
    });
    json!({
        "id": model.id,
        "providerID": provider.id,
        "api": {"id": model.wire, "url": url.unwrap_or_default(), "npm": model.package},
        "name": model.name,
        "family": model.family.as_deref().unwrap_or_default(),
        "capabilities": {
            "temperature": model.abilities.temperature,
            "reasoning": model.abilities.reasoning,
            "attachment": model.abilities.attachment,
            "toolcall": model.abilities.tool_call,
            "input": kinds(model.abilities.input),
            "output": kinds(model.abilities.output),
            "interleaved": false,
        },
        "cost": cost(model),
        "limit": limit(model),
        "status": model.status.as_str(),
        "options": secret::without(&model.options),
        "headers": {},
        "release_date": model.released,
        "variants": variants.collect::<Map>(),
    })
}

fn kinds(known: Modalities) -> Map {
    let kind = |kind: Modality| (kind.as_str().to_owned(), known.contains(kind).into());
    Modality::ALL.into_iter().map(kind).collect()
}

fn limit(model: &ModelInfo) -> Value {
    let mut limit = json!({"context": model.limits.context, "output": model.limits.output});
    if let (Some(input), Some(map)) = (model.limits.input, limit.as_object_mut()) {
        map.insert("input".to_owned(), input.into());
    }
    limit
}

fn cost(model: &ModelInfo) -> Value {
    let pricing = pricing(&model.prices);
    let mut cost = price(&pricing.base);
    let over = pricing.tiers.iter().find(|tier| tier.above == 200_000);
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
