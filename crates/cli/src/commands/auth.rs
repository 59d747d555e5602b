//! `everturn auth`: the keys of providers.

use std::io::{IsTerminal as _, Read as _};

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use everturn_engine::models::Secret;
use everturn_engine::models::credential::KeySource;

use crate::{settings, table};

/// Keeps the keys of providers.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Say for which providers there is a key, and where it is
    List,
    /// Keep the key of a provider; it is read from standard input
    Set {
        /// The provider, such as `anthropic`
        provider: String,
    },
    /// Forget the key of a provider
    Remove {
        /// The provider
        provider: String,
    },
}

impl AuthCommand {
    pub(crate) fn execute(self) -> Result<()> {
        match self {
            Self::List => list(),
            Self::Set { provider } => set(&provider),
            Self::Remove { provider } => remove(&provider),
        }
    }
}

fn list() -> Result<()> {
    let config = settings::config(&settings::working_folder()?)?;
    let keys = settings::keys()?;
    let mut rows = Vec::new();
    for provider in config.catalogue().providers() {
        if let Some(found) = keys.find(provider)? {
            rows.push(vec![provider.id.to_string(), found.source.to_string()]);
        } else if provider.open {
            rows.push(vec![provider.id.to_string(), "no key; its address is configured".to_owned()]);
        }
    }
    if rows.is_empty() {
        table::note("there is no key: `everturn auth set anthropic` reads one and keeps it");
        return Ok(());
    }
    table::rows(&["PROVIDER", "KEY"], rows);
    Ok(())
}

fn set(provider: &str) -> Result<()> {
    let config = settings::config(&settings::working_folder()?)?;
    let Some(known) = config.catalogue().provider(provider) else {
        let near = config.catalogue().nearest_providers(provider);
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
        bail!("there is no provider {provider}{hint}");
    };
    let mut input = std::io::stdin();
    if input.is_terminal() {
        table::note(format!("paste the key for {}, then press Enter and Ctrl-D", known.name));
    }
    let mut key = String::new();
    input.read_to_string(&mut key).context("the key cannot be read from standard input")?;
    let file = settings::key_file()?;
    file.put(provider, &Secret::from(key.trim()))?;
    table::line(format!("kept in {}", file.path().display()));
    for name in known.key_variables() {
        if let Some(KeySource::Variable(set)) = settings::keys()?.find(known)?.map(|found| found.source)
            && set == name
        {
            table::note(format!("{name} is set in this environment and comes before the file"));
        }
    }
    Ok(())
}

fn remove(provider: &str) -> Result<()> {
    let file = settings::key_file()?;
    if !file.remove(provider)? {
        bail!("there is no key for {provider} in {}", file.path().display());
    }
    table::line(format!("removed from {}", file.path().display()));
    Ok(())
}
