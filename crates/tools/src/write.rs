//! The `write` tool: puts a whole file in place.
//!
//! The file appears at once or not at all, keeps its mode, and keeps a byte order mark that it had.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    input::{decode, schema},
    patch::{Header, unified},
    regular::{self, CONTENT_MAX, fingerprint},
    replacement::{self, content, replace, turn},
    scope::{Access, Scope, real},
    tool::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Tool},
};

/// The UTF-8 byte order mark.
pub(crate) const BOM: &str = "\u{feff}";

/// The tool that writes whole files.
#[derive(Clone, Copy, Debug)]
pub struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Input {
    /// The file, as an absolute path
    file_path: String,
    /// The complete new content
    content: String,
}

impl Tool for Write {
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
        schema::<Input>()
    }

    fn effect(&self) -> Effect {
        Effect::Edit
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: Input = decode(self.name(), input.clone())?;
        let path = scope.resolve(&input.file_path);
        let shown = match content(&real(&path)) {
            Err(regular::Error::Special(_) | regular::Error::TooLarge(_)) => String::new(),
            before => {
                let before = before.ok().flatten().unwrap_or_default();
                diff(&path, &before, with_mark(&before, &input.content).as_bytes())
            }
        };
        Ok(edit_needs(scope, &path, &shown))
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let input: Input = decode(self.name(), input.clone())?;
        let path = scope.resolve(&input.file_path);
        let before = Before::of(&real(&path)).map_err(|error| error.failure("read", &path))?;
        let after = with_mark(&before.start, &input.content);
        Ok(vec![forecast(path, before.fingerprint, after.as_bytes())])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: Input = decode(self.name(), input)?;
            blocking(move || act(&input, &context)).await
        })
    }
}

fn act(input: &Input, context: &Context) -> Result<Output, Failure> {
    let path = context.scope.resolve(&input.file_path);
    let real = real(&path);
    let _turn = turn(&real);
    if context.cancel.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    if real.is_dir() {
        return Err(Failure::Failed(format!("{} is a folder, not a file.", path.display())));
    }
    let before = Before::of(&real).map_err(|error| error.failure("read", &path))?;
    let after = with_mark(&before.start, &input.content);
    put(&path, &real, after.as_bytes(), before.fingerprint.as_deref())?;
    let mut metadata = Map::new();
    metadata.insert("diagnostics".to_owned(), json!({}));
    metadata.insert("filepath".to_owned(), json!(path.display().to_string()));
    metadata.insert("exists".to_owned(), json!(before.fingerprint.is_some()));
    metadata.insert("truncated".to_owned(), json!(false));
    Ok(Output {
        title: context.scope.relative(&path),
        output: "Wrote file successfully.".to_owned(),
        metadata,
        edited: vec![path],
        ..Output::default()
    })
}

/// What has to be known of a file to replace it, whatever its size.
#[derive(Debug, Default)]
struct Before {
    /// Nothing if there is no file.
    fingerprint: Option<String>,
    /// Enough to tell a byte order mark.
    start: Vec<u8>,
}

impl Before {
    fn of(real: &Path) -> Result<Self, regular::Error> {
        match regular::start(real, BOM.len() as u64) {
            Ok(start) => Ok(Self { fingerprint: fingerprint(real)?, start }),
            Err(error) if error.is_absent() => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }
}

/// The new content with exactly one byte order mark if the old or the new one has any.
fn with_mark(before: &[u8], after: &str) -> String {
    let marked = before.starts_with(BOM.as_bytes()) || after.starts_with(BOM);
    let text = after.trim_start_matches(BOM);
    if marked { format!("{BOM}{text}") } else { text.to_owned() }
}

/// The needs of a call that changes one file.
pub(crate) fn edit_needs(scope: &Scope, path: &Path, diff: &str) -> Vec<Need> {
    let mut metadata = Map::new();
    metadata.insert("filepath".to_owned(), json!(path.display().to_string()));
    metadata.insert("diff".to_owned(), json!(diff));
    let edit = Need {
        permission: "edit".to_owned(),
        patterns: scope.patterns(path),
        always: vec!["*".to_owned()],
        metadata,
    };
    scope.external(path, Access::Write).into_iter().chain([edit]).collect()
}

/// The diff of a file tool, or nothing when either side is too large or not text.
pub(crate) fn diff(path: &Path, before: &[u8], after: &[u8]) -> String {
    if before.len().max(after.len()) as u64 > CONTENT_MAX {
        return String::new();
    }
    match (std::str::from_utf8(before), std::str::from_utf8(after)) {
        (Ok(before), Ok(after)) => unified(&path.display().to_string(), before, after, Header::Bare).text,
        _ => String::new(),
    }
}

/// The forecast of one file, from its fingerprint and its new content.
pub(crate) fn forecast(path: PathBuf, before: Option<String>, after: &[u8]) -> Forecast {
    Forecast { path, before, after: hex(after) }
}

/// The fingerprint of a file with this content.
pub(crate) fn hex(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Replaces a file in the words of a tool.
pub(crate) fn put(path: &Path, real: &Path, after: &[u8], before: Option<&str>) -> Result<(), Failure> {
    replace(real, after, before).map_err(|error| match error {
        replacement::Error::Changed => Failure::Failed(format!(
            "{} was changed by someone else meanwhile; nothing was written. Read it again and retry.",
            path.display()
        )),
        replacement::Error::Read(error) => error.failure("write", path),
        replacement::Error::Io(error) => Failure::io("write", path, &error),
    })
}

/// Runs file work away from the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Failure::Failed(format!("The tool stopped unexpectedly: {error}."))))
}
