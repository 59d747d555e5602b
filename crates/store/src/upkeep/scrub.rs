//! Removing a secret that got into a log.
//!
//! The log is never changed but for this: a password that a command printed must not stay readable for years. Seqs,
//! ids and times stay as they are; only the text of the secret goes, from events, blobs, rows, saved streams and the
//! other tables, and then from the files themselves. It is noted in the audit, without the secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use everturn_model::subject::EventPayload;
use everturn_model::{FromJson as _, Millis, Record, SessionId};
use serde_json::json;

use super::audit::Audit;
use super::instance_rows::InstanceRows;
use super::rebuild::{self, RebuiltRows};
use super::secret::LeakedSecret;
use super::stored_session::{self, KeyedId, StoredLog, StoredSession};
use crate::payload::{Blob, Hash};
use crate::plan::{self, ReplayedLog};
use crate::row::LogRow;
use crate::store::ask;
use crate::{Error, Store, payload};

/// The shortest secret, in bytes: a shorter one is part of too many other words.
const SHORTEST: usize = 6;

/// How often a session may change under a scrub before it is given up.
const TRIES: usize = 64;

/// How many session ids are read at once.
const PAGE: usize = 256;

/// A scrub as it is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Scrub {
    /// What must go, at least six bytes.
    pub secret: String,
    /// What comes in its place.
    pub replacement: String,
    /// Only in this session; none means everywhere.
    pub session: Option<SessionId>,
    /// Why, for the audit.
    pub reason: String,
    /// When.
    pub time: Millis,
}

impl Scrub {
    /// A scrub of everything, with the usual replacement.
    #[must_use]
    pub fn new(secret: &str, reason: &str, time: Millis) -> Self {
        let (secret, replacement) = (secret.to_owned(), "[scrubbed]".to_owned());
        Self { secret, replacement, session: None, reason: reason.to_owned(), time }
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Scrub");
        debug.field("session", &self.session).field("time", &self.time).finish_non_exhaustive()
    }
}

/// What a scrub did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// The sessions that held it and no longer do.
    pub sessions: Vec<SessionId>,
    /// How many events held it.
    pub events: u64,
    /// How many blobs held it.
    pub blobs: u64,
    /// The sessions that hold it still and why: an id would have changed, or the log is damaged. They are as they were.
    pub left: Vec<(SessionId, String)>,
    /// The sessions that other processes were writing meanwhile. What was on its way was not seen, and what a model or a
    /// command still says may hold it again: scrub again when they rest.
    pub at_work: BTreeSet<SessionId>,
    /// Copies of the database from before a migration. They hold it still: delete them.
    pub backups: Vec<PathBuf>,
    /// True when it is in none of the database's files any more. False when another process was reading all the while:
    /// scrub again when it has ended.
    pub erased: bool,
}

/// What becomes of one session.
enum SessionScrub {
    /// Nothing has to change.
    None,
    /// It cannot be cleaned.
    Left(String),
    Clean(Box<RebuiltRows>),
}

impl Store {
    /// Removes a secret wherever it stands: in strings and keys of events, in blobs, in rows, in saved streams, in
    /// projects and approvals. Seqs, ids and times stay. A session in which that is not possible is left as it was, and
    /// named.
    ///
    /// # Errors
    /// When the secret is too short or the replacement holds it, the session is missing, or the disk refuses.
    pub async fn scrub(&self, scrub: Scrub) -> Result<Scrubbed, Error> {
        if scrub.secret.len() < SHORTEST {
            return Err(Error::Scrub("a secret has at least six bytes, or it would be found in other words"));
        }
        if scrub.replacement.contains(&scrub.secret) {
            return Err(Error::Scrub("the replacement holds the secret"));
        }
        let secret = LeakedSecret::new(&scrub.secret, &scrub.replacement);
        let mut scrubbed = Scrubbed::default();
        self.note_at_work(&scrub, &mut scrubbed).await?;
        let mut blobs = BTreeSet::new();
        if let Some(id) = &scrub.session {
            self.scrub_session(&scrub, id, &secret, &mut scrubbed, &mut blobs).await?;
        } else {
            let mut after = None;
            loop {
                let page = self.ids(after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.key);
                for KeyedId { id, .. } in &page {
                    match self.scrub_session(&scrub, id, &secret, &mut scrubbed, &mut blobs).await {
                        Err(Error::Purged(_) | Error::NoSession(_)) => {}
                        done => done?,
                    }
                }
            }
            self.scrub_instance_rows(&secret).await?;
        }
        scrubbed.blobs = u64::try_from(blobs.len()).unwrap_or(u64::MAX);
        self.collect().await?;
        // Some may have begun since.
        self.note_at_work(&scrub, &mut scrubbed).await?;
        let audit = self.note(&scrub, &secret, &scrubbed);
        ask!(self, engine => engine.put_audit(audit).await)?;
        scrubbed.erased = ask!(self, engine => engine.erase().await)?;
        scrubbed.backups = ask!(self, engine => engine.backups());
        Ok(scrubbed)
    }

