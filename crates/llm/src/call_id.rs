//! The ids of tool calls, as they are known in a conversation and as they are sent.
//!
//! Providers differ in what they take as an id, and some count from zero in every answer. An id that fits and is new
//! stays as it is; any other is replaced by one made from it. What is sent for a call depends only on what stands
//! before it, so that a conversation keeps its ids as it grows, and the provider's cache stays useful.

use std::collections::{HashSet, VecDeque};

/// What a provider takes as an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallIdRule {
    /// Any letters, up to so many.
    AtMost(usize),
    /// Letters, digits, `_` and `-`, up to so many.
    Words(usize),
    /// Letters and digits, exactly so many.
    Exactly(usize),
}

/// The characters of an id that may have letters and digits only.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl CallIdRule {
    /// The id to try next.
    fn write(self, id: &str, attempt: u64) -> String {
        match self {
            Self::AtMost(limit) => count_on(id.chars(), limit, attempt),
            Self::Words(limit) => {
                let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
                count_on(id.chars().map(|letter| if fits(letter) { letter } else { '_' }), limit, attempt)
            }
            Self::Exactly(length) => {
                let fits = id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
                if fits && attempt == 1 { id.to_owned() } else { spell(digest(id, attempt), length) }
            }
        }
    }
}

/// The letters, and from the second attempt on its number behind them.
fn count_on(letters: impl Iterator<Item = char>, limit: usize, attempt: u64) -> String {
    let number = if attempt > 1 { format!("_{attempt}") } else { String::new() };
    let base: String = letters.take(limit.saturating_sub(number.len())).collect();
    let base = if base.is_empty() { "call" } else { base.as_str() };
    format!("{base}{number}")
}

/// A number that is the same on every machine and in every version: what was sent once has to be sent again.
fn digest(id: &str, attempt: u64) -> u64 {
    // FNV-1a.
    let bytes = id.bytes().chain(attempt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn spell(number: u64, length: usize) -> String {
    let base = DIGITS.len() as u64;
    let rests = std::iter::successors(Some(number), |rest| Some(rest / base));
    let digit = |rest: u64| usize::try_from(rest % base).ok().and_then(|index| DIGITS.get(index));
    rests.take(length).filter_map(digit).map(|digit| char::from(*digit)).collect()
}

/// The ids of one conversation as they are sent.
#[derive(Debug)]
pub(crate) struct CallIds {
    shape: CallIdRule,
    used: HashSet<String>,
    open: OpenCalls<String>,
}

impl CallIds {
    /// For a provider that takes ids of this shape.
    pub(crate) fn new(shape: CallIdRule) -> Self {
        Self { shape, used: HashSet::new(), open: OpenCalls::default() }
    }

    /// The id to send for a call.
    pub(crate) fn call(&mut self, id: &str) -> String {
        let mut tries = (1..).map(|attempt| self.shape.write(id, attempt));
        let sent = tries.find(|sent| !self.used.contains(sent)).unwrap_or_default();
        self.used.insert(sent.clone());
        self.open.begin(id, sent.clone());
        sent
    }

    /// The id to send for a result, if there is a call that it answers.
    pub(crate) fn answer(&mut self, id: &str) -> Option<String> {
        self.open.settle(id)
    }
}

/// Calls without a result yet: each with the id under which the conversation knows it, and what is kept of it.
#[derive(Debug)]
pub(crate) struct OpenCalls<T>(VecDeque<(String, T)>);

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> OpenCalls<T> {
    /// A call was made.
    pub(crate) fn begin(&mut self, id: &str, kept: T) {
        self.0.push_back((id.to_owned(), kept));
    }

    /// A call was answered. Nothing keeps a model from using an id twice, so it is the oldest one of this id.
    pub(crate) fn settle(&mut self, id: &str) -> Option<T> {
        let position = self.0.iter().position(|(known, _)| known == id)?;
        self.0.remove(position).map(|(_, kept)| kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shape: CallIdRule, ids: &[&str], expected: &[&str]) {
        let mut known = CallIds::new(shape);
        let sent: Vec<String> = ids.iter().map(|id| known.call(id)).collect();
        assert_eq!(sent, expected);
        let answers: Vec<Option<String>> = ids.iter().map(|id| known.answer(id)).collect();
        assert_eq!(answers, expected.iter().map(|id| Some((*id).to_owned())).collect::<Vec<_>>());
        assert_eq!(known.answer("nobody called"), None);
    }

    #[test]
    fn ids_that_fit_stay_and_others_give_way() {
        check(
            CallIdRule::AtMost(8),
            &["f.a:0", "f.a:0", "", "", "123456789", "12345678"],
            &["f.a:0", "f.a:0_2", "call", "call_2", "12345678", "123456_2"],
        );
        check(CallIdRule::Words(8), &["f.a:0", "f_a_0", "ü", "a-b"], &["f_a_0", "f_a_0_2", "_", "a-b"]);
    }

    #[test]
    fn ids_of_one_length() {
        let mut ids = CallIds::new(CallIdRule::Exactly(9));
        let names = ["D681PevKs", "D681PevKs", "call_1", "call_2", "", "call_00_9nLfpIQ6VO1JCaEsJcU8WZnS"];
        let sent = names.map(|id| ids.call(id));
        assert_eq!(sent.first().map(String::as_str), Some("D681PevKs"));
        let fits = |id: &&String| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert_eq!(sent.iter().filter(fits).collect::<HashSet<_>>().len(), names.len(), "{sent:?}");
        // The same for the same conversation, today and tomorrow.
        assert_eq!(CallIdRule::Exactly(9).write("call_1", 1), "on0B7kbSV");
    }
}
