//! The models to take when nobody chose.
//!
//! The rule depends on the catalogue and on what can be used, and on nothing else, so the same setting always gives
//! the same model.

use std::cmp::Reverse;

use super::lookup::{ProviderRank, age_key, is_offered};
use super::{Catalogue, FoundModel, ModelInfo, ProviderInfo, Usable};

/// Families for work with tools, the best choice first.
const FAMILIES: [&str; 26] = [
    "claude-sonnet",
    "claude-opus",
    "gpt-sol",
    "gpt-terra",
    "gpt-codex",
    "gpt",
    "gemini-pro",
    "gemini-flash",
    "grok",
    "kimi-k3",
    "kimi-k2",
    "glm",
    "deepseek-thinking",
    "deepseek",
    "deepseek-flash",
    "qwen",
    "minimax",
    "mistral-medium",
    "mistral-large",
    "devstral",
    "gpt-mini",
    "glm-flash",
    "gpt-oss",
    "nemotron",
    "mistral-small",
    "llama",
];

/// Families for small work such as titles, the best choice first.
const SMALL_FAMILIES: [&str; 11] = [
    "claude-haiku",
    "gpt-luna",
    "gpt-nano",
    "gpt-mini",
    "gemini-flash-lite",
    "gemini-flash",
    "glm-flash",
    "deepseek-flash",
    "mistral-small",
    "ministral",
    "gpt-oss",
];

/// A window below this is too small for a session with tools, if there is a choice.
const ROOMY: u64 = 100_000;

impl Catalogue {
    /// The model for sessions that choose none, or `None` if nothing can be used.
    ///
    /// Only models count that are active, read and write text, call tools, are spoken to in a known protocol and are
    /// at a provider that can be used. Configured providers come first, then makers, then resellers; the token of
    /// GitHub or another platform alone chooses nothing, since it is often set for other reasons. Among these decide,
    /// in this order, a window that is large enough or not known, whether the maker has made the model itself, the
    /// family, and the newest release.
    pub fn default_model(&self, usable: Usable<'_>) -> Option<FoundModel<'_>> {
        let candidates = self.models().filter(|(provider, model)| {
            is_offered(model)
                && model.protocol().is_spoken()
                && ProviderRank::of(provider) != ProviderRank::Ambient
                && usable(provider)
        });
        let best = candidates.min_by_key(|&(provider, model)| {
            let (small, resold, family, age) = merit(provider, model);
            (ProviderRank::of(provider), small, resold, family, age, provider.id.as_ref())
        });
        best.map(|(provider, model)| FoundModel::new(provider, model))
    }

    /// The model for small work beside `main`, or `None` if `main` shall do that too.
    ///
    /// It is one of the same provider, since nobody expects that what they say to one company goes to another;
    /// at a reseller one of the same maker, if there is one. Only known small families count.
    pub fn small_model(&self, main: &FoundModel<'_>) -> Option<FoundModel<'_>> {
        let provider = self.provider(&main.provider.id)?;
        let candidates = provider.models.values().filter(|model| {
            is_offered(model)
                && model.protocol().is_spoken()
                && !is_resold(provider, model)
                && place(&SMALL_FAMILIES, model) < SMALL_FAMILIES.len()
        });
        let best = candidates.min_by_key(|&model| {
            let stranger = maker(model) != maker(&main.model);
            (stranger, place(&SMALL_FAMILIES, model), Reverse(age_key(model)))
        });
        best.map(|model| FoundModel::new(provider, model))
    }

    /// The model that stands for a provider: the one that [`default_model`](Self::default_model) would take of it, else
    /// the best of the others, but none in a protocol that is not spoken.
    pub fn default_of(provider: &ProviderInfo) -> Option<&ModelInfo> {
        let spoken = provider.models.values().filter(|model| model.protocol().is_spoken());
        spoken.min_by_key(|model| (!is_offered(model), merit(provider, model)))
    }

    /// The usable providers and those of their models that can be spoken to, in the order in which a client should
    /// prefer them: the provider of the default model first, then configured ones, makers, resellers, and at the end
    /// those whose key is often set for other reasons. Each has its newest models first. Providers without a model are
    /// left out.
    pub fn offered<'a>(&'a self, usable: Usable<'_>) -> Vec<(&'a ProviderInfo, Vec<&'a ModelInfo>)> {
        let first = self.default_model(usable).map(|found| found.provider.id.clone());
        let mut providers: Vec<&ProviderInfo> = self.providers().filter(|known| usable(known)).collect();
        providers.sort_by_key(|known| {
            (Some(&known.id) != first.as_ref(), ProviderRank::of(known), known.id.as_ref())
        });
        let spoken = |provider: &'a ProviderInfo| {
            let mut models: Vec<_> =
                provider.models.values().filter(|model| model.protocol().is_spoken()).collect();
            models.sort_by_key(|model| (Reverse(model.released.as_ref()), model.id.as_ref()));
            models
        };
        let offers = providers.into_iter().map(|provider| (provider, spoken(provider)));
        offers.filter(|(_, models)| !models.is_empty()).collect()
    }

    /// The usable models, for listings: by provider, and the newest first.
    pub fn usable_models(&self, usable: Usable<'_>) -> Vec<(&ProviderInfo, &ModelInfo)> {
        let mut models: Vec<_> = self.models().filter(|(provider, _)| usable(provider)).collect();
        models.sort_by_key(|&(provider, model)| {
            (provider.id.as_ref(), Reverse(model.released.as_ref()), model.id.as_ref())
        });
        models
    }
}

/// What speaks for a model beside others of its provider; the least is the best.
fn merit<'a>(
    provider: &ProviderInfo,
    model: &'a ModelInfo,
) -> (bool, bool, usize, Reverse<impl Ord + use<'a>>) {
    let small = model.limits.context != 0 && model.limits.context < ROOMY;
    (small, is_resold(provider, model), place(&FAMILIES, model), Reverse(age_key(model)))
}

/// The place of a model's family in a list; behind its end if it is not there.
fn place(families: &[&str], model: &ModelInfo) -> usize {
    let own = model.family.as_deref();
    families.iter().position(|family| own == Some(*family)).unwrap_or(families.len())
}

/// Whether a maker offers the model of another, as two of them do. Who comes to a maker wants its own models.
pub(super) fn is_resold(provider: &ProviderInfo, model: &ModelInfo) -> bool {
    let family = model.family.as_deref().unwrap_or("");
    match provider.id.as_ref() {
        "alibaba" => !["qwen", "qvq"].iter().any(|own| family.starts_with(own)),
        "mistral" => !family.contains("stral"),
        _ => false,
    }
}

/// What a reseller puts before a model's name.
fn maker(model: &ModelInfo) -> Option<&str> {
    model.id.split_once('/').map(|(maker, _)| maker)
}
