//! Summing a conversation up on request.

use axum::extract::State;
use everturn_engine::compaction::NewCompaction;
use everturn_model::session::ModelRef;

use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, NotFound, Unanswered};
use crate::input::{Json, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::compaction::SummarizeBody;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("session.summarize", "/session/{sessionID}/summarize", summarize)
            .fails_with([NotFound, Busy, Unanswered]),
    ]
}

/// Asks for a summary, whatever the conversation's size, and answers when it is written. A client that goes away leaves the
/// session at work.
async fn summarize(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<SummarizeBody>,
) -> Result<JsonAnswer<bool>> {
    let id = at.session.0;
    let model = ModelRef { provider: body.provider, model: body.model, variant: None };
    let new = NewCompaction { model: Some(model), instructions: None, force: true, auto: body.auto };
    let (engine, session) = (app.engine.clone(), id.clone());
    let item = run_to_end(async move { engine.compactions().request(&session, new).await }).await?;
    app.engine.drains().settled(&id).await;
    let made = app.engine.compactions().ledger(&id).await?;
    let is_made = made.iter().any(|record| record.entry == item.id && record.summary.is_some());
    if is_made { answer(&true) } else { Err(Error::Unanswered) }
}
