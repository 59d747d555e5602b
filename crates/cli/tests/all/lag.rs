//! A network between a client and the server on which streamed text is late: every other byte passes at once.

use std::net::SocketAddr;

use everturn_testkit::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What an event with a piece of text has in it.
const DELTA: &[u8] = b"message.part.delta";

/// How each event begins.
const EVENT: &[u8] = b"data: ";

/// A running network. When dropped it takes no more connections.
#[derive(Debug)]
pub(crate) struct Lag {
    address: SocketAddr,
    passing: watch::Sender<bool>,
    held: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Lag {
    /// Leads to the server at `base_url`.
    pub(crate) async fn to(base_url: &str) -> Self {
        let target: SocketAddr = base_url.trim_start_matches("http://").parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the listener's address");
        let (passing, held) = (watch::Sender::new(false), watch::Sender::new(false));
        let shared = (passing.clone(), held.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(target).await.expect("the server takes connections");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (passing, held) = shared.clone();
                tokio::spawn(forward(from_client, to_server, [address, target]));
                tokio::spawn(delay(from_server, to_client, passing.subscribe(), held));
            }
        });
        Self { address, passing, held, task }
    }

    /// Where clients find the server.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Resolves when streamed text is on its way.
    pub(crate) async fn held(&self) {
        within("streamed text", self.held.subscribe().wait_for(|held| *held))
            .await
            .expect("the network is there");
    }

    /// Lets streamed text through from now on.
    pub(crate) fn release(&self) {
        self.passing.send_replace(true);
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server answers only to its own name, so requests are addressed anew.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, names: [SocketAddr; 2]) {
    let [here, there] = names.map(|name| name.to_string().into_bytes());
    let mut bytes = vec![0; 1 << 16];
    // Either side may go away at any time.
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let mut request = bytes[..count].to_vec();
        if let Some(at) = find(&request, &here) {
            request.splice(at..at + here.len(), there.iter().copied());
        }
        if to.write_all(&request).await.is_err() {
            return;
        }
    }
}

async fn delay(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut passing: watch::Receiver<bool>,
    held: watch::Sender<bool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let mut rest = &bytes[..count];
        if let Some(delta) = find(rest, DELTA) {
            let event = rest[..delta].windows(EVENT.len()).rposition(|window| window == EVENT);
            let (before, late) = rest.split_at(event.unwrap_or(delta));
            if to.write_all(before).await.is_err() {
                return;
            }
            held.send_replace(true);
            if passing.wait_for(|passing| *passing).await.is_err() {
                return;
            }
            rest = late;
        }
        if to.write_all(rest).await.is_err() {
            return;
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
