//! Providers and models as clients see them. Keys are never shown.

use std::collections::BTreeMap;

use everturn_engine::models::catalogue::variant::effort_word;
use everturn_engine::models::catalogue::{Catalogue, Modalities, Modality, ModelInfo, ProviderInfo};
use everturn_engine::models::pricing;
use everturn_engine::{Config, Engine, Error};
use everturn_model::session::ModelRef;
use everturn_model::usage::Price;
use everturn_model::{Map, Money};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::secret;
use crate::answer::shaped;
use crate::workdir::Here;

/// A provider and its models.
pub(crate) type ProviderWithModels<'a> = (&'a ProviderInfo, Vec<&'a ModelInfo>);

/// What can be used, the best first: a client that has to choose takes the first.
pub(crate) fn usable<'c>(engine: &Engine, here: &'c Here) -> Result<Vec<ProviderWithModels<'c>>, Error> {
    let mut offers = here.config.catalogue().offered(&engine.models().usable()?);
    let chosen = chosen(engine, here);
    offers.sort_by_key(|(known, _)| chosen.as_ref().is_none_or(|chosen| chosen.provider != known.id));
    Ok(offers)
}

/// For each provider the model that stands for it.
pub(crate) fn defaults<'a>(
    engine: &Engine,
    here: &Here,
    providers: impl Iterator<Item = &'a ProviderInfo>,
) -> Map {
    let chosen = chosen(engine, here);
    let of = |provider: &ProviderInfo| {
        let named = chosen.as_ref().filter(|model| model.provider == provider.id);
        let named = named.map(|model| model.model.clone());
        named.or_else(|| Catalogue::default_of(provider).map(|model| model.id.to_string()))
    };
    providers.filter_map(|provider| Some((provider.id.to_string(), of(provider)?.into()))).collect()
}

/// The model that is configured for sessions that choose none.
fn chosen(engine: &Engine, here: &Here) -> Option<ModelRef> {
    engine.models().of(&here.config).named(here.config.model.as_ref()?, &here.location.directory).ok()
}

/// The providers that can be used.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct UsableProviders<'a> {
    pub(crate) providers: Vec<ProviderShape<'a>>,
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) default: Map,
}

/// All providers, and which of them can be used.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct KnownProviders<'a> {
    pub(crate) all: Vec<ProviderShape<'a>>,
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) default: Map,
    pub(crate) connected: Vec<&'a str>,
}

shaped! { UsableProviders<'_> as UsableProviders<'static>, KnownProviders<'_> as KnownProviders<'static> }

/// A provider with its models.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Provider")]
pub(crate) struct ProviderShape<'a> {
    id: &'a str,
    name: &'a str,
    /// Where it is known from.
    source: ProviderSource,
    /// Variables that its key may be in.
    env: Vec<&'a str>,
    options: Map,
    models: NewestModels<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum ProviderSource {
    Env,
    Config,
}

/// Models by id, the newest first.
#[derive(Debug, JsonSchema)]
#[schemars(inline)]
struct NewestModels<'a>(
    #[schemars(with = "BTreeMap<&'a str, ModelShape<'a>>")] Vec<(&'a str, ModelShape<'a>)>,
);

impl Serialize for NewestModels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(id, model)| (id, model)))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
struct ModelShape<'a> {
    id: &'a str,
    #[serde(rename = "providerID")]
    provider: &'a str,
    api: Api<'a>,
    name: &'a str,
    family: &'a str,
    capabilities: Capabilities,
    cost: Cost,
    limit: ModelLimit,
    #[schemars(with = "ModelState")]
    status: &'a str,
    options: Map,
    headers: BTreeMap<String, String>,
    release_date: &'a str,
    #[schemars(with = "BTreeMap<String, Map>")]
    variants: Map,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the words of the catalogue")]
