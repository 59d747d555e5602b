//! The configuration laid over the table.
//!
//! The configuration has the shape of OpenCode's file: `provider.<id>` with `name`, `npm`, `api`, `env`, `options`,
//! `models`, `whitelist` and `blacklist`, and `enabled_providers` and `disabled_providers` beside it. What it does
//! not mention stays as the table says. Fields that are unknown here are left alone, since they are other programs'
//! business; a field of the wrong kind is refused, since a limit that is silently ignored is found out too late.
//!
//! A model that is given another one's id on the wire starts from what is known of that one, and is named by its own
//! id.
//!
//! Two things are replaced as a whole. A price for input or output replaces the tiers too, which belong to the old
//! price. An address of a provider replaces the addresses of its models.

use serde_json::{Map, Value};

use super::option::{self, TranslatedOptions};
use super::protocol::COMPATIBLE;
use super::{
    Catalogue, CatalogueText, Modalities, ModelInfo, ModelStatus, ProviderInfo, Rate, TokenPrice,
    TokenPriceTier, Variant, variant,
};
use crate::Secret;

/// A setting of the wrong kind.
///
/// It says what kind of value was found but not the value, which may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` in the configuration must be {wanted}, not {found}: correct it or remove it")]
pub struct OverlayError {
    /// Where it is.
    pub path: String,
    /// What it must be.
    pub wanted: &'static str,
    /// What it is.
    pub found: &'static str,
}

impl Catalogue {
    /// This catalogue with a configuration laid over it.
    ///
    /// # Errors
    ///
    /// When a setting is of the wrong kind.
    pub fn overlaid(&self, config: &Map<String, Value>) -> Result<Self, OverlayError> {
        let root = ConfigNode { map: config, path: String::new() };
        let mut catalogue = self.clone();
        for (id, node) in root.nodes("provider")? {
            let id = CatalogueText::Owned(id);
            let provider = catalogue.providers.entry(id.clone()).or_insert_with(|| ProviderInfo {
                name: id.clone(),
                id,
                package: COMPATIBLE.into(),
                ..ProviderInfo::default()
            });
            lay_provider(provider, &node)?;
        }
        let enabled = root.texts("enabled_providers")?;
        let disabled = root.texts("disabled_providers")?.unwrap_or_default();
        let is_on = |id: &CatalogueText| {
            enabled.as_ref().is_none_or(|enabled| enabled.contains(id)) && !disabled.contains(id)
        };
        let Self { providers, switched_off, .. } = &mut catalogue;
        switched_off.extend(providers.keys().filter(|id| !is_on(id)).cloned());
        providers.retain(|id, _| is_on(id));
        Ok(catalogue)
    }
}

