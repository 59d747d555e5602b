//! Commands that a person runs.

use axum::extract::State;
use everturn_engine::Engine;
use everturn_interop::opencode::v1::V1Message;
use everturn_model::SessionId;

use super::messages::{id_of, shown};
use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, Conflict, NotFound};
use crate::input::{Json, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::message::MessageWithParts;
use crate::wire::shell::ShellBody;

/// The second message of a command that has just ended is nearly always among so many.
const NEWEST: usize = 2;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        // What it runs is not walled in, so nobody may run it but the person.
        Operation::post("session.shell", "/session/{sessionID}/shell", shell)
            .needs_decision_right()
            .fails_with([NotFound, Busy, Conflict]),
    ]
}

/// Runs a command, and answers when it has ended. It goes on if the client goes away.
async fn shell(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<ShellBody>,
) -> Result<JsonAnswer<MessageWithParts>> {
    let (engine, id, command) = (app.engine.clone(), at.session.0, body.into_command());
    let session = id.clone();
    let message = run_to_end(async move { engine.shell().run(&session, command).await }).await?;
    answer(&message_of(&app.engine, &id, &message).await?)
}

/// A message of a session.
async fn message_of(engine: &Engine, id: &SessionId, message: &str) -> Result<V1Message> {
    for limit in [Some(NEWEST), None] {
        let messages = shown(&engine.sessions().conversation(id, limit).await?);
        if let Some(found) = messages.into_iter().rev().find(|shown| id_of(shown) == message) {
            return Ok(found);
        }
    }
    // Somebody has taken it back meanwhile.
    Err(Error::Unanswered)
}
