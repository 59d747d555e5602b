//! A server over HTTP that loses sessions, cuts streams, redirects and refuses.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use everturn_testkit::within;
use everturn_tools::Failure;
use everturn_tools::mcp::{McpTiming, ServerStatus};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Bench, quick};

/// What the server shall do besides being one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    /// Answers in JSON, has no stream of its own.
    #[default]
    Json,
    /// Answers in streams, and has one of its own.
    Stream,
    /// Cuts the stream of a call after its first event, which has an id.
    Cut,
    /// Cuts it after every event, many times before the answer.
    Choppy,
    /// Cuts it where nothing has an id.
    Lost,
    /// Wants to know who is calling.
    Auth,
    /// Sends everybody to the same origin, a slash further.
    Slash,
    /// Sends everybody to another origin.
    Away,
    /// Fails.
    Broken,
    /// Answers a call with more than there may be.
    Huge,
    /// Streams a call's answer in an event without an end.
    Endless,
    /// Answers a call with 202 and never again.
    Accepted,
}

#[derive(Default)]
struct Shared {
    mode: Mode,
    sessions: Mutex<Vec<String>>,
    /// Every request: method, path, headers.
    seen: Mutex<Vec<(Method, String, HeaderMap)>>,
    /// The answer to a call that was cut.
    rest: Mutex<HashMap<String, Value>>,
    /// What the server says by itself.
    says: watch::Sender<String>,
    elsewhere: String,
}

struct Remote {
    shared: Arc<Shared>,
    url: String,
    serving: JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Remote {
    async fn start(mode: Mode) -> Self {
        Self::start_beside(mode, String::new()).await
    }

    async fn start_beside(mode: Mode, elsewhere: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { mode, elsewhere, ..Shared::default() });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, url, serving }
    }

    fn server(&self) -> Value {
        json!({"type": "remote", "url": self.url, "headers": {"X-Key": "sesame", "Accept": "nonsense"}})
    }

    /// The methods and paths so far, and every value that a header had.
    fn seen(&self, name: &str) -> Vec<(String, Option<String>)> {
        let seen = self.shared.seen.lock().unwrap();
        let short = |(method, path, headers): &(Method, String, HeaderMap)| {
            let value = headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (format!("{method} {path}"), value)
        };
        seen.iter().map(short).collect()
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.seen.lock().unwrap().push((method.clone(), uri.path().to_owned(), headers.clone()));
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    match shared.mode {
        Mode::Auth if text("x-key").as_deref() != Some("open") => {
            return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
        }
        Mode::Slash if !uri.path().ends_with('/') => {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/mcp/")]).into_response();
        }
        Mode::Away => {
            let target = shared.elsewhere.clone();
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, target)]).into_response();
        }
        Mode::Broken => return (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response(),
        _ => {}
    }
    let known = text("mcp-session-id").is_some_and(|id| shared.sessions.lock().unwrap().contains(&id));
    if method == Method::DELETE {
        shared.sessions.lock().unwrap().clear();
        return StatusCode::OK.into_response();
    }
    if method == Method::GET {
        return match (shared.mode, text("last-event-id")) {
            _ if !known => StatusCode::NOT_FOUND.into_response(),
            (Mode::Cut, Some(id)) => {
                let rest = shared.rest.lock().unwrap().get(&id).cloned();
                events(&format!("id: {id}-end\ndata: {}\n\n", rest.unwrap_or_default()))
            }
            (Mode::Choppy, Some(id)) => match id.parse::<u32>().unwrap() {
                number @ 0..20 => events(&format!("retry: 1\nid: {}\ndata:\n\n", number + 1)),
                _ => events(&format!("id: end\ndata: {}\n\n", shared.rest.lock().unwrap()["0"])),
            },
            (Mode::Stream, _) => spoken(&shared),
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        };
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    if message["method"] == "initialize" {
        let mut sessions = shared.sessions.lock().unwrap();
        let session = format!("session-{}", sessions.len() + 1);
        sessions.push(session.clone());
        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "remote", "version": "1"}});
        let mut response = answer(&shared, &message, &result);
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        return response;
    }
    if !known {
        return StatusCode::NOT_FOUND.into_response();
    }
    match message["method"].as_str() {
        Some("tools/list") => {
            let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
            answer(&shared, &message, &json!({"tools": [tool]}))
        }
        Some("tools/call") => call(&shared, &message),
        Some("ping") => answer(&shared, &message, &json!({})),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn call(shared: &Shared, message: &Value) -> Response {
    let said = message["params"]["arguments"]["message"].as_str().unwrap_or_default();
    let result = json!({"content": [{"type": "text", "text": said}]});
    match shared.mode {
        Mode::Cut => {
            let whole = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            shared.rest.lock().unwrap().insert("e1".to_owned(), whole);
            // The second event is cut: it has to come again.
            events("retry: 10\nid: e1\ndata:\n\nid: e2\ndata: {\"jsonrpc\":")
        }
        Mode::Choppy => {
            let whole = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            shared.rest.lock().unwrap().insert("0".to_owned(), whole);
            events("retry: 1\nid: 0\ndata:\n\n")
        }
        Mode::Lost => {
            events("data: {\"jsonrpc\": \"2.0\", \"method\": \"notifications/x\"}\n\ndata: {\"jsonrpc\":")
        }
        Mode::Huge => {
            let result = json!({"content": [{"type": "text", "text": "x".repeat(17 * 1024 * 1024)}]});
            answer(shared, message, &result)
        }
        Mode::Endless => {
            let block = || Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 65536]));
            let blocks = futures_util::stream::repeat_with(block);
            let begin = futures_util::stream::iter([Ok(Bytes::from_static(b"data: "))]);
            let body = Body::from_stream(begin.chain(blocks));
            ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
        }
        Mode::Accepted => StatusCode::ACCEPTED.into_response(),
        _ => answer(shared, message, &result),
    }
}

