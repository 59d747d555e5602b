//! One way of writing in all crates, as far as `rustfmt` leaves a choice.

use super::{check, files, read};

/// Derived traits in their order; all others come after them.
const DERIVED: [&str; 9] =
    ["Debug", "Clone", "Copy", "Default", "PartialEq", "Eq", "PartialOrd", "Ord", "Hash"];

/// Whether a `use` names several modules at once.
fn is_nested(item: &str) -> bool {
    let Some((_, list)) = item.split_once('{') else { return false };
    list.contains("::") || list.contains('{')
}

#[test]
fn imports_and_derives_are_written_in_one_way() {
    let mut complaints = Vec::new();
    let mut seen = 0;
    for file in files().iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        let text = read(file);
        for item in text.split(';').filter_map(|piece| piece.rsplit_once("use ").or(Some(("", piece)))) {
            let (before, item) = item;
            let starts = before.rsplit('\n').next().unwrap_or_default().trim();
            let starts = starts.is_empty() || starts.starts_with("pub");
            if starts && !before.is_empty() && !item.contains("//") && is_nested(item) {
                complaints.push(format!("{file}: one `use` for each module: {}", item.replace('\n', " ")));
            }
        }
        for line in text.lines().map(str::trim) {
            let Some(list) = line.strip_prefix("#[derive(").and_then(|rest| rest.strip_suffix(")]")) else {
                continue;
            };
            seen += 1;
            let places = list
                .split(", ")
                .map(|name| DERIVED.iter().position(|derived| *derived == name).unwrap_or(DERIVED.len()));
            if !places.is_sorted() {
                complaints
                    .push(format!("{file}: derive in the order {}, then others: {list}", DERIVED.join(", ")));
            }
        }
    }
    assert!(seen > 400, "derives are found");
    check(&complaints);
}
