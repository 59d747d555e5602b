//! The logs of many sessions at once, with the rows that their events touch.
//!
//! However many sessions there are, it takes the same few questions: an answer can be far away. What cannot be understood
//! of one session is its own failure.

use deadpool_postgres::ClientWrapper;
use everturn_model::subject::EventPayload;
use everturn_model::{EventId, Record, Session, SessionId, Tree};
use tokio_postgres::Row;

use super::blob::{self, Blobs};
use super::failure::ServerFailure;
use super::pool::query;
use super::reader::count;
use crate::Error;
use crate::feed::excerpt::{self, Excerpt, FoundLog, WantedLog};
use crate::shape::{self, decode};

/// The session rows, and where each log is to be read from. A session's events are committed in their order, so those
/// after a moment are the end of its log: walking back from there stops at the first one that was visible.
const SESSIONS: &str = "
    SELECT u.place, s.key, s.seq, s.data, coalesce(u.first, (
      SELECT e.seq + 1 FROM event e WHERE e.session = s.key
      AND pg_visible_in_snapshot(e.stamp, $3::text::pg_snapshot) ORDER BY e.seq DESC LIMIT 1
    ), 0)
    FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY u (id, first, place) JOIN session s ON s.id = u.id";

const EVENTS: &str = "
    SELECT u.place, e.seq, e.id, e.data, e.time
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u (place, session, first)
    CROSS JOIN LATERAL (
      SELECT seq, id, data, time FROM event WHERE session = u.session AND seq >= u.first ORDER BY seq LIMIT $4
    ) e ORDER BY u.place, e.seq";

/// Kind, place, order, entry of a part, data.
const ROWS: &str = "
    SELECT 0, u.place, e.ord, '', e.data
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) u (place, session, id)
    JOIN entry e ON e.session = u.session AND e.id = u.id
    UNION ALL
    SELECT 1, u.place, p.ord, p.entry, p.data
    FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::text[]) u (place, session, entry, id)
    JOIN part p ON p.session = u.session AND p.entry = u.entry AND p.id = u.id
    UNION ALL
    SELECT 2, u.place, i.ord, '', i.data
    FROM unnest($8::bigint[], $9::bigint[], $10::text[]) u (place, session, id)
    JOIN inbox i ON i.session = u.session AND i.id = u.id";

/// What is known of a log that is being read.
struct OpenLog {
    id: SessionId,
    key: i64,
    head: u64,
    first: i64,
    session: Session,
    records: Vec<Record>,
    rows: LogRows,
}

/// The rows that a log's events touch.
#[derive(Default)]
struct LogRows {
    entries: Vec<(i64, everturn_model::Entry)>,
    parts: shape::Parts,
    inbox: Vec<(i64, everturn_model::inbox::InboxItem)>,
}

impl OpenLog {
    fn of(id: &SessionId, row: &Row) -> Result<Result<Self, Error>, ServerFailure> {
        let (key, head, first) = (row.try_get(1)?, count(row, 2)?, row.try_get(4)?);
        let data: &[u8] = row.try_get(3)?;
        let session = blob::text(id.as_str(), "session", data)
            .and_then(|data| decode::<Session>(id.as_str(), "session", data));
        let (id, records, rows) = (id.clone(), Vec::new(), LogRows::default());
        Ok(session.map(|session| Self { id, key, head, first, session, records, rows }))
    }

    fn add_event(&mut self, row: &Row, blobs: &Blobs) -> Result<Result<(), Error>, ServerFailure> {
        let (seq, id) = (count(row, 1)?, EventId::new(row.try_get::<_, &str>(2)?));
        let (data, time): (&[u8], i64) = (row.try_get(3)?, row.try_get(4)?);
        let (name, place) = (self.id.as_str(), format!("event {seq}"));
        let payload =
            blob::text(name, &place, data).and_then(|data| blobs.decode::<EventPayload>(name, &place, data));
        Ok(payload.map(|EventPayload { event, subject }| {
            self.records.push(Record { id, session: self.id.clone(), seq, time, event, subject });
        }))
    }

    fn add_row(&mut self, row: &Row, blobs: &Blobs) -> Result<Result<(), Error>, ServerFailure> {
        let (kind, order): (i32, i64) = (row.try_get(0)?, row.try_get(2)?);
        let (entry, data): (&str, &[u8]) = (row.try_get(3)?, row.try_get(4)?);
        Ok(self.understand(kind, order, entry, data, blobs))
    }

    fn understand(
        &mut self,
        kind: i32,
        order: i64,
        entry: &str,
        data: &[u8],
        blobs: &Blobs,
    ) -> Result<(), Error> {
        let name = self.id.as_str();
        let data = blob::text(name, "row", data)?;
        match kind {
            0 => self.rows.entries.push((order, blobs.decode(name, "entry", data)?)),
            1 => self.rows.parts.add(entry, order, blobs.decode(name, "part", data)?),
            _ => self.rows.inbox.push((order, blobs.decode(name, "inbox", data)?)),
        }
        Ok(())
    }

    fn finish(self) -> Excerpt {
        let LogRows { entries, parts, mut inbox } = self.rows;
        let mut rows: Tree = shape::tree(self.session, entries, parts);
        inbox.sort_by_key(|(order, _)| *order);
        rows.inbox = inbox.into_iter().map(|(_, item)| item).collect();
        Excerpt { head: self.head, records: self.records, rows }
    }
}

/// The logs in the order in which they are asked for; one that cannot be understood is an error in its place.
struct OpenLogs(Vec<Result<Option<OpenLog>, Error>>);

