//! Debug texts of what people configured, without the values of options and headers: there may be keys among them.

use std::fmt::{Debug, Formatter, Result};

use serde_json::{Map, Value};

use super::{ModelInfo, ModelSetting, ProviderInfo, Variant};
use crate::Secret;

/// Shows the names of options.
struct OptionNames<'a>(&'a Map<String, Value>);

impl Debug for OptionNames<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Shows the names of headers.
struct HeaderNames<'a>(&'a [(String, Secret)]);

impl Debug for HeaderNames<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Debug for ProviderInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { id, name, env, package, base_url, key, headers, options, configured, open, models } = self;
        f.debug_struct("ProviderInfo")
            .field("id", id)
            .field("name", name)
            .field("env", env)
            .field("package", package)
            .field("base_url", base_url)
            .field("key", key)
            .field("headers", &HeaderNames(headers))
            .field("options", &OptionNames(options))
            .field("configured", configured)
            .field("open", open)
            .field("models", models)
            .finish()
    }
}

impl Debug for ModelInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            id,
            wire,
            name,
            family,
            package,
            base_url,
            limits,
            prices,
            abilities,
            status,
            released,
            own_variants,
            headers,
            reasoning,
            options,
        } = self;
        f.debug_struct("ModelInfo")
            .field("id", id)
            .field("wire", wire)
            .field("name", name)
            .field("family", family)
            .field("package", package)
            .field("base_url", base_url)
            .field("limits", limits)
            .field("prices", prices)
            .field("abilities", abilities)
            .field("status", status)
            .field("released", released)
            .field("own_variants", own_variants)
            .field("headers", &HeaderNames(headers))
            .field("reasoning", reasoning)
            .field("options", &OptionNames(options))
            .finish()
    }
}

impl Debug for Variant {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { name, reasoning, options } = self;
        f.debug_struct("Variant")
            .field("name", name)
            .field("reasoning", reasoning)
            .field("options", &OptionNames(options))
            .finish()
    }
}

impl Debug for ModelSetting {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { reasoning, options } = self;
        f.debug_struct("Setting")
            .field("reasoning", reasoning)
            .field("options", &OptionNames(options))
            .finish()
    }
}