fn answer(shared: &Shared, message: &Value, result: &Value) -> Response {
    let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    if shared.mode == Mode::Stream {
        return events(&format!(": hello\n\nevent: message\ndata: {text}\n\n"));
    }
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], text).into_response()
}

fn events(text: &str) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], text.to_owned()).into_response()
}

/// The server's own stream: what it says as it says it.
fn spoken(shared: &Shared) -> Response {
    let said = shared.says.subscribe();
    let stream = futures_util::stream::unfold(said, |mut said| async move {
        said.changed().await.ok()?;
        let text = format!("data: {}\n\n", said.borrow_and_update().clone());
        Some((Ok::<_, Infallible>(Bytes::from(text)), said))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream)).into_response()
}

async fn connected(remote: &Remote) -> Bench {
    let bench = Bench::start([("r", remote.server())]);
    within("the first attempt", bench.servers.settled()).await;
    assert_eq!(bench.status("r"), ServerStatus::Connected);
    bench
}

#[tokio::test]
async fn answers_come_as_json_and_as_events() {
    for mode in [Mode::Json, Mode::Stream] {
        let remote = Remote::start(mode).await;
        let bench = connected(&remote).await;
        assert_eq!(bench.text("r_echo", json!({"message": "héllo"})).await, "héllo", "{mode:?}");
        within("the end", bench.servers.close()).await;
        assert_eq!(remote.seen("x-key").last().unwrap().0, "DELETE /mcp");
        for (request, key) in remote.seen("x-key") {
            assert_eq!(key.as_deref(), Some("sesame"), "{request}");
        }
        let accepts: Vec<_> =
            remote.seen("accept").into_iter().filter(|(request, _)| request == "POST /mcp").collect();
        for (_, accept) in &accepts {
            assert_eq!(accept.as_deref(), Some("application/json, text/event-stream"));
        }
        let mut versions = remote.seen("mcp-protocol-version").into_iter();
        assert_eq!(versions.next().unwrap().1, None);
        assert!(versions.all(|(_, version)| version.as_deref() == Some("2025-06-18")));
        let mut sessions = remote.seen("mcp-session-id").into_iter();
        assert_eq!(sessions.next().unwrap().1, None);
        assert!(sessions.all(|(_, session)| session.as_deref() == Some("session-1")));
    }
}

#[tokio::test]
async fn a_forgotten_session_is_begun_again() {
    let remote = Remote::start(Mode::Json).await;
    let bench = connected(&remote).await;
    remote.shared.sessions.lock().unwrap()[0] = "forgotten".to_owned();
    // The call was not looked at, and is sent again in the new session.
    assert_eq!(bench.text("r_echo", json!({"message": "still"})).await, "still");
    assert_eq!(remote.seen("mcp-session-id").last().unwrap().1.as_deref(), Some("session-2"));
}

