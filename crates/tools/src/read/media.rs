//! Files that the model looks at rather than reads: images and PDF documents, as attachments.
//!
//! What a file is, its first bytes say; its name may say anything. The limits are those of the providers: a
//! larger file would fail the whole request, so it is refused here, with a way out.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, json};

use crate::tool::{Attachment, Failure, Output};

/// The largest image: 5 MiB as base64.
const IMAGE_MAX: u64 = 5 * 1024 * 1024 / 4 * 3;
/// The largest document.
const PDF_MAX: u64 = 20 * 1024 * 1024;

/// Something that can be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Png,
    Jpeg,
    Gif,
    Webp,
    Pdf,
}

impl Media {
    /// What a file that begins with these bytes is.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if start.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
            Some(Self::Webp)
        } else if start.starts_with(b"%PDF-") {
            Some(Self::Pdf)
        } else {
            None
        }
    }

    fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// What it is called, the most bytes it may have, and what to do about more.
    fn limit(self) -> (&'static str, u64, &'static str) {
        match self {
            Self::Pdf => (
                "a PDF document",
                PDF_MAX,
                "Use `bash` to take out the pages that matter (for example `qpdf --pages`) or its text (`pdftotext`), \
                 and read the result.",
            ),
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp => (
                "an image",
                IMAGE_MAX,
                "Use `bash` to make a smaller copy (for example `magick in.png -resize 2000x2000 out.jpg`), and read \
                 that.",
            ),
        }
    }

    /// The file as an attachment, with its bytes, for those who compare them later.
    pub(super) fn attach(
        self,
        path: &Path,
        file: File,
        meta: &Metadata,
        title: String,
    ) -> Result<(Output, Vec<u8>), Failure> {
        let (what, most, advice) = self.limit();
        let mut bytes = Vec::new();
        if meta.len() <= most {
            let read = file.take(most + 1).read_to_end(&mut bytes);
            read.map_err(|error| Failure::io("read", path, &error))?;
        }
        let size = meta.len().max(bytes.len() as u64);
        if size > most {
            return Err(Failure::Failed(format!(
                "{} is {what} of {size} bytes; at most {most} can be attached. {advice}",
                path.display(),
            )));
        }
        let mime = self.mime();
        let text = match self {
            Self::Pdf => format!("PDF attached ({size} bytes)."),
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp => {
                format!("Image attached ({mime}, {size} bytes).")
            }
        };
        let mut metadata = Map::new();
        metadata.insert("preview".to_owned(), json!(text));
        metadata.insert("truncated".to_owned(), json!(false));
        metadata.insert("loaded".to_owned(), json!([]));
        let attachment = Attachment {
            mime: mime.to_owned(),
            url: format!("data:{mime};base64,{}", STANDARD.encode(&bytes)),
            filename: path.file_name().map(|name| name.to_string_lossy().into_owned()),
        };
        let attachments = vec![attachment];
        Ok((Output { title, output: text, metadata, shaped: true, attachments, ..Output::default() }, bytes))
    }
}
