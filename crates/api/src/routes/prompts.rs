//! Prompting: waiting for the answer, or not.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use everturn_engine::Engine;
use everturn_interop::opencode::v1::{self, Message, Selected};
use everturn_model::inbox::InboxItem;
use everturn_model::{EntryId, SessionId};
use serde_json::Value;

use super::messages::{id_of, shown};
use super::whole;
use crate::App;
use crate::error::Error;
use crate::input::{Json, session_id};
use crate::reply::{Result, ok};
use crate::wire::prompt::PromptBody;

/// The last answer is nearly always among so many messages.
const NEWEST: usize = 2;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/prompt_async", post(prompt_async))
}

async fn admit(engine: &Engine, id: &SessionId, body: PromptBody) -> Result<InboxItem> {
    let prompt = body.into_prompt()?;
    let (engine, id) = (engine.clone(), id.clone());
    whole(async move { engine.inbox().admit(&id, prompt).await }).await
}

/// Prompts and answers with the message that the session ends with. A client that goes away leaves the session
/// working.
pub(super) async fn prompt(
    State(app): State<App>,
    Path(id): Path<String>,
    Json(body): Json<PromptBody>,
) -> Result {
    let id = session_id(id)?;
    let item = admit(&app.engine, &id, body).await?;
    if !item.reply {
        return ok(&v1::inbox_message(&id, &item, Selected::default()));
    }
    app.engine.drains().settled(&id).await;
    ok(&answer(&app.engine, &id, &item.id).await?)
}

async fn prompt_async(
    State(app): State<App>,
    Path(id): Path<String>,
    Json(body): Json<PromptBody>,
) -> Result {
    admit(&app.engine, &session_id(id)?, body).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The last answer of a session, given after a prompt.
async fn answer(engine: &Engine, id: &SessionId, prompt: &EntryId) -> Result<Message> {
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