#[tokio::test]
async fn the_servers_own_stream_is_heard() {
    let remote = Remote::start(Mode::Stream).await;
    let bench = connected(&remote).await;
    within("a listener", async {
        while remote.shared.says.receiver_count() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let lists = || remote.shared.seen.lock().unwrap().len();
    let before = lists();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    remote.shared.says.send_replace(changed.to_string());
    within("another list", async {
        while lists() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(bench.names(), ["r_echo"]);
}

#[tokio::test]
async fn a_cut_stream_is_taken_up_again() {
    let remote = Remote::start(Mode::Cut).await;
    let bench = connected(&remote).await;
    assert_eq!(bench.text("r_echo", json!({"message": "whole"})).await, "whole");
    assert_eq!(remote.seen("last-event-id").last().unwrap(), &("GET /mcp".to_owned(), Some("e1".to_owned())));
}

#[tokio::test]
async fn a_stream_may_be_cut_as_often_as_it_goes_on() {
    // A proxy that cut streams each minute made every call fail that took longer than five of them.
    let remote = Remote::start(Mode::Choppy).await;
    let bench = connected(&remote).await;
    assert_eq!(bench.text("r_echo", json!({"message": "whole"})).await, "whole");
}

/// A call fails with a text, and the server is still there.
async fn check_failure(mode: Mode, expected: &str) {
    let remote = Remote::start(mode).await;
    let bench = connected(&remote).await;
    let Err(Failure::Failed(text)) = bench.call("r_echo", json!({})).await else { panic!("{mode:?}") };
    assert!(text.contains(expected), "{text}");
    bench.servers.connection("r").unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn what_has_no_answer_says_so() {
    check_failure(Mode::Lost, "without an answer; whether it did anything is not known").await;
    check_failure(Mode::Accepted, "without an answer; whether it did anything is not known").await;
}

#[tokio::test]
async fn answers_are_bounded() {
    check_failure(Mode::Huge, "larger than 16 MiB").await;
    check_failure(Mode::Endless, "an event of more than 16 MiB").await;
}

#[tokio::test]
async fn a_server_that_wants_a_login_says_so() {
    let remote = Remote::start(Mode::Auth).await;
    let mut open = remote.server();
    open["headers"]["X-Key"] = json!("open");
    let bench = Bench::start([("r", remote.server()), ("open", open)]);
    bench.servers.settled().await;
    let ServerStatus::NeedsAuth(reason) = bench.status("r") else { panic!("{:?}", bench.status("r")) };
    assert!(reason.contains("put a token into the server's `headers`"), "{reason}");
    assert_eq!(
        (bench.status("open"), bench.names()),
        (ServerStatus::Connected, vec!["open_echo".to_owned()])
    );
}

#[tokio::test]
async fn a_redirect_is_followed_within_its_origin() {
    let remote = Remote::start(Mode::Slash).await;
    let bench = connected(&remote).await;
    assert_eq!(bench.text("r_echo", json!({"message": "here"})).await, "here");
}

#[tokio::test]
async fn headers_do_not_leave_their_origin() {
    let other = Remote::start(Mode::Json).await;
    let remote = Remote::start_beside(Mode::Away, other.url.clone()).await;
    let bench = Bench::start([("r", remote.server())]);
    bench.servers.settled().await;
    let ServerStatus::Failed(reason) = bench.status("r") else { panic!("{:?}", bench.status("r")) };
    assert!(reason.contains(&format!("sends requests on to {}", other.url)), "{reason}");
    assert_eq!(other.seen("x-key"), []);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again() {
    let remote = Remote::start(Mode::Broken).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = json!({"type": "remote", "url": format!("http://{}/mcp", closed.local_addr().unwrap())});
    drop(closed);
    let bench = Bench::start([("broken", remote.server()), ("gone", gone)]);
    bench.servers.settled().await;
    let broken = "the server answered with error 500: out of order";
    assert_eq!(bench.status("broken"), ServerStatus::Failed(broken.to_owned()));
    let ServerStatus::Failed(reason) = bench.status("gone") else { panic!("{:?}", bench.status("gone")) };
    assert!(reason.contains("cannot be reached") && reason.contains("refused"), "{reason}");
    within("more attempts", async {
        while remote.seen("x-key").len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_went_away_is_noticed() {
    let remote = Remote::start(Mode::Json).await;
    let pause = Duration::from_secs(600);
    let timing =
        McpTiming { first_pause: pause, longest_pause: pause, settle: Duration::from_secs(1), ..quick() };
    let bench = Bench::timed([("r", remote.server())], timing);
    bench.until("r", |status| *status == ServerStatus::Connected).await;
    let echo = bench.tool("r_echo");
    let (serving, _) = (&remote.serving, &remote.shared);
    serving.abort();
    within("the end of the server", async {
        while !serving.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // A connection that is still open may be served to its end; a new one is refused.
    within("the failure", async {
        while echo.run(json!({"message": "x"}), bench.context()).await.is_ok() {}
    })
    .await;
    bench.until("r", |status| matches!(status, ServerStatus::Failed(_))).await;
    assert_eq!(bench.names(), Vec::<String>::new());
}
