//! `everturn trash`: what is in the trash, and emptying it.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use everturn_engine::Engine;
use everturn_engine::trash::Erasure;
use everturn_interop::opencode::v1;
use everturn_model::Session;
use serde_json::{Value, json};

use crate::settings::{self, Listeners};
use crate::table;

/// List what is in the trash, and empty it
#[derive(Debug, Subcommand)]
pub(crate) enum TrashCommand {
    /// The sessions in the trash, of every project
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete what is in the trash for good, which cannot be undone
    Empty {
        /// Only what has been there for so long: 12h, 30d, 8w
        #[arg(long, value_name = "TIME", value_parser = everturn_engine::config::span)]
        older_than: Option<Duration>,
        /// Write the database anew as well, so that no byte of it stays in free space; takes time in proportion to all that is stored
        #[arg(long)]
        erase: bool,
        /// Without asking
        #[arg(long)]
        yes: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

impl TrashCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let engine = settings::open(&settings::working_folder()?, Listeners::None).await?;
            let result = match self {
                Self::List { json } => list(&engine, json).await,
                Self::Empty { older_than, erase, yes, json } => {
                    let result = empty(&engine, older_than.unwrap_or_default(), yes, json).await;
                    if erase && result.is_ok() {
                        erase_deleted(&engine).await;
                    }
                    result
                }
            };
            engine.close().await;
            result
        })
    }
}

async fn list(engine: &Engine, json: bool) -> Result<()> {
    let sessions = engine.trash().list().await?;
    if json {
        table::json(&Value::Array(sessions.iter().map(described).collect()));
    } else if sessions.is_empty() {
        table::note("the trash is empty");
    } else {
        let rows = sessions.iter().map(|session| {
            let deleted = session.time.trashed.map(table::moment).unwrap_or_default();
            vec![session.id.to_string(), deleted, session.title.clone()]
        });
        table::rows(&["session", "deleted", "title"], rows);
    }
    Ok(())
}

/// Takes what was deleted for good out of the files that it was in, and says what keeps it. It is deleted either way.
pub(super) async fn erase_deleted(engine: &Engine) {
    match engine.trash().erase().await {
        Ok(Erasure::Done) => {}
        Ok(Erasure::HeldUp) => table::note(
            "another process was reading: the write-ahead log may hold what was deleted until it is written over",
        ),
        Ok(Erasure::UpToServer) => table::note(
            "the database server may hold what was deleted in its files, its log and its backups until they are recycled",
        ),
        Err(error) => {
            table::note(format!("what was deleted may still be in free space of the database: {error}"));
        }
    }
}

/// A session as clients know it, and since when it has been in the trash.
fn described(session: &Session) -> Value {
    let mut value = v1::session_info(session);
    if let Some(time) = value.get_mut("time").and_then(Value::as_object_mut) {
        time.insert("trashed".to_owned(), json!(session.time.trashed));
    }
    value
}

async fn empty(engine: &Engine, least_age: Duration, yes: bool, json: bool) -> Result<()> {
    if !yes {
        let due = engine.trash().due(least_age).await?.len();
        if due > 0 {
            let due = table::counted(due, "session", "sessions");
            table::confirm(&format!("Delete {due} for good? It cannot be undone."))?;
        }
    }
    let swept = engine.trash().sweep(least_age).await?;
    if json {
        table::json(&json!({
            "purged": swept.purged,
            "busy": swept.busy,
            "bytes": {"returned": swept.space.returned, "free": swept.space.free},
        }));
        return Ok(());
    }
    let sessions = table::counted(swept.purged.len(), "session", "sessions");
    table::line(format!("{sessions} deleted for good"));
    for id in &swept.busy {
        table::note(format!("{id} stays: a process is at work on it"));
    }
    Ok(())
}
