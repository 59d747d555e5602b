//! Changes put back, and what cannot be.

use super::*;

fn target(dir: &Path, name: &str) -> Target {
    Target::new(dir.join(name), dir.join(name))
}

/// Three changes that were made, with a folder to make them in.
fn done() -> (tempfile::TempDir, PathBuf, ReplacementSteps) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    fs::write(dir.join("replaced"), "old").unwrap();
    fs::write(dir.join("removed"), "old").unwrap();
    let print = blake3::hash(b"old").to_hex();
    let mut steps = ReplacementSteps::default();
    for (name, expected, content) in [
        ("created", None, Some(&b"new"[..])),
        ("replaced", Some(print.as_str()), Some(&b"new"[..])),
        ("removed", Some(print.as_str()), None),
    ] {
        let target = target(&dir, name);
        let change =
            FileChange { target: &target, expected, content: content.map(|content| (content, None)) };
        steps.prepare(&change).unwrap();
    }
    for step in &mut steps.0 {
        step.make().unwrap();
    }
    (folder, dir, steps)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn what_was_done_is_put_back() {
    let (_folder, dir, mut steps) = done();
    assert_eq!(steps.undo(), [""; 0]);
    drop(steps);
    assert_eq!(names(&dir), ["removed", "replaced"]);
    assert_eq!(fs::read(dir.join("replaced")).unwrap(), b"old");
}

#[test]
fn what_cannot_be_put_back_is_named_with_its_state() {
    let (_folder, dir, mut steps) = done();
    // The old contents vanish, and someone takes the new file's name.
    let old = |steps: &ReplacementSteps, at: usize| dir.join(steps.0[at].old.as_ref().unwrap());
    let (first, second) = (old(&steps, 1), old(&steps, 2));
    fs::remove_file(&first).unwrap();
    fs::write(dir.join("removed"), "theirs").unwrap();
    fs::remove_file(dir.join("created")).unwrap();
    let left = steps.undo();
    drop(steps);
    let [removed, replaced, created] = &left[..] else { panic!("{left:?}") };
    let kept = format!("removed is gone; its content is in {}", second.display());
    assert!(removed.contains(&kept), "{removed}");
    assert!(replaced.contains("replaced was exchanged by someone else"), "{replaced}");
    assert!(created.contains("created is new and could not be removed again"), "{created}");
    assert_eq!(fs::read(second).unwrap(), b"old");
    assert_eq!(fs::read(dir.join("removed")).unwrap(), b"theirs");
    let error = ReplacementError { path: dir.join("x"), cause: ReplacementCause::Changed, left };
    let text = error.failure().to_string();
    assert!(text.contains("all files but these are as they were:\n- "), "{text}");
}

#[test]
fn what_someone_else_put_there_is_never_deleted() {
    let (_folder, dir, mut steps) = done();
    fs::remove_file(dir.join("created")).unwrap();
    fs::write(dir.join("created"), "theirs").unwrap();
    let left = steps.undo();
    drop(steps);
    assert_eq!(left.len(), 1, "{left:?}");
    let kept = names(&dir).into_iter().find(|name| name.starts_with(STAGED)).unwrap();
    assert!(left[0].contains(&kept), "{left:?}");
    assert_eq!(fs::read(dir.join(kept)).unwrap(), b"theirs");
}

#[test]
fn a_change_by_someone_else_is_noticed_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    let other = target(&dir, "a");
    fs::write(dir.join("a"), "theirs").unwrap();
    for (expected, content) in [
        (Some("stale"), Some((&b"mine"[..], None))),
        (None, Some((&b"mine"[..], None))),
        (Some("stale"), None),
    ] {
        let change = FileChange { target: &other, expected, content };
        let error = apply(&[change], &CancellationToken::new()).unwrap_err();
        assert!(matches!(error.cause, ReplacementCause::Changed) && error.left.is_empty(), "{error:?}");
        assert_eq!(
            (names(&dir), fs::read(dir.join("a")).unwrap()),
            (vec!["a".to_owned()], b"theirs".to_vec())
        );
    }
}

#[test]
fn a_call_that_is_cancelled_before_the_first_change_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    fs::write(dir.join("replaced"), "old").unwrap();
    let print = blake3::hash(b"old").to_hex();
    let (created, replaced) = (target(&dir, "new/created"), target(&dir, "replaced"));
    let content = Some((&b"new"[..], None));
    let changes = [
        FileChange { target: &created, expected: None, content },
        FileChange { target: &replaced, expected: Some(print.as_str()), content },
    ];
    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = apply(&changes, &cancel).unwrap_err();
    assert!(matches!(error.failure(), Failure::Cancelled), "{error:?}");
    assert_eq!(
        (names(&dir), fs::read(dir.join("replaced")).unwrap()),
        (vec!["replaced".to_owned()], b"old".to_vec())
    );
}
