//! A web server that does what no decent one does: it answers each request with the bytes that a test wants.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What follows the first bytes of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tail {
    /// The end of the connection.
    Close,
    /// Nothing, while the connection stays.
    Hang,
    /// The same bytes for ever.
    Repeat(&'static [u8]),
    /// The same, one at a time.
    Drip,
}

/// An answer: its first bytes, and what follows.
#[derive(Debug, Clone)]
pub(crate) struct Answer(pub(crate) Vec<u8>, pub(crate) Tail);

impl Answer {
    /// An ordinary answer.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut answer = Self::head(status, headers);
        answer.0.truncate(answer.0.len() - 2);
        answer.0.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        answer.0.extend_from_slice(body);
        answer
    }

    /// The beginning of an answer, without a length.
    pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        Self(text.into_bytes(), Tail::Close)
    }

    pub(crate) fn page(html: impl AsRef<[u8]>) -> Self {
        Self::new(200, &[("content-type", "text/html; charset=utf-8")], html)
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new(302, &[("location", to)], "")
    }

    pub(crate) fn then(self, tail: Tail) -> Self {
        Self(self.0, tail)
    }
}

/// A server on a port of its own; it ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    asked: Arc<Notify>,
    _running: JoinSet<()>,
}

impl Server {
    /// Serves what `answer` says for a path.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(move |request| answer(request.split(' ').nth(1).unwrap_or_default())).await
    }

    /// Serves what `answer` says for a whole request.
    pub(crate) async fn start_with(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let asked = Arc::new(Notify::new());
        let (log, bell) = (Arc::clone(&requests), Arc::clone(&asked));
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            let answer = Arc::new(answer);
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log, bell) = (Arc::clone(&answer), Arc::clone(&log), Arc::clone(&bell));
                connections.spawn(async move {
                    let (request, stream) = receive(stream).await;
                    let reply = answer(&request);
                    log.lock().unwrap().push(request);
                    bell.notify_one();
                    send(stream, reply).await;
                });
            }
        });
        Self { port, requests, asked, _running: running }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for a request.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }
}

async fn receive(mut stream: TcpStream) -> (String, TcpStream) {
    let mut request = Vec::new();
    let mut block = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")
                    .and_then(|n| n.parse::<usize>().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                return (text, stream);
            }
        }
        match stream.read(&mut block).await {
            Ok(0) | Err(_) => return (text, stream),
            Ok(count) => request.extend_from_slice(&block[..count]),
        }
    }
}

async fn send(mut stream: TcpStream, Answer(bytes, tail): Answer) {
    if stream.write_all(&bytes).await.is_err() {
        return;
    }
    match tail {
        Tail::Close => {
            stream.shutdown().await.ok();
        }
        Tail::Hang => std::future::pending().await,
        Tail::Repeat(bytes) => while stream.write_all(bytes).await.is_ok() {},
        Tail::Drip => {
            let mut tick = tokio::time::interval(std::time::Duration::from_millis(5));
            while stream.write_all(b"x").await.is_ok() {
                tick.tick().await;
            }
        }
    }
}
