//! The two event streams: what happens in one place, and what happens anywhere.

use axum::extract::State;

use crate::App;
use crate::answer::{Result, SseAnswer};
use crate::operation::Operation;
use crate::stream::{StreamScope, open};
use crate::wire::event_shape::{EventShape, GlobalEvent};
use crate::workdir::Workdir;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("event.subscribe", "/event", here),
        Operation::get("global.event", "/global/event", anywhere),
    ]
}

async fn here(State(app): State<App>, Workdir(location): Workdir) -> Result<SseAnswer<EventShape>> {
    Ok(SseAnswer::new(open(&app, StreamScope::of(&location))))
}

async fn anywhere(State(app): State<App>) -> Result<SseAnswer<GlobalEvent>> {
    Ok(SseAnswer::new(open(&app, StreamScope::Global)))
}
