//! Prompting: waiting for the answer, or not.

use axum::extract::State;
use everturn_engine::Engine;
use everturn_interop::opencode::v1::{self, Selected, V1Message};
use everturn_model::inbox::InboxItem;
use everturn_model::{EntryId, SessionId};
use serde_json::Value;

use super::messages::{id_of, shown};
use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, NoContent, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, Conflict, NotFound, Unanswered, Unsupported};
use crate::input::{Json, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::message::MessageWithParts;
use crate::wire::prompt::PromptBody;

/// The last answer is nearly always among so many messages.
const NEWEST: usize = 2;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("session.prompt", "/session/{sessionID}/message", prompt).fails_with([
            NotFound,
            Busy,
            Conflict,
            Unsupported,
            Unanswered,
        ]),
        Operation::post("session.prompt_async", "/session/{sessionID}/prompt_async", prompt_async)
            .fails_with([NotFound, Busy, Conflict, Unsupported]),
    ]
}

async fn admit(engine: &Engine, id: &SessionId, body: PromptBody) -> Result<InboxItem> {
    let prompt = body.into_prompt()?;
    let (engine, id) = (engine.clone(), id.clone());
    run_to_end(async move { engine.inbox().admit(&id, prompt).await }).await
}

/// Prompts and answers with the message that the session ends with. A client that goes away leaves the session
/// working.
async fn prompt(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<PromptBody>,
) -> Result<JsonAnswer<MessageWithParts>> {
    let id = at.session.0;
    let item = admit(&app.engine, &id, body).await?;
    if !item.reply {
        return answer(&v1::inbox_message(&id, &item, Selected::default()));
    }
    app.engine.drains().settled(&id).await;
    answer(&last_answer(&app.engine, &id, &item.id).await?)
}

async fn prompt_async(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<PromptBody>,
) -> Result<NoContent> {
    admit(&app.engine, &at.session.0, body).await?;
    Ok(NoContent)
}

/// The last answer of a session, given after a prompt.
pub(super) async fn last_answer(engine: &Engine, id: &SessionId, prompt: &EntryId) -> Result<V1Message> {
    for limit in [Some(NEWEST), None] {
        for message in shown(&engine.sessions().conversation(id, limit).await?).into_iter().rev() {
            if message.info.get("role").and_then(Value::as_str) == Some("assistant") {
                return Ok(message);
            }
            if id_of(&message) == prompt.as_str() {
                return Err(Error::Unanswered);
            }
        }
    }
    Err(Error::Unanswered)
}
