//! The writer's connection, with the statements of an append prepared.
//!
//! Statements of one step are sent together and answered together. They are carried out in the order in which they
//! are first polled; that order is kept because preparing is done here, before.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Row, Statement};

use super::address::Address;
use super::failure::ServerFailure;
use super::pool::{StatementValues, limited};

/// Makes the struct of prepared statements from their SQL.
macro_rules! statements {
    ($($name:ident = $sql:expr;)*) => {
        /// The statements of an append.
        pub(super) struct Statements { $(pub(super) $name: Statement,)* }

        impl Statements {
            async fn prepare(client: &ClientWrapper) -> Result<Self, ServerFailure> {
                Ok(Self { $($name: client.prepare($sql).await?,)* })
            }
        }
    };
}

statements! {
    lock = "SELECT key, id, seq, owner, epoch, data, changed::text FROM session WHERE id = ANY($1)
            ORDER BY id FOR UPDATE";
    xid = "SELECT pg_current_xact_id()::text";
    purged = "SELECT session FROM tombstone WHERE session = ANY($1)";
    quarantined = "SELECT session, reason FROM quarantine WHERE session = ANY($1)";
    known = "SELECT e.id, s.id, e.seq, e.data FROM event e JOIN session s ON s.key = e.session
             WHERE e.id = ANY($1)";
    keys = "SELECT nextval(pg_get_serial_sequence('everturn.session', 'key')) FROM generate_series(1, $1::bigint)";
    // Kind, session, order, entry of a part, data.
    touched = "SELECT 0, e.session, e.ord, '', e.data FROM unnest($1::bigint[], $2::text[]) u (session, id)
                 JOIN entry e ON e.session = u.session AND e.id = u.id
               UNION ALL
               SELECT 1, p.session, p.ord, p.entry, p.data
                 FROM unnest($3::bigint[], $4::text[], $5::text[]) u (session, entry, id)
                 JOIN part p ON p.session = u.session AND p.entry = u.entry AND p.id = u.id
               UNION ALL
               SELECT 2, i.session, i.ord, '', i.data FROM unnest($6::bigint[], $7::text[]) u (session, id)
                 JOIN inbox i ON i.session = u.session AND i.id = u.id
               UNION ALL
               SELECT 3, r.session, 0, '', r.data FROM unnest($8::bigint[], $9::text[]) u (session, id)
                 JOIN request r ON r.id = u.id AND r.session = u.session";
    whole = "SELECT 0, session, ord, '', data FROM entry WHERE session = ANY($1)
             UNION ALL SELECT 1, session, ord, entry, data FROM part WHERE session = ANY($1)
             UNION ALL SELECT 2, session, ord, '', data FROM inbox WHERE session = ANY($1)
             UNION ALL SELECT 3, session, 0, '', data FROM request WHERE session = ANY($1)
             UNION ALL SELECT 4, session, 0, '', data FROM todo WHERE session = ANY($1)";
    put_sessions = "INSERT INTO session (key, id, seq, project, directory, parent, title, folded, created, updated,
                      archived, trashed, open, input, output, reasoning, cache_read, cache_write, cost, data, changed)
                    OVERRIDING SYSTEM VALUE
                    SELECT u.*, pg_current_xact_id() FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[],
                      $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[],
                      $12::bigint[], $13::boolean[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[],
                      $18::bigint[], $19::bigint[], $20::bytea[]) u
                    ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, project = excluded.project,
                      directory = excluded.directory, parent = excluded.parent, title = excluded.title,
                      folded = excluded.folded, created = excluded.created, updated = excluded.updated,
                      archived = excluded.archived, trashed = excluded.trashed, open = excluded.open,
                      input = excluded.input, output = excluded.output, reasoning = excluded.reasoning,
                      cache_read = excluded.cache_read, cache_write = excluded.cache_write, cost = excluded.cost,
                      data = excluded.data, changed = excluded.changed";
    free_sessions = "UPDATE session SET owner = NULL WHERE key = ANY($1::bigint[])";
    put_log = "INSERT INTO event (session, seq, id, time, type, data, epoch, stamp)
               SELECT u.*, pg_current_xact_id() FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[],
                 $5::text[], $6::bytea[], $7::bigint[]) u";
    put_entries = "INSERT INTO entry (session, id, ord, parent, data)
                   SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
                   ON CONFLICT (session, id) DO UPDATE SET parent = excluded.parent, data = excluded.data";
    put_parts = "INSERT INTO part (session, entry, id, ord, data)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
                 ON CONFLICT (session, entry, id) DO UPDATE SET data = excluded.data";
    drop_inbox = "DELETE FROM inbox i USING unnest($1::bigint[], $2::text[]) u (session, id)
                  WHERE i.session = u.session AND i.id = u.id";
    put_inbox = "INSERT INTO inbox (session, id, ord, data)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[])
                 ON CONFLICT (session, id) DO UPDATE SET data = excluded.data";
    asked = "SELECT id, session FROM request WHERE id = ANY($1)";
    drop_requests = "DELETE FROM request r USING unnest($1::text[], $2::bigint[]) u (id, session)
                     WHERE r.id = u.id AND r.session = u.session";
    put_requests = "INSERT INTO request (id, session, data)
                    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
                    ON CONFLICT (id) DO UPDATE SET data = excluded.data WHERE request.session = excluded.session";
    put_todos = "INSERT INTO todo (session, data) SELECT * FROM unnest($1::bigint[], $2::bytea[])
                 ON CONFLICT (session) DO UPDATE SET data = excluded.data";
    put_bill = "INSERT INTO bill (session, seq, line, time, provider, model, source, input, output, reasoning, cache_read,
                  cache_write, cost)
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                  $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
                ON CONFLICT (session, seq, line) DO UPDATE SET time = excluded.time, provider = excluded.provider,
                  model = excluded.model, source = excluded.source, input = excluded.input, output = excluded.output,
                  reasoning = excluded.reasoning, cache_read = excluded.cache_read,
                  cache_write = excluded.cache_write, cost = excluded.cost";
    drop_texts = "DELETE FROM text t USING unnest($1::bigint[], $2::text[], $3::text[]) u (session, entry, part)
                  WHERE t.session = u.session AND t.entry = u.entry AND t.part = u.part";
    put_texts = "INSERT INTO text (session, entry, part, words)
                 SELECT session, entry, part, array_to_tsvector(string_to_array(words, ' '))
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) u (session, entry, part, words)
                 ON CONFLICT (session, entry, part) DO UPDATE SET words = excluded.words";
    put_streams = "INSERT INTO stream (session, part, start, entry, text)
                   SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
                   ON CONFLICT (session, part, start) DO UPDATE SET entry = excluded.entry, text = excluded.text";
    drop_streams = "DELETE FROM stream s USING unnest($1::bigint[], $2::text[]) u (session, part)
                    WHERE s.session = u.session AND (u.part IS NULL OR s.part = u.part)";
    guard_blobs = "SELECT pg_advisory_xact_lock_shared($1)";
    put_blobs = "INSERT INTO blob (hash, size, data) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])
                 ON CONFLICT (hash) DO NOTHING";
    use_blobs = "INSERT INTO blob_use (session, hash) SELECT * FROM unnest($1::bigint[], $2::bytea[])
                 ON CONFLICT (session, hash) DO NOTHING";
}

