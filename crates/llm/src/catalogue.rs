//! Which providers and models there are, what they can do and what they cost.
//!
//! A table of well-known services is part of the build ([`Catalogue::builtin`]); the configuration is laid over it
//! ([`Catalogue::overlaid`]), adds what the table does not know and overrides what it says. From then on every
//! question about a model is asked here: what a name means ([`Catalogue::resolve`]), which model to take when nobody
//! said ([`Catalogue::default_model`], [`Catalogue::small_model`]), what was meant by a name that is unknown
//! ([`Catalogue::nearest`]).
//!
//! Nothing here reads files or the environment: the caller says which providers can be used, and asks
//! [`credential`](crate::credential).
//!
//! # Layout
//!
//! * [`table`]: the embedded table and its reader
//! * [`ability`], [`price`], [`protocol`], [`variant`]: what is known of a model; `effort`: how hard it can be asked
//!   to think
//! * [`overlay`]: the configuration laid over the table; [`option`]: options in it, in the words of the wire
//! * [`lookup`]: from a name to a model; [`nearest`]: names that may have been meant
//! * [`preference`]: the models to take when nobody chose; [`connect`]: how to reach the one that was chosen
//! * `debug`: what logs may show of all this

pub mod ability;
pub mod connect;
mod debug;
mod effort;
pub mod lookup;
pub mod nearest;
pub mod option;
pub mod overlay;
pub mod preference;
pub mod price;
pub mod protocol;
pub mod table;
pub mod variant;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::{Reasoning, Secret};

pub use ability::{Abilities, Modalities, Modality, ModelStatus, TokenLimits};
pub use connect::ConnectError;
pub use lookup::{FoundModel, LookupError};
pub use option::ModelSetting;
pub use overlay::OverlayError;
pub use price::{Prices, Rate, TokenPrice, TokenPriceTier};
pub use protocol::{AddressError, Protocol};
pub use table::TableError;
pub use variant::Variant;

/// A text that is borrowed from the embedded table or came from the configuration.
pub type CatalogueText = Cow<'static, str>;

/// Tells whether a provider can be used: whether there is a key for it, or it needs none.
pub type Usable<'a> = &'a dyn Fn(&ProviderInfo) -> bool;

/// Providers and their models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    as_of: CatalogueText,
    providers: BTreeMap<CatalogueText, ProviderInfo>,
    /// Ids of providers that the configuration switches off. What begins with one is still meant for it.
    switched_off: BTreeSet<CatalogueText>,
}

/// A service that offers models.
#[derive(Clone, Default, PartialEq)]
pub struct ProviderInfo {
    /// Its id, the part of a model's name before the first slash.
    pub id: CatalogueText,
    /// Its name for people.
    pub name: CatalogueText,
    /// Environment variables that say how to reach it. See [`key_variables`](Self::key_variables).
    pub env: Vec<CatalogueText>,
    /// The package that names the protocol of most of its models.
    pub package: CatalogueText,
    /// Where it is, up to and including the version; may name variables as `${NAME}`.
    pub base_url: Option<CatalogueText>,
    /// The key in the configuration.
    pub key: Option<Secret>,
    /// Headers for each request, from the configuration.
    pub headers: Vec<(String, Secret)>,
    /// Further options in the configuration, as they were written.
    pub options: Map<String, Value>,
    /// Whether the configuration mentions it.
    pub configured: bool,
    /// Whether the configuration says where it is. Then it may have models that nobody described.
    pub open: bool,
    /// Its models by id.
    pub models: BTreeMap<CatalogueText, ModelInfo>,
}

/// A model at a provider.
#[derive(Clone, Default, PartialEq)]
pub struct ModelInfo {
    /// Its id, the part of its name after the first slash. It may have slashes itself.
    pub id: CatalogueText,
    /// Its id on the wire, where the configuration gives it another.
    pub wire: CatalogueText,
    /// Its name for people.
    pub name: CatalogueText,
    /// The family it belongs to, such as `claude-sonnet`.
    pub family: Option<CatalogueText>,
    /// The package that names its protocol.
    pub package: CatalogueText,
    /// Where it is, if not where its provider is.
    pub base_url: Option<CatalogueText>,
    /// Its limits.
    pub limits: TokenLimits,
    /// What it costs.
    pub prices: Prices,
    /// What it can do.
    pub abilities: Abilities,
    /// Whether it is offered.
    pub status: ModelStatus,
    /// The day or month it came out; empty when nobody said. As a text it sorts by time.
    pub released: CatalogueText,
    /// Its variants, where the configuration changes them.
    pub own_variants: Option<Vec<Variant>>,
    /// Headers for each request, from the configuration.
    pub headers: Vec<(String, Secret)>,
    /// How much it thinks where no variant is chosen, from the configuration. See [`setting`](Self::setting).
    pub reasoning: Reasoning,
    /// Fields to merge into each request body, from the configuration, as the wire names them.
    pub options: Map<String, Value>,
}

