//! `everturn doctor`: checks every session against its log, and says what takes how much space, what this machine offers
//! for a sandbox and what is wrong with the configuration and the skills of the folder.

use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::Config;
use everturn_model::SessionId;
use everturn_store::Store;
use everturn_store::upkeep::disk::DiskUse;
use everturn_store::upkeep::verify::CheckReport;
use everturn_tools::process::sandbox::{SandboxLevel, SandboxPart, SandboxReport};
use everturn_tools::{Observed, Places, instructions, skills};

use crate::{settings, table};

/// Check every session against its log, and show what takes how much space, what there is for a sandbox and what is wrong
/// with the configuration and the skills here
#[derive(Debug, Args)]
pub(crate) struct DoctorCommand {
    /// Rebuild the rows of these sessions from their logs, and cut what is nested too deep to be read
    #[arg(long, value_name = "SESSION", num_args = 1..)]
    rebuild: Vec<String>,
    /// Set damaged sessions aside, so that nothing is written to them
    #[arg(long)]
    set_aside: bool,
    /// Write to these sessions again, which were set aside
    #[arg(long, value_name = "SESSION", num_args = 1..)]
    take_back: Vec<String>,
    /// Show what was done to the logs themselves: rebuilds, scrubs, what was deleted for good
    #[arg(long, conflicts_with = "set_aside")]
    audit: bool,
}

impl DoctorCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = settings::store().await?;
            for id in &self.rebuild {
                let rebuilt = store.rebuild(&SessionId::new(id.clone()), table::now()).await?;
                table::line(format!(
                    "{id}: {} and {} made anew from {}",
                    table::counted(rebuilt.entries, "entry", "entries"),
                    table::counted(rebuilt.parts, "part", "parts"),
                    table::counted(rebuilt.events, "event", "events")
                ));
                for seq in &rebuilt.cut {
                    table::line(format!("{id}: event {seq} was nested too deep to be read, and was cut"));
                }
            }
            for id in &self.take_back {
                if !store.take_back(&SessionId::new(id.clone())).await? {
                    bail!("{id} is not set aside; `everturn doctor` lists those that are");
                }
                table::line(format!("{id}: is written to again"));
            }
            if self.audit {
                return audit(&store).await;
            }
            let report = store.verify_all(self.set_aside.then(table::now)).await?;
            show(&store, &report, &store.disk_use().await?).await?;
            let folder = settings::working_folder()?;
            let config = settings::config_quietly(&folder)?;
            show_sandbox(&folder, &config);
            show_configuration(&config);
            show_guidance(&settings::places(&folder, &config)?);
            if report.is_sound() { Ok(()) } else { bail!("not everything is in order: see above") }
        })
    }
}

/// What this machine offers for a sandbox around commands, and what becomes of it in a folder.
fn show_sandbox(folder: &Path, config: &Config) {
    let offered = show_sandbox_parts();
    table::line(match &config.sandbox.off_by {
        Some(by) => {
            format!("commands run without a sandbox in {}: `sandbox` is `off` in {by}", folder.display())
        }
        None => offered,
    });
}

/// Shows what a sandbox can be made of. What follows from it is the result.
fn show_sandbox_parts() -> String {
    const ASKED: &str = "each is asked about (`outside_sandbox`), unless a rule of yours allows it";
    let Some(supervisor) = settings::supervisor() else {
        return format!("there is no sandbox for commands on this system, and {ASKED}");
    };
    let report = match SandboxReport::probe(&supervisor) {
        Ok(report) => report,
        Err(error) => return format!("what there is for a sandbox could not be found out: {error}"),
    };
    let rows = SandboxPart::ALL.into_iter().map(|part| {
        let found = match report.refused.get(&part) {
            None if part == SandboxPart::Landlock => format!("version {}", report.landlock),
            None => "yes".to_owned(),
            Some(number) => format!("refused: {}", io::Error::from_raw_os_error(*number)),
        };
        vec![part.to_string(), found, part.purpose().to_owned()]
    });
    table::rows(&["sandbox", "available", "for"], rows);
    match report.level() {
        SandboxLevel::Full => "commands run in a sandbox".to_owned(),
        SandboxLevel::Namespaces | SandboxLevel::Landlock => {
            format!("commands run in what there is of a sandbox, and {ASKED}")
        }
        SandboxLevel::None => format!("there is no sandbox for commands, and {ASKED}"),
    }
}

