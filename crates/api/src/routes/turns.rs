//! What interrupts or takes back turns: abort, revert, unrevert.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use everturn_interop::opencode::v1;
use serde::Deserialize;

use super::messages::on_entry;
use super::whole;
use crate::App;
use crate::input::{Json, entry_id, part_id, session_id};
use crate::reply::{Result, ok};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/abort", post(abort))
        .route("/session/{session}/revert", post(revert))
        .route("/session/{session}/unrevert", post(unrevert))
}

async fn abort(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = session_id(id)?;
    whole(async move { app.engine.drains().abort(&id).await }).await?;
    ok(&true)
}

#[derive(Debug, Deserialize)]
struct Revert {
    #[serde(rename = "messageID")]
    message: String,
    #[serde(rename = "partID")]
    part: Option<String>,
}

async fn revert(State(app): State<App>, Path(id): Path<String>, Json(body): Json<Revert>) -> Result {
    let id = session_id(id)?;
    let message = entry_id(body.message)?;
    let part = body.part.map(part_id).transpose()?;
    let engine = app.engine;
    let session = whole(async move {
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), part.clone());
            async move { engine.reverts().revert(&id, &message, part.as_ref()).await }
        })
        .await
    })
    .await?;
    ok(&v1::session_info(&session))
}

async fn unrevert(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = session_id(id)?;
    let session = whole(async move { app.engine.reverts().unrevert(&id).await }).await?;
    ok(&v1::session_info(&session))
}
