//! Damage to a store's database, as a bad disk or another program leaves it.

use std::path::Path;

use rusqlite::{Connection, params};

/// Makes an event unreadable in the SQLite database of a data folder.
///
/// # Panics
///
/// When there is no such event.
pub fn damage_event(folder: &Path, session: &str, seq: u64) {
    let connection = Connection::open(folder.join("everturn.db")).expect("the store's database");
    let sql =
        "UPDATE event SET data = '{' WHERE seq = ?2 AND session = (SELECT key FROM session WHERE id = ?1)";
    let changed = connection.execute(sql, params![session, seq]).expect("a change of the log");
    assert_eq!(changed, 1, "event {seq} of {session}");
}

/// Takes away the bills of all sessions in the SQLite database of a data folder: those of earlier versions have none.
///
/// # Panics
///
/// When there is no such database.
pub fn forget_bills(folder: &Path) {
    let connection = Connection::open(folder.join("everturn.db")).expect("the store's database");
    let sql = "DELETE FROM bill; INSERT OR IGNORE INTO unbilled SELECT key FROM session";
    connection.execute_batch(sql).expect("a change of the bills");
}

/// Gives each part of a session that has this text metadata which is nested so deep, in events and rows, as versions did
/// that stored whatever came.
///
/// # Panics
///
/// When there is no such part.
pub fn nest_text(folder: &Path, session: &str, text: &str, levels: usize) {
    let connection = Connection::open(folder.join("everturn.db")).expect("the store's database");
    let plain = format!("\"text\":{}", serde_json::Value::from(text));
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    let deep = format!("{plain},\"metadata\":{{\"deep\":{open}{close}}}");
    for table in ["event", "part"] {
        let sql = format!(
            "UPDATE {table} SET data = replace(data, ?2, ?3)
             WHERE instr(data, ?2) AND session = (SELECT key FROM session WHERE id = ?1)"
        );
        let changed = connection.execute(&sql, params![session, plain, deep]).expect("a change of the data");
        assert!(changed > 0, "{text} in the table {table} of {session}");
    }
}

/// Makes the row of a session unreadable in the SQLite database of a data folder.
///
/// # Panics
///
/// When there is no such session.
pub fn damage_session(folder: &Path, session: &str) {
    let connection = Connection::open(folder.join("everturn.db")).expect("the store's database");
    let sql = "UPDATE session SET data = '{' WHERE id = ?1";
    let changed = connection.execute(sql, params![session]).expect("a change of the session's row");
    assert_eq!(changed, 1, "the row of {session}");
}

/// Makes each event of a type unreadable in the SQLite database of a data folder as soon as it is written: what it says is
/// in the rows, and only the log does not tell of it.
///
/// # Panics
///
/// When there is no such database, or this was done to it before.
pub fn damage_arriving(folder: &Path, event: &str) {
    let connection = Connection::open(folder.join("everturn.db")).expect("the store's database");
    let sql = format!(
        "CREATE TRIGGER damaged AFTER INSERT ON event WHEN NEW.type GLOB '{event}.*'
         BEGIN UPDATE event SET data = '{{' WHERE session = NEW.session AND seq = NEW.seq; END"
    );
    connection.execute_batch(&sql).expect("a change of the store's schema");
}

/// Makes a session unreadable in a database of OpenCode: one without messages, whose log is no JSON.
///
/// # Panics
///
/// When there is no such session.
pub fn damage_opencode_session(database: &Path, session: &str) {
    let connection = Connection::open(database).expect("a database of OpenCode");
    let messages = connection.execute("DELETE FROM message WHERE session_id = ?1", params![session]);
    assert_ne!(messages.expect("a change of its messages"), 0, "the messages of {session}");
    connection.execute("DELETE FROM event WHERE aggregate_id = ?1", params![session]).expect("no log");
    let sql = "INSERT INTO event (id, aggregate_id, seq, type, data) VALUES ('evt_x', ?1, 0, 'session.next.x', '{')";
    connection.execute(sql, params![session]).expect("a log");
}
