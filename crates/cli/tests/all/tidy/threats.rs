//! The table of threats in SECURITY.md names tests for each of them, and they are there.

use super::named_tests::{cells, has_test, quoted, tables};
use super::{check, read};

/// What is wrong with the rows of the table: none may be without a test, and each test must be in its file.
fn problems(page: &str, source: impl Fn(&str) -> String) -> Vec<String> {
    let section =
        page.split("\n## ").find(|section| section.starts_with("What is protected")).unwrap_or_default();
    // The tables below it say what rules mean.
    let rows = tables(section).into_iter().next().unwrap_or_default();
    let mut problems = Vec::new();
    if rows.is_empty() {
        problems.push("there is no table of threats".to_owned());
    }
    for row in rows {
        let cells = cells(row);
        let threat = cells.first().copied().unwrap_or_default();
        let Some(shown) = cells.get(3) else {
            problems.push(format!("{row}: no test shows it"));
            continue;
        };
        let (mut file, mut tests) = (String::new(), 0);
        for word in quoted(shown) {
            if word.contains('/') {
                file = source(word);
            } else {
                tests += 1;
                if !has_test(&file, word) {
                    problems.push(format!("{threat}: there is no test {word}"));
                }
            }
        }
        if tests == 0 {
            problems.push(format!("{threat}: no test shows it"));
        }
    }
    problems
}

#[test]
fn every_threat_has_its_test() {
    check(&problems(&read("SECURITY.md"), read));
}

#[test]
fn threats_without_a_test_are_seen() {
    let page = "x\n## What is protected, against whom\n\n| from | threat | against | shown by |\n|---|---|---|---|\n\
                | a | b | c | `a/b.rs`: `good`, `gone` |\n| d | e | f | |\n\n## Limits\n| x | y |\n";
    let found = problems(page, |_| "fn good() {}".to_owned());
    assert_eq!(found, ["a: there is no test gone", "d: no test shows it"]);
    // Under another heading the table was not found, and nothing was wrong with it.
    assert_eq!(
        problems(&page.replace("What is", "Whatever is"), |_| String::new()),
        ["there is no table of threats"]
    );
}
