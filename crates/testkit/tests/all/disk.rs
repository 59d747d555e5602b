//! The simulated disk: what SQLite promises for each of its settings has to hold on it, and what it does not promise
//! has to break. Otherwise the disk would be too harsh or too kind.

mod faults;
mod loss;
mod trace;

use std::path::Path;

use everturn_testkit::disk::{Disk, Loss, TraceMark, scratch};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Result};

/// A checkpoint every few transactions.
const WAL_FULL: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 20";
const DELETE_EXTRA: &str = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA";

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS entry (n INTEGER PRIMARY KEY, body BLOB);
    CREATE TABLE IF NOT EXISTS total (sum INTEGER);
    INSERT INTO total SELECT 0 WHERE NOT EXISTS (SELECT * FROM total)";

/// A database that gets shorter as soon as pages are free, so that it is truncated too, and with a cache so small that
/// transactions also write before they commit.
fn open(disk: &Disk, folder: &Path, settings: &str) -> Result<Connection> {
    let path = folder.join("a.db");
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), disk.name())?;
    connection.execute_batch("PRAGMA auto_vacuum = FULL; PRAGMA cache_size = 3")?;
    connection.execute_batch(settings)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn body(n: u64) -> Vec<u8> {
    (0..n % 7 * 900).map(|at| (at * 31 + n).to_le_bytes()[0]).collect()
}

/// Transaction `n`: several pages, some of them new and some no longer needed.
fn commit(connection: &mut Connection, n: u64) -> Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute("INSERT INTO entry VALUES (?1, ?2)", (n, body(n)))?;
    transaction.execute("UPDATE total SET sum = sum + ?1", [n])?;
    transaction.execute("UPDATE entry SET body = NULL WHERE n % 3 > 0 AND n = ?1 - 6", [n])?;
    transaction.commit()
}

/// How many transactions are there: 1 to some number, whole and unharmed. Says what is wrong if they are not.
fn count(connection: &Connection) -> Result<u64, String> {
    let fault = |error: rusqlite::Error| error.to_string();
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0)).map_err(fault);
    let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    match verdict.map_err(fault)? {
        verdict if verdict == "ok" => {}
        verdict => return Err(verdict),
    }
    if one("SELECT count(*) FROM sqlite_schema WHERE name = 'total'")? == 0 {
        return Ok(0);
    }
    let last = one("SELECT count(*) FROM entry")?;
    let whole = one("SELECT coalesce(max(n), 0) FROM entry")? == last
        && one("SELECT coalesce(sum(sum), 0) FROM total")? == last * (last + 1) / 2;
    let mut bodies = connection.prepare("SELECT n, body FROM entry WHERE body NOT NULL").map_err(fault)?;
    let bodies = bodies.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(fault)?;
    let bodies: Vec<(u64, Vec<u8>)> = bodies.collect::<Result<_>>().map_err(fault)?;
    let unharmed = bodies.into_iter().all(|(n, found)| found == body(n));
    if whole && unharmed { Ok(last) } else { Err(format!("{last} transactions, not all of them whole")) }
}

/// How many transactions are in the image.
fn survivors(disk: &Disk, cut: usize, loss: Loss) -> Result<u64, String> {
    let image = scratch();
    disk.image(cut, loss, image.path());
    let connection = Connection::open(image.path().join("a.db")).unwrap();
    // The image is thrown away, so its last connection need not tidy up, which takes most of the time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    count(&connection)
}

/// The last transaction whose commit had returned before the cut.
fn acknowledged(disk: &Disk, cut: usize) -> u64 {
    disk.marks_before(cut).iter().filter_map(TraceMark::number).max().unwrap_or(0)
}

/// Looks at images of every `stride`-th cut, each without loss, with all loss and with some. Calls `judge` with what
/// was acknowledged, what is there, and a text that says which image it is.
fn lose(disk: &Disk, stride: usize, mut judge: impl FnMut(u64, Result<u64, String>, &str)) {
    for cut in (0..=disk.len()).step_by(stride) {
        for loss in [Loss::Nothing, Loss::Everything, 1.into(), 2.into()] {
            let place = format!("cut {cut} after \"{}\", {loss:?}", disk.describe(cut));
            judge(acknowledged(disk, cut), survivors(disk, cut, loss), &place);
        }
    }
}
