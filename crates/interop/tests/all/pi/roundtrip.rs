//! Files that come in and leave again unchanged.

use everturn_interop::pi;

use super::{import, names, source, tree, values};

/// Files that are damaged, with what writing them without their bytes gives.
const DAMAGED: &[(&str, &str)] = &[
    ("b06-branched-session-result", "as it is: the parent that is missing stays named"),
    ("b07-forked", "as it is: the parent that is missing stays named"),
    ("e01-corrupt-middle-line", "as it is: the broken line is kept as text"),
    ("e02-truncated-last-line", "as it is, and a line feed after the line that was cut short"),
    ("e03-missing-header", "a header before the entries, because pi empties a file without one"),
    ("e05-header-id-not-string", "as it is: the header's id stays a number"),
    ("e09-two-headers", "as it is: both headers, both copies of the entries"),
    ("e11-json-null-number-lines", "as it is: lines that are no entries stay lines"),
    ("e12-json-null-line", "as it is: lines that are no entries stay lines"),
    ("e14-self-parent", "as it is: the entry stays its own parent"),
    ("e15-cycle", "as it is: the loop stays in the file"),
    ("e16-duplicate-ids", "as it is: both entries keep their id"),
    ("e21-parentid-undefined", "as it is: no parent is written where none was"),
    ("e24-invalid-utf8", "U+FFFD where the bytes were no text"),
    ("omp18-05-branch-label-fork", "as it is: the parent that is missing stays named"),
];

#[test]
fn every_file_leaves_as_it_came() {
    let names = names();
    assert_eq!(names.len(), 43);
    for name in names {
        let bytes = source(&name);
        assert!(pi::write(&tree(&bytes), Some(&bytes)) == bytes, "{name} changed on its way");
    }
}

#[test]
fn files_are_whole_except_the_named_ones() {
    let damaged: Vec<String> =
        names().into_iter().filter(|name| !pi::read(&source(name)).unwrap().is_sound()).collect();
    assert_eq!(damaged, DAMAGED.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn whole_files_can_be_written_from_the_tree_alone() {
    for name in names() {
        let bytes = source(&name);
        let file = pi::read(&bytes).unwrap();
        if file.is_sound() && !bytes.is_empty() {
            let again = pi::write(&import(&file), None);
            assert_eq!(values(&again), values(&bytes), "{name}");
            assert_eq!(pi::write(&tree(&again), Some(&again)), again, "{name}");
        }
    }
}

#[test]
fn the_key_order_of_whole_files_comes_back_too() {
    for name in names() {
        let bytes = source(&name);
        let file = pi::read(&bytes).unwrap();
        if !file.is_sound()
            || bytes.is_empty()
            || ["e06-crlf", "e07-bom", "e08-blank-lines"].contains(&name.as_str())
        {
            continue;
        }
        let again = pi::write(&import(&file), None);
        assert!(again == bytes, "{name} is written differently");
    }
}

#[test]
fn damaged_files_written_from_the_tree_alone_keep_what_is_there() {
    let lines =
        |bytes: &[u8]| -> Vec<String> { String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect() };
    for (name, gives) in DAMAGED {
        let bytes = source(name);
        let tree = tree(&bytes);
        let mut written = lines(&pi::write(&tree, None));
        if *name == "e03-missing-header" {
            let header = format!(
                r#"{{"type":"session","version":3,"id":"{}","timestamp":"2026-01-01T00:00:01.000Z","cwd":""}}"#,
                tree.session.id
            );
            assert_eq!(written.remove(0), header);
        }
        assert_eq!(written, lines(&bytes), "{name}: {gives}");
    }
}

#[test]
fn an_empty_file_is_an_empty_session() {
    let tree = tree(b"");
    assert_eq!(tree.nodes(), []);
    assert_eq!(pi::write(&tree, Some(b"")), b"");
    let header = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{}\",\"timestamp\":\"1970-01-01T00:00:00.000Z\",\"cwd\":\"\"}}\n",
        tree.session.id
    );
    assert_eq!(String::from_utf8(pi::write(&tree, None)).unwrap(), header);
}

#[test]
fn what_is_no_session_is_refused() {
    fn check(bytes: &[u8], lines: usize) {
        assert_eq!(pi::read(bytes), Err(pi::Error::NotASession { lines }));
    }
    check(b"\x7fELF\x02\x01\x01\x00\x00", 1);
    check(b"hello\nworld\n", 2);
    check(b"{\n  \"name\": \"package\"\n}\n", 3);
    check(b"null\n42\n", 2);
}

#[test]
fn reading_twice_gives_the_same_ids() {
    for name in names() {
        let bytes = source(&name);
        assert_eq!(pi::read(&bytes), pi::read(&bytes), "{name}");
    }
}
