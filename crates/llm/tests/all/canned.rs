//! An HTTP server that answers every connection with given bytes, cut where a test wants them cut.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn_llm::{Content, Error, Message, ModelRequest, Provider, StreamEvent};
use everturn_llm::{Endpoint, OpenAiChat};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What happens on a connection after the request was read.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Send(String),
    /// Waits until the test calls [`Canned::go`].
    Wait,
    /// Keeps the connection open without a word.
    Hang,
}

pub(crate) struct Canned {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
    closed: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Canned {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Notify::new());
        let closed = Arc::new(Notify::new());
        let task = tokio::spawn(serve(listener, acts, requests.clone(), gate.clone(), closed.clone()));
        Self { base_url, requests, gate, closed, task }
    }

    pub(crate) fn go(&self) {
        self.gate.notify_one();
    }

    /// Resolves when the client has closed a connection on which the server was waiting.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn provider(&self) -> OpenAiChat {
        let config = Endpoint { inactivity: Duration::from_secs(10), ..Endpoint::new(&self.base_url) };
        OpenAiChat::new(config.with_api_key("sk-test-1234567"))
    }

    pub(crate) async fn ask(&self) -> (Vec<StreamEvent>, Option<Error>) {
        collect(&self.provider()).await
    }
}

async fn serve(
    listener: TcpListener,
    acts: Vec<Act>,
    requests: Arc<Mutex<Vec<String>>>,
    gate: Arc<Notify>,
    closed: Arc<Notify>,
) {
    while let Ok((mut socket, _)) = listener.accept().await {
        let request = read_request(&mut socket).await;
        requests.lock().unwrap().push(request);
        for act in &acts {
            match act {
                Act::Send(text) => {
                    socket.write_all(text.as_bytes()).await.unwrap();
                    socket.flush().await.unwrap();
                }
                Act::Wait => gate.notified().await,
                Act::Hang => {
                    let mut rest = Vec::new();
                    let _ = socket.read_to_end(&mut rest).await;
                    closed.notify_one();
                }
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length =
                length.lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned));
            if body.len() >= length.map_or(0, |digits| digits.parse::<usize>().unwrap()) {
                return text;
            }
        }
        assert!(count > 0, "the request ended early: {text}");
    }
}

/// A complete answer whose length is its connection's end.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<Act> {
    vec![Act::Send(format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n{body}"))]
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        model: "m".into(),
        messages: vec![Message::User(vec![Content::Text("hi".into())])],
        ..ModelRequest::default()
    }
}

pub(crate) async fn collect(provider: &dyn Provider) -> (Vec<StreamEvent>, Option<Error>) {
    let mut stream = provider.stream(request());
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}
