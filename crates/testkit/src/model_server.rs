//! A scripted model over real HTTP.
//!
//! What it answers is written in the last user message, as directives. Steps are taken one per request: as many
//! tool lines are done as the assistant has made tool calls since that message; when none is left the final text
//! follows. This makes the server stateless towards the conversation, so a session that was killed and resumed gets
//! the answer it would have got.
//!
//! | directive | meaning |
//! |---|---|
//! | `TOOL:<name>:<arg>` | a tool call; the argument's shape depends on the tool (see `plan`). A line of its own |
//! | `JSONTOOL:<name>:<json>` | a tool call with these arguments. A line of its own |
//! | `SAY:<text>` | the final text, to the end of the line |
//! | `TEXT:<n>` | the final text has `n` words |
//! | `THINK` | every step begins with reasoning |
//! | `HOSTED:<n>` | every step has `n` tools that the provider runs itself, before the rest; Chat Completions has none |
//! | `CLOCK:<n>` | the final text has `n` words, each of which is the time at which it was sent, in microseconds |
//! | `SLOW:<ms>` | a pause after each word of the text |
//! | `ERR:<status>`, `ERR:<status>x<times>` | an HTTP error, always or for the first requests |
//! | `RETRY-AFTER:<seconds>` | the errors carry this header |
//! | `HEADER:<name>=<value>` | the errors carry this header. A line of its own |
//! | `ERRTYPE:<kind>`, `ERRCODE:<code>`, `ERRTEXT:<text>` | what the errors say, the text to the end of the line |
//! | `ERRDETAILS:<json>` | the details of the errors, where the protocol has such a list. A line of its own |
//! | `ERRBODY:<text>` | the body of the errors, as it is. A line of its own |
//! | `USAGE:<input>,<cached>,<output>,<reasoning>` | what the answer is said to have used |
//! | `EMPTY` | the final text is empty |
//! | `MUTE:<name>` | the next step in the text does not begin until [`ModelServer::release`] |
//! | `HOLD:<name>` | the next step in the text stops in mid-answer until [`ModelServer::release`] |
//! | `DROP:<n>`, `DROP:<n>x<times>` | the next step in the text breaks the connection after `n` pieces |
//! | `CUT:<n>`, `CUT:<n>x<times>` | the next step in the text breaks the connection after `n` bytes |
//! | `SHORT:<n>`, `SHORT:<n>x<times>` | the next step in the text ends after `n` pieces, without the protocol's end |
//! | `GARBLE` | a frame of the next step is no JSON |
//! | `FAIL:<kind>` | the next step has an error in the middle, with the text of `ERRTEXT` |
//! | `REFUSE`, `LENGTH` | the next step ends because it was refused or too long |
//! | `NOTITLE:<status>`, `NOTITLE:<status>x<times>` | an HTTP error for whoever wants a title |
//! | `MUTETITLE:<name>`, `DROPTITLE:<n>` | `MUTE` and `DROP` for an answer that is a title |
//! | `NOSUMMARY:<status>` | an HTTP error for whoever wants a summary, by the question with which its request ends |
//! | `BLANKSUMMARY`, `LONGSUMMARY:<n>`, `CUTSUMMARY` | a summary that is empty, has `n` words, or reached its longest length |
//! | `MUTESUMMARY:<name>`, `HOLDSUMMARY:<name>` | `MUTE` and `HOLD` for an answer that is a summary |
//! | `TELL:<text>` | the summary, to the end of the line, whatever else is said about summaries |
//! | `TOGETHER:<n>` | the next `n` tool lines are called in one step |
//!
//! It speaks Chat Completions, Anthropic Messages, OpenAI Responses and Gemini, by the path of the request.
//!
//! The next step in the text is the tool line below the directive, or the final text if none is below.

mod answer;
mod arrived_request;
mod json_text;
mod plan;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::{oneshot, watch};

use crate::deadline::within;
pub use arrived_request::ArrivedRequest;
use wire::WireFormat;

/// How the final text begins when the prompt does not give one.
pub const GREETING: &str = "Hello from the scripted model. You said: ";

/// The greeting in the recorded fixtures.
pub const RECORDED_GREETING: &str = "Hello from the fake model. You said: ";

/// A running model server. It stops when dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<ModelServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the server and its handle share.
#[derive(Debug)]
struct ModelServerState {
    greeting: String,
    requests: watch::Sender<Vec<(WireFormat, ArrivedRequest)>>,
    /// Names of holds that were reached, released, and left by the client.
    held: watch::Sender<BTreeSet<String>>,
    released: watch::Sender<BTreeSet<String>>,
    abandoned: watch::Sender<BTreeSet<String>>,
    /// How often a directive with a limited number of times was carried out, by prompt and directive.
    spent: Mutex<BTreeMap<(String, String), u64>>,
    counter: AtomicU64,
}

