//! From a name to a model.
//!
//! These rules are tried in order; the first one that finds something decides.
//!
//! 1. `provider/model`, exactly, then without regard to case. What follows the first slash is the model's id, which
//!    may have slashes of its own.
//! 2. `provider/alias`: a family of that provider (`anthropic/claude-sonnet`), the last words of a family
//!    (`anthropic/sonnet`), or either with `-latest`. It means the newest model of the family that is active and
//!    calls tools. With `-latest` it may also be the beginning of ids (`openai/gpt-5.6-latest`).
//! 3. A name whose first part is not a provider: the id of a model, or the end of one behind a slash
//!    (`kimi-k3` for `moonshotai/kimi-k3`), at the providers that can be used; then an alias there.
//! 4. Any of these with `:variant` at the end.
//! 5. `provider/anything` where the configuration says where the provider is: local servers have models that nobody
//!    described.
//!
//! A name that begins with a provider never means a model of another one, even where the configuration switches that
//! provider off: what a person wants to send to one company does not go to another because of a typing error, or of
//! resellers whose own ids look like that. Where a name without a provider fits several, configured
//! providers come before the makers of models, makers before those who resell, and these before GitHub and other
//! platforms, whose tokens are often set for other reasons. If several are left, the name is refused.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Catalogue, ModelInfo, ModelStatus, ProviderInfo, Usable, Variant, variant};

/// Names in a message, at most.
const SHOWN: usize = 5;

/// A model that a name means.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundModel<'a> {
    /// Who offers it.
    pub provider: &'a ProviderInfo,
    /// The model. It is owned when nobody described it.
    pub model: Cow<'a, ModelInfo>,
    /// The variant, if the name had one.
    pub variant: Option<Variant>,
}

impl<'a> FoundModel<'a> {
    pub(super) fn new(provider: &'a ProviderInfo, model: &'a ModelInfo) -> Self {
        Self { provider, model: Cow::Borrowed(model), variant: None }
    }

    /// Its whole name.
    #[must_use]
    pub fn name(&self) -> String {
        let variant = self.variant.as_ref().map(|variant| format!(":{}", variant.name));
        format!("{}/{}{}", self.provider.id, self.model.id, variant.unwrap_or_default())
    }

    /// With the variant of this name. `max` and `xhigh` are names for the same one unless the model has both.
    ///
    /// # Errors
    ///
    /// When the model has no such variant.
    pub fn with_variant(mut self, name: &str) -> Result<Self, LookupError> {
        let variants = self.model.variants();
        let Some(variant) = variant::find(&variants, name) else {
            let known = variants.iter().map(|variant| variant.name.clone().into_owned()).collect();
            return Err(LookupError::Variant { model: self.name(), variant: name.to_owned(), known });
        };
        self.variant = Some(variant.clone());
        Ok(self)
    }
}

/// Why a name means no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No model has this name.
    #[error(
        "there is no model {name:?}{} `everturn models --all` lists what there is",
        hint_or(nearest, ";")
    )]
    Unknown {
        /// The name.
        name: String,
        /// Names that were perhaps meant.
        nearest: Vec<String>,
    },
    /// The name is that of a provider which the configuration switches off.
    #[error(
        "{name:?} is a model of {provider}, which the configuration switches off by `enabled_providers` or `disabled_providers`: allow it there or choose another model{}",
        hint(nearest)
    )]
    SwitchedOff {
        /// The name.
        name: String,
        /// The provider.
        provider: String,
        /// Names that were perhaps meant.
        nearest: Vec<String>,
    },
    /// The model has no such variant.
    #[error("{model} has no variant {variant:?}: {}", variants(known))]
    Variant {
        /// The model.
        model: String,
        /// The variant.
        variant: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// The name fits several models.
    #[error("{name:?} may be any of {}: write the whole name", list(candidates))]
    Ambiguous {
        /// The name.
        name: String,
        /// The whole names of those it fits.
        candidates: Vec<String>,
    },
    /// The name fits, but no provider of such a model can be used.
    #[error(
        "{name:?} is offered as {}, but there is no key for any of them: {}",
        list(candidates),
        keys(variables)
    )]
    NoKey {
        /// The name.
        name: String,
        /// The whole names of those it fits.
        candidates: Vec<String>,
        /// The environment variables that would help.
        variables: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    shown.join(", ") + &more
}

