//! `everturn trust`: what this project's configuration asks for, and letting it have it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::Config;
use everturn_engine::config::{HeldItem, Trust};
use everturn_model::secret_name::masked;
use everturn_model::secret_shape::mask;
use everturn_tools::instructions;
use serde_json::{Value, json};

use crate::{settings, table};

/// Show what this project's configuration asks for, and trust it
#[derive(Debug, Args)]
pub(crate) struct TrustCommand {
    /// What to trust, by its name in the list; all of it if nothing is named
    names: Vec<String>,
    /// Only show it
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    show: bool,
    /// Take trust back instead
    #[arg(long)]
    revoke: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print JSON, and change nothing unless --yes says so
    #[arg(long)]
    json: bool,
}

impl TrustCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let config = settings::config_quietly(&settings::working_folder()?)?;
        let trust = settings::trust()?;
        if self.revoke {
            return self.take_back(&trust, &config);
        }
        let before = trust.granted(&config.root)?;
        let asked = self.chosen(&config)?;
        if self.json {
            table::json(&report(&config, &asked, &before));
        } else {
            let places = settings::places(&settings::working_folder()?, &config)?;
            show(&config, &asked, &before, &instructions::problems(&places));
        }
        if self.show || asked.is_empty() || (self.json && !self.yes) {
            return Ok(());
        }
        if !self.yes {
            table::confirm_change("Trust all of this, as it is now?", "nothing is trusted")?;
        }
        grant(&trust, &config, &asked)
    }

    fn take_back(&self, trust: &Trust, config: &Config) -> Result<()> {
        let root = config.root.display();
        let trusted = trust.granted(&config.root)?;
        if let Some(unknown) = self.names.iter().find(|name| !trusted.contains_key(*name)) {
            bail!("{unknown} is not trusted in {root}");
        }
        let chosen: Vec<&str> = match self.names.as_slice() {
            [] => trusted.keys().map(String::as_str).collect(),
            names => names.iter().map(String::as_str).collect(),
        };
        if chosen.is_empty() {
            table::note(format!("nothing of {root} is trusted"));
            return Ok(());
        }
        if !self.yes {
            let question = format!("Take trust in {} of {root} back?", chosen.join(", "));
            table::confirm_change(&question, "it is trusted as before")?;
        }
        let gone = trust.revoke(&config.root, &self.names)?;
        let gone = table::counted(gone, &format!("thing of {root} is"), &format!("things of {root} are"));
        table::line(format!("{gone} not trusted any more"));
        Ok(())
    }

    /// What is held, as far as it was named.
    fn chosen<'c>(&self, config: &'c Config) -> Result<Vec<(&'c str, &'c Value)>> {
        let held: Vec<(&str, &Value)> = config.held.iter().map(|(name, value)| (&**name, value)).collect();
        if let Some(unknown) = self.names.iter().find(|name| !config.held.contains_key(*name)) {
            let known: Vec<&str> = held.iter().map(|(name, _)| *name).collect();
            match known.as_slice() {
                [] => bail!("this project's configuration asks for nothing that is not trusted"),
                known => bail!(
                    "this project's configuration does not ask for {unknown}, only for {}",
                    known.join(", ")
                ),
            }
        }
        Ok(held
            .into_iter()
            .filter(|(name, _)| self.names.is_empty() || self.names.iter().any(|n| n == name))
            .collect())
    }
}

/// Trusts everything that the project of a folder asks for, for those who cannot be asked.
pub(crate) fn grant_all(folder: &std::path::Path) -> Result<()> {
    let config = settings::config_quietly(folder)?;
    let asked: Vec<(&str, &Value)> = config.held.iter().map(|(name, value)| (&**name, value)).collect();
    if asked.is_empty() { Ok(()) } else { grant(&settings::trust()?, &config, &asked) }
}

fn grant(trust: &Trust, config: &Config, asked: &[(&str, &Value)]) -> Result<()> {
    trust.grant(&config.root, asked.iter().copied())?;
    let names: Vec<&str> = asked.iter().map(|(name, _)| *name).collect();
    table::note(format!("trusted in {}: {}", config.root.display(), names.join(", ")));
    Ok(())
}

fn show(config: &Config, asked: &[(&str, &Value)], before: &BTreeMap<String, Value>, problems: &[String]) {
    for problem in &config.problems {
        table::note(format!("configuration: {problem}"));
    }
    for why in problems {
        table::note(format!("instructions: {why}"));
    }
    if asked.is_empty() {
        table::note(format!(
            "the configuration of {} asks for nothing that is not trusted",
            config.root.display()
        ));
        return;
    }
    table::line(format!("The configuration of {} asks for this:", config.root.display()));
    for (name, value) in asked {
        let item = HeldItem::new(name, value, before.get(*name));
        table::line("");
        table::line(format!("{name}: {}", item.words));
        mask(item.content.text()).lines().for_each(|line| table::line(format!("  {line}")));
    }
    table::line("");
}

fn report(config: &Config, asked: &[(&str, &Value)], before: &BTreeMap<String, Value>) -> Value {
    let one = |(name, value): &(&str, &Value)| {
        let setting = name.rsplit('.').next().unwrap_or(name);
        let before = before.get(*name).map(|before| masked(setting, before));
        json!({"name": name, "asks": masked(setting, value), "before": before})
    };
    json!({
        "project": config.root,
        "held": asked.iter().map(one).collect::<Vec<_>>(),
        "problems": config.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
