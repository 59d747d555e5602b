//! `everturn session pin`: what every compaction of a session keeps word for word.

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::Engine;
use everturn_model::compaction::Pins;
use serde_json::json;

use super::lookup;
use crate::table;

/// A goal and facts that every compaction of a session keeps word for word; without options, those that there are
#[derive(Debug, Args)]
pub(crate) struct PinCommand {
    /// The session
    id: String,
    /// What the session is for; an empty one takes it away
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Something that must not be forgotten, after what is pinned already
    #[arg(long, value_name = "TEXT")]
    fact: Vec<String>,
    /// Take away the fact of this number
    #[arg(long, value_name = "NUMBER")]
    unpin: Vec<usize>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl PinCommand {
    /// Carries out what was asked for, and shows what is pinned then.
    pub(super) async fn perform(self, engine: &Engine) -> Result<()> {
        let session = lookup::listed(engine, &self.id).await?;
        let mut pins = session.pins.clone();
        for number in &self.unpin {
            if *number == 0 || *number > pins.facts.len() {
                bail!(
                    "there is no fact {number}: {} pinned",
                    table::counted(pins.facts.len() as u64, "is", "are")
                );
            }
        }
        let mut number = 0;
        pins.facts.retain(|_| {
            number += 1;
            !self.unpin.contains(&number)
        });
        if self.fact.iter().any(|fact| fact.trim().is_empty()) {
            bail!("a fact is empty; say what must not be forgotten");
        }
        pins.facts.extend(self.fact);
        if let Some(goal) = self.goal {
            pins.goal = Some(goal).filter(|goal| !goal.trim().is_empty());
        }
        if pins != session.pins {
            engine.compactions().pin(&session.id, pins.clone()).await?;
        }
        show(&pins, self.json);
        Ok(())
    }
}

fn show(pins: &Pins, as_json: bool) {
    if as_json {
        table::json(&json!({"goal": pins.goal, "facts": pins.facts}));
        return;
    }
    if pins.is_empty() {
        table::note("nothing is pinned in this session");
        return;
    }
    let goal = pins.goal.iter().map(|goal| vec!["goal".to_owned(), goal.clone()]);
    let facts = pins.facts.iter().enumerate().map(|(at, fact)| vec![(at + 1).to_string(), fact.clone()]);
    table::rows(&["pin", "text"], goal.chain(facts));
}
