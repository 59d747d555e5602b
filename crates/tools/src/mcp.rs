//! Tools and resources of other programs, over the Model Context Protocol.
//!
//! A configured server ([`ServerDefinition`]) is a process that is started here or an address that is called.
//! [`Servers`] keeps a set of them connected in the background and registers their tools in a layer over the built-in
//! ones. Nothing that a server does may harm the runtime: every message, list and wait has a bound, a server that
//! dies, hangs or floods loses its connection and its calls fail with the reason, and its tools are simply absent
//! until it is back.
//!
//! The protocol is written by hand so that all of those bounds are ours. The revisions 2025-06-18, 2025-03-26 and
//! 2024-11-05 are spoken. What a server may ask of us is a ping and the project's folder; it is told that everything
//! else is not there. There is no OAuth: a server that wants it says so and needs a header in the configuration.
//!
//! # Layout
//!
//! - `definition`: the configuration of a server
//! - `servers`: the servers of a project; `server`: one of them; `backoff`: the pauses between its attempts
//! - `connection`: one connection, from the handshake to typed requests; `catalogue`: the shapes of its lists
//! - `inbox`: what comes in, matched with what was asked; `message`: the JSON-RPC envelopes
//! - `stdio`: a server as a child process; `output`: reading what it writes
//! - `http`: a server at an address; `route`: the requests to it
//! - `tool`: a server's tool as one of ours; `naming`: its name; `content`: its result

mod backoff;
mod catalogue;
mod connection;
mod content;
mod definition;
mod http;
mod inbox;
mod message;
mod naming;
mod output;
mod route;
mod server;
mod servers;
mod stdio;
mod tool;

use std::time::Duration;

pub use catalogue::{PromptArgument, PromptInfo, Resource, ToolInfo};
pub use connection::{Connection, Peer};
pub use content::{EmbeddedResource, McpContent, ResourceContent};
pub use definition::{InvalidServer, ServerAddress, ServerDefinition};
pub use inbox::CallProgress;
pub use servers::{ConfinedServers, Launch, McpOptions, McpTiming, ServerConfinement, ServerStatus, Servers};

/// The largest message that is taken from a server or sent to one, in bytes: what an event of a stream may have, however
/// the message comes.
pub const MESSAGE_MAX: usize = everturn_sse::EVENT_MAX;

/// The same for people.
const MESSAGE_MAX_MIB: usize = MESSAGE_MAX / (1024 * 1024);

/// Why a server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The connection is gone, or could not be made.
    #[error("{0}")]
    Closed(String),
    /// The server has forgotten the session and did not look at the request.
    #[error("the server has forgotten the session")]
    SessionLost,
    /// The server wants to know who is calling.
    #[error("{0}")]
    NeedsAuth(String),
    /// The server answered with an error.
    #[error("the server answered with error {code}: {message}")]
    Refused {
        /// The code of the error.
        code: i64,
        /// What the server says about it.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error("{0}")]
    Malformed(String),
    /// There was no answer in time.
    #[error("there was no answer within {}", seconds(*.0))]
    TimedOut(Duration),
    /// The caller does not want the answer any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// It cannot work as it is configured.
    #[error("{0}")]
    Configuration(String),
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

/// The text without what terminals and models stumble over, at most so many bytes of it.
pub(crate) fn readable(text: &str, most: usize) -> String {
    let cut = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let fine = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
    let mut clean: String = cut.chars().filter(fine).collect();
    if cut.len() < text.len() {
        clean.push('…');
    }
    clean
}
