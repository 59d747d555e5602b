//! A router on a listener, for as many connections as there may be.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use everturn_engine::peer::{self, PeerProcess};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::callers::{self, LocalEnd};
use crate::connections::{ConnectionLimits, Connections, HEADER_LIMIT, OngoingRequest, Presence};

/// How long requests may go on after the shutdown was asked for.
const GRACE: Duration = Duration::from_secs(2);

/// How long the server waits where the system has no descriptor for it.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a router until `shutdown` is ready, then lets running requests end for a moment. A prompt that is waited
/// for goes on without its waiter, so nothing is lost when the moment is over.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (connections, serving) = (Connections::new(limits.count), TaskTracker::new());
    let closing = CancellationToken::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A connection for which nobody can make room is closed.
                if let Some(presence) = connections.enter(peer.ip()) {
                    let closing = closing.clone();
                    serving.spawn(attend((stream, peer), router.clone(), presence, limits, closing));
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = error.to_string(), "no connection can be taken; one has to leave");
                connections.make_room();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    closing.cancel();
    serving.close();
    if tokio::time::timeout(GRACE, serving.wait()).await.is_err() {
        connections.close();
        serving.wait().await;
    }
}

/// Whether only the connection that was about to be taken has failed.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Answers the requests of one connection until it ends or has to leave.
async fn attend(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    presence: Presence,
    limits: ConnectionLimits,
    closing: CancellationToken,
) {
    let caller = tokio::select! {
        caller = caller(&stream, peer) => caller,
        () = presence.visitor.asked_to_leave() => return,
    };
    match caller {
        PeerProcess::Person => presence.visitor.note_person(),
        // It may read, which is of no use to who has left, and is looked at again before it changes anything.
        PeerProcess::Gone => {}
        PeerProcess::Agent => {
            tracing::info!("a program that an agent started tried to connect");
            return;
        }
    }
    // Events are small and each one is waited for.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = error.to_string(), "a connection stays delayed");
    }
    let local = stream.local_addr().ok().map(LocalEnd);
    let (visitor, answering) = (&presence.visitor, TowerToHyperService::new(router));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let ongoing = visitor.begin();
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(visitor.clone());
        // Who decides for the person is looked up by the address.
        request.extensions_mut().insert(ConnectInfo(peer));
        local.map(|local| request.extensions_mut().insert(local));
        let answer = answering.call(request);
        async move { answer.await.map(|response| response.map(|body| HeldBody { body, _ongoing: ongoing })) }
    });
    let mut http = http1::Builder::new();
    // What fills the buffer is followed by at most as much again before headers are refused.
    http.timer(TokioTimer::new()).header_read_timeout(limits.idle_time).max_buf_size(HEADER_LIMIT / 2);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut stranger_time = pin!(tokio::time::sleep(limits.stranger_time));
    let (mut stays, mut closes) = (false, false);
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error = error.to_string(), "a connection broke off");
                }
                return;
            }
            () = visitor.asked_to_leave() => return,
            () = &mut stranger_time, if !stays => {
                stays = true;
                if !visitor.is_known() {
                    return;
                }
            }
            () = closing.cancelled(), if !closes => {
                closes = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Who has made this connection. Before a byte of it is read: whatever a program of an agent says, it must not be heard.
async fn caller(stream: &TcpStream, peer: SocketAddr) -> PeerProcess {
    let Ok(local) = stream.local_addr() else { return PeerProcess::Gone };
    match peer::caller_at_once(peer, local) {
        Some(caller) => caller,
        None => callers::find(peer, local).await,
    }
}

/// The body of an answer: until its end, the connection is not idle.
struct HeldBody {
    body: Body,
    _ongoing: OngoingRequest,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::middleware::{Next, from_fn};
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;
    use crate::connections::Visitor;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";

    /// Takes every request for one with the token.
    async fn let_in(request: Request, next: Next) -> axum::response::Response {
        if let Some(visitor) = request.extensions().get::<Arc<Visitor>>() {
            visitor.let_in();
        }
        next.run(request).await
    }

    /// A server with the usual times, a connection to it, and what ends it.
    async fn connect(router: Router) -> (TcpStream, oneshot::Sender<()>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let stop = async move { drop(ended.await) };
        let serving = tokio::spawn(serve(listener, router, ConnectionLimits::default(), stop));
        (TcpStream::connect(address).await.unwrap(), end, serving)
    }

    /// The seconds until a connection is closed; none of them passes while anybody has something to do.
    async fn seconds_until_closed(stream: &mut TcpStream) -> u64 {
        let begun = Instant::now();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn connections_have_the_time_that_is_written_down() {
        let router = Router::new().route("/", get(async || "hello"));
        for beginning in [&b""[..], b"GET / HTTP/1.1\r\nHost: ", REQUEST] {
            let (mut stranger, _end, _) = connect(router.clone()).await;
            stranger.write_all(beginning).await.unwrap();
            let words = String::from_utf8_lossy(beginning);
            assert_eq!(seconds_until_closed(&mut stranger).await, 10, "{words}");
        }
        let known = router.layer(from_fn(let_in));
        for next in [&b""[..], b"GET / HTTP/1.1\r\nHost: "] {
            let (mut stream, _end, _) = connect(known.clone()).await;
            stream.write_all(REQUEST).await.unwrap();
            stream.read_exact(&mut [0; 12]).await.unwrap();
            stream.write_all(next).await.unwrap();
            let words = String::from_utf8_lossy(next);
            assert_eq!(seconds_until_closed(&mut stream).await, 90, "{words}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_go_on_at_the_end_have_a_moment() {
        let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
        let endless = async move || {
            begun.send(()).await.unwrap();
            std::future::pending::<&str>().await
        };
        let router = Router::new().route("/", get(endless)).layer(from_fn(let_in));
        let (mut stream, end, serving) = connect(router).await;
        stream.write_all(REQUEST).await.unwrap();
        has_begun.recv().await.unwrap();
        let begun = Instant::now();
        end.send(()).unwrap();
        serving.await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 2);
    }
}
