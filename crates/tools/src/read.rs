//! The `read` tool: a page of a text file, a folder's entries, an image or a document.
//!
//! A file is streamed, so that a page of a huge one costs little memory, and read to its end, because the page says
//! how many lines there are and the session remembers what the whole file was like. Text is shown without a byte
//! order mark and without carriage returns: `edit` accepts it back in that form.

mod media;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::folder::OpenFolder;
use crate::input::{decode, schema};
use crate::regular_file::{self, Fingerprint, SpecialFile};
use crate::scope::{PathAccess, Scope};
use crate::target::Target;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::write::{BOM, blocking, hex};
use media::Media;

/// Lines, or folder entries, on a page unless the call asks for fewer: a result with more would be cut in its middle.
const LINES: usize = 2000;
/// Characters shown of one line.
const LINE_CHARS: usize = 2000;
/// Bytes of text on one page.
const PAGE_BYTES: usize = 50 * 1024;
/// Lines in the preview that clients show.
const PREVIEW_LINES: usize = 20;
/// How much of a file decides whether it is text.
const SAMPLE: u64 = 8 * 1024;
/// Names suggested for a file that does not exist.
const SUGGESTIONS: usize = 3;

/// The tool that reads files and folders.
#[derive(Debug, Clone, Copy)]
pub struct ReadTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ReadInput {
    /// The file or folder, as an absolute path
    file_path: String,
    /// The first line to show, counted from 1
    #[schemars(range(min = 1))]
    #[serde(default)]
    offset: Option<usize>,
    /// How many lines to show (default and most: 2000)
    #[schemars(range(min = 1, max = LINES))]
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for ReadTool {
    fn name(&self) -> &'static str {
        "read"
    }

    fn description(&self) -> &'static str {
        "Reads a file or lists a folder. Text comes with line numbers, up to 2000 lines or 50 KiB at a time; \
         use `offset` and `limit` for the rest of a long file. PNG, JPEG, GIF and WebP images and PDF documents are \
         attached; other binary files are refused. In a folder's list, names of folders end with a slash."
    }

    fn schema(&self) -> Value {
        schema::<ReadInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: ReadInput = decode(self.name(), input.clone())?;
        let target = scope.target(&input.file_path, PathAccess::Read)?;
        let (external, patterns) = scope.demands(&target, PathAccess::Read);
        let read = Need {
            permission: "read".to_owned(),
            patterns,
            always: vec!["*".to_owned()],
            metadata: Map::new(),
        };
        Ok(external.into_iter().chain([read]).collect())
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: ReadInput = decode(self.name(), input)?;
            blocking(move || act(&input, &context)).await
        })
    }
}

fn act(input: &ReadInput, context: &Context) -> Result<Output, Failure> {
    if context.cancel.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    let target = context.target(&input.file_path, PathAccess::Read)?;
    let path = target.path();
    let window = ReadWindow {
        first: input.offset.unwrap_or(1).max(1),
        limit: input.limit.unwrap_or(LINES).clamp(1, LINES),
    };
    let title = context.scope.relative(path);
    let (mut file, meta) = match target.open() {
        Ok(opened) => opened,
        Err(regular_file::OpenError::Special(SpecialFile::Folder)) => return folder(&target, title, window),
        Err(error) if error.is_absent() => {
            context.seen.forget(target.real());
            return Err(absent(&target));
        }
        Err(error) => return Err(error.failure("read", path)),
    };
    let fail = |error: io::Error| Failure::io("read", path, &error);
    let mut sample = Vec::new();
    (&mut file).take(SAMPLE).read_to_end(&mut sample).and_then(|_| file.rewind()).map_err(fail)?;
    if let Some(media) = Media::of(&sample) {
        let (output, bytes) = media.attach(path, file, &meta, title)?;
        context.seen.record(target.real(), hex(&bytes));
        return Ok(output);
    }
    if binary(&sample) {
        return Err(Failure::Failed(format!(
            "{} is a binary file and is not shown. Use `bash` to look into it, for example with `file` or `xxd`.",
            path.display()
        )));
    }
    let mut print = Fingerprint::new(&meta);
    let page = ReadPage::scan(path, file, window, context, &mut print)?;
    if page.total < window.first && window.first > 1 {
        return Err(Failure::Failed(format!(
            "Line {} is past the end of the file, which has {} lines.",
            window.first, page.total
        )));
    }
    context.seen.record(target.real(), print.finish());
    Ok(page.output(path, title))
}

/// The part of a file or folder that was asked for.
#[derive(Debug, Clone, Copy)]
struct ReadWindow {
    first: usize,
    limit: usize,
}

/// The lines of one page, and what lies behind it.
#[derive(Debug, Default)]
struct ReadPage {
    first: usize,
    lines: Vec<String>,
    bytes: usize,
    full: bool,
    total: usize,
}

impl ReadPage {
    fn scan(
        path: &Path,
        file: File,
        window: ReadWindow,
        context: &Context,
        print: &mut Fingerprint,
    ) -> Result<Self, Failure> {
        let fail = |error: io::Error| Failure::io("read", path, &error);
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let mut page = Self { first: window.first, ..Self::default() };
        // Enough bytes for the characters shown, so that one endless line does not fill the memory.
        let line_bytes = LINE_CHARS * 4 + 4;
        let mut line = Vec::new();
        let mut open = false;
        loop {
            if context.cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            let block = reader.fill_buf().map_err(fail)?;
            if block.is_empty() {
                break;
            }
            print.update(block);
            for piece in block.split_inclusive(|byte| *byte == b'\n') {
                let text = piece.strip_suffix(b"\n").unwrap_or(piece);
                let room = line_bytes.saturating_sub(line.len()).min(text.len());
                line.extend_from_slice(text.get(..room).unwrap_or_default());
                open = text.len() == piece.len();
                if !open {
                    page.push(&line, window);
                    line.clear();
                }
            }
            let used = block.len();
            reader.consume(used);
        }
        if open {
            page.push(&line, window);
        }
        Ok(page)
    }

