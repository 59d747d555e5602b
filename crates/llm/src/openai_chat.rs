//! OpenAI Chat Completions, and the many servers that speak it: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, Groq,
//! DeepSeek, xAI, Mistral and more.

mod calls;
mod decode;
mod messages;
mod request;
mod server;
mod wire;

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

use crate::endpoint::OutgoingCall;
use crate::protocol::{self, ProtocolServer, WireProtocol};
use crate::{Endpoint, EventStream, ModelRequest, PreparedRequest, Provider};
use decode::Decoder;
use server::ServerDemands;

/// Which additions to the protocol the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatDialect {
    /// OpenAI's own service, and Azure's.
    OpenAi,
    /// Any other server: only fields that all of them accept.
    Compatible,
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub struct OpenAiChat(ProtocolServer<Chat>);

impl OpenAiChat {
    /// The server at `endpoint`; the dialect follows from its host. Nothing is checked or connected yet.
    pub fn new(endpoint: Endpoint) -> Self {
        let dialect = ChatDialect::of(&endpoint);
        Self::with_dialect(endpoint, dialect)
    }

    /// The server at `endpoint`, which knows these additions.
    pub fn with_dialect(endpoint: Endpoint, dialect: ChatDialect) -> Self {
        Self(ProtocolServer { endpoint, protocol: Chat { dialect } })
    }
}

impl Provider for OpenAiChat {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        self.0.prepare(request)
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        self.0.send(prepared)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Chat {
    pub(crate) dialect: ChatDialect,
}

impl WireProtocol for Chat {
    type Decoder = Decoder;

    fn call(&self, endpoint: &Endpoint, request: &ModelRequest) -> OutgoingCall {
        let key = endpoint.api_key.iter().map(|key| ("authorization", format!("Bearer {}", key.reveal())));
        let demands = ServerDemands::of(endpoint, &request.model, self.dialect);
        OutgoingCall {
            path: "chat/completions".to_owned(),
            headers: key.collect(),
            body: request::body(request, &demands),
        }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(protocol::fresh_call_prefix())
    }
}
