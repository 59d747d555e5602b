//! Permission requests and questions.

use axum::extract::State;
use everturn_engine::Engine;
use everturn_model::RequestId;

use super::whole;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{NoPermission, NoQuestion, NotFound};
use crate::input::{Json, OfPermission, OfQuestion, OfSessionPermission, Path};
use crate::operation::Operation;
use crate::wire::request::{Decision, OldDecision, PermissionRequest, QuestionAnswers, QuestionRequest};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("permission.list", "/permission", permissions),
        Operation::post("permission.reply", "/permission/{requestID}/reply", reply)
            .decides()
            .fails([NoPermission]),
        Operation::post("permission.respond", "/session/{sessionID}/permissions/{permissionID}", respond)
            .decides()
            .fails([NotFound, NoPermission]),
        Operation::get("question.list", "/question", questions),
        Operation::post("question.reply", "/question/{requestID}/reply", reply_question)
            .decides()
            .fails([NoQuestion]),
        Operation::post("question.reject", "/question/{requestID}/reject", reject_question)
            .decides()
            .fails([NoQuestion]),
    ]
}

async fn permissions(State(app): State<App>) -> Result<JsonAnswer<Vec<PermissionRequest<'static>>>> {
    let requests = app.engine.requests().waiting().await?;
    answer(&requests.iter().filter_map(PermissionRequest::of).collect::<Vec<_>>())
}

async fn questions(State(app): State<App>) -> Result<JsonAnswer<Vec<QuestionRequest<'static>>>> {
    let requests = app.engine.requests().waiting().await?;
    answer(&requests.iter().filter_map(QuestionRequest::of).collect::<Vec<_>>())
}

async fn reply(
    State(app): State<App>,
    Path(at): Path<OfPermission>,
    Json(decision): Json<Decision>,
) -> Result<JsonAnswer<bool>> {
    settle(app.engine, at.request.0, decision).await
}

async fn respond(
    State(app): State<App>,
    Path(at): Path<OfSessionPermission>,
    Json(decision): Json<OldDecision>,
) -> Result<JsonAnswer<bool>> {
    let (session, id) = (at.session.0, at.request.0);
    app.engine.sessions().get(&session).await?;
    let requests = app.engine.requests().waiting().await?;
    if !requests.iter().any(|(owner, request)| *owner == session && request.id == id) {
        return Err(Error::NoPermission(id.to_string()));
    }
    settle(app.engine, id, decision.into()).await
}

async fn settle(engine: Engine, id: RequestId, decision: Decision) -> Result<JsonAnswer<bool>> {
    whole(async move { engine.requests().reply(&id, decision.reply, decision.message).await }).await?;
    answer(&true)
}

async fn reply_question(
    State(app): State<App>,
    Path(at): Path<OfQuestion>,
    Json(body): Json<QuestionAnswers>,
) -> Result<JsonAnswer<bool>> {
    let id = at.request.0.0;
    whole(async move { app.engine.requests().answer(&id, body.answers).await }).await?;
    answer(&true)
}

async fn reject_question(State(app): State<App>, Path(at): Path<OfQuestion>) -> Result<JsonAnswer<bool>> {
    let id = at.request.0.0;
    whole(async move { app.engine.requests().dismiss(&id).await }).await?;
    answer(&true)
}
