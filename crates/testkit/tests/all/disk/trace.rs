//! The record and what images are made of.

use std::collections::BTreeMap;
use std::path::Path;

use everturn_testkit::disk::{Disk, Loss, TraceMark, scratch};
use rusqlite::{Connection, OpenFlags};

use super::{DELETE_EXTRA, WAL_FULL, acknowledged, commit, count, open, survivors};

/// The files in a folder that an image can have. Reading them takes away the locks of this process, which does no harm
/// while there is only one connection.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path));
    let kept = named.filter(|(name, _)| !name.ends_with("-shm"));
    kept.map(|(name, path)| (name, std::fs::read(path).unwrap())).collect()
}

fn image(disk: &Disk, cut: usize, loss: Loss) -> BTreeMap<String, Vec<u8>> {
    let folder = scratch();
    disk.image(cut, loss, folder.path());
    assert!(!folder.path().join("a.db-shm").exists());
    files(folder.path())
}

#[test]
fn an_image_without_loss_is_what_is_in_the_folder() {
    for (name, settings) in [("trace-wal", WAL_FULL), ("trace-delete", DELETE_EXTRA)] {
        let disk = Disk::register(name);
        let live = scratch();
        let mut connection = open(&disk, live.path(), settings).unwrap();
        for n in 1..=30 {
            commit(&mut connection, n).unwrap();
            assert!(image(&disk, disk.len(), Loss::Nothing) == files(live.path()), "{name} after {n}");
        }
        // Half-way through a transaction too.
        connection.execute_batch("BEGIN IMMEDIATE; UPDATE entry SET body = zeroblob(9000)").unwrap();
        assert!(image(&disk, disk.len(), Loss::Nothing) == files(live.path()), "{name} in a transaction");
        connection.execute_batch("ROLLBACK").unwrap();
        assert_eq!(survivors(&disk, disk.len(), Loss::Nothing), Ok(30));
        drop(connection);
        assert!(image(&disk, disk.len(), Loss::Nothing) == files(live.path()), "{name} closed");
    }
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let disk = Disk::register("trace-seed");
    let live = scratch();
    let mut connection = open(&disk, live.path(), &WAL_FULL.replace("FULL", "NORMAL")).unwrap();
    commit(&mut connection, 5).unwrap();
    let of = |seed| image(&disk, disk.len(), Loss::Random(seed));
    assert!(of(1) == of(1));
    let different: Vec<_> = (1..20).map(of).filter(|other| *other != of(1)).collect();
    assert!(different.len() > 10, "{} of 19 seeds differ", different.len());
    assert!(image(&disk, 0, Loss::Nothing).is_empty(), "there was nothing in the beginning");
}

#[test]
fn marks_are_in_the_order_of_the_disk() {
    let disk = Disk::register("trace-marks");
    assert!(disk.is_empty());
    disk.mark("before");
    let live = scratch();
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    commit(&mut connection, 1).unwrap();
    let committed = disk.len();
    disk.mark(1);
    disk.mark(format!("after {}", 1));
    assert_eq!(disk.marks_before(0), []);
    assert_eq!(disk.marks_before(committed), [TraceMark::from("before")]);
    assert_eq!(disk.marks_before(disk.len()), [TraceMark::from("before"), 1.into(), "after 1".into()]);
    assert_eq!((acknowledged(&disk, committed), acknowledged(&disk, committed + 1)), (0, 1));
    assert_eq!(disk.describe(committed + 1), "mark 1");
    assert_eq!(disk.describe(0), "nothing");
    assert_eq!(disk.describe(2), "create a.db");
}

/// What a power loss left is the beginning of another trace.
#[test]
fn files_from_before_the_trace_are_in_every_image() {
    let live = scratch();
    {
        let disk = Disk::register("trace-first");
        let folder = scratch();
        let mut connection = open(&disk, folder.path(), WAL_FULL).unwrap();
        for n in 1..=2 {
            commit(&mut connection, n).unwrap();
        }
        disk.image(disk.len(), Loss::Everything, live.path());
    }
    assert!(live.path().join("a.db-wal").exists(), "the transactions are in the WAL file");
    let disk = Disk::register("trace-second");
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    for n in 3..=4 {
        commit(&mut connection, n).unwrap();
        disk.mark(n);
    }
    for cut in 0..=disk.len() {
        for loss in [Loss::Nothing, Loss::Everything, Loss::Random(3)] {
            let there = survivors(&disk, cut, loss).unwrap();
            assert!(there >= acknowledged(&disk, cut).max(2), "{there} at cut {cut}, {loss:?}");
        }
    }
}

#[test]
fn memory_maps_stay_off() {
    let disk = Disk::register_without_trace("trace-map");
    let live = scratch();
    let mut connection = open(&disk, live.path(), WAL_FULL).unwrap();
    let size = connection.query_row("PRAGMA mmap_size = 1000000", [], |row| row.get::<_, i64>(0));
    assert!(!matches!(size, Ok(size) if size > 0), "{size:?}");
    commit(&mut connection, 1).unwrap();
    assert_eq!(count(&connection), Ok(1));
    assert!(disk.is_empty(), "nothing is recorded");
}

#[test]
fn a_trace_has_one_folder_and_a_name_is_free_again() {
    let [here, there] = [scratch(), scratch()];
    let flags = OpenFlags::default();
    let disk = Disk::register("trace-name");
    let first = Connection::open_with_flags_and_vfs(here.path().join("a.db"), flags, disk.name()).unwrap();
    Connection::open_with_flags_and_vfs(there.path().join("a.db"), flags, disk.name()).unwrap_err();
    let same = disk.clone();
    assert!(std::panic::catch_unwind(|| Disk::register("trace-name")).is_err(), "the name is taken");
    drop((disk, same));
    let disk = Disk::register("trace-name");
    Connection::open_with_flags_and_vfs(there.path().join("a.db"), flags, disk.name()).unwrap();
    let before = disk.len();
    first.execute_batch("CREATE TABLE still (works)").unwrap();
    assert_eq!(disk.len(), before, "the first connection is not on the second disk");
}
