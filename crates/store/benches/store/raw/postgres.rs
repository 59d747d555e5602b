//! The raw engine on PostgreSQL: one connection, prepared statements, one statement for each table and transaction.

use std::time::Instant;

use everturn_model::SessionId;
use everturn_store::Store;
use tokio_postgres::{Client, Statement};

use super::Written;
use crate::place::Place;

async fn connect(place: &Place) -> Client {
    let config = place.database.as_ref().unwrap().config();
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("SET search_path = everturn; SET plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    client
}

pub(super) async fn groups(place: &Place) -> Vec<Vec<Written>> {
    let client = connect(place).await;
    client
        .batch_execute("CREATE INDEX IF NOT EXISTS by_order ON entry (session, ord); ANALYZE")
        .await
        .unwrap();
    let sql = "SELECT v.stamp::text, v.session, v.seq, v.id, v.time, v.type, convert_from(v.data, 'UTF8'), e.id, e.ord,
               e.parent, convert_from(e.data, 'UTF8'), p.id, p.ord, convert_from(p.data, 'UTF8'),
               convert_from(p.data, 'UTF8')::json #>> '{kind,text,text}', s.updated, convert_from(s.data, 'UTF8')
               FROM event v JOIN entry e ON e.session = v.session AND e.ord = v.seq << 20
               JOIN part p ON p.session = v.session AND p.entry = e.id JOIN session s ON s.key = v.session
               ORDER BY v.stamp, v.session, v.seq";
    let mut groups: Vec<(String, Vec<Written>)> = Vec::new();
    for row in client.query(sql, &[]).await.unwrap() {
        let written = Written {
            session: row.get(1),
            seq: row.get(2),
            event: (row.get(3), row.get(4), row.get(5), row.get(6)),
            entry: (row.get(7), row.get(8), row.get(9), row.get(10)),
            part: (row.get(11), row.get(12), row.get(13)),
            text: row.get(14),
            row: (row.get(15), row.get(16)),
        };
        let stamp: String = row.get(0);
        match groups.last_mut() {
            Some((last, group)) if *last == stamp => group.push(written),
            _ => groups.push((stamp, vec![written])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A database with the schema and the session rows of another one.
async fn empty(like: &Place) -> (Place, Client) {
    let fresh = Place::postgres();
    drop(Store::open(fresh.options("own_raw")).await.unwrap());
    let client = connect(&fresh).await;
    let rows = connect(like).await.query("SELECT key, id, data FROM session", &[]).await.unwrap();
    for row in rows {
        let sql = "INSERT INTO session (key, id, seq, project, directory, title, folded, created, updated, open, input,
                   output, reasoning, cache_read, cache_write, cost, changed, data) OVERRIDING SYSTEM VALUE
                   VALUES ($1, $2, 0, 'global', '/srv/demo', 't', 't', 0, 0, false, 0, 0, 0, 0, 0, 0,
                   pg_current_xact_id(), $3)";
        let (key, id, data): (i64, String, Vec<u8>) = (row.get(0), row.get(1), row.get(2));
        client.execute(sql, &[&key, &id, &data]).await.unwrap();
    }
    (fresh, client)
}

struct Statements {
    session: Statement,
    event: Statement,
    entry: Statement,
    part: Statement,
    text: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Self {
        let prepare = async |sql: &str| client.prepare(sql).await.unwrap();
        Self {
            session: prepare(
                "UPDATE session s SET seq = u.seq, updated = u.updated, data = u.data, changed = pg_current_xact_id()
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) u (key, seq, updated, data)
                 WHERE s.key = u.key",
            )
            .await,
            event: prepare(
                "INSERT INTO event (session, seq, id, time, type, data, stamp) SELECT u.*, pg_current_xact_id()
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bytea[]) u",
            )
            .await,
            entry: prepare(
                "INSERT INTO entry (session, id, ord, parent, data)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])",
            )
            .await,
            part: prepare(
                "INSERT INTO part (session, entry, id, ord, data)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])",
            )
            .await,
            text: prepare(
                "INSERT INTO text (session, entry, part, words)
                 SELECT session, entry, part, array_to_tsvector(string_to_array(words, ' '))
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) u (session, entry, part, words)",
            )
            .await,
        }
    }
}

/// Writes entries, parts and texts, all at once.
async fn put_nodes(
    client: &Client,
    statements: &Statements,
    group: &[Written],
) -> Result<(), tokio_postgres::Error> {
    let keys: Vec<i64> = group.iter().map(|row| row.session).collect();
    let entries: Vec<&str> = group.iter().map(|row| row.entry.0.as_str()).collect();
    tokio::try_join!(
        async {
            let orders: Vec<i64> = group.iter().map(|row| row.entry.1).collect();
            let parents: Vec<Option<&str>> = group.iter().map(|row| row.entry.2.as_deref()).collect();
            let data: Vec<&[u8]> = group.iter().map(|row| row.entry.3.as_bytes()).collect();
            client.execute(&statements.entry, &[&keys, &entries, &orders, &parents, &data]).await
        },
        async {
            let ids: Vec<&str> = group.iter().map(|row| row.part.0.as_str()).collect();
            let orders: Vec<i64> = group.iter().map(|row| row.part.1).collect();
            let data: Vec<&[u8]> = group.iter().map(|row| row.part.2.as_bytes()).collect();
            client.execute(&statements.part, &[&keys, &entries, &ids, &orders, &data]).await
        },
        async {
            let ids: Vec<&str> = group.iter().map(|row| row.part.0.as_str()).collect();
            let texts: Vec<&str> = group.iter().map(|row| row.text.as_str().trim_end()).collect();
            client.execute(&statements.text, &[&keys, &entries, &ids, &texts]).await
        },
    )?;
    Ok(())
}

async fn write(client: &Client, statements: &Statements, group: &[Written]) {
    // The last row of a session in the group is the one that stays.
    let rows: Vec<&Written> = group
        .iter()
        .enumerate()
        .filter(|(at, row)| !group[at + 1..].iter().any(|later| later.session == row.session))
        .map(|(_, row)| row)
        .collect();
    let keys: Vec<i64> = group.iter().map(|row| row.session).collect();
    client.batch_execute("BEGIN").await.unwrap();
    tokio::try_join!(
        async {
            let keys: Vec<i64> = rows.iter().map(|row| row.session).collect();
            let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
            let updated: Vec<i64> = rows.iter().map(|row| row.row.0).collect();
            let data: Vec<&[u8]> = rows.iter().map(|row| row.row.1.as_bytes()).collect();
            client.execute(&statements.session, &[&keys, &seqs, &updated, &data]).await
        },
        async {
            let seqs: Vec<i64> = group.iter().map(|row| row.seq).collect();
            let ids: Vec<&str> = group.iter().map(|row| row.event.0.as_str()).collect();
            let times: Vec<i64> = group.iter().map(|row| row.event.1).collect();
            let names: Vec<&str> = group.iter().map(|row| row.event.2.as_str()).collect();
            let data: Vec<&[u8]> = group.iter().map(|row| row.event.3.as_bytes()).collect();
            client.execute(&statements.event, &[&keys, &seqs, &ids, &times, &names, &data]).await
        },
        put_nodes(client, statements, group),
    )
    .unwrap();
    client.batch_execute("COMMIT").await.unwrap();
}

pub(super) async fn replay(place: &Place, groups: &[Vec<Written>]) -> (f64, Vec<f64>) {
    let (_fresh, client) = empty(place).await;
    let statements = Statements::prepare(&client).await;
    let mut latencies = Vec::new();
    let began = Instant::now();
    for group in groups {
        let began = Instant::now();
        write(&client, &statements, group).await;
        latencies.push(began.elapsed().as_secs_f64());
    }
    let appends: usize = groups.iter().map(Vec::len).sum();
    (appends as f64 / began.elapsed().as_secs_f64(), latencies)
}

pub(super) async fn settle(place: &Place) {
    let client = connect(place).await;
    client.batch_execute("VACUUM (ANALYZE)").await.unwrap();
    client.batch_execute("CHECKPOINT").await.unwrap();
}

/// Inserts the rows of one session once more, as those of another one; see [`super::insert_again`].
pub(super) async fn insert_again(place: &Place, id: &SessionId) -> f64 {
    let client = connect(place).await;
    let key: i64 =
        client.query_one("SELECT key FROM session WHERE id = $1", &[&id.as_str()]).await.unwrap().get(0);
    let events = client
        .query("SELECT seq, 'again' || id, time, type, data FROM event WHERE session = $1", &[&key])
        .await
        .unwrap();
    let blobs = "SELECT sha256(hash), size, data FROM blob WHERE hash IN (SELECT hash FROM blob_use WHERE session = $1)";
    let blobs = client.query(blobs, &[&key]).await.unwrap();
    let nodes = "SELECT e.id, e.ord, e.parent, convert_from(e.data, 'UTF8'), p.id, p.ord, convert_from(p.data, 'UTF8'),
                 convert_from(p.data, 'UTF8')::json #>> '{kind,text,text}'
                 FROM entry e JOIN part p ON p.session = e.session AND p.entry = e.id WHERE e.session = $1 ORDER BY e.ord";
    let group: Vec<Written> = client
        .query(nodes, &[&key])
        .await
        .unwrap()
        .iter()
        .map(|row| Written {
            session: key + 1_000_000,
            seq: 0,
            event: Default::default(),
            entry: (row.get(0), row.get(1), row.get(2), row.get(3)),
            part: (row.get(4), row.get(5), row.get(6)),
            text: row.get(7),
            row: (0, String::new()),
        })
        .collect();
    let session = "INSERT INTO session (key, id, seq, project, directory, title, folded, created, updated, open, input,
                   output, reasoning, cache_read, cache_write, cost, changed, data) OVERRIDING SYSTEM VALUE
                   SELECT key + 1000000, 'again' || id, seq, project, directory, title, folded, created, updated, open, input,
                   output, reasoning, cache_read, cache_write, cost, changed, data FROM session WHERE key = $1";
    client.execute(session, &[&key]).await.unwrap();
    let statements = Statements::prepare(&client).await;
    let put_event = client
        .prepare(
            "INSERT INTO event (session, seq, id, time, type, data, stamp)
             VALUES ($1, $2, $3, $4, $5, $6, pg_current_xact_id())",
        )
        .await
        .unwrap();
    let put_blob = client.prepare("INSERT INTO blob (hash, size, data) VALUES ($1, $2, $3)").await.unwrap();
    settle(place).await;
    let began = Instant::now();
    client.batch_execute("BEGIN").await.unwrap();
    for row in &events {
        let (seq, id, time): (i64, &str, i64) = (row.get(0), row.get(1), row.get(2));
        let (name, data): (&str, &[u8]) = (row.get(3), row.get(4));
        client.execute(&put_event, &[&(key + 1_000_000), &seq, &id, &time, &name, &data]).await.unwrap();
    }
    for row in &blobs {
        let (hash, size, data): (&[u8], i64, &[u8]) = (row.get(0), row.get(1), row.get(2));
        client.execute(&put_blob, &[&hash, &size, &data]).await.unwrap();
    }
    put_nodes(&client, &statements, &group).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    began.elapsed().as_secs_f64()
}
