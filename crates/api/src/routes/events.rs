//! The two event streams: what happens in one place, and what happens anywhere.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use crate::App;
use crate::place::Place;
use crate::stream::{Scope, open};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/event", get(here)).route("/global/event", get(anywhere))
}

async fn here(State(app): State<App>, Place(location): Place) -> Response {
    open(&app, Scope::of(&location))
}

async fn anywhere(State(app): State<App>) -> Response {
    open(&app, Scope::Global)
}
