//! Which files a conversation has read and changed, by the calls in it.

use std::collections::BTreeSet;

use everturn_model::compaction::CarriedContext;
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::tree::Node;
use serde_json::Value;

/// How many files of each kind are named.
const MOST: usize = 500;

/// How lines of a patch begin that name a file.
const PATCHED: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// The files that were read and not changed, and those that were changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TouchedFiles {
    pub(crate) read: Vec<String>,
    pub(crate) modified: Vec<String>,
}

/// The files of these entries, and of what an earlier compaction carried.
pub(crate) fn touched<'n>(
    earlier: Option<&CarriedContext>,
    nodes: impl IntoIterator<Item = &'n Node>,
) -> TouchedFiles {
    let before = |list: fn(&CarriedContext) -> &Vec<String>| {
        earlier.map(list).into_iter().flatten().cloned().collect::<BTreeSet<String>>()
    };
    let mut read = before(|carried| &carried.read);
    let mut modified = before(|carried| &carried.modified);
    let answers = nodes.into_iter().filter(|node| matches!(node.entry.body, Body::Assistant(_)));
    for part in answers.flat_map(|node| &node.parts).filter(|part| !part.hidden) {
        let PartKind::Tool { tool, state, .. } = &part.kind else { continue };
        let input = state.input();
        let path = ["filePath", "path"].into_iter().find_map(|key| input.get(key)?.as_str());
        match (tool.as_str(), path) {
            ("read", Some(path)) => drop(read.insert(path.to_owned())),
            ("write" | "edit" | "multiedit", Some(path)) => drop(modified.insert(path.to_owned())),
            ("apply_patch", _) => modified.extend(patched(input)),
            _ => {}
        }
    }
    let read = read.into_iter().filter(|path| !modified.contains(path)).take(MOST).collect();
    TouchedFiles { read, modified: modified.into_iter().take(MOST).collect() }
}

fn patched(input: &Value) -> Vec<String> {
    let text = input.get("patchText").and_then(Value::as_str).unwrap_or_default();
    let named =
        |line: &str| PATCHED.iter().find_map(|begin| Some(line.strip_prefix(begin)?.trim().to_owned()));
    text.lines().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use everturn_model::Part;
    use everturn_model::entry::{Assistant, Entry};
    use everturn_model::tool::ToolState;
    use serde_json::json;

    use super::*;

    fn calls(calls: &[(&str, Value)]) -> Node {
        let part = |(place, (tool, input)): (usize, &(&str, Value))| {
            let state = ToolState::Pending { input: input.clone(), raw: String::new() };
            let (call, tool) = (format!("call_{place}"), (*tool).to_owned());
            Part::new(
                format!("prt_{place}").as_str().into(),
                PartKind::Tool { call, tool, state, hosted: false, metadata: None },
            )
        };
        let entry = Entry::new("msg_1".into(), None, 1, Body::Assistant(Assistant::default()));
        Node::new(entry, calls.iter().enumerate().map(part).collect())
    }

    #[test]
    fn a_file_that_was_changed_is_not_among_those_that_were_read() {
        let patch = "*** Begin Patch\n*** Update File: c.rs\n*** Move to: d.rs\n*** End Patch";
        let node = calls(&[
            ("read", json!({"filePath": "b.rs"})),
            ("read", json!({"path": "a.rs"})),
            ("edit", json!({"filePath": "b.rs"})),
            ("apply_patch", json!({"patchText": patch})),
            ("bash", json!({"command": "rm z", "path": "z"})),
        ]);
        let carried = CarriedContext {
            read: vec!["old.rs".into(), "c.rs".into()],
            modified: vec!["older.rs".into()],
            ..CarriedContext::default()
        };
        let expected = TouchedFiles {
            read: vec!["a.rs".into(), "old.rs".into()],
            modified: vec!["b.rs".into(), "c.rs".into(), "d.rs".into(), "older.rs".into()],
        };
        assert_eq!(touched(Some(&carried), [&node]), expected);
    }
}
