//! `everturn session compact`: a summary in place of what no longer fits; what each one kept and dropped; undoing one.

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::Engine;
use everturn_engine::compaction::{CompactionRecord, ConversationSpan, NewCompaction};
use everturn_model::finish::Trigger;
use everturn_model::{EntryId, SessionId};
use serde_json::{Value, json};

use super::lookup;
use crate::table;

/// Sum a session up: its newest part stays word for word, and the model goes on with a summary of the rest
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing of the conversation is lost: `everturn session show` shows all of it, and --undo gives the \
                        model back what it saw."
)]
pub(crate) struct CompactCommand {
    /// The session
    id: String,
    /// What the summary should mind
    #[arg(long, value_name = "TEXT", group = "change")]
    instructions: Option<String>,
    /// Also where all of it would stay word for word: all of it is summed up then
    #[arg(long)]
    force: bool,
    /// Only list what was summed up, and what each compaction kept and dropped
    #[arg(long, group = "change", conflicts_with = "force")]
    list: bool,
    /// Undo the newest compaction, or this one: the model sees again what it saw before
    #[arg(long, value_name = "COMPACTION", num_args = 0..=1, default_missing_value = "", group = "change", conflicts_with = "force")]
    undo: Option<String>,
    /// Take that back
    #[arg(long, value_name = "COMPACTION", num_args = 0..=1, default_missing_value = "", group = "change", conflicts_with = "force")]
    redo: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl CompactCommand {
    /// Carries out what was asked for, and shows what came of it.
    pub(super) async fn perform(self, engine: &Engine) -> Result<()> {
        let session = lookup::listed(engine, &self.id).await?.id;
        let compactions = engine.compactions();
        let named = |text: &str| (!text.is_empty()).then(|| EntryId::new(text));
        let entry = match (&self.undo, &self.redo) {
            _ if self.list => {
                let records = compactions.ledger(&session).await?;
                return self.list(&records);
            }
            (Some(entry), _) => compactions.undo(&session, named(entry).as_ref()).await?,
            (_, Some(entry)) => compactions.redo(&session, named(entry).as_ref()).await?,
            (None, None) => self.compact(engine, &session).await?,
        };
        let records = compactions.ledger(&session).await?;
        let Some(record) = records.iter().find(|record| record.entry == entry) else {
            bail!(
                "the compaction {entry} has not been made: `everturn session inbox {session}` shows what waits"
            );
        };
        if let Some(fault) = &record.fault {
            bail!("the conversation was not summed up: {}", fault.text());
        }
        if self.json {
            table::json(&value(record));
        } else {
            table::line(line(record));
        }
        Ok(())
    }

    async fn compact(&self, engine: &Engine, session: &SessionId) -> Result<EntryId> {
        let instructions = self.instructions.clone();
        if instructions.as_deref().is_some_and(|text| text.trim().is_empty()) {
            bail!("the instructions are empty; say what the summary should mind, or leave them out");
        }
        let new = NewCompaction { instructions, force: self.force, ..NewCompaction::default() };
        let item = engine.compactions().request(session, new).await?;
        engine.drains().settled(session).await;
        Ok(item.id)
    }

    fn list(&self, records: &[CompactionRecord]) -> Result<()> {
        if self.json {
            table::json(&Value::Array(records.iter().map(value).collect()));
        } else if records.is_empty() {
            table::note("nothing of this session was summed up");
        } else {
            let row = |record: &CompactionRecord| {
                vec![
                    record.entry.to_string(),
                    table::moment(record.time),
                    state(record).to_owned(),
                    span(&record.dropped),
                    span(&record.kept),
                    record.cost.to_string(),
                ]
            };
            let head = ["compaction", "time", "state", "summed up", "kept", "cost"];
            table::rows(&head, records.iter().map(row));
        }
        Ok(())
    }
}

/// What became of one, in a word.
fn state(record: &CompactionRecord) -> &'static str {
    match (&record.summary, record.undone, &record.fault) {
        (Some(_), true, _) => "undone",
        (Some(_), false, _) if record.reason == Some(Trigger::Manual) => "asked for",
        (Some(_), false, _) => "automatic",
        (None, _, Some(_)) => "failed",
        (None, _, None) => "being made",
    }
}

fn line(record: &CompactionRecord) -> String {
    let (dropped, kept) = (span(&record.dropped), span(&record.kept));
    match state(record) {
        "undone" => format!("{} undone: the model sees {dropped} again", record.entry),
        _ => format!("{} {dropped} summed up, {kept} kept word for word", record.entry),
    }
}

fn span(span: &ConversationSpan) -> String {
    let entries = table::counted(span.entries, "message", "messages");
    format!("{entries} ({} tokens)", table::count(span.tokens))
}

fn value(record: &CompactionRecord) -> Value {
    let span = |span: &ConversationSpan| json!({"messages": span.entries, "tokens": span.tokens, "first": span.first, "last": span.last});
    json!({
        "compaction": record.entry,
        "time": record.time,
        "reason": record.reason,
        "undone": record.undone,
        "error": record.fault.as_ref().map(|fault| fault.text()),
        "summary": record.summary,
        "model": record.model,
        "tokens": record.tokens,
        "cost": record.cost,
        "summed_up": span(&record.dropped),
        "kept": span(&record.kept),
        "carried": record.carried,
    })
}
