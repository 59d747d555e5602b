//! The `write` tool: puts a whole file in place.
//!
//! The file appears at once or not at all, keeps its mode, and keeps a byte order mark that it had. A file that the
//! session has seen is replaced only if nobody has changed it since.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::patch;
use crate::replacement::{FileChange, apply, lock};
use crate::scope::{PathAccess, Scope};
use crate::target::{FileBefore, Target};
use crate::tool::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Tool};

/// The UTF-8 byte order mark.
pub(crate) const BOM: &str = "\u{feff}";

/// The tool that writes whole files.
#[derive(Debug, Clone, Copy)]
pub struct WriteTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WriteInput {
    /// The file, as an absolute path
    file_path: String,
    /// The complete new content
    content: String,
}

impl Tool for WriteTool {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Writes a file, replacing what it held. Missing folders are created. \
         To change part of an existing file use `edit` instead, and `read` a file before replacing it."
    }

    fn permission(&self) -> &'static str {
        "edit"
    }

    fn schema(&self) -> Value {
        schema::<WriteInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Edit
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: WriteInput = decode(self.name(), input.clone())?;
        let target = scope.target(&input.file_path, PathAccess::Write)?;
        let shown = match target.before() {
            Ok(before) => {
                let before = before.map(|before| before.bytes).unwrap_or_default();
                diff(target.path(), &before, with_mark(&before, &input.content).as_bytes())
            }
            Err(_) => String::new(),
        };
        Ok(edit_needs(scope, &target, &shown))
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let input: WriteInput = decode(self.name(), input.clone())?;
        let target = scope.target(&input.file_path, PathAccess::Write)?;
        let (before, after) = plan(&input, &target)?;
        let before = before.map(|before| before.fingerprint);
        Ok(vec![Forecast { path: target.path().to_owned(), before, after: Some(hex(after.as_bytes())) }])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: WriteInput = decode(self.name(), input)?;
            blocking(move || act(&input, &context)).await
        })
    }
}

fn act(input: &WriteInput, context: &Context) -> Result<Output, Failure> {
    if context.cancel.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    let target = context.target(&input.file_path, PathAccess::Write)?;
    let _lock = lock(target.real());
    let (before, after) = plan(input, &target)?;
    if let Some(before) = &before {
        unchanged(context, &target, &before.fingerprint)?;
        known(context, &target, before, &after)?;
    }
    put(context, &target, before.as_ref(), after.as_bytes())?;
    context.seen.record(target.real(), hex(after.as_bytes()));
    let mut metadata = Map::new();
    metadata.insert("diagnostics".to_owned(), json!({}));
    metadata.insert("filepath".to_owned(), json!(target.path().display().to_string()));
    metadata.insert("exists".to_owned(), json!(before.is_some()));
    metadata.insert("truncated".to_owned(), json!(false));
    Ok(Output {
        title: context.scope.relative(target.path()),
        output: format!("Wrote file successfully.{}", before.as_ref().map_or("", FileBefore::remark)),
        metadata,
        edited: vec![target.path().to_owned()],
        ..Output::default()
    })
}

/// What is there, whatever its size, and what the call puts in its place.
fn plan(input: &WriteInput, target: &Target) -> Result<(Option<FileBefore>, String), Failure> {
    let before = target.start(BOM.len() as u64).map_err(|error| error.failure("read", target.path()))?;
    let after = with_mark(before.as_ref().map_or(&[], |before| &before.bytes), &input.content);
    Ok((before, after))
}

/// The new content with exactly one byte order mark if the old or the new one has any.
fn with_mark(before: &[u8], after: &str) -> String {
    let marked = before.starts_with(BOM.as_bytes()) || after.starts_with(BOM);
    let text = after.trim_start_matches(BOM);
    if marked { format!("{BOM}{text}") } else { text.to_owned() }
}

/// The needs of a call that changes one file.
pub(crate) fn edit_needs(scope: &Scope, target: &Target, diff: &str) -> Vec<Need> {
    let mut metadata = Map::new();
    metadata.insert("filepath".to_owned(), json!(target.path().display().to_string()));
    metadata.insert("diff".to_owned(), json!(diff));
    let (external, patterns) = scope.demands(target, PathAccess::Write);
    let edit = Need { permission: "edit".to_owned(), patterns, always: vec!["*".to_owned()], metadata };
    external.into_iter().chain([edit]).collect()
}

/// The diff of a file tool, or nothing when either side is too large or not text.
pub(crate) fn diff(path: &Path, before: &[u8], after: &[u8]) -> String {
    match (std::str::from_utf8(before), std::str::from_utf8(after)) {
        (Ok(before), Ok(after)) => patch::shown(&path.display().to_string(), before, after).text,
        _ => String::new(),
    }
}

/// The fingerprint of a file with this content.
pub(crate) fn hex(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Fails if a file is not what the session last saw of it.
pub(crate) fn unchanged(context: &Context, target: &Target, now: &str) -> Result<(), Failure> {
    match context.seen.last(target.real()) {
        Some(last) if last != now => Err(Failure::Failed(format!(
            "{} was changed since it was read: read it again. Nothing was written.",
            target.path().display()
        ))),
        _ => Ok(()),
    }
}

/// Fails if a file with content was never shown to the session, which would replace it blindly.
fn known(context: &Context, target: &Target, before: &FileBefore, after: &str) -> Result<(), Failure> {
    let empty = before.bytes.is_empty();
    if empty || context.seen.shown(target.real()) || before.fingerprint == hex(after.as_bytes()) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} has content that this session has not read. Read it first, so that nothing in it is lost, or change a part \
         of it with `edit`. What cannot be read can be moved away with `bash`. Nothing was written.",
        target.path().display()
    )))
}

/// Replaces a file in the words of a tool.
pub(crate) fn put(
    context: &Context,
    target: &Target,
    before: Option<&FileBefore>,
    after: &[u8],
) -> Result<(), Failure> {
    let expected = before.map(|before| &*before.fingerprint);
    let content = Some((after, before.map(|before| &before.rights)));
    apply(&[FileChange { target, expected, content }], &context.cancel).map_err(|error| error.failure())
}

/// Runs file work away from the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::Failed(format!("The tool stopped unexpectedly: {error}."))))
}
