//! What interrupts or takes back turns: abort, revert, unrevert.

use axum::extract::State;
use everturn_interop::opencode::v1::SessionInfo;

use super::messages::on_entry;
use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::ErrorKind::{Body, Busy, NotFound};
use crate::input::{Json, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::session::{RevertBody, SessionShape};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("session.abort", "/session/{sessionID}/abort", abort).fails_with([NotFound]),
        Operation::post("session.revert", "/session/{sessionID}/revert", revert).fails_with([NotFound, Busy]),
        Operation::post("session.unrevert", "/session/{sessionID}/unrevert", unrevert)
            .fails_with([NotFound, Busy, Body]),
    ]
}

async fn abort(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<bool>> {
    let id = at.session.0;
    run_to_end(async move { app.engine.drains().abort(&id).await }).await?;
    answer(&true)
}

async fn revert(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<RevertBody>,
) -> Result<JsonAnswer<SessionShape>> {
    let (id, message, part) = (at.session.0, body.message.0, body.part.map(|part| part.0));
    let engine = app.engine;
    let session = run_to_end(async move {
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), part.clone());
            async move { engine.reverts().revert(&id, &message, part.as_ref()).await }
        })
        .await
    })
    .await?;
    answer(&SessionInfo::of(&session))
}

async fn unrevert(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<SessionShape>> {
    let id = at.session.0;
    let session = run_to_end(async move { app.engine.reverts().unrevert(&id).await }).await?;
    answer(&SessionInfo::of(&session))
}
