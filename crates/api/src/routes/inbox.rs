//! The inbox of a session: prompts that wait, listed, added, changed, put in another order and taken back, and the word
//! that lets them go on.

use axum::extract::State;
use everturn_engine::Prompt;
use everturn_engine::inbox::WaitingOutcome;

use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, Conflict, NotFound, Unsupported};
use crate::input::{Json, MessagePath, Path, SessionPath};
use crate::operation::Operation;
use crate::wire::inbox::{
    InboxOrder, NewWaitingPrompt, Resumed, SessionInbox, WaitingPrompt, WaitingPromptChange,
    WaitingPromptOutcome,
};

pub(super) fn operations() -> Vec<Operation> {
    let (all, one) =
        ("/everturn/session/{sessionID}/inbox", "/everturn/session/{sessionID}/inbox/{messageID}");
    vec![
        Operation::get("everturn.inbox.list", all, list).fails_with([NotFound]),
        Operation::post("everturn.inbox.add", all, add).fails_with([NotFound, Busy, Conflict, Unsupported]),
        Operation::patch("everturn.inbox.change", one, change).fails_with([NotFound, Unsupported]),
        Operation::delete("everturn.inbox.cancel", one, cancel).fails_with([NotFound]),
        Operation::post("everturn.inbox.reorder", "/everturn/session/{sessionID}/inbox-order", reorder)
            .fails_with([NotFound]),
        Operation::post("everturn.session.resume", "/everturn/session/{sessionID}/resume", resume)
            .fails_with([NotFound]),
    ]
}

async fn list(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<SessionInbox>> {
    let id = at.session.0;
    let session = app.engine.sessions().get(&id).await?;
    let waiting = app.engine.inbox().waiting(&id).await?;
    answer(&SessionInbox::of(&session, &waiting))
}

async fn add(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<NewWaitingPrompt>,
) -> Result<JsonAnswer<WaitingPrompt>> {
    let id = at.session.0;
    let prompt = body.prompt.into_prompt()?;
    let delivery = body.delivery.map_or(prompt.delivery, Into::into);
    let prompt = Prompt { delivery, resume: body.resume.unwrap_or(true), ..prompt };
    let session = id.clone();
    let item = run_to_end(async move { app.engine.inbox().admit(&session, prompt).await }).await?;
    answer(&WaitingPrompt::of(&id, &item))
}

async fn change(
    State(app): State<App>,
    Path(at): Path<MessagePath>,
    Json(body): Json<WaitingPromptChange>,
) -> Result<JsonAnswer<WaitingPromptOutcome>> {
    let (id, message) = (at.session.0, at.message.0);
    let prompt = body.prompt.map(|prompt| prompt.into_prompt()).transpose()?;
    if prompt.is_none() && body.delivery.is_none() {
        return Err(Error::Body("say what is to change: `prompt`, `delivery` or both".to_owned()));
    }
    let session = id.clone();
    let outcome = run_to_end(async move {
        let (inbox, mut outcome) = (app.engine.inbox(), WaitingOutcome::Promoted);
        if let Some(prompt) = prompt {
            outcome = inbox.edit(&session, &message, prompt).await?;
        }
        if let Some(delivery) = body.delivery {
            outcome = inbox.reroute(&session, &message, delivery.into()).await?;
        }
        Ok::<_, everturn_engine::Error>(outcome)
    })
    .await?;
    answer(&WaitingPromptOutcome::of(&id, &outcome))
}

async fn cancel(
    State(app): State<App>,
    Path(at): Path<MessagePath>,
) -> Result<JsonAnswer<WaitingPromptOutcome>> {
    let (id, message) = (at.session.0, at.message.0);
    let session = id.clone();
    let outcome = run_to_end(async move { app.engine.inbox().cancel(&session, &message).await }).await?;
    answer(&WaitingPromptOutcome::of(&id, &outcome))
}

async fn reorder(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<InboxOrder>,
) -> Result<JsonAnswer<SessionInbox>> {
    let id = at.session.0;
    let messages: Vec<_> = body.messages.into_iter().map(|message| message.0).collect();
    let (session, engine) = (id.clone(), app.engine.clone());
    let waiting = run_to_end(async move { engine.inbox().reorder(&session, &messages).await }).await?;
    let session = app.engine.sessions().get(&id).await?;
    answer(&SessionInbox::of(&session, &waiting))
}

async fn resume(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<Resumed>> {
    let id = at.session.0;
    let resumed = run_to_end(async move { app.engine.drains().resume(&id).await }).await?;
    answer(&Resumed { resumed })
}
