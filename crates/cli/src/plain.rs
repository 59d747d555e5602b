//! Text of others without what steers a terminal.
//!
//! What could move the cursor, change colours, set a clipboard or turn the direction of writing around shows as `�`, or
//! as an escape where a program may read it.

use std::borrow::Cow;

/// Whether a character does something to a terminal instead of being seen there. Marks that join characters stay:
/// scripts and emoji need them.
fn steers(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Some programs end a line at these two.
    let separates = matches!(character, '\u{2028}' | '\u{2029}');
    turns || separates || character.is_control() && !matches!(character, '\n' | '\t')
}

/// Text with the lines that it has, in which nothing steers a terminal.
pub(crate) fn neutralise(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let plain = text.replace("\r\n", "\n");
    Cow::Owned(
        plain.chars().map(|character| if steers(character) { '\u{fffd}' } else { character }).collect(),
    )
}

/// The same as one line.
pub(crate) fn flatten(text: &str) -> Cow<'_, str> {
    match neutralise(text) {
        plain if plain.contains('\n') => Cow::Owned(plain.replace('\n', " ")),
        plain => plain,
    }
}

/// The same with its second and all later lines set off, so that none of them passes for a message of its own.
pub(crate) fn indent(text: &str) -> Cow<'_, str> {
    match neutralise(text) {
        plain if plain.contains('\n') => Cow::Owned(plain.trim_end().replace('\n', "\n  ")),
        plain => plain,
    }
}

/// A line in which escapes stand for what would end it or steer a terminal. In JSON they mean the same character.
pub(crate) fn escape(line: &str) -> Cow<'_, str> {
    let unsafe_here = |character: char| character == '\n' || steers(character);
    if !line.contains(unsafe_here) {
        return Cow::Borrowed(line);
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for character in line.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            // All of them have four digits at most.
            _ if unsafe_here(character) => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}[31mred\u{1b}]0;name\u{7} \u{9b}2J\u{202e}back\r\nnext\rover\u{2028}end";

    #[test]
    fn nothing_that_others_wrote_steers_the_terminal() {
        assert_eq!(neutralise(HOSTILE), "�[31mred�]0;name� �2J�back\nnext�over�end");
        assert_eq!(flatten(HOSTILE), "�[31mred�]0;name� �2J�back next�over�end");
        assert_eq!(indent("one\n\u{7}everturn: two\n"), "one\n  �everturn: two");
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        let plain = "two\tlines\nשלום 日本 👩\u{200d}👧";
        assert_eq!(neutralise(plain), plain);
        let line = "one\tline: שלום 日本 👩\u{200d}👧";
        assert_eq!([flatten(line), indent(line), escape(line)], [line; 3]);
    }

    #[test]
    fn a_program_reads_every_character_in_json() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        let escaped = escape(&json);
        assert!(!escaped.contains(|character| character == '\n' || steers(character)), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), HOSTILE);
    }
}
