//! `everturn stats`: what all sessions together have used, as a table and, on a terminal, as bars.

use anyhow::Result;
use clap::{Args, ValueEnum};
use everturn_engine::Engine;
use everturn_engine::config::span as time_span;
use everturn_engine::spending::{SpendingGroup, SpendingReport, SpentOn};
use everturn_model::Millis;
use serde_json::{Value, json};

use crate::bars::{self, Bar};
use crate::settings::{self, Listeners};
use crate::table;

/// How wide a line may be.
const WIDTH: usize = 80;

/// How much of a name is shown, however long the numbers are.
const SHORTEST_NAME: usize = 12;

/// Show tokens and cost of all sessions, by day, model or project
#[derive(Debug, Args)]
pub(crate) struct StatsCommand {
    /// What to add up by
    #[arg(long, value_enum, default_value = "day")]
    by: By,
    /// Only what was used since then: a day such as 2026-11-18, or a time ago such as 12h, 30d or 8w
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Millis>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What tokens and cost are added up by.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// The day
    Day,
    /// The model that was asked
    Model,
    /// The folder of the project; outside of repositories, that of the session
    Project,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Project => "project",
        }
    }

    fn group(self) -> SpendingGroup {
        match self {
            Self::Day => SpendingGroup::Day,
            Self::Model => SpendingGroup::Model,
            Self::Project => SpendingGroup::Project,
        }
    }

    /// What has no name: sessions of projects that were never opened here; answers and titles of which no model is known.
    fn nameless(self) -> &'static str {
        match self {
            Self::Day => "(no day known)",
            Self::Model => "(no model known)",
            Self::Project => "(other projects)",
        }
    }
}

/// A moment, as a person writes it.
fn since(text: &str) -> Result<Millis, String> {
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        let begin = day.to_zoned(jiff::tz::TimeZone::system()).map_err(|error| error.to_string())?;
        return Ok(begin.timestamp().as_millisecond());
    }
    let span = time_span(text).map_err(|wrong| format!("{wrong}, and no day such as 2026-11-18"))?;
    Ok(table::now().saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
}

impl StatsCommand {
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
        let report = engine.spending().report(self.by.group(), self.since).await?;
        for unbilled in &report.unread {
            let (id, reason) = (&unbilled.session, &unbilled.reason);
            table::note(match self.by {
                By::Model => format!("what {id} used is under {}: {reason}", self.by.nameless()),
                By::Day => format!("what {id} used is on the day of its last activity: {reason}"),
                By::Project => format!("what {id} used may be incomplete: {reason}"),
            });
        }
        if self.json {
            table::json(&self.described(&report));
        } else if report.rows.is_empty() {
            table::note(match self.since {
                Some(_) => "nothing was used since then",
                None => "nothing was used yet",
            });
        } else {
            self.print(&report);
        }
        Ok(())
    }

    fn print(&self, report: &SpendingReport) {
        let head = [self.by.name(), "sessions", "input", "cached", "output", "thinking", "cost"];
        let name = |row: &SpentOn| row.name.clone().unwrap_or_else(|| self.by.nameless().to_owned());
        let lines = report.rows.iter().map(|row| line(name(row), row));
        let total = line("total".to_owned(), &report.total);
        let mut lines: Vec<Vec<String>> = lines.chain([total]).collect();
        shorten_names(&head, &mut lines);
        table::rows(&head, lines);
        // A pipe gets the numbers only.
        if table::is_terminal() {
            let bars = report.rows.iter().map(|row| Bar::of(name(row), &row.spent));
            table::line("");
            bars::draw(bars, WIDTH).iter().for_each(table::line);
        }
    }

    fn described(&self, report: &SpendingReport) -> Value {
        let described = |row: &SpentOn, value: Value| {
            let mut value = value;
            if let Some(map) = value.as_object_mut() {
                map.insert("sessions".to_owned(), row.sessions.into());
                map.insert("uses".to_owned(), row.uses.into());
                map.insert("tokens".to_owned(), json!(row.spent.tokens));
                map.insert("cost".to_owned(), json!(row.spent.cost));
            }
            value
        };
        let rows = report.rows.iter().map(|row| described(row, json!({ self.by.name(): row.name })));
        let rows: Vec<Value> = rows.collect();
        described(&report.total, json!({ "since": self.since, format!("{}s", self.by.name()): rows }))
    }
}

fn line(name: String, row: &SpentOn) -> Vec<String> {
    let tokens = &row.spent.tokens;
    vec![
        name,
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
        let cells = lines.iter().filter_map(|line| line.get(column)).map(|cell| table::width(cell));
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
        // With a cost of five digits a line was too long for 80 columns, and the name was broken. So it was with
        // characters that take two columns.
        let numbers = ["12345", "99999M", "99999M", "99999M", "99999M", "$12345.6789"];
        let rest = (8 + 2) + 3 * (6 + 2) + (8 + 2) + (11 + 2);
        for (name, left) in [
            ("/a/long/path/of/a/project/that/goes/on", "goes/on"),
            ("/プロジェクト/長い名前の場所で続く", "続く"),
        ] {
            let line = [&[name][..], &numbers].concat();
            let mut lines = [line.into_iter().map(str::to_owned).collect::<Vec<_>>()];
            shorten_names(
                &["project", "sessions", "input", "cached", "output", "thinking", "cost"],
                &mut lines,
            );
            let [line] = &lines;
            assert!(line[0].starts_with('…') && line[0].ends_with(left), "{line:?}");
            // "sessions" and "thinking" are wider than what is below them.
            let width = table::width(&line[0]) + 2 + rest;
            assert!((WIDTH - 1..=WIDTH).contains(&width), "{line:?}");
        }
    }

    #[test]
    fn a_moment_is_a_day_or_a_time_ago() {
        let day = since("2026-11-18").unwrap();
        assert_eq!(table::moment(day), "2026-11-18 00:00");
        let (before, begun, after) = (table::now(), since("2d").unwrap(), table::now());
        assert!((before..=after).contains(&(begun + 2 * 86_400_000)), "{before} {begun} {after}");
        let wrong = since("yesterday").unwrap_err();
        assert_eq!(wrong, "\"yesterday\" is no time such as 12h, 30d or 8w, and no day such as 2026-11-18");
    }
}
