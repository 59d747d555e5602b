//! Splits an HTML text into tags and what stands between them, in one pass.
//!
//! Comments, scripts, styles, drawings and the like never show. Reading takes time in proportion to the text, whatever
//! is in it.

use std::borrow::Cow;

/// Elements whose content is text up to their end tag, and no page's text.
const RAW: [&str; 2] = ["script", "style"];
/// Elements that are left out with what is in them.
const DROPPED: [&str; 9] =
    ["noscript", "svg", "template", "iframe", "noembed", "noframes", "object", "canvas", "select"];
/// Elements whose content is text without tags.
const VERBATIM: [&str; 3] = ["title", "textarea", "xmp"];
/// The longest name that is looked at.
const NAME_MAX: usize = 32;

/// The named characters that are common; others are shown as they are written.
const NAMED: [(&str, &str); 32] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("bull", "•"),
    ("middot", "·"),
    ("times", "×"),
    ("larr", "←"),
    ("rarr", "→"),
    ("euro", "€"),
    ("pound", "£"),
    ("sect", "§"),
    ("deg", "°"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
];

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MarkupToken<'a> {
    /// Text in which characters may still be written by name.
    Text(&'a str),
    /// The page's title.
    Title(&'a str),
    /// A tag that opens an element, its name in lower case, with its attributes as written.
    Start(String, &'a str),
    /// A tag that closes one.
    End(String),
}

/// The pieces of a text.
#[derive(Debug)]
pub(super) struct MarkupTokens<'a> {
    rest: &'a str,
    /// Names that have no end tag any more: looking for them again and again would take forever.
    endless: Vec<String>,
}

impl<'a> MarkupTokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self { rest: html, endless: Vec::new() }
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (done, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        done
    }

    /// Skips up to and over a mark, or everything.
    fn skip_over(&mut self, mark: &str) {
        let end = self.rest.find(mark).map_or(self.rest.len(), |at| at + mark.len());
        self.skip(end);
    }

    /// Where the end tag of a name begins.
    fn end_of(&mut self, name: &str) -> Option<usize> {
        if self.endless.iter().any(|endless| endless == name) {
            return None;
        }
        let mut from = 0;
        while let Some(at) = self.rest.get(from..).and_then(|rest| rest.find("</")) {
            let begin = from + at;
            let rest = self.rest.as_bytes().get(begin + 2..).unwrap_or_default();
            let same =
                rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
            if same && rest.get(name.len()).is_none_or(|next| !next.is_ascii_alphanumeric()) {
                return Some(begin);
            }
            from = begin + 2;
        }
        self.endless.push(name.to_owned());
        None
    }

    /// The rest of a tag behind its name: everything up to the `>` that is not in quotes.
    fn attributes(&mut self) -> &'a str {
        let mut quote = None;
        let mut value = false;
        let mut end = self.rest.len();
        for (at, byte) in self.rest.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), _) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'>') => {
                    end = at;
                    break;
                }
                // A quote opens a value only right behind the equals sign.
                (None, b'"' | b'\'') if value => (quote, value) = (Some(byte), false),
                (None, b'=') => value = true,
                (None, _) if byte.is_ascii_whitespace() => {}
                (None, _) => value = false,
            }
        }
        let attributes = self.skip(end);
        self.skip(1);
        attributes
    }

    fn tag(&mut self) -> Option<MarkupToken<'a>> {
        let closing = self.rest.starts_with("</");
        self.skip(if closing { 2 } else { 1 });
        let length = self.rest.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
        let name = self.skip(length.unwrap_or(self.rest.len()));
        let attributes = self.attributes();
        if name.len() > NAME_MAX {
            return None;
        }
        let name = name.to_ascii_lowercase();
        if closing {
            return Some(MarkupToken::End(name));
        }
        if RAW.contains(&name.as_str()) {
            let end = self.end_of(&name).unwrap_or(self.rest.len());
            self.skip(end);
            self.skip_over(">");
            return None;
        }
        if DROPPED.contains(&name.as_str()) {
            if let Some(end) = self.end_of(&name) {
                self.skip(end);
                self.skip_over(">");
            }
            return None;
        }
        if VERBATIM.contains(&name.as_str()) {
            let end = self.end_of(&name).unwrap_or(self.rest.len());
            let text = self.skip(end);
            self.skip_over(">");
            return Some(if name == "title" { MarkupToken::Title(text) } else { MarkupToken::Text(text) });
        }
        Some(MarkupToken::Start(name, attributes))
    }
}

impl<'a> Iterator for MarkupTokens<'a> {
    type Item = MarkupToken<'a>;

