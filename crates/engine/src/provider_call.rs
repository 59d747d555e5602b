//! One call to a provider, in a span of its own: which model, how it ended and how long it took.

use everturn_llm::{Error, EventStream, PreparedRequest, StreamEvent};
use everturn_model::SessionId;
use futures_util::StreamExt as _;
use tracing::Instrument as _;

use crate::models::UsableModel;
use crate::turn_places::TurnPlace;
use crate::work_span::{WorkOutcome, WorkSpan};

/// A call that streams.
pub(crate) struct ProviderCall {
    stream: EventStream,
    /// Until the stream is over.
    place: Option<TurnPlace>,
    span: WorkSpan,
}

impl ProviderCall {
    /// A call to a model for a session. Nothing is sent before the first delta is asked for.
    pub(crate) fn new(session: &SessionId, chosen: &UsableModel, request: &PreparedRequest) -> Self {
        let span = WorkSpan::provider_call(session, &chosen.reference);
        Self { stream: chosen.provider.send(request), place: None, span }
    }

    /// The same call, which has a place until its stream is over.
    pub(crate) fn holding(self, place: Option<TurnPlace>) -> Self {
        Self { place, ..self }
    }

    /// The next delta; none when the stream is over. Nothing is lost when nobody waits for it any more.
    pub(crate) async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        let delta = self.stream.next().instrument(self.span.span()).await;
        match &delta {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.span.end(WorkOutcome::Failed),
            None => self.span.end(WorkOutcome::Completed),
        }
        if !matches!(delta, Some(Ok(_))) {
            self.place = None;
        }
        delta
    }
}
