//! Edits and patches by properties: what they make of any text, and that a failed one makes nothing of it.

use std::fs;
use std::ops::Range;
use std::sync::LazyLock;

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::edit::EditTool;
use everturn_tools::{Failure, Output, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use tokio::runtime::Runtime;

use crate::harness::{Project, tree};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn run(project: &Project, tool: &dyn Tool, input: Value) -> Result<Output, Failure> {
    RUNTIME.block_on(project.run(tool, input))
}

/// A hunk's worth of a diff, by lines of the old text.
struct Part {
    old: Range<usize>,
    text: String,
}

/// The parts of a diff with so many lines around each change.
fn parts(before: &str, after: &str, context: usize) -> Vec<Part> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let diff = TextDiff::configure().diff_slices(&old, &new);
    let groups = diff.grouped_ops(context);
    let part = |group: &Vec<similar::DiffOp>| {
        let mut text = String::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            text.push(sign);
            text.push_str(change.value());
            if !change.value().ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        Part { old: group[0].old_range().start..group[group.len() - 1].old_range().end, text }
    };
    groups.iter().map(part).collect()
}

/// The section of a patch that turns one text into another, with as many lines around each change as it takes for
/// every hunk to have one place.
fn section(name: &str, before: &str, after: &str) -> String {
    let bare = |text: &str| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
    let (before, after) = (bare(before), bare(after));
    let lines: Vec<&str> =
        before.split_inclusive('\n').map(|line| line.trim_end_matches('\n').trim_end_matches('\r')).collect();
    let unique = |parts: &[Part]| {
        let mut from = 0;
        parts.iter().all(|part| {
            let wanted = &lines[part.old.clone()];
            let places =
                lines[from..].windows(wanted.len().max(1)).filter(|window| *window == wanted).count();
            from = part.old.end;
            places == 1
        })
    };
    let fitting =
        (1..=lines.len()).map(|context| parts(&before, &after, context)).find(|parts| unique(parts));
    let whole = || {
        let mut parts = parts(&before, &after, lines.len() + 1);
        parts[0].text.push_str("*** End of File\n");
        parts
    };
    let mut text = format!("*** Update File: {name}\n");
    for part in fitting.unwrap_or_else(whole) {
        text.push_str("@@\n");
        text.push_str(&part.text);
    }
    text
}

fn patch(sections: &str) -> Value {
    json!({ "patchText": format!("*** Begin Patch\n{sections}*** End Patch\n") })
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Lf,
    CrLf,
    Mixed,
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![3 => "[ab \t]{0,3}", 1 => "[@*+\\-\\\\ ]{0,5}", 1 => "\\PC{0,8}"];
    prop::collection::vec(line, 0..14)
}

/// Two texts of which one could be an edit of the other.
fn pair() -> impl Strategy<Value = (String, String)> {
    let ends = prop_oneof![Just(Ends::Lf), Just(Ends::CrLf), Just(Ends::Mixed)];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), lines()), 0..4);
    (lines(), edits, ends, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(old, edits, ends, mark, old_closed, new_closed)| {
            let mut new = old.clone();
            for (at, keep, with) in edits {
                let at = at.index(new.len() + 1);
                let gone = usize::from(!keep && at < new.len());
                new.splice(at..at + gone, with.into_iter().take(3));
            }
            (text(&old, ends, mark, old_closed), text(&new, ends, mark, new_closed))
        },
    )
}

