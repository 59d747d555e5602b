//! `everturn models`: which models there are, what they take and what they cost.

use anyhow::Result;
use clap::Args;
use everturn_engine::models::catalogue::{Catalogue, ModelInfo, ProviderInfo, TokenPrice};
use serde_json::{Value, json};

use crate::{settings, table};

/// Lists models.
#[derive(Debug, Args)]
pub(crate) struct ModelsCommand {
    /// A name to explain (`sonnet`, `openai/gpt-5`), or a provider to list
    name: Option<String>,
    /// Also list models that there is no key for
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A model with its provider.
type ModelRow<'a> = (&'a ProviderInfo, &'a ModelInfo);

impl ModelsCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let config = settings::config(&settings::working_folder()?)?;
        let catalogue = config.catalogue();
        let usable = settings::keys()?.usable()?;
        let found = match &self.name {
            Some(name) if catalogue.provider(name).is_none() => Some(catalogue.resolve(name, &usable)?),
            _ => None,
        };
        let rows: Vec<ModelRow<'_>> = match (&found, &self.name) {
            (Some(found), _) => vec![(found.provider, found.model.as_ref())],
            (None, Some(provider)) => catalogue.usable_models(&|known| known.id == provider.as_str()),
            // Who has no key yet wants to see what there is.
            (None, None) if self.all || !catalogue.providers().any(&usable) => {
                catalogue.usable_models(&|_| true)
            }
            (None, None) => catalogue.usable_models(&usable),
        };
        if self.json {
            let one = |row: &ModelRow<'_>| describe(*row, usable(row.0));
            table::json(&Value::Array(rows.iter().map(one).collect()));
            return Ok(());
        }
        print(&rows);
        if self.name.is_none() {
            conclude(catalogue, &usable, rows.len());
        }
        Ok(())
    }
}

fn print(rows: &[ModelRow<'_>]) {
    let head = ["MODEL", "CONTEXT", "OUTPUT", "IN $/M", "OUT $/M", "CACHED $/M", "ABLE TO", "VARIANTS"];
    table::rows(&head, rows.iter().map(|row| cells(*row)));
}

fn cells((provider, model): ModelRow<'_>) -> Vec<String> {
    let TokenPrice { input, output, cache_read, .. } = model.prices.base;
    let more = if model.prices.tiers.is_empty() { "" } else { "+" };
    let free = model.prices.is_free();
    let price = |rate: String| if free { "-".to_owned() } else { format!("{rate}{more}") };
    let mut able = Vec::new();
    let abilities = model.abilities;
    if abilities.tool_call {
        able.push("tools");
    }
    if abilities.reasoning {
        able.push("think");
    }
    able.extend(abilities.input.iter().map(|kind| kind.as_str()).filter(|kind| *kind != "text"));
    let variants: Vec<String> =
        model.variants().into_iter().map(|variant| variant.name.into_owned()).collect();
    vec![
        format!("{}/{}", provider.id, model.id),
        tokens(model.limits.context),
        tokens(model.limits.output),
        price(input.to_string()),
        price(output.to_string()),
        price(cache_read.to_string()),
        able.join(" "),
        variants.join(" "),
    ]
}

/// A number of tokens as people read it; nothing for one that nobody said.
fn tokens(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        1_000_000.. if count % 1_000_000 < 100_000 => format!("{}M", count / 1_000_000),
        1_000_000.. => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
        1_000.. => format!("{}k", count / 1_000),
        _ => count.to_string(),
    }
}

fn conclude(catalogue: &Catalogue, usable: &dyn Fn(&ProviderInfo) -> bool, shown: usize) {
    let known = catalogue.models().count();
    table::note(format!(
        "{shown} of {known} models; prices and limits of {}, as the table of this build has them; `+` costs more in large contexts",
        catalogue.as_of()
    ));
    match catalogue.default_model(usable) {
        Some(found) => {
            let small = catalogue.small_model(&found).map(|small| format!(", {} for titles", small.name()));
            table::note(format!("used unless configured: {}{}", found.name(), small.unwrap_or_default()));
        }
        None => table::note(
            "there is no key for any of them yet: set a variable such as ANTHROPIC_API_KEY, or run `everturn auth set anthropic`",
        ),
    }
}

fn describe((provider, model): ModelRow<'_>, usable: bool) -> Value {
    let prices = |price: TokenPrice| {
        json!({
            "input": number(&price.input.to_string()),
            "output": number(&price.output.to_string()),
            "cacheRead": number(&price.cache_read.to_string()),
            "cacheWrite": number(&price.cache_write.to_string()),
        })
    };
    let tier = |tier: &everturn_engine::models::catalogue::TokenPriceTier| json!({"above": tier.above, "price": prices(tier.price)});
    json!({
        "name": format!("{}/{}", provider.id, model.id),
        "provider": provider.id,
        "model": model.id,
        "title": model.name,
        "family": model.family,
        "protocol": model.protocol().as_str(),
        "address": model.base_url(provider),
        "usable": usable,
        "environment": provider.env,
        "limit": {"context": model.limits.context, "input": model.limits.input, "output": model.limits.output},
        "dollarsPerMillionTokens": prices(model.prices.base),
        "tiers": model.prices.tiers.iter().map(tier).collect::<Vec<_>>(),
        "tools": model.abilities.tool_call,
        "reasoning": model.abilities.reasoning,
        "input": model.abilities.input.iter().map(|kind| kind.as_str()).collect::<Vec<_>>(),
        "status": model.status.as_str(),
        "released": model.released,
        "variants": model.variants().into_iter().map(|variant| variant.name.into_owned()).collect::<Vec<_>>(),
    })
}

/// The exact digits of a price as a JSON number.
fn number(digits: &str) -> Value {
    serde_json::from_str(digits).unwrap_or(Value::Null)
}
