//! Capture, diff and restore of real folders.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use everturn_tools::patch::FileStatus;
use everturn_tools::snapshot::{
    CaptureLimits, SkipReason, SkippedFile, SnapshotError, SnapshotPlan, Snapshots, TreeDiff, TreeId,
};

use crate::harness::{Project, names};

fn open(project: &Project) -> Snapshots {
    Snapshots::open(project.outside().join("store"), project.path("")).unwrap()
}

/// What changed between two trees, as relative paths.
fn changed(project: &Project, snapshots: &Snapshots, from: &TreeId, to: &TreeId) -> Vec<String> {
    let relative = |path: &PathBuf| path.strip_prefix(project.path("")).unwrap().to_str().unwrap().to_owned();
    snapshots.changed(from, to).unwrap().iter().map(relative).collect()
}

fn plan(snapshots: &Snapshots, now: &TreeId, target: &TreeId) -> SnapshotPlan {
    SnapshotPlan::uniform(now.clone(), target, snapshots.changed(target, now).unwrap())
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// How many blobs a store holds.
fn blobs(project: &Project) -> usize {
    let dir = project.outside().join("store/blobs");
    names(&dir).iter().map(|folder| names(&dir.join(folder)).len()).sum()
}

#[test]
fn an_unchanged_tree_has_the_same_name() {
    let project = Project::new();
    let snapshots = open(&project);
    let empty = snapshots.capture().unwrap();
    assert_eq!(empty.as_str().len(), 40);
    project.file("a", "1");
    project.file("b/c", "2");
    let first = snapshots.capture().unwrap();
    assert_ne!(first, empty);
    assert_eq!(snapshots.capture().unwrap(), first);
    assert_eq!(open(&project).capture().unwrap(), first, "another process agrees");
    project.file("a", "1");
    assert_eq!(snapshots.capture().unwrap(), first, "only the content counts");
    assert_eq!(blobs(&project), 2);
    let elsewhere = Snapshots::open(project.outside().join("other"), project.path("")).unwrap();
    assert_eq!(elsewhere.capture().unwrap(), first);
}

#[test]
fn a_change_within_the_clocks_tick_is_seen() {
    let project = Project::new();
    let snapshots = open(&project);
    let mut seen = Vec::new();
    for n in 0..200 {
        // Same length and, on most systems, same times as the round before.
        let path = project.file("a", format!("{n:03}"));
        fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let tree = snapshots.capture().unwrap();
        assert_eq!(snapshots.content(&tree, Path::new("a")).unwrap().unwrap(), format!("{n:03}").as_bytes());
        seen.push(tree);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
}

#[test]
fn a_new_process_does_not_read_unchanged_files() {
    let project = Project::new();
    let path = project.file("a", "1");
    let snapshots = open(&project);
    // The first captures may fall into the tick of the write; wait for the clock to leave it.
    let ctime = |path: &Path| {
        let meta = fs::metadata(path).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let probe = project.outside().join("probe");
    loop {
        fs::write(&probe, "").unwrap();
        if ctime(&probe) > ctime(&path) {
            break;
        }
    }
    let first = snapshots.capture().unwrap();
    fs::remove_dir_all(project.outside().join("store/blobs")).unwrap();
    assert_eq!(open(&project).capture().unwrap(), first);
    assert!(
        matches!(snapshots.content(&first, Path::new("a")), Err(SnapshotError::Corrupt(_))),
        "no blob was written"
    );
}

#[test]
fn diffs_have_the_recorded_form() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file("gone.txt", "x\n");
    let lines: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
    project.file("m.txt", lines.join("\n") + "\n");
    project.file("bin", b"\0a");
    let from = snapshots.capture().unwrap();
    project.file("w.txt", "written");
    fs::remove_file(project.path("gone.txt")).unwrap();
    project.file("m.txt", lines.join("\n").replace("15", "fifteen") + "\n31\n");
    project.file("bin", b"\0b");
    let to = snapshots.capture().unwrap();
    assert_eq!(changed(&project, &snapshots, &from, &to), ["bin", "gone.txt", "m.txt", "w.txt"]);
    let head = |file: &str| format!("Index: {file}\n{}\n--- {file}\t\n+++ {file}\t\n", "=".repeat(67));
    let diff = |file: &str, patch: String, additions, deletions, status| TreeDiff {
        file: file.to_owned(),
        patch,
        additions,
        deletions,
        status,
    };
    let modified = "@@ -11,9 +11,9 @@\n 11\n 12\n 13\n 14\n-15\n+fifteen\n 16\n 17\n 18\n 19\n\
                    @@ -27,4 +27,5 @@\n 27\n 28\n 29\n 30\n+31\n";
    let expected = [
        diff("bin", String::new(), 0, 0, FileStatus::Modified),
        diff("gone.txt", head("gone.txt") + "@@ -1,1 +0,0 @@\n-x\n", 0, 1, FileStatus::Deleted),
        diff("m.txt", head("m.txt") + modified, 2, 1, FileStatus::Modified),
        diff(
            "w.txt",
            head("w.txt") + "@@ -0,0 +1,1 @@\n+written\n\\ No newline at end of file\n",
            1,
            0,
            FileStatus::Added,
        ),
    ];
    assert_eq!(snapshots.diff(&from, &to).unwrap(), expected);
    assert_eq!(serde_json::to_value(&expected[3]).unwrap()["status"], "added");
    assert!(snapshots.diff(&to, &to).unwrap().is_empty());
}

#[test]
fn ignored_files_are_left_out_without_git() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file(".gitignore", "target/\n*.log\n!keep.log\n");
    project.file("sub/.gitignore", "local\n");
    for name in ["target/x", "a.log", "sub/local", "sub/b.log", ".git/config", "sub/.git/HEAD"] {
        project.file(name, name);
    }
    for name in ["keep.log", "sub/kept", ".hidden", "local"] {
        project.file(name, name);
    }
    let empty = Snapshots::open(project.outside().join("s2"), project.outside().join("none"));
    assert!(
        matches!(empty.unwrap().capture(), Err(SnapshotError::Io { .. })),
        "a missing worktree is an error"
    );
    let tree = snapshots.capture().unwrap();
    let from = {
        let bare = Project::new();
        open(&bare).capture().unwrap()
    };
    assert!(matches!(snapshots.changed(&from, &tree), Err(SnapshotError::Unknown(_))));
    let has = |name: &str| snapshots.content(&tree, Path::new(name)).unwrap().is_some();
    for name in [".gitignore", "sub/.gitignore", "keep.log", "sub/kept", ".hidden", "local"] {
        assert!(has(name), "{name}");
    }
    for name in ["target/x", "a.log", "sub/local", "sub/b.log", ".git/config", "sub/.git/HEAD"] {
        assert!(!has(name), "{name}");
    }
}

#[test]
fn ignore_rules_are_neither_waited_for_nor_read_without_end() {
    // A pipe in their place held up every turn for good, and long ones took gigabytes.
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let project = Project::new();
    let snapshots = open(&project);
    project.file("kept", "x");
    project.file("trap/left", "x");
    pipe(&project.path("trap/.gitignore"));
    let tree = snapshots.capture().unwrap();
    let has = |name: &str| snapshots.content(&tree, Path::new(name)).unwrap().is_some();
    assert_eq!([has("kept"), has("trap/left")], [true, false]);
    project.file(".gitignore", "a*b*c\n".repeat(20_000));
    assert!(matches!(snapshots.capture(), Err(SnapshotError::Rules(_))));
    fs::remove_file(project.path(".gitignore")).unwrap();
    pipe(&project.path(".gitignore"));
    assert!(matches!(snapshots.capture(), Err(SnapshotError::Rules(_))));
}

#[test]
fn a_store_inside_the_worktree_does_not_capture_itself() {
    let project = Project::new();
    project.file("a", "1");
    let snapshots = Snapshots::open(project.path(".store"), project.scope.worktree.clone()).unwrap();
    let first = snapshots.capture().unwrap();
    assert_eq!(snapshots.capture().unwrap(), first);
    assert!(snapshots.content(&first, Path::new(".store/index")).unwrap().is_none());
}

#[test]
fn a_private_folder_is_neither_recorded_nor_put_back() {
    // Undo offered to write the log of a database back that was in use.
    let project = Project::new();
    project.file("own/log", "1");
    project.file("a", "1");
    let open = || Snapshots::open(project.outside().join("store"), project.path("")).unwrap();
    let before = open().capture().unwrap();
    project.file("own/log", "2");
    project.file("own/new", "2");
    project.file("a", "2");
    let snapshots = open().without(project.path("own"));
    let after = snapshots.capture().unwrap();
    for file in ["own/log", "own/new"] {
        assert!(snapshots.content(&after, Path::new(file)).unwrap().is_none(), "{file}");
    }
    // A tree of an earlier version has it.
    let files = ["own/log", "a"].map(|file| (project.path(file), before.clone()));
    let report = snapshots.restore(&SnapshotPlan { expected: after, files: files.into() }).unwrap();
    assert_eq!(report.restored, [project.path("a")]);
    let skipped = [SkippedFile { file: project.path("own/log"), why: SkipReason::Private }];
    assert_eq!(report.skipped, skipped);
    assert_eq!(fs::read_to_string(project.path("own/log")).unwrap(), "2");
}

#[test]
fn large_files_wait_until_they_are_known() {
    let project = Project::new();
    let snapshots = open(&project);
    let large = vec![b'x'; 3 * 1024 * 1024];
    project.file("large", &large);
    project.file("grows", "small");
    let first = snapshots.capture().unwrap();
    assert!(snapshots.content(&first, Path::new("large")).unwrap().is_none());
    project.file("grows", &large);
    let second = open(&project).capture().unwrap();
    assert_eq!(changed(&project, &snapshots, &first, &second), ["grows"]);
    let few = CaptureLimits { files: 1, ..CaptureLimits::default() };
    let refused = Snapshots::with_bounds(project.outside().join("s2"), project.path(""), few).unwrap();
    project.file("another", "");
    project.file("third", "");
    assert!(matches!(refused.capture(), Err(SnapshotError::TooMany(1))));
    assert!(matches!(Snapshots::open(project.outside().join("s3"), "/"), Err(SnapshotError::Root)));
}

#[test]
fn everything_comes_back() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file("modified", b"bytes \xff\xfe\0 kept");
    project.file("deep/er/deleted", "gone soon");
    let script = project.file("script", "#!/bin/sh\n");
    chmod(&script, 0o755);
    let private = project.file("private", "secret");
    chmod(&private, 0o600);
    symlink("modified", project.path("link")).unwrap();
    let odd = project.path("").join(OsStr::from_bytes(b"odd\n\xff name"));
    fs::write(&odd, "odd").unwrap();
    project.file("becomes_folder", "file");
    project.file("becomes_file/x", "x");
    let before = snapshots.capture().unwrap();

    project.file("modified", "changed");
    fs::remove_dir_all(project.path("deep")).unwrap();
    project.file("new/folder/added", "added");
    chmod(&script, 0o644);
    fs::remove_file(&private).unwrap();
    fs::remove_file(project.path("link")).unwrap();
    symlink("/etc/passwd", project.path("link")).unwrap();
    fs::remove_file(&odd).unwrap();
    fs::remove_file(project.path("becomes_folder")).unwrap();
    project.file("becomes_folder/y", "y");
    fs::remove_dir_all(project.path("becomes_file")).unwrap();
    project.file("becomes_file", "now");
    let after = snapshots.capture().unwrap();

    let plan_back = plan(&snapshots, &after, &before);
    let report = snapshots.restore(&plan_back).unwrap();
    assert_eq!(report.skipped, []);
    assert_eq!(report.restored.len(), 11);
    assert_eq!(snapshots.capture().unwrap(), before);
    assert_eq!(project.content("modified"), b"bytes \xff\xfe\0 kept");
    assert_eq!(fs::read(&odd).unwrap(), b"odd");
    assert_eq!(fs::metadata(&script).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_link(project.path("link")).unwrap(), Path::new("modified"));
    assert!(!project.path("new").exists(), "emptied folders go too");
    assert_eq!(snapshots.restore(&plan_back).unwrap(), report, "doing it again changes nothing");
    let forth = SnapshotPlan::uniform(before.clone(), &after, snapshots.changed(&before, &after).unwrap());
    assert_eq!(snapshots.restore(&forth).unwrap().skipped, []);
    assert_eq!(snapshots.capture().unwrap(), after);
}

