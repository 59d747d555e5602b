//! What is summed up, as text: one piece for each entry, with long output of tools cut and pictures named.

use everturn_model::Part;
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::path::{self, ResultsByCall};
use everturn_model::tool::ToolState;
use everturn_model::tree::Node;

/// How much of an input or a result is given, in letters.
const LONGEST_DETAIL: usize = 2_000;

/// The tag around a conversation.
pub(crate) const TAG: &str = "conversation";

/// The pieces of some entries of a path.
pub(crate) fn pieces(path: &[&Node], places: &[usize]) -> Vec<String> {
    let results = path::results(path);
    let nodes = places.iter().filter_map(|at| path.get(*at));
    nodes.map(|node| piece(node, &results)).filter(|piece| !piece.is_empty()).collect()
}

fn piece(node: &Node, results: &ResultsByCall<'_>) -> String {
    let mut lines = Vec::new();
    let mut say = |who: &str, text: &str| {
        if !text.trim().is_empty() {
            // The end of the conversation must not be something that was said in it.
            let text = text.replace(&format!("</{TAG}"), &format!("<\\/{TAG}"));
            lines.push(format!("[{who}]: {}", text.trim_end()));
        }
    };
    let parts = || node.parts.iter().filter(|part| !part.hidden && !part.second);
    match &node.entry.body {
        Body::User(_) => parts().for_each(|part| say("User", &words(part))),
        Body::Assistant(_) => {
            for part in parts() {
                match &part.kind {
                    PartKind::Tool { call, tool, state, .. } => {
                        say(&format!("Call of {tool}"), &cut(&state.input().to_string()));
                        // Calls of sessions from elsewhere hold their results themselves.
                        if let ToolState::Completed { result, .. } | ToolState::Error { result, .. } = state
                            && !results.contains_key(&(&node.entry.id, call.as_str()))
                        {
                            say(&format!("Result of {tool}"), &cut(&result.output));
                        }
                    }
                    _ => say("Assistant", &words(part)),
                }
            }
        }
        Body::ToolResult { result } => say(&format!("Result of {}", result.tool), &cut(&result.output)),
        Body::System { text, .. } => say("System", &cut(text)),
        Body::Synthetic { text, .. } => {
            text.iter().for_each(|text| say("Note", text));
            parts().for_each(|part| say("Note", &words(part)));
        }
        Body::Shell(shell) => {
            say("Command of the user", &shell.command);
            say("Output", &cut(shell.output.as_deref().unwrap_or_default()));
        }
        Body::BranchSummary { summary, .. } => say("Summary of another attempt", summary),
        _ => {}
    }
    lines.join("\n")
}

/// The words of a part; what is no text is named.
fn words(part: &Part) -> String {
    match &part.kind {
        PartKind::Text { text, ignored, .. } if *ignored != Some(true) => text.clone(),
        PartKind::File { mime, filename, .. } => {
            format!("(attached: {}, {mime})", filename.as_deref().unwrap_or("a file"))
        }
        _ => String::new(),
    }
}

/// The beginning of a text, and how much is left out.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => {
            let rest = text.chars().count().saturating_sub(longest);
            format!("{}\n(… {rest} more letters)", text.get(..end).unwrap_or_default())
        }
    }
}

fn cut(text: &str) -> String {
    shortened(text, LONGEST_DETAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äöü\n(… 1 more letters)");
    }
}
