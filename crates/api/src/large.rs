//! Answers that can be as large as a session: few of them are built at once, beside the threads that everybody is served by,
//! and what of them nobody has read yet has a bound.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::error::Error;

/// How many answers with messages are built at once.
pub(crate) const PAGES_AT_ONCE: usize = 2;

/// How many requests to models are shown again at once: each reads a whole log.
pub(crate) const REQUESTS_AT_ONCE: usize = 1;

/// How many bytes of large answers are in memory at once that were built and not read yet.
pub(crate) const ANSWER_BUDGET: usize = 128 * 1024 * 1024;

/// An answer up to this size needs no room in the budget.
pub(crate) const SMALL_ANSWER: usize = 1024 * 1024;

/// How long a large answer waits for room.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// How long nobody may read anything of a large answer.
pub(crate) const ANSWER_STALL: Duration = Duration::from_secs(20);

/// How much of it is handed on at a time.
const PIECE: usize = 64 * 1024;

/// What is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LargeAnswer {
    /// Messages of a session.
    Page,
    /// What a model was sent.
    Request,
}

/// The room for large answers of a server; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct AnswerRoom {
    pages: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    /// One for each byte.
    free: Arc<Semaphore>,
}

impl Default for AnswerRoom {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { pages: places(PAGES_AT_ONCE), requests: places(REQUESTS_AT_ONCE), free: places(ANSWER_BUDGET) }
    }
}

impl AnswerRoom {
    /// Builds an answer when there is a place for that, and gives it what room it needs. Whoever goes away while it waits
    /// leaves nothing behind.
    pub(crate) async fn build<T: LargeBody + Send + 'static>(
        &self,
        kind: LargeAnswer,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let places = match kind {
            LargeAnswer::Page => &self.pages,
            LargeAnswer::Request => &self.requests,
        };
        let place = Arc::clone(places).acquire_owned().await.map_err(|_| Error::Overloaded)?;
        let threads = Handle::current();
        // The place is held for as long as the work goes on, which nobody can stop when it has begun.
        let (built, _place) = tokio::task::spawn_blocking(move || (threads.block_on(work), place)).await?;
        let mut built = built?;
        let response = built.response_mut();
        let size = response.body().size_hint().exact().unwrap_or(u64::MAX);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size <= SMALL_ANSWER {
            return Ok(built);
        }
        let permits = u32::try_from(size.min(ANSWER_BUDGET)).unwrap_or(u32::MAX);
        let room = timeout(ANSWER_PATIENCE, Arc::clone(&self.free).acquire_many_owned(permits)).await;
        let room = room.ok().and_then(Result::ok).ok_or(Error::Overloaded)?;
        let body = std::mem::take(response.body_mut());
        *response.body_mut() = held(body, room);
        // What ends before it is not the whole.
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(size));
        Ok(built)
    }
}

/// An answer whose body is there as a whole.
pub(crate) trait LargeBody {
    /// The response that it is.
    fn response_mut(&mut self) -> &mut Response;
}

/// The same body in pieces, which keeps its room until the last of them was taken, or none was for too long.
fn held(body: Body, room: OwnedSemaphorePermit) -> Body {
    let (give, mut take) = mpsc::channel::<Result<Bytes, axum::Error>>(1);
    tokio::spawn(async move {
        let _room = room;
        let mut pieces = body.into_data_stream();
        while let Some(Ok(whole)) = pieces.next().await {
            for piece in whole.chunks(PIECE) {
                // A copy: a piece of the whole would keep all of it.
                let given = timeout(ANSWER_STALL, give.send(Ok(Bytes::copy_from_slice(piece)))).await;
                if !matches!(given, Ok(Ok(()))) {
                    return;
                }
            }
        }
    });
    Body::from_stream(stream::poll_fn(move |context| take.poll_recv(context)))
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;
    use crate::answer::printed;

    /// An answer of some size.
    struct SizedAnswer(Response);

    impl LargeBody for SizedAnswer {
        fn response_mut(&mut self) -> &mut Response {
            &mut self.0
        }
    }

    fn sized(size: usize) -> SizedAnswer {
        SizedAnswer(printed(StatusCode::OK, vec![b'x'; size]))
    }

    async fn build(room: &AnswerRoom, size: usize) -> Result<Body, String> {
        let built = room.build(LargeAnswer::Page, async move { Ok(sized(size)) }).await;
        built.map(|built| built.0.into_body()).map_err(|error| format!("{error:?}"))
    }

    /// How many bytes come of a body, and whether that is all.
    async fn read(body: Body) -> usize {
        let mut pieces = body.into_data_stream();
        let mut size = 0;
        while let Some(piece) = pieces.next().await {
            size += piece.unwrap().len();
        }
        size
    }

    #[tokio::test]
    async fn few_are_built_at_once_and_who_leaves_while_waiting_leaves_nothing() {
        let room = AnswerRoom::default();
        let (end, ended) = oneshot::channel::<()>();
        let first = tokio::spawn({
            let room = room.clone();
            async move {
                let work = async move {
                    ended.await.unwrap();
                    Ok(sized(1))
                };
                room.build(LargeAnswer::Request, work).await.is_ok()
            }
        });
        while room.requests.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let (begin, begun) = oneshot::channel::<()>();
        let second = room.build(LargeAnswer::Request, async move {
            begin.send(()).unwrap();
            Ok(sized(1))
        });
        let mut second = Box::pin(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        // Messages have places of their own.
        assert_eq!(read(build(&room, 3).await.unwrap()).await, 3);
        drop(second);
        assert!(begun.await.is_err());
        end.send(()).unwrap();
        assert!(first.await.unwrap());
        assert_eq!(room.requests.available_permits(), REQUESTS_AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_makes_room_after_a_while() {
        let room = AnswerRoom::default();
        let large = ANSWER_BUDGET / 2 + 1;
        let unread = build(&room, large).await.unwrap();
        // Small ones need none.
        assert_eq!(read(build(&room, SMALL_ANSWER).await.unwrap()).await, SMALL_ANSWER);
        let begun = Instant::now();
        assert_eq!(build(&room, large).await.unwrap_err(), "Overloaded");
        assert_eq!(begun.elapsed(), ANSWER_PATIENCE);
        tokio::time::sleep(ANSWER_STALL).await;
        assert_eq!(read(build(&room, large).await.unwrap()).await, large);
        assert!(read(unread).await < large);
    }
}
