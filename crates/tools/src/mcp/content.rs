//! What servers give back: texts, media and resources, and what a call's result becomes for the model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::tool::{Attachment, Failure, Output};

/// The largest file that is attached, in bytes.
const FILE_MAX: usize = 10 * 1024 * 1024;

/// The most parts of one result that are looked at.
const PARTS_MAX: usize = 1000;

/// What stands for a result without content.
const NOTHING: &str = "(The tool gave nothing back.)";

/// One part of a result or a message.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpContent {
    /// A text.
    Text {
        /// It.
        text: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Its bytes as base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// A sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Its bytes as base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// A resource, whole.
    Resource {
        /// It.
        resource: EmbeddedResource,
    },
    /// A resource that can be asked for.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// Its address.
        uri: String,
        /// Its name.
        #[serde(default)]
        name: String,
        /// What it is.
        #[serde(default)]
        description: Option<String>,
    },
    /// Something of a later revision.
    #[serde(other)]
    Other,
}

/// A resource with what is in it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedResource {
    /// Its address.
    pub uri: String,
    /// Its media type.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// What is in it, if that is a text.
    #[serde(default)]
    pub text: Option<String>,
    /// What is in it as base64, if it is not.
    #[serde(default)]
    pub blob: Option<String>,
}

/// The result of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallResult {
    #[serde(default)]
    content: Vec<Box<RawValue>>,
    #[serde(default)]
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
}

impl CallResult {
    /// The result as the model gets it.
    pub(super) fn output(self, title: String) -> Result<Output, Failure> {
        let mut gathered = GatheredContent::default();
        for part in self.content.iter().take(PARTS_MAX) {
            match serde_json::from_str(part.get()) {
                Ok(content) => gathered.take(content),
                Err(_) => gathered.note("a part that is not as the protocol says"),
            }
        }
        if self.content.len() > PARTS_MAX {
            gathered.note(&format!("{} more parts", self.content.len() - PARTS_MAX));
        }
        let GatheredContent { mut texts, attachments } = gathered;
        if texts.is_empty() && attachments.is_empty() {
            texts.extend(self.structured_content.map(|structured| structured.get().to_owned()));
        }
        let mut text = texts.join("\n");
        // What no terminal, database or provider wants within a text.
        text.retain(|letter| letter != '\0');
        if self.is_error {
            let nothing = || "The tool failed and did not say why.".to_owned();
            return Err(Failure::Failed(if text.is_empty() { nothing() } else { text }));
        }
        if text.is_empty() && attachments.is_empty() {
            NOTHING.clone_into(&mut text);
        }
        let mut metadata = Map::new();
        metadata.insert("truncated".to_owned(), json!(false));
        Ok(Output { title, output: text, metadata, attachments, ..Output::default() })
    }
}

/// What a resource holds, as a person's prompt brings it to the model: texts, and files beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceContent {
    /// The texts, one after the other, with a word about what was left out.
    pub text: String,
    /// The files.
    pub files: Vec<Attachment>,
}

impl ResourceContent {
    pub(super) fn new(contents: Vec<EmbeddedResource>) -> Self {
        let mut gathered = GatheredContent::default();
        let count = contents.len();
        for resource in contents.into_iter().take(PARTS_MAX) {
            gathered.take(McpContent::Resource { resource });
        }
        if count > PARTS_MAX {
            gathered.note(&format!("{} more parts", count - PARTS_MAX));
        }
        Self { text: gathered.texts.join("\n\n"), files: gathered.attachments }
    }
}

#[derive(Debug, Default)]
struct GatheredContent {
    texts: Vec<String>,
    attachments: Vec<Attachment>,
}

impl GatheredContent {
    fn take(&mut self, content: McpContent) {
        match content {
            McpContent::Text { text } => self.texts.push(text),
            McpContent::Image { data, mime_type } | McpContent::Audio { data, mime_type } => {
                self.attach(&data, &mime_type, None);
            }
            McpContent::Resource { resource: EmbeddedResource { text: Some(text), .. } } => {
                self.texts.push(text);
            }
            McpContent::Resource { resource } => {
                let mime = resource.mime_type.as_deref().unwrap_or("application/octet-stream");
                self.attach(resource.blob.as_deref().unwrap_or_default(), mime, file_name(&resource.uri));
            }
            McpContent::ResourceLink { uri, name, description } => {
                let description = description.map(|text| format!(": {text}")).unwrap_or_default();
                self.texts.push(format!("[resource {name} at {uri}{description}]"));
            }
            McpContent::Other => self.note("a part of an unknown kind"),
        }
    }

