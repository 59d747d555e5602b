//! `everturn session inbox`: the prompts that wait in a session, and what a person does to them.

use anyhow::{Result, bail};
use clap::Args;
use everturn_engine::inbox::{PromptInbox, WaitingOutcome};
use everturn_engine::{Engine, Prompt};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Part, Session, SessionId};
use serde_json::json;

use super::lookup;
use crate::table;

/// How much is shown of a prompt, in characters.
const LONGEST: usize = 60;

/// The prompts that wait in a session, and changes to them
#[derive(Debug, Args)]
#[command(after_help = "A prompt that is part of the conversation already is left alone, and that is said.")]
pub(crate) struct InboxCommand {
    /// The session
    id: String,
    /// Let this text wait as another prompt, which joins the next answer
    #[arg(long, value_name = "TEXT", group = "change")]
    add: Option<String>,
    /// Let this text wait as another prompt, for a time when the session has nothing else to do
    #[arg(long, value_name = "TEXT", group = "change")]
    enqueue: Option<String>,
    /// Take this prompt back
    #[arg(long, value_name = "MESSAGE", group = "change")]
    cancel: Option<String>,
    /// Give this prompt another text; what is attached to it stays
    #[arg(long, value_names = ["MESSAGE", "TEXT"], num_args = 2, group = "change")]
    edit: Option<Vec<String>>,
    /// Let these prompts go on first, in this order
    #[arg(long, value_name = "MESSAGE", num_args = 1.., group = "change")]
    first: Option<Vec<String>>,
    /// Let this prompt join the answer that is being worked on, or the next one
    #[arg(long, value_name = "MESSAGE", group = "change")]
    steer: Option<String>,
    /// Let this prompt wait until the session has nothing else to do
    #[arg(long, value_name = "MESSAGE", group = "change")]
    queue: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl InboxCommand {
    /// Carries out what was asked for, and shows what waits then.
    pub(super) async fn perform(self, engine: &Engine) -> Result<()> {
        let session = lookup::listed(engine, &self.id).await?;
        let outcome = self.change(engine.inbox(), &session).await?;
        let session = engine.sessions().get(&session.id).await?;
        let waiting = engine.inbox().waiting(&session.id).await?;
        if self.json {
            let promoted = matches!(outcome, Some(WaitingOutcome::Promoted));
            let prompts: Vec<_> = waiting.iter().map(entry).collect();
            table::json(&json!({
                "held": session.held, "parked": session.parked, "promoted": promoted, "prompts": prompts,
            }));
            return Ok(());
        }
        if matches!(outcome, Some(WaitingOutcome::Promoted)) {
            table::note("that prompt is part of the conversation already; nothing was changed");
        }
        if waiting.is_empty() {
            table::note("no prompt waits in this session");
            return Ok(());
        }
        let row = |item: &InboxItem| {
            vec![item.id.to_string(), word(item.delivery).to_owned(), table::moment(item.time), short(item)]
        };
        table::rows(&["message", "delivery", "since", "text"], waiting.iter().map(row));
        if session.held {
            table::note(format!("they are held; `everturn session resume {}` goes on with them", session.id));
        }
        Ok(())
    }

    async fn change(&self, inbox: &PromptInbox, session: &Session) -> Result<Option<WaitingOutcome>> {
        let id = &session.id;
        for (text, delivery) in [(&self.add, Delivery::Steer), (&self.enqueue, Delivery::Queue)] {
            if let Some(text) = text {
                if text.trim().is_empty() {
                    bail!("the prompt is empty; say what is to be done");
                }
                // This command answers nothing.
                inbox.admit(id, Prompt { delivery, resume: false, ..Prompt::text(text) }).await?;
            }
        }
        let message = |text: &String| EntryId::new(text.as_str());
        if let Some(wanted) = &self.cancel {
            return Ok(Some(inbox.cancel(id, &message(wanted)).await?));
        }
        if let Some([wanted, text]) = self.edit.as_deref() {
            return Ok(Some(reword(inbox, id, &message(wanted), text).await?));
        }
        if let Some(first) = &self.first {
            inbox.reorder(id, &first.iter().map(message).collect::<Vec<_>>()).await?;
        }
        let delivery = [(&self.steer, Delivery::Steer), (&self.queue, Delivery::Queue)];
        for (wanted, delivery) in delivery {
            if let Some(wanted) = wanted {
                return Ok(Some(inbox.reroute(id, &message(wanted), delivery).await?));
            }
        }
        Ok(None)
    }
}

/// Gives a prompt that waits other words. What else there is of it stays.
async fn reword(
    inbox: &PromptInbox,
    id: &SessionId,
    message: &EntryId,
    text: &str,
) -> Result<WaitingOutcome> {
    if text.trim().is_empty() {
        bail!("the prompt is empty; `--cancel {message}` takes it back");
    }
    let waiting = inbox.waiting(id).await?;
    let parts =
        waiting.into_iter().find(|item| item.id == *message).map(|item| item.parts).unwrap_or_default();
    let mut own = parts
        .into_iter()
        .filter(|part| matches!(&part.kind, PartKind::Text { synthetic, .. } if *synthetic != Some(true)));
    let Some(first) = own.next() else {
        // There is no such prompt, or nothing of it is a text: the engine tells which.
        return Ok(inbox.edit(id, message, Prompt::text(text)).await?);
    };
    let new = Part { kind: PartKind::text(text), ..first };
    let mut outcome = inbox.edit_text(id, message, new).await?;
    for part in own {
        if matches!(outcome, WaitingOutcome::Done(_)) {
            outcome = inbox.remove_part(id, message, &part.id).await?;
        }
    }
    Ok(outcome)
}

fn word(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Steer => "steer",
        Delivery::Queue => "queue",
    }
}

fn text(item: &InboxItem) -> String {
    let texts = item.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text { text, synthetic, .. } if *synthetic != Some(true) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn short(item: &InboxItem) -> String {
    let text = if item.is_compaction() { "(a compaction)".to_owned() } else { text(item) };
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > LONGEST {
        line = line.chars().take(LONGEST - 1).chain(['…']).collect();
    }
    line
}

fn entry(item: &InboxItem) -> serde_json::Value {
    json!({
        "messageID": item.id, "delivery": word(item.delivery), "resume": item.resume, "time": item.time,
        "text": text(item),
    })
}
