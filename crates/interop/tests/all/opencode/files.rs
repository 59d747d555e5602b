//! The JSON file tree of OpenCode 1.1.16 goes through the log and comes out the same.

use std::collections::BTreeMap;
use std::path::Path;

use everturn_interop::opencode::files::{self, Files};
use serde_json::Value;

use super::data::{folded, unpacked};

fn load(folder: &Path, under: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            load(&path, under, files);
        } else {
            let name = path.strip_prefix(under).unwrap().to_str().unwrap().to_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn recorded() -> Files {
    let folder = unpacked("opencode-json-1.1.16.tar.gz");
    let storage = folder.path().join("opencode/storage");
    let mut files = Files::new();
    load(&storage, &storage, &mut files);
    files
}

fn values(files: &Files) -> BTreeMap<String, Value> {
    files.iter().map(|(path, bytes)| (path.clone(), serde_json::from_slice(bytes).unwrap())).collect()
}

#[test]
fn the_whole_tree_survives() {
    let mut files = recorded();
    let (list, problems) = files::read(files.clone());
    assert_eq!(problems, []);
    assert_eq!(list.len(), 20);
    let mut written = Files::new();
    for imported in &list {
        written.extend(files::write(imported.project.as_ref(), &folded(imported)));
    }
    files.remove("migration");
    assert_eq!(values(&written), values(&files));
}

#[test]
fn damage_is_named_and_costs_nothing_else() {
    let mut files = recorded();
    let whole = files::read(files.clone()).0;
    let message = files.keys().find(|path| path.starts_with("message/")).unwrap().clone();
    let part = files.keys().rfind(|path| path.starts_with("part/")).unwrap().clone();
    files.insert(message.clone(), b"{".to_vec());
    files.insert(part, b"\xff".to_vec());
    files.insert("part/msg_none/prt_1.json".to_owned(), b"{}".to_vec());
    files.insert("message/ses_none/msg_1.json".to_owned(), b"{}".to_vec());
    files.insert("session/global/ses_bad.json".to_owned(), b"[]".to_vec());
    files.insert("session/global/ses_nameless.json".to_owned(), b"{}".to_vec());
    files.insert("todo/ses_none.json".to_owned(), b"[]".to_vec());
    files.insert("notes.txt".to_owned(), b"hm".to_vec());
    let (list, problems) = files::read(files);
    let mut places: Vec<_> = problems.iter().map(|problem| problem.place.clone()).collect();
    places.sort();
    let lost = places.extract_if(.., |place| place.starts_with("part/") && !place.contains("none")).count();
    assert_eq!(
        places,
        [
            message.as_str(),
            "message/ses_none/msg_1.json",
            "notes.txt",
            "part/msg_none/prt_1.json",
            "session/global/ses_bad.json",
            "session/global/ses_nameless.json",
            "todo/ses_none.json"
        ]
    );
    assert!(lost >= 1, "the damaged part, and the parts of the damaged message");
    let nodes = |list: &[everturn_interop::opencode::Imported]| {
        list.iter().flat_map(|imported| &imported.seed.nodes).count()
    };
    assert_eq!(list.len(), 20);
    assert!(nodes(&list) < nodes(&whole));
}