    fn push(&mut self, line: &[u8], window: ReadWindow) {
        self.total += 1;
        if self.total < window.first || self.full {
            return;
        }
        if self.lines.len() >= window.limit {
            self.full = true;
            return;
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let text = if self.total == 1 { text.strip_prefix(BOM).unwrap_or(&text) } else { &text };
        let shown = match text.char_indices().nth(LINE_CHARS) {
            Some((end, _)) => {
                format!("{}... (line cut at {LINE_CHARS} characters)", text.get(..end).unwrap_or_default())
            }
            None => text.to_owned(),
        };
        if self.bytes + shown.len() + 1 > PAGE_BYTES {
            self.full = true;
            return;
        }
        self.bytes += shown.len() + 1;
        self.lines.push(shown);
    }

    fn output(self, path: &Path, title: String) -> Output {
        let file = path.display().to_string();
        let last = self.first + self.lines.len() - usize::from(!self.lines.is_empty());
        let end = if self.lines.is_empty() { 0 } else { last };
        let mut output = format!("<path>{file}</path>\n<type>file</type>\n<content>\n");
        for (number, line) in (self.first..).zip(&self.lines) {
            output.push_str(&format!("{number}: {line}\n"));
        }
        if self.full {
            output.push_str(&format!(
                "\n(Lines {}-{end} of {}; go on with offset={})",
                self.first,
                self.total,
                end + 1
            ));
        } else {
            output.push_str(&format!("\n(End of file - total {} lines)", self.total));
        }
        output.push_str("\n</content>");
        let preview: Vec<&str> = self.lines.iter().take(PREVIEW_LINES).map(String::as_str).collect();
        let mut metadata = Map::new();
        metadata.insert("preview".to_owned(), json!(preview.join("\n")));
        metadata.insert("truncated".to_owned(), json!(self.full));
        metadata.insert("loaded".to_owned(), json!([]));
        metadata.insert(
            "display".to_owned(),
            json!({
                "type": "file",
                "path": file,
                "text": self.lines.join("\n"),
                "lineStart": self.first,
                "lineEnd": end,
                "totalLines": self.total,
                "truncated": self.full,
            }),
        );
        Output { title, output, metadata, shaped: true, ..Output::default() }
    }
}

/// A folder's entries, sorted by name.
fn folder(target: &Target, title: String, window: ReadWindow) -> Result<Output, Failure> {
    let path = target.path();
    let entries = OpenFolder::reach(target.real()).and_then(|folder| folder.entries());
    let mut names: Vec<String> = entries
        .map_err(|error| Failure::io("list", path, &error))?
        .into_iter()
        .map(|(name, folder)| format!("{}{}", name.to_string_lossy(), if folder { "/" } else { "" }))
        .collect();
    names.sort_unstable();
    let total = names.len();
    let entries = if total == 1 { "1 entry".to_owned() } else { format!("{total} entries") };
    if total < window.first && window.first > 1 {
        return Err(Failure::Failed(format!(
            "Entry {} is past the end of the folder, which has {entries}.",
            window.first
        )));
    }
    let shown: Vec<String> = names.into_iter().skip(window.first - 1).take(window.limit).collect();
    let last = window.first - 1 + shown.len();
    let truncated = last < total;
    let file = path.display().to_string();
    let count = if truncated {
        format!("(Entries {}-{last} of {total}; go on with offset={})", window.first, last + 1)
    } else {
        format!("({entries})")
    };
    let list = shown.join("\n");
    let output =
        format!("<path>{file}</path>\n<type>directory</type>\n<entries>\n{list}\n\n{count}\n</entries>");
    let preview: Vec<&str> = shown.iter().take(PREVIEW_LINES).map(String::as_str).collect();
    let mut metadata = Map::new();
    metadata.insert("preview".to_owned(), json!(preview.join("\n")));
    metadata.insert("truncated".to_owned(), json!(truncated));
    metadata.insert("loaded".to_owned(), json!([]));
    metadata.insert(
        "display".to_owned(),
        json!({
            "type": "directory",
            "path": file,
            "entries": shown,
            "offset": window.first,
            "totalEntries": total,
            "truncated": truncated,
        }),
    );
    Ok(Output { title, output, metadata, shaped: true, ..Output::default() })
}

/// Whether a file is not text: a NUL, or more than three tenths control characters.
fn binary(sample: &[u8]) -> bool {
    let control = sample.iter().filter(|byte| matches!(byte, 0x01..=0x08 | 0x0e..=0x1f)).count();
    sample.contains(&0) || control * 10 > sample.len() * 3
}

/// The failure for a file that does not exist, with the names in its folder that look alike.
fn absent(target: &Target) -> Failure {
    let mut text = format!("File not found: {}", target.path().display());
    let wanted = target.real().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let near = |name: &String| {
        let name = name.to_lowercase();
        name.contains(&wanted) || wanted.contains(&name)
    };
    let mut names: Vec<String> = target
        .place()
        .and_then(|(parent, _)| OpenFolder::reach(parent)?.entries())
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(near)
        .collect();
    names.sort_unstable();
    names.truncate(SUGGESTIONS);
    if !names.is_empty() {
        text.push_str(&format!("\nFiles with a similar name: {}", names.join(", ")));
    }
    Failure::Failed(text)
}
