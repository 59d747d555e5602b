//! Damaged files, and files that the real programs damage: what they make of each, and what ours makes of it.
//!
//! `golden` shows that ours sees what pi and omp see wherever they see anything. Here stands the rest, case by case, so
//! that no difference is silent. *Written* is the view through the links in the file, as pi would walk them; *mended*
//! is the conversation that Everturn goes on from.

use everturn_interop::pi::{self, Dialect, PathEnd, PiView, Program};
use everturn_model::{Tree, path};
use serde_json::{Value, json};

use super::{golden, omp_golden, source, tree};

/// A context as `role: text` lines.
fn said(context: &Value) -> Vec<String> {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let block = |block: &Value| {
                let known = ["text", "thinking", "name"].iter().find_map(|name| block[*name].as_str());
                known.unwrap_or("…").chars().take(20).collect::<String>()
            };
            blocks.iter().map(block).collect::<Vec<_>>().join(" + ")
        }
        _ => "…".to_owned(),
    };
    let line = |message: &Value| format!("{}: {}", message["role"].as_str().unwrap(), text(message));
    context["messages"].as_array().unwrap().iter().map(line).collect()
}

/// The ids of a tree, children in brackets after their parent.
fn outline(nodes: &Value) -> String {
    let node = |node: &Value| {
        let id = node["id"].as_str().unwrap_or("-");
        match node["children"].as_array().unwrap().is_empty() {
            true => id.to_owned(),
            false => format!("{id}[{}]", outline(&node["children"])),
        }
    };
    nodes.as_array().unwrap().iter().map(node).collect::<Vec<_>>().join(" ")
}

fn health(name: &str) -> Vec<String> {
    pi::read(&source(name)).unwrap().problems.iter().map(ToString::to_string).collect()
}

/// What ours makes of a damaged file, as a program's view of it.
struct Ours<'a> {
    /// The context at the leaf through the links as written.
    written: &'a [&'a str],
    /// The same through the mended links.
    mended: &'a [&'a str],
    /// The tree as written.
    tree: &'a str,
    /// The tree of the model.
    mended_tree: &'a str,
    /// The leaf.
    leaf: &'a str,
    /// What the reader said.
    health: &'a [&'a str],
}

fn check(name: &str, flavor: Program, ours: &Ours<'_>) {
    let tree = tree(&source(name));
    let written = PiView::new(&tree, flavor);
    assert_eq!(said(&written.context(&PathEnd::Current)), ours.written, "{name}: context as written");
    assert_eq!(outline(&written.tree()), ours.tree, "{name}: tree as written");
    let leaf = tree.session.leaf.as_ref().and_then(|leaf| written.name_of(leaf));
    assert_eq!(leaf, Some(ours.leaf), "{name}: leaf");
    let mended = PiView::new(&tree, flavor).mended();
    assert_eq!(said(&mended.context(&PathEnd::Current)), ours.mended, "{name}: context mended");
    assert_eq!(outline(&mended.tree()), ours.mended_tree, "{name}: tree mended");
    assert_eq!(health(name), ours.health, "{name}: health");
    conversation(name, &tree, &mended);
}

/// The mended view is the model's own path, with nothing added.
fn conversation(name: &str, tree: &Tree, mended: &PiView<'_>) {
    let path: Vec<_> = path::to(tree, tree.session.leaf.as_ref()).iter().map(|node| &node.entry.id).collect();
    let seen = mended.branch(&PathEnd::Current);
    assert_eq!(path, seen, "{name}: the model's path");
}

#[test]
fn e01_the_history_before_a_broken_line_is_not_lost() {
    check(
        "e01-corrupt-middle-line",
        Program::Pi,
        &Ours {
            written: &["user: m-00000004", "assistant: a-00000005"],
            mended: &[
                "user: m-00000001",
                "assistant: a-00000002",
                "user: m-00000004",
                "assistant: a-00000005",
            ],
            tree: "00000001[00000002] 00000004[00000005]",
            // The broken line is an entry between 2 and 4; pi does not count it.
            mended_tree: "00000001[00000002[00000004[00000005]]]",
            leaf: "00000005",
            health: &[
                "line 4: the line is no JSON: EOF while parsing a string at line 1 column 63: kept byte for byte as a \
                 foreign entry",
                "line 5: parent \"00000003\" is not in the file: follows the entry before it in the file",
            ],
        },
    );
}

