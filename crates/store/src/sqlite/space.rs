//! The space that the file takes: measuring it, giving it back, erasing what was in it.

use everturn_model::SessionId;
use rusqlite::Connection;

use super::stored_session;
use crate::Error;
use crate::upkeep::disk::{BlobUse, LargeSession, MeasuredSizes};
use crate::upkeep::trash::FreeSpace;

/// How many pages are given back in one transaction: others may write between two of them, and the write-ahead log does not
/// grow with what is given back.
const PIECE: u64 = 256;

/// Gives some free pages back, where the file was made so that this is possible.
pub(super) fn shrink(connection: &Connection) -> Result<FreeSpace, Error> {
    let before = free(connection)?;
    // Does nothing in a file that was made without it. Each row that is asked for gives one page back.
    let mut vacuum = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({PIECE})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    let after = free(connection)?;
    Ok(FreeSpace { returned: before.saturating_sub(after), free: after })
}

/// Makes sure that what was deleted or overwritten is in no file any more: the index is merged, the file is written
/// again, and the write-ahead log is emptied. False when somebody was reading all the while, so that the log could not
/// be emptied.
pub(super) fn erase(connection: &Connection) -> Result<bool, Error> {
    // The file is first written to a temporary one, and that may be larger than memory.
    connection.execute_batch("PRAGMA secure_delete = ON; PRAGMA temp_store = FILE")?;
    let erased =
        connection.execute_batch("INSERT INTO search (search) VALUES ('optimize'); VACUUM").and_then(|()| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        });
    connection.execute_batch("PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY")?;
    Ok(erased? == 0)
}

/// Bytes in pages that hold nothing.
fn free(connection: &Connection) -> Result<u64, Error> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    Ok(pragma("freelist_count")? * pragma("page_size")?)
}

pub(super) fn measure(connection: &Connection) -> Result<MeasuredSizes, Error> {
    let blobs = connection.query_row(
        "SELECT count(*), ifnull(sum(size), 0), ifnull(sum(octet_length(data)), 0) FROM blob",
        [],
        |row| Ok(BlobUse { count: row.get(0)?, size: row.get(1)?, packed: row.get(2)? }),
    )?;
    let mut statement = connection.prepare_cached(
        "WITH log AS (SELECT session, sum(octet_length(data)) AS bytes FROM event GROUP BY session),
         user AS (SELECT hash, count(*) AS users FROM blob_use GROUP BY hash),
         share AS (
           SELECT u.session, sum(octet_length(b.data) / user.users) AS bytes FROM blob_use u
           JOIN user ON user.hash = u.hash JOIN blob b ON b.hash = u.hash GROUP BY u.session
         )
         SELECT s.id, s.title, s.trashed IS NOT NULL, ifnull(log.bytes, 0) + ifnull(share.bytes, 0)
         FROM session s LEFT JOIN log ON log.session = s.key LEFT JOIN share ON share.session = s.key",
    )?;
    let rows = statement.query_map([], |row| {
        let (session, title) = (SessionId::new(stored_session::text(row, 0)?), stored_session::text(row, 1)?);
        Ok((LargeSession { session, title, bytes: row.get(3)? }, row.get(2)?))
    })?;
    let sessions = rows.collect::<Result<_, _>>()?;
    Ok(MeasuredSizes { free: free(connection)?, blobs, sessions, ..MeasuredSizes::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_back_a_piece_at_a_time() {
        // All of them were in one transaction: other processes waited for seconds, or gave up.
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("file.db")).unwrap();
        let sql = "PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE filler (data);
                   WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 600)
                   INSERT INTO filler SELECT zeroblob(4000) FROM n; DELETE FROM filler";
        connection.execute_batch(sql).unwrap();
        let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        let before = free(&connection).unwrap();
        let piece = PIECE * page;
        assert!(before > 2 * piece && before < 3 * piece, "{before}");
        let steps: Vec<_> = std::iter::repeat_with(|| shrink(&connection).unwrap()).take(4).collect();
        let step = |returned, free| FreeSpace { returned, free };
        let rest = before - 2 * piece;
        assert_eq!(steps, [step(piece, before - piece), step(piece, rest), step(rest, 0), step(0, 0)]);
    }
}
