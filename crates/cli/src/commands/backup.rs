//! `everturn backup` and `everturn restore`: all sessions as one file, and back.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use everturn_store::Store;

use crate::{settings, table};

/// Write all sessions into one new file, while others go on working
#[derive(Debug, Args)]
pub(crate) struct BackupCommand {
    /// The file; it must not be there yet
    file: PathBuf,
}

impl BackupCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            settings::store().await?.backup(&self.file).await?;
            let size = std::fs::metadata(&self.file).map_or(0, |file| file.len());
            table::line(format!("{} ({})", self.file.display(), table::bytes(size)));
            Ok(())
        })
    }
}

/// Make a store of a backup, where there is none yet
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// The file that `everturn backup` wrote
    file: PathBuf,
}

impl RestoreCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = Store::restore(&self.file, settings::store_options()?).await?;
            let report = store.verify_all(None).await?;
            table::line(format!(
                "{}: {}, {}",
                store.place(),
                table::counted(report.sessions, "session", "sessions"),
                table::counted(report.events, "event", "events")
            ));
            Ok(())
        })
    }
}
