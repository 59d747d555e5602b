//! Calls that fail: the fault comes where it was ordered, and is gone when it is taken away.

use everturn_testkit::disk::{Disk, DiskFault, DiskFaultKind, scratch};
use rusqlite::{Connection, ffi};

use super::{DELETE_EXTRA, WAL_FULL, commit, count, lose, open};

/// Commits transactions after those that are there, until one fails or the last is done.
fn work(disk: &Disk, connection: &mut Connection, next: u64, last: u64) -> (u64, rusqlite::Result<()>) {
    for n in next..=last {
        if let Err(error) = commit(connection, n) {
            return (n - 1, Err(error));
        }
        disk.mark(n);
    }
    (last, Ok(()))
}

/// Opens a database and works, with the fault; then goes on without it.
fn survive(disk: &Disk, settings: &str, fault: DiskFault) {
    let live = scratch();
    disk.fail(fault);
    let opened = open(disk, live.path(), settings);
    let (mut connection, acknowledged) = match opened {
        Ok(mut connection) => {
            let (acknowledged, _) = work(disk, &mut connection, 1, 3);
            disk.heal();
            (connection, acknowledged)
        }
        Err(_) => {
            disk.heal();
            (open(disk, live.path(), settings).unwrap(), 0)
        }
    };
    assert!(disk.failed(), "{fault:?}");
    let there = count(&connection).unwrap_or_else(|damage| panic!("{fault:?}: {damage}"));
    // A transaction whose commit failed may be there or not.
    assert!((acknowledged..=acknowledged + 1).contains(&there), "{fault:?}: {there} of {acknowledged}");
    let (last, result) = work(disk, &mut connection, there + 1, there + 2);
    result.unwrap_or_else(|error| panic!("{fault:?}: not recovered: {error}"));
    assert_eq!(count(&connection), Ok(last), "{fault:?}");
}

#[test]
fn a_connection_recovers_from_a_fault_at_any_call() {
    let disk = Disk::register_without_trace("faults-any");
    for settings in [WAL_FULL, DELETE_EXTRA] {
        disk.reset_calls();
        let live = scratch();
        let mut connection = open(&disk, live.path(), settings).unwrap();
        work(&disk, &mut connection, 1, 3).1.unwrap();
        for (kind, calls) in DiskFaultKind::ALL.map(|kind| (kind, disk.calls(kind))) {
            assert!(calls > 5, "{kind:?}: {calls} calls");
            for at in 1..=calls {
                survive(&disk, settings, DiskFault { kind, at, once: true });
                survive(&disk, settings, DiskFault { kind, at, once: false });
            }
        }
    }
}

#[test]
fn each_kind_has_its_code() {
    let disk = Disk::register_without_trace("faults-codes");
    let live = scratch();
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    let mut next = 1;
    for (kind, code) in [
        (DiskFaultKind::Full, ffi::SQLITE_FULL),
        (DiskFaultKind::ShortWrite, ffi::SQLITE_IOERR_WRITE),
        (DiskFaultKind::FsyncFailed, ffi::SQLITE_IOERR_FSYNC),
    ] {
        disk.fail(DiskFault { kind, at: 1, once: true });
        assert!(!disk.failed(), "nothing was called yet");
        let error = commit(&mut connection, next).unwrap_err();
        assert_eq!(error.sqlite_error().unwrap().extended_code, code, "{kind:?}");
        assert!(disk.failed());
        commit(&mut connection, next).expect("only one call was to fail");
        disk.heal();
        disk.fail(DiskFault { kind, at: 1, once: false });
        for _ in 0..3 {
            let error = commit(&mut connection, next + 1).unwrap_err();
            assert_eq!(error.sqlite_error().unwrap().extended_code, code, "{kind:?}");
        }
        disk.heal();
        next += 1;
    }
    // A device error has the code of the call it meets.
    disk.fail(DiskFault { kind: DiskFaultKind::Eio, at: 1, once: true });
    let other = live.path().join("other.db");
    let opened = Connection::open_with_flags_and_vfs(other, rusqlite::OpenFlags::default(), disk.name());
    assert_eq!(opened.unwrap_err().sqlite_error().unwrap().extended_code, ffi::SQLITE_CANTOPEN);
    assert_eq!(count(&connection), Ok(next - 1));
}

#[test]
fn half_of_a_short_write_is_on_disk() {
    let disk = Disk::register("faults-short");
    let live = scratch();
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    // The second write of a transaction is the page of the first frame, after the frame's header.
    disk.fail(DiskFault { kind: DiskFaultKind::ShortWrite, at: 2, once: true });
    let header = disk.len() + 1;
    commit(&mut connection, 1).unwrap_err();
    let range = |cut: usize| {
        let words = disk.describe(cut);
        let (start, end) = words.rsplit(' ').next().unwrap().split_once("..").unwrap();
        (start.parse::<usize>().unwrap(), end.parse::<usize>().unwrap())
    };
    let (_, page) = range(header);
    assert_eq!(range(header + 1), (page, page + 2048));
}

#[test]
fn acknowledged_transactions_survive_a_fault_and_then_a_power_loss() {
    for (settings, name) in [(WAL_FULL, "wal"), (DELETE_EXTRA, "delete")] {
        for kind in DiskFaultKind::ALL {
            let disk = Disk::register(&format!("faults-loss-{name}-{kind:?}"));
            let live = scratch();
            let mut connection = open(&disk, live.path(), settings).unwrap();
            let mut done = 0;
            for round in 1..=6 {
                disk.fail(DiskFault { kind, at: round, once: false });
                let (_, result) = work(&disk, &mut connection, done + 1, done + 9);
                result.unwrap_err();
                disk.heal();
                let there = count(&connection).unwrap();
                (done, _) = work(&disk, &mut connection, there + 1, there + 2);
            }
            assert_eq!(count(&connection), Ok(done));
            lose(&disk, 9, |acknowledged, survivors, place| {
                let survivors = survivors.unwrap_or_else(|damage| panic!("{kind:?}, {place}: {damage}"));
                assert!(survivors >= acknowledged, "{kind:?}, {place}: {survivors} of {acknowledged}");
            });
        }
    }
}
