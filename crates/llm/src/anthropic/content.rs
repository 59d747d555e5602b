//! What a person or a tool shows, as content blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Content;

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
        Content::Media { mime, url, filename } => Some(media(mime, url, filename.as_deref())),
    }
}

fn media(mime: &str, url: &str, filename: Option<&str>) -> Value {
    let name = filename.unwrap_or("attachment");
    let mime = mime.split(';').next().unwrap_or(mime).trim().to_lowercase();
    let encoded =
        url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")).map(|(_, data)| data);
    let remote = url.starts_with("https://") || url.starts_with("http://");
    let source = match encoded {
        Some(data) => Some((data, "base64")),
        None => remote.then_some((url, "url")),
    };
    match (mime.as_str(), source) {
        ("image/png" | "image/jpeg" | "image/gif" | "image/webp", Some(source)) => {
            json!({"type": "image", "source": source_of(source, &mime)})
        }
        ("image/jpg", Some(source)) => json!({"type": "image", "source": source_of(source, "image/jpeg")}),
        ("application/pdf", Some(source)) => {
            let mut document = json!({"type": "document", "source": source_of(source, &mime)});
            if let (Some(title), Some(fields)) = (filename, document.as_object_mut()) {
                fields.insert("title".into(), json!(title));
            }
            document
        }
        (_, Some((data, "base64"))) if is_text(&mime) => text(&decoded(name, data)),
        // The protocol has no block for such a file; the model shall at least know of it.
        (_, Some((address, "url"))) => text(&format!("[attachment {name} ({mime}): {address}]")),
        _ => text(&format!("[attachment {name} ({mime}) cannot be shown]")),
    }
}

fn source_of((data, kind): (&str, &str), mime: &str) -> Value {
    match kind {
        "base64" => json!({"type": "base64", "media_type": mime, "data": data}),
        _ => json!({"type": "url", "url": data}),
    }
}

/// Whether a file of this type can be read as it is.
fn is_text(mime: &str) -> bool {
    let known = ["application/json", "application/xml", "application/javascript", "application/yaml"];
    mime.starts_with("text/") || mime.ends_with("+json") || mime.ends_with("+xml") || known.contains(&mime)
}

fn decoded(name: &str, data: &str) -> String {
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
        check("image/png", "data:image/png,AA", text("[attachment f (image/png) cannot be shown]"));
        check("text/plain", "https://x/y", text("[attachment f (text/plain): https://x/y]"));
        check("image/png", "file:///x", text("[attachment f (image/png) cannot be shown]"));
    }

    #[test]
    fn blank_text_is_left_out() {
        let contents = [Content::Text(" \n".into()), Content::Text("a".into())];
        assert_eq!(blocks(&contents), [text("a")]);
    }
}
