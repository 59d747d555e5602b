//! What a model was sent.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::ErrorKind::{Body, NotFound, Overloaded};
use crate::input::{NumberParameter, Path, Query, SessionPath};
use crate::large::LargeAnswer;
use crate::operation::Operation;
use crate::wire::sent_request::ShownRequest;

pub(super) fn operations() -> Vec<Operation> {
    let path = "/everturn/session/{sessionID}/request";
    vec![Operation::get("everturn.session.request", path, show).fails_with([NotFound, Body, Overloaded])]
}

/// Which turn is meant.
#[derive(Debug, Deserialize, JsonSchema)]
struct TurnQuery {
    /// The turn, from 1 on; the newest unless said.
    #[serde(default)]
    turn: NumberParameter,
}

async fn show(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Query(asked): Query<TurnQuery>,
) -> Result<JsonAnswer<ShownRequest>> {
    let App { engine, answers, .. } = app;
    let work = async move {
        let id = at.session.0;
        let sent = engine.sent_requests().of(&id, asked.turn.0).await?;
        answer(&ShownRequest::of(&id, &sent))
    };
    answers.build(LargeAnswer::Request, work).await
}
