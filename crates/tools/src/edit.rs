//! The `edit` tool: replaces a piece of a file.
//!
//! Matching is exact first; as models write `\n`, a piece is also looked for with the file's own line ends. A piece
//! that does not occur is looked for once more without the whitespace around its lines (`edit/tolerance.rs`).
//! Everything outside the piece keeps its bytes, including a byte order mark.

mod tolerance;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::regular_file::{CONTENT_MAX, LINES_MAX};
use crate::replacement::lock;
use crate::scope::{PathAccess, Scope};
use crate::target::{FileBefore, Target};
use crate::tool::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Tool};
use crate::write::{BOM, blocking, diff, edit_needs, hex, put, unchanged};
use crate::{bound, patch};
use tolerance::{PieceMatch, fit, nearest};

/// The tool that replaces pieces of files.
#[derive(Debug, Clone, Copy)]
pub struct EditTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EditInput {
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

impl Tool for EditTool {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces a piece of text in a file. `oldString` must be exactly what the file has and occur once, so include \
         enough surrounding text to single it out, or set `replaceAll` to change every occurrence. \
         A file that changed since you read it must be read again first. Leave out the line numbers that `read` shows. An empty `oldString` creates a file that does not exist."
    }

    fn permission(&self) -> &'static str {
        "edit"
    }

    fn schema(&self) -> Value {
        schema::<EditInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Edit
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: EditInput = parse(input.clone())?;
        let target = scope.target(&input.file_path, PathAccess::Write)?;
        // An edit that will not apply is asked about with an empty diff: saying why now would tell the model
        // about a file that it may not be allowed to see.
        let shown = match target.before() {
            Ok(before) => {
                let before = before.map(|before| before.bytes);
                let after = after(&input, before.as_deref());
                let old = before.as_deref().unwrap_or_default();
                after.map(|after| diff(target.path(), old, after.as_bytes())).unwrap_or_default()
            }
            Err(_) => String::new(),
        };
        Ok(edit_needs(scope, &target, &shown))
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let input: EditInput = parse(input.clone())?;
        let target = scope.target(&input.file_path, PathAccess::Write)?;
        let before = read(&target)?;
        let after =
            after(&input, before.as_ref().map(|before| &*before.bytes)).map_err(EditMismatch::failure)?;
        let before = before.map(|before| before.fingerprint);
        Ok(vec![Forecast { path: target.path().to_owned(), before, after: Some(hex(after.as_bytes())) }])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: EditInput = parse(input)?;
            blocking(move || act(&input, &context)).await
        })
    }
}

fn parse(input: Value) -> Result<EditInput, Failure> {
    let input: EditInput = decode("edit", input)?;
    if input.old_string == input.new_string {
        return Err(Failure::InvalidInput("oldString and newString are the same: nothing to change.".into()));
    }
    Ok(input)
}

fn read(target: &Target) -> Result<Option<FileBefore>, Failure> {
    target.before().map_err(|error| error.failure("read", target.path()))
}

fn act(input: &EditInput, context: &Context) -> Result<Output, Failure> {
    if context.cancel.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    let target = context.target(&input.file_path, PathAccess::Write)?;
    let _lock = lock(target.real());
    let before = read(&target)?;
    if let Some(before) = &before {
        unchanged(context, &target, &before.fingerprint)?;
    }
    let after = after(input, before.as_ref().map(|before| &*before.bytes)).map_err(|misfit| {
        // Quoting a file that the session was never shown would be reading it without being permitted to.
        if context.seen.shown(target.real()) { misfit.quote() } else { misfit.failure() }
    })?;
    put(context, &target, before.as_ref(), after.as_bytes())?;
    let fingerprint = hex(after.as_bytes());
    match &before {
        Some(_) => context.seen.renew(target.real(), fingerprint),
        None => context.seen.record(target.real(), fingerprint),
    }
    let file = target.path().display().to_string();
    let remark = before.as_ref().map_or("", FileBefore::remark);
    let before = before.map(|before| before.bytes).unwrap_or_default();
    let before = String::from_utf8_lossy(&before);
    let patch = patch::shown(&file, &before, &after);
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
        title: context.scope.relative(target.path()),
        output: format!("Edit applied successfully.{remark}"),
        metadata,
        edited: vec![target.path().to_owned()],
        ..Output::default()
    })
}

/// Why an edit does not apply.
#[derive(Debug)]
struct EditMismatch {
    text: String,
    /// What the file has instead.
    nearest: Option<String>,
}

