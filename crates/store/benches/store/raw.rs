//! The raw engine: the rows that a store wrote, written again by plain prepared statements.

mod postgres;

use std::time::Instant;

use everturn_store::Store;
use rusqlite::{Connection, params};

use crate::place::Place;

/// What one append wrote.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) session: i64,
    pub(crate) seq: i64,
    pub(crate) event: (String, i64, String, String),
    pub(crate) entry: (String, i64, Option<String>, String),
    pub(crate) part: (String, i64, String),
    pub(crate) text: String,
    pub(crate) row: (i64, String),
}

/// What the store wrote, in the transactions in which it did.
pub(crate) async fn groups(place: &Place) -> Vec<Vec<Written>> {
    match &place.database {
        None => sqlite_groups(&place.folder.path().join("everturn.db")),
        Some(_) => postgres::groups(place).await,
    }
}

/// Writes the same rows in the same transactions; gives appends a second and the time of each transaction.
pub(crate) async fn replay(place: &Place, groups: &[Vec<Written>]) -> (f64, Vec<f64>) {
    if place.database.is_some() {
        return postgres::replay(place, groups).await;
    }
    let fresh = Place::sqlite();
    let connection = empty_sqlite(&fresh, &place.folder.path().join("everturn.db")).await;
    let mut latencies = Vec::new();
    let began = Instant::now();
    for (stamp, group) in (1i64..).zip(groups) {
        let began = Instant::now();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
            .prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'commits'")
            .unwrap()
            .execute([])
            .unwrap();
        for written in group {
            write(&connection, written, stamp);
        }
        connection.execute_batch("COMMIT").unwrap();
        latencies.push(began.elapsed().as_secs_f64());
    }
    let appends: usize = groups.iter().map(Vec::len).sum();
    (appends as f64 / began.elapsed().as_secs_f64(), latencies)
}

/// A database with the schema and the session rows of another one, and settings as the store has them.
pub(crate) async fn empty_sqlite(fresh: &Place, like: &std::path::Path) -> Connection {
    drop(Store::open(fresh.options("own_raw")).await.unwrap());
    let connection = Connection::open(fresh.folder.path().join("everturn.db")).unwrap();
    configure(&connection);
    connection
        .execute_batch(&format!(
            "ATTACH '{}' AS like_this; INSERT INTO session SELECT * FROM like_this.session;",
            like.display()
        ))
        .unwrap();
    connection.execute_batch("DETACH like_this").unwrap();
    connection
}

/// Gives a connection the settings that the store gives its own.
fn configure(connection: &Connection) {
    connection.set_prepared_statement_cache_capacity(64);
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -32000; PRAGMA temp_store = MEMORY;")
        .unwrap();
}

fn write(connection: &Connection, written: &Written, stamp: i64) {
    let Written { session, seq, event, entry, part, text, row } = written;
    connection
        .prepare_cached("UPDATE session SET seq = ?2, updated = ?3, data = ?4, changed = ?5 WHERE key = ?1")
        .unwrap()
        .execute(params![session, seq, row.0, row.1, stamp])
        .unwrap();
    connection
        .prepare_cached(
            "INSERT INTO event (session, seq, id, time, type, data, epoch, stamp)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7)",
        )
        .unwrap()
        .execute(params![session, seq, event.0, event.1, event.2, event.3, stamp])
        .unwrap();
    connection
        .prepare_cached("INSERT INTO entry (session, id, ord, parent, data) VALUES (?1, ?2, ?3, ?4, ?5)")
        .unwrap()
        .execute(params![session, entry.0, entry.1, entry.2, entry.3])
        .unwrap();
    connection
        .prepare_cached("INSERT INTO part (session, entry, id, ord, data) VALUES (?1, ?2, ?3, ?4, ?5)")
        .unwrap()
        .execute(params![session, entry.0, part.0, part.1, part.2])
        .unwrap();
    connection
        .prepare_cached("INSERT INTO text (session, entry, part) VALUES (?1, ?2, ?3)")
        .unwrap()
        .execute(params![session, entry.0, part.0])
        .unwrap();
    let key = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO search (rowid, words) VALUES (?1, ?2)")
        .unwrap()
        .execute(params![key, text])
        .unwrap();
}

