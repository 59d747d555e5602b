//! Call ids and names of tools as they are sent.
//!
//! Other providers' ids may be too long, empty or the same for two calls of one answer, and a model may have called a
//! tool by no name at all. Whatever fits stays as it is: a server finds its cache by it.

use std::collections::VecDeque;

/// The longest call id that OpenAI takes.
const ID_LIMIT: usize = 40;

/// The longest name of a tool.
const NAME_LIMIT: usize = 64;

/// What a call is said to have named if it named nothing.
const NAMELESS: &str = "unnamed_tool";

/// The calls of one answer that wait for their results: the id in the conversation, and the one that is sent.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    open: VecDeque<(String, String)>,
    made: Vec<String>,
}

impl CallIds {
    /// The id to send for a call.
    pub(super) fn call(&mut self, id: &str) -> String {
        let fits = !id.is_empty() && id.len() <= ID_LIMIT && !self.is_made(id);
        let mut spare = (self.made.len()..).map(|number| format!("call_{number}"));
        let sent = if fits { Some(id.to_owned()) } else { spare.find(|id| !self.is_made(id)) };
        let sent = sent.unwrap_or_default();
        self.made.push(sent.clone());
        self.open.push_back((id.to_owned(), sent.clone()));
        sent
    }

    /// The id to send for a result.
    pub(super) fn answer(&mut self, id: &str) -> String {
        let position = self.open.iter().position(|(known, _)| known == id);
        let found = position.and_then(|position| self.open.remove(position));
        found.map_or_else(|| id.to_owned(), |(_, sent)| sent)
    }

    fn is_made(&self, id: &str) -> bool {
        self.made.iter().any(|known| known == id)
    }
}

/// A name in the letters that OpenAI accepts.
pub(super) fn fitting(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let letters = name.chars().take(NAME_LIMIT);
    named(&letters.map(|letter| if fits(letter) { letter } else { '_' }).collect::<String>()).to_owned()
}

/// A name, for servers that take any.
pub(super) fn named(name: &str) -> &str {
    if name.is_empty() { NAMELESS } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_fit_stay_and_others_are_made() {
        let mut ids = CallIds::default();
        let long = "x".repeat(41);
        let sent: Vec<String> = ["call_1", "call_1", "", &long].into_iter().map(|id| ids.call(id)).collect();
        assert_eq!(sent, ["call_1", "call_2", "call_3", "call_4"]);
        let answered: Vec<String> =
            [&long, "", "call_1", "call_1"].into_iter().map(|id| ids.answer(id)).collect();
        assert_eq!(answered, ["call_4", "call_3", "call_1", "call_2"]);
    }

    #[test]
    fn names() {
        let check = |name: &str, expected: &str| assert_eq!(fitting(name), expected);
        check("read", "read");
        check("", "unnamed_tool");
        check("a.b c", "a_b_c");
        check(&"n".repeat(65), &"n".repeat(64));
    }
}
