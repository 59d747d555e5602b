//! OpenAI Responses, and the servers that speak it.
//!
//! Nothing is left with the provider (`store: false`): every request carries the whole conversation, so what the model
//! thought comes back encrypted and is sent again. The protocol is a list of items, both ways. What an item needs for
//! its replay is kept in the metadata of the blocks that were made of it.

mod decode;
mod input;
mod items;
mod media;
mod request;
mod tools;
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
const METADATA: &str = "openai-responses";

/// A server that speaks the Responses protocol.
#[derive(Debug, Clone)]
pub struct OpenAiResponses(ProtocolServer<Responses>);

impl OpenAiResponses {
    /// The server at `endpoint`. Nothing is checked or connected yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self(ProtocolServer { endpoint, protocol: Responses })
    }
}

impl Provider for OpenAiResponses {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        self.0.prepare(request)
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        self.0.send(prepared)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Responses;

impl WireProtocol for Responses {
    type Decoder = Decoder;

    fn call(&self, endpoint: &Endpoint, request: &ModelRequest) -> OutgoingCall {
        let key = endpoint.api_key.iter().map(|key| ("authorization", format!("Bearer {}", key.reveal())));
        OutgoingCall { path: "responses".to_owned(), headers: key.collect(), body: request::body(request) }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(protocol::fresh_call_prefix())
    }
}
