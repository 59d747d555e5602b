//! The first half of a group's transaction: locking its sessions and loading what the appends touch.

use std::collections::{HashMap, HashSet};

use everturn_model::request::Request;
use everturn_model::subject::EventPayload;
use everturn_model::{Event, EventId, Session, SessionId, fold};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::blob::{self, Blobs};
use super::failure::ServerFailure;
use super::link::WriterConnection;
use super::pool::StatementValues;
use super::reader::count;
use crate::Error;
use crate::append::StreamPiece;
use crate::plan::{AppendRequest, KnownEvent, NeededRows, SessionState};
use crate::shape::{self, decode};

/// Why a session takes no appends.
#[derive(Debug, Clone)]
enum SessionRefusal {
    Purged,
    Quarantined(String),
    Damaged { place: String, reason: String },
}

impl SessionRefusal {
    fn of(error: Error) -> Self {
        match error {
            Error::Corrupt { place, reason, .. } => Self::Damaged { place, reason },
            other => Self::Damaged { place: String::new(), reason: other.to_string() },
        }
    }

    fn error(&self, session: &SessionId) -> Error {
        match self.clone() {
            Self::Purged => Error::Purged(session.clone()),
            Self::Quarantined(reason) => Error::Quarantined { session: session.clone(), reason },
            Self::Damaged { place, reason } => Error::Corrupt { session: session.to_string(), place, reason },
        }
    }
}

/// A session of the group; its row is locked if there is one.
#[derive(Debug)]
pub(super) struct LoadedSession {
    /// The key of its row, or the one it will have.
    pub(super) key: i64,
    /// Its state; none when there is no such session.
    pub(super) state: Option<SessionState>,
    refusal: Option<SessionRefusal>,
}

impl LoadedSession {
    /// Refuses appends to a session that takes none.
    pub(super) fn check(&self, session: &SessionId) -> Result<(), Error> {
        self.refusal.as_ref().map_or(Ok(()), |refusal| Err(refusal.error(session)))
    }

    /// Whether the lease of a piece of streamed text holds.
    pub(super) fn admits(&self, piece: &StreamPiece) -> bool {
        self.state.as_ref().is_some_and(|state| {
            state.owner.as_ref() == Some(&piece.lease.owner) && state.epoch == piece.lease.epoch
        })
    }
}

/// A row as it was loaded: kind, order, entry of a part, data.
type LoadedRow<'r> = (i32, i64, &'r str, &'r [u8]);

/// What a group of appends has to see.
#[derive(Debug)]
pub(super) struct LoadedGroup {
    /// The number of the transaction.
    pub(super) xid: String,
    pub(super) sessions: HashMap<SessionId, LoadedSession>,
    known: HashMap<EventId, KnownEvent>,
    /// Known events that cannot be understood.
    unknown: HashMap<EventId, SessionRefusal>,
    /// The sessions that wait for an answer under an id.
    waiting: HashMap<String, i64>,
}

impl LoadedGroup {
    /// Begins the transaction, locks the sessions and loads what the appends touch.
    pub(super) async fn load(
        link: &WriterConnection,
        appends: &[&AppendRequest],
        pieces: &[StreamPiece],
    ) -> Result<Self, ServerFailure> {
        let own = appends.iter().map(|asked| &asked.session);
        let ids: HashSet<&str> =
            own.chain(pieces.iter().map(|piece| &piece.lease.session)).map(SessionId::as_str).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let events: Vec<&str> =
            appends.iter().flat_map(|asked| &asked.events).map(|event| event.id.as_str()).collect();
        let statements = &link.statements;
        // Streamed text alone need not wait for the disk: what is lost is at most the newest of it.
        let begin = if appends.is_empty() { "BEGIN; SET LOCAL synchronous_commit = off" } else { "BEGIN" };
        let (sessions, events): (StatementValues<'_>, StatementValues<'_>) = (&[&ids], &[&events]);
        let (_, locked, xid, purged, quarantined, known) = tokio::try_join!(
            biased;
            link.run(begin),
            link.query(&statements.lock, sessions),
            link.query(&statements.xid, &[]),
            link.query(&statements.purged, sessions),
            link.query(&statements.quarantined, sessions),
            link.query(&statements.known, events),
        )?;
        let xid = xid.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        let mut loaded = Self {
            xid,
            sessions: HashMap::new(),
            known: HashMap::new(),
            unknown: HashMap::new(),
            waiting: HashMap::new(),
        };
        for row in &locked {
            loaded.enter(row)?;
        }
        for row in &quarantined {
            if let Some(session) = loaded.sessions.get_mut(&SessionId::new(row.try_get::<_, String>(0)?)) {
                session.refusal = Some(SessionRefusal::Quarantined(row.try_get(1)?));
            }
        }
        let mut absent: Vec<SessionId> = Vec::new();
        for asked in appends {
            if !loaded.sessions.contains_key(&asked.session) && !absent.contains(&asked.session) {
                absent.push(asked.session.clone());
            }
        }
        for row in &known {
            // Made by another process after the rows were locked: to be seen whole, it has to be looked for again.
            if absent.iter().any(|id| row.try_get::<_, &str>(1).is_ok_and(|session| session == id.as_str())) {
                let text = "the session was made by somebody else at the same moment".to_owned();
                return Err(ServerFailure::Statement { code: SqlState::T_R_SERIALIZATION_FAILURE, text });
            }
        }
        let wanted = WantedRows::of(&loaded.sessions, appends);
        let free = i64::try_from(absent.len()).unwrap_or(i64::MAX);
        let asked: Vec<&str> = appends.iter().flat_map(|asked| requests(asked)).collect();
        let (keys, rows, waiting) = tokio::try_join!(
            async { if free > 0 { link.query(&statements.keys, &[&free]).await } else { Ok(Vec::new()) } },
            wanted.fetch(link),
            async {
                if asked.is_empty() { Ok(Vec::new()) } else { link.query(&statements.asked, &[&asked]).await }
            },
        )?;
        for row in &waiting {
            loaded.waiting.insert(row.try_get(0)?, row.try_get(1)?);
        }
        let purged: Vec<String> = purged.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        for (id, row) in absent.into_iter().zip(&keys) {
            let refusal = purged.iter().any(|purged| purged == id.as_str()).then_some(SessionRefusal::Purged);
            loaded.sessions.insert(id, LoadedSession { key: row.try_get(0)?, state: None, refusal });
        }
        loaded.fill(link, &known, &rows).await?;
        Ok(loaded)
    }

