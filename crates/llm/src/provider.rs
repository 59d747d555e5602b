//! The one trait every model source implements, and a request as it goes out.

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::tool_name::ToolNames;
use crate::{EventStream, ModelRequest};

/// Something that answers requests with a stream of events.
///
/// Implementations are shared between sessions and hold no state of a conversation.
pub trait Provider: Send + Sync + Debug {
    /// Writes a request as it goes out.
    fn prepare(&self, request: ModelRequest) -> PreparedRequest;

    /// Makes one call with a request that this provider has written.
    ///
    /// Nothing is sent until the stream is polled, and dropping the stream closes the call. After an error or
    /// [`StreamEvent::Finish`](crate::StreamEvent::Finish) the stream is over.
    fn send(&self, prepared: &PreparedRequest) -> EventStream;

    /// Prepares one model call and makes it.
    fn stream(&self, request: ModelRequest) -> EventStream {
        self.send(&self.prepare(request))
    }
}

/// A request as it goes out: written once, and sent as often as it takes. Clones share it.
#[derive(Clone)]
pub struct PreparedRequest {
    pub(crate) body: Bytes,
    /// The address behind the base.
    pub(crate) path: String,
    /// The protocol's own headers, the one with the key among them.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) names: ToolNames,
    /// What was written, for those who read it themselves and for its further headers.
    pub(crate) request: Arc<ModelRequest>,
}

impl PreparedRequest {
    pub(crate) fn new(request: ModelRequest, body: Bytes) -> Self {
        let (names, request) = (ToolNames::default(), Arc::new(request));
        Self { body, path: String::new(), headers: Vec::new(), names, request }
    }

    /// The body, byte for byte.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// What was asked for with it.
    #[must_use]
    pub fn request(&self) -> &ModelRequest {
        &self.request
    }
}

impl Debug for PreparedRequest {
    /// Headers are left out: they hold the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRequest").field("path", &self.path).field("bytes", &self.body.len()).finish()
    }
}
