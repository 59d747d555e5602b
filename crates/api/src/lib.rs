//! The HTTP face: what OpenCode's own clients attach to, unchanged.
//!
//! [`router`] speaks the V1 protocol over an [`Engine`]: sessions, messages, permissions, configuration and the two
//! event streams. It holds no state of its own besides the event hub; every answer is a view of what the engine knows.
//! Nothing is answered before the gate has let a request in: exact `Host`, matching `Origin`, and a token.
//!
//! Each operation is declared once, in `routes`: the router and the [document](openapi) are made from that table.
//!
//! # Layout
//! - [`auth`]: who may speak to the server
//! - `gate`: the checks before every route
//! - `logins`: failed logins, which are slowed down
//! - `callers`: who has made a connection
//! - `connections`: who is connected, and who has to leave
//! - `decider`: who may change something, and who may decide for the person
//! - `serve`: a router on a listener
//! - `operation`: what a declared operation is, and how it becomes a route
//! - `describe`: what the types of a handler say about its operation
//! - `document`: the table as OpenAPI
//! - `error`: what can go wrong, and how V1 clients are told
//! - `input`: paths, queries and bodies of requests
//! - `answer`: what handlers answer with
//! - `large`: answers as large as a session
//! - `workdir`: the folder that a request means
//! - `hub`: the bus as V1 events, encoded once for everybody
//! - `drafts`: text that is streaming, for clients that attach in the middle of it
//! - `stream`: one client's event stream
//! - `wire`: shapes of requests and answers
//! - `routes`: the operations and their handlers, by resource

mod answer;
pub mod auth;
mod callers;
mod connections;
mod decider;
mod describe;
mod document;
mod drafts;
mod error;
mod gate;
mod hub;
mod input;
mod large;
mod logins;
mod operation;
mod routes;
mod serve;
mod stream;
mod wire;
mod workdir;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use everturn_engine::Engine;
use tokio_util::sync::CancellationToken;

pub use auth::Auth;
pub use connections::ConnectionLimits;
pub use document::openapi;
pub use gate::Hosts;
pub use input::{BODY_LIMIT, BodyLimits};
pub use serve::serve;

use hub::Hub;
use large::AnswerRoom;

/// How a router is guarded and closed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who may speak to it.
    pub auth: Auth,
    /// Under which names it may be addressed, and by which pages.
    pub hosts: Hosts,
    /// How much of the bodies of requests is in memory, and for how long.
    pub bodies: BodyLimits,
    /// Cancel it to end the event streams, so that a server with attached clients can stop.
    pub closing: CancellationToken,
}

impl Options {
    /// Options with nothing to close it.
    #[must_use]
    pub fn new(auth: Auth, hosts: Hosts) -> Self {
        Self { auth, hosts, bodies: BodyLimits::default(), closing: CancellationToken::new() }
    }
}

/// What every handler sees.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) hub: Arc<Hub>,
    pub(crate) answers: AnswerRoom,
}

/// The routes of an engine behind the gate. Call it inside a Tokio runtime; its event hub ends with the last clone.
pub fn router(engine: Engine, options: Options) -> Router {
    let hub = Hub::start(&engine, options.closing.clone());
    let guarded =
        gate::guard(routes::all().with_state(App { engine, hub, answers: AnswerRoom::default() }), options);
    // Outermost, so that an error of any layer is written for the client.
    guarded.layer(map_response(error::v1::format_error))
}
