//! A page that was fetched: its kind, its encoding, and its text.

use std::thread;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, HrStyle, Options};
use url::Url;

use super::markup::{MarkupToken, MarkupTokens, decode};
use super::rewrite::rewrite;

/// How far into a page its character set may be named.
const META: usize = 2048;
/// The stack of the thread that converts a page: nesting is bounded, and this is much more than it takes.
const STACK: usize = 16 * 1024 * 1024;
/// Characters of a page's title.
const TITLE: usize = 300;

/// Media types that are text without saying so in their first half.
const TEXTUAL: [&str; 12] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/sql",
    "application/toml",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// A page as it came.
#[derive(Debug)]
pub(super) struct FetchedPage {
    pub(super) url: Url,
    /// The media type, in lower case and without parameters; empty if none was given.
    pub(super) media: String,
    /// The character set that the answer named.
    pub(super) charset: Option<String>,
    pub(super) body: Vec<u8>,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Html,
    Text,
    Image(&'static str),
    Binary,
}

/// The media type and the character set in a header.
pub(super) fn media(header: &str) -> (String, Option<String>) {
    let mut parts = header.split(';');
    let media = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    (media, charset)
}

impl FetchedPage {
    pub(super) fn kind(&self) -> PageKind {
        let is_image = |magic: &[u8]| self.body.starts_with(magic);
        let vague = matches!(self.media.as_str(), "" | "application/octet-stream" | "binary/octet-stream");
        match self.media.as_str() {
            "image/png" if is_image(b"\x89PNG\r\n\x1a\n") => return PageKind::Image("image/png"),
            "image/jpeg" | "image/jpg" if is_image(b"\xff\xd8\xff") => return PageKind::Image("image/jpeg"),
            "image/gif" if is_image(b"GIF8") => return PageKind::Image("image/gif"),
            "image/webp" if is_image(b"RIFF") && self.body.get(8..12) == Some(b"WEBP") => {
                return PageKind::Image("image/webp");
            }
            "text/html" | "application/xhtml+xml" => return PageKind::Html,
            _ => {}
        }
        let textual = self.media.starts_with("text/")
            || self.media.ends_with("+json")
            || self.media.ends_with("+xml")
            || TEXTUAL.contains(&self.media.as_str());
        if textual || self.body.is_empty() {
            return PageKind::Text;
        }
        match str::from_utf8(&self.body) {
            Ok(text) if vague && !text.contains('\0') => {
                let start = text.trim_start().as_bytes();
                let says = |tag: &[u8]| start.get(..tag.len()).is_some_and(|at| at.eq_ignore_ascii_case(tag));
                if self.media.is_empty() && (says(b"<!doctype html") || says(b"<html")) {
                    PageKind::Html
                } else {
                    PageKind::Text
                }
            }
            _ => PageKind::Binary,
        }
    }

    /// The text in the character set that a mark at its beginning, the answer, or the page itself names.
    pub(super) fn decode(&self, html: bool) -> String {
        let named = self.charset.as_deref().and_then(|label| Encoding::for_label(label.as_bytes()));
        let within = || html.then(|| declared(&self.body)).flatten();
        let guess = || if str::from_utf8(&self.body).is_ok() { UTF_8 } else { WINDOWS_1252 };
        let encoding = named.or_else(within).unwrap_or_else(guess);
        encoding.decode(&self.body).0.into_owned()
    }
}

/// The character set that a page names in one of its first tags.
fn declared(body: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(body.get(..META).unwrap_or(body)).to_ascii_lowercase();
    let (_, value) = start.split_once("charset=")?;
    let value = value.trim_start_matches(['"', '\'', ' ']);
    let label = value.split(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c)).next()?;
    // A page that can say so in ASCII is not in UTF-16.
    Encoding::for_label(label.as_bytes())
        .map(|encoding| if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

/// A page as Markdown, its title first.
pub(super) fn markdown(html: &str, base: &Url) -> String {
    let (clean, title) = rewrite(html, base);
    let title = title.map(|title| tidy_title(&title)).filter(|title| !title.is_empty());
    let convert = move || {
        let options = Options {
            bullet_list_marker: BulletListMarker::Dash,
            hr_style: HrStyle::Dashes,
            ul_bullet_spacing: 1,
            ol_number_spacing: 1,
            ..Options::default()
        };
        HtmlToMarkdown::builder().options(options).build().convert(&clean)
    };
    // In a thread of its own, so that a fault of the converter costs the form of this page and no more.
    let converted =
        thread::Builder::new().stack_size(STACK).spawn(convert).ok().and_then(|thread| thread.join().ok());
    let text = match converted {
        Some(Ok(text)) => text,
        _ => plain_text(html).0,
    };
    match title {
        Some(title) if !text.starts_with(&format!("# {title}")) => format!("# {title}\n\n{text}"),
        _ => text,
    }
}

/// A page as text, its title first.
pub(super) fn plain(html: &str) -> String {
    let (text, title) = plain_text(html);
    match title.map(|title| tidy_title(&title)).filter(|title| !title.is_empty()) {
        Some(title) if !text.starts_with(&title) => format!("{title}\n\n{text}"),
        _ => text,
    }
}

fn tidy_title(title: &str) -> String {
    decode(title).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE).collect()
}

fn plain_text(html: &str) -> (String, Option<String>) {
    let mut text = String::new();
    let mut title = None;
    let mut pre = 0_usize;
    for token in MarkupTokens::new(html) {
        match token {
            MarkupToken::Title(words) => {
                title.get_or_insert_with(|| words.to_owned());
            }
            MarkupToken::Text(words) if pre > 0 => text.push_str(&decode(words)),
            MarkupToken::Text(words) => flow(&decode(words), &mut text),
            MarkupToken::Start(name, _) => {
                pre += usize::from(name == "pre");
                match name.as_str() {
                    "br" => text.push('\n'),
                    "li" => {
                        lines(&mut text, 1);
                        text.push_str("- ");
                    }
                    "td" | "th" => flow(" ", &mut text),
                    name => lines(&mut text, gap(name)),
                }
            }
            MarkupToken::End(name) => {
                pre = pre.saturating_sub(usize::from(name == "pre"));
                lines(&mut text, gap(&name));
            }
        }
    }
    let end = text.trim_end().len();
    text.truncate(end);
    (text, title)
}

/// Adds words, each white space one space.
fn flow(words: &str, text: &mut String) {
    if words.starts_with(|c: char| c.is_whitespace()) {
        space(text);
    }
    for (position, word) in words.split_whitespace().enumerate() {
        if position > 0 {
            space(text);
        }
        text.push_str(word);
    }
    if words.ends_with(|c: char| c.is_whitespace()) {
        space(text);
    }
}

fn space(text: &mut String) {
    if !text.is_empty() && !text.ends_with([' ', '\n']) {
        text.push(' ');
    }
}

/// Makes sure that so many line breaks end the text.
fn lines(text: &mut String, wanted: usize) {
    if wanted == 0 {
        return;
    }
    while text.ends_with(' ') {
        text.pop();
    }
    if text.is_empty() {
        return;
    }
    let there = text.bytes().rev().take(wanted).take_while(|byte| *byte == b'\n').count();
    for _ in there..wanted {
        text.push('\n');
    }
}

/// The line breaks around an element.
fn gap(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table" | "blockquote"
        | "pre" => 2,
        "div" | "section" | "article" | "main" | "nav" | "header" | "footer" | "aside" | "figure"
        | "figcaption" | "address" | "details" | "summary" | "form" | "fieldset" | "tr" | "li" | "dt"
        | "dd" | "hr" | "caption" | "body" => 1,
        _ => 0,
    }
}
