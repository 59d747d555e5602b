//! A server at an address: streamable HTTP.
//!
//! Every message is a POST of its own, whose answer is JSON or a stream of events. A stream that is cut is taken up
//! again where its last event has an id. Beside them a stream for what the server says by itself is kept open, if the
//! server has one; when it cannot be opened any more the server is taken for dead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_sse::SseDecoder;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::inbox::Inbox;
use super::route::{Route, accept, refusal};
use super::{MESSAGE_MAX, MESSAGE_MAX_MIB, McpError};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How often in a row a cut stream is taken up again without anything new before it is given up.
const RESUMES: usize = 5;

/// The pause before that, unless the server asks for another one.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How many answers to the server may be under way; more are dropped.
const ANSWERS_MAX: usize = 8;

/// How long leaving may take, and a message that nobody waits for.
const SHORT: Duration = Duration::from_secs(3);

/// A session with a server.
#[derive(Debug)]
pub(super) struct HttpSession {
    shared: Arc<SharedSession>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct SharedSession {
    route: Route,
    inbox: Arc<Inbox>,
    session: Mutex<HeaderMap>,
    stop: CancellationToken,
    answers: Arc<Semaphore>,
}

/// How a stream of events ended.
#[derive(Debug)]
enum StreamEnd {
    /// It holds no more, and can be taken up again behind this event.
    At(Option<String>, Duration),
    Fault(McpError),
}

impl HttpSession {
    pub(super) fn new(
        url: &str,
        headers: &BTreeMap<String, String>,
        inbox: Arc<Inbox>,
    ) -> Result<Self, McpError> {
        let shared = SharedSession {
            route: Route::new(url, headers)?,
            inbox,
            session: Mutex::default(),
            stop: CancellationToken::new(),
            answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
        };
        Ok(Self { shared: Arc::new(shared), tasks: TaskTracker::new() })
    }

    /// Names the revision in every request from now on.
    pub(super) fn agree(&self, revision: &str) {
        if let Ok(value) = HeaderValue::from_str(revision) {
            self.shared.lock().insert(REVISION, value);
        }
    }

    /// Carries a message, and what comes back to the inbox. With the number of a request it returns once that is
    /// answered, or cannot be any more.
    pub(super) async fn carry(&self, text: String, request: Option<u64>) -> Result<(), McpError> {
        let outcome = self.shared.clone().post(text, request.is_some()).await;
        match &outcome {
            // Only this message was surely not looked at: what became of others that are under way is not known.
            Err(McpError::SessionLost) => self.shared.forget(),
            Err(fault @ (McpError::NeedsAuth(_) | McpError::Closed(_))) => {
                self.shared.inbox.close(fault.clone());
            }
            _ => {}
        }
        outcome
    }

    /// Sends a message that is not worth waiting for.
    pub(super) fn tell(&self, text: String) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move { timeout(SHORT, shared.post(text, false)).await.ok() });
    }

    /// Opens the stream for what the server says by itself.
    pub(super) fn listen(&self) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            tokio::select! {
                () = shared.stop.cancelled() => {}
                fault = Arc::clone(&shared).follow() => match fault {
                    Some(McpError::SessionLost) => shared.forget(),
                    Some(fault) => shared.inbox.close(fault),
                    None => {}
                }
            }
        });
    }

    /// Leaves the session.
    pub(super) async fn close(&self) {
        self.shared.stop.cancel();
        self.tasks.close();
        timeout(SHORT, self.tasks.wait()).await.ok();
        let headers = self.shared.lock().clone();
        if headers.contains_key(SESSION) {
            timeout(SHORT, self.shared.route.send(Method::DELETE, &headers, None)).await.ok();
        }
    }
}

impl Drop for HttpSession {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl SharedSession {
    fn lock(&self) -> std::sync::MutexGuard<'_, HeaderMap> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a session that the server does not know any more, so that there is nothing to leave either.
    fn forget(&self) {
        self.lock().remove(SESSION);
        self.inbox.close(McpError::Closed(McpError::SessionLost.to_string()));
    }

    fn headers(&self, what: &'static str) -> HeaderMap {
        let mut headers = accept(what);
        headers.extend(self.lock().clone());
        headers
    }

    async fn post(self: Arc<Self>, text: String, request: bool) -> Result<(), McpError> {
        let headers = self.headers("application/json, text/event-stream");
        let named = headers.contains_key(SESSION);
        let response = self.route.send(Method::POST, &headers, Some(text)).await?;
        if !response.status().is_success() {
            return Err(refusal(response, named).await);
        }
        if !named && let Some(session) = response.headers().get(SESSION) {
            self.lock().insert(SESSION, session.clone());
        }
        if !request || response.status() == StatusCode::ACCEPTED {
            return if request { Err(unanswered()) } else { Ok(()) };
        }
        if is_stream(&response) {
            return Err(self.stream(response).await);
        }
        let body = whole(response).await?;
        self.receive(&body)?;
        Err(unanswered())
    }