    fn attach(&mut self, data: &str, mime: &str, filename: Option<String>) {
        if !is_media_type(mime) {
            return self.note("a file without a proper media type");
        }
        match STANDARD.decode(data) {
            Ok(bytes) if bytes.len() <= FILE_MAX => {
                let url = format!("data:{mime};base64,{data}");
                self.attachments.push(Attachment { mime: mime.to_owned(), url, filename });
            }
            Ok(bytes) => self.note(&format!("{mime} of {} bytes, which is too large", bytes.len())),
            Err(_) => self.note(&format!("{mime} that is not base64")),
        }
    }

    /// Says that something was left out.
    fn note(&mut self, what: &str) {
        self.texts.push(format!("(left out: {what})"));
    }
}

fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    text.len() <= 255 && text.split_once('/').is_some_and(|(kind, sort)| token(kind) && token(sort))
}

/// The last part of an address, where it can be the name of a file.
fn file_name(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next()?;
    let name = path.rsplit('/').next()?;
    let fine = |name: &&str| !name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control);
    Some(name).filter(fine).map(str::to_owned)
}

/// A schema that takes anything, for tools that say nothing or too much about their arguments.
pub(super) fn open_schema() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, and the media types and addresses of files.
    type Seen<'a> = (&'a str, &'a [(&'a str, &'a str)]);

    fn check(result: &Value, expected: Result<Seen<'_>, &str>) {
        let answered: CallResult = serde_json::from_value(result.clone()).unwrap();
        let outcome = answered.output("t".to_owned());
        let seen = match &outcome {
            Ok(output) => {
                let files = output.attachments.iter().map(|file| (file.mime.as_str(), file.url.as_str()));
                Ok((output.output.as_str(), files.collect::<Vec<_>>()))
            }
            Err(failure) => Err(failure.to_string()),
        };
        let expected = expected.map(|(text, files)| (text, files.to_vec())).map_err(str::to_owned);
        assert_eq!(seen, expected, "{result}");
    }

    #[test]
    fn results_become_outputs() {
        let text = |text: &str| json!({"type": "text", "text": text});
        check(&json!({"content": [text("a"), text("b\u{0}c")]}), Ok(("a\nbc", &[])));
        check(&json!({}), Ok((NOTHING, &[])));
        check(&json!({"content": [], "structuredContent": {"a": [1]}}), Ok((r#"{"a":[1]}"#, &[])));
        check(&json!({"content": [text("a")], "structuredContent": {"a": [1]}}), Ok(("a", &[])));
        check(&json!({"content": [text("no")], "isError": true}), Err("no"));
        check(&json!({"isError": true}), Err("The tool failed and did not say why."));
        check(
            &json!({"content": [{"type": "image", "data": "AAEC", "mimeType": "image/png"},
                {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "x://a/b.bin?q", "blob": "AAEC"}},
                {"type": "resource", "resource": {"uri": "x://a", "text": "inside"}},
                {"type": "resource_link", "uri": "x://b", "name": "b"}]}),
            Ok((
                "inside\n[resource b at x://b]",
                &[
                    ("image/png", "data:image/png;base64,AAEC"),
                    ("audio/wav", "data:audio/wav;base64,AAEC"),
                    ("application/octet-stream", "data:application/octet-stream;base64,AAEC"),
                ],
            )),
        );
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        check(
            &json!({"content": [{"type": "image", "data": "no base64!", "mimeType": "image/png"},
                {"type": "image", "data": "AAEC", "mimeType": "image/png;x=\"\n"}, {"type": "image"},
                {"type": "hologram", "data": 7}, 3]}),
            Ok((
                "(left out: image/png that is not base64)\n(left out: a file without a proper media type)\n\
                 (left out: a part that is not as the protocol says)\n(left out: a part of an unknown kind)\n\
                 (left out: a part that is not as the protocol says)",
                &[],
            )),
        );
        let large = STANDARD.encode(vec![0; FILE_MAX + 1]);
        let image = json!({"type": "image", "data": large, "mimeType": "image/png"});
        check(
            &json!({"content": [image]}),
            Ok(("(left out: image/png of 10485761 bytes, which is too large)", &[])),
        );
    }

    #[test]
    fn file_names() {
        assert_eq!(file_name("demo://a/b.txt?x#y").as_deref(), Some("b.txt"));
        assert_eq!(file_name("demo://a/"), None);
    }
}
