//! One call to a provider, in a span of its own: which model, how it ended and how long it took.

use std::time::Instant;

use everturn_llm::{Error, EventStream, ModelRequest, StreamEvent};
use futures_util::StreamExt as _;
use tracing::{Instrument as _, Span, field};

use crate::models::UsableModel;

/// A call that streams.
pub(crate) struct ProviderCall {
    stream: EventStream,
    span: Span,
    /// When it began; none once its end is known.
    begun: Option<Instant>,
}

impl ProviderCall {
    /// A call to a model. Nothing is sent before the first delta is asked for.
    pub(crate) fn new(chosen: &UsableModel, request: ModelRequest) -> Self {
        let span = tracing::info_span!(
            "provider_call",
            provider = chosen.reference.provider,
            model = chosen.reference.model,
            outcome = field::Empty,
            duration_ms = field::Empty,
        );
        let stream = chosen.provider.stream(request);
        Self { stream, span, begun: Some(Instant::now()) }
    }

    /// The next delta; none when the stream is over. Nothing is lost when nobody waits for it any more.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        let delta = self.stream.next().instrument(self.span.clone()).await;
        match &delta {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.end("failed"),
            None => self.end("completed"),
        }
        delta
    }

    fn end(&mut self, outcome: &'static str) {
        let Some(begun) = self.begun.take() else { return };
        self.span.record("outcome", outcome);
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.span.record("duration_ms", millis);
    }
}

impl Drop for ProviderCall {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}