    /// Reads a stream to its end, taking it up again where it was cut. The answer, if there was one, is in the inbox by
    /// then, and nobody looks at what is returned.
    async fn stream(self: &Arc<Self>, response: Response) -> McpError {
        let mut cut = self.events(response).await;
        let mut fruitless = 0;
        loop {
            match cut {
                StreamEnd::At(Some(last), pause) if fruitless < RESUMES => {
                    tokio::time::sleep(pause).await;
                    cut = self.resume(&last).await;
                    let onward = matches!(&cut, StreamEnd::At(Some(id), _) if *id != last);
                    fruitless = if onward { 0 } else { fruitless + 1 };
                }
                StreamEnd::At(..) => return unanswered(),
                StreamEnd::Fault(fault) => return fault,
            }
        }
    }

    async fn resume(self: &Arc<Self>, last: &str) -> StreamEnd {
        let mut headers = self.headers("text/event-stream");
        let again = || StreamEnd::At(Some(last.to_owned()), PAUSE);
        let Ok(value) = HeaderValue::from_str(last) else { return StreamEnd::At(None, PAUSE) };
        headers.insert(LAST_EVENT, value);
        match self.route.send(Method::GET, &headers, None).await {
            Ok(response) if response.status().is_success() && is_stream(&response) => {
                match self.events(response).await {
                    // Nothing came: go on from the same place.
                    StreamEnd::At(None, _) => again(),
                    other => other,
                }
            }
            Ok(response) if response.status().is_success() => StreamEnd::At(None, PAUSE),
            Ok(response) if response.status().is_server_error() => again(),
            Ok(response) => StreamEnd::Fault(refusal(response, headers.contains_key(SESSION)).await),
            Err(_) => again(),
        }
    }

    /// Gives the messages of a stream to the inbox.
    async fn events(self: &Arc<Self>, mut response: Response) -> StreamEnd {
        let mut decoder = SseDecoder::default();
        while let Ok(Some(piece)) = response.chunk().await {
            let taken = decoder.push(&piece);
            while let Some(frame) = decoder.pop() {
                let is_message = frame.event.as_deref().is_none_or(|kind| kind == "message");
                if is_message
                    && !frame.data.is_empty()
                    && let Err(fault) = self.receive(&frame.data)
                {
                    return StreamEnd::Fault(fault);
                }
            }
            if taken.is_err() {
                let text = format!("the server sent an event of more than {MESSAGE_MAX_MIB} MiB");
                return StreamEnd::Fault(McpError::Malformed(text));
            }
        }
        let pause = decoder.retry().unwrap_or(PAUSE).clamp(PAUSE_MIN, PAUSE_MAX);
        StreamEnd::At(decoder.last_id().map(str::to_owned), pause)
    }

    /// Takes a text into the inbox, and answers what the server asks in it.
    fn receive(self: &Arc<Self>, text: &str) -> Result<(), McpError> {
        let receipt = self.inbox.receive(text);
        for answer in receipt.answers {
            let Ok(permit) = Arc::clone(&self.answers).try_acquire_owned() else { break };
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                // Boxed, because a POST may in turn bring a question. Its own answer is empty.
                let posting: std::pin::Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(shared.post(answer, false));
                timeout(SHORT, posting).await.ok();
                drop(permit);
            });
        }
        let text = "the server's answer is not JSON-RPC";
        if receipt.valid { Ok(()) } else { Err(McpError::Malformed(text.to_owned())) }
    }

    /// Keeps the server's own stream open. Returns why it cannot be any more, or nothing if the server has none.
    async fn follow(self: Arc<Self>) -> Option<McpError> {
        let mut last: Option<String> = None;
        let mut failures: u32 = 0;
        loop {
            let mut headers = self.headers("text/event-stream");
            let named = headers.contains_key(SESSION);
            if let Some(value) = last.as_ref().and_then(|last| HeaderValue::from_str(last).ok()) {
                headers.insert(LAST_EVENT, value);
            }
            let mut pause = PAUSE;
            match self.route.send(Method::GET, &headers, None).await {
                Ok(response) if response.status().is_success() && is_stream(&response) => {
                    match self.events(response).await {
                        StreamEnd::At(id, asked) => {
                            failures = 0;
                            last = id.or(last);
                            pause = asked;
                        }
                        StreamEnd::Fault(fault) => return Some(fault),
                    }
                }
                Ok(response) if response.status().is_server_error() => failures += 1,
                Ok(response) => {
                    // There is no such stream, unless the session is what is not there.
                    let fault = refusal(response, named).await;
                    return Some(fault).filter(|fault| *fault == McpError::SessionLost);
                }
                Err(fault) if failures >= 2 => return Some(fault),
                Err(_) => failures += 1,
            }
            tokio::time::sleep(pause * 2_u32.pow(failures.min(6))).await;
        }
    }
}

fn unanswered() -> McpError {
    let text = "the server ended the exchange without an answer; whether it did anything is not known";
    McpError::Malformed(text.to_owned())
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

async fn whole(mut response: Response) -> Result<String, McpError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|_| unanswered())? {
        body.extend_from_slice(&piece);
        if body.len() > MESSAGE_MAX {
            let text = format!("the server's answer is larger than {MESSAGE_MAX_MIB} MiB");
            return Err(McpError::Malformed(text));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}