fn lay_provider(provider: &mut ProviderInfo, node: &ConfigNode<'_>) -> Result<(), OverlayError> {
    provider.configured = true;
    set(&mut provider.name, node.text("name")?);
    set(&mut provider.env, node.texts("env")?);
    if let Some(package) = node.text("npm")? {
        provider.package = package;
        for model in provider.models.values_mut() {
            model.package = provider.package.clone();
        }
    }
    let mut address = node.text("api")?;
    if let Some(options) = node.node("options")? {
        address = options.text("baseURL")?.or(address);
        provider.key = options.secret("apiKey")?.or(provider.key.take());
        provider.headers.extend(options.headers()?);
        let ours = ["baseURL", "apiKey", "headers"];
        let others = options.map.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
        provider.options.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    // A variable that was not set leaves an empty text behind.
    if let Some(address) = address.filter(|address| !address.trim().is_empty()) {
        provider.base_url = Some(address);
        provider.open = true;
        for model in provider.models.values_mut() {
            model.base_url = None;
        }
    }
    let mut nodes = node.nodes("models")?;
    // Aliases start from what the configuration makes of the models that they stand for.
    nodes.sort_by_key(|(_, node)| node.get("id").is_some());
    for (id, node) in nodes {
        let mut model = basis(provider, &id, node.text("id")?.as_deref());
        lay_model(&mut model, &node)?;
        provider.models.insert(CatalogueText::Owned(id), model);
    }
    let white = node.texts("whitelist")?;
    let black = node.texts("blacklist")?.unwrap_or_default();
    provider
        .models
        .retain(|id, _| white.as_ref().is_none_or(|white| white.contains(id)) && !black.contains(id));
    Ok(())
}

/// What a model is before its settings are laid over it: the model of the provider with the id on the wire, or with its
/// own, or one that nobody described.
fn basis(provider: &ProviderInfo, id: &str, wire: Option<&str>) -> ModelInfo {
    let other = wire.filter(|wire| *wire != id).and_then(|wire| {
        let same = || provider.models.values().find(|known| known.wire == wire);
        provider.models.get(wire).or_else(same)
    });
    if let Some(other) = other {
        let id = CatalogueText::Owned(id.to_owned());
        return ModelInfo { name: id.clone(), id, ..other.clone() };
    }
    provider.models.get(id).cloned().unwrap_or_else(|| provider.undescribed(id))
}

fn lay_model(model: &mut ModelInfo, node: &ConfigNode<'_>) -> Result<(), OverlayError> {
    set(&mut model.wire, node.text("id")?);
    set(&mut model.name, node.text("name")?);
    set(&mut model.released, node.text("release_date")?);
    model.family = node.text("family")?.or(model.family.take());
    if let Some(own) = node.node("provider")? {
        set(&mut model.package, own.text("npm")?);
        model.base_url = own.text("api")?.or(model.base_url.take());
    }
    if let Some(limit) = node.node("limit")? {
        set(&mut model.limits.context, limit.number("context")?);
        set(&mut model.limits.output, limit.number("output")?);
        model.limits.input = limit.number("input")?.or(model.limits.input);
    }
    set(&mut model.abilities.reasoning, node.flag("reasoning")?);
    set(&mut model.abilities.attachment, node.flag("attachment")?);
    set(&mut model.abilities.tool_call, node.flag("tool_call")?);
    set(&mut model.abilities.temperature, node.flag("temperature")?);
    if let Some(modalities) = node.node("modalities")? {
        set(&mut model.abilities.input, modalities.modalities("input")?);
        set(&mut model.abilities.output, modalities.modalities("output")?);
    }
    set(&mut model.status, node.status()?);
    if let Some(cost) = node.node("cost")? {
        lay_prices(model, &cost)?;
    }
    model.headers.extend(node.headers()?);
    if let Some(node) = node.node("options")? {
        let variant = spell(model, "", &node);
        let setting = model.setting(Some(&variant));
        (model.reasoning, model.options) = (setting.reasoning, setting.options);
    }
    if node.get("variants").is_some() {
        let variants = lay_variants(model, &node.nodes("variants")?)?;
        model.own_variants = Some(variants);
    }
    Ok(())
}

fn lay_prices(model: &mut ModelInfo, cost: &ConfigNode<'_>) -> Result<(), OverlayError> {
    if cost.get("input").or(cost.get("output")).is_some() {
        model.prices.tiers.clear();
    }
    lay_price(&mut model.prices.base, cost)?;
    let mut tiers = Vec::new();
    if let Some(over) = cost.node("context_over_200k")? {
        tiers.push(tier(200_000, model.prices.base, &over)?);
    }
    for node in cost.list("tiers")? {
        let size = node.node("tier")?.map(|tier| tier.number("size")).transpose()?.flatten();
        let missing = || node.wrong("tier.size", "a whole number", "missing");
        tiers.push(tier(size.ok_or_else(missing)?, model.prices.base, &node)?);
    }
    if !tiers.is_empty() {
        model.prices.tiers = tiers;
    }
    Ok(())
}

/// A tier: what it does not mention costs what it does below.
fn tier(above: u64, base: TokenPrice, node: &ConfigNode<'_>) -> Result<TokenPriceTier, OverlayError> {
    let mut price = base;
    lay_price(&mut price, node)?;
    Ok(TokenPriceTier { above, price })
}

fn lay_price(price: &mut TokenPrice, node: &ConfigNode<'_>) -> Result<(), OverlayError> {
    set(&mut price.input, node.rate("input")?);
    set(&mut price.output, node.rate("output")?);
    set(&mut price.cache_read, node.rate("cache_read")?);
    set(&mut price.cache_write, node.rate("cache_write")?);
    Ok(())
}

fn lay_variants(model: &ModelInfo, nodes: &[(String, ConfigNode<'_>)]) -> Result<Vec<Variant>, OverlayError> {
    let mut variants = model.variants();
    for (name, node) in nodes {
        // Where the other name of an effort is written as well, they are two variants.
        let both = variant::other_name(name).is_some_and(|other| nodes.iter().any(|(name, _)| name == other));
        let meant = |known: &Variant| if both { known.name == *name } else { known.is_called(name) };
        let place = variants.iter().position(meant);
        if node.flag("disabled")? == Some(true) {
            variants.retain(|known| !meant(known));
            continue;
        }
        let variant = spell(model, name, node);
        match place.and_then(|place| variants.get_mut(place)) {
            Some(known) => *known = variant,
            None => variants.push(variant),
        }
    }
    Ok(variants)
}

/// Options as the wire of the model names them. What has no name there is left out, and told once, here, and not with
/// each request.
fn spell(model: &ModelInfo, name: &str, node: &ConfigNode<'_>) -> Variant {
    let written = node.map.iter().filter(|(name, value)| *name != "disabled" && !value.is_null());
    let written = written.map(|(name, value)| (name.clone(), value.clone())).collect();
    let TranslatedOptions { reasoning, options, left_out } =
        option::translate(model.protocol(), &model.wire, &written);
    if !left_out.is_empty() {
        tracing::warn!(
            path = %node.path,
            names = %left_out.join(", "),
            protocol = %model.protocol(),
            "these options mean nothing to the model's service and are left out"
        );
    }
    Variant { name: CatalogueText::Owned(name.to_owned()), reasoning, options }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// An object in the configuration and where it is. `null` counts as left out.
struct ConfigNode<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> ConfigNode<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn wrong(&self, key: &str, wanted: &'static str, found: &'static str) -> OverlayError {
        OverlayError { path: self.path(key), wanted, found }
    }

    /// The value of a key, as `read` takes it.
    fn read<T>(
        &self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, OverlayError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(key, wanted, kind(value)))
    }

    fn text(&self, key: &str) -> Result<Option<CatalogueText>, OverlayError> {
        self.read(key, "a text", |value| value.as_str().map(|text| CatalogueText::Owned(text.to_owned())))
    }

    /// A key, if it is not empty.
    fn secret(&self, key: &str) -> Result<Option<Secret>, OverlayError> {
        let text = self.read(key, "a text", Value::as_str)?.map(str::trim);
        Ok(text.filter(|text| !text.is_empty()).map(Secret::from))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, OverlayError> {
        self.read(key, "true or false", Value::as_bool)
    }

    fn number(&self, key: &str) -> Result<Option<u64>, OverlayError> {
        self.read(key, "a whole number", |value| {
            value.as_u64().or_else(|| value.as_f64().and_then(|number| format!("{number}").parse().ok()))
        })
    }

    fn rate(&self, key: &str) -> Result<Option<Rate>, OverlayError> {
        self.read(key, "dollars for a million tokens", |value| value.as_f64().and_then(Rate::from_dollars))
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<CatalogueText>>, OverlayError> {
        let text = |value: &Value| value.as_str().map(|text| CatalogueText::Owned(text.to_owned()));
        self.read(key, "a list of texts", |value| value.as_array()?.iter().map(text).collect())
    }

    fn modalities(&self, key: &str) -> Result<Option<Modalities>, OverlayError> {
        self.read(key, "a list of text, audio, image, video and pdf", |value| {
            let words: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
            Modalities::from_words(words?).ok()
        })
    }

    fn status(&self) -> Result<Option<ModelStatus>, OverlayError> {
        self.read("status", "active, beta, alpha or deprecated", |value| value.as_str()?.parse().ok())
    }

    fn headers(&self) -> Result<Vec<(String, Secret)>, OverlayError> {
        let headers = self.node("headers")?;
        let headers = headers.iter().flat_map(|headers| headers.map.keys().map(move |name| (headers, name)));
        let header = |(headers, name): (&Self, &String)| {
            let value = headers.read(name, "a text", Value::as_str)?;
            Ok(value.map(|value| (name.clone(), Secret::from(value))))
        };
        headers.filter_map(|header_at| header(header_at).transpose()).collect()
    }

    fn node(&self, key: &str) -> Result<Option<Self>, OverlayError> {
        let map = self.read(key, "an object", Value::as_object)?;
        Ok(map.map(|map| Self { map, path: self.path(key) }))
    }

    /// The objects in an object, by name.
    fn nodes(&self, key: &str) -> Result<Vec<(String, Self)>, OverlayError> {
        let Some(parent) = self.node(key)? else { return Ok(Vec::new()) };
        let child = |name: &String| match parent.node(name) {
            Ok(node) => node.map(|node| Ok((name.clone(), node))),
            Err(error) => Some(Err(error)),
        };
        parent.map.keys().filter_map(child).collect()
    }

    /// The objects in a list.
    fn list(&self, key: &str) -> Result<Vec<Self>, OverlayError> {
        let items = self.read(key, "a list of objects", Value::as_array)?;
        let items = items.into_iter().flatten().zip(0..);
        let item = |(value, place): (&'a Value, usize)| {
            let path = format!("{}.{place}", self.path(key));
            match value.as_object() {
                Some(map) => Ok(Self { map, path }),
                None => Err(OverlayError { path, wanted: "an object", found: kind(value) }),
            }
        };
        items.map(item).collect()
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "this number",
        Value::String(_) => "this text",
        Value::Array(_) => "this list",
        Value::Object(_) => "an object",
    }
}
