//! Who may change something, and who may decide for the person: not a program that an agent started, although it may have
//! the token.
//!
//! The token is in a file that every program of the account can read, so it is told by the process at the other end of the
//! connection. That is looked up when a connection is made, and what such a program has made is closed. Whoever could not be
//! told then may read; before anything else is done for them, they are looked up again. So they are before each operation
//! that grants what an agent asks for or answers its questions. Where it cannot be told any more which process that was,
//! nothing is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use everturn_engine::peer::{self, PeerProcess};

use crate::connections::Visitor;
use crate::error::Error;

/// How often it is looked once more where somebody seems to have left, and how long after.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Lets a request that changes something through if its connection is a person's.
pub(crate) async fn check_change(request: Request, next: Next) -> Response {
    match request.extensions().get::<Arc<Visitor>>() {
        Some(visitor) if visitor.is_person() => next.run(request).await,
        Some(_) | None => check_decision(request, next).await,
    }
}

/// Lets a request through unless it may come from a program of an agent. Where the listener does not say from which
/// address it came, all that are connected are looked at.
pub(crate) async fn check_decision(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let mut found = look(peer).await;
    for _ in 0..LOOKS {
        // The table of connections changes while it is read, and without an address it may be somebody else's connection
        // that is being closed.
        if found != PeerProcess::Gone {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        found = look(peer).await;
    }
    let refused = match found {
        PeerProcess::Person => return next.run(request).await,
        PeerProcess::Agent => {
            "this was sent by a program that the agent started, or while one was connected, and such a program does not \
             act for the person: use a client outside of the agent's commands and terminals"
        }
        PeerProcess::Gone => {
            "whoever sent this has left the connection, so nobody can tell whether the agent started it: send it again, \
             and wait for the answer"
        }
    };
    tracing::warn!(path = request.uri().path(), ?found, "a request was refused");
    Error::Forbidden(refused.to_owned()).into_response()
}

async fn look(peer: Option<SocketAddr>) -> PeerProcess {
    // Nothing is decided on a guess.
    tokio::task::spawn_blocking(move || peer::find(peer)).await.unwrap_or(PeerProcess::Gone)
}
