//! A secret, and how it is found in texts and taken out of them.
//!
//! In JSON a secret may stand escaped, and in JSON that is kept as a string of other JSON (the input of a tool call as
//! it was streamed) escaped twice. So it is looked for in all three forms.

use std::fmt;

use super::stored_session::StreamRow;
use crate::payload;

/// What is looked for, and what comes in its place.
#[derive(Clone)]
pub(super) struct LeakedSecret {
    /// The longest first, because an escaped form may hold a plainer one.
    forms: Vec<(String, String)>,
}

impl fmt::Debug for LeakedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl LeakedSecret {
    pub(super) fn new(secret: &str, replacement: &str) -> Self {
        let mut forms = vec![(secret.to_owned(), replacement.to_owned())];
        for _ in 0..2 {
            let last = forms.last().map(|(from, to)| (escaped(from), escaped(to)));
            forms.extend(last.filter(|(from, _)| forms.iter().all(|(known, _)| known != from)));
        }
        Self::of(forms)
    }

    fn of(mut forms: Vec<(String, String)>) -> Self {
        forms.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self { forms }
    }

    /// The same, and names that change because of it.
    pub(super) fn with(&self, names: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::of(self.forms.iter().cloned().chain(names).collect())
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|(from, _)| text.contains(from.as_str()))
    }

    /// The text without it; none when it is not there.
    pub(super) fn clean(&self, text: &str) -> Option<String> {
        if !self.is_in(text) {
            return None;
        }
        let clean = |text: String, (from, to): &(String, String)| text.replace(from.as_str(), to);
        Some(self.forms.iter().fold(text.to_owned(), clean))
    }

    /// The JSON without it in any string or key; none when it is not there. Everything else stays byte for byte.
    pub(super) fn clean_json(&self, json: &str) -> Option<String> {
        let mut clean = String::with_capacity(json.len());
        let mut changed = false;
        for (at, piece) in payload::pieces(json).enumerate() {
            if at > 0 {
                clean.push('"');
            }
            let new = if piece.string { self.clean_string(piece.text) } else { None };
            changed |= new.is_some();
            clean.push_str(new.as_deref().unwrap_or(piece.text));
        }
        changed.then_some(clean)
    }

    /// A string as it stands in JSON, without it.
    fn clean_string(&self, text: &str) -> Option<String> {
        if !text.contains('\\') {
            return self.clean(text).map(|clean| escaped(&clean));
        }
        match serde_json::from_str::<String>(&format!("\"{text}\"")) {
            Ok(plain) => self.clean(&plain).map(|clean| escaped(&clean)),
            Err(_) => self.clean(text),
        }
    }

    /// The bytes without it; none when it is not there.
    pub(super) fn clean_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut clean = None;
        for (from, to) in &self.forms {
            let now = clean.as_deref().unwrap_or(bytes);
            if let Some(next) = replace(now, from.as_bytes(), to.as_bytes()) {
                clean = Some(next);
            }
        }
        clean
    }

    /// Saved pieces with stars in its place, where it is in what they are together. The length stays, because the next
    /// piece says where in the text it begins.
    pub(super) fn mask(&self, pieces: &[StreamRow]) -> Vec<StreamRow> {
        let mut changed = Vec::new();
        for run in pieces.chunk_by(|one, two| {
            one.part == two.part && one.start + u64::try_from(one.text.len()).unwrap_or(u64::MAX) == two.start
        }) {
            let joined: String = run.iter().map(|piece| piece.text.as_str()).collect();
            let Some(masked) = self.masked(&joined) else { continue };
            let mut rest = masked.as_str();
            for piece in run {
                let Some((text, after)) = rest.split_at_checked(piece.text.len()) else { break };
                rest = after;
                if text != piece.text {
                    changed.push(StreamRow { text: text.to_owned(), ..piece.clone() });
                }
            }
        }
        changed
    }

    fn masked(&self, text: &str) -> Option<String> {
        if !self.is_in(text) {
            return None;
        }
        let stars =
            |text: String, (from, _): &(String, String)| text.replace(from.as_str(), &"*".repeat(from.len()));
        Some(self.forms.iter().fold(text.to_owned(), stars))
    }
}

/// A text as it stands in JSON, without the quotes.
fn escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default().to_owned()
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    if from.is_empty() {
        return None;
    }
    let mut clean = Vec::new();
    let mut rest = bytes;
    let mut found = false;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        let (before, after) = rest.split_at_checked(at)?;
        clean.extend_from_slice(before);
        clean.extend_from_slice(to);
        rest = after.strip_prefix(from)?;
        found = true;
    }
    clean.extend_from_slice(rest);
    found.then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secret: &str, json: &str, expected: Option<&str>) {
        assert_eq!(LeakedSecret::new(secret, "[x]").clean_json(json).as_deref(), expected);
    }

    #[test]
    fn it_is_found_in_strings_and_keys_however_they_are_escaped() {
        check("hunter22", r#"{"a":"my hunter22","n":1.50}"#, Some(r#"{"a":"my [x]","n":1.50}"#));
        check("hunter22", r#"{"hunter22":{"b":["hunter22hunter22"]}}"#, Some(r#"{"[x]":{"b":["[x][x]"]}}"#));
        check("hunter22", r#"{"a":"hunter\u00322"}"#, Some(r#"{"a":"[x]"}"#));
        check("hunter22", r#"{"a":"hunter2","b":2}"#, None);
        check("pa\"ss\\w\n", r#"{"a":"-pa\"ss\\w\n-"}"#, Some(r#"{"a":"-[x]-"}"#));
        let twice =
            serde_json::json!({ "raw": serde_json::json!({ "p": "pa\"ss\\w\n" }).to_string() }).to_string();
        check("pa\"ss\\w\n", &twice, Some(r#"{"raw":"{\"p\":\"[x]\"}"}"#));
    }

    #[test]
    fn it_is_masked_across_saved_pieces() {
        let piece = |part: &str, start, text: &str| StreamRow { part: part.into(), start, text: text.into() };
        let pieces = [
            piece("a", 0, "my hun"),
            piece("a", 6, "ter22 é"),
            piece("b", 0, "ter22"),
            piece("b", 9, "hunter22"),
        ];
        let expected = [piece("a", 0, "my ***"), piece("a", 6, "***** é"), piece("b", 9, "********")];
        assert_eq!(LeakedSecret::new("hunter22", "[x]").mask(&pieces), expected);
    }

    #[test]
    fn bytes_are_cleaned() {
        let clean = |bytes: &[u8]| LeakedSecret::new("hunter22", "[x]").clean_bytes(bytes);
        assert_eq!(clean(b"\xffhunter22\x00hunter22"), Some(b"\xff[x]\x00[x]".to_vec()));
        assert_eq!(clean(b"\xffhunter2\x00"), None);
    }
}
