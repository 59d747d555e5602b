//! Payloads that name blobs: fetching what is named, all at once.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use deadpool_postgres::ClientWrapper;
use everturn_model::FromJson;

use super::failure::ServerFailure;
use crate::Error;
use crate::payload::{self, Blob, Hash};
use crate::shape::{damaged, decode};

const FETCH: &str = "SELECT hash, size, data FROM blob WHERE hash = ANY($1)";

/// The blobs that some rows need, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct Blobs(HashMap<Hash, Result<Vec<u8>, String>>);

impl Blobs {
    /// The blobs that these payloads name, and those that only another blob names.
    pub(super) async fn of<'d>(
        client: &ClientWrapper,
        payloads: impl Iterator<Item = &'d str>,
    ) -> Result<Self, ServerFailure> {
        let mut blobs = Self::default();
        let mut wanted: HashSet<Hash> = HashSet::new();
        let mut wholes: HashSet<Hash> = HashSet::new();
        for payload in payloads.filter(|payload| payload.starts_with(['@', '*'])) {
            let named = payload::references(payload);
            if payload.starts_with('@') {
                wholes.extend(&named);
            }
            wanted.extend(named);
        }
        blobs.fetch(client, wanted).await?;
        let inner = wholes.iter().filter_map(|hash| blobs.text(hash)).flat_map(payload::references);
        let inner: HashSet<Hash> = inner.filter(|hash| !blobs.0.contains_key(hash)).collect();
        blobs.fetch(client, inner).await?;
        Ok(blobs)
    }

    async fn fetch(&mut self, client: &ClientWrapper, wanted: HashSet<Hash>) -> Result<(), ServerFailure> {
        if wanted.is_empty() {
            return Ok(());
        }
        let names: Vec<&[u8]> = wanted.iter().map(|hash| hash.as_bytes().as_slice()).collect();
        let statement = client.prepare_cached(FETCH).await?;
        for row in client.query(&statement, &[&names]).await? {
            let Some(hash) = Hash::from_slice(row.try_get(0)?) else { continue };
            let size = usize::try_from(row.try_get::<_, i64>(1)?).unwrap_or(usize::MAX);
            let bytes = Blob::unpack(size, row.try_get(2)?).map_err(|error| error.to_string());
            self.0.insert(hash, bytes);
        }
        Ok(())
    }

    fn text(&self, hash: &Hash) -> Option<&str> {
        std::str::from_utf8(self.0.get(hash)?.as_ref().ok()?).ok()
    }

    /// The JSON that a payload stands for.
    pub(super) fn whole<'d>(&self, session: &str, place: &str, data: &'d str) -> Result<Cow<'d, str>, Error> {
        if !data.starts_with(['@', '*']) {
            return Ok(Cow::Borrowed(data));
        }
        let fetch = |hash: &Hash| match self.0.get(hash) {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err(reason)) => Err(damaged(session, place, &format!("blob {hash}: {reason}"))),
            None => Err(damaged(session, place, &format!("blob {hash} is missing"))),
        };
        let json = payload::unpack(data.to_owned(), fetch).map_err(|error| match error {
            payload::Unpack::Fetch(error) => error,
            other => damaged(session, place, &other),
        })?;
        Ok(Cow::Owned(json))
    }

    /// What a payload means.
    pub(super) fn decode<T: FromJson>(&self, session: &str, place: &str, data: &str) -> Result<T, Error> {
        decode(session, place, &self.whole(session, place, data)?)
    }
}

/// The text in a payload's column.
pub(super) fn text<'r>(session: &str, place: &str, data: &'r [u8]) -> Result<&'r str, Error> {
    std::str::from_utf8(data).map_err(|error| damaged(session, place, &error))
}

/// The bytes of a blob.
pub(super) async fn bytes(client: &ClientWrapper, hash: Hash) -> Result<Option<Vec<u8>>, ServerFailure> {
    let mut blobs = Blobs::default();
    blobs.fetch(client, HashSet::from([hash])).await?;
    match blobs.0.remove(&hash) {
        None => Ok(None),
        Some(Ok(bytes)) => Ok(Some(bytes)),
        Some(Err(reason)) => Err(damaged("", &format!("blob {hash}"), &reason).into()),
    }
}
