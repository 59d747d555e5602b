//! What a person or a tool attached: what kind of content it is, and how it can be sent.
//!
//! One attachment that a provider does not take makes it refuse the whole conversation, and with it the session. So
//! each protocol sends the kinds that it knows and puts all others into words: text as it is, and for anything else a
//! line that names it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{GeneralPurposeConfig, STANDARD};

/// Reads base64 with or without its padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Media types that are text although they do not say so.
const TEXTS: &[&str] = &[
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/sql",
    "application/toml",
    "application/typescript",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// What kind of a thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachmentKind {
    /// It can be read as it is.
    Text,
    /// A picture of a kind that most models see: PNG, JPEG, GIF or WebP.
    Image,
    /// A PDF document.
    Pdf,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// Anything else.
    Other,
}

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttachmentSource<'a> {
    /// Here, in base64.
    Inline(Cow<'a, str>),
    /// At an address on the web.
    Remote(&'a str),
    /// At an address that others may know.
    Elsewhere(&'a str),
    /// Nowhere: what is here is damaged or empty.
    Lost(&'static str),
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachedFile<'a> {
    /// Its kind.
    pub(crate) kind: AttachmentKind,
    /// Its media type in small letters and without parameters.
    pub(crate) mime: String,
    /// Its name, if it has one.
    pub(crate) filename: Option<&'a str>,
    /// Where it is.
    pub(crate) source: AttachmentSource<'a>,
}

impl<'a> AttachedFile<'a> {
    /// The attachment of this type at this address.
    pub(crate) fn of(mime: &str, url: &'a str, filename: Option<&'a str>) -> Self {
        let (declared, source) = locate(url);
        let mime =
            [mime, declared].into_iter().map(essence).find(|mime| !mime.is_empty()).unwrap_or_default();
        // A name that many programs use, and most providers refuse.
        let mime = if mime == "image/jpg" { "image/jpeg".to_owned() } else { mime };
        Self { kind: AttachmentKind::of(&mime), mime, filename, source }
    }

    /// The same as a `data:` address.
    pub(crate) fn data_url(&self, data: &str) -> String {
        format!("data:{};base64,{data}", self.mime)
    }

    /// The name to speak of it.
    pub(crate) fn name(&self) -> &str {
        let otherwise = if self.kind == AttachmentKind::Pdf { "attachment.pdf" } else { "attachment" };
        self.filename.unwrap_or(otherwise)
    }

    /// What is said where it cannot be sent: its text, or else a line that names it.
    pub(crate) fn in_words(&self) -> String {
        let name = self.name();
        let which = if self.mime.is_empty() { name.to_owned() } else { format!("{name} ({})", self.mime) };
        match (&self.source, self.kind) {
            (AttachmentSource::Inline(data), AttachmentKind::Text) => match LENIENT.decode(data.as_bytes()) {
                Ok(bytes) => format!("[attachment {name}]\n{}", String::from_utf8_lossy(&bytes)),
                Err(_) => format!("[attachment {name} could not be decoded]"),
            },
            (AttachmentSource::Inline(_), _) => format!("[attachment {which} cannot be shown]"),
            (AttachmentSource::Remote(url), _) => format!("[attachment {which}: {url}]"),
            (AttachmentSource::Elsewhere(_), _) => format!("[attachment {which} cannot be reached]"),
            (AttachmentSource::Lost(why), _) => format!("[attachment {name} {why}]"),
        }
    }
}

impl AttachmentKind {
    fn of(mime: &str) -> Self {
        match mime {
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Self::Image,
            "application/pdf" => Self::Pdf,
            _ if mime.starts_with("audio/") => Self::Audio,
            _ if mime.starts_with("video/") => Self::Video,
            _ if mime.starts_with("text/") || TEXTS.contains(&mime) => Self::Text,
            _ if mime.ends_with("+json") || mime.ends_with("+xml") || mime.ends_with("+yaml") => Self::Text,
            _ => Self::Other,
        }
    }
}

/// A media type without its parameters.
fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or(mime).trim().to_ascii_lowercase()
}

/// The media type that an address declares, and what it leads to.
fn locate(url: &str) -> (&str, AttachmentSource<'_>) {
    let Some(rest) = url.strip_prefix("data:") else {
        let remote = url.starts_with("https://") || url.starts_with("http://");
        return ("", if remote { AttachmentSource::Remote(url) } else { AttachmentSource::Elsewhere(url) });
    };
    let (head, data) = rest.split_once(',').unwrap_or((rest, ""));
    let base64 = head.to_ascii_lowercase().ends_with(";base64");
    let declared = head.split(';').next().unwrap_or_default();
    let data = if base64 { plain_base64(data) } else { Some(Cow::Owned(STANDARD.encode(unescaped(data)))) };
    let source = match data {
        None => AttachmentSource::Lost("could not be decoded"),
        Some(data) if data.is_empty() => AttachmentSource::Lost("is empty"),
        Some(data) => AttachmentSource::Inline(data),
    };
    (declared, source)
}

/// Base64 without escapes and line breaks, if it is base64 at all.
fn plain_base64(data: &str) -> Option<Cow<'_, str>> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    if data.bytes().all(is_digit) {
        return Some(Cow::Borrowed(data));
    }
    let mut bytes = unescaped(data);
    bytes.retain(|byte| !byte.is_ascii_whitespace());
    let is_base64 = bytes.iter().all(|byte| is_digit(*byte));
    is_base64.then(|| String::from_utf8(bytes).ok().map(Cow::Owned))?
}