/// What is wrong with the configuration of this folder, and what of it waits for trust.
fn show_configuration(config: &Config) {
    for problem in &config.problems {
        table::line(format!("configuration: {problem}"));
    }
    let default = config.agents().check_default().err();
    if let Some(missing) = &default {
        table::line(format!("configuration: {missing} (`default_agent`)"));
    }
    if config.problems.is_empty() && default.is_none() {
        table::line(format!("configuration of {}: in order", config.root.display()));
    }
    settings::held_line(config).into_iter().for_each(table::line);
}

/// What is wrong with the instructions and skills of this folder.
fn show_guidance(places: &Places) {
    instructions::problems(places).into_iter().for_each(|why| table::line(format!("instructions: {why}")));
    match skills::observe(places) {
        Observed::Absent => {}
        Observed::Present(found) => {
            for problem in found.problems {
                table::line(format!("skill: {}: {}", problem.path.display(), problem.why));
            }
        }
        Observed::Unavailable { why } => table::line(format!("skills: {why}")),
    }
}

/// How many lines of the audit are shown.
const AUDITED: usize = 100;

async fn audit(store: &Store) -> Result<()> {
    let audits = store.audits(AUDITED).await?;
    if audits.is_empty() {
        table::note("nothing was ever done to a log but appending to it");
        return Ok(());
    }
    let rows = audits
        .into_iter()
        .map(|audit| vec![table::moment(audit.time), audit.action, audit.detail.to_string()]);
    table::rows(&["when", "what", "detail"], rows);
    Ok(())
}

/// What to do about a session whose log is damaged.
const RESTORE: &str = "restore it from a backup";

async fn show(store: &Store, report: &CheckReport, used: &DiskUse) -> Result<()> {
    table::line(format!(
        "{}: {}, {}",
        store.place(),
        table::counted(report.sessions, "session", "sessions"),
        table::counted(report.events, "event", "events")
    ));
    let damaged = report.damaged.iter().flat_map(|verdict| {
        let advice = if verdict.can_be_rebuilt() { "--rebuild helps" } else { RESTORE };
        let row = move |problem: &dyn std::fmt::Display| {
            vec![verdict.session.to_string(), problem.to_string(), advice.to_owned()]
        };
        verdict.problems.iter().map(move |problem| row(problem)).collect::<Vec<_>>()
    });
    let unread =
        report.unread.iter().map(|(id, reason)| vec![id.to_string(), reason.clone(), RESTORE.to_owned()]);
    if report.is_sound() {
        table::line("every session is what its log says");
    } else {
        table::rows(&["session", "problem", "what to do"], damaged.chain(unread));
    }
    let aside = store.set_aside_list().await?;
    if !aside.is_empty() {
        let rows =
            aside.into_iter().map(|row| vec![row.session.to_string(), table::moment(row.time), row.reason]);
        table::rows(&["set aside", "since", "because"], rows);
    }
    table::rows(
        &["space", "bytes", ""],
        [
            vec![
                "database".into(),
                table::bytes(used.file),
                format!("{} free inside", table::bytes(used.free)),
            ],
            vec!["write-ahead log".into(), table::bytes(used.log), String::new()],
            vec![
                "large payloads".into(),
                table::bytes(used.blobs.packed),
                format!("{} of them, {} unpacked", used.blobs.count, table::bytes(used.blobs.size)),
            ],
            vec![
                "trash".into(),
                table::bytes(used.trash.bytes),
                table::counted(used.trash.sessions, "session", "sessions"),
            ],
        ],
    );
    let largest = used
        .largest
        .iter()
        .map(|large| vec![large.session.to_string(), table::bytes(large.bytes), large.title.clone()]);
    if !used.largest.is_empty() {
        table::rows(&["largest sessions", "bytes", "title"], largest);
    }
    Ok(())
}
