//! Bodies of requests: read in bounded memory and time, all of them together.
//!
//! Small ones are read at once. A larger one needs room for all of it first, of which there is a budget for the server: what
//! does not get any waits unread, at the client's side, and is refused after a while.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::Error;

/// The largest body that is read.
pub const BODY_LIMIT: usize = 32 * 1024 * 1024;

/// How many bytes of larger bodies are in memory at once.
pub(crate) const BODY_BUDGET: usize = 64 * 1024 * 1024;

/// A body up to this size needs no room in the budget: what most clients ask for goes on beside any flood.
pub(crate) const SMALL_BODY: usize = 128 * 1024;

/// How long a body waits for room.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(5);

/// How long nothing may come of a body.
pub(crate) const BODY_STALL: Duration = Duration::from_secs(20);

/// How long a body takes in all.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(300);

/// How the bodies of requests are bounded.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// How many bytes of larger bodies are in memory at once.
    pub budget: usize,
    /// How long a body waits for room.
    pub patience: Duration,
    /// How long nothing may come of a body.
    pub stall: Duration,
    /// How long a body takes in all.
    pub time: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { budget: BODY_BUDGET, patience: BODY_PATIENCE, stall: BODY_STALL, time: BODY_TIME }
    }
}

/// The room for bodies of a server; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BodyRoom {
    limits: BodyLimits,
    /// One for each byte.
    free: Arc<Semaphore>,
}

/// A body that was read. Its room is free again when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// The room of a server.
    pub(crate) fn new(limits: BodyLimits) -> Self {
        Self { limits, free: Arc::new(Semaphore::new(limits.budget)) }
    }

    /// Reads a body.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<ReadBody, Error> {
        let said = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        // Without a length it may be as long as any.
        let length = said.unwrap_or(BODY_LIMIT);
        if length > BODY_LIMIT {
            return Err(Error::TooLarge);
        }
        let (mut pieces, mut bytes, mut room) = (body.into_data_stream(), BytesMut::new(), None);
        let end = Instant::now() + self.limits.time;
        loop {
            let late = end.min(Instant::now() + self.limits.stall);
            let piece = timeout_at(late, pieces.next()).await.map_err(|_| self.too_slow())?;
            let Some(piece) = piece else { break };
            let piece = piece.map_err(|error| Error::Body(format!("the body cannot be read: {error}")))?;
            let size = bytes.len() + piece.len();
            if size > BODY_LIMIT {
                return Err(Error::TooLarge);
            }
            if size > SMALL_BODY && room.is_none() {
                room = Some(self.take(length).await?);
                // Growing piece by piece would need twice the room.
                bytes.reserve(length - bytes.len().min(length));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(ReadBody { bytes: bytes.freeze(), _room: room })
    }

    async fn take(&self, length: usize) -> Result<OwnedSemaphorePermit, Error> {
        let permits = u32::try_from(length.min(self.limits.budget)).unwrap_or(u32::MAX);
        let room = timeout(self.limits.patience, Arc::clone(&self.free).acquire_many_owned(permits)).await;
        room.ok().and_then(Result::ok).ok_or(Error::Overloaded)
    }

    fn too_slow(&self) -> Error {
        let BodyLimits { stall, time, .. } = self.limits;
        Error::Body(format!(
            "the body did not come in time: nothing for {} seconds, or not all of it in {}",
            stall.as_secs(),
            time.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits {
        budget: BODY_LIMIT,
        patience: Duration::from_secs(1),
        stall: Duration::from_secs(2),
        time: Duration::from_secs(5),
    };

    /// What comes of a body of so many bytes in pieces, each so long after the one before.
    async fn check(room: &BodyRoom, size: usize, pieces: usize, pause: Duration) -> Result<usize, String> {
        let piece = Bytes::from(vec![b'x'; size / pieces]);
        let pieces = stream::iter(0..pieces).then(move |_| {
            let piece = piece.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok::<_, std::io::Error>(piece)
            }
        });
        let read = room.read(&HeaderMap::new(), Body::from_stream(pieces)).await;
        read.map(|body| body.bytes.len()).map_err(|error| format!("{:?}", error.kind()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_within_its_size_and_time() {
        let room = BodyRoom::new(LIMITS);
        let (large, second) = (BODY_LIMIT, Duration::from_secs(1));
        assert_eq!(check(&room, large, 4, second).await, Ok(large));
        assert_eq!(check(&room, 2 * large, 4, second).await, Err("TooLarge".to_owned()));
        assert_eq!(check(&room, 4, 1, 3 * second).await, Err("Body".to_owned()), "nothing came");
        assert_eq!(check(&room, 6, 6, second).await, Err("Body".to_owned()), "it took too long in all");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_without_a_length_takes_the_room_of_the_longest_until_it_is_dropped() {
        let room = BodyRoom::new(LIMITS);
        let large = || Body::from_stream(stream::iter([Ok::<_, std::io::Error>(vec![b'x'; SMALL_BODY + 1])]));
        let read = room.read(&HeaderMap::new(), large()).await.unwrap();
        assert_eq!(room.free.available_permits(), 0, "it might have become as long as any");
        assert_eq!(check(&room, SMALL_BODY + 1, 1, Duration::ZERO).await, Err("Overloaded".to_owned()));
        drop(read);
        assert_eq!(room.free.available_permits(), BODY_LIMIT);
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, (SMALL_BODY + 1).into())]);
        let _read = room.read(&headers, large()).await.unwrap();
        assert_eq!(room.free.available_permits(), BODY_LIMIT - SMALL_BODY - 1, "it says how long it is");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_room_waits_and_small_bodies_need_none() {
        let room = BodyRoom::new(LIMITS);
        let second = Duration::from_secs(1);
        let (holds, begun) = (room.clone(), Arc::new(tokio::sync::Notify::new()));
        let told = Arc::clone(&begun);
        let held = tokio::spawn(async move {
            let room = holds.take(BODY_LIMIT).await;
            told.notify_one();
            tokio::time::sleep(3 * second).await;
            drop(room);
        });
        begun.notified().await;
        assert_eq!(check(&room, SMALL_BODY, 1, Duration::ZERO).await, Ok(SMALL_BODY));
        let refused = check(&room, SMALL_BODY + 1, 1, Duration::ZERO).await;
        assert_eq!(refused, Err("Overloaded".to_owned()));
        held.await.unwrap();
        assert_eq!(check(&room, SMALL_BODY + 1, 1, Duration::ZERO).await, Ok(SMALL_BODY + 1));
    }
}