/// What was perhaps meant; without that, what stands in its place.
fn hint_or(nearest: &[String], other: &str) -> String {
    if nearest.is_empty() { other.to_owned() } else { hint(nearest) }
}

fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!(", did you mean {}?", list(nearest)) }
}

fn variants(known: &[String]) -> String {
    if known.is_empty() { "it has none, leave it out".to_owned() } else { format!("it has {}", list(known)) }
}

fn keys(variables: &[String]) -> String {
    if variables.is_empty() {
        return "configure a provider for it".to_owned();
    }
    format!("set {} or configure a provider", variables.join(" or "))
}

/// How much a provider is meant by a name that does not say so, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProviderRank {
    /// The configuration mentions it.
    Configured,
    /// It makes the models it offers.
    Maker,
    /// It offers models of others.
    Reseller,
    /// Its key is often set for other reasons.
    Ambient,
}

/// Those who offer the models they make.
const MAKERS: [&str; 13] = [
    "alibaba",
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "llama",
    "minimax",
    "mistral",
    "moonshotai",
    "openai",
    "perplexity",
    "xai",
    "zai",
];

/// Variables that are set on many machines for work that has nothing to do with models: the keys of whole platforms.
const AMBIENT: [&str; 13] = [
    "AWS_SESSION_TOKEN",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "DATABRICKS_TOKEN",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "HEROKU_API_KEY",
    "HF_TOKEN",
    "VERCEL_OIDC_TOKEN",
    "VERCEL_TOKEN",
    "WANDB_API_KEY",
];

impl ProviderRank {
    pub(super) fn of(provider: &ProviderInfo) -> Self {
        let mut keys = provider.key_variables().peekable();
        if provider.configured {
            Self::Configured
        } else if is_maker(provider) {
            Self::Maker
        } else if keys.peek().is_some() && keys.all(|name| AMBIENT.contains(&name)) {
            Self::Ambient
        } else {
            Self::Reseller
        }
    }
}

/// Whether a provider makes the models it offers.
pub(super) fn is_maker(provider: &ProviderInfo) -> bool {
    MAKERS.contains(&provider.id.as_ref())
}

impl Catalogue {
    /// The model that a name means. The rules are those of the [module](self).
    ///
    /// # Errors
    ///
    /// When it means none or several, or only some that cannot be used.
    pub fn resolve(&self, name: &str, usable: Usable<'_>) -> Result<FoundModel<'_>, LookupError> {
        let name = name.trim();
        if let Some(found) = self.plain(name, usable)? {
            return Ok(found);
        }
        let open = self.open(name);
        if let Some((base, variant)) = name.rsplit_once(':')
            && let Some(found) = self.plain(base, usable)?
        {
            return match (found.with_variant(variant), open) {
                (Err(_), Some(open)) => Ok(open),
                (result, _) => result,
            };
        }
        open.ok_or_else(|| LookupError::Unknown { name: name.to_owned(), nearest: self.nearest(name) })
    }

    /// The model of this provider with this id: a reference that was once found and written down.
    ///
    /// It is looked for by id, then without regard to case, then as an alias. A provider whose address is configured
    /// may have models that nobody described. Other providers are never looked at.
    ///
    /// # Errors
    ///
    /// When there is no such model.
    pub fn exact(&self, provider: &str, model: &str) -> Result<FoundModel<'_>, LookupError> {
        let name = format!("{provider}/{model}");
        if let Some(known) = self.provider_called(provider) {
            if let Some(found) = within(known, model, &name)? {
                return Ok(found);
            }
            if let Some(found) = undescribed(known, model) {
                return Ok(found);
            }
        }
        self.refuse_switched_off(provider, &name)?;
        let nearest = self.nearest(&name);
        Err(LookupError::Unknown { name, nearest })
    }

