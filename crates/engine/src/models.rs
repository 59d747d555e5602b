//! From a model's name to the way to it, its limits and its prices.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_llm::catalogue::{FoundModel, ModelSetting, Variant};
use everturn_llm::{AnswerOrigin, ModelInfo, Provider, ProviderInfo, Scripted};
use everturn_model::session::ModelRef;
use everturn_model::usage::{Price, Pricing, Tier};
use everturn_model::{Money, Session};

use crate::history::AcceptedContent;
use crate::{Config, Error};

pub use everturn_llm::{AuthFile, Keyring, Secret, catalogue, credential};

/// The provider that plays scripts without a network. Its models are the demo and the paths of script files.
pub const SCRIPTED: &str = "scripted";

/// The script that is built in.
const DEMO: &str = "demo";

/// A model that can be asked.
#[derive(Debug, Clone)]
pub struct UsableModel {
    /// Which one.
    pub reference: ModelRef,
    /// What is known of it.
    pub model: ModelInfo,
    /// How it is asked, where that was chosen.
    pub variant: Option<Variant>,
    /// What it takes in, where somebody described it.
    pub(crate) takes: AcceptedContent,
    /// The way to it.
    pub provider: Arc<dyn Provider>,
}

impl UsableModel {
    /// The model as the conversation names it.
    pub(crate) fn origin(&self) -> AnswerOrigin {
        AnswerOrigin { provider: self.reference.provider.clone(), model: self.reference.model.clone() }
    }

    /// What it costs.
    pub(crate) fn pricing(&self) -> Pricing {
        pricing(&self.model.prices)
    }

    /// How it is asked.
    pub(crate) fn setting(&self) -> ModelSetting {
        self.model.setting(self.variant.as_ref())
    }
}

/// The models of every place, and the keys to them; clones share them.
#[derive(Debug, Clone)]
pub struct Models {
    keys: Arc<Keyring<'static>>,
}

impl Models {
    /// Models with these keys.
    pub(crate) fn new(keys: Keyring<'static>) -> Self {
        Self { keys: Arc::new(keys) }
    }

    /// Those of a configuration.
    #[must_use]
    pub fn of(&self, config: &Arc<Config>) -> ModelFinder {
        ModelFinder { config: Arc::clone(config), keys: Arc::clone(&self.keys) }
    }

    /// Tells which providers can be used: there is a key for them, or the configuration says where they are.
    ///
    /// # Errors
    /// When the file of keys cannot be read.
    pub fn usable(&self) -> Result<impl Fn(&ProviderInfo) -> bool, Error> {
        Ok(self.keys.usable()?)
    }
}

/// Finds models and the way to them, as one configuration has them.
#[derive(Debug, Clone)]
pub struct ModelFinder {
    config: Arc<Config>,
    keys: Arc<Keyring<'static>>,
}

impl ModelFinder {
    /// The model that a selection means in `folder`; without one, the configured model or the best that can be used.
    ///
    /// # Errors
    /// When there is none or it cannot be reached.
    pub fn choose(&self, wanted: Option<&ModelRef>, folder: &Path) -> Result<UsableModel, Error> {
        let Some(wanted) = wanted else { return self.choose(Some(&self.default_model(folder)?), folder) };
        if wanted.provider == SCRIPTED {
            return scripted(wanted, folder);
        }
        self.reach(&self.find(wanted)?)
    }

    /// The model for what somebody asks in a session: the one that was given, that of the agent, the one before, or the
    /// default.
    ///
    /// # Errors
    /// When there is none, or the agent's means nothing.
    pub(crate) fn selected(
        &self,
        given: Option<ModelRef>,
        of_agent: Option<&str>,
        session: &Session,
    ) -> Result<ModelRef, Error> {
        let folder = Path::new(&session.directory);
        let named = of_agent.filter(|_| given.is_none()).map(|name| self.named(name, folder)).transpose()?;
        match given.or(named).or_else(|| chosen_before(session)) {
            Some(model) => Ok(model),
            None => self.default_model(folder),
        }
    }

