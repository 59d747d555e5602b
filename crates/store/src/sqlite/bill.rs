//! Bills: their lines, and what the lines of all of them come to.

use everturn_model::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::SqliteEngine;
use super::stored_session::{all, count, number, text};
use crate::Error;
use crate::bill::{UseGroup, UseRow};
use crate::row::{BillRow, SpentSums};

/// The sums of lines `b`. A sum of ours is exact, and one of damaged numbers is no error.
const SUMS: &str = "count(DISTINCT b.session), count(*), CAST(total(b.input) AS INTEGER),
    CAST(total(b.output) AS INTEGER), CAST(total(b.reasoning) AS INTEGER), CAST(total(b.cache_read) AS INTEGER),
    CAST(total(b.cache_write) AS INTEGER), CAST(total(b.cost) AS INTEGER)";

/// Lines of sessions of which all are there. One of an import of which nothing is left says nothing.
const LINES: &str = "bill b JOIN session s ON s.key = b.session
    AND b.session NOT IN (SELECT session FROM unbilled) AND (b.input > 0 OR b.output > 0
    OR b.reasoning > 0 OR b.cache_read > 0 OR b.cache_write > 0 OR b.cost > 0)";

impl SqliteEngine {
    pub(crate) async fn uses(&self, group: UseGroup, since: Millis) -> Result<Vec<UseRow>, Error> {
        self.read(move |connection| uses(connection, &group, since)).await
    }

    pub(crate) async fn first_use(&self) -> Result<Option<Millis>, Error> {
        self.read(|connection| Ok(connection.query_row("SELECT min(time) FROM bill", [], |row| row.get(0))?))
            .await
    }

    pub(crate) async fn family_totals(&self, roots: Vec<SessionId>) -> Result<Vec<UseRow>, Error> {
        self.read(move |connection| family_totals(connection, &roots)).await
    }

    pub(crate) async fn unbilled(&self) -> Result<Vec<SessionId>, Error> {
        self.read(|connection| {
            let sql = "SELECT s.id FROM unbilled u JOIN session s ON s.key = u.session ORDER BY u.session";
            all(connection, sql, [], |row| Ok(SessionId::new(text(row, 0)?)))
        })
        .await
    }

    pub(crate) async fn put_bill(&self, id: &SessionId, bill: Vec<BillRow>) -> Result<(), Error> {
        let id = id.clone();
        let put_bill = move |connection: &Connection| {
            let sql = "SELECT key FROM session WHERE id = ?1";
            let key =
                connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0)).optional()?;
            // It may have been deleted meanwhile.
            let Some(key) = key else { return Ok(()) };
            put(connection, key, &bill)?;
            connection.prepare_cached("DELETE FROM unbilled WHERE session = ?1")?.execute([key])?;
            Ok(())
        };
        self.write(put_bill).await
    }
}

/// Writes lines of a session's bill.
pub(super) fn put(connection: &Connection, key: i64, bill: &[BillRow]) -> Result<(), Error> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO bill VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    for BillRow { seq, line, time, provider, model, source, spent } in bill {
        insert.execute(params![
            key,
            seq,
            line,
            time,
            provider,
            model,
            source,
            spent.input,
            spent.output,
            spent.reasoning,
            spent.cache_read,
            spent.cache_write,
            spent.cost
        ])?;
    }
    Ok(())
}

/// The lines of a session's bill as they are, and whether these are all.
pub(super) fn stored(connection: &Connection, key: i64) -> Result<(Vec<BillRow>, bool), Error> {
    let sql = "SELECT seq, line, time, provider, model, source, input, output, reasoning, cache_read, cache_write, cost
               FROM bill WHERE session = ?1 ORDER BY seq, line";
    let bill = all(connection, sql, [key], |row| {
        Ok(BillRow {
            seq: count(row, 0)?,
            line: count(row, 1)?,
            time: number(row, 2)?,
            provider: text(row, 3)?,
            model: text(row, 4)?,
            source: text(row, 5)?,
            spent: sums(row, 6)?,
        })
    })?;
    let missing = connection.prepare_cached("SELECT 1 FROM unbilled WHERE session = ?1")?.exists([key])?;
    Ok((bill, !missing))
}

fn sums(row: &Row<'_>, first: usize) -> rusqlite::Result<SpentSums> {
    Ok(SpentSums {
        input: number(row, first)?,
        output: number(row, first + 1)?,
        reasoning: number(row, first + 2)?,
        cache_read: number(row, first + 3)?,
        cache_write: number(row, first + 4)?,
        cost: number(row, first + 5)?,
    })
}

fn use_row(row: &Row<'_>) -> rusqlite::Result<UseRow> {
    let names = (text(row, 0)?, text(row, 1)?);
    Ok(UseRow { names, sessions: count(row, 2)?, uses: count(row, 3)?, spent: sums(row, 4)? })
}

fn uses(connection: &Connection, group: &UseGroup, since: Millis) -> Result<Vec<UseRow>, Error> {
    let (names, by) = match group {
        UseGroup::Everything => ("'', ''", ""),
        UseGroup::Model => ("b.provider, b.model", "GROUP BY 1, 2"),
        UseGroup::Project { by_folder } => {
            let sql = format!(
                "SELECT s.project, CASE WHEN s.project = ?2 THEN s.directory ELSE '' END, {SUMS} FROM {LINES}
                 WHERE b.time >= ?1 GROUP BY 1, 2"
            );
            return all(connection, &sql, params![since, by_folder], use_row);
        }
        UseGroup::Spans(spans) => {
            let spans = serde_json::to_string(spans).unwrap_or_default();
            let sql = format!(
                "SELECT e.key, '', {SUMS} FROM json_each(?2) e CROSS JOIN {LINES}
                 WHERE b.time >= max(?1, e.value ->> 0) AND b.time < e.value ->> 1 GROUP BY e.key"
            );
            return all(connection, &sql, params![since, spans], use_row);
        }
    };
    let sql = format!("SELECT {names}, {SUMS} FROM {LINES} WHERE b.time >= ?1 {by}");
    all(connection, &sql, [since], use_row)
}

fn family_totals(connection: &Connection, roots: &[SessionId]) -> Result<Vec<UseRow>, Error> {
    let roots: Vec<&str> = roots.iter().map(SessionId::as_str).collect();
    let roots = serde_json::to_string(&roots).unwrap_or_default();
    // Each session once, however they belong to each other.
    let sql = "WITH RECURSIVE family (root, id) AS (
                 SELECT value, value FROM json_each(?1)
                 UNION SELECT f.root, s.id FROM family f JOIN session s ON s.parent = f.id
               )
               SELECT f.root, '', count(*), count(*), CAST(total(s.input) AS INTEGER), CAST(total(s.output) AS INTEGER),
                 CAST(total(s.reasoning) AS INTEGER), CAST(total(s.cache_read) AS INTEGER),
                 CAST(total(s.cache_write) AS INTEGER), CAST(total(s.cost) AS INTEGER)
               FROM family f JOIN session s ON s.id = f.id GROUP BY f.root";
    all(connection, sql, [roots], use_row)
}
