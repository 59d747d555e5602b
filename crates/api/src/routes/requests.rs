//! Permission requests and questions.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use everturn_engine::Engine;
use everturn_model::{RequestId, SessionId};
use serde_json::Value;

use super::whole;
use crate::App;
use crate::error::Error;
use crate::input::{Json, permission_id, question_id, session_id};
use crate::reply::{Result, ok};
use crate::wire::request::{Answer, Answers, Kind, show};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/permission", get(permissions))
        .route("/permission/{request}/reply", post(answer))
        .route("/session/{session}/permissions/{request}", post(answer_in_session))
        .route("/question", get(questions))
        .route("/question/{request}/reply", post(reply_question))
        .route("/question/{request}/reject", post(reject_question))
}

async fn waiting(engine: &Engine, kind: Kind) -> Result<Vec<Value>> {
    let requests = engine.requests().waiting().await?;
    Ok(requests.iter().filter_map(|(session, request)| show(session, request, kind)).collect())
}

async fn permissions(State(app): State<App>) -> Result {
    ok(&waiting(&app.engine, Kind::Permission).await?)
}

async fn questions(State(app): State<App>) -> Result {
    ok(&waiting(&app.engine, Kind::Question).await?)
}

async fn answer(State(app): State<App>, Path(id): Path<String>, Json(body): Json<Answer>) -> Result {
    settle(app.engine, permission_id(id)?, body).await
}

async fn answer_in_session(
    State(app): State<App>,
    Path((session, id)): Path<(String, String)>,
    Json(body): Json<Answer>,
) -> Result {
    let (session, id) = (session_id(session)?, permission_id(id)?);
    app.engine.sessions().get(&session).await?;
    let asked = |(owner, request): &(SessionId, everturn_model::request::Request)| {
        *owner == session && request.id == id
    };
    if !app.engine.requests().waiting().await?.iter().any(asked) {
        return Err(missing(&id, "PermissionNotFoundError"));
    }
    settle(app.engine, id, body).await
}

async fn settle(engine: Engine, id: RequestId, body: Answer) -> Result {
    whole(async move { engine.requests().reply(&id, body.reply, body.message).await }).await?;
    ok(&true)
}

fn missing(id: &RequestId, tag: &'static str) -> Error {
    Error::NoRequest { tag, request: id.to_string() }
}

async fn reply_question(State(app): State<App>, Path(id): Path<String>, Json(body): Json<Answers>) -> Result {
    let id = question_id(id)?;
    whole(async move { app.engine.requests().answer(&id, body.answers).await }).await?;
    ok(&true)
}

async fn reject_question(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = question_id(id)?;
    whole(async move { app.engine.requests().dismiss(&id).await }).await?;
    ok(&true)
}
