//! A session as it is stored, undecoded, and its log read from that.
//!
//! Reads for people stop at the first row that they cannot understand. Upkeep has to see past it, so it takes all rows
//! as text first and decodes each by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everturn_model::subject::EventPayload;
use everturn_model::{EventId, FromJson, Record, SessionId, json};

use super::verify::SessionProblem;
use crate::payload::{self, Hash, Unpack};
use crate::row::{LogRow, Rows, SessionRow};
use crate::{Error, Store};

/// All rows of a session at one moment, as they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredSession {
    /// None when only the log is left.
    pub(crate) session: Option<SessionRow>,
    /// The log, by seq.
    pub(crate) log: Vec<LogRow>,
    /// The projections, in their order. Texts and blobs are beside.
    pub(crate) rows: Rows,
    /// Whether all lines of its bill are there.
    pub(crate) billed: bool,
    /// Places of searchable texts.
    pub(crate) texts: Vec<TextPlace>,
    /// Blobs that are noted as used.
    pub(crate) uses: BTreeSet<Hash>,
    /// Saved pieces of open parts, by part and start.
    pub(crate) streams: Vec<StreamRow>,
}

/// A session by the key of its rows, which every row has, and by its id, which may be damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyedId {
    pub(crate) key: i64,
    pub(crate) id: SessionId,
}

/// The place of a searchable text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextPlace {
    pub(crate) entry: String,
    pub(crate) part: String,
    /// Whether its words are in the index.
    pub(crate) indexed: bool,
}

/// A saved piece of a part that is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamRow {
    pub(crate) part: String,
    pub(crate) start: u64,
    pub(crate) text: String,
}

/// Why stored data cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct StoredFlaw {
    /// The blob that is missing or wrong, where it is one.
    pub(crate) blob: Option<Hash>,
    pub(crate) reason: String,
}

/// A log, as far as it can be read.
#[derive(Debug, Default)]
pub(crate) struct StoredLog {
    /// The events, up to the first one that is missing or cannot be read.
    pub(crate) records: Vec<Record>,
    /// Their payloads.
    pub(crate) payloads: Vec<StoredPayload>,
    /// Every blob that the log names.
    pub(crate) named: BTreeSet<Hash>,
    /// The events that are nested too deep to be read, by seq, as they are with the deepest of it cut.
    pub(crate) cut: BTreeMap<u64, String>,
    /// What is wrong with it.
    pub(crate) problems: Vec<SessionProblem>,
}

/// A payload that was read.
#[derive(Debug)]
pub(crate) struct StoredPayload {
    pub(crate) json: String,
    /// The blobs that it names.
    pub(crate) named: BTreeSet<Hash>,
}

/// Reads a log from its rows.
pub(crate) async fn read(store: &Store, id: &SessionId, rows: &[LogRow]) -> Result<StoredLog, Error> {
    let mut log = StoredLog::default();
    let mut whole = true;
    if rows.is_empty() {
        log.problems.push(SessionProblem::NoLog);
    }
    let mut expected = 0;
    for row in rows {
        if row.seq != expected {
            log.problems.push(SessionProblem::Gap { expected, found: row.seq });
            whole = false;
        }
        expected = row.seq.saturating_add(1);
        let mut named = BTreeSet::new();
        let json = json(store, &row.data, &mut named).await?;
        log.named.extend(&named);
        if let Some((depth, cut)) = json.as_deref().ok().and_then(cut) {
            log.problems.push(SessionProblem::TooDeep { seq: row.seq, depth });
            log.cut.insert(row.seq, cut);
        }
        let readable = |json: String| {
            let payload = decode(log.cut.get(&row.seq).unwrap_or(&json))?;
            Ok((json, payload))
        };
        match json.and_then(readable) {
            Ok((json, EventPayload { event, subject })) if whole => {
                let (seq, time) = (row.seq, row.time);
                let (session, id) = (id.clone(), EventId::new(row.id.clone()));
                log.records.push(Record { id, session, seq, time, event, subject });
                log.payloads.push(StoredPayload { json, named });
            }
            Ok(_) => {}
            Err(StoredFlaw { reason, .. }) => {
                log.problems.push(SessionProblem::Unreadable { seq: row.seq, reason });
                whole = false;
            }
        }
    }
    Ok(log)
}

/// How deep an event is nested that is too deep to be read, and what is left of it with the deepest cut.
fn cut(json: &str) -> Option<(usize, String)> {
    let depth = json::depth(json.as_bytes());
    (depth > json::STORED_DEPTH_LIMIT).then(|| (depth, json::cut_deep(json)))
}

/// A fingerprint of what a log says.
pub(crate) fn digest(log: &[LogRow]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for row in log {
        hasher.update(&row.seq.to_le_bytes());
        hasher.update(blake3::hash(row.data.as_bytes()).as_bytes());
    }
    Hash::from_slice(hasher.finalize().as_bytes()).unwrap_or_else(|| Hash::of(&[]))
}

pub(crate) fn decode<T: FromJson>(json: &str) -> Result<T, StoredFlaw> {
    T::from_json(json).map_err(|error| StoredFlaw { blob: None, reason: error.to_string() })
}

/// The JSON that kept data stands for. The blobs that it needs are noted in `named`, also those that are missing.
pub(crate) async fn json(
    store: &Store,
    data: &str,
    named: &mut BTreeSet<Hash>,
) -> Result<Result<String, StoredFlaw>, Error> {
    if !data.starts_with(['@', '*']) {
        return Ok(Ok(data.to_owned()));
    }
    let mut fetched = HashMap::new();
    for hash in payload::references(data) {
        named.insert(hash);
        let bytes = fetch(store, hash).await?;
        // Only a blob that stands for the whole names others; a string may look as if it did.
        if data.starts_with('@')
            && let Ok(Some(bytes)) = &bytes
            && let Ok(inner) = std::str::from_utf8(bytes)
        {
            for hash in payload::references(inner) {
                named.insert(hash);
                fetched.insert(hash, fetch(store, hash).await?);
            }
        }
        fetched.insert(hash, bytes);
    }
    let take = |hash: &Hash| match fetched.get(hash) {
        Some(Ok(Some(bytes))) => Ok(bytes.clone()),
        Some(Err(reason)) => Err(StoredFlaw { blob: Some(*hash), reason: reason.clone() }),
        Some(Ok(None)) | None => {
            Err(StoredFlaw { blob: Some(*hash), reason: format!("blob {hash} is missing") })
        }
    };
    Ok(payload::unpack(data.to_owned(), take).map_err(|error| match error {
        Unpack::Fetch(flaw) => flaw,
        Unpack::Changed(hash) | Unpack::NotText(hash) => {
            StoredFlaw { blob: Some(hash), reason: error.to_string() }
        }
        Unpack::Malformed(_) => StoredFlaw { blob: None, reason: error.to_string() },
    }))
}

/// The bytes of a blob, none when it is missing, or why they cannot be had.
pub(crate) async fn fetch(store: &Store, hash: Hash) -> Result<Result<Option<Vec<u8>>, String>, Error> {
    match store.blob(hash).await {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(Error::Corrupt { place, reason, .. }) => Ok(Err(format!("{place}: {reason}"))),
        Err(error) => Err(error),
    }
}