#[test]
fn what_the_person_changed_stays() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file("a", "a0");
    project.file("b", "b0");
    project.file("c", "c0");
    let before = snapshots.capture().unwrap();
    project.file("a", "a1");
    project.file("b", "b1");
    fs::remove_file(project.path("c")).unwrap();
    project.file("d", "d1");
    let after = snapshots.capture().unwrap();
    project.file("b", "mine");
    project.file("c", "mine too");
    project.file("d", "and mine");
    let report = snapshots.restore(&plan(&snapshots, &after, &before)).unwrap();
    assert_eq!(report.restored, [project.path("a")]);
    let skipped: Vec<_> = report.skipped.iter().map(|skip| (skip.file.clone(), skip.why.clone())).collect();
    let kept = ["b", "c", "d"].map(|name| (project.path(name), SkipReason::Changed));
    assert_eq!(skipped, kept);
    assert_eq!(project.text("a"), "a0");
    assert_eq!((project.text("b"), project.text("c")), ("mine".into(), "mine too".into()));
    assert_eq!(project.text("d"), "and mine");
}

#[test]
fn a_file_that_was_only_ignored_is_not_removed() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file(".gitignore", ".env\nbuild/\n");
    project.file(".env", "KEY=1");
    project.file("build/out", "o");
    let before = snapshots.capture().unwrap();
    project.file(".gitignore", "");
    project.file("added", "x");
    let after = snapshots.capture().unwrap();
    assert_eq!(changed(&project, &snapshots, &before, &after), [".env", ".gitignore", "added", "build/out"]);
    let report = snapshots.restore(&plan(&snapshots, &after, &before)).unwrap();
    let skipped: Vec<_> = report.skipped.iter().map(|skip| (skip.file.clone(), skip.why.clone())).collect();
    assert_eq!(
        skipped,
        [(project.path(".env"), SkipReason::Ignored), (project.path("build/out"), SkipReason::Ignored)]
    );
    assert_eq!(project.text(".env"), "KEY=1");
    assert!(!project.path("added").exists());
    assert_eq!(snapshots.capture().unwrap(), before);
}