enum ModelState {
    Alpha,
    Beta,
    Deprecated,
    Active,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Api<'a> {
    id: &'a str,
    url: &'a str,
    npm: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Capabilities {
    temperature: bool,
    reasoning: bool,
    attachment: bool,
    toolcall: bool,
    input: ModalityFlags,
    output: ModalityFlags,
    interleaved: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ModalityFlags {
    text: bool,
    audio: bool,
    image: bool,
    video: bool,
    pdf: bool,
}

/// In dollars for a million tokens.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Cost {
    #[serde(flatten)]
    base: Rates,
    #[serde(rename = "experimentalOver200K", skip_serializing_if = "Option::is_none")]
    over: Option<Rates>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Rates {
    #[schemars(with = "f64")]
    input: Money,
    #[schemars(with = "f64")]
    output: Money,
    cache: CacheRates,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct CacheRates {
    #[schemars(with = "f64")]
    read: Money,
    #[schemars(with = "f64")]
    write: Money,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ModelLimit {
    context: u64,
    output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
}

impl<'a> ProviderShape<'a> {
    /// A provider and what it offers, as clients see it.
    pub(crate) fn of(config: &Config, (provider, models): &ProviderWithModels<'a>) -> Self {
        let written = config.raw.get("provider").and_then(|all| all.get(provider.id.as_ref()));
        let options = written.and_then(|written| written.get("options")).and_then(Value::as_object);
        Self {
            id: &provider.id,
            name: &provider.name,
            source: if provider.configured { ProviderSource::Config } else { ProviderSource::Env },
            env: provider.env.iter().map(AsRef::as_ref).collect(),
            options: options.map(secret::without).unwrap_or_default(),
            models: NewestModels(
                models.iter().map(|known| (known.id.as_ref(), ModelShape::of(provider, known))).collect(),
            ),
        }
    }
}

impl<'a> ModelShape<'a> {
    fn of(provider: &'a ProviderInfo, model: &'a ModelInfo) -> Self {
        // An address in the configuration is among the provider's options.
        let url = if provider.open { None } else { model.base_url(provider) };
        let variants = model.variants().into_iter().map(|variant| {
            let mut options = secret::without(&variant.options);
            if let Some(effort) = variant.reasoning.effort {
                options.insert("reasoningEffort".to_owned(), effort_word(effort).into());
            }
            (variant.name.into_owned(), options.into())
        });
        Self {
            id: &model.id,
            provider: &provider.id,
            api: Api { id: &model.wire, url: url.unwrap_or_default(), npm: &model.package },
            name: &model.name,
            family: model.family.as_deref().unwrap_or_default(),
            capabilities: Capabilities {
                temperature: model.abilities.temperature,
                reasoning: model.abilities.reasoning,
                attachment: model.abilities.attachment,
                toolcall: model.abilities.tool_call,
                input: ModalityFlags::of(model.abilities.input),
                output: ModalityFlags::of(model.abilities.output),
                interleaved: false,
            },
            cost: Cost::of(model),
            limit: ModelLimit {
                context: model.limits.context,
                output: model.limits.output,
                input: model.limits.input,
            },
            status: model.status.as_str(),
            options: secret::without(&model.options),
            headers: BTreeMap::new(),
            release_date: &model.released,
            variants: variants.collect(),
        }
    }
}

impl ModalityFlags {
    fn of(known: Modalities) -> Self {
        Self {
            text: known.contains(Modality::Text),
            audio: known.contains(Modality::Audio),
            image: known.contains(Modality::Image),
            video: known.contains(Modality::Video),
            pdf: known.contains(Modality::Pdf),
        }
    }
}

impl Cost {
    fn of(model: &ModelInfo) -> Self {
        let pricing = pricing(&model.prices);
        let over = pricing.tiers.iter().find(|tier| tier.above == 200_000);
        Self { base: Rates::of(&pricing.base), over: over.map(|tier| Rates::of(&tier.price)) }
    }
}

impl Rates {
    fn of(price: &Price) -> Self {
        Self {
            input: price.input,
            output: price.output,
            cache: CacheRates { read: price.cache_read, write: price.cache_write },
        }
    }
}
