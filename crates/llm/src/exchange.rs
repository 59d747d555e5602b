//! One model call over HTTP.
//!
//! The request is sent when the stream is first polled. Then the body is read piece by piece, and events are handed out
//! as they come.

use std::time::Duration;

use futures_util::stream;

use crate::body::Body;
use crate::http::{Answer, Post};
use crate::protocol::Decode;
use crate::{Error, Event, EventStream};

/// How long the end of the body may take after the terminal event.
const DRAIN: Duration = Duration::from_millis(250);

/// A model call under way.
pub(crate) enum Exchange<D> {
    Unsent(Box<Post>, D),
    Reading(Box<Answer>, Body<D>),
    Ended,
}

impl<D: Decode + Send + 'static> Exchange<D> {
    pub(crate) fn new(post: Post, decoder: D) -> Self {
        Self::Unsent(Box::new(post), decoder)
    }

    pub(crate) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(self, |mut exchange| async move {
            exchange.next().await.map(|item| (item, exchange))
        }))
    }

    async fn next(&mut self) -> Option<Result<Event, Error>> {
        // Whatever fails here was the last thing to happen.
        match std::mem::replace(self, Self::Ended) {
            Self::Unsent(post, decoder) => Some(self.open(*post, decoder).await),
            Self::Reading(answer, body) => Some(self.read(answer, body).await),
            Self::Ended => None,
        }
    }

    async fn open(&mut self, post: Post, decoder: D) -> Result<Event, Error> {
        let answer = post.send().await?;
        let body = Body::new(&answer.media_type(), decoder);
        *self = Self::Reading(Box::new(answer), body);
        Ok(Event::Start)
    }

    async fn read(&mut self, mut answer: Box<Answer>, mut body: Body<D>) -> Result<Event, Error> {
        loop {
            let event = body.next().map_err(|broken| answer.broken(broken))?;
            if let Some(event) = event {
                *self = Self::Reading(answer, body);
                return Ok(event);
            }
            if body.is_over() {
                answer.drain(DRAIN).await;
                return Ok(Event::Finish);
            }
            let taken = match answer.chunk().await? {
                Some(piece) => body.push(&piece),
                None => body.end(),
            };
            taken.map_err(|broken| answer.broken(broken))?;
        }
    }
}
