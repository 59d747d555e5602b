//! The `edit` tool: replaces an exact piece of a file.
//!
//! Matching is exact but for one thing: models write `\n`, so a piece is also looked for with the file's own
//! line ends. Everything outside the piece keeps its bytes, including a byte order mark.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    input::{decode, schema},
    patch::{Header, unified},
    regular::{self, CONTENT_MAX},
    replacement::{content, turn},
    scope::{Scope, real},
    tool::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Tool},
    write::{BOM, blocking, diff, edit_needs, forecast, hex, put},
};

/// The tool that replaces pieces of files.
#[derive(Clone, Copy, Debug)]
pub struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Input {
    /// The file, as an absolute path
    file_path: String,
    /// The text to replace
    old_string: String,
    /// The text to put in its place
    new_string: String,
    /// Replace every occurrence (default false)
    #[serde(default)]
    replace_all: Option<bool>,
}

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces an exact piece of text in a file. `oldString` must occur exactly once, so include enough \
         surrounding text to single it out, or set `replaceAll` to change every occurrence. \
         Leave out the line numbers that `read` shows. An empty `oldString` creates a file that does not exist."
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
        let input: Input = parse(input.clone())?;
        let path = scope.resolve(&input.file_path);
        // An edit that will not apply is asked about with an empty diff: saying why now would tell the model
        // about a file that it may not be allowed to see.
        let shown = match content(&real(&path)) {
            Err(regular::Error::Special(_) | regular::Error::TooLarge(_)) => String::new(),
            before => {
                let before = before.ok().flatten();
                let after = after(&input, before.as_deref());
                let old = before.as_deref().unwrap_or_default();
                after.map(|after| diff(&path, old, after.as_bytes())).unwrap_or_default()
            }
        };
        Ok(edit_needs(scope, &path, &shown))
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let input: Input = parse(input.clone())?;
        let path = scope.resolve(&input.file_path);
        let before = content(&real(&path)).map_err(|error| error.failure("read", &path))?;
        let after = after(&input, before.as_deref())?;
        Ok(vec![forecast(path, before.as_deref().map(hex), after.as_bytes())])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: Input = parse(input)?;
            blocking(move || act(&input, &context)).await
        })
    }
}

fn parse(input: Value) -> Result<Input, Failure> {
    let input: Input = decode("edit", input)?;
    if input.old_string == input.new_string {
        return Err(Failure::InvalidInput("oldString and newString are the same: nothing to change.".into()));
    }
    Ok(input)
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
    let before = content(&real).map_err(|error| error.failure("read", &path))?;
    let after = after(input, before.as_deref())?;
    put(&path, &real, after.as_bytes(), before.as_deref().map(hex).as_deref())?;
    let file = path.display().to_string();
    let before = String::from_utf8_lossy(before.as_deref().unwrap_or_default());
    let patch = unified(&file, &before, &after, Header::Bare);
    let mut metadata = Map::new();
    metadata.insert("diagnostics".to_owned(), json!({}));
    metadata.insert("diff".to_owned(), json!(patch.text));
    metadata.insert(
        "filediff".to_owned(),
        json!({
            "file": file,
            "patch": patch.text,
            "additions": patch.additions,
            "deletions": patch.deletions,
        }),
    );
    metadata.insert("truncated".to_owned(), json!(false));
    Ok(Output {
        title: context.scope.relative(&path),
        output: "Edit applied successfully.".to_owned(),
        metadata,
        edited: vec![path],
        ..Output::default()
    })
}

/// The file's content after the edit.
fn after(input: &Input, before: Option<&[u8]>) -> Result<String, Failure> {
    let Some(before) = before else {
        return if input.old_string.is_empty() {
            Ok(input.new_string.clone())
        } else {
            Err(Failure::Failed(format!("File not found: {}", input.file_path)))
        };
    };
    if input.old_string.is_empty() {
        return Err(Failure::Failed(
            "The file exists already. Give the text to replace in oldString, or use `write`.".into(),
        ));
    }
    let Ok(before) = std::str::from_utf8(before) else {
        return Err(Failure::Failed("The file is not UTF-8 text, so it cannot be edited.".into()));
    };
    let (mark, text) = match before.strip_prefix(BOM) {
        Some(text) => (BOM, text),
        None => ("", before),
    };
    let ends = LineEnds::of(text);
    let lines = input.old_string.replace("\r\n", "\n");
    let spellings = [&input.old_string, &lines, &lines.replace('\n', "\r\n")];
    let Some(old) = spellings.into_iter().find(|old| text.contains(old.as_str())) else {
        return Err(Failure::Failed(
            "oldString does not occur in the file. Compare it with the file again: every space, tab and \
             line break counts."
                .into(),
        ));
    };
    let new = ends.spell(&input.new_string);
    let found = text.matches(old.as_str()).count();
    if input.replace_all == Some(true) {
        // Counted before it is built: a few letters replaced by many everywhere may be more than the memory holds.
        let size = new.len().saturating_mul(found) as u64;
        if size > CONTENT_MAX {
            return Err(Failure::Failed(format!(
                "The new text, {found} times over, has {size} bytes; at most {CONTENT_MAX} can be put into a file \
                 at once. Use `bash` for this change."
            )));
        }
        return Ok(format!("{mark}{}", text.replace(old.as_str(), &new)));
    }
    if found > 1 {
        return Err(Failure::Failed(format!(
            "oldString occurs {found} times in the file. Add surrounding text to single one out, or set \
             replaceAll."
        )));
    }
    Ok(format!("{mark}{}", text.replacen(old.as_str(), &new, 1)))
}

/// The line ends that most lines of a file have.
#[derive(Clone, Copy, Debug)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    fn of(text: &str) -> Self {
        let all = text.matches('\n').count();
        let windows = text.matches("\r\n").count();
        if windows * 2 > all { Self::CrLf } else { Self::Lf }
    }

    /// The text with these line ends; a file of bare line feeds takes the text as it is.
    fn spell(self, text: &str) -> String {
        match self {
            Self::Lf => text.to_owned(),
            Self::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        }
    }
}
