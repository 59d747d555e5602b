//! The page of behaviours names a test for each of them, or says why there is none; and the tests are there.

use super::named_tests::{cells, has_test, quoted, tables};
use super::{check, files, read};

const PAGE: &str = "docs/behaviours.md";

/// With these words a row begins to say that there is no such behaviour here, or no test of it.
const REASONS: [&str; 3] = ["otherwise: ", "no: ", "not yet: "];

/// The files that may have a test: `engine inbox::name` is in a file of the crate's tests, or in one of its sources.
fn places(test: &str) -> Option<(Vec<String>, &str)> {
    let (package, path) = test.split_once(' ')?;
    let (modules, name) = path.rsplit_once("::")?;
    let file =
        |folder: &str, modules: &str| format!("crates/{package}/{folder}/{}.rs", modules.replace("::", "/"));
    let mut places = vec![file("tests/all", modules), file("src", modules)];
    places.extend(modules.strip_suffix("::tests").map(|modules| file("src", modules)));
    Some((places, name))
}

/// What is wrong with the rows: each has a test or a reason, and each test must be there.
fn problems(page: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for row in tables(page).concat() {
        let cells = cells(row);
        let (behaviour, shown) = (cells.first().copied().unwrap_or_default(), cells.get(1).copied());
        let Some(shown) = shown.filter(|_| cells.len() == 2) else {
            problems.push(format!("{behaviour}: a row has two cells"));
            continue;
        };
        let mut tests = 0;
        for test in quoted(shown).filter(|word| word.contains("::") && word.contains(' ')) {
            tests += 1;
            let there = places(test).is_some_and(|(places, name)| {
                places.iter().filter_map(|place| source(place)).any(|text| has_test(&text, name))
            });
            if !there {
                problems.push(format!("{behaviour}: there is no test {test}"));
            }
        }
        if tests == 0 && !REASONS.iter().any(|reason| shown.starts_with(reason)) {
            problems.push(format!("{behaviour}: neither a test nor a reason"));
        }
    }
    problems
}

#[test]
fn every_behaviour_has_its_test_or_a_reason() {
    let all = files();
    let page = read(PAGE);
    assert!(tables(&page).concat().len() > 150, "the rows are found");
    check(&problems(&page, |file| all.iter().any(|known| known == file).then(|| read(file))));
}

#[test]
fn behaviours_without_a_test_are_seen() {
    let page = "# x\n\n| behaviour | test |\n|---|---|\n| a | `store b::good`, `store c::tests::inner` |\n\
                | b | `store b::gone` |\n| c | `gone` |\n| d | otherwise: so |\n| e |\n\n\
                | behaviour | test |\n|---|---|\n| f | not yet: later; `model none::good` |\n";
    let source = |file: &str| match file {
        "crates/store/tests/all/b.rs" => Some("fn good() {}".to_owned()),
        "crates/store/src/c.rs" => Some("fn inner() {}".to_owned()),
        _ => None,
    };
    let expected = [
        "b: there is no test store b::gone",
        "c: neither a test nor a reason",
        "e: a row has two cells",
        "f: there is no test model none::good",
    ];
    assert_eq!(problems(page, source), expected);
}