    async fn note_at_work(&self, scrub: &Scrub, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let elsewhere = self.run_elsewhere().await?;
        scrubbed
            .at_work
            .extend(elsewhere.into_iter().filter(|id| scrub.session.as_ref().is_none_or(|only| only == id)));
        Ok(())
    }

    /// What names the secret in the audit. Keyed, so that nobody who sees it can try words until one fits.
    fn known_by(&self, scrub: &Scrub) -> String {
        blake3::keyed_hash(self.secret(), scrub.secret.as_bytes()).to_hex().to_string()
    }

    fn note_session(&self, scrub: &Scrub, secret: &LeakedSecret, id: &SessionId, events: usize) -> Audit {
        let reason = secret.clean(&scrub.reason).unwrap_or_else(|| scrub.reason.clone());
        let detail =
            json!({ "secret": self.known_by(scrub), "reason": reason, "session": id, "events": events });
        Audit::new(scrub.time, "scrub", detail)
    }

    fn note(&self, scrub: &Scrub, secret: &LeakedSecret, scrubbed: &Scrubbed) -> Audit {
        let left: Vec<&SessionId> = scrubbed.left.iter().map(|(id, _)| id).collect();
        let detail = json!({
            "secret": self.known_by(scrub),
            "reason": secret.clean(&scrub.reason).unwrap_or_else(|| scrub.reason.clone()),
            "sessions": scrubbed.sessions,
            "events": scrubbed.events,
            "blobs": scrubbed.blobs,
            "left": left,
        });
        Audit::new(scrub.time, "scrub", detail)
    }

    async fn scrub_session(
        &self,
        scrub: &Scrub,
        id: &SessionId,
        secret: &LeakedSecret,
        scrubbed: &mut Scrubbed,
        blobs: &mut BTreeSet<Hash>,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Some(stored) = self.stored(id).await? else { return Err(self.missing(id).await?) };
            match change(self, id, &stored, secret).await? {
                SessionScrub::None => return Ok(()),
                SessionScrub::Left(reason) => {
                    scrubbed.left.push((id.clone(), reason));
                    return Ok(());
                }
                SessionScrub::Clean(mut rebuilt) => {
                    let (events, unused) = (rebuilt.log.len(), rebuilt.unused.clone());
                    // In the same transaction: no log is ever changed without a trace, wherever this ends.
                    rebuilt.audit = Some(self.note_session(scrub, secret, id, events));
                    if self.replace_rows(*rebuilt).await? {
                        scrubbed.sessions.push(id.clone());
                        scrubbed.events += u64::try_from(events).unwrap_or(u64::MAX);
                        blobs.extend(unused);
                        return Ok(());
                    }
                }
            }
        }
        Err(Error::Changing(id.clone()))
    }

    async fn scrub_instance_rows(&self, secret: &LeakedSecret) -> Result<(), Error> {
        for _ in 0..TRIES {
            let before = self.instance_rows().await?;
            let after = clean_instance_rows(before.clone(), secret);
            if before == after || self.swap_instance_rows(before, after).await? {
                return Ok(());
            }
        }
        Err(Error::Scrub("the projects and approvals changed all the while; try again"))
    }
}

