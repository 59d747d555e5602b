//! `everturn usage`: what all sessions together have used.

use anyhow::Result;
use clap::{Args, ValueEnum};
use everturn_engine::Engine;
use everturn_engine::spending::{SpentByModel, SpentOn};
use serde_json::{Value, json};

use crate::settings::{self, Listeners};
use crate::table;

/// How much of a name is shown, so that a line fits a terminal of 80 columns.
const NAME: usize = 30;

/// Show tokens and cost of all sessions, by project or by model
#[derive(Debug, Args)]
pub(crate) struct UsageCommand {
    /// What to add up by; models are found in the logs, which takes longer
    #[arg(long, value_enum, default_value = "project")]
    by: By,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What tokens and cost are added up by.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// The folder of the project
    Project,
    /// The model that was asked
    Model,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Model => "model",
        }
    }

    /// What has no name: sessions of projects that were never opened here; titles, and answers of which no model is
    /// known.
    fn nameless(self) -> &'static str {
        match self {
            Self::Project => "(other projects)",
            Self::Model => "(no model known)",
        }
    }
}

impl UsageCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let engine = settings::open(&settings::working_folder()?, Listeners::None).await?;
            let result = self.show(&engine).await;
            engine.close().await;
            result
        })
    }

    async fn show(&self, engine: &Engine) -> Result<()> {
        let SpentByModel { rows, unread } = match self.by {
            By::Project => SpentByModel { rows: engine.spending().by_project().await?, unread: Vec::new() },
            By::Model => engine.spending().by_model().await?,
        };
        for (id, reason) in &unread {
            table::note(format!("what {id} used is under {}: {reason}", self.by.nameless()));
        }
        let total = engine.spending().total().await?;
        if self.json {
            let rows: Vec<Value> = rows.iter().map(|row| self.described(row)).collect();
            let key = format!("{}s", self.by.name());
            let mut value =
                json!({"sessions": total.sessions, "tokens": total.spent.tokens, "cost": total.spent.cost});
            if let Some(map) = value.as_object_mut() {
                map.insert(key, rows.into());
            }
            table::json(&value);
        } else if total.sessions == 0 {
            table::note("there are no sessions yet");
        } else {
            let head = [self.by.name(), "sessions", "input", "cached", "output", "thinking", "cost"];
            let sum = line("total", &total);
            let lines = rows.iter().map(|row| line(row.name.as_deref().unwrap_or(self.by.nameless()), row));
            table::rows(&head, lines.chain([sum]));
        }
        Ok(())
    }

    fn described(&self, row: &SpentOn) -> Value {
        let mut value = json!({self.by.name(): row.name});
        if let Some(map) = value.as_object_mut() {
            map.insert("sessions".to_owned(), row.sessions.into());
            map.insert("tokens".to_owned(), json!(row.spent.tokens));
            map.insert("cost".to_owned(), json!(row.spent.cost));
        }
        value
    }
}

fn line(name: &str, row: &SpentOn) -> Vec<String> {
    let tokens = &row.spent.tokens;
    vec![
        table::ending(name, NAME),
        row.sessions.to_string(),
        table::count(tokens.input),
        table::count(tokens.cache.read.saturating_add(tokens.cache.write)),
        table::count(tokens.output),
        table::count(tokens.reasoning),
        row.spent.cost.to_string(),
    ]
}