/// The writer's connection.
pub(super) struct WriterConnection {
    pub(super) client: ClientWrapper,
    pub(super) statements: Statements,
}

impl WriterConnection {
    pub(super) async fn make(address: &Address) -> Result<Self, ServerFailure> {
        let client = address.client().await?;
        let prepare = async {
            // A plan for one number of rows is good for any.
            client.batch_execute("SET plan_cache_mode = force_generic_plan").await?;
            Statements::prepare(&client).await
        };
        let statements = limited(prepare).await?;
        Ok(Self { client, statements })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn query(
        &self,
        statement: &Statement,
        values: StatementValues<'_>,
    ) -> Result<Vec<Row>, ServerFailure> {
        Ok(self.client.query(statement, values).await?)
    }

    /// Carries a statement out, unless there are no rows to do it for.
    pub(super) async fn put(
        &self,
        statement: &Statement,
        rows: usize,
        values: StatementValues<'_>,
    ) -> Result<(), ServerFailure> {
        if rows > 0 {
            self.client.execute(statement, values).await?;
        }
        Ok(())
    }

    /// The same for rows that must all be written: one that was not belongs to somebody else.
    pub(super) async fn put_all(
        &self,
        statement: &Statement,
        rows: usize,
        values: StatementValues<'_>,
    ) -> Result<(), ServerFailure> {
        if rows > 0 && self.client.execute(statement, values).await? < u64::try_from(rows).unwrap_or(u64::MAX)
        {
            let text = "a row with this id was made by somebody else at the same moment".to_owned();
            return Err(ServerFailure::Statement { code: SqlState::UNIQUE_VIOLATION, text });
        }
        Ok(())
    }

    /// Carries out SQL that has no values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), ServerFailure> {
        Ok(self.client.batch_execute(sql).await?)
    }
}
