//! Captures and restores while a program exchanges folders with links that lead outside.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use everturn_tools::snapshot::{SnapshotPlan, Snapshots, TreeId};
use rustix::fs::{CWD, RenameFlags};

use crate::harness::{Project, names};

fn open(project: &Project) -> Snapshots {
    Snapshots::open(project.outside().join("store"), project.path("")).unwrap()
}

/// Says when it goes that all is done, also when a test has failed.
struct DoneAtDrop<'a>(&'a AtomicBool);

impl Drop for DoneAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges the folders `d0`, `d1` and so on of a project with the links `l0`, `l1` and so on for as long as `work` takes.
fn while_swapping(project: &Project, count: usize, work: impl FnOnce()) {
    let swap = |n: usize| {
        let (folder, link) = (project.path(&format!("d{n}")), project.path(&format!("l{n}")));
        rustix::fs::renameat_with(CWD, folder, CWD, link, RenameFlags::EXCHANGE).unwrap();
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rounds = 0_usize;
            while !done.load(Ordering::Relaxed) || rounds % 2 == 1 {
                (0..count).for_each(swap);
                rounds += 1;
            }
        });
        let _done = DoneAtDrop(&done);
        work();
    });
}

#[test]
fn a_capture_records_nothing_outside_while_folders_become_links() {
    // A program of an agent exchanged folders with links to `~/.ssh`, and the key there was in the snapshot.
    let project = Project::new();
    fs::write(project.outside().join("key"), "secret").unwrap();
    for n in 0..20 {
        project.file(&format!("d{n}/key"), format!("own {n}"));
        symlink(project.outside(), project.path(&format!("l{n}"))).unwrap();
    }
    while_swapping(&project, 20, || {
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            let snapshots = open(&project);
            let tree = snapshots.capture().unwrap();
            for n in 0..20 {
                for name in [format!("d{n}/key"), format!("l{n}/key")] {
                    let content = snapshots.content(&tree, Path::new(&name)).unwrap();
                    assert_ne!(content.as_deref(), Some(b"secret".as_slice()), "{name}");
                }
            }
        }
    });
}

#[test]
fn a_restore_touches_nothing_outside_while_folders_become_links() {
    // The undo of a person removed and wrote files where the links of a program led.
    let project = Project::new();
    let outside = project.outside().join("docs");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("removed"), "after").unwrap();
    fs::write(outside.join("changed"), "after").unwrap();
    let snapshots = open(&project);
    let fill = |text: &str| (0..20).for_each(|n| drop(project.file(&format!("d{n}/changed"), text)));
    fill("before");
    let before = snapshots.capture().unwrap();
    fill("after");
    (0..20).for_each(|n| drop(project.file(&format!("d{n}/removed"), "after")));
    let after = snapshots.capture().unwrap();
    let plan = |now: &TreeId, target: &TreeId| {
        SnapshotPlan::uniform(now.clone(), target, snapshots.changed(target, now).unwrap())
    };
    let (undo, redo) = (plan(&after, &before), plan(&before, &after));
    (0..20).for_each(|n| symlink(&outside, project.path(&format!("l{n}"))).unwrap());
    while_swapping(&project, 20, || {
        let deadline = Instant::now() + Duration::from_secs(1);
        while Instant::now() < deadline {
            snapshots.restore(&undo).unwrap();
            assert_eq!(names(&outside), ["changed", "removed"]);
            assert_eq!(fs::read_to_string(outside.join("changed")).unwrap(), "after");
            snapshots.restore(&redo).unwrap();
        }
    });
}
