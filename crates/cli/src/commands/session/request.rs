//! `everturn session request`: what the model was sent in a turn.

use anyhow::Result;
use clap::Args;
use everturn_engine::Engine;
use everturn_engine::sent_requests::SentRequest;
use serde_json::{Value, json};

use super::lookup;
use crate::table;

/// What the model was sent in a turn of a session
#[derive(Debug, Args)]
#[command(
    after_help = "The body is written again from the log. It is said whether it is what was sent to the byte, or what \
                  this version would send. Headers are not kept, and what may be secret is not shown."
)]
pub(crate) struct RequestCommand {
    /// The session
    id: String,
    /// The turn, from 1 on, instead of the newest
    #[arg(long, value_name = "N")]
    turn: Option<usize>,
    /// With what is known of it, as JSON
    #[arg(long)]
    json: bool,
}

impl RequestCommand {
    /// Shows the request.
    pub(super) async fn perform(self, engine: &Engine) -> Result<()> {
        let session = lookup::listed(engine, &self.id).await?;
        let sent = engine.sent_requests().of(&session.id, self.turn).await?;
        let body: Value = serde_json::from_str(&sent.body)?;
        if self.json {
            table::json(&json!({
                "session": session.id, "turn": sent.turn, "messageID": sent.entry, "time": sent.time,
                "agent": sent.agent, "providerID": sent.model.provider, "modelID": sent.model.model,
                "exact": sent.exact, "masked": sent.masked, "body": body,
            }));
            return Ok(());
        }
        table::note(note(&sent));
        table::json(&body);
        Ok(())
    }
}

/// Which request it is, and how sure that is.
fn note(sent: &SentRequest) -> String {
    let exact = if sent.exact { "exact" } else { "as this version would write it" };
    let masked = if sent.masked { "; what may be secret is not shown" } else { "" };
    let model = format!("{}/{}", sent.model.provider, sent.model.model);
    format!(
        "turn {} of agent {} by {model}, {}: {exact}{masked}",
        sent.turn,
        sent.agent,
        table::moment(sent.time)
    )
}
