//! `everturn scrub`: removes a leaked secret from everything that is stored.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::outputs::command_folders;
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
            io::stdin().read_line(&mut secret)?;
            let secret = secret.trim_end_matches(['\r', '\n']);
            let store = settings::store().await?;
            let scrubbed = store.scrub(Order::new(secret, &self.reason, table::now())).await?;
            table::line(format!(
                "{} of {} and {} were changed",
                table::counted(scrubbed.events, "event", "events"),
                table::counted(scrubbed.sessions.len(), "session", "sessions"),
                table::counted(scrubbed.blobs, "large payload", "large payloads")
            ));
            let held = files_with(secret.as_bytes(), &command_folders(&settings::folders()?.data));
            for file in &held {
                table::note(format!(
                    "{} was written by a command and still holds it: delete it",
                    file.display()
                ));
            }
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
                bail!(
                    "the secret is still in {}: see above",
                    table::counted(scrubbed.left.len(), "session", "sessions")
                )
            }
            if !held.is_empty() {
                bail!("the secret is still in {}: see above", table::counted(held.len(), "file", "files"))
            }
            if !scrubbed.at_work.is_empty() {
                let count = table::counted(scrubbed.at_work.len(), "session", "sessions");
                bail!("the secret may be written again by {count} at work: run it again after that")
            }
            Ok(())
        })
    }
}

/// The files in folders that hold a secret as it is, or cannot be read to tell. No link is followed.
fn files_with(secret: &[u8], folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = folders.to_vec();
    while let Some(folder) = next.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => {
                found.push(folder);
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => next.push(path),
                Ok(kind) if kind.is_file() && !holds(&path, secret).is_ok_and(|holds| !holds) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Whether a file holds a secret.
fn holds(path: &Path, secret: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1024 * 1024];
    // The end of what was read before, which the secret may begin in.
    let mut kept = 0;
    loop {
        let Some(free) = block.get_mut(kept..) else { return Ok(false) };
        let count = file.read(free)?;
        let read = block.get(..kept + count).unwrap_or_default();
        if read.windows(secret.len()).any(|part| part == secret) {
            return Ok(true);
        }
        if count == 0 {
            return Ok(false);
        }
        let rest = read.len().saturating_sub(secret.len().saturating_sub(1));
        let end = kept + count;
        block.copy_within(rest..end, 0);
        kept = end - rest;
    }
}
