//! Who may change something, and who may decide for the person: not a program that an agent started, although it may have
//! the token.
//!
//! The token is in a file that every program of the account can read, so it is told by the process at the other end of the
//! connection. That is looked up when a connection is made, and what such a program has made is closed. Whoever could not be
//! told then may read. Before anything is changed, whoever wants that is looked up anew, unless no program of an agent is
//! there that could have taken the connection; and in any case before each operation that grants what an agent asks for or
//! answers its questions. Where it cannot be told any more which process that was, nothing is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use everturn_engine::peer::{self, PeerProcess};
use tokio::sync::Semaphore;

use crate::callers::{self, LocalEnd};
use crate::connections::Visitor;
use crate::error::Error;

/// How many are looked up side by side: each look is at the open files of every process.
static LOOKING: Semaphore = Semaphore::const_new(2);

/// How often it is looked once more where somebody seems to have left, and how long after.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Lets a request that changes something through if its connection is a person's, and still is.
pub(crate) async fn check_change(request: Request, next: Next) -> Response {
    let visitor = request.extensions().get::<Arc<Visitor>>().cloned();
    if visitor.as_ref().is_some_and(|visitor| visitor.is_person()) && peer::is_quiet() {
        return next.run(request).await;
    }
    let (sender, local) = (sender(&request), request.extensions().get::<LocalEnd>().copied());
    if let Err(refused) = find_person(sender, local, request.uri().path()).await {
        return refused.into_response();
    }
    visitor.iter().for_each(|visitor| visitor.note_person());
    next.run(request).await
}

/// Lets a request that decides something through if a person has sent it.
pub(crate) async fn check_decision(request: Request, next: Next) -> Response {
    match find_person(sender(&request), None, request.uri().path()).await {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// The address that a request came from, where the listener says so.
fn sender(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0)
}

/// Looks up who has sent a request, and refuses it if that may be a program of an agent. With our own end of the connection it
/// is asked who has made it, and otherwise who may decide.
async fn find_person(peer: Option<SocketAddr>, local: Option<LocalEnd>, path: &str) -> Result<(), Error> {
    let look = async || match (peer, local) {
        (Some(peer), Some(LocalEnd(local))) => callers::find(peer, local).await,
        _ => look(peer).await,
    };
    let mut found = look().await;
    for _ in 0..LOOKS {
        // The table of connections changes while it is read, and without an address it may be somebody else's connection
        // that is being closed.
        if found != PeerProcess::Gone {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        found = look().await;
    }
    let refused = match found {
        PeerProcess::Person => return Ok(()),
        PeerProcess::Agent => {
            "this was sent by a program that the agent started, or while one was connected, and such a program does not \
             act for the person: use a client outside of the agent's commands and terminals"
        }
        PeerProcess::Gone => {
            "whoever sent this has left the connection, so nobody can tell whether the agent started it: send it again, \
             and wait for the answer"
        }
    };
    tracing::warn!(path, ?found, "a request was refused");
    Err(Error::Forbidden(refused.to_owned()))
}

/// Who may decide. Without an address, all that are connected are looked at.
async fn look(peer: Option<SocketAddr>) -> PeerProcess {
    // Nothing is decided on a guess.
    let Ok(_turn) = LOOKING.acquire().await else { return PeerProcess::Gone };
    tokio::task::spawn_blocking(move || peer::find(peer)).await.unwrap_or(PeerProcess::Gone)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connections::{Connections, Presence};
    use crate::error::{ErrorKind, UnformattedError};

    const REFUSED: Option<ErrorKind> = Some(ErrorKind::Forbidden);
    const DONE: Option<ErrorKind> = None;

    /// How somebody is refused who changes something, and who decides something.
    async fn answers(peer: SocketAddr, presence: &Presence) -> [Option<ErrorKind>; 2] {
        let change = post(async || ()).layer(from_fn(check_change));
        let decide = post(async || ()).layer(from_fn(check_decision));
        let router =
            TowerToHyperService::new(Router::new().route("/change", change).route("/decide", decide));
        let ask = async |path: &str| {
            let mut request = Request::post(path).body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Arc::clone(&presence.visitor));
            UnformattedError::of(&router.call(request).await.unwrap())
        };
        [ask("/change").await, ask("/decide").await]
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_left_decides_nothing_and_changes_nothing_that_was_not_known() {
        // A program of an agent sends something and ends before anybody can look who it was.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_stream, peer) = listener.accept().await.unwrap();
        let connections = Connections::new(2);
        let [known, unknown] = [(); 2].map(|()| connections.enter(peer.ip()).unwrap());
        assert_eq!(answers(peer, &known).await, [DONE, DONE]);
        drop(client);
        // What was found holds for changes, and a decision is looked at anew.
        assert_eq!(answers(peer, &known).await, [DONE, REFUSED]);
        assert_eq!(answers(peer, &unknown).await, [REFUSED, REFUSED]);
        assert_eq!([known, unknown].map(|presence| presence.visitor.is_person()), [true, false]);
    }
}