    /// Rules 1 to 3.
    fn plain(&self, name: &str, usable: Usable<'_>) -> Result<Option<FoundModel<'_>>, LookupError> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some((provider, model)) = self.split(name) {
            return within(provider, model, name);
        }
        if let Some((provider, _)) = name.split_once('/') {
            self.refuse_switched_off(provider, name)?;
        }
        self.across(name, usable)
    }

    fn refuse_switched_off(&self, provider: &str, name: &str) -> Result<(), LookupError> {
        let off = self.switched_off.iter().find(|id| id.eq_ignore_ascii_case(provider));
        let Some(provider) = off else { return Ok(()) };
        let (name, provider, nearest) = (name.to_owned(), provider.to_string(), self.nearest(name));
        Err(LookupError::SwitchedOff { name, provider, nearest })
    }

    /// The provider with this id, best in this case.
    fn provider_called(&self, id: &str) -> Option<&ProviderInfo> {
        let same = |provider: &&ProviderInfo| provider.id.eq_ignore_ascii_case(id);
        self.provider(id).or_else(|| self.providers().find(same))
    }

    /// A name in its provider, if its first part is one, and the rest.
    pub(super) fn split<'a, 'b>(&'a self, name: &'b str) -> Option<(&'a ProviderInfo, &'b str)> {
        let (id, model) = name.split_once('/')?;
        let provider = self.provider_called(id)?;
        (!model.is_empty()).then_some((provider, model))
    }

    /// Rule 3.
    fn across(&self, name: &str, usable: Usable<'_>) -> Result<Option<FoundModel<'_>>, LookupError> {
        let fits = |model: &ModelInfo| {
            let (id, name) = (model.id.as_bytes(), name.as_bytes());
            let Some(start) = id.len().checked_sub(name.len()) else { return false };
            let (before, end) = id.split_at(start);
            end.eq_ignore_ascii_case(name) && before.last().is_none_or(|byte| *byte == b'/')
        };
        let mut candidates: Vec<FoundModel<'_>> = self
            .models()
            .filter(|(_, model)| fits(model))
            .map(|(provider, model)| FoundModel::new(provider, model))
            .collect();
        if candidates.is_empty() {
            let newest = |provider| {
                alias(provider, name).into_iter().map(move |model| FoundModel::new(provider, model))
            };
            candidates = self.providers().flat_map(newest).collect();
        }
        pick(name, candidates, usable)
    }

    /// Rule 5.
    fn open(&self, name: &str) -> Option<FoundModel<'_>> {
        let (provider, model) = self.split(name)?;
        undescribed(provider, model)
    }
}

/// The model of a provider that an id or an alias means. `name` is what the person wrote.
fn within<'a>(
    provider: &'a ProviderInfo,
    model: &str,
    name: &str,
) -> Result<Option<FoundModel<'a>>, LookupError> {
    let same = |known: &&ModelInfo| known.id.eq_ignore_ascii_case(model);
    let described = provider.models.get(model).or_else(|| provider.models.values().find(same));
    if let Some(described) = described {
        return Ok(Some(FoundModel::new(provider, described)));
    }
    match alias(provider, model).as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(FoundModel::new(provider, only))),
        several => {
            let candidates = several.iter().map(|model| FoundModel::new(provider, model).name()).collect();
            Err(LookupError::Ambiguous { name: name.to_owned(), candidates })
        }
    }
}

/// A model that nobody described, where there may be such.
fn undescribed<'a>(provider: &'a ProviderInfo, model: &str) -> Option<FoundModel<'a>> {
    let found = || FoundModel { provider, model: Cow::Owned(provider.undescribed(model)), variant: None };
    (provider.open && !model.is_empty()).then(found)
}