fn sqlite_groups(path: &std::path::Path) -> Vec<Vec<Written>> {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("CREATE INDEX IF NOT EXISTS by_order ON entry (session, ord)").unwrap();
    let mut statement = connection
        .prepare(
            "SELECT v.stamp, v.session, v.seq, v.id, v.time, v.type, v.data, e.id, e.ord, e.parent, e.data,
             p.id, p.ord, p.data, json_extract(p.data, '$.kind.text.text'), s.updated, s.data
             FROM event v JOIN entry e ON e.session = v.session AND e.ord = v.seq << 20
             JOIN part p ON p.session = v.session AND p.entry = e.id JOIN session s ON s.key = v.session
             ORDER BY v.stamp, v.session, v.seq",
        )
        .unwrap();
    let rows = statement
        .query_map([], |row| {
            let written = Written {
                session: row.get(1)?,
                seq: row.get(2)?,
                event: (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?),
                entry: (row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?),
                part: (row.get(11)?, row.get(12)?, row.get(13)?),
                text: row.get(14)?,
                row: (row.get(15)?, row.get(16)?),
            };
            Ok((row.get::<_, i64>(0)?, written))
        })
        .unwrap();
    let mut groups: Vec<(i64, Vec<Written>)> = Vec::new();
    for (stamp, written) in rows.map(Result::unwrap) {
        match groups.last_mut() {
            Some((last, group)) if *last == stamp => group.push(written),
            _ => groups.push((stamp, vec![written])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
/// Lets the engine finish what earlier writes left it to do, so that the next one does not pay for them.
pub(crate) async fn settle(place: &Place) {
    if place.database.is_some() {
        return postgres::settle(place).await;
    }
    let connection = Connection::open(place.folder.path().join("everturn.db")).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).unwrap();
}

/// Inserts the rows of one session once more, as those of another one, in one transaction; gives the seconds that
/// takes.
///
/// They go where the store put them, so that both find the same indexes: the full-text index of an empty database has
/// nothing to merge.
pub(crate) async fn insert_again(place: &Place, id: &everturn_model::SessionId) -> f64 {
    if place.database.is_some() {
        return postgres::insert_again(place, id).await;
    }
    let connection = Connection::open(place.folder.path().join("everturn.db")).unwrap();
    configure(&connection);
    let key: i64 = connection
        .query_row("SELECT key FROM session WHERE id = ?1", [id.as_str()], |row| row.get(0))
        .unwrap();
    let session = "INSERT INTO session (key, id, seq, project, directory, title, created, updated, data)
                   SELECT key + 1000000, 'again' || id, seq, project, directory, title, created, updated, data
                   FROM session WHERE key = ?1";
    connection.execute(session, [key]).unwrap();
    let tables = [
        ("event", "?1 + 1000000, seq, 'again' || id, time, type, data, epoch, stamp", 8),
        ("entry", "?1 + 1000000, id, ord, parent, data", 5),
        ("part", "?1 + 1000000, entry, id, ord, data", 5),
        ("blob_use", "?1 + 1000000, cast(substr(hash, 2) || substr(hash, 1, 1) AS BLOB)", 2),
    ];
    let read = |sql: &str, columns: usize| -> Vec<Vec<rusqlite::types::Value>> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([key], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.unwrap().map(Result::unwrap).collect()
    };
    let rows = tables.map(|(table, columns, count)| {
        let rows = read(&format!("SELECT {columns} FROM {table} WHERE session = ?1"), count);
        (format!("INSERT INTO {table} VALUES ({})", vec!["?"; count].join(", ")), rows)
    });
    let blobs = read(
        "SELECT cast(substr(hash, 2) || substr(hash, 1, 1) AS BLOB), size, data FROM blob WHERE hash IN (SELECT hash FROM blob_use WHERE session = ?1)",
        3,
    );
    let words = read(
        "SELECT p.entry, p.id, json_extract(p.data, '$.kind.text.text') FROM text t
         JOIN part p ON p.session = t.session AND p.entry = t.entry AND p.id = t.part WHERE t.session = ?1",
        3,
    );
    // The store moves the write-ahead log into the database after its answer.
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    settle(place).await;
    let began = Instant::now();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = |sql: &str, rows: &[Vec<rusqlite::types::Value>]| {
        let mut statement = connection.prepare_cached(sql).unwrap();
        for row in rows {
            statement.execute(rusqlite::params_from_iter(row)).unwrap();
        }
    };
    for (sql, rows) in &rows {
        insert(sql, rows);
    }
    insert("INSERT INTO blob (hash, size, data) VALUES (?, ?, ?)", &blobs);
    let mut place_of =
        connection.prepare("INSERT INTO text (session, entry, part) VALUES (?, ?, ?)").unwrap();
    let mut put_words = connection.prepare("INSERT INTO search (rowid, words) VALUES (?, ?)").unwrap();
    for row in &words {
        place_of.execute(params![key + 1_000_000, row[0], row[1]]).unwrap();
        put_words.execute(params![connection.last_insert_rowid(), row[2]]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    began.elapsed().as_secs_f64()
}
