//! Texts and attachments as parts of a message or of a tool's output.
//!
//! One part that the provider does not take makes the whole conversation unusable, so whatever it has no word for is
//! named in a text instead.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Content;

/// One part. Nothing comes of an empty text.
pub(super) fn part(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) if text.trim().is_empty() => None,
        Content::Text(text) => Some(json!({"type": "input_text", "text": text})),
        Content::Media { mime, url, filename } => Some(media(mime, url, filename.as_deref())),
    }
}

fn media(mime: &str, url: &str, filename: Option<&str>) -> Value {
    let name = filename.unwrap_or(if mime == "application/pdf" { "attachment.pdf" } else { "attachment" });
    let encoded = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let remote = url.starts_with("https://") || url.starts_with("http://");
    match encoded {
        Some((_, data)) if is_text(mime) => json!({"type": "input_text", "text": plain_text(name, data)}),
        _ if mime.starts_with("image/") && (remote || encoded.is_some()) => {
            json!({"type": "input_image", "image_url": url, "detail": "auto"})
        }
        // There is no part for sound or moving pictures, and as files they are refused.
        _ if mime.starts_with("audio/") || mime.starts_with("video/") => {
            json!({"type": "input_text", "text": format!("[attachment {name} ({mime}) cannot be shown]")})
        }
        Some(_) => json!({"type": "input_file", "filename": name, "file_data": url}),
        None if remote => json!({"type": "input_file", "file_url": url}),
        None => json!({"type": "input_text", "text": format!("[attachment {name} ({mime}): {url}]")}),
    }
}

/// Whether a file is best read as it is.
fn is_text(mime: &str) -> bool {
    let plain = ["application/json", "application/xml", "application/yaml", "application/toml"];
    mime.starts_with("text/") || plain.contains(&mime) || mime.ends_with("+json") || mime.ends_with("+xml")
}

fn plain_text(name: &str, data: &str) -> String {
    match STANDARD.decode(data) {
        Ok(bytes) => format!("[attachment {name}]\n{}", String::from_utf8_lossy(&bytes)),
        Err(_) => format!("[attachment {name} could not be decoded]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments() {
        let check = |mime: &str, url: &str, expected: Value| {
            assert_eq!(media(mime, url, Some("f")), expected, "{mime} {url}");
        };
        let text = |text: &str| json!({"type": "input_text", "text": text});
        let image = |url: &str| json!({"type": "input_image", "image_url": url, "detail": "auto"});
        check("image/png", "data:image/png;base64,AA", image("data:image/png;base64,AA"));
        check("image/png", "https://x/y.png", image("https://x/y.png"));
        check("image/png", "file:///y.png", text("[attachment f (image/png): file:///y.png]"));
        check("image/svg+xml", "data:image/svg+xml;base64,aGk=", text("[attachment f]\nhi"));
        check("text/plain", "data:text/plain;base64,aGk=", text("[attachment f]\nhi"));
        check("text/plain", "data:text/plain;base64,!", text("[attachment f could not be decoded]"));
        check("audio/mpeg", "data:audio/mpeg;base64,AA", text("[attachment f (audio/mpeg) cannot be shown]"));
        check(
            "application/pdf",
            "data:application/pdf;base64,AA",
            json!({"type": "input_file", "filename": "f", "file_data": "data:application/pdf;base64,AA"}),
        );
        check("application/pdf", "https://x/y", json!({"type": "input_file", "file_url": "https://x/y"}));
    }

    #[test]
    fn a_document_without_a_name_still_ends_in_its_kind() {
        let file = media("application/pdf", "data:application/pdf;base64,AA", None);
        assert_eq!(file["filename"], "attachment.pdf");
    }
}