    fn next(&mut self) -> Option<MarkupToken<'a>> {
        while !self.rest.is_empty() {
            let mut start = self.rest.bytes();
            match (start.next(), start.next(), start.next()) {
                (Some(b'<'), Some(b'!'), _) if self.rest.starts_with("<!--") => {
                    self.skip(4);
                    if self.rest.starts_with('>') || self.rest.starts_with("->") {
                        self.skip_over(">");
                    } else {
                        self.skip_over("-->");
                    }
                }
                (Some(b'<'), Some(b'!' | b'?'), _) => self.skip_over(">"),
                (Some(b'<'), Some(b'/'), Some(letter)) if letter.is_ascii_alphabetic() => {
                    if let Some(token) = self.tag() {
                        return Some(token);
                    }
                }
                (Some(b'<'), Some(letter), _) if letter.is_ascii_alphabetic() => {
                    if let Some(token) = self.tag() {
                        return Some(token);
                    }
                }
                _ => {
                    // A `<` that begins no tag is text.
                    let end = self.rest.get(1..).and_then(|rest| rest.find('<')).map(|at| at + 1);
                    return Some(MarkupToken::Text(self.skip(end.unwrap_or(self.rest.len()))));
                }
            }
        }
        None
    }
}

/// The value of an attribute, decoded.
pub(super) fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<Cow<'a, str>> {
    let mut rest = attributes.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '=' || c == '/').unwrap_or(rest.len());
        let (name, behind) = rest.split_at_checked(end)?;
        let behind = behind.trim_start();
        let (value, after) = match behind.strip_prefix('=').map(str::trim_start) {
            None => ("", behind),
            Some(value) => match value.chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let value = value.get(1..)?;
                    value.split_once(quote).unwrap_or((value, ""))
                }
                _ => {
                    let end = value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len());
                    value.split_at_checked(end)?
                }
            },
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(decode(value));
        }
        // Something is always taken, or a stray character would stop us here forever.
        let after = if after.len() == rest.len() { after.get(1..).unwrap_or_default() } else { after };
        rest = after.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    }
    None
}

/// The text with characters that are written by name or number put in.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        let end = after.bytes().take(NAME_MAX).position(|byte| byte == b';');
        let meant = end
            .and_then(|end| after.split_at_checked(end))
            .and_then(|(name, behind)| Some((character(name)?, behind.strip_prefix(';')?)));
        if let Some((character, behind)) = meant {
            decoded.push_str(&character);
            rest = behind;
        } else {
            decoded.push('&');
            rest = after;
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

fn character(name: &str) -> Option<Cow<'static, str>> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|(_, text)| Cow::Borrowed(*text));
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    let character = char::from_u32(number).filter(|character| *character != '\0');
    Some(Cow::Owned(character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &[&str]) {
        let shown: Vec<String> = MarkupTokens::new(html)
            .map(|token| match token {
                MarkupToken::Text(text) => text.to_owned(),
                MarkupToken::Title(text) => format!("title:{text}"),
                MarkupToken::Start(name, attributes) => format!("<{name}|{}>", attributes.trim()),
                MarkupToken::End(name) => format!("</{name}>"),
            })
            .collect();
        assert_eq!(shown, expected, "{html}");
    }

    #[test]
    fn pieces_of_html() {
        check("a<b>c</B >d", &["a", "<b|>", "c", "</b>", "d"]);
        check("<a href='x>y' title=\"<p>\">z", &["<a|href='x>y' title=\"<p>\">", "z"]);
        check("<p it's>x<p \">y", &["<p|it's>", "x", "<p|\">", "y"]);
        check("1 < 2 <3", &["1 ", "< 2 ", "<3"]);
        check("a<!-- <b> -->c<!-->d<!doctype html>e<?php x?>f", &["a", "c", "d", "e", "f"]);
        check("a<!-- never", &["a"]);
        check("a<script>if (a<b) '</p>'</SCRIPT >b<style>x", &["a", "b"]);
        check("<noscript>x</noscript>a<svg><title>t</title></svg>b<svg>c", &["a", "b", "c"]);
        check("<title>A &amp; <b></title>x", &["title:A &amp; <b>", "x"]);
        check("<a", &["<a|>"]);
        check("</", &["</"]);
        check("</ b>x", &["</ b>x"]);
    }

    #[test]
    fn values_of_attributes() {
        let attributes = " class=x HREF = 'a?b=1&amp;c=&#50;' / data-x=\"\" checked alt=\"&lt;ü&gt;";
        assert_eq!(attribute(attributes, "href").unwrap(), "a?b=1&c=2");
        assert_eq!(attribute(attributes, "class").unwrap(), "x");
        assert_eq!(attribute(attributes, "checked").unwrap(), "");
        assert_eq!(attribute(attributes, "alt").unwrap(), "<ü>");
        assert_eq!(attribute(attributes, "src"), None);
    }

    #[test]
    fn characters_by_name() {
        assert_eq!(
            decode("&lt;&#x41;&#66;&nbsp;&unknown;&&amp;&#0;&#99999999; &amp"),
            "<AB &unknown;&&\u{fffd}\u{fffd} &amp"
        );
    }
}