impl ModelServer {
    /// Starts on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When no port can be bound.
    pub fn start() -> Self {
        Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), GREETING)
    }

    /// Starts with the greeting of the recorded fixtures.
    ///
    /// # Panics
    ///
    /// When no port can be bound.
    pub fn recorded() -> Self {
        Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)), RECORDED_GREETING)
    }

    /// Starts on `address` with `greeting`.
    ///
    /// The server runs on a thread of its own: it keeps going while a test blocks, and when a test pauses its clock.
    ///
    /// # Panics
    ///
    /// When the address cannot be bound.
    pub fn bind(address: SocketAddr, greeting: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|cause| panic!("bind {address}: {cause}"));
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("the listener's address");
        let state = Arc::new(ModelServerState {
            greeting: greeting.to_owned(),
            requests: watch::Sender::default(),
            held: watch::Sender::default(),
            released: watch::Sender::default(),
            abandoned: watch::Sender::default(),
            spent: Mutex::default(),
            counter: AtomicU64::new(1),
        });
        let (stop, stopped) = oneshot::channel();
        let router = answer::router(Arc::clone(&state));
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener =
                    tokio::net::TcpListener::from_std(listener).expect("a listener in the runtime");
                tokio::select! {
                    ended = axum::serve(listener, router) => ended.expect("the server runs"),
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// Where the server is, without a path: every path that ends like one of a protocol is answered.
    pub fn root(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base address of the protocol, ending in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies received so far, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        self.state.requests.borrow().iter().map(|(_, arrival)| arrival.body.clone()).collect()
    }

    /// The requests received so far with all that a body does not show, oldest first.
    pub fn arrivals(&self) -> Vec<ArrivedRequest> {
        self.state.requests.borrow().iter().map(|(_, arrival)| arrival.clone()).collect()
    }

    /// The bodies received so far except those that ask for a title.
    pub fn prompts(&self) -> Vec<Value> {
        let requests = self.state.requests.borrow();
        let prompts =
            requests.iter().filter(|(format, arrival)| !plan::asks_for_title(&format.said(&arrival.body)));
        prompts.map(|(_, arrival)| arrival.body.clone()).collect()
    }

    /// Waits until at least `count` bodies were received, and returns them.
    ///
    /// # Panics
    ///
    /// When they do not come.
    pub async fn received(&self, count: usize) -> Vec<Value> {
        let mut requests = self.state.requests.subscribe();
        let what = format!("{count} requests to the model server");
        let enough = within(&what, requests.wait_for(|all| all.len() >= count)).await;
        enough.expect("the server runs").iter().map(|(_, arrival)| arrival.body.clone()).collect()
    }

    /// Waits until an answer stands at `HOLD:<name>` or `MUTE:<name>`.
    ///
    /// # Panics
    ///
    /// When that is not reached.
    pub async fn held(&self, name: &str) {
        wait_for_name(&self.state.held, "hold", name).await;
    }

    /// Lets every answer pass that stands or will stand at `HOLD:<name>` or `MUTE:<name>`.
    pub fn release(&self, name: &str) {
        add(&self.state.released, name);
    }

    /// Waits until a client has closed the connection of an answer that stood at `HOLD:<name>`.
    ///
    /// # Panics
    ///
    /// When that does not happen.
    pub async fn abandoned(&self, name: &str) {
        wait_for_name(&self.state.abandoned, "end of the hold", name).await;
    }

    /// Blocks for as long as the server runs.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl ModelServerState {
    fn next(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a directive limited to `times` is still to be carried out; counts it if so.
    fn spend(&self, prompt: &str, directive: &str, times: Option<u64>) -> bool {
        let Some(times) = times else { return true };
        let mut spent = self.spent.lock().expect("no thread panicked");
        let count = spent.entry((prompt.to_owned(), directive.to_owned())).or_default();
        let left = *count < times;
        *count += u64::from(left);
        left
    }
}

async fn wait_for_name(names: &watch::Sender<BTreeSet<String>>, kind: &str, name: &str) {
    let mut names = names.subscribe();
    let there = within(&format!("{kind} {name:?}"), names.wait_for(|all| all.contains(name))).await;
    drop(there.expect("the server runs"));
}

fn add(names: &watch::Sender<BTreeSet<String>>, name: &str) {
    names.send_modify(|all| {
        all.insert(name.to_owned());
    });
}
