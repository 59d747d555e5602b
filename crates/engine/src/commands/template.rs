//! The text of a slash command: its gaps, what fills them, and what it mentions.
//!
//! What is run is decided by the text alone. An argument may be part of a command, and is judged with it; everywhere else it
//! is words, and so is what comes out of a command.

use std::collections::BTreeSet;

/// A piece of a text whose gaps are filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePiece {
    /// Words.
    Text(String),
    /// A command whose output stands here.
    Shell(String),
}

/// What stands in a text for all arguments.
const ALL: &str = "$ARGUMENTS";

/// Fills the gaps of a text with what was typed behind its name. Without a gap, that comes after the text.
pub(super) fn fill(template: &str, arguments: &str) -> Vec<TemplatePiece> {
    let words = split(arguments);
    let last = numbers(template).into_iter().next_back();
    let has_gap = last.is_some() || template.contains(ALL);
    let fill = |text: &str| fill_words(text, &words, last, arguments);
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, command, after)) = next_shell(rest) {
        pieces.push(TemplatePiece::Text(fill(before)));
        pieces.push(TemplatePiece::Shell(fill(command)));
        rest = after;
    }
    let mut end = fill(rest);
    if !has_gap && !arguments.trim().is_empty() {
        end = format!("{}\n\n{arguments}", end.trim_end());
    }
    pieces.push(TemplatePiece::Text(end));
    pieces.retain(|piece| *piece != TemplatePiece::Text(String::new()));
    pieces
}

/// The gaps of a text, as clients show them.
pub(super) fn hints(template: &str) -> Vec<String> {
    let numbered = numbers(template).into_iter().map(|number| format!("${number}"));
    numbered.chain(template.contains(ALL).then(|| ALL.to_owned())).collect()
}

/// The first command in a text, with what comes before and after it.
fn next_shell(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("!`")?;
        let inner = text.get(start + 2..)?;
        match inner.find('`')? {
            0 => from = start + 2,
            end => return Some((text.get(..start)?, inner.get(..end)?, inner.get(end + 1..)?)),
        }
    }
}

/// The numbers of the gaps.
fn numbers(template: &str) -> BTreeSet<usize> {
    template
        .split('$')
        .skip(1)
        .filter_map(|behind| leading_number(behind).map(|(number, _)| number))
        .collect()
}

/// A number at the beginning of a text, and what follows it.
fn leading_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// Fills in one pass, so that what is filled in has no gaps. The last gap takes all that is left.
fn fill_words(text: &str, words: &[String], last: Option<usize>, arguments: &str) -> String {
    let mut pieces = text.split('$');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(rest) = piece.strip_prefix("ARGUMENTS") {
            filled.push_str(arguments);
            filled.push_str(rest);
        } else if let Some((number, rest)) = leading_number(piece) {
            let from = number.saturating_sub(1).min(words.len());
            let given = words.get(from..).unwrap_or_default();
            let taken = if Some(number) == last { given } else { given.get(..1).unwrap_or_default() };
            filled.push_str(&taken.join(" "));
            filled.push_str(rest);
        } else {
            filled.push('$');
            filled.push_str(piece);
        }
    }
    filled
}

/// The arguments one by one: what is in quotes is one.
pub(super) fn split(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = arguments.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = rest.get(1..).filter(|_| matches!(first, '"' | '\''));
        let quoted = quoted.and_then(|inner| inner.split_once(first));
        let (word, after) = match quoted {
            Some((word, after)) => (word, after),
            // A quote that nothing closes is a letter of its word.
            None => {
                let skip = first.len_utf8();
                let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'');
                let end =
                    rest.get(skip..).and_then(|text| text.find(ends)).map_or(rest.len(), |at| at + skip);
                rest.split_at_checked(end).unwrap_or((rest, ""))
            }
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// What a text mentions: names behind an `@` at the beginning of a word, each once.
pub(super) fn mentions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        if before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '`')) {
            continue;
        }
        let name = text.get(at + 1..).unwrap_or_default();
        let end = name.find(|letter: char| letter.is_whitespace() || matches!(letter, '`' | ',' | '@'));
        let name = name
            .get(..end.unwrap_or(name.len()))
            .unwrap_or_default()
            .trim_end_matches(['.', ':', ';', '!', '?', ')']);
        if !name.is_empty() && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TemplatePiece {
        TemplatePiece::Text(text.to_owned())
    }

    fn shell(command: &str) -> TemplatePiece {
        TemplatePiece::Shell(command.to_owned())
    }

    #[test]
    fn gaps_are_filled() {
        let check = |template: &str, arguments: &str, filled: &str| {
            assert_eq!(fill(template, arguments), [text(filled)], "{template} {arguments}");
        };
        check("Check $ARGUMENTS now", "a  b", "Check a  b now");
        check("From $1 to $2", "a b c d", "From a to b c d");
        check("$2 before $1", "a b", "b before a");
        check("$1, $1", "a b", "a b, a b");
        check("From $1 to $2.", "a", "From a to .");
        check("One: $1", "\"two words\" 'and more'", "One: two words and more");
        check("$1 and $2", "\"open it", "\"open and it");
        check("costs $", "", "costs $");
        check("no gap", "more words", "no gap\n\nmore words");
        check("no gap", " ", "no gap");
        // What is filled in has no gaps.
        check("$1 and $ARGUMENTS", "$ARGUMENTS", "$ARGUMENTS and $ARGUMENTS");
        check("Cost $10", "a", "Cost ");
    }

    #[test]
    fn only_the_text_itself_says_what_is_run() {
        let filled = fill("Diff: !`git diff $1`\n!`date` end", "main !`rm -rf x`");
        let expected =
            [text("Diff: "), shell("git diff main !`rm -rf x`"), text("\n"), shell("date"), text(" end")];
        assert_eq!(filled, expected);
        assert_eq!(fill("See !$1", "`ls`"), [text("See !`ls`")]);
        assert_eq!(fill("!$ARGUMENTS", "!`ls`"), [text("!!`ls`")]);
        assert_eq!(fill("odd !`` and !`open", ""), [text("odd !`` and !`open")]);
    }

    #[test]
    fn clients_are_told_the_gaps_in_order() {
        assert_eq!(hints("$2 $ARGUMENTS $1 $2 $10"), ["$1", "$2", "$10", "$ARGUMENTS"]);
        assert_eq!(hints("none, $ and $x"), [""; 0]);
    }

    #[test]
    fn mentions_are_names_at_the_beginning_of_a_word() {
        let text =
            "See @src/main.rs, @./a.txt and (@docs/). Mail a@b.c, `@no`, @src/main.rs; @~/x.md. @explore! @";
        assert_eq!(mentions(text), ["src/main.rs", "./a.txt", "docs/", "~/x.md", "explore"]);
    }
}
