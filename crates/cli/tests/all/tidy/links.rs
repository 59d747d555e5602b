//! Links lead to files, folders and headings that are there.

use std::collections::BTreeSet;

use super::{check, files, read};

/// The links of a page, each with the line it begins in. Blocks of code are left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut block = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if !block {
            let found = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            links.extend(found.map(|(target, _)| (at + 1, target.to_owned())));
        }
    }
    links
}

/// What the headings of a page are called in addresses.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let plain = |heading: &str| {
        let dashed = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        dashed.chars().filter(|character| character.is_alphanumeric() || "-_".contains(*character)).collect()
    };
    headings.map(plain).collect()
}

/// What is wrong with a link of a page, if it does not lead out of the repository.
fn broken(page: &str, target: &str, files: &[String]) -> Option<String> {
    if target.starts_with("https://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let mut place: Vec<&str> = page.split('/').collect();
    if !path.is_empty() {
        place.pop();
        for step in path.trim_end_matches('/').split('/') {
            match step {
                "." => {}
                ".." => drop(place.pop()),
                step => place.push(step),
            }
        }
    }
    let place = place.join("/");
    if !files.iter().any(|file| *file == place || file.starts_with(&format!("{place}/"))) {
        return Some(format!("{target} leads to {place}, which is not there"));
    }
    let lost = anchor.filter(|anchor| !anchors(&read(&place)).contains(*anchor))?;
    Some(format!("{place} has no heading {lost}"))
}

#[test]
fn links_lead_to_what_is_there() {
    let all = files();
    let (mut complaints, mut seen) = (Vec::new(), BTreeSet::new());
    for page in all.iter().filter(|file| file.ends_with(".md")) {
        for (line, target) in links(&read(page)) {
            seen.insert(page.as_str());
            complaints.extend(broken(page, &target, &all).map(|wrong| format!("{page}:{line}: {wrong}")));
        }
    }
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/design/0001-events.md"] {
        assert!(seen.contains(page), "the links of {page} are found");
    }
    check(&complaints);
}

#[test]
fn broken_links_are_seen() {
    let text = "See [a](b.md) and\n```\n[no](link)\n```\n[`c`](../d.md#e), [f](https://g).";
    let found = [(1, "b.md"), (5, "../d.md#e"), (5, "https://g")];
    assert_eq!(links(text), found.map(|(line, target)| (line, target.to_owned())));
    assert!(
        anchors("# Where to look\n### `store` and Co.")
            .is_superset(&BTreeSet::from(["where-to-look".to_owned(), "store-and-co".to_owned(),]))
    );

    let all = files();
    let broken = |page, target| broken(page, target, &all);
    let page = "docs/design/0001-events.md";
    for right in ["0008-one-feed.md", "../openapi.json", "../../ARCHITECTURE.md#where-to-look", "../design/"]
    {
        assert_eq!(broken(page, right), None);
    }
    assert_eq!(broken("ARCHITECTURE.md", "#where-to-look"), None);
    for (page, target, wrong) in [
        (
            "ARCHITECTURE.md",
            "crates/engine/src/warden.rs",
            "crates/engine/src/warden.rs leads to crates/engine/src/warden.rs, which is not there",
        ),
        (page, "ARCHITECTURE.md", "ARCHITECTURE.md leads to docs/design/ARCHITECTURE.md, which is not there"),
        ("README.md", "#no-such-heading", "README.md has no heading no-such-heading"),
        ("README.md", "ARCHITECTURE.md#nowhere", "ARCHITECTURE.md has no heading nowhere"),
    ] {
        assert_eq!(broken(page, target).as_deref(), Some(wrong));
    }
}
