//! One model call over HTTP.
//!
//! The request is sent when the stream is first polled. Then the body is read piece by piece, and events are handed out
//! as they come.

use std::time::Duration;

use futures_util::stream;

use crate::body::AnswerBody;
use crate::http::{HttpAnswer, HttpPost};
use crate::protocol::Decode;
use crate::{Error, EventStream, StreamEvent};

/// How long the end of the body may take after the terminal event.
const DRAIN: Duration = Duration::from_millis(250);

/// A model call under way.
pub(crate) enum Exchange<D> {
    Unsent(Box<HttpPost>, D),
    Reading(Box<HttpAnswer>, AnswerBody<D>),
    Ended,
}

impl<D: Decode + Send + 'static> Exchange<D> {
    pub(crate) fn new(post: HttpPost, decoder: D) -> Self {
        Self::Unsent(Box::new(post), decoder)
    }

    pub(crate) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(self, |mut exchange| async move {
            exchange.next().await.map(|item| (item, exchange))
        }))
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, Error>> {
        // Whatever fails here was the last thing to happen.
        match std::mem::replace(self, Self::Ended) {
            Self::Unsent(post, decoder) => Some(self.open(*post, decoder).await),
            Self::Reading(answer, body) => Some(self.read(answer, body).await),
            Self::Ended => None,
        }
    }

    async fn open(&mut self, post: HttpPost, decoder: D) -> Result<StreamEvent, Error> {
        let answer = post.send().await?;
        let body = AnswerBody::new(&answer.media_type(), decoder);
        *self = Self::Reading(Box::new(answer), body);
        Ok(StreamEvent::Start)
    }

    async fn read(
        &mut self,
        mut answer: Box<HttpAnswer>,
        mut body: AnswerBody<D>,
    ) -> Result<StreamEvent, Error> {
        loop {
            let event = body.next().map_err(|broken| answer.broken(broken))?;
            if let Some(event) = event {
                *self = Self::Reading(answer, body);
                return Ok(event);
            }
            if body.is_over() {
                answer.drain(DRAIN).await;
                return Ok(StreamEvent::Finish);
            }
            let taken = match answer.chunk().await? {
                Some(piece) => body.push(&piece),
                None => body.end(),
            };
            taken.map_err(|broken| answer.broken(broken))?;
        }
    }
}
