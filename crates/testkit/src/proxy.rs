//! A network between a PostgreSQL client and its server that can be cut where a test wants it.
//!
//! The proxy follows the conversation far enough to count what the client sends and to see the SQL in it, so that a
//! connection can be cut before a statement, after a statement whose answer is then lost, or at each message in turn.
//! What was passed on before a cut does reach the server.
//!
//! It works on threads of its own: a test that blocks its executor does not stop the network. Encrypted connections
//! are passed on, but nothing in them can be seen.

mod connection;
mod rules;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use rules::ProxyRules;

/// A running proxy. When dropped it breaks its connections and no longer listens.
#[derive(Debug)]
pub struct Proxy {
    runtime: Option<Runtime>,
    address: SocketAddr,
    rules: Arc<ProxyRules>,
}

impl Proxy {
    /// Listens on a free port of the loopback interface and passes everything on to `target`.
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    pub fn start(target: SocketAddr) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("an executor");
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("the listener's address");
        let rules = Arc::new(ProxyRules::default());
        let shared = Arc::clone(&rules);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener for the executor");
            accept_all(&listener, target, &shared).await;
        });
        Self { runtime: Some(runtime), address, rules }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the connection when the client sends SQL that contains `text`, which the server then does not get. That
    /// may be a simple query, the preparation of a statement or the use of one that was prepared before.
    ///
    /// Like every cut this happens once, and replaces one of its kind that has not happened.
    pub fn cut_before(&self, text: &str) {
        self.rules.cut_before(text);
    }

    /// Closes the connection after the server has carried out SQL that contains `text` and before the client hears of
    /// it. Preparing such a statement does not count. [`Self::fired`] says that the server has answered.
    pub fn cut_after_sent(&self, text: &str) {
        self.rules.cut_after_sent(text);
    }

    /// Closes the connection at the `n`-th message of [`Self::messages`], counted from one, which the server then does
    /// not get. If there have been as many already, the next one is meant.
    pub fn cut_at(&self, n: u64) {
        self.rules.cut_at(n);
    }

    /// Stops the traffic in both directions. Connections stay open, and new ones get no answer.
    pub fn pause(&self) {
        self.rules.pause(true);
    }

    /// Lets the traffic go on.
    pub fn resume(&self) {
        self.rules.pause(false);
    }

    /// Closes new connections at once. Those there are stay.
    pub fn refuse(&self) {
        self.rules.refuse(true);
    }

    /// Takes new connections again.
    pub fn accept(&self) {
        self.rules.refuse(false);
    }

    /// Counts messages from zero, and forgets cuts that have not happened and that one has.
    pub fn reset(&self) {
        self.rules.reset();
    }

    /// How many messages clients have sent since the last [`Self::reset`], over all connections: those passed on and
    /// those at which a connection was cut. The messages that open a connection are among them.
    pub fn messages(&self) -> u64 {
        self.rules.messages()
    }

    /// Whether a cut has happened since the last one was set.
    pub fn fired(&self) -> bool {
        self.rules.fired()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed inside of another executor.
            runtime.shutdown_background();
        }
    }
}

async fn accept_all(listener: &TcpListener, target: SocketAddr, rules: &Arc<ProxyRules>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if rules.refuses() {
            continue;
        }
        let rules = Arc::clone(rules);
        tokio::spawn(async move {
            rules.wait_while_stopped().await;
            // Dropping the client tells it that the server cannot be reached.
            if let Ok(server) = TcpStream::connect(target).await {
                connection::carry(client, server, &rules).await;
            }
        });
    }
}