    /// Refuses an append that asks under an id under which another session waits; notes those that are free.
    pub(super) fn reserve(&mut self, asked: &AppendRequest, key: i64) -> Result<(), Error> {
        for id in requests(asked) {
            let holder = *self.waiting.entry(id.to_owned()).or_insert(key);
            if holder != key {
                let source = fold::Error::Taken(id.to_owned());
                return Err(Error::Unfit { session: asked.session.clone(), source });
            }
        }
        Ok(())
    }

    fn enter(&mut self, row: &Row) -> Result<(), ServerFailure> {
        let id: String = row.try_get(1)?;
        let session =
            blob::text(&id, "session", row.try_get(5)?).and_then(|data| decode(&id, "session", data));
        let (state, refusal) = match session {
            Ok(session) => {
                let session: Session = session;
                let tree = shape::tree(session, Vec::new(), shape::Parts::default());
                let (seq, epoch) = (count(row, 2)?, count(row, 4)?);
                let changed = row.try_get::<_, &str>(6)?.parse().unwrap_or_default();
                let state = SessionState { seq, tree, owner: row.try_get(3)?, epoch, changed };
                (Some(state), None)
            }
            Err(error) => (None, Some(SessionRefusal::of(error))),
        };
        self.sessions.insert(SessionId::new(id), LoadedSession { key: row.try_get(0)?, state, refusal });
        Ok(())
    }

    /// Puts what was loaded into the rooms.
    async fn fill(
        &mut self,
        link: &WriterConnection,
        known: &[Row],
        rows: &[Row],
    ) -> Result<(), ServerFailure> {
        let mut events = Vec::with_capacity(known.len());
        for row in known {
            let (id, session): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            match blob::text(&session, "event", row.try_get(3)?) {
                Ok(data) => events.push((EventId::new(id), SessionId::new(session), count(row, 2)?, data)),
                Err(error) => drop(self.unknown.insert(EventId::new(id), SessionRefusal::of(error))),
            }
        }
        let mut found: HashMap<i64, Vec<LoadedRow<'_>>> = HashMap::new();
        let mut payloads: Vec<&str> = events.iter().map(|(_, _, _, data)| *data).collect();
        for row in rows {
            let data: &[u8] = row.try_get(4)?;
            payloads.extend(std::str::from_utf8(data));
            let key = row.try_get(1)?;
            found.entry(key).or_default().push((row.try_get(0)?, row.try_get(2)?, row.try_get(3)?, data));
        }
        let blobs = Blobs::of(&link.client, payloads.into_iter()).await?;
        for (id, session, seq, data) in events {
            match blobs.decode::<EventPayload>(session.as_str(), &format!("event {seq}"), data) {
                Ok(EventPayload { event, .. }) => {
                    self.known.insert(id.clone(), KnownEvent { id, session, seq, event });
                }
                Err(error) => drop(self.unknown.insert(id, SessionRefusal::of(error))),
            }
        }
        for (id, session) in &mut self.sessions {
            let Some(state) = &mut session.state else { continue };
            let rows = found.remove(&session.key).unwrap_or_default();
            if let Err(error) = furnish(state, id.as_str(), rows, &blobs) {
                session.refusal = Some(SessionRefusal::of(error));
            }
        }
        Ok(())
    }

    /// Events of the append that are in the log already.
    pub(super) fn known(&self, asked: &AppendRequest) -> Result<Vec<KnownEvent>, Error> {
        let damaged = asked.events.iter().find_map(|new| self.unknown.get(&new.id));
        if let Some(damaged) = damaged {
            return Err(damaged.error(&asked.session));
        }
        Ok(asked.events.iter().filter_map(|new| self.known.get(&new.id)).cloned().collect())
    }