    /// The same, to write requests for it and not to ask it: no key is needed.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn writer(&self, wanted: &ModelRef, folder: &Path) -> Result<UsableModel, Error> {
        if wanted.provider == SCRIPTED {
            return scripted(wanted, folder);
        }
        let found = self.find(wanted)?;
        let provider = found.writer(&self.keys)?;
        Ok(usable(&found, provider))
    }

    /// The model for small work in a session that uses `main` and works in `folder`.
    ///
    /// # Errors
    /// When there is none or it cannot be reached.
    pub(crate) fn choose_small(&self, main: Option<&ModelRef>, folder: &Path) -> Result<UsableModel, Error> {
        if let Some(name) = &self.config.small_model {
            return self.choose(Some(&self.named(name, folder)?), folder);
        }
        let main = match main {
            Some(main) => main.clone(),
            None => self.default_model(folder)?,
        };
        if main.provider == SCRIPTED {
            return self.choose(Some(&main), folder);
        }
        let found = self.find(&main)?;
        match self.config.catalogue().small_model(&found) {
            Some(small) => self.reach(&small),
            None => self.reach(&found),
        }
    }

    /// The model that a name means: `provider/model`, an alias or a part of a name, with `:variant` or without; or
    /// `scripted/` and the path of a script, from `folder` on.
    ///
    /// # Errors
    /// When it means none, or several, or a script that cannot be played.
    pub fn named(&self, name: &str, folder: &Path) -> Result<ModelRef, Error> {
        if let Some((SCRIPTED, model)) = name.split_once('/') {
            let (provider, model) = (SCRIPTED.to_owned(), model.to_owned());
            return Ok(scripted(&ModelRef { provider, model, variant: None }, folder)?.reference);
        }
        let usable = self.keys.usable()?;
        Ok(reference(&self.config.catalogue().resolve(name, &usable)?))
    }

    /// The model for sessions in `folder` that choose none.
    ///
    /// # Errors
    /// When the configured one is unknown, or none is configured and none can be used.
    pub fn default_model(&self, folder: &Path) -> Result<ModelRef, Error> {
        if let Some(name) = &self.config.model {
            return self.named(name, folder);
        }
        let usable = self.keys.usable()?;
        let found = self.config.catalogue().default_model(&usable).ok_or(Error::NoModel)?;
        Ok(reference(&found))
    }

    fn find(&self, wanted: &ModelRef) -> Result<FoundModel<'_>, Error> {
        let found = self.config.catalogue().exact(&wanted.provider, &wanted.model)?;
        Ok(match &wanted.variant {
            Some(variant) => found.with_variant(variant)?,
            None => found,
        })
    }

    fn reach(&self, found: &FoundModel<'_>) -> Result<UsableModel, Error> {
        let provider = found.connect(&self.keys)?;
        Ok(usable(found, provider))
    }
}

fn usable(found: &FoundModel<'_>, provider: Arc<dyn Provider>) -> UsableModel {
    let takes = match &found.model {
        Cow::Borrowed(model) => Some(model.abilities.input),
        Cow::Owned(_) => None,
    };
    let (model, variant) = (found.model.clone().into_owned(), found.variant.clone());
    UsableModel { reference: reference(found), model, variant, takes, provider }
}

/// The model that a session has used so far. A script that came with a session from elsewhere is somebody else's code, and
/// is not played.
pub(crate) fn chosen_before(session: &Session) -> Option<ModelRef> {
    let elsewhere = session.foreign_rules.is_some();
    session.model.clone().filter(|model| !(elsewhere && model.provider == SCRIPTED && model.model != DEMO))
}

/// A script is read again each time: a change to the file takes effect with the next turn.
fn scripted(wanted: &ModelRef, folder: &Path) -> Result<UsableModel, Error> {
    let provider = match wanted.model.as_str() {
        DEMO => Scripted::demo(),
        // Collected from its components, it says where it was looked for without `./`.
        path => Scripted::read(&folder.join(path).components().collect::<PathBuf>())?,
    };
    let model = ModelInfo { id: wanted.model.clone().into(), ..ModelInfo::default() };
    let (reference, provider) = (wanted.clone(), Arc::new(provider));
    Ok(UsableModel { reference, model, variant: None, takes: None, provider })
}

fn reference(found: &FoundModel<'_>) -> ModelRef {
    ModelRef {
        provider: found.provider.id.to_string(),
        model: found.model.id.to_string(),
        variant: found.variant.as_ref().map(|variant| variant.name.to_string()),
    }
}

/// Prices as sessions count them.
#[must_use]
pub fn pricing(prices: &catalogue::Prices) -> Pricing {
    let tier = |tier: &catalogue::TokenPriceTier| Tier { above: tier.above, price: price(&tier.price) };
    Pricing { base: price(&prices.base), tiers: prices.tiers.iter().map(tier).collect() }
}

fn price(price: &catalogue::TokenPrice) -> Price {
    let money = |rate: catalogue::Rate| Money::from_nanos(i64::try_from(rate.nanos()).unwrap_or(i64::MAX));
    Price {
        input: money(price.input),
        output: money(price.output),
        cache_read: money(price.cache_read),
        cache_write: money(price.cache_write),
    }
}
