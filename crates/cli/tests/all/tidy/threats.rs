//! The table of threats in SECURITY.md names tests for each of them, and they are there.

use super::{check, read};

/// What is wrong with the rows of the table: none may be without a test, and each test must be in its file.
fn problems(page: &str, source: impl Fn(&str) -> String) -> Vec<String> {
    let table =
        page.split("\n## ").find(|section| section.starts_with("What is protected")).unwrap_or_default();
    let is_row = |line: &&str| line.starts_with('|');
    let rows = table.lines().skip_while(|line| !is_row(line)).take_while(is_row).skip(2);
    let rows: Vec<&str> = rows.collect();
    let mut problems = Vec::new();
    if rows.is_empty() {
        problems.push("there is no table of threats".to_owned());
    }
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let Some(shown) = cells.get(3) else {
            problems.push(format!("{row}: no test shows it"));
            continue;
        };
        let (mut file, mut tests) = (String::new(), 0);
        for word in shown.split('`').skip(1).step_by(2) {
            if word.contains('/') {
                file = source(word);
            } else {
                tests += 1;
                if !file.contains(&format!("fn {word}(")) {
                    problems.push(format!("{}: there is no test {word}", cells[0].trim()));
                }
            }
        }
        if tests == 0 {
            problems.push(format!("{}: no test shows it", cells[0].trim()));
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
