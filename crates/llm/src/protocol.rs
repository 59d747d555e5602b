//! What one wire protocol has to know. Everything else of a model call is the same for all of them: see `exchange`.

use std::collections::VecDeque;
use std::fmt::Debug;

use bytes::Bytes;
use everturn_sse::SseFrame;
use serde_json::Value;

use crate::endpoint::OutgoingCall;
use crate::exchange::Exchange;
use crate::tool_name::ToolNames;
use crate::{Endpoint, EventStream, ModelRequest, PreparedRequest, Provider, StreamEvent};

pub(crate) mod text;
#[cfg(test)]
pub(crate) mod transcript;
pub(crate) mod usage;

/// Events that were decoded and not handed out yet.
pub(crate) type Events = VecDeque<StreamEvent>;

/// A wire protocol: how a request is written and how its answer is read.
pub(crate) trait WireProtocol: Debug + Clone + Send + Sync + 'static {
    /// What reads one answer.
    type Decoder: Decode + Send + 'static;

    /// Writes a request whose history has been repaired.
    fn call(&self, endpoint: &Endpoint, request: &ModelRequest) -> OutgoingCall;

    /// A decoder for one answer.
    fn decoder(&self) -> Self::Decoder;
}

/// Reads one answer, frame by frame or as a whole.
pub(crate) trait Decode {
    /// Takes one frame of a stream.
    fn accept(&mut self, frame: &SseFrame, out: &mut Events) -> Result<DecodeProgress, FrameFault>;

    /// Takes an answer that came as one JSON object, from a server that does not stream.
    fn accept_whole(&mut self, json: &str, out: &mut Events) -> Result<(), FrameFault>;

    /// Ends the answer.
    ///
    /// # Errors
    ///
    /// What is missing, if the answer is incomplete. Open blocks are then left open.
    fn end(&mut self, out: &mut Events) -> Result<(), String>;

    /// Whether a frame is complete in itself: the last one of a body that broke off may not be.
    fn is_whole(data: &str) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
    }
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeProgress {
    More,
    Done,
}

/// Why a frame could not be taken.
#[derive(Debug, PartialEq)]
pub(crate) enum FrameFault {
    /// It is an error object from the provider.
    Provider(String),
    /// It is not in the protocol.
    Malformed(String),
}

/// A server that speaks a protocol.
#[derive(Debug, Clone)]
pub(crate) struct ProtocolServer<P> {
    pub(crate) endpoint: Endpoint,
    pub(crate) protocol: P,
}

impl<P: WireProtocol> Provider for ProtocolServer<P> {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        let names = ToolNames::of(&request);
        let mut request = request.repaired();
        let OutgoingCall { path, headers, body } = self.protocol.call(&self.endpoint, &request);
        // It has become the body.
        request.messages = Vec::new();
        PreparedRequest {
            path,
            headers,
            names,
            ..PreparedRequest::new(request, Bytes::from(body.to_string().into_bytes()))
        }
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        let post = self.endpoint.post(prepared);
        prepared.names.clone().read(Exchange::new(post, self.protocol.decoder()).into_stream())
    }
}

/// An id that no other answer of any provider has given, for calls that came without one.
pub(crate) fn fresh_call_prefix() -> String {
    match getrandom::u64() {
        Ok(number) => format!("call_{number:016x}"),
        Err(_) => "call".to_owned(),
    }
}

/// What a protocol attached to a block under its own key.
pub(crate) fn own<'a>(metadata: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    metadata?.get(key).filter(|value| !value.is_null())
}

/// A field of what a protocol attached to a block.
pub(crate) fn own_field<'a>(metadata: Option<&'a Value>, key: &str, name: &str) -> Option<&'a Value> {
    own(metadata, key)?.get(name).filter(|value| !value.is_null())
}
