//! Bills: their lines, and what the lines of all of them come to.

use deadpool_postgres::ClientWrapper;
use everturn_model::{Millis, SessionId};
use tokio_postgres::Row;

use super::PostgresEngine;
use super::failure::ServerFailure;
use super::pool::{self, StatementValues};
use super::reader::count;
use super::rows::{GroupBatch, plain};
use super::upkeep::lock;
use crate::Error;
use crate::bill::{UseGroup, UseRow};
use crate::row::{BillRow, SpentSums};

/// The sum of a column. It is a number without limit here; ours have one.
fn sum(column: &str) -> String {
    format!("greatest(least(coalesce(sum({column}), 0), 9223372036854775807), 0)::bigint")
}

/// The sums of the columns of lines or sessions `t`.
fn sums_of(t: &str) -> String {
    let columns = ["input", "output", "reasoning", "cache_read", "cache_write", "cost"];
    columns.map(|column| sum(&format!("{t}.{column}"))).join(", ")
}

/// Lines of sessions of which all are there. One of an import of which nothing is left says nothing.
const LINES: &str = "bill b JOIN session s ON s.key = b.session
    AND NOT EXISTS (SELECT FROM unbilled x WHERE x.session = b.session) AND (b.input > 0 OR b.output > 0
    OR b.reasoning > 0 OR b.cache_read > 0 OR b.cache_write > 0 OR b.cost > 0)";

impl PostgresEngine {
    pub(crate) async fn uses(&self, group: UseGroup, since: Millis) -> Result<Vec<UseRow>, Error> {
        let rows = read!(self, client => uses(&client, &group, since))?;
        self.each(&rows, use_row)
    }

    pub(crate) async fn first_use(&self) -> Result<Option<Millis>, Error> {
        let rows = read!(self, client => pool::query(&client, "SELECT min(time) FROM bill", &[]))?;
        let first = self.each(&rows, |row| Ok(row.try_get::<_, Option<i64>>(0)?))?;
        Ok(first.into_iter().flatten().next())
    }

    pub(crate) async fn family_totals(&self, roots: Vec<SessionId>) -> Result<Vec<UseRow>, Error> {
        // Each session once, however they belong to each other.
        let sql = format!(
            "WITH RECURSIVE family (root, id) AS (
               SELECT u.id, u.id FROM unnest($1::text[] COLLATE \"C\") u (id)
               UNION SELECT f.root, s.id FROM family f JOIN session s ON s.parent = f.id
             )
             SELECT f.root, '', count(*), count(*), {} FROM family f JOIN session s ON s.id = f.id GROUP BY f.root",
            sums_of("s")
        );
        let roots: Vec<String> = roots.iter().map(|id| plain(id.as_str()).into_owned()).collect();
        let rows = read!(self, client => pool::query(&client, &sql, &[&roots]))?;
        self.each(&rows, use_row)
    }

    pub(crate) async fn unbilled(&self) -> Result<Vec<SessionId>, Error> {
        let sql = "SELECT s.id FROM unbilled u JOIN session s ON s.key = u.session ORDER BY u.session";
        let rows = read!(self, client => pool::query(&client, sql, &[]))?;
        self.each(&rows, |row| Ok(SessionId::new(row.try_get::<_, String>(0)?)))
    }

    pub(crate) async fn put_bill(&self, id: &SessionId, bill: Vec<BillRow>) -> Result<(), Error> {
        let link = self.begin().await?;
        let put = async {
            // It may have been deleted meanwhile.
            let Some(key) = lock(&link, id).await? else { return Ok(()) };
            let mut batch = GroupBatch::default();
            batch.add_bill(key, bill);
            batch.write(&link).await?;
            pool::query(&link.client, "DELETE FROM unbilled WHERE session = $1", &[&key]).await?;
            Ok(())
        };
        let outcome = put.await;
        self.finish(link, outcome).await
    }
}

/// The lines of a session's bill as they are, and whether these are all.
pub(super) async fn stored(client: &ClientWrapper, key: i64) -> Result<(Vec<BillRow>, bool), ServerFailure> {
    let sql = "SELECT seq, line, time, provider, model, source, input, output, reasoning, cache_read, cache_write, cost
               FROM bill WHERE session = $1 ORDER BY seq, line";
    let own: StatementValues<'_> = &[&key];
    let rows = pool::query(client, sql, own).await?;
    let bill = rows.iter().map(|row| {
        Ok(BillRow {
            seq: count(row, 0)?,
            line: count(row, 1)?,
            time: row.try_get(2)?,
            provider: row.try_get(3)?,
            model: row.try_get(4)?,
            source: row.try_get(5)?,
            spent: sums(row, 6)?,
        })
    });
    let bill = bill.collect::<Result<_, ServerFailure>>()?;
    let missing = pool::query(client, "SELECT FROM unbilled WHERE session = $1", own).await?;
    Ok((bill, missing.is_empty()))
}

fn sums(row: &Row, first: usize) -> Result<SpentSums, ServerFailure> {
    Ok(SpentSums {
        input: row.try_get(first)?,
        output: row.try_get(first + 1)?,
        reasoning: row.try_get(first + 2)?,
        cache_read: row.try_get(first + 3)?,
        cache_write: row.try_get(first + 4)?,
        cost: row.try_get(first + 5)?,
    })
}

fn use_row(row: &Row) -> Result<UseRow, ServerFailure> {
    let names = (row.try_get(0)?, row.try_get(1)?);
    Ok(UseRow { names, sessions: count(row, 2)?, uses: count(row, 3)?, spent: sums(row, 4)? })
}

async fn uses(client: &ClientWrapper, group: &UseGroup, since: Millis) -> Result<Vec<Row>, ServerFailure> {
    let sums = format!("count(DISTINCT b.session), count(b.session), {}", sums_of("b"));
    let (names, by) = match group {
        UseGroup::Everything => ("'', ''", ""),
        UseGroup::Model => ("b.provider, b.model", "GROUP BY 1, 2"),
        UseGroup::Project { by_folder } => {
            let sql = format!(
                "SELECT s.project, CASE WHEN s.project = $2 THEN s.directory ELSE '' END, {sums} FROM {LINES}
                 WHERE b.time >= $1 GROUP BY 1, 2"
            );
            return pool::query(client, &sql, &[&since, &plain(by_folder)]).await;
        }
        UseGroup::Spans(spans) => {
            let (from, to): (Vec<i64>, Vec<i64>) = spans.iter().copied().unzip();
            let sql = format!(
                "SELECT (e.place - 1)::text, '', {sums}
                 FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY e (first, last, place)
                 CROSS JOIN {LINES} WHERE b.time >= greatest($1, e.first) AND b.time < e.last GROUP BY e.place"
            );
            return pool::query(client, &sql, &[&since, &from, &to]).await;
        }
    };
    let sql = format!("SELECT {names}, {sums} FROM {LINES} WHERE b.time >= $1 {by}");
    pool::query(client, &sql, &[&since]).await
}
