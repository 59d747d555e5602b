//! Lists of sessions: pages, children, totals, search, and what changed.

use deadpool_postgres::ClientWrapper;
use everturn_model::{Session, SessionId, Tokens};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::blob;
use super::failure::ServerFailure;
use super::pool::query;
use super::reader::count;
use super::rows::plain;
use crate::query::{Filter, Search, Totals};
use crate::row::SpentSums;
use crate::search::IndexedPlace;
use crate::shape::decode;
use crate::words::WordQuery;

/// A session in a list, with its place in it.
pub(super) type Listed = (Session, (i64, i64));

/// A condition in SQL, and the values it names.
#[derive(Default)]
struct Condition {
    sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Condition {
    /// The conditions that a filter means.
    fn of(filter: &Filter) -> Self {
        let mut condition = Self::default();
        condition.sql.push_str(if filter.trashed { "trashed IS NOT NULL" } else { "trashed IS NULL" });
        if let Some(project) = &filter.project {
            condition.also(" AND project = ", plain(project).into_owned());
        }
        if let Some(directory) = &filter.directory {
            condition.also(" AND directory = ", plain(directory).into_owned());
        }
        if let Some(since) = filter.since {
            condition.also(" AND updated >= ", since);
        }
        if let Some(text) = &filter.search {
            condition.also(" AND 0 < strpos(folded, ", plain(&text.to_lowercase()).into_owned());
            condition.sql.push(')');
        }
        if let Some(parent) = &filter.parent {
            condition.also(" AND parent = ", plain(parent.as_str()).into_owned());
        }
        if filter.roots {
            condition.sql.push_str(" AND parent IS NULL");
        }
        condition.sql.push_str(filter.archived_condition());
        condition
    }

    fn also(&mut self, sql: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.sql.push_str(&format!("{sql}${}", self.values.len()));
    }

    async fn query(
        &self,
        client: &ClientWrapper,
        before: &str,
        after: &str,
    ) -> Result<Vec<Row>, ServerFailure> {
        let values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        query(client, &format!("{before} WHERE {}{after}", self.sql), &values).await
    }
}

const LISTED: &str = "SELECT id, data, updated, key FROM session";

/// Sessions by a filter, newest activity first, from behind a place in that order.
pub(super) async fn sessions(
    client: &ClientWrapper,
    filter: &Filter,
    after: Option<(i64, i64)>,
) -> Result<Vec<Listed>, ServerFailure> {
    let mut after = after;
    let mut sessions = Vec::new();
    // A page is full or the last one, however many sessions on the way cannot be read.
    loop {
        let mut condition = Condition::of(filter);
        if let Some((updated, key)) = after {
            condition.also(" AND (updated, key) < (", updated);
            condition.also(", ", key);
            condition.sql.push(')');
        }
        let found = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        condition.sql.push_str(" ORDER BY updated DESC, key DESC");
        let left = filter.limit.map(|limit| limit.saturating_sub(found));
        if let Some(left) = left {
            // Written out, so that the server plans for a few rows and reads the index instead of sorting all of
            // them; and rounded up, because each text is a prepared statement that is kept.
            condition.sql.push_str(&format!(" LIMIT {}", u64::from(left).next_power_of_two()));
        }
        let mut rows = condition.query(client, LISTED, "").await?;
        rows.truncate(left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX)));
        let last = collect(&rows, &mut sessions)?;
        let full = filter.limit.is_none_or(|limit| u32::try_from(sessions.len()).is_ok_and(|n| n >= limit));
        if full || last.is_none() {
            return Ok(sessions);
        }
        after = last;
    }
}

pub(super) async fn children(
    client: &ClientWrapper,
    parent: &SessionId,
) -> Result<Vec<Session>, ServerFailure> {
    let mut condition = Condition { sql: "trashed IS NULL".to_owned(), values: Vec::new() };
    condition.also(" AND parent = ", parent.to_string());
    let rows = condition.query(client, LISTED, " ORDER BY created DESC, key DESC").await?;
    let mut found = Vec::new();
    collect(&rows, &mut found)?;
    Ok(found.into_iter().map(|(session, _)| session).collect())
}

/// Adds what can be read to a list. Gives the place of the last row.
fn collect(rows: &[Row], sessions: &mut Vec<Listed>) -> Result<Option<(i64, i64)>, ServerFailure> {
    let mut last = None;
    for row in rows {
        let place = (row.try_get(2)?, row.try_get(3)?);
        last = Some(place);
        let id: &str = row.try_get(0)?;
        let data: &[u8] = row.try_get(1)?;
        match blob::text(id, "session", data).and_then(|data| decode(id, "session", data)) {
            Ok(session) => sessions.push((session, place)),
            // One damaged session must not hide the others.
            Err(error) => {
                tracing::error!(session = id, error = error.to_string(), "a session's row cannot be read");
            }
        }
    }
    Ok(last)
}

pub(super) async fn totals(client: &ClientWrapper, filter: &Filter) -> Result<Totals, ServerFailure> {
    // A sum is a number without limit here; ours have one.
    let sum = |column: &str| format!("least(coalesce(sum({column}), 0), 9223372036854775807)::bigint");
    let columns = ["input", "output", "reasoning", "cache_read", "cache_write", "cost"].map(sum).join(", ");
    let before = format!("SELECT count(*), {columns} FROM session");
    let rows = Condition::of(filter).query(client, &before, "").await?;
    let Some(row) = rows.first() else { return Ok(Totals::default()) };
    let mut tokens = Tokens { input: count(row, 1)?, output: count(row, 2)?, ..Tokens::default() };
    tokens.reasoning = count(row, 3)?;
    tokens.cache.read = count(row, 4)?;
    tokens.cache.write = count(row, 5)?;
    let spent = SpentSums { cost: row.try_get(6)?, ..SpentSums::default() };
    Ok(Totals { sessions: count(row, 0)?, tokens, cost: spent.money() })
}

/// Places whose words match, the newest texts first; `skip` of them are left out.
pub(super) async fn find(
    client: &ClientWrapper,
    search: &Search,
    words: &WordQuery,
    skip: usize,
) -> Result<Vec<IndexedPlace>, ServerFailure> {
    let sql = "SELECT s.id, s.title, t.entry, t.part FROM text t JOIN session s ON s.key = t.session
               WHERE t.words @@ $1::text::tsquery AND s.trashed IS NULL
               AND ($2::text IS NULL OR s.project = $2) AND ($3::text IS NULL OR s.id = $3)
               ORDER BY t.key DESC LIMIT $4 OFFSET $5";
    let project = search.project.as_deref().map(plain);
    let session = search.session.as_ref().map(SessionId::as_str);
    let (limit, skip) = (i64::from(search.limit), i64::try_from(skip).unwrap_or(i64::MAX));
    let rows = query(client, sql, &[&words.postgres(), &project, &session, &limit, &skip]).await?;
    let place = |row: &Row| {
        let session = SessionId::new(row.try_get::<_, String>(0)?);
        Ok(IndexedPlace { session, title: row.try_get(1)?, entry: row.try_get(2)?, part: row.try_get(3)? })
    };
    rows.iter().map(place).collect()
}
