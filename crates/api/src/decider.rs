//! Who may decide for the person: not a program that an agent started, although it may have the token.
//!
//! The token is in a file that every program of the account can read, so for the operations that grant what an agent asks
//! for, or answer its questions, the process at the other end of the connection is looked up as well. Where it cannot be
//! told any more which process that was, nothing is decided.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use everturn_engine::peer::{self, PeerProcess};

use crate::error::Error;

/// How often it is looked once more where somebody seems to have left, and how long after.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Lets a request through unless it may come from a program of an agent. Where the listener does not say from which
/// address it came, all that are connected are looked at.
pub(crate) async fn check(request: Request, next: Next) -> Response {
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
             decide for the person: answer in a client outside of the agent's commands and terminals"
        }
        PeerProcess::Gone => {
            "whoever sent this has left the connection, so nobody can tell whether the agent started it: send it again, \
             and wait for the answer"
        }
    };
    tracing::warn!(path = request.uri().path(), ?found, "a decision was refused");
    Error::Forbidden(refused.to_owned()).into_response()
}

async fn look(peer: Option<SocketAddr>) -> PeerProcess {
    // Nothing is decided on a guess.
    tokio::task::spawn_blocking(move || peer::find(peer)).await.unwrap_or(PeerProcess::Gone)
}
