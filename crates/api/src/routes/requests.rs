//! Permission requests and questions.

use axum::extract::State;
use everturn_engine::Engine;
use everturn_engine::projects::Location;
use everturn_model::request::Request;
use everturn_model::{RequestId, SessionId};

use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{NoPermission, NoQuestion, NotFound};
use crate::input::{Json, Path, PermissionPath, QuestionPath, SessionPermissionPath};
use crate::operation::Operation;
use crate::wire::request::{Decision, OlderDecision, PermissionRequest, QuestionAnswers, QuestionRequest};
use crate::workdir::Workdir;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("permission.list", "/permission", permissions),
        Operation::post("permission.reply", "/permission/{requestID}/reply", reply)
            .needs_decision_right()
            .fails_with([NoPermission]),
        Operation::post("permission.respond", "/session/{sessionID}/permissions/{permissionID}", respond)
            .needs_decision_right()
            .fails_with([NotFound, NoPermission]),
        Operation::get("question.list", "/question", questions),
        Operation::post("question.reply", "/question/{requestID}/reply", reply_question)
            .needs_decision_right()
            .fails_with([NoQuestion]),
        Operation::post("question.reject", "/question/{requestID}/reject", reject_question)
            .needs_decision_right()
            .fails_with([NoQuestion]),
    ]
}

async fn permissions(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<Vec<PermissionRequest<'static>>>> {
    let requests = waiting(&app, &location).await?;
    answer(&requests.iter().filter_map(PermissionRequest::of).collect::<Vec<_>>())
}

async fn questions(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<Vec<QuestionRequest<'static>>>> {
    let requests = waiting(&app, &location).await?;
    answer(&requests.iter().filter_map(QuestionRequest::of).collect::<Vec<_>>())
}

/// What waits for a person in a place.
async fn waiting(app: &App, location: &Location) -> Result<Vec<(SessionId, Request)>> {
    let mut requests = app.engine.requests().waiting().await?;
    let sessions = requests.iter().map(|(id, _)| id.clone()).collect();
    let here = app.engine.projects().held_by(location, sessions).await?;
    requests.retain(|(id, _)| here.contains(id));
    Ok(requests)
}

async fn reply(
    State(app): State<App>,
    Path(at): Path<PermissionPath>,
    Json(decision): Json<Decision>,
) -> Result<JsonAnswer<bool>> {
    settle(app.engine, at.request.0, decision).await
}

async fn respond(
    State(app): State<App>,
    Path(at): Path<SessionPermissionPath>,
    Json(decision): Json<OlderDecision>,
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
    run_to_end(async move { engine.requests().reply(&id, decision.reply, decision.message).await }).await?;
    answer(&true)
}

async fn reply_question(
    State(app): State<App>,
    Path(at): Path<QuestionPath>,
    Json(body): Json<QuestionAnswers>,
) -> Result<JsonAnswer<bool>> {
    let id = at.request.0.0;
    run_to_end(async move { app.engine.requests().answer(&id, body.answers).await }).await?;
    answer(&true)
}

async fn reject_question(State(app): State<App>, Path(at): Path<QuestionPath>) -> Result<JsonAnswer<bool>> {
    let id = at.request.0.0;
    run_to_end(async move { app.engine.requests().dismiss(&id).await }).await?;
    answer(&true)
}
