//! The steps of `everturn demo`: greet, change one word in a file, conclude.

use serde_json::{Map, json};

use super::script::{ScriptCall, ScriptStep};
use super::{prompt_text, say};
use crate::ModelRequest;

/// The file the demo is about.
const FILE: &str = "greeting.txt";

/// The step for the given turn after the prompt.
pub(super) fn step(request: &ModelRequest, turn: usize) -> ScriptStep {
    // Whoever asks without tools wants a title or a summary.
    if request.tools.is_empty() {
        return say("Change the greeting".to_owned());
    }
    let prompt = request.messages.iter().rev().find_map(prompt_text).unwrap_or_default();
    match (turn, find_path(&prompt)) {
        (0, Some(path)) => {
            let text = format!("I will change the greeting in {FILE} so that it names Everturn.");
            let input = Map::from_iter([
                ("filePath".to_owned(), json!(path)),
                ("oldString".to_owned(), json!("Hello, world")),
                ("newString".to_owned(), json!("Hello, Everturn")),
            ]);
            let call = ScriptCall { name: "edit".to_owned(), input, ..ScriptCall::default() };
            ScriptStep { tools: vec![call], ..say(text) }
        }
        (0, None) => say(format!("This demonstration needs a prompt that names a file {FILE}.")),
        _ => say(format!("Done: {FILE} now says \"Hello, Everturn\".")),
    }
}

/// The last word of the prompt that is a path to the file, without quotes and punctuation around it.
fn find_path<'a>(prompt: &'a str) -> Option<&'a str> {
    let around =
        |character: char| matches!(character, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ',' | ';' | ':');
    let mut found = None;
    // A quoted path may hold spaces; between quotes it is one piece.
    for quote in ['"', '`'] {
        let quoted = prompt.split(quote).skip(1).step_by(2).filter(|piece| !piece.contains('\n'));
        found = found.or_else(|| quoted.filter(|piece| is_file(piece)).last());
    }
    let bare = |word: &'a str| {
        let word = word.trim_matches(around).trim_end_matches(['.', '!', '?']);
        word.trim_start_matches('@').trim_matches(around)
    };
    found.or_else(|| prompt.split_whitespace().rev().map(bare).find(|word| is_file(word)))
}

fn is_file(path: &str) -> bool {
    path.strip_suffix(FILE).is_some_and(|folder| folder.is_empty() || folder.ends_with(['/', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_prompts() {
        let check =
            |prompt: &str, expected: Option<&str>| assert_eq!(find_path(prompt), expected, "{prompt}");
        check("Change /tmp/x/greeting.txt, please", Some("/tmp/x/greeting.txt"));
        check("Edit greeting.txt.", Some("greeting.txt"));
        check("Edit `/a b/greeting.txt` now", Some("/a b/greeting.txt"));
        check("Don't wait: edit @src/greeting.txt!", Some("src/greeting.txt"));
        check("Don't edit a/greeting.txt", Some("a/greeting.txt"));
        check("(see \"./greeting.txt\")", Some("./greeting.txt"));
        check("first a/greeting.txt then b/greeting.txt", Some("b/greeting.txt"));
        check("my-greeting.txt", None);
        check("hello", None);
    }
}
