//! Files: none is forgotten, too long or without a word about itself, and none names a place on one machine.

use std::collections::BTreeSet;

use super::{check, files, modules, read};

/// The longest source file allowed, in lines.
const LONGEST: usize = 800;

#[test]
fn no_test_file_is_forgotten() {
    let all: BTreeSet<String> = files()
        .into_iter()
        .filter(|file| file.starts_with("crates/") && file.contains("/tests/") && file.ends_with(".rs"))
        .collect();
    let mut reached: BTreeSet<String> =
        all.iter().filter(|file| file.ends_with("/tests/all/main.rs")).cloned().collect();
    assert!(reached.len() > 1, "one binary of tests in several crates");
    let mut open: Vec<String> = reached.iter().cloned().collect();
    // Tests within a crate may have files of their own too.
    open.extend(files().into_iter().filter(|file| file.contains("/src/") && file.ends_with("/tests.rs")));
    while let Some(file) = open.pop() {
        let below = modules(&file).into_iter().flat_map(|module| module.files);
        let fresh = below.filter(|file| all.contains(file));
        open.extend(fresh.filter(|file| reached.insert(file.clone())));
    }
    let lost = all.difference(&reached);
    check(
        &lost
            .map(|file| format!("{file}: no mod line leads here from tests/all/main.rs or src/…/tests.rs"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn files_say_what_they_are_and_stay_short() {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        let text = read(file);
        if !text.starts_with("//!") {
            complaints.push(format!("{file}: does not open with //!"));
        }
        let lines = text.lines().count();
        if file.contains("/src/") && lines > LONGEST {
            complaints.push(format!("{file}: {lines} lines, more than {LONGEST}"));
        }
    }
    check(&complaints);
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    // In pieces, so that this file does not name them itself.
    let places = ["/wo|rk/", "/ro|ot/", "/ho|me/", "sha|red/reference", "sha|red/bench", "sha|red/fixtures"]
        .map(|place| place.replace('|', ""));
    let mut complaints = Vec::new();
    for file in files() {
        for (number, line) in read(&file).lines().enumerate() {
            let named = places.iter().filter(|place| line.contains(place.as_str()));
            complaints.extend(named.map(|place| format!("{file}:{}: {place}", number + 1)));
        }
    }
    check(&complaints);
}