impl Catalogue {
    /// The table of this build, read once.
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            // Tests read every line. Should one be wrong all the same, configured models still work.
            table::read(table::BUILTIN).unwrap_or_else(|error| {
                tracing::error!(%error, "the embedded model table is not used");
                Self::default()
            })
        })
    }

    /// A catalogue from a table in the format of [`table`].
    ///
    /// # Errors
    ///
    /// When a line cannot be read.
    pub fn from_table(text: &'static str) -> Result<Self, TableError> {
        table::read(text)
    }

    /// The month or day on which the table was made.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// All providers, by id.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderInfo> {
        self.providers.values()
    }

    /// The provider with this id.
    pub fn provider(&self, id: &str) -> Option<&ProviderInfo> {
        self.providers.get(id)
    }

    /// All models with their providers, by provider and id.
    pub fn models(&self) -> impl Iterator<Item = (&ProviderInfo, &ModelInfo)> {
        self.providers().flat_map(|provider| provider.models.values().map(move |model| (provider, model)))
    }

    /// The model with exactly this provider and id.
    pub fn model(&self, provider: &str, model: &str) -> Option<(&ProviderInfo, &ModelInfo)> {
        let provider = self.provider(provider)?;
        Some((provider, provider.models.get(model)?))
    }
}

/// Ends of variable names that hold no key but say where to go and as whom. Such services take more
/// than one value to sign in, and none of these must be sent as a key.
const SETTINGS: [&str; 12] = [
    "_ACCESS_KEY_ID",
    "_ACCOUNT_ID",
    "_BASE_URL",
    "_CREDENTIALS",
    "_ENDPOINT",
    "_GATEWAY_ID",
    "_HOST",
    "_LOCATION",
    "_PROJECT",
    "_REGION",
    "_RESOURCE_NAME",
    "_SECRET_ACCESS_KEY",
];

/// Ends of those among them that are secret all the same.
const SIGNING: [&str; 2] = ["_ACCESS_KEY_ID", "_SECRET_ACCESS_KEY"];

impl ProviderInfo {
    /// Those of its environment variables that may hold its key, the first one first.
    pub fn key_variables(&self) -> impl Iterator<Item = &str> {
        let variables = self.env.iter().map(AsRef::as_ref);
        variables.filter(|name: &&str| !SETTINGS.iter().any(|end| name.ends_with(end)))
    }

    /// Those of its environment variables that let somebody act as the person, by themselves or with others.
    pub fn secret_variables(&self) -> impl Iterator<Item = &str> {
        let signs = |name: &&str| SIGNING.iter().any(|end| name.ends_with(end));
        self.key_variables().chain(self.env.iter().map(AsRef::as_ref).filter(signs))
    }

    /// Whether a key is configured, a key variable is set, or the configuration says where it is, so that it may
    /// need no key.
    pub fn is_usable(&self, is_set: &dyn Fn(&str) -> bool) -> bool {
        self.key.is_some() || self.open || self.key_variables().any(is_set)
    }

    /// A model of it that nobody described: it talks, calls tools, and its limits and prices are not known.
    pub fn undescribed(&self, id: &str) -> ModelInfo {
        let id = CatalogueText::Owned(id.to_owned());
        ModelInfo {
            wire: id.clone(),
            name: id.clone(),
            id,
            package: self.package.clone(),
            ..ModelInfo::default()
        }
    }
}

impl ModelInfo {
    /// The protocol it is spoken to in.
    pub fn protocol(&self) -> Protocol {
        Protocol::of_package(&self.package)
    }

    /// Its variants, from the least effort to the greatest unless configured otherwise.
    pub fn variants(&self) -> Vec<Variant> {
        match &self.own_variants {
            Some(variants) => variants.clone(),
            None if self.abilities.reasoning => effort::presets(self),
            None => Vec::new(),
        }
    }

    /// Where it is: as it says itself, as its provider says, or where the service of its package is.
    pub fn base_url<'a>(&'a self, provider: &'a ProviderInfo) -> Option<&'a str> {
        let said = self.base_url.as_deref().or(provider.base_url.as_deref());
        said.or_else(|| protocol::service_address(&self.package))
    }

    /// The last part of its id, without the maker that resellers put in front.
    fn tail(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }
}