    /// Remembers an event that the group itself appends.
    pub(super) fn remember(&mut self, known: KnownEvent) {
        self.known.insert(known.id.clone(), known);
    }
}

/// Puts rows of kind, order, entry and data into a session's tree.
fn furnish(
    state: &mut SessionState,
    session: &str,
    rows: Vec<(i32, i64, &str, &[u8])>,
    blobs: &Blobs,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let (mut entries, mut parts, mut inbox) = (Vec::new(), shape::Parts::default(), Vec::new());
    let (mut requests, mut todos) = (Vec::new(), Vec::new());
    for (kind, order, entry, data) in rows {
        let data = blob::text(session, "row", data)?;
        match kind {
            0 => entries.push((order, blobs.decode(session, "entry", data)?)),
            1 => parts.add(entry, order, blobs.decode(session, "part", data)?),
            2 => inbox.push((order, blobs.decode(session, "inbox", data)?)),
            3 => requests.push(decode::<Request>(session, "request", data)?),
            _ => todos = decode(session, "todo", data)?,
        }
    }
    let mut tree = shape::tree(state.tree.session.clone(), entries, parts);
    inbox.sort_by_key(|(order, _)| *order);
    tree.inbox = inbox.into_iter().map(|(_, item)| item).collect();
    tree.requests = requests.into_iter().map(|request| (request.id.clone(), request)).collect();
    tree.todos = todos;
    state.tree = tree;
    Ok(())
}

/// The rows that the appends touch, each once.
#[derive(Debug, Default)]
struct WantedRows {
    whole: HashSet<i64>,
    entries: HashSet<(i64, String)>,
    parts: HashSet<(i64, String, String)>,
    inbox: HashSet<(i64, String)>,
    requests: HashSet<(i64, String)>,
}

impl WantedRows {
    fn of(sessions: &HashMap<SessionId, LoadedSession>, appends: &[&AppendRequest]) -> Self {
        let mut wanted = Self::default();
        for asked in appends {
            let Some(session) = sessions.get(&asked.session).filter(|session| session.refusal.is_none())
            else {
                continue;
            };
            let NeededRows { whole, entries, parts, inbox, requests } =
                NeededRows::of(asked.events.iter().map(|new| &new.event));
            let key = session.key;
            if whole {
                wanted.whole.insert(key);
            }
            wanted.entries.extend(entries.iter().map(|id| (key, id.to_string())));
            wanted.parts.extend(parts.iter().map(|(entry, id)| (key, entry.to_string(), id.to_string())));
            wanted.inbox.extend(inbox.iter().map(|id| (key, id.to_string())));
            wanted.requests.extend(requests.iter().map(|id| (key, id.to_string())));
        }
        // A whole session has them all.
        let Self { whole, entries, parts, inbox, requests } = &mut wanted;
        entries.retain(|(key, _)| !whole.contains(key));
        parts.retain(|(key, _, _)| !whole.contains(key));
        inbox.retain(|(key, _)| !whole.contains(key));
        requests.retain(|(key, _)| !whole.contains(key));
        wanted
    }

    async fn fetch(&self, link: &WriterConnection) -> Result<Vec<Row>, ServerFailure> {
        let (entry_keys, entries) = split(&self.entries);
        let (inbox_keys, inbox) = split(&self.inbox);
        let (request_keys, requests) = split(&self.requests);
        let part_keys: Vec<i64> = self.parts.iter().map(|(key, _, _)| *key).collect();
        let part_entries: Vec<&str> = self.parts.iter().map(|(_, entry, _)| entry.as_str()).collect();
        let parts: Vec<&str> = self.parts.iter().map(|(_, _, id)| id.as_str()).collect();
        let whole: Vec<i64> = self.whole.iter().copied().collect();
        let touched = entries.len() + parts.len() + inbox.len() + requests.len();
        let (mut rows, all) = tokio::try_join!(
            async {
                if touched == 0 {
                    return Ok(Vec::new());
                }
                link.query(
                    &link.statements.touched,
                    &[
                        &entry_keys,
                        &entries,
                        &part_keys,
                        &part_entries,
                        &parts,
                        &inbox_keys,
                        &inbox,
                        &request_keys,
                        &requests,
                    ],
                )
                .await
            },
            async {
                if whole.is_empty() {
                    return Ok(Vec::new());
                }
                link.query(&link.statements.whole, &[&whole]).await
            },
        )?;
        rows.extend(all);
        Ok(rows)
    }
}

fn split(pairs: &HashSet<(i64, String)>) -> (Vec<i64>, Vec<&str>) {
    pairs.iter().map(|(key, id)| (*key, id.as_str())).unzip()
}

/// The requests that an append asks.
fn requests(asked: &AppendRequest) -> impl Iterator<Item = &str> {
    asked.events.iter().filter_map(|new| match &new.event {
        Event::RequestAsked { request } => Some(request.id.as_str()),
        _ => None,
    })
}
