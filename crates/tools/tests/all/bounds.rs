//! The size limit of outputs, and the files that keep the rest.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use everturn_tools::bound::{Bounded, OutputLimits, bound, sweep};

use crate::harness::names;

fn numbered(lines: usize) -> String {
    (1..=lines).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn a_text_within_the_limits_is_untouched() {
    let dir = tempfile::tempdir().unwrap();
    for text in [String::new(), "x".repeat(51_200), numbered(2000), numbered(2000).trim_end().to_owned()] {
        let bounded = bound(text.clone(), OutputLimits::default(), dir.path());
        assert_eq!(bounded, Bounded { text, truncated: false, path: None });
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn too_many_lines_keep_both_ends_and_a_private_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/on/demand");
    let text = numbered(2001);
    let bounded = bound(text.clone(), OutputLimits::default(), &out);
    assert!(bounded.truncated);
    assert!(bounded.text.starts_with("line 1\n"));
    assert!(bounded.text.contains("\nline 1000\n"));
    assert!(!bounded.text.contains("\nline 1001\n") && bounded.text.contains("\nline 1002\n"));
    assert!(bounded.text.ends_with("line 2001\n"));
    let path = bounded.path.unwrap();
    assert!(bounded.text.contains(path.to_str().unwrap()));
    assert!(path.file_name().unwrap().to_str().unwrap().starts_with("tool_"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let second = bound(text, OutputLimits::default(), &out).path.unwrap();
    assert_ne!(second, path);
}

#[test]
fn bytes_are_cut_between_characters() {
    let dir = tempfile::tempdir().unwrap();
    for shift in 0..4 {
        let text = format!("{}{}", "x".repeat(shift), "😀".repeat(20_000));
        let bounded = bound(text, OutputLimits::default(), dir.path());
        assert!(bounded.truncated && bounded.text.len() < 51_200 + 400);
        assert!(bounded.text.ends_with('😀'));
    }
    let tiny = bound("äöü".to_owned(), OutputLimits { lines: 10, bytes: 3 }, dir.path());
    assert!(tiny.truncated);
}

#[test]
fn a_file_that_cannot_be_kept_costs_only_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    fs::write(&blocked, "").unwrap();
    let bounded = bound(numbered(5000), OutputLimits::default(), &blocked.join("out"));
    assert!(bounded.truncated && bounded.path.is_none());
    assert!(bounded.text.contains("lost"));
    assert!(bounded.text.ends_with("line 5000\n"));
}

/// A week is what the server keeps outputs for.
#[test]
fn outputs_are_kept_for_a_week_and_nothing_else_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let now = fs::metadata(dir.path()).unwrap().modified().unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    let make = |path: std::path::PathBuf, modified: SystemTime| {
        fs::File::create(path).unwrap().set_modified(modified).unwrap();
    };
    make(dir.path().join("tool_eight_days"), now - 8 * day);
    make(dir.path().join("tool_seven_days"), now - 7 * day);
    make(dir.path().join("tool_six_days"), now - 6 * day);
    make(dir.path().join("notes_of_mine"), now - 100 * day);
    make(dir.path().join("my_tool_output"), now - 100 * day);
    // A folder with our prefix is not ours, nor is what a link leads to.
    fs::create_dir(dir.path().join("tool_folder")).unwrap();
    make(dir.path().join("tool_folder/tool_inside"), now - 100 * day);
    make(elsewhere.path().join("tool_target"), now - 100 * day);
    std::os::unix::fs::symlink(elsewhere.path().join("tool_target"), dir.path().join("tool_link")).unwrap();
    assert_eq!(sweep(dir.path(), now - 7 * day).unwrap(), 1);
    assert_eq!(
        names(dir.path()),
        ["my_tool_output", "notes_of_mine", "tool_folder", "tool_link", "tool_seven_days", "tool_six_days"]
    );
    assert_eq!(names(&dir.path().join("tool_folder")), ["tool_inside"]);
    assert_eq!(names(elsewhere.path()), ["tool_target"]);
    // Nothing to sweep is nothing to complain about.
    assert_eq!(sweep(&dir.path().join("nowhere"), now).unwrap(), 0);
}

#[test]
fn only_old_outputs_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let now = fs::metadata(dir.path()).unwrap().modified().unwrap();
    let make = |name: &str, modified: SystemTime| {
        fs::File::create(dir.path().join(name)).unwrap().set_modified(modified).unwrap();
    };
    make("tool_old", now - Duration::from_secs(100));
    make("tool_new", now);
    make("other_old", now - Duration::from_secs(100));
    assert_eq!(sweep(dir.path(), now - Duration::from_secs(50)).unwrap(), 1);
    assert_eq!(names(dir.path()), ["other_old", "tool_new"]);
}
