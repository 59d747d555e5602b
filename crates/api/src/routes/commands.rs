//! Slash commands.

use axum::extract::State;
use everturn_engine::commands::GivenCommand;
use everturn_model::SessionId;

use super::messages::id_of;
use super::prompts::last_answer;
use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, Conflict, NotFound, Unanswered};
use crate::input::{Json, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::command::{CommandBody, CommandInfo, InitBody};
use crate::wire::message::MessageWithParts;
use crate::workdir::Here;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("command.list", "/command", commands),
        Operation::post("session.command", "/session/{sessionID}/command", command)
            .fails_with([NotFound, Busy, Conflict, Unanswered]),
        Operation::post("session.init", "/session/{sessionID}/init", init)
            .fails_with([NotFound, Busy, Conflict, Unanswered]),
    ]
}

/// The commands of a place.
async fn commands(State(app): State<App>, here: Here) -> Result<JsonAnswer<Vec<CommandInfo>>> {
    let known = app.engine.commands().list(&here.config, &here.location).await;
    answer(&known.into_iter().map(CommandInfo::of).collect::<Vec<_>>())
}

/// Gives a command, and answers with the message that the session ends with. It goes on if the client goes away.
async fn command(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<CommandBody>,
) -> Result<JsonAnswer<MessageWithParts>> {
    answer(&give(&app, at.session.0, body.into_given()).await?)
}

/// Has `AGENTS.md` written.
async fn init(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<InitBody>,
) -> Result<JsonAnswer<bool>> {
    give(&app, at.session.0, body.into_given()).await?;
    answer(&true)
}

async fn give(
    app: &App,
    id: SessionId,
    given: GivenCommand,
) -> Result<everturn_interop::opencode::v1::V1Message> {
    let engine = app.engine.clone();
    // Clients are told of it also when the one that gave it has gone away.
    let given = async move {
        let (name, arguments) = (given.name.clone(), given.arguments.clone());
        let engine_of = engine.clone();
        let session = id.clone();
        let item = run_to_end(async move { engine_of.commands().run(&session, given).await }).await?;
        engine.drains().settled(&id).await;
        let last = last_answer(&engine, &id, &item.id).await?;
        engine.commands().tell_done(&id, &name, &arguments, id_of(&last)).await?;
        Ok::<_, Error>(last)
    };
    tokio::spawn(given).await?
}