impl EditMismatch {
    fn failure(self) -> Failure {
        Failure::Failed(self.text)
    }

    fn quote(self) -> Failure {
        match self.nearest {
            Some(nearest) => {
                Failure::Failed(format!("{}\nThe nearest text in the file is:{nearest}", self.text))
            }
            None => Failure::Failed(self.text),
        }
    }
}

impl From<String> for EditMismatch {
    fn from(text: String) -> Self {
        Self { text, nearest: None }
    }
}

/// The file's content after the edit.
fn after(input: &EditInput, before: Option<&[u8]>) -> Result<String, EditMismatch> {
    let Some(before) = before else {
        return if input.old_string.is_empty() {
            Ok(input.new_string.clone())
        } else {
            Err(format!("File not found: {}", input.file_path).into())
        };
    };
    if input.old_string.is_empty() {
        let text = "The file exists already. Give the text to replace in oldString, or use `write`.";
        return Err(text.to_owned().into());
    }
    let Ok(before) = std::str::from_utf8(before) else {
        return Err("The file is not UTF-8 text, so it cannot be edited.".to_owned().into());
    };
    let (mark, text) = match before.strip_prefix(BOM) {
        Some(text) => (BOM, text),
        None => ("", before),
    };
    let ends = LineEnds::of(text);
    let lines = input.old_string.replace("\r\n", "\n");
    let spellings = [&input.old_string, &lines, &lines.replace('\n', "\r\n")];
    let Some(old) = spellings.into_iter().find(|old| text.contains(old.as_str())) else {
        return Ok(format!("{mark}{}", tolerant(input, text, ends)?));
    };
    let new = ends.spell(&input.new_string);
    let found = text.matches(old.as_str()).count();
    if input.replace_all == Some(true) {
        // Counted before it is built: a few letters replaced by many everywhere may be more than the memory holds.
        let size = new.len().saturating_mul(found) as u64;
        if size > CONTENT_MAX {
            return Err(format!(
                "The new text, {found} times over, has {size} bytes; at most {CONTENT_MAX} can be put into a file \
                 at once. Use `bash` for this change."
            )
            .into());
        }
        return Ok(format!("{mark}{}", text.replace(old.as_str(), &new)));
    }
    if found > 1 {
        return Err(format!(
            "oldString occurs {found} times in the file. Add surrounding text to single one out, or set \
             replaceAll."
        )
        .into());
    }
    if overlaps(text, old) {
        let text = "oldString occurs more than once in the file, and the occurrences overlap. Add surrounding text to \
                    single one out.";
        return Err(text.to_owned().into());
    }
    Ok(format!("{mark}{}", text.replacen(old.as_str(), &new, 1)))
}

/// Whether a piece occurs again within its first occurrence or right behind.
fn overlaps(text: &str, piece: &str) -> bool {
    let Some((at, first)) = text.find(piece).zip(piece.chars().next()) else { return false };
    text.get(at + first.len_utf8()..).is_some_and(|rest| rest.contains(piece))
}

/// The text after an edit whose piece is found only without the whitespace around its lines.
fn tolerant(input: &EditInput, text: &str, ends: LineEnds) -> Result<String, EditMismatch> {
    if bound::lines(text.as_bytes()) > LINES_MAX {
        return Err(format!(
            "oldString does not occur in the file as it is written, and a file of more than {LINES_MAX} lines is not \
             looked through for anything similar. Every space, tab and line break counts."
        )
        .into());
    }
    let new = input.new_string.replace("\r\n", "\n");
    let what = match fit(text, &input.old_string, &new) {
        PieceMatch::One(range, new) => {
            let mut after = text.to_owned();
            after.replace_range(range, &ends.spell(&new));
            return Ok(after);
        }
        PieceMatch::Several(found) => {
            return Err(format!(
                "oldString does not occur in the file as it is written, and {found} places differ from it only in the \
                 whitespace around lines. Copy one of them exactly, with enough surrounding text to single it out."
            )
            .into());
        }
        PieceMatch::Unclear => {
            "oldString does not occur in the file as it is written: the indentation of its lines differs"
        }
        PieceMatch::None => "oldString does not occur in the file",
    };
    Err(EditMismatch {
        text: format!("{what}. Compare it with the file again: every space, tab and line break counts."),
        nearest: nearest(text, &input.old_string),
    })
}

/// The line ends that most lines of a file have.
#[derive(Debug, Clone, Copy)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    fn of(text: &str) -> Self {
        let all = bound::breaks(text.as_bytes());
        let windows = text.matches("\r\n").count() as u64;
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
