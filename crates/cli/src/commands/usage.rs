//! `everturn usage`: what all sessions together have used.

use anyhow::Result;
use clap::{Args, ValueEnum};
use everturn_engine::Engine;
use everturn_engine::spending::{SpentByModel, SpentOn};
use serde_json::{Value, json};

use crate::settings::{self, Listeners};
use crate::table;

/// How wide a line may be.
const WIDTH: usize = 80;

/// How much of a name is shown, however long the numbers are.
const SHORTEST_NAME: usize = 12;

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
            let lines = rows.iter().map(|row| line(row.name.as_deref().unwrap_or(self.by.nameless()), row));
            let mut lines: Vec<Vec<String>> = lines.chain([line("total", &total)]).collect();
            shorten_names(&head, &mut lines);
            table::rows(&head, lines);
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
        name.to_owned(),
        row.sessions.to_string(),
        table::count(tokens.input),
        table::count(tokens.cache.read.saturating_add(tokens.cache.write)),
        table::count(tokens.output),
        table::count(tokens.reasoning),
        row.spent.cost.to_string(),
    ]
}

/// Shortens names to what the numbers leave of a line. A column has a space on each side.
fn shorten_names(head: &[&str], lines: &mut [Vec<String>]) {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|name| name.len())).max().unwrap_or_default() + 2
    };
    let numbers: usize = (1..head.len()).map(width).sum();
    let room = WIDTH.saturating_sub(numbers + 2).max(SHORTEST_NAME);
    for name in lines.iter_mut().filter_map(|line| line.first_mut()) {
        *name = table::ending(name, room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_leave_room_for_the_numbers() {
        // With a cost of five digits a line was too long for 80 columns, and the name was broken.
        let numbers = ["12345", "99999M", "99999M", "99999M", "99999M", "$12345.6789"];
        let line = [&["/a/long/path/of/a/project/that/goes/on"][..], &numbers].concat();
        let mut lines = [line.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        shorten_names(&["project", "sessions", "input", "cached", "output", "thinking", "cost"], &mut lines);
        let [line] = &lines;
        assert!(line[0].starts_with('…') && line[0].ends_with("goes/on"), "{line:?}");
        // "sessions" and "thinking" are wider than what is below them.
        assert_eq!(line[0].chars().count() + 2 + (8 + 2) + 3 * (6 + 2) + (8 + 2) + (11 + 2), WIDTH);
    }
}