impl OpenLogs {
    /// Those that can be read, each with its place, which counts from one.
    fn readable(&self) -> impl Iterator<Item = (i64, &OpenLog)> {
        (1..).zip(&self.0).filter_map(|(place, log)| Some((place, log.as_ref().ok()?.as_ref()?)))
    }

    /// Adds a row to the log whose place it names in a column.
    fn add(
        &mut self,
        row: &Row,
        column: usize,
        add: impl FnOnce(&mut OpenLog) -> Result<Result<(), Error>, ServerFailure>,
    ) -> Result<(), ServerFailure> {
        let Some(log) = self.at(row, column)? else { return Ok(()) };
        if let Ok(Some(open)) = log
            && let Err(error) = add(open)?
        {
            *log = Err(error);
        }
        Ok(())
    }

    fn at(
        &mut self,
        row: &Row,
        column: usize,
    ) -> Result<Option<&mut Result<Option<OpenLog>, Error>>, ServerFailure> {
        let place = usize::try_from(row.try_get::<_, i64>(column)?).ok();
        Ok(place.and_then(|place| place.checked_sub(1)).and_then(|place| self.0.get_mut(place)))
    }
}

/// Reads up to `limit` events of each log. `since` is the moment that the look began from, as the server writes it.
pub(super) async fn read(
    client: &ClientWrapper,
    wanted: &[WantedLog],
    since: &str,
    limit: usize,
) -> Result<Vec<FoundLog>, ServerFailure> {
    let ids: Vec<&str> = wanted.iter().map(|wanted| wanted.session.as_str()).collect();
    let number = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
    let firsts: Vec<Option<i64>> = wanted.iter().map(|wanted| wanted.first.map(number)).collect();
    let mut logs = OpenLogs(wanted.iter().map(|_| Ok(None)).collect());
    for row in query(client, SESSIONS, &[&ids, &firsts, &since]).await? {
        let id = usize::try_from(row.try_get::<_, i64>(0)?)
            .ok()
            .and_then(|place| wanted.get(place.checked_sub(1)?));
        if let Some(WantedLog { session, .. }) = id {
            let opened = OpenLog::of(session, &row)?;
            if let Some(log) = logs.at(&row, 0)? {
                *log = opened.map(Some);
            }
        }
    }
    read_events(client, &mut logs, i64::try_from(limit).unwrap_or(i64::MAX)).await?;
    read_rows(client, &mut logs).await?;
    Ok(logs.0.into_iter().map(|log| log.map(|log| log.map(OpenLog::finish))).collect())
}

async fn read_events(client: &ClientWrapper, logs: &mut OpenLogs, limit: i64) -> Result<(), ServerFailure> {
    let (mut places, mut keys, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    for (place, log) in logs.readable() {
        places.push(place);
        keys.push(log.key);
        firsts.push(log.first);
    }
    if places.is_empty() {
        return Ok(());
    }
    let rows = query(client, EVENTS, &[&places, &keys, &firsts, &limit]).await?;
    let blobs = blobs_of(client, &rows, 3).await?;
    for row in &rows {
        logs.add(row, 0, |log| log.add_event(row, &blobs))?;
    }
    Ok(())
}

async fn read_rows(client: &ClientWrapper, logs: &mut OpenLogs) -> Result<(), ServerFailure> {
    let (mut entries, mut parts, mut inbox) = (Vec::new(), Vec::new(), Vec::new());
    for (place, log) in logs.readable() {
        let needs = excerpt::needed(&log.records);
        entries.extend(needs.entries.into_iter().map(|id| (place, log.key, id.to_string())));
        inbox.extend(needs.inbox.into_iter().map(|id| (place, log.key, id.to_string())));
        let own = needs.parts.into_iter();
        parts.extend(own.map(|(entry, id)| (place, log.key, entry.to_string(), id.to_string())));
    }
    if entries.is_empty() && parts.is_empty() && inbox.is_empty() {
        return Ok(());
    }
    let (entry_places, entry_keys, entries) = columns(&entries);
    let (inbox_places, inbox_keys, inbox) = columns(&inbox);
    let part_places: Vec<i64> = parts.iter().map(|(place, ..)| *place).collect();
    let part_keys: Vec<i64> = parts.iter().map(|(_, key, ..)| *key).collect();
    let part_entries: Vec<&str> = parts.iter().map(|(_, _, entry, _)| entry.as_str()).collect();
    let parts: Vec<&str> = parts.iter().map(|(.., id)| id.as_str()).collect();
    let rows = query(
        client,
        ROWS,
        &[
            &entry_places,
            &entry_keys,
            &entries,
            &part_places,
            &part_keys,
            &part_entries,
            &parts,
            &inbox_places,
            &inbox_keys,
            &inbox,
        ],
    )
    .await?;
    let blobs = blobs_of(client, &rows, 4).await?;
    for row in &rows {
        logs.add(row, 1, |log| log.add_row(row, &blobs))?;
    }
    Ok(())
}

fn columns(rows: &[(i64, i64, String)]) -> (Vec<i64>, Vec<i64>, Vec<&str>) {
    let places = rows.iter().map(|(place, ..)| *place).collect();
    let keys = rows.iter().map(|(_, key, _)| *key).collect();
    (places, keys, rows.iter().map(|(.., id)| id.as_str()).collect())
}

/// The blobs that rows name in a column of data.
async fn blobs_of(client: &ClientWrapper, rows: &[Row], column: usize) -> Result<Blobs, ServerFailure> {
    let mut texts = Vec::with_capacity(rows.len());
    for row in rows {
        // What is no text is a failure of its session, which shows when it is read.
        texts.extend(std::str::from_utf8(row.try_get::<_, &[u8]>(column)?));
    }
    Blobs::of(client, texts.into_iter()).await
}
