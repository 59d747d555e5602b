//! Google's Gemini API: `generateContent`, streamed.
//!
//! Two things set it apart. A conversation must follow strict rules of order (`request` sees to that), and a model
//! signs parts of its answer and wants each signature back at the part it came with (`decode` keeps them in the
//! metadata of a block or call, under the key `gemini`).

mod decode;
mod model;
mod request;
mod schema;
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
const METADATA: &str = "gemini";

/// A server that speaks Google's `generateContent`.
#[derive(Debug, Clone)]
pub struct Gemini(ProtocolServer<GenerateContent>);

impl Gemini {
    /// The server at `endpoint`, such as `https://generativelanguage.googleapis.com/v1beta`. Nothing is checked or
    /// connected yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self(ProtocolServer { endpoint, protocol: GenerateContent })
    }
}

impl Provider for Gemini {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        self.0.prepare(request)
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        self.0.send(prepared)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct GenerateContent;

impl WireProtocol for GenerateContent {
    type Decoder = Decoder;

    fn call(&self, endpoint: &Endpoint, request: &ModelRequest) -> OutgoingCall {
        let key = endpoint.api_key.iter().map(|key| ("x-goog-api-key", key.reveal().to_owned()));
        OutgoingCall {
            path: format!("{}:streamGenerateContent?alt=sse", model::path(&request.model)),
            headers: key.collect(),
            body: request::body(request),
        }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(protocol::fresh_call_prefix())
    }
}