fn clean_instance_rows(mut instance_rows: InstanceRows, secret: &LeakedSecret) -> InstanceRows {
    let clean = |text: &mut String| {
        if let Some(clean) = secret.clean(text) {
            *text = clean;
        }
    };
    for (_, data) in &mut instance_rows.projects {
        if let Some(clean) = secret.clean_json(data) {
            *data = clean;
        }
    }
    for approval in &mut instance_rows.approvals {
        clean(&mut approval.folder);
        clean(&mut approval.permission);
        clean(&mut approval.pattern);
    }
    instance_rows.aside.iter_mut().for_each(|aside| clean(&mut aside.reason));
    for audit in &mut instance_rows.audits {
        let cleaned = secret.clean_json(&audit.detail.to_string());
        if let Some(Ok(detail)) = cleaned.map(|json| serde_json::from_str(&json)) {
            audit.detail = detail;
        }
    }
    instance_rows
}

/// What a session is without the secret.
async fn change(
    store: &Store,
    id: &SessionId,
    stored: &StoredSession,
    secret: &LeakedSecret,
) -> Result<SessionScrub, Error> {
    let log = stored_session::read(store, id, &stored.log).await?;
    let before = match rebuild::fold(id, &log) {
        Ok(replayed) => replayed,
        Err(error) if is_mentioned(stored, &log, secret) => return Ok(SessionScrub::Left(error.to_string())),
        Err(_) => return Ok(SessionScrub::None),
    };
    let named = named(store, stored, &log).await?;
    let put = put_blobs(store, stored, &named, secret).await?;
    let streams = secret.mask(&stored.streams);
    let names = put.iter().map(|(hash, blob)| (hash.to_hex(), blob.hash.to_hex()));
    let clean = match clean_log(stored, &log, &secret.with(names)) {
        Ok(clean) => clean,
        Err(reason) => return Ok(SessionScrub::Left(reason)),
    };
    if clean.rows.is_empty() && put.is_empty() && streams.is_empty() && !is_mentioned(stored, &log, secret) {
        return Ok(SessionScrub::None);
    }
    let after = match plan::replay(id, &clean.records) {
        Ok(Some(after)) if ids(&before) == ids(&after) => after,
        Ok(_) => return Ok(SessionScrub::Left("an id would have changed".to_owned())),
        Err(stuck) => {
            return Ok(SessionScrub::Left(format!("event {} would not fit: {}", stuck.seq, stuck.reason)));
        }
    };
    let mut rebuilt = RebuiltRows::of(id, stored, &log, after);
    let changed: BTreeSet<u64> = clean.rows.iter().map(|row| row.seq).collect();
    rebuilt.log.retain(|row| !changed.contains(&row.seq));
    rebuilt.log.extend(clean.rows);
    rebuilt.uses = clean.named;
    rebuilt.blobs = clean.blobs;
    rebuilt.unused = named.into_iter().chain(put.keys().copied()).collect();
    rebuilt.blobs.extend(put.into_values());
    rebuilt.streams = streams;
    rebuilt.lift = false;
    for blob in rebuilt.blobs.iter().chain(&rebuilt.rows.blobs) {
        rebuilt.unused.remove(&blob.hash);
    }
    rebuilt.unused.retain(|hash| !rebuilt.uses.contains(hash));
    Ok(SessionScrub::Clean(Box::new(rebuilt)))
}

/// True when it is seen in rows that are not decoded, or in what could be read of the log.
fn is_mentioned(stored: &StoredSession, log: &StoredLog, secret: &LeakedSecret) -> bool {
    let rows = &stored.rows;
    let texts = stored.log.iter().map(|row| &row.data);
    let texts = texts.chain(log.payloads.iter().map(|payload| &payload.json));
    let texts = texts.chain(rows.entries.iter().map(|row| &row.data));
    let texts = texts.chain(rows.parts.iter().map(|row| &row.data));
    let texts = texts.chain(rows.inbox.iter().filter_map(|row| row.data.as_ref()));
    let texts = texts.chain(rows.requests.iter().filter_map(|row| row.data.as_ref()));
    let mut texts =
        texts.chain(&rows.todos).chain(stored.session.iter().flat_map(|row| [&row.data, &row.title]));
    texts.any(|text| secret.is_in(text))
}

