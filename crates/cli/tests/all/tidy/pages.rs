//! What the pages name exists: files, and the functions and types in them.

use std::collections::{BTreeMap, BTreeSet};

use super::{check, files, read, root};

/// The pages that say how things are, beside those of `docs/design`.
const PAGES: [&str; 5] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", EXERCISE, "docs/glossary.md"];

/// The page that adds an event, an endpoint and a command.
const EXERCISE: &str = "docs/exercise.md";

/// Words in backticks that are not in our code, with what they are instead.
const FOREIGN: [(&str, &str); 2] =
    [("SystemTime::now", "of the standard library"), ("utils", "a name that is not wanted")];

/// Paths in backticks that are not in the repository, with what they are instead.
const ELSEWHERE: [(&str, &str); 9] = [
    ("AGENTS.md", "a file of a person's project"),
    ("SKILL.md", "a file of a person's project"),
    ("auth.json", "in the data folder"),
    ("owners/", "in the data folder"),
    ("temporary/", "in the data folder"),
    ("tool-output/", "in the data folder"),
    ("foo.rs", "an example"),
    ("foo/", "an example"),
    ("mod.rs", "a name that is not wanted"),
];

/// Names, each with the files that have it.
type Index = BTreeMap<String, BTreeSet<String>>;

/// The pieces of a page in backticks, each with the line it is in. Blocks of code are left out.
fn quoted(text: &str) -> Vec<(usize, String)> {
    let mut quoted = Vec::new();
    let mut block = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            block = !block;
        } else if !block {
            quoted.extend(line.split('`').skip(1).step_by(2).map(|piece| (at + 1, piece.to_owned())));
        }
    }
    quoted
}

/// Whether a piece is a path: it has a slash in it and is no address, or it ends like a file of ours.
fn is_path(piece: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-*".contains(character);
    let ends = [".rs", ".md", ".toml", ".sql", ".sh", ".json", ".txt"].iter().any(|end| piece.ends_with(end));
    piece.chars().all(plain) && !piece.starts_with(['/', '.', '*', '-']) && (ends || piece.contains('/'))
}

/// Whether something stands for a name that the reader gives.
fn is_placeholder(piece: &str) -> bool {
    piece
        .split(|character: char| !character.is_ascii_alphanumeric())
        .any(|word| matches!(word, "NAME" | "RESOURCE"))
}

/// The parts of a name in code: `Store::append` has two.
fn names(piece: &str) -> Option<Vec<&str>> {
    let piece = piece.trim_end_matches("()").trim_end_matches('!');
    let names: Vec<&str> = piece.split("::").collect();
    let word = |name: &&str| {
        let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
        !name.is_empty() && name.chars().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit())
    };
    names.iter().all(word).then_some(names)
}

/// The words of our code, each with the files that have it. Comments do not count.
fn words() -> Index {
    let mut words: Index = BTreeMap::new();
    let source = |file: &String| {
        let ends = [".rs", ".sql", ".toml", ".sh", ".txt"].iter().any(|end| file.ends_with(end));
        ends && !file.contains("/tests/all/tidy") || file == "test"
    };
    for file in files().into_iter().filter(source) {
        for line in read(&file).lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in line.split(|character: char| !character.is_ascii_alphanumeric() && character != '_') {
                words.entry(word.to_owned()).or_default().insert(file.clone());
            }
        }
    }
    words
}

/// The names that our code defines, each with the files that do.
fn definitions() -> Index {
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];
    let mut definitions: Index = BTreeMap::new();
    for file in files().into_iter().filter(|file| file.starts_with("crates/") && file.ends_with(".rs")) {
        for line in read(&file).lines().filter(|line| !line.trim_start().starts_with("//")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2).filter(|pair| keywords.contains(&pair[0])) {
                let name = pair[1].split(|character: char| !character.is_alphanumeric() && character != '_');
                let name = name.into_iter().next().unwrap_or_default().to_owned();
                definitions.entry(name).or_default().insert(file.clone());
            }
        }
    }
    definitions
}

/// Whether a path is in the repository: from its root, from `crates/`, or as the end of the path of a file or folder.
fn exists(path: &str, files: &[String]) -> bool {
    let bare = path.trim_end_matches('/');
    let inside = |file: &String| format!("/{file}/").contains(&format!("/{bare}/"));
    root().join("crates").join(bare).exists() || root().join(bare).exists() || files.iter().any(inside)
}

#[test]
fn what_the_pages_name_exists() {
    let (all, words, definitions) = (files(), words(), definitions());
    let design = all.iter().filter(|file| file.starts_with("docs/design/") && file.ends_with(".md"));
    let pages: Vec<&str> = PAGES.into_iter().chain(design.map(String::as_str)).collect();
    assert!(pages.len() > 4, "the pages are found");
    let (mut complaints, mut paths, mut used) = (Vec::new(), 0, BTreeSet::new());
    for page in pages {
        for (line, piece) in quoted(&read(page)) {
            if is_placeholder(&piece) {
                continue;
            }
            if is_path(&piece) {
                paths += 1;
                if ELSEWHERE.iter().any(|(path, _)| *path == piece) {
                    used.insert(piece);
                } else if !exists(&piece, &all) {
                    complaints.push(format!("{page}:{line}: there is no {piece}"));
                }
                continue;
            }
            if FOREIGN.iter().any(|(word, _)| *word == piece) {
                used.insert(piece);
                continue;
            }
            let Some(names) = names(&piece) else { continue };
            if !is_known(&names, &words, &definitions) {
                complaints.push(format!("{page}:{line}: nothing is called {piece}"));
            }
        }
        complaints.extend(misplaced(page, &definitions));
    }
    assert!(paths > 100, "the paths are found");
    let listed = FOREIGN.iter().chain(&ELSEWHERE).map(|(name, _)| *name);
    let idle = listed.filter(|name| !used.contains(*name));
    complaints.extend(idle.map(|name| format!("{name} is listed here and is on no page")));
    check(&complaints);
}

