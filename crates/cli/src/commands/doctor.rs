//! `everturn doctor`: checks every session against its log, and says what takes how much space.

use anyhow::{Result, bail};
use clap::Args;
use everturn_model::SessionId;
use everturn_store::Store;
use everturn_store::upkeep::disk::DiskUse;
use everturn_store::upkeep::verify::CheckReport;

use crate::{settings, table};

/// Check every session against its log, and show what takes how much space
#[derive(Debug, Args)]
pub(crate) struct DoctorCommand {
    /// Rebuild the rows of these sessions from their logs
    #[arg(long, value_name = "SESSION", num_args = 1..)]
    rebuild: Vec<String>,
    /// Set damaged sessions aside, so that nothing is written to them
    #[arg(long)]
    set_aside: bool,
}

impl DoctorCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = settings::store().await?;
            for id in &self.rebuild {
                let rebuilt = store.rebuild(&SessionId::new(id.clone()), table::now()).await?;
                table::line(format!(
                    "{id}: {} entries and {} parts made anew from {} events",
                    rebuilt.entries, rebuilt.parts, rebuilt.events
                ));
            }
            let report = store.verify_all(self.set_aside.then(table::now)).await?;
            show(&store, &report, &store.disk_use().await?).await?;
            if report.is_sound() { Ok(()) } else { bail!("not everything is in order: see above") }
        })
    }
}

async fn show(store: &Store, report: &CheckReport, used: &DiskUse) -> Result<()> {
    table::line(format!("{}: {} sessions, {} events", store.place(), report.sessions, report.events));
    let damaged = report.damaged.iter().flat_map(|verdict| {
        let advice = if verdict.can_be_rebuilt() { "--rebuild helps" } else { "restore it from a backup" };
        let row = move |problem: &dyn std::fmt::Display| {
            vec![verdict.session.to_string(), problem.to_string(), advice.to_owned()]
        };
        verdict.problems.iter().map(move |problem| row(problem)).collect::<Vec<_>>()
    });
    let unread = report.unread.iter().map(|(id, reason)| vec![id.to_string(), reason.clone(), String::new()]);
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
            vec!["trash".into(), table::bytes(used.trash.bytes), format!("{} sessions", used.trash.sessions)],
        ],
    );
    let largest = used
        .largest
        .iter()
        .map(|large| vec![large.session.to_string(), table::bytes(large.bytes), large.title.clone()]);
    table::rows(&["largest sessions", "bytes", "title"], largest);
    Ok(())
}
