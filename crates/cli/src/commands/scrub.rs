//! `everturn scrub`: removes a leaked secret from everything that is stored.

use anyhow::{Result, bail};
use clap::Args;
use everturn_store::upkeep::scrub::Scrub as Order;

use crate::{settings, table};

/// Remove a leaked secret from everything that is stored; it is read from standard input
#[derive(Debug, Args)]
pub(crate) struct ScrubCommand {
    /// Why; it is noted in the audit, with a fingerprint of the secret
    #[arg(long)]
    reason: String,
}

impl ScrubCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            // Never an argument: those are shown to every user of the machine and kept by the shell.
            let mut secret = String::new();
            std::io::stdin().read_line(&mut secret)?;
            let secret = secret.trim_end_matches(['\r', '\n']);
            let store = settings::store().await?;
            let scrubbed = store.scrub(Order::new(secret, &self.reason, table::now())).await?;
            table::line(format!(
                "{} events of {} sessions and {} large payloads were changed",
                scrubbed.events,
                scrubbed.sessions.len(),
                scrubbed.blobs
            ));
            for file in &scrubbed.backups {
                table::note(format!("{} was made before and still holds it: delete it", file.display()));
            }
            if !scrubbed.erased {
                table::note("somebody was reading all the while: run it again to empty the write-ahead log");
            }
            for (id, reason) in &scrubbed.left {
                table::note(format!("{id} is unchanged: {reason}"));
            }
            for id in &scrubbed.at_work {
                table::note(format!("{id} is at work, and what it is writing was not seen"));
            }
            if !scrubbed.left.is_empty() {
                bail!("the secret is still in {} sessions: see above", scrubbed.left.len())
            }
            if !scrubbed.at_work.is_empty() {
                let count = scrubbed.at_work.len();
                bail!("the secret may be written again by {count} sessions: run it again when they rest")
            }
            Ok(())
        })
    }
}