/// The bytes behind percent signs.
fn unescaped(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let check = |mime: &str, expected: AttachmentKind| {
            assert_eq!(AttachmentKind::of(&essence(mime)), expected, "{mime}");
        };
        check("image/png", AttachmentKind::Image);
        check("IMAGE/WebP", AttachmentKind::Image);
        check("image/svg+xml", AttachmentKind::Text);
        check("image/bmp", AttachmentKind::Other);
        check("image/heic", AttachmentKind::Other);
        check("application/pdf", AttachmentKind::Pdf);
        check("text/x-rust; charset=utf-8", AttachmentKind::Text);
        check("application/toml", AttachmentKind::Text);
        check("application/javascript", AttachmentKind::Text);
        check("audio/mpeg", AttachmentKind::Audio);
        check("video/mp4", AttachmentKind::Video);
        check("application/zip", AttachmentKind::Other);
        check("", AttachmentKind::Other);
    }

    #[test]
    fn sources() {
        let check = |url: &str, mime: &str, expected: AttachmentSource<'_>| {
            let attachment = AttachedFile::of("", url, None);
            assert_eq!((attachment.mime.as_str(), attachment.source), (mime, expected), "{url}");
        };
        let inline = |data: &'static str| AttachmentSource::Inline(Cow::Borrowed(data));
        check("data:image/png;base64,AA==", "image/png", inline("AA=="));
        check("data:image/jpg;x=y;BASE64,AA", "image/jpeg", inline("AA"));
        // A provider does not take escaped or wrapped text for base64.
        check("data:image/png;base64,AA%3D%3D", "image/png", inline("AA=="));
        check("data:image/png;base64,AA\n==", "image/png", inline("AA=="));
        check("data:text/plain,a%20b%", "text/plain", inline("YSBiJQ=="));
        check("data:,hi", "", inline("aGk="));
        check("data:image/png;base64,?", "image/png", AttachmentSource::Lost("could not be decoded"));
        check("data:image/png;base64,", "image/png", AttachmentSource::Lost("is empty"));
        check("data:", "", AttachmentSource::Lost("is empty"));
        check("https://x/y", "", AttachmentSource::Remote("https://x/y"));
        check("gs://x/y", "", AttachmentSource::Elsewhere("gs://x/y"));
    }

    #[test]
    fn words() {
        let check = |mime: &str, url: &str, expected: &str| {
            assert_eq!(AttachedFile::of(mime, url, Some("f")).in_words(), expected, "{mime} {url}");
        };
        check("text/plain", "data:text/plain;base64,aGk=", "[attachment f]\nhi");
        check("text/plain", "data:text/plain;base64,aGk", "[attachment f]\nhi");
        check("text/plain", "data:text/plain,a%20b", "[attachment f]\na b");
        check("image/svg+xml", "data:image/svg+xml,%3Csvg/%3E", "[attachment f]\n<svg/>");
        check("text/plain", "data:text/plain;base64,a", "[attachment f could not be decoded]");
        check("text/plain", "data:text/plain;base64,?", "[attachment f could not be decoded]");
        check("application/zip", "data:;base64,AA", "[attachment f (application/zip) cannot be shown]");
        check("", "data:;base64,AA", "[attachment f cannot be shown]");
        check("image/png", "data:image/png;base64,", "[attachment f is empty]");
        check("text/plain", "https://x/y", "[attachment f (text/plain): https://x/y]");
        check("image/png", "file:///x", "[attachment f (image/png) cannot be reached]");
        let nameless = AttachedFile::of("application/pdf", "https://x/y", None);
        assert_eq!(nameless.in_words(), "[attachment attachment.pdf (application/pdf): https://x/y]");
    }
}
