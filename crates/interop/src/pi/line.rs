//! Lines of a session file with their place in it, and the forgiving reading of one line.
//!
//! pi appends with one write for each entry and no lock, so real files hold broken lines, lines cut short by a crash,
//! text in no valid encoding, and halves of emoji that JavaScript cut in two. JavaScript reads the last two; a strict
//! parser would lose the whole entry over one character.

use std::borrow::Cow;

use serde_json::Value;

const BOM: &[u8] = b"\xef\xbb\xbf";
const REPLACEMENT: &str = "\\ufffd";

/// A line that is not blank.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLine<'a> {
    /// Its number, from 1.
    pub(super) number: usize,
    /// Its first byte, after a byte order mark.
    pub(super) start: usize,
    /// One past its last byte, without the line's end.
    pub(super) end: usize,
    /// Its bytes.
    pub(super) bytes: &'a [u8],
    /// Whether a byte order mark stands before it.
    pub(super) marked: bool,
    /// Whether a line feed ends it.
    pub(super) ended: bool,
}

/// The lines of a file that are not blank.
pub(super) fn lines(bytes: &[u8]) -> Vec<SessionLine<'_>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for (at, whole) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let from = start;
        start += whole.len();
        let ended = whole.ends_with(b"\n");
        let body = whole.strip_suffix(b"\n").unwrap_or(whole);
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        let (marked, body, from) = match body.strip_prefix(BOM) {
            Some(rest) => (true, rest, from + BOM.len()),
            None => (false, body, from),
        };
        if !body.iter().all(u8::is_ascii_whitespace) {
            let end = from + body.len();
            lines.push(SessionLine { number: at + 1, start: from, end, bytes: body, marked, ended });
        }
    }
    lines
}

/// What is on a line.
#[derive(Debug)]
pub(super) enum LineContent {
    /// JSON.
    Value {
        /// The value.
        value: Value,
        /// Whether bytes that are no text were replaced.
        replaced_bytes: bool,
        /// Whether halves of characters were replaced.
        replaced_halves: bool,
    },
    /// No JSON, and why.
    Broken(String),
}

/// Reads a line as JavaScript would: bytes that are no text, and halves of characters, become U+FFFD.
pub(super) fn parse(bytes: &[u8]) -> LineContent {
    let strict = match serde_json::from_slice(bytes) {
        Ok(value) => return LineContent::Value { value, replaced_bytes: false, replaced_halves: false },
        Err(error) => error,
    };
    let text = String::from_utf8_lossy(bytes);
    let replaced_bytes = matches!(text, Cow::Owned(_));
    let whole = whole_characters(&text);
    let replaced_halves = matches!(whole, Cow::Owned(_));
    if !replaced_bytes && !replaced_halves {
        return LineContent::Broken(strict.to_string());
    }
    match serde_json::from_str(&whole) {
        Ok(value) => LineContent::Value { value, replaced_bytes, replaced_halves },
        Err(error) => LineContent::Broken(error.to_string()),
    }
}

/// Replaces escapes of surrogates that have no partner.
fn whole_characters(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        whole.push_str(before);
        let code = code_unit(after);
        if code.is_some_and(|code_unit| (0xd800..0xdc00).contains(&code_unit))
            && let Some((high, next)) = after.split_at_checked(5)
            && let Some(next) = next.strip_prefix('\\')
            && code_unit(next).is_some_and(|code_unit| (0xdc00..0xe000).contains(&code_unit))
            && let Some((low, next)) = next.split_at_checked(5)
        {
            whole.extend(["\\", high, "\\", low]);
            rest = next;
        } else if code.is_some_and(|code_unit| (0xd800..0xe000).contains(&code_unit)) {
            whole.push_str(REPLACEMENT);
            changed = true;
            rest = after.split_at_checked(5).map_or("", |(_, next)| next);
        } else {
            // The escaped character goes along, so that an escaped backslash begins no escape of its own.
            let mut characters = after.chars();
            whole.push('\\');
            whole.extend(characters.next());
            rest = characters.as_str();
        }
    }
    whole.push_str(rest);
    if changed { Cow::Owned(whole) } else { Cow::Borrowed(text) }
}

/// The code unit of an escape, from its `u` on.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_know_their_place() {
        let bytes = b"\xef\xbb\xbf{}\r\n\n  \n1\n[";
        let found: Vec<_> = lines(bytes)
            .iter()
            .map(|line| (line.number, line.start, line.end, line.marked, line.ended))
            .collect();
        assert_eq!(found, [(1, 3, 5, true, true), (4, 11, 12, false, true), (5, 13, 14, false, false)]);
    }

    #[test]
    fn halves_of_characters_are_replaced_and_whole_ones_are_not() {
        fn check(text: &str, expected: &Value, halves: bool) {
            match parse(text.as_bytes()) {
                LineContent::Value { value, replaced_halves, .. } => {
                    assert_eq!((&value, replaced_halves), (expected, halves), "{text}");
                }
                LineContent::Broken(error) => panic!("{text}: {error}"),
            }
        }
        check(r#""\ud83d\ude00""#, &json!("😀"), false);
        check(r#""a\ud83d""#, &json!("a\u{fffd}"), true);
        check(r#""\ude00\ud83d\ud83d\ude00""#, &json!("\u{fffd}\u{fffd}😀"), true);
        check(r#""\\ud83d \ud83dx""#, &json!("\\ud83d \u{fffd}x"), true);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let LineContent::Value { value, replaced_bytes: true, .. } = parse(b"\"\xff\xfe0\"") else {
            panic!("not read")
        };
        assert_eq!(value, json!("\u{fffd}\u{fffd}0"));
        assert!(matches!(parse(b"{\"type\":"), LineContent::Broken(_)));
    }
}
