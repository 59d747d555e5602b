//! `data:` addresses, which hold what they lead to.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::{Encoding, UTF_8};
use everturn_model::part::PartKind;

use crate::attachments;

/// Reads base64 with or without its padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why there is nothing to be had from such an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum DataUrlError {
    /// Nothing comes after its head.
    #[error("there is no data in its address")]
    NoData,
    /// It says that it is base64, and is not.
    #[error("its base64 is damaged")]
    Base64,
    /// Its text is in a character set that is none.
    #[error("there is no character set {0}")]
    Charset(String),
}

/// Whether an address is one.
pub(crate) fn is_one(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("data"))
}

/// What the model is told of a text that an address holds.
pub(crate) fn words(filename: Option<&str>, url: &str) -> String {
    match text(url) {
        Ok(text) => format!("Attached file {}:\n{}", name(filename), attachments::cut(text, "file")),
        Err(error) => unreadable(filename, &error),
    }
}

/// Says why there is nothing to be had from a file whose address holds it.
///
/// # Errors
/// When that is so.
pub(crate) fn check(kind: &PartKind) -> Result<(), String> {
    let PartKind::File { mime, filename, url, .. } = kind else { return Ok(()) };
    let read = if mime.starts_with("text/") { text(url).map(drop) } else { bytes(url).map(drop) };
    read.map_err(|error| unreadable(filename.as_deref(), &error))
}

fn name(filename: Option<&str>) -> &str {
    filename.unwrap_or("attachment")
}

fn unreadable(filename: Option<&str>, error: &DataUrlError) -> String {
    format!("Attached file {} could not be read: {error}.", name(filename))
}

fn text(url: &str) -> Result<String, DataUrlError> {
    let (head, bytes) = bytes(url)?;
    let charset = head.split(';').skip(1).filter_map(|field| field.split_once('='));
    let charset = charset.filter(|(key, _)| key.trim().eq_ignore_ascii_case("charset"));
    let encoding = match charset.map(|(_, label)| label.trim().trim_matches('"')).next() {
        None => UTF_8,
        Some(label) => {
            Encoding::for_label(label.as_bytes()).ok_or_else(|| DataUrlError::Charset(label.to_owned()))?
        }
    };
    // Some providers refuse the whole conversation for a NUL.
    Ok(encoding.decode(&bytes).0.replace('\0', "\u{fffd}"))
}

/// The head of an address and what it holds.
fn bytes(url: &str) -> Result<(&str, Vec<u8>), DataUrlError> {
    let rest = url.split_once(':').map_or(url, |(_, rest)| rest);
    let (head, data) = rest.split_once(',').ok_or(DataUrlError::NoData)?;
    let mut bytes: Vec<u8> = percent_encoding::percent_decode_str(data).collect();
    if head.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64")) {
        bytes.retain(|byte| !byte.is_ascii_whitespace());
        bytes = LENIENT.decode(bytes).map_err(|_| DataUrlError::Base64)?;
    }
    Ok((head, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Result<&str, DataUrlError>) {
        assert_eq!(text(url), expected.map(str::to_owned), "{url}");
    }

    #[test]
    fn text_is_decoded() {
        check("data:text/plain,plain", Ok("plain"));
        check("data:text/plain,a%20b%0Ac%C3%A9,100%", Ok("a b\ncé,100%"));
        check("data:text/plain;base64,aGk=", Ok("hi"));
        // Without its padding, escaped or in lines it was dropped in silence.
        check("data:text/plain;base64,aGk", Ok("hi"));
        check("data:text/plain;base64,aGk%3D", Ok("hi"));
        check("data:text/plain;BASE64,aG\nk=", Ok("hi"));
        check("data:text/plain;base64,", Ok(""));
        check("data:,", Ok(""));
        check("data:text/plain,a%00b", Ok("a\u{fffd}b"));
    }

    #[test]
    fn text_is_in_its_character_set() {
        check("data:text/plain;charset=utf-8,%C3%A9", Ok("é"));
        check("data:text/plain;charset=iso-8859-1,%E9", Ok("é"));
        check("data:text/plain;Charset=\"ISO-8859-15\";base64,pA==", Ok("€"));
        check("data:text/plain;charset=utf-16le;base64,6QA=", Ok("é"));
        check("data:text/plain,%E9", Ok("\u{fffd}"));
        check("data:text/plain;charset=klingon,x", Err(DataUrlError::Charset("klingon".to_owned())));
    }

    #[test]
    fn what_is_damaged_is_named() {
        check("data:text/plain", Err(DataUrlError::NoData));
        check("data:text/plain;base64,a", Err(DataUrlError::Base64));
        check("data:text/plain;base64,?", Err(DataUrlError::Base64));
        let damaged = words(Some("a.txt"), "data:text/plain;base64,?");
        assert_eq!(damaged, "Attached file a.txt could not be read: its base64 is damaged.");
        assert_eq!(words(None, "data:,hi"), "Attached file attachment:\nhi");
    }
}