#[test]
fn e02_a_line_that_was_cut_short_is_kept_and_changes_nothing() {
    check(
        "e02-truncated-last-line",
        Program::Pi,
        &Ours {
            written: &["user: m-00000001", "assistant: a-00000002"],
            mended: &["user: m-00000001", "assistant: a-00000002"],
            tree: "00000001[00000002]",
            mended_tree: "00000001[00000002]",
            leaf: "00000002",
            health: &["line 4: the last line is cut short: kept byte for byte as a foreign entry"],
        },
    );
    assert_eq!(tree(&source("e02-truncated-last-line")).nodes().len(), 3);
}

#[test]
fn e03_without_a_header_the_entries_are_read() {
    check(
        "e03-missing-header",
        Program::Pi,
        &Ours {
            written: &["user: m-00000001", "assistant: a-00000002"],
            mended: &["user: m-00000001", "assistant: a-00000002"],
            tree: "00000001[00000002]",
            mended_tree: "00000001[00000002]",
            leaf: "00000002",
            health: &["there is no session header: the entries were read without it"],
        },
    );
    // pi emptied the file; omp refused it.
    assert_eq!(golden("e03-missing-header", "tree"), Some(json!([])));
    assert!(omp_golden("e03-missing-header").unwrap()["threw"].is_string());
    assert_eq!(PiView::new(&tree(&source("e03-missing-header")), Program::Pi).listing(), None);
}

#[test]
fn e04_an_empty_file_is_an_empty_session() {
    let tree = tree(&source("e04-empty-file"));
    let view = PiView::new(&tree, Program::Pi);
    assert_eq!(Some(view.context(&PathEnd::Current)), golden("e04-empty-file", "context"));
    assert_eq!(Some(view.tree()), golden("e04-empty-file", "tree"));
    let view = PiView::new(&tree, Program::Omp18);
    let omp = omp_golden("e04-empty-file").unwrap();
    assert_eq!((view.context(&PathEnd::Current), view.tree()), (omp["context"].clone(), omp["tree"].clone()));
    // Both programs write a header with an id of their own into the file; ours leaves it alone.
    assert_eq!((view.header(), tree.session.leaf.clone()), (None, None));
    assert_eq!(health("e04-empty-file"), ["the file is empty: an empty session"]);
}

#[test]
fn e05_a_header_with_a_bad_id_is_still_a_header() {
    check(
        "e05-header-id-not-string",
        Program::Pi,
        &Ours {
            written: &["user: m-00000001", "assistant: a-00000002"],
            mended: &["user: m-00000001", "assistant: a-00000002"],
            tree: "00000001[00000002]",
            mended_tree: "00000001[00000002]",
            leaf: "00000002",
            health: &["line 1: the session header's id is not a text: its other fields were used"],
        },
    );
    let listing = PiView::new(&tree(&source("e05-header-id-not-string")), Program::Pi).listing().unwrap();
    let expected = golden("e05-header-id-not-string", "meta").unwrap();
    assert_eq!(listing.id, expected["listInfo"]["id"]);
    assert_eq!(json!(listing.messages), expected["listInfo"]["messageCount"]);
    // pi then emptied the file; omp refused it.
    assert_eq!(expected["meta"]["entryCount"], 0);
    assert!(omp_golden("e05-header-id-not-string").unwrap()["threw"].is_string());
}

#[test]
fn e12_a_null_line_stops_nothing() {
    check(
        "e12-json-null-line",
        Program::Pi,
        &Ours {
            written: &["user: m-00000001", "assistant: a-00000002"],
            mended: &["user: m-00000001", "assistant: a-00000002"],
            tree: "00000001[00000002] -",
            mended_tree: "00000001[- 00000002]",
            leaf: "00000002",
            health: &["line 3: the line is JSON, but no entry: kept as a foreign entry"],
        },
    );
    assert!(golden("e12-json-null-line", "meta").unwrap()["threw"].is_string());
    assert!(omp_golden("e12-json-null-line").unwrap()["threw"].is_string());
}

