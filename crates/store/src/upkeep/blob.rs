//! Blobs that are put by themselves, and collecting those that no session uses.

use everturn_model::SessionId;

use crate::payload::{Blob, Hash};
use crate::store::ask;
use crate::{Error, Store};

/// What a collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes they took, compressed.
    pub bytes: u64,
}

impl Store {
    /// Keeps bytes for a session, under their hash, until the session is deleted for good. Bytes that are there already
    /// are kept once.
    ///
    /// # Errors
    /// When the session is missing or set aside, the bytes are more than a gigabyte, or the disk refuses.
    pub async fn put_blob(&self, session: &SessionId, bytes: Vec<u8>) -> Result<Hash, Error> {
        // Compression takes a while and must not hold up the others.
        let pack = move || Blob::of(&bytes).map_err(|source| Error::io("compression", source));
        let blob = tokio::task::spawn_blocking(pack).await.map_err(|_| Error::Closed)??;
        let hash = blob.hash;
        ask!(self, engine => engine.put_blob(session, blob).await)?;
        Ok(hash)
    }

    /// Removes the blobs that no session uses.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn collect(&self) -> Result<Collected, Error> {
        ask!(self, engine => engine.collect().await)
    }
}