/// The one of the candidates that is meant.
fn pick<'a>(
    name: &str,
    mut candidates: Vec<FoundModel<'a>>,
    usable: Usable<'_>,
) -> Result<Option<FoundModel<'a>>, LookupError> {
    if candidates.is_empty() {
        return Ok(None);
    }
    candidates.sort_by_cached_key(|found| (ProviderRank::of(found.provider), found.name()));
    let names = |candidates: &[FoundModel<'_>]| candidates.iter().map(FoundModel::name).collect::<Vec<_>>();
    let speaks = |found: &FoundModel<'_>| found.model.protocol().is_spoken();
    let (mut ready, others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|found| speaks(found) && usable(found.provider));
    let Some(first) = ready.first().map(|found| ProviderRank::of(found.provider)) else {
        let spoken = others.iter().filter(|found| speaks(found));
        let variables: BTreeSet<&str> =
            spoken.filter_map(|found| found.provider.key_variables().next()).collect();
        let variables = variables.into_iter().take(SHOWN).map(str::to_owned).collect();
        return Err(LookupError::NoKey { name: name.to_owned(), candidates: names(&others), variables });
    };
    ready.retain(|found| ProviderRank::of(found.provider) == first);
    match ready.as_slice() {
        [_] => Ok(ready.pop()),
        several => Err(LookupError::Ambiguous { name: name.to_owned(), candidates: names(several) }),
    }
}

/// What an alias means at a provider: the newest model of each family it fits.
fn alias<'a>(provider: &'a ProviderInfo, word: &str) -> Vec<&'a ModelInfo> {
    let word = word.to_ascii_lowercase();
    let (stem, latest) = match word.strip_suffix("-latest") {
        Some(stem) => (stem, true),
        None => (word.as_str(), false),
    };
    if stem.is_empty() {
        return Vec::new();
    }
    let offered: Vec<&ModelInfo> = provider.models.values().filter(|model| is_offered(model)).collect();
    let family = |model: &ModelInfo| model.family.as_deref().unwrap_or("").to_ascii_lowercase();
    let is_end = |model: &ModelInfo| {
        family(model).strip_suffix(stem).is_some_and(|before| before.is_empty() || before.ends_with('-'))
    };
    let exact = newest(offered.iter().copied().filter(|model| family(model) == stem));
    if let Some(exact) = exact {
        return vec![exact];
    }
    let families: BTreeSet<String> =
        offered.iter().filter(|model| is_end(model)).map(|model| family(model)).collect();
    if !families.is_empty() {
        let best = |name: &String| newest(offered.iter().copied().filter(|model| family(model) == *name));
        return families.iter().filter_map(best).collect();
    }
    if !latest {
        return Vec::new();
    }
    let tail = |model: &ModelInfo| model.tail().to_ascii_lowercase();
    let begins = |model: &ModelInfo| tail(model).strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'));
    let whole = newest(offered.iter().copied().filter(|model| tail(model) == stem));
    whole.or_else(|| newest(offered.iter().copied().filter(|model| begins(model)))).into_iter().collect()
}

/// Whether a model may be chosen for somebody: it is active, reads and writes text, and calls tools.
pub(super) fn is_offered(model: &ModelInfo) -> bool {
    use super::Modality::Text;
    let able = &model.abilities;
    model.status == ModelStatus::Active
        && able.tool_call
        && able.input.contains(Text)
        && able.output.contains(Text)
}

/// The newest of some models.
fn newest<'a>(models: impl Iterator<Item = &'a ModelInfo>) -> Option<&'a ModelInfo> {
    models.max_by_key(|&model| age_key(model))
}

/// Sorts models of a family, the one to take last: its id has the words of the family, so that it is not a special
/// edition filed under it; it is the newest; and its id is the shortest, so that it is not a faster or dearer edition.
pub(super) fn age_key(model: &ModelInfo) -> (bool, &str, Reverse<usize>, Reverse<&str>) {
    let id = model.id.to_ascii_lowercase();
    let plain = model.family.as_deref().unwrap_or("").split('-').all(|word| id.contains(word));
    (plain, model.released.as_ref(), Reverse(model.id.len()), Reverse(model.id.as_ref()))
}