#[test]
fn e11_lines_without_ids_have_ids_here() {
    let name = "e11-json-null-number-lines";
    let tree = tree(&source(name));
    let view = PiView::new(&tree, Program::Pi);
    // pi keeps the three under one key `undefined`, and takes that for the last entry when asked.
    let expected = golden(name, "meta").unwrap();
    assert_eq!(expected["contextByLeaf"]["undefined"]["roles"], json!(["user", "assistant"]));
    let nameless: Vec<_> = view.entries().filter(|id| view.name_of(id).is_none()).collect();
    assert_eq!(nameless.len(), 3);
    let values: Vec<_> = nameless.iter().map(|id| view.entry(id).unwrap()).collect();
    assert_eq!(values, [json!(42), json!("str"), json!([1, 2])]);
    for id in nameless {
        assert_eq!(said(&view.context(&PathEnd::At(id.clone()))), Vec::<String>::new());
        let mended = PiView::new(&tree, Program::Pi).mended();
        assert_eq!(said(&mended.context(&PathEnd::At(id.clone()))), ["user: m-00000001"]);
    }
}

#[test]
fn e14_an_entry_that_is_its_own_parent_ends_the_walk() {
    check(
        "e14-self-parent",
        Program::Pi,
        &Ours {
            written: &["user: m-00000001", "assistant: a-00000002", "assistant: a-00000004"],
            mended: &["user: m-00000001", "assistant: a-00000002", "assistant: a-00000004"],
            tree: "00000001[00000002[00000004]] 00000003",
            mended_tree: "00000001[00000002[00000003 00000004]]",
            leaf: "00000004",
            health: &["line 4: the entry is its own parent: follows the entry before it in the file"],
        },
    );
    // At this leaf pi never returns.
    let tree = tree(&source("e14-self-parent"));
    let view = PiView::new(&tree, Program::Pi);
    let leaf = PathEnd::At(view.find("00000003").unwrap().clone());
    assert_eq!(said(&view.context(&leaf)), ["user: m-00000003"]);
    let mended = PiView::new(&tree, Program::Pi).mended();
    assert_eq!(
        said(&mended.context(&leaf)),
        ["user: m-00000001", "assistant: a-00000002", "user: m-00000003"]
    );
    let expected = golden("e14-self-parent", "meta").unwrap();
    assert_eq!(expected["meta"], json!({"leafId": "00000004", "entryCount": view.entries().len()}));
}

#[test]
fn e15_a_loop_is_walked_once_and_opened_where_it_began() {
    check(
        "e15-cycle",
        Program::Pi,
        &Ours {
            // omp stops at the first repeat, and so does ours; pi never returns.
            written: &["user: m-00000001", "assistant: a-00000002", "user: m-00000003"],
            mended: &["user: m-00000001", "assistant: a-00000002", "user: m-00000003"],
            // A loop has no root, as in pi's golden.
            tree: "",
            mended_tree: "00000001[00000002[00000003]]",
            leaf: "00000003",
            health: &["line 2: the entry is its own ancestor: the loop was opened at its earliest entry"],
        },
    );
    assert_eq!(golden("e15-cycle", "tree"), Some(json!([])));
    let tree = tree(&source("e15-cycle"));
    let view = PiView::new(&tree, Program::Pi);
    let leaf = PathEnd::At(view.find("00000001").unwrap().clone());
    assert_eq!(said(&view.context(&leaf)), ["assistant: a-00000002", "user: m-00000003", "user: m-00000001"]);
    assert_eq!(said(&PiView::new(&tree, Program::Pi).mended().context(&leaf)), ["user: m-00000001"]);
}

#[test]
fn b06_and_b07_a_fork_at_a_label_keeps_its_history() {
    for (name, line) in [("b06-branched-session-result", "35e26292"), ("b07-forked", "35e26292")] {
        let lost =
            format!("line 4: parent \"{line}\" is not in the file: follows the entry before it in the file");
        check(
            name,
            Program::Pi,
            &Ours {
                written: &["user: u2"],
                mended: &["user: u1", "assistant: a1", "user: u2"],
                tree: "88520439[fb10cf5f] 9adfd156[c1153a83[608c73bb]]",
                mended_tree: "88520439[fb10cf5f[9adfd156[c1153a83[608c73bb]]]]",
                leaf: "608c73bb",
                health: &[&lost],
            },
        );
    }
}

