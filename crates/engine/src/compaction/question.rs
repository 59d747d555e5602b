//! What the model is asked for a summary, and what it is told of the answer when it goes on.

use std::fmt::Write as _;

use everturn_llm::{Block, Content, Message};
use everturn_model::compaction::CarriedContext;

use super::size;
use super::transcript::{TAG, shortened};

/// What a summary is the answer to.
pub(crate) const QUESTION: &str = "What did we do so far?";

/// What tells the model to go on where nothing of the conversation is left to answer.
pub(crate) const GO_ON: &str = "The conversation so far was summed up because it had become too long. Go on with the work \
from where the summary ends. If nothing is left to do, say so.";

/// How a summary is to be written.
const MANNER: &str = "\
Sum up the conversation above for an agent that goes on with it and sees nothing else of what you were given. Use these \
headings, in this order, and leave out those that would be empty:

## Goal
## Wishes and limits
## Done
## In progress
## Stuck
## Decisions, with their reasons
## Found out
## Next steps

Give names, paths, commands, numbers and messages exactly. The task list, what was pinned and the lists of files are kept \
beside your summary, so do not repeat them. Write the summary and nothing else.";

/// What is said where there is an earlier summary.
const MERGE: &str = "What comes before the conversation is in the earlier summary. Put both together: keep what still \
holds, correct what has changed, move what is done by now, and drop nothing that is still needed.";

/// What is said where a turn is cut.
const SPLIT: &str = "The conversation ends in the middle of the agent's work on the last request. The agent sees what \
follows. Say what was asked for and how far the work had got.";

/// How many requests one compaction makes at most: what is older than all that fits into them is left out.
const MOST_PIECES: usize = 8;

/// What is summed up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryQuestion<'a> {
    /// The summary of what came before.
    pub(crate) earlier: Option<&'a str>,
    /// The conversation, in pieces.
    pub(crate) pieces: &'a [String],
    /// How many entries at its beginning are left out.
    pub(crate) left_out: usize,
    /// Whether it ends in the middle of a turn.
    pub(crate) splits: bool,
    /// What a person wants to be looked at.
    pub(crate) focus: Option<&'a str>,
}

impl SummaryQuestion<'_> {
    /// The words that the model is asked with.
    pub(crate) fn words(self) -> String {
        let mut text = String::new();
        if let Some(earlier) = self.earlier {
            let _ = write!(text, "<earlier-summary>\n{earlier}\n</earlier-summary>\n\n");
        }
        let _ = writeln!(text, "<{TAG}>");
        if self.left_out > 0 {
            let _ = writeln!(text, "({} older entries are left out.)", self.left_out);
        }
        for piece in self.pieces {
            let _ = writeln!(text, "{piece}");
        }
        let _ = write!(text, "</{TAG}>\n\n{MANNER}");
        for more in [self.earlier.map(|_| MERGE), self.splits.then_some(SPLIT)].into_iter().flatten() {
            let _ = write!(text, "\n\n{more}");
        }
        if let Some(focus) = self.focus {
            let _ = write!(text, "\n\nWhat the user asks you to mind:\n{focus}");
        }
        let _ = write!(text, "\n\n{QUESTION}");
        text
    }
}

/// A conversation in groups of pieces that each fit into one request, and how many pieces are left out.
pub(crate) fn groups(pieces: Vec<String>, tokens: u64) -> (Vec<Vec<String>>, usize) {
    let letters = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut sum = u64::MAX;
    for piece in pieces {
        let piece = shortened(&piece, letters);
        let own = size::of_text(&piece) + 1;
        if sum.saturating_add(own) > tokens {
            groups.push(Vec::new());
            sum = 0;
        }
        sum = sum.saturating_add(own);
        if let Some(group) = groups.last_mut() {
            group.push(piece);
        }
    }
    let surplus = groups.len().saturating_sub(MOST_PIECES);
    let left_out = groups.drain(..surplus).map(|group| group.len()).sum();
    (groups, left_out)
}

/// How the model is told of a summary: as its answer to the question.
pub(crate) fn told(summary: &str, recent: Option<&str>, carried: Option<&CarriedContext>) -> [Message; 2] {
    let mut text = summary.to_owned();
    if let Some(recent) = recent {
        let _ = write!(text, "\n\nThe most recent exchanges, word for word:\n\n{recent}");
    }
    if let Some(carried) = carried {
        text.push_str(&carried_words(carried));
    }
    let question = Message::User(vec![Content::Text(QUESTION.to_owned())]);
    [question, Message::Assistant { blocks: vec![Block::Text { text, metadata: None }], origin: None }]
}

/// What is carried word for word, as the model reads it.
fn carried_words(carried: &CarriedContext) -> String {
    let mut text = String::new();
    let mut section = |tag: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(text, "\n\n<{tag}>\n{}\n</{tag}>", lines.join("\n"));
        }
    };
    section("goal", carried.pins.goal.iter().cloned().collect());
    section("pinned-facts", carried.pins.facts.iter().map(|fact| format!("- {fact}")).collect());
    let todo = |todo: &everturn_model::todo::Todo| {
        format!("- [{}] {} ({})", todo.status, todo.content, todo.priority)
    };
    section("todo-list", carried.todos.iter().map(todo).collect());
    section("read-files", carried.read.clone());
    section("modified-files", carried.modified.clone());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_that_does_not_fit_is_asked_about_in_groups() {
        let pieces = |count: usize, letters: usize| -> Vec<String> {
            (0..count).map(|number| format!("{number:0letters$}")).collect()
        };
        let shape = |(groups, left): (Vec<Vec<String>>, usize)| {
            (groups.iter().map(Vec::len).collect::<Vec<_>>(), left)
        };
        assert_eq!(shape(groups(Vec::new(), 100)), (vec![], 0));
        // Each of them is ten tokens and one for what is between.
        assert_eq!(shape(groups(pieces(5, 40), 22)), (vec![2, 2, 1], 0));
        assert_eq!(shape(groups(pieces(20, 40), 22)), (vec![2; 8], 4), "the oldest are left out");
        let (all, _) = groups(pieces(1, 400), 10);
        assert!(all[0][0].ends_with("\n(… 360 more letters)"), "{all:?}");
    }
}
