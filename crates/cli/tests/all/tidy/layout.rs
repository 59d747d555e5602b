//! Layout lists: a file that has one names each of its modules in it, once, and nothing that is not there.

use std::collections::BTreeMap;

use super::{check, modules, shipped};

/// The names that a Layout list explains: those in backticks right before a colon, with commas between them.
fn explained(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for (at, piece) in list.split('`').enumerate() {
        if at % 2 == 1 {
            run.push(piece);
            continue;
        }
        // Between two names stands a comma; links have brackets around them.
        match piece.trim_matches(['[', ']']).trim_start_matches(']') {
            text if text.starts_with(':') => names.append(&mut run),
            "," | ", " => {}
            _ => run.clear(),
        }
    }
    names.into_iter().map(|name| name.trim_start_matches("mod@").to_owned()).collect()
}

/// The Layout list of a file as one text, if it has one.
fn layout(text: &str) -> Option<String> {
    let header = text.lines().take_while(|line| line.starts_with("//!"));
    let header: Vec<&str> = header.map(|line| line.trim_start_matches("//!").trim()).collect();
    let at = header.iter().position(|line| *line == "# Layout")?;
    let list = header.iter().skip(at + 1).take_while(|line| !line.starts_with("# "));
    Some(list.copied().collect::<Vec<_>>().join(" "))
}

#[test]
fn layout_lists_name_the_modules() {
    let mut complaints = Vec::new();
    let mut lists = 0;
    for (file, text) in shipped() {
        let Some(list) = layout(&text) else {
            if file.ends_with("/src/lib.rs") {
                complaints.push(format!("{file}: has no Layout list"));
            }
            continue;
        };
        lists += 1;
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for module in modules(&file).into_iter().filter(|module| !module.test) {
            counts.entry(module.name).or_default().0 += 1;
        }
        for name in explained(&list) {
            counts.entry(name).or_default().1 += 1;
        }
        complaints.extend(counts.into_iter().filter_map(|(name, counts)| match counts {
            (1, 1) => None,
            (0, _) => Some(format!("{file}: the Layout list explains `{name}`, which is no module of it")),
            (_, 0) => Some(format!("{file}: the Layout list leaves out `{name}`")),
            (_, times) => Some(format!("{file}: the Layout list explains `{name}` {times} times")),
        }));
    }
    assert!(lists > 10, "the lists are found");
    check(&complaints);
}

#[test]
fn names_are_found_in_a_list() {
    let list = "- [`mod@read`], `write`: files; [`skill`]: has `bash/` in it - `web`: as `tool` says: more";
    assert_eq!(explained(list), ["read", "write", "skill", "web"]);
}