#[test]
fn omp18_05_a_fork_of_omp_keeps_its_history() {
    check(
        "omp18-05-branch-label-fork",
        Program::Omp18,
        &Ours {
            written: &["user: u2"],
            mended: &["user: u1", "assistant: a1", "user: u2"],
            tree: "84b37903[39c4b950] 47bfeafd[a43c8be1]",
            mended_tree: "84b37903[39c4b950[47bfeafd[a43c8be1]]]",
            leaf: "a43c8be1",
            health: &[
                "line 5: parent \"deeb56f1\" is not in the file: follows the entry before it in the file",
            ],
        },
    );
}

#[test]
fn omp18_files_are_read_where_pi_empties_them() {
    fn check(name: &str, context: &[&str], tree_of: &str, leaf: &str) {
        assert_eq!(golden(name, "tree"), Some(json!([])), "{name}: pi lost it");
        let file = pi::read(&source(name)).unwrap();
        assert_eq!(file.dialect, Dialect::Omp18);
        let tree = tree(&source(name));
        let view = PiView::new(&tree, Program::Pi);
        assert_eq!(said(&view.context(&PathEnd::Current)), context, "{name}");
        assert_eq!(outline(&view.tree()), tree_of, "{name}");
        assert_eq!(tree.session.leaf.as_ref().and_then(|leaf| view.name_of(leaf)), Some(leaf), "{name}");
    }
    check("omp18-01-plain", &["user: hi", "assistant: yo"], "733bcabe[6ffe74ea]", "6ffe74ea");
    check(
        "omp18-03-image-blob",
        &["user: see + … + …", "assistant: ok", "toolResult: zzzzzzzzzzzzzzzzzzzz"],
        "a5e6bf50[19a52847[b6d12618]]",
        "b6d12618",
    );
    // pi sends the call without its result, which is on the other branch; omp's own view leaves it out.
    check(
        "omp18-04-dangling-toolcall",
        &["user: u", "assistant: hm + read", "user: branched from tool call", "assistant: ok"],
        "753ed966[0d71a7a4[7700454d a2dcf17d[228dcf13]]]",
        "228dcf13",
    );
    check("omp18-05-branch-label-fork", &["user: u2"], "84b37903[39c4b950] 47bfeafd[a43c8be1]", "a43c8be1");
}

#[test]
fn the_rest_of_the_damage_is_named_and_changes_no_view() {
    fn check(name: &str, expected: &[&str]) {
        assert_eq!(health(name), expected, "{name}");
    }
    check(
        "e09-two-headers",
        &[
            "line 4: a second session header: kept as a foreign entry; the first header counts",
            "line 5: id \"00000001\" is used again: both are kept; the last one is meant where the id is named",
            "line 6: id \"00000002\" is used again: both are kept; the last one is meant where the id is named",
        ],
    );
    check(
        "e11-json-null-number-lines",
        &[
            "line 3: the line is JSON, but no entry: kept as a foreign entry",
            "line 4: the line is JSON, but no entry: kept as a foreign entry",
            "line 5: the line is JSON, but no entry: kept as a foreign entry",
        ],
    );
    check(
        "e16-duplicate-ids",
        &[
            "line 4: id \"00000002\" is used again: both are kept; the last one is meant where the id is named",
        ],
    );
    check(
        "e21-parentid-undefined",
        &["line 2: the entry does not say what it follows: follows the entry before it in the file"],
    );
    check("e24-invalid-utf8", &["line 2: bytes that are no UTF-8: shown as U+FFFD; the bytes are kept"]);
}

#[test]
fn what_is_only_unusual_is_named_too() {
    fn check(name: &str, expected: &[&str]) {
        assert_eq!(health(name), expected, "{name}");
        assert!(pi::read(&source(name)).unwrap().is_sound());
    }
    check("e06-crlf", &["lines end with carriage return and line feed: kept as it is"]);
    let unseen = "pi does not find the header when it looks for the latest session: kept as it is";
    let at = |line: usize| format!("line {line}: {unseen}");
    check("e07-bom", &["line 1: a byte order mark: kept as it is", &at(1)]);
    check("e08-blank-lines", &[&at(3)]);
    check("e25-long-header-gt-512-bytes", &[&at(1)]);
    check(
        "e18-unknown-entry-types",
        &[
            "line 4: entry type \"future_thing\" is not known: kept as a foreign entry",
            "line 6: entry type \"leaf\" is not known: kept as a foreign entry",
        ],
    );
    check("e19-future-version", &["line 1: format version 99 is not known: read as version 3"]);
    check("a01-plain-cli", &[]);
}