fn text(lines: &[String], ends: Ends, mark: bool, closed: bool) -> String {
    let mut text = String::from(if mark { "\u{feff}" } else { "" });
    for (at, line) in lines.iter().enumerate() {
        text.push_str(line);
        let carriage = match ends {
            Ends::Lf => false,
            Ends::CrLf => true,
            Ends::Mixed => line.len() % 2 == 0,
        };
        if at + 1 < lines.len() || closed {
            text.push_str(if carriage { "\r\n" } else { "\n" });
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        // One pair in seven is no change; the long campaigns draw thousands.
        max_global_rejects: 65_536,
        ..ProptestConfig::with_cases(96)
    })]

    #[test]
    fn a_patch_and_its_reverse_give_the_same_bytes((before, after) in pair()) {
        prop_assume!(before != after);
        let project = Project::new();
        let path = project.file("f", &before);
        let there = section("f", &before, &after);
        run(&project, &ApplyPatchTool, patch(&there)).map_err(|failure| TestCaseError::fail(format!("{failure}\n{there}")))?;
        prop_assert_eq!(&fs::read_to_string(&path).unwrap(), &after, "{}", there);
        let back = section("f", &after, &before);
        run(&project, &ApplyPatchTool, patch(&back)).map_err(|failure| TestCaseError::fail(format!("{failure}\n{back}")))?;
        prop_assert_eq!(&fs::read_to_string(&path).unwrap(), &before, "{}", back);
    }

    #[test]
    fn several_files_and_their_reverse(texts in prop::collection::vec(pair(), 1..4), moved in any::<bool>()) {
        let project = Project::new();
        let (mut there, mut back) = (String::new(), String::new());
        for (at, (before, after)) in texts.iter().enumerate().filter(|(_, (before, after))| before != after) {
            let (from, to) = (format!("{at}"), format!("deep/{at}"));
            project.file(&from, before);
            let renamed = |section: String, from: &str, to: &str| {
                let header = format!("*** Update File: {from}\n");
                section.replacen(&header, &format!("{header}*** Move to: {to}\n"), 1)
            };
            if moved {
                there += &renamed(section(&from, before, after), &from, &to);
                back += &renamed(section(&to, after, before), &to, &from);
            } else {
                there += &section(&from, before, after);
                back += &section(&from, after, before);
            }
        }
        prop_assume!(!there.is_empty());
        let mut old = tree(&project.outside());
        run(&project, &ApplyPatchTool, patch(&there)).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        run(&project, &ApplyPatchTool, patch(&back)).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        if moved {
            // The folder that was made for the way there stays, and is empty.
            fs::remove_dir(project.path("deep")).unwrap();
        }
        prop_assert_eq!(&mut old, &mut tree(&project.outside()));
    }

    #[test]
    fn a_patch_that_fails_anywhere_changes_nothing(
        texts in prop::collection::vec(pair(), 1..4),
        bad in any::<prop::sample::Index>(),
        kind in 0..5_usize,
    ) {
        let project = Project::new();
        project.file("dir/x", "x\n");
        let bad = bad.index(texts.len() + 1);
        let mut sections = Vec::new();
        for (at, (before, after)) in texts.iter().enumerate() {
            project.file(&at.to_string(), before);
            sections.push(if before == after {
                format!("*** Add File: new/{at}\n+x\n")
            } else {
                section(&at.to_string(), before, after)
            });
        }
        let wrong = [
            "*** Update File: dir/x\n-x\n+y\n@@\n-not there\n+y\n",
            "*** Add File: dir\n+x\n",
            "*** Add File: /proc/everturn/x\n+x\n",
            "*** Add File: n/a\n+x\n*** Add File: n\n+x\n",
            "*** Update File: dir/x\n*** Move to: dir/x/y\n-x\n+y\n",
        ];
        sections.insert(bad, wrong[kind].to_owned());
        let before = tree(&project.outside());
        let failure = run(&project, &ApplyPatchTool, patch(&sections.concat())).unwrap_err();
        prop_assert!(matches!(failure, Failure::Failed(_)), "{}", failure);
        prop_assert_eq!(tree(&project.outside()), before);
    }

    #[test]
    fn an_edit_of_what_occurs_once_gives_the_bytes(
        (before, _) in pair(),
        from in any::<prop::sample::Index>(),
        length in 1..12_usize,
        new in "[ab\\PC]{0,6}",
    ) {
        let project = Project::new();
        let path = project.file("f", &before);
        let bare = before.strip_prefix('\u{feff}').unwrap_or(&before);
        let chars: Vec<char> = bare.chars().collect();
        prop_assume!(!chars.is_empty());
        let from = from.index(chars.len());
        let old: String = chars[from..(from + length).min(chars.len())].iter().collect();
        prop_assume!(old != new);
        let input = json!({ "filePath": "f", "oldString": old, "newString": new });
        let result = run(&project, &EditTool, input);
        let now = fs::read_to_string(&path).unwrap();
        let mark = &before[..before.len() - bare.len()];
        // Occurrences that overlap count too: in "\n \n \n" the text "\n \n" has two places.
        let places = bare.char_indices().filter(|(at, _)| bare[*at..].starts_with(&old)).count();
        if places == 1 {
            prop_assert!(result.is_ok(), "{:?}", result);
            prop_assert_eq!(now, format!("{mark}{}", bare.replacen(&old, &new, 1)));
        } else {
            prop_assert!(result.is_err());
            prop_assert_eq!(now, before);
        }
    }

    #[test]
    fn an_edit_that_fails_changes_nothing((before, other) in pair(), old in "[abc \n\t]{1,6}") {
        let project = Project::new();
        project.file("f", &before);
        project.file("g", &other);
        let tree_before = tree(&project.outside());
        let input = json!({ "filePath": "f", "oldString": old, "newString": "\u{1f980}" });
        if run(&project, &EditTool, input).is_err() {
            prop_assert_eq!(tree(&project.outside()), tree_before);
        } else {
            // Whatever was found, only one place changed.
            prop_assert_eq!(project.text("f").matches('\u{1f980}').count(), 1 + before.matches('\u{1f980}').count());
            prop_assert_eq!(project.text("g"), other);
        }
    }
}
