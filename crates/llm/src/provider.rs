//! The one trait every model source implements.

use std::fmt::Debug;

use crate::{EventStream, ModelRequest};

/// Something that answers requests with a stream of events.
///
/// Implementations are shared between sessions and hold no state of a conversation.
pub trait Provider: Send + Sync + Debug {
    /// Prepares one model call.
    ///
    /// Nothing is sent until the stream is polled, and dropping the stream closes the call. After an error or
    /// [`StreamEvent::Finish`](crate::StreamEvent::Finish) the stream is over.
    fn stream(&self, request: ModelRequest) -> EventStream;
}
