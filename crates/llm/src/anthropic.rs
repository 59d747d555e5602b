//! Anthropic Messages: the Claude models, and other servers that speak it.

mod cache;
mod content;
mod decode;
mod messages;
mod model;
mod request;
mod schema;
mod thinking;
mod wire;

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

use crate::endpoint::OutgoingCall;
use crate::protocol::{self, ProtocolServer, WireProtocol};
use crate::{Endpoint, EventStream, ModelRequest, PreparedRequest, Provider};
use decode::Decoder;

/// The key under which this protocol keeps its own data in `metadata`.
///
/// Reasoning has `signature` or, when it is encrypted, `redacted`; text has `citations`; a tool call has the `fields`
/// that only this protocol knows; what the provider's own tools did is kept whole as `block`.
const METADATA: &str = "anthropic";

/// The version of the protocol that is spoken here.
const VERSION: &str = "2023-06-01";

/// A server that speaks Anthropic Messages.
#[derive(Debug, Clone)]
pub struct Anthropic(ProtocolServer<Messages>);

impl Anthropic {
    /// The server at `endpoint`, such as `https://api.anthropic.com/v1`. Nothing is checked or connected yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self(ProtocolServer { endpoint, protocol: Messages })
    }
}

impl Provider for Anthropic {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        self.0.prepare(request)
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        self.0.send(prepared)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Messages;

impl WireProtocol for Messages {
    type Decoder = Decoder;

    fn call(&self, endpoint: &Endpoint, request: &ModelRequest) -> OutgoingCall {
        let key = endpoint.api_key.iter().map(|key| ("x-api-key", key.reveal().to_owned()));
        OutgoingCall {
            path: "messages".to_owned(),
            headers: key.chain([("anthropic-version", VERSION.to_owned())]).collect(),
            body: request::body(request),
        }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(protocol::fresh_call_prefix())
    }
}
