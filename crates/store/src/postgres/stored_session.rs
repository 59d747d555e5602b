//! A session's rows as they are, for upkeep: nothing is decoded.

use deadpool_postgres::ClientWrapper;
use everturn_model::SessionId;
use tokio_postgres::Row;

use super::bill;
use super::failure::ServerFailure;
use super::pool::{StatementValues, query};
use super::reader::count;
use crate::payload::Hash;
use crate::row::{EntryRow, InboxRow, LogRow, PartRow, RequestRow, Rows, SessionRow, SpentSums};
use crate::upkeep::stored_session::{StoredSession, StreamRow, TextPlace};

/// The text in a column of bytes; if it is not text, something that nobody can take for the value.
fn text(row: &Row, column: usize) -> Result<String, ServerFailure> {
    Ok(String::from_utf8_lossy(row.try_get(column)?).into_owned())
}

fn each<T>(rows: &[Row], of: impl FnMut(&Row) -> Result<T, ServerFailure>) -> Result<Vec<T>, ServerFailure> {
    rows.iter().map(of).collect()
}

pub(super) async fn stored(
    client: &ClientWrapper,
    id: &SessionId,
) -> Result<Option<StoredSession>, ServerFailure> {
    let sql = "SELECT key, id, seq, project, directory, parent, title, folded, created, updated, archived, trashed, open,
               input, output, reasoning, cache_read, cache_write, cost, data FROM session WHERE id = $1";
    let found = query(client, sql, &[&id.as_str()]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let key: i64 = row.try_get(0)?;
    let own: StatementValues<'_> = &[&key];
    let (texts, uses, streams) = tokio::try_join!(
        query(client, "SELECT entry, part FROM text WHERE session = $1", own),
        query(client, "SELECT hash FROM blob_use WHERE session = $1", own),
        query(client, "SELECT part, start, text FROM stream WHERE session = $1 ORDER BY part, start", own),
    )?;
    let texts =
        each(&texts, |row| Ok(TextPlace { entry: row.try_get(0)?, part: row.try_get(1)?, indexed: true }))?;
    let uses = each(&uses, |row| Ok(Hash::from_slice(row.try_get(0)?)))?;
    let streams = each(&streams, |row| {
        Ok(StreamRow { part: row.try_get(0)?, start: count(row, 1)?, text: text(row, 2)? })
    })?;
    let (bill, billed) = bill::stored(client, key).await?;
    Ok(Some(StoredSession {
        session: Some(session(row)?),
        log: log(client, key).await?,
        rows: Rows { bill, ..rows(client, key).await? },
        billed,
        texts,
        uses: uses.into_iter().flatten().collect(),
        streams,
    }))
}

fn session(row: &Row) -> Result<SessionRow, ServerFailure> {
    Ok(SessionRow {
        id: row.try_get(1)?,
        seq: count(row, 2)?,
        project: row.try_get(3)?,
        directory: row.try_get(4)?,
        parent: row.try_get(5)?,
        title: row.try_get(6)?,
        folded: row.try_get(7)?,
        created: row.try_get(8)?,
        updated: row.try_get(9)?,
        archived: row.try_get(10)?,
        trashed: row.try_get(11)?,
        open: row.try_get(12)?,
        spent: SpentSums {
            input: row.try_get(13)?,
            output: row.try_get(14)?,
            reasoning: row.try_get(15)?,
            cache_read: row.try_get(16)?,
            cache_write: row.try_get(17)?,
            cost: row.try_get(18)?,
        },
        data: text(row, 19)?,
    })
}

/// A session's log.
pub(super) async fn log(client: &ClientWrapper, key: i64) -> Result<Vec<LogRow>, ServerFailure> {
    let sql = "SELECT seq, id, time, type, epoch, data FROM event WHERE session = $1 ORDER BY seq";
    let rows = query(client, sql, &[&key]).await?;
    each(&rows, |row| {
        Ok(LogRow {
            seq: count(row, 0)?,
            id: row.try_get(1)?,
            time: row.try_get(2)?,
            name: row.try_get(3)?,
            epoch: row.try_get::<_, Option<i64>>(4)?.and_then(|epoch| u64::try_from(epoch).ok()),
            data: text(row, 5)?,
        })
    })
}

async fn rows(client: &ClientWrapper, key: i64) -> Result<Rows, ServerFailure> {
    let own: StatementValues<'_> = &[&key];
    let (entries, parts, inbox, requests, todos) = tokio::try_join!(
        query(client, "SELECT id, ord, parent, data FROM entry WHERE session = $1 ORDER BY ord", own),
        query(client, "SELECT entry, id, ord, data FROM part WHERE session = $1 ORDER BY entry, ord", own),
        query(client, "SELECT id, ord, data FROM inbox WHERE session = $1 ORDER BY ord", own),
        query(client, "SELECT id, data FROM request WHERE session = $1 ORDER BY id", own),
        query(client, "SELECT data FROM todo WHERE session = $1", own),
    )?;
    let entries = each(&entries, |row| {
        let (id, order) = (row.try_get(0)?, row.try_get(1)?);
        Ok(EntryRow { id, order, parent: row.try_get(2)?, data: text(row, 3)? })
    })?;
    let parts = each(&parts, |row| {
        let (entry, id) = (row.try_get(0)?, row.try_get(1)?);
        Ok(PartRow { entry, id, order: row.try_get(2)?, data: text(row, 3)? })
    })?;
    let inbox = each(&inbox, |row| {
        Ok(InboxRow { id: row.try_get(0)?, order: row.try_get(1)?, data: Some(text(row, 2)?) })
    })?;
    let requests = each(&requests, |row| Ok(RequestRow { id: row.try_get(0)?, data: Some(text(row, 1)?) }))?;
    let todos = todos.first().map(|row| text(row, 0)).transpose()?;
    Ok(Rows { entries, parts, inbox, requests, todos, ..Rows::default() })
}
