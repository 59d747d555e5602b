//! Power losses: each setting of SQLite keeps what it promises, and no more.

use std::collections::BTreeMap;

use everturn_testkit::disk::{Disk, Loss, scratch};
use rusqlite::Connection;

use super::{DELETE_EXTRA, WAL_FULL, commit, lose, open};

const COUNT: u64 = 30;

/// Commits some transactions with a mark after each, and closes the database.
fn work(name: &str, settings: &str) -> Disk {
    let disk = Disk::register(name);
    let live = scratch();
    let mut connection = open(&disk, live.path(), settings).unwrap();
    for n in 1..=COUNT {
        commit(&mut connection, n).unwrap();
        disk.mark(n);
    }
    disk
}

/// How many images there are that lack so many acknowledged transactions. None may be damaged.
fn missing(disk: &Disk, stride: usize) -> BTreeMap<u64, usize> {
    let mut missing = BTreeMap::new();
    lose(disk, stride, |acknowledged, survivors, place| {
        let survivors = survivors.unwrap_or_else(|damage| panic!("{place}: {damage}"));
        *missing.entry(acknowledged.saturating_sub(survivors)).or_default() += 1;
    });
    missing
}

/// How many steps of a trace begin so.
fn steps(disk: &Disk, start: &str) -> usize {
    (1..=disk.len()).filter(|cut| disk.describe(*cut).starts_with(start)).count()
}

#[test]
fn wal_with_full_sync_keeps_every_transaction() {
    let disk = work("loss-wal-full", WAL_FULL);
    assert!(steps(&disk, "truncate a.db to") > 3, "checkpoints come up, and make the file shorter");
    let missing = missing(&disk, 1);
    assert_eq!(missing.keys().collect::<Vec<_>>(), [&0], "{missing:?}");
}

#[test]
fn wal_with_normal_sync_loses_transactions_but_tears_none() {
    let disk = work("loss-wal-normal", &WAL_FULL.replace("FULL", "NORMAL"));
    let missing = missing(&disk, 2);
    assert!(missing.keys().max() > Some(&1), "{missing:?}");
}

/// SQLite deletes the journal without a sync of the folder: if the journal is back after the loss, the last transaction
/// is rolled back. The next one syncs its own new journal with the folder first, so there is never more than one.
#[test]
fn a_deleted_journal_with_full_sync_loses_at_most_the_last_transaction() {
    let disk = work("loss-delete-full", &DELETE_EXTRA.replace("EXTRA", "FULL"));
    let missing = missing(&disk, 3);
    assert_eq!(missing.keys().collect::<Vec<_>>(), [&0, &1], "{missing:?}");
}

#[test]
fn a_deleted_journal_with_extra_sync_keeps_every_transaction() {
    let disk = work("loss-delete-extra", DELETE_EXTRA);
    assert!(steps(&disk, "delete a.db-journal and sync its folder") as u64 > COUNT);
    let missing = missing(&disk, 3);
    assert_eq!(missing.keys().collect::<Vec<_>>(), [&0], "{missing:?}");
}

/// Here the end of a transaction is a synced truncation or write, which needs no folder.
#[test]
fn a_journal_that_stays_keeps_every_transaction_with_full_sync() {
    for mode in ["TRUNCATE", "PERSIST"] {
        let settings = DELETE_EXTRA.replace("DELETE", mode).replace("EXTRA", "FULL");
        let disk = work(&format!("loss-{mode}"), &settings);
        let missing = missing(&disk, 7);
        assert_eq!(missing.keys().collect::<Vec<_>>(), [&0], "{mode}: {missing:?}");
    }
}

#[test]
fn without_syncs_databases_get_damaged() {
    for (name, mode) in [("loss-delete-off", "DELETE"), ("loss-wal-off", "WAL")] {
        let settings = WAL_FULL.replace("WAL", mode).replace("FULL", "OFF");
        let disk = work(name, &settings);
        let mut damaged = 0;
        lose(&disk, 7, |_, survivors, place| match survivors {
            Ok(_) => {}
            Err(damage) if place.ends_with("Nothing") => panic!("{place}: nothing was lost, but {damage}"),
            Err(_) => damaged += 1,
        });
        assert!(damaged > 0, "{mode}");
    }
}

/// A WAL file that is deleted without a sync of the folder must not come back when the database no longer uses it:
/// SQLite relies on the folder being synced with the new journal.
#[test]
fn a_database_that_leaves_wal_keeps_every_transaction() {
    let disk = Disk::register("loss-leave-wal");
    let live = scratch();
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    for n in 1..=12 {
        if n % 4 == 0 {
            let settings = if n % 8 == 0 { WAL_FULL } else { DELETE_EXTRA };
            connection.execute_batch(settings).unwrap();
        }
        commit(&mut connection, n).unwrap();
        disk.mark(n);
    }
    assert!(steps(&disk, "delete a.db-wal") > 0);
    let missing = missing(&disk, 1);
    assert_eq!(missing.keys().collect::<Vec<_>>(), [&0], "{missing:?}");
}

/// Two connections in two threads, with one order of all they do.
#[test]
fn connections_side_by_side_keep_every_transaction() {
    let disk = Disk::register("loss-threads");
    let live = scratch();
    let connection = open(&disk, live.path(), WAL_FULL).unwrap();
    connection.execute_batch("CREATE TABLE seen (n INTEGER PRIMARY KEY)").unwrap();
    std::thread::scope(|scope| {
        for first in [1_u64, 1001] {
            let (disk, live) = (disk.clone(), live.path());
            scope.spawn(move || {
                let connection = open(&disk, live, WAL_FULL).unwrap();
                for n in first..first + 15 {
                    connection.execute("INSERT INTO seen VALUES (?1)", [n]).unwrap();
                    disk.mark(n);
                }
            });
        }
    });
    for cut in (0..=disk.len()).step_by(3) {
        let image = scratch();
        disk.image(cut, Loss::Random(7), image.path());
        let connection = Connection::open(image.path().join("a.db")).unwrap();
        for mark in disk.marks_before(cut) {
            let n = mark.number().unwrap();
            let there = connection.query_row("SELECT count(*) FROM seen WHERE n = ?1", [n], |row| row.get(0));
            assert_eq!(there, Ok(1_u64), "{n} at cut {cut}");
        }
    }
}