#[test]
fn a_restore_stays_in_the_worktree() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file("dir/a", "0");
    let before = snapshots.capture().unwrap();
    project.file("dir/a", "1");
    let after = snapshots.capture().unwrap();
    fs::rename(project.path("dir"), project.outside().join("moved")).unwrap();
    symlink(project.outside().join("moved"), project.path("dir")).unwrap();
    let files = [PathBuf::from("dir/a"), PathBuf::from("../moved/a"), "/etc/hostname".into(), "".into()];
    let report = snapshots.restore(&SnapshotPlan::uniform(after, &before, files)).unwrap();
    assert_eq!(report.restored, [] as [PathBuf; 0]);
    assert!(report.skipped.iter().all(|skip| skip.why == SkipReason::Outside), "{report:?}");
    assert_eq!(fs::read_to_string(project.outside().join("moved/a")).unwrap(), "1");
}

#[test]
fn captures_at_the_same_time_agree() {
    let project = Project::new();
    for n in 0..200 {
        project.file(&format!("d{}/f{n}", n % 7), format!("content {n}"));
    }
    let barrier = Barrier::new(4);
    let trees: Vec<TreeId> = std::thread::scope(|scope| {
        let capture = || {
            let snapshots = open(&project);
            barrier.wait();
            snapshots.capture().unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(capture)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(trees.iter().all(|tree| *tree == trees[0]));
    assert_eq!(blobs(&project), 200, "no temporary file is left");
    let snapshots = open(&project);
    for n in 0..200 {
        let content = snapshots.content(&trees[0], &project.path(&format!("d{}/f{n}", n % 7))).unwrap();
        assert_eq!(content.unwrap(), format!("content {n}").into_bytes());
    }
}

#[test]
fn damage_is_noticed() {
    let project = Project::new();
    let snapshots = open(&project);
    project.file("a", "0");
    let before = snapshots.capture().unwrap();
    project.file("a", "1");
    let after = snapshots.capture().unwrap();
    let hex = blake3::hash(b"0").to_hex().to_string();
    let blob = project.outside().join("store/blobs").join(&hex[..2]).join(&hex[2..]);
    fs::copy(project.outside().join("store/trees").join(before.as_str()), &blob).unwrap();
    assert!(matches!(snapshots.diff(&before, &after), Err(SnapshotError::Corrupt(path)) if path == blob));
    let report = snapshots.restore(&plan(&snapshots, &after, &before)).unwrap();
    assert!(matches!(report.skipped[0].why, SkipReason::Refused(_)));
    assert_eq!(project.text("a"), "1");
    fs::write(project.outside().join("store/index"), "rubbish").unwrap();
    assert_eq!(open(&project).capture().unwrap(), after, "a damaged index only costs time");
    assert!("xyz".parse::<TreeId>().is_err() && "A".repeat(40).parse::<TreeId>().is_err());
}
