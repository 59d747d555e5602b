//! `everturn import`: the sessions of another program.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use everturn_engine::Engine;
use everturn_engine::imports::ImportReport;
use serde_json::json;

use crate::settings::{self, Listeners};
use crate::table;

/// How many problems are printed in full.
const SHOWN: usize = 20;

/// Bring in the sessions of another program
#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// OpenCode's data folder: its database and its older JSON files are read, never written
    Opencode {
        /// The folder, usually ~/.local/share/opencode
        folder: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl ImportCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let Self::Opencode { folder, json } = self;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let engine = settings::open(&settings::working_folder()?, Listeners::None).await?;
            let terminal = table::is_watched();
            let report = engine
                .imports()
                .opencode(&folder, |done, total| {
                    if terminal && (done % 50 == 0 || done == total) {
                        table::progress(format!("{done} of {total} sessions"));
                    }
                })
                .await;
            if terminal {
                table::note("");
            }
            let rules = match &report {
                Ok(report) => rules_line(&engine, report).await,
                Err(_) => Ok(None),
            };
            engine.close().await;
            let (report, rules) = (report?, rules?);
            for problem in report.problems.iter().take(SHOWN) {
                table::note(problem);
            }
            if report.problems.len() > SHOWN {
                table::note(format!(
                    "and {}",
                    table::counted(report.problems.len() - SHOWN, "more problem", "more problems")
                ));
            }
            if json {
                table::json(&json!({
                    "imported": report.imported,
                    "present": report.present,
                    "problems": report.problems,
                }));
                return Ok(());
            }
            let present = if report.present > 0 {
                format!(", {} here already", table::counted(report.present, "was", "were"))
            } else {
                String::new()
            };
            table::line(format!(
                "{} imported{present}",
                table::counted(report.imported.len(), "session", "sessions")
            ));
            rules.into_iter().for_each(table::line);
            Ok(())
        })
    }
}

/// Which of the imported sessions bring rules, in a line: they hold from now on, and nobody here has made them.
pub(super) async fn rules_line(engine: &Engine, report: &ImportReport) -> Result<Option<String>> {
    let mut ruled = Vec::new();
    for id in &report.imported {
        let session = engine.sessions().get(id).await?;
        if session.foreign_rules.is_some_and(|rules| !rules.is_empty()) {
            ruled.push(id.to_string());
        }
    }
    if ruled.is_empty() {
        return Ok(None);
    }
    let more = match ruled.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    ruled.truncate(SHOWN);
    let ruled = ruled.join(", ");
    Ok(Some(format!("with rules, which only forbid (`everturn session show` lists them): {ruled}{more}")))
}
