//! What a person or a tool shows, as content blocks.

use serde_json::{Value, json};

use crate::Content;
use crate::attachment::{AttachedFile, AttachmentKind, AttachmentSource};

/// The blocks for these contents. Blank text is left out: it is refused.
pub(super) fn blocks(contents: &[Content]) -> Vec<Value> {
    contents.iter().filter_map(block).collect()
}

/// A text block.
pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn block(content: &Content) -> Option<Value> {
    match content {
        Content::Text(said) => (!said.trim().is_empty()).then(|| text(said)),
        Content::Media { mime, url, filename } => {
            Some(media(&AttachedFile::of(mime, url, filename.as_deref())))
        }
    }
}

fn media(attachment: &AttachedFile<'_>) -> Value {
    let source = match &attachment.source {
        AttachmentSource::Inline(data) => {
            json!({"type": "base64", "media_type": attachment.mime, "data": data})
        }
        AttachmentSource::Remote(url) => json!({"type": "url", "url": url}),
        AttachmentSource::Elsewhere(_) | AttachmentSource::Lost(_) => return text(&attachment.in_words()),
    };
    match attachment.kind {
        AttachmentKind::Image => json!({"type": "image", "source": source}),
        AttachmentKind::Pdf => {
            let mut document = json!({"type": "document", "source": source});
            if let (Some(title), Some(fields)) = (attachment.filename, document.as_object_mut()) {
                fields.insert("title".into(), json!(title));
            }
            document
        }
        AttachmentKind::Text | AttachmentKind::Audio | AttachmentKind::Video | AttachmentKind::Other => {
            text(&attachment.in_words())
        }
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
        let base64 = |mime: &str| json!({"type": "base64", "media_type": mime, "data": "AA"});
        let image = |source: Value| json!({"type": "image", "source": source});
        check("image/png", "data:image/png;base64,AA", image(base64("image/png")));
        check("image/jpg", "data:image/jpg;base64,AA", image(base64("image/jpeg")));
        check("image/webp", "https://x/y", image(json!({"type": "url", "url": "https://x/y"})));
        check(
            "application/pdf",
            "data:application/pdf;base64,AA",
            json!({"type": "document", "source": base64("application/pdf"), "title": "f"}),
        );
        check(
            "application/pdf",
            "https://x/y",
            json!({"type": "document", "source": {"type": "url", "url": "https://x/y"}, "title": "f"}),
        );
        check("text/plain; charset=utf-8", "data:text/plain;base64,aGk=", text("[attachment f]\nhi"));
        check("image/svg+xml", "data:image/svg+xml;base64,aGk=", text("[attachment f]\nhi"));
        check("text/plain", "data:text/plain;base64,?", text("[attachment f could not be decoded]"));
        check("image/bmp", "data:image/bmp;base64,AA", text("[attachment f (image/bmp) cannot be shown]"));
        let escaped = json!({"type": "base64", "media_type": "image/png", "data": "QUE="});
        check("image/png", "data:image/png,A%41", image(escaped));
        check("text/plain", "https://x/y", text("[attachment f (text/plain): https://x/y]"));
        check("image/png", "file:///x", text("[attachment f (image/png) cannot be reached]"));
    }

    #[test]
    fn blank_text_is_left_out() {
        let contents = [Content::Text(" \n".into()), Content::Text("a".into())];
        assert_eq!(blocks(&contents), [text("a")]);
    }
}