/// Whether something has this name. A word alone must be one of our code. What a module or crate is said to have must
/// be defined there, and what a type is said to have must be named where the type is defined.
fn is_known(names: &[&str], words: &Index, definitions: &Index) -> bool {
    let files = |index: &Index, name: &str| index.get(name).cloned().unwrap_or_default();
    match names {
        [.., owner, name] if owner.starts_with(|first: char| first.is_ascii_uppercase()) => {
            files(definitions, owner).intersection(&files(words, name)).next().is_some()
        }
        [.., owner, name] => {
            let below = [format!("/{owner}/"), format!("/{owner}.rs")];
            files(definitions, name).iter().any(|file| below.iter().any(|path| file.contains(path)))
        }
        [name] => words.contains_key(*name),
        [] => false,
    }
}

/// Names that are not in the file that the page gives for them: `name` in `path`, and `path` (`name`, `name`).
fn misplaced(page: &str, definitions: &Index) -> Vec<String> {
    let text = read(page).replace('\n', " ");
    let pieces: Vec<&str> = text.split('`').collect();
    let mut complaints = Vec::new();
    let mut check = |name: &str, path: &str| {
        let inside = |file: &&String| format!("/{file}").ends_with(&format!("/{path}"));
        let Some(last) = names(name).and_then(|names| names.last().copied()) else { return };
        if !definitions.get(last).is_some_and(|files| files.iter().any(|file| inside(&file))) {
            complaints.push(format!("{page}: {name} is not in {path}"));
        }
    };
    for at in (1..pieces.len()).step_by(2) {
        let [one, between, two] = [at, at + 1, at + 2].map(|at| pieces.get(at).copied().unwrap_or_default());
        if between.trim() == "in" && is_path(two) && two.ends_with(".rs") && !is_path(one) {
            check(one, two);
        }
        if one.ends_with(".rs") && between == " (" {
            let mut next = at + 2;
            while let Some(name) = pieces.get(next) {
                check(name, one);
                if pieces.get(next + 1) != Some(&", ") {
                    break;
                }
                next += 2;
            }
        }
    }
    complaints
}

/// The paths of a text: those in backticks, and those that links lead to.
fn paths(text: &str) -> BTreeSet<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(path, _)| path);
    let quoted = quoted(text).into_iter().map(|(_, piece)| piece);
    quoted.chain(links.map(str::to_owned)).filter(|piece| is_path(piece)).collect()
}

/// Whether a file or folder is one of the paths, or below one of them.
fn is_covered(path: &str, named: &BTreeSet<String>) -> bool {
    let below = |folder: &String| folder.ends_with('/') && path.starts_with(folder.as_str());
    named.contains(path) || named.iter().any(below)
}

#[test]
fn the_exercise_needs_only_what_the_table_names() {
    let architecture = read("ARCHITECTURE.md");
    let (_, table) = architecture.split_once("\n## Where to look\n").expect("a table of where to look");
    let named = paths(table);
    // The files are in the first column of the page's tables.
    let page = read(EXERCISE);
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let touched: BTreeSet<String> = rows.flat_map(|(files, _)| paths(&format!("`{files}"))).collect();
    assert!(touched.len() > 20, "the files of the exercise are found: {touched:?}");
    let lost = touched.iter().filter(|path| !is_covered(path, &named));
    let lost = lost.map(|path| format!("{EXERCISE}: {path} is not in the table of ARCHITECTURE.md"));
    check(&lost.collect::<Vec<_>>());
    assert!(is_covered("api/src/routes/notes.rs", &named) && !is_covered("api/src/gates.rs", &named));
}

#[test]
fn the_page_of_events_lists_the_catalogue() {
    let page = read("docs/design/0001-events.md");
    let (_, table) = page.split_once("| event | V1 |").expect("a table of events");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let listed: Vec<(String, u16)> = rows
        .map(|row| {
            let cell = row.split('|').nth(1).unwrap_or_default();
            let mut pieces = cell.split('`');
            let name = pieces.nth(1).unwrap_or_default().to_owned();
            let version = pieces.next().unwrap_or_default().trim_matches(['*', ' ']).parse();
            (name, version.unwrap_or(1))
        })
        .collect();
    let events = everturn_model::event::CATALOGUE.iter();
    let catalogue: BTreeSet<(String, u16)> =
        events.map(|(name, version)| ((*name).to_owned(), *version)).collect();
    assert_eq!(listed.len(), catalogue.len(), "each event is listed once");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), catalogue);
}

#[test]
fn names_and_paths_are_told_apart() {
    assert!(is_path("engine/src/turn.rs") && is_path("row.rs") && is_path("docs/design"));
    assert!(!is_path("/session/{id}/message") && !is_path("wake") && !is_path("a b/c"));
    assert!(is_placeholder("tools/src/NAME.rs") && !is_placeholder("README"));
    assert_eq!(names("Store::append()"), Some(vec!["Store", "append"]));
    assert_eq!(names("prompt.admitted"), None);
}
