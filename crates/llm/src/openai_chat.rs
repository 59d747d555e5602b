//! OpenAI Chat Completions, and the many servers that speak it: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, Groq,
//! DeepSeek, xAI, Mistral and more.

mod calls;
mod decode;
mod messages;
mod request;
mod server;
mod wire;

#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;

use crate::endpoint::Call;
use crate::protocol::{self, Protocol, Server};
use crate::{Endpoint, EventStream, Provider, Request};
use decode::Decoder;
use server::Demands;

/// Which additions to the protocol the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's own service, and Azure's.
    OpenAi,
    /// Any other server: only fields that all of them accept.
    Compatible,
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub struct OpenAiChat(Server<Chat>);

impl OpenAiChat {
    /// The server at `endpoint`; the dialect follows from its host. Nothing is checked or connected yet.
    pub fn new(endpoint: Endpoint) -> Self {
        let dialect = Dialect::of(&endpoint);
        Self::with_dialect(endpoint, dialect)
    }

    /// The server at `endpoint`, which knows these additions.
    pub fn with_dialect(endpoint: Endpoint, dialect: Dialect) -> Self {
        Self(Server { endpoint, protocol: Chat { dialect } })
    }
}

impl Provider for OpenAiChat {
    fn stream(&self, request: Request) -> EventStream {
        self.0.stream(request)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Chat {
    pub(crate) dialect: Dialect,
}

impl Protocol for Chat {
    type Decoder = Decoder;

    fn call(&self, endpoint: &Endpoint, request: &Request) -> Call {
        let key = endpoint.api_key.iter().map(|key| ("authorization", format!("Bearer {}", key.reveal())));
        let demands = Demands::of(endpoint, &request.model, self.dialect);
        Call {
            path: "chat/completions".to_owned(),
            headers: key.collect(),
            body: request::body(request, &demands),
        }
    }

    fn decoder(&self) -> Decoder {
        Decoder::new(protocol::fresh_call_prefix())
    }
}