/// Every blob that the log or a row names.
async fn named(store: &Store, stored: &StoredSession, log: &StoredLog) -> Result<BTreeSet<Hash>, Error> {
    let mut named = log.named.clone();
    let rows = stored.rows.entries.iter().map(|row| &row.data);
    let rows = rows.chain(stored.rows.parts.iter().map(|row| &row.data));
    for data in rows.chain(stored.rows.inbox.iter().filter_map(|row| row.data.as_ref())) {
        // What cannot be read is rebuilt anyway.
        drop(stored_session::json(store, data, &mut named).await?);
    }
    Ok(named)
}

/// The blobs that were put by themselves and hold the secret, each with what it becomes.
async fn put_blobs(
    store: &Store,
    stored: &StoredSession,
    named: &BTreeSet<Hash>,
    secret: &LeakedSecret,
) -> Result<BTreeMap<Hash, Blob>, Error> {
    let mut changed = BTreeMap::new();
    for hash in stored.uses.difference(named) {
        let Ok(Some(bytes)) = stored_session::fetch(store, *hash).await? else { continue };
        if let Some(clean) = secret.clean_bytes(&bytes) {
            let blob = Blob::of(&clean).map_err(|source| Error::io("compression", source))?;
            changed.insert(*hash, blob);
        }
    }
    Ok(changed)
}

/// A log without the secret.
struct CleanLog {
    records: Vec<Record>,
    /// The rows that changed.
    rows: Vec<LogRow>,
    /// The blobs that those need.
    blobs: Vec<Blob>,
    /// The blobs that the other rows need.
    named: BTreeSet<Hash>,
}

fn clean_log(stored: &StoredSession, log: &StoredLog, secret: &LeakedSecret) -> Result<CleanLog, String> {
    let mut clean =
        CleanLog { records: Vec::new(), rows: Vec::new(), blobs: Vec::new(), named: BTreeSet::new() };
    for ((row, record), payload) in stored.log.iter().zip(&log.records).zip(&log.payloads) {
        let cleaned = secret.clean_json(&payload.json);
        if secret.is_in(cleaned.as_ref().unwrap_or(&payload.json)) {
            return Err(format!("event {} holds it outside of strings", row.seq));
        }
        let Some(json) = cleaned else {
            clean.records.push(record.clone());
            clean.named.extend(&payload.named);
            continue;
        };
        let unreadable =
            |error: &dyn fmt::Display| format!("event {} could not be read any more: {error}", row.seq);
        let EventPayload { event, subject } =
            EventPayload::from_json(&json).map_err(|error| unreadable(&error))?;
        if event.name() != record.event.name() {
            return Err(unreadable(&"it would be another one"));
        }
        let packed = payload::pack(json).map_err(|error| unreadable(&error))?;
        clean.rows.push(LogRow { data: packed.data, ..row.clone() });
        clean.blobs.extend(packed.blobs);
        clean.records.push(Record { event, subject, ..record.clone() });
    }
    Ok(clean)
}

/// All ids of a session, in their places.
fn ids(replayed: &ReplayedLog) -> Vec<String> {
    let tree = &replayed.tree;
    let mut ids = vec![tree.session.id.to_string()];
    for node in tree.nodes() {
        ids.push(node.entry.id.to_string());
        ids.extend(node.entry.parent.as_ref().map(ToString::to_string));
        ids.extend(node.parts.iter().map(|part| part.id.to_string()));
    }
    for item in &tree.inbox {
        ids.push(item.id.to_string());
        ids.extend(item.parts.iter().map(|part| part.id.to_string()));
    }
    ids.extend(tree.requests.keys().map(ToString::to_string));
    ids
}
