//! Texts and attachments as parts of a message or of a tool's output.
//!
//! One part that the provider does not take makes the whole conversation unusable, so whatever it has no word for is
//! named in a text instead.

use serde_json::{Value, json};

use crate::Content;
use crate::attachment::{AttachedFile, AttachmentKind, AttachmentSource};

/// One part. Nothing comes of an empty text.
pub(super) fn part(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) if text.trim().is_empty() => None,
        Content::Text(text) => Some(json!({"type": "input_text", "text": text})),
        Content::Media { mime, url, filename } => {
            Some(media(&AttachedFile::of(mime, url, filename.as_deref())))
        }
    }
}

fn media(attachment: &AttachedFile<'_>) -> Value {
    let image = |url: &str| json!({"type": "input_image", "image_url": url, "detail": "auto"});
    match (attachment.kind, &attachment.source) {
        (AttachmentKind::Image, AttachmentSource::Inline(data)) => image(&attachment.data_url(data)),
        (AttachmentKind::Image, AttachmentSource::Remote(url)) => image(url),
        (AttachmentKind::Pdf, AttachmentSource::Inline(data)) => {
            json!({"type": "input_file", "filename": attachment.name(), "file_data": attachment.data_url(data)})
        }
        (AttachmentKind::Pdf, AttachmentSource::Remote(url)) => {
            json!({"type": "input_file", "file_url": url})
        }
        _ => json!({"type": "input_text", "text": attachment.in_words()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments() {
        let check = |mime: &str, url: &str, expected: Value| {
            assert_eq!(media(&AttachedFile::of(mime, url, Some("f"))), expected, "{mime} {url}");
        };
        let text = |text: &str| json!({"type": "input_text", "text": text});
        let image = |url: &str| json!({"type": "input_image", "image_url": url, "detail": "auto"});
        check("image/png", "data:image/png;base64,AA", image("data:image/png;base64,AA"));
        check("image/png", "https://x/y.png", image("https://x/y.png"));
        check("image/png", "file:///y.png", text("[attachment f (image/png) cannot be reached]"));
        check("image/svg+xml", "data:image/svg+xml;base64,aGk=", text("[attachment f]\nhi"));
        check("text/plain", "data:text/plain;base64,aGk=", text("[attachment f]\nhi"));
        check("text/plain", "data:text/plain;base64,!", text("[attachment f could not be decoded]"));
        // These went out as pictures and files, and each locked its session.
        check("image/bmp", "data:image/bmp;base64,AA", text("[attachment f (image/bmp) cannot be shown]"));
        check("image/heic", "https://x/y", text("[attachment f (image/heic): https://x/y]"));
        check("application/zip", "data:;base64,AA", text("[attachment f (application/zip) cannot be shown]"));
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
        let file = media(&AttachedFile::of("application/pdf", "data:application/pdf;base64,AA", None));
        assert_eq!(file["filename"], "attachment.pdf");
    }
}
