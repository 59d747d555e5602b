//! Removing a secret that got into a log.
//!
//! The log is never changed but for this: a password that a command printed must not stay readable for years. Seqs,
//! ids and times stay as they are; only the text of the secret goes, from events, blobs, rows, saved streams and facts,
//! and then from the files themselves. It is noted in the audit, without the secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use everturn_model::subject::EventPayload;
use everturn_model::{Millis, Record, SessionId};
use serde_json::json;

use super::audit::Audit;
use super::fact::Facts;
use super::kept::{self, Kept, Log};
use super::rebuild::{self, Anew};
use super::secret::Secret;
use crate::payload::{Blob, Hash};
use crate::plan::{self, Replayed};
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
    /// Copies of the database from before a migration. They hold it still: delete them.
    pub backups: Vec<PathBuf>,
    /// True when it is in none of the database's files any more. False when another process was reading all the while:
    /// scrub again when it has ended.
    pub erased: bool,
}

/// What becomes of one session.
enum Change {
    /// Nothing has to change.
    None,
    /// It cannot be cleaned.
    Left(String),
    Clean(Box<Anew>),
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
        let secret = Secret::new(&scrub.secret, &scrub.replacement);
        let mut scrubbed = Scrubbed::default();
        let mut blobs = BTreeSet::new();
        if let Some(id) = &scrub.session {
            self.scrub_session(&scrub, id, &secret, &mut scrubbed, &mut blobs).await?;
        } else {
            let mut after = None;
            loop {
                let page = self.ids(after.as_ref(), PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.clone());
                for id in &page {
                    match self.scrub_session(&scrub, id, &secret, &mut scrubbed, &mut blobs).await {
                        Err(Error::Purged(_) | Error::NoSession(_)) => {}
                        done => done?,
                    }
                }
            }
            self.scrub_facts(&secret).await?;
        }
        scrubbed.blobs = u64::try_from(blobs.len()).unwrap_or(u64::MAX);
        self.collect().await?;
        let audit = self.note(&scrub, &secret, &scrubbed);
        ask!(self, engine => engine.put_audit(audit).await)?;
        scrubbed.erased = ask!(self, engine => engine.erase().await)?;
        scrubbed.backups = ask!(self, engine => engine.backups());
        Ok(scrubbed)
    }

    /// What names the secret in the audit. Keyed, so that nobody who sees it can try words until one fits.
    fn known_by(&self, scrub: &Scrub) -> String {
        blake3::keyed_hash(self.secret(), scrub.secret.as_bytes()).to_hex().to_string()
    }

    fn note_session(&self, scrub: &Scrub, secret: &Secret, id: &SessionId, events: usize) -> Audit {
        let reason = secret.clean(&scrub.reason).unwrap_or_else(|| scrub.reason.clone());
        let detail =
            json!({ "secret": self.known_by(scrub), "reason": reason, "session": id, "events": events });
        Audit::new(scrub.time, "scrub", detail)
    }

    fn note(&self, scrub: &Scrub, secret: &Secret, scrubbed: &Scrubbed) -> Audit {
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
        secret: &Secret,
        scrubbed: &mut Scrubbed,
        blobs: &mut BTreeSet<Hash>,
    ) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Some(kept) = self.kept(id).await? else { return Err(self.missing(id).await?) };
            match change(self, id, &kept, secret).await? {
                Change::None => return Ok(()),
                Change::Left(reason) => {
                    scrubbed.left.push((id.clone(), reason));
                    return Ok(());
                }
                Change::Clean(mut anew) => {
                    let (events, unused) = (anew.log.len(), anew.unused.clone());
                    // In the same transaction: no log is ever changed without a trace, wherever this ends.
                    anew.audit = Some(self.note_session(scrub, secret, id, events));
                    if self.put_anew(*anew).await? {
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

    async fn scrub_facts(&self, secret: &Secret) -> Result<(), Error> {
        for _ in 0..TRIES {
            let before = self.facts().await?;
            let after = clean_facts(before.clone(), secret);
            if before == after || self.swap_facts(before, after).await? {
                return Ok(());
            }
        }
        Err(Error::Scrub("the projects and approvals changed all the while; try again"))
    }
}

fn clean_facts(mut facts: Facts, secret: &Secret) -> Facts {
    let clean = |text: &mut String| {
        if let Some(clean) = secret.clean(text) {
            *text = clean;
        }
    };
    for (_, data) in &mut facts.projects {
        if let Some(clean) = secret.clean_json(data) {
            *data = clean;
        }
    }
    for approval in &mut facts.approvals {
        clean(&mut approval.permission);
        clean(&mut approval.pattern);
    }
    facts.aside.iter_mut().for_each(|aside| clean(&mut aside.reason));
    for audit in &mut facts.audits {
        let cleaned = secret.clean_json(&audit.detail.to_string());
        if let Some(Ok(detail)) = cleaned.map(|json| serde_json::from_str(&json)) {
            audit.detail = detail;
        }
    }
    facts
}

/// What a session is without the secret.
async fn change(store: &Store, id: &SessionId, kept: &Kept, secret: &Secret) -> Result<Change, Error> {
    let log = kept::read(store, id, &kept.log).await?;
    let before = match rebuild::fold(id, &log) {
        Ok(replayed) => replayed,
        Err(error) if is_mentioned(kept, &log, secret) => return Ok(Change::Left(error.to_string())),
        Err(_) => return Ok(Change::None),
    };
    let named = named(store, kept, &log).await?;
    let put = put_blobs(store, kept, &named, secret).await?;
    let streams = secret.mask(&kept.streams);
    let names = put.iter().map(|(hash, blob)| (hash.to_hex(), blob.hash.to_hex()));
    let clean = match clean_log(kept, &log, &secret.with(names)) {
        Ok(clean) => clean,
        Err(reason) => return Ok(Change::Left(reason)),
    };
    if clean.rows.is_empty() && put.is_empty() && streams.is_empty() && !is_mentioned(kept, &log, secret) {
        return Ok(Change::None);
    }
    let after = match plan::replay(id, &clean.records) {
        Ok(Some(after)) if ids(&before) == ids(&after) => after,
        Ok(_) => return Ok(Change::Left("an id would have changed".to_owned())),
        Err(stuck) => {
            return Ok(Change::Left(format!("event {} would not fit: {}", stuck.seq, stuck.reason)));
        }
    };
    let mut anew = Anew::of(id, kept, &log, after);
    let changed: BTreeSet<u64> = clean.rows.iter().map(|row| row.seq).collect();
    anew.log.retain(|row| !changed.contains(&row.seq));
    anew.log.extend(clean.rows);
    anew.uses = clean.named;
    anew.blobs = clean.blobs;
    anew.unused = named.into_iter().chain(put.keys().copied()).collect();
    anew.blobs.extend(put.into_values());
    anew.streams = streams;
    anew.lift = false;
    for blob in anew.blobs.iter().chain(&anew.rows.blobs) {
        anew.unused.remove(&blob.hash);
    }
    anew.unused.retain(|hash| !anew.uses.contains(hash));
    Ok(Change::Clean(Box::new(anew)))
}

/// True when it is seen in rows that are not decoded, or in what could be read of the log.
fn is_mentioned(kept: &Kept, log: &Log, secret: &Secret) -> bool {
    let rows = &kept.rows;
    let texts = kept.log.iter().map(|row| &row.data);
    let texts = texts.chain(log.payloads.iter().map(|payload| &payload.json));
    let texts = texts.chain(rows.entries.iter().map(|row| &row.data));
    let texts = texts.chain(rows.parts.iter().map(|row| &row.data));
    let texts = texts.chain(rows.inbox.iter().filter_map(|row| row.data.as_ref()));
    let texts = texts.chain(rows.requests.iter().filter_map(|row| row.data.as_ref()));
    let mut texts =
        texts.chain(&rows.todos).chain(kept.session.iter().flat_map(|row| [&row.data, &row.title]));
    texts.any(|text| secret.is_in(text))
}

/// Every blob that the log or a row names.
async fn named(store: &Store, kept: &Kept, log: &Log) -> Result<BTreeSet<Hash>, Error> {
    let mut named = log.named.clone();
    let rows = kept.rows.entries.iter().map(|row| &row.data);
    let rows = rows.chain(kept.rows.parts.iter().map(|row| &row.data));
    for data in rows.chain(kept.rows.inbox.iter().filter_map(|row| row.data.as_ref())) {
        // What cannot be read is made anew anyway.
        drop(kept::json(store, data, &mut named).await?);
    }
    Ok(named)
}

/// The blobs that were put by themselves and hold the secret, each with what it becomes.
async fn put_blobs(
    store: &Store,
    kept: &Kept,
    named: &BTreeSet<Hash>,
    secret: &Secret,
) -> Result<BTreeMap<Hash, Blob>, Error> {
    let mut changed = BTreeMap::new();
    for hash in kept.uses.difference(named) {
        let Ok(Some(bytes)) = kept::fetch(store, *hash).await? else { continue };
        if let Some(clean) = secret.clean_bytes(&bytes) {
            let blob = Blob::of(&clean).map_err(|source| Error::Io { path: "compression".into(), source })?;
            changed.insert(*hash, blob);
        }
    }
    Ok(changed)
}

/// A log without the secret.
struct Clean {
    records: Vec<Record>,
    /// The rows that changed.
    rows: Vec<LogRow>,
    /// The blobs that those need.
    blobs: Vec<Blob>,
    /// The blobs that the other rows need.
    named: BTreeSet<Hash>,
}

fn clean_log(kept: &Kept, log: &Log, secret: &Secret) -> Result<Clean, String> {
    let mut clean =
        Clean { records: Vec::new(), rows: Vec::new(), blobs: Vec::new(), named: BTreeSet::new() };
    for ((row, record), payload) in kept.log.iter().zip(&log.records).zip(&log.payloads) {
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
            serde_json::from_str(&json).map_err(|error| unreadable(&error))?;
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
fn ids(replayed: &Replayed) -> Vec<String> {
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
