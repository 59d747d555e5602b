//! The `apply_patch` tool: several files changed together, or none of them.
//!
//! Every file of the patch is resolved, compared with what was permitted, read and computed before the first one is
//! touched, and then all of them change in one go (see `replacement.rs`). `apply_patch/envelope.rs` reads the patch,
//! `apply_patch/hunk.rs` finds the places.

mod envelope;
mod hunk;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::input::{decode, schema};
use crate::patch::{Patch, shown};
use crate::regular_file::LINES_MAX;
use crate::replacement::{FileChange, apply, lock_all, protected};
use crate::scope::{PathAccess, Scope};
use crate::target::{FileBefore, Target};
use crate::tool::{BoxFuture, Context, Effect, Failure, Forecast, Need, Output, Tool};
use crate::write::{blocking, hex, unchanged};
use crate::{bound, regular_file};
use envelope::PatchSection;

/// The tool that applies patches.
#[derive(Debug, Clone, Copy)]
pub struct ApplyPatchTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApplyPatchInput {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    patch_text: String,
}

impl Tool for ApplyPatchTool {
    fn name(&self) -> &'static str {
        "apply_patch"
    }

    fn description(&self) -> &'static str {
        "Adds, changes, moves and deletes files with one patch: either all of it is done or nothing. Its form:\n\n\
         *** Begin Patch\n\
         *** Add File: path/of/new.txt\n\
         +each line of the new file\n\
         *** Update File: path/of/old.txt\n\
         *** Move to: path/of/moved.txt\n\
         @@ a line above the change, if needed to find it\n \
         a line that stays\n\
         -a line that goes\n\
         +a line that comes\n\
         *** Delete File: path/of/gone.txt\n\
         *** End Patch\n\n\
         `*** Move to:` and `@@` are optional. Give about three lines that stay before and after each change; they must \
         be in only one place. `*** End of File` below a hunk says that it ends the file. Name each file once."
    }

    fn permission(&self) -> &'static str {
        "edit"
    }

    fn schema(&self) -> Value {
        schema::<ApplyPatchInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Edit
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let files = files(input, |path| scope.target(path, PathAccess::Write))?;
        let mut needs: Vec<Need> = Vec::new();
        let mut patterns: Vec<String> = Vec::new();
        for target in files.iter().flat_map(PatchedFile::targets) {
            let (external, own) = scope.demands(target, PathAccess::Write);
            external.into_iter().for_each(|need| need.add_to(&mut needs));
            patterns
                .extend(own.into_iter().filter(|pattern| !patterns.contains(pattern)).collect::<Vec<_>>());
        }
        let names: Vec<String> =
            files.iter().flat_map(PatchedFile::targets).map(|target| scope.relative(target.path())).collect();
        // A patch that will not apply is asked about without a diff: saying why now would tell the model about
        // files that it may not be allowed to see.
        let (diff, described) = files
            .iter()
            .map(|file| file.plan(&CancellationToken::new()))
            .collect::<Result<Vec<_>, _>>()
            .map(|plans| describe(&files, &plans, scope))
            .unwrap_or_default();
        let mut metadata = Map::new();
        metadata.insert("filepath".to_owned(), json!(names.join(", ")));
        metadata.insert("diff".to_owned(), json!(diff));
        metadata.insert("files".to_owned(), json!(described));
        let edit = Need { permission: "edit".to_owned(), patterns, always: vec!["*".to_owned()], metadata };
        needs.push(edit);
        Ok(needs)
    }

    fn forecast(&self, input: &Value, scope: &Scope) -> Result<Vec<Forecast>, Failure> {
        let files = files(input, |path| scope.target(path, PathAccess::Write))?;
        let mut forecasts = Vec::new();
        for file in &files {
            let plan = file.plan(&CancellationToken::new())?;
            let before = plan.before.as_ref().map(|before| before.fingerprint.clone());
            let after = plan.after.as_deref().map(hex);
            let path = file.target.path().to_owned();
            match &file.destination {
                Some(destination) => {
                    forecasts.push(Forecast { path, before, after: None });
                    let path = destination.path().to_owned();
                    forecasts.push(Forecast { path, before: None, after });
                }
                None => forecasts.push(Forecast { path, before, after }),
            }
        }
        Ok(forecasts)
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move { blocking(move || act(&input, &context)).await })
    }
}

/// One file of a patch and where it is.
#[derive(Debug)]
struct PatchedFile {
    section: PatchSection,
    target: Target,
    /// Where it moves to.
    destination: Option<Target>,
}

/// What becomes of one file.
#[derive(Debug)]
struct PlannedFile {
    before: Option<FileBefore>,
    after: Option<Vec<u8>>,
}

/// The files of a patch, each named once.
fn files(
    input: &Value,
    target: impl Fn(&str) -> Result<Target, Failure>,
) -> Result<Vec<PatchedFile>, Failure> {
    let input: ApplyPatchInput = decode("apply_patch", input.clone())?;
    let sections = envelope::parse(&input.patch_text).map_err(Failure::InvalidInput)?;
    let mut files = Vec::new();
    let mut named = HashMap::new();
    for section in sections {
        let (path, destination) = match &section {
            PatchSection::Add { path, .. } | PatchSection::Delete { path } => (path, None),
            PatchSection::Update { path, destination, .. } => (path, destination.as_ref()),
        };
        let destination = destination.map(|path| target(path)).transpose()?;
        let file = PatchedFile { target: target(path)?, destination, section };
        for target in file.targets() {
            if let Some(other) = named.insert(target.real().to_owned(), target.path().to_owned()) {
                return Err(Failure::InvalidInput(format!(
                    "The patch names one file twice: {} and {}. Put all changes of a file below one header.",
                    other.display(),
                    target.path().display()
                )));
            }
        }
        files.push(file);
    }
    Ok(files)
}

impl PatchedFile {
    fn targets(&self) -> impl Iterator<Item = &Target> {
        [Some(&self.target), self.destination.as_ref()].into_iter().flatten()
    }

    /// Reads the file and says what it becomes.
    fn plan(&self, cancel: &CancellationToken) -> Result<PlannedFile, Failure> {
        let path = self.target.path().display();
        let read = |target: &Target| target.before().map_err(|error| error.failure("read", target.path()));
        let vacant = |target: &Target| match target.start(0) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Failure::Failed(format!(
                "{} exists already. Nothing was changed.",
                target.path().display()
            ))),
            Err(error) => Err(error.failure("write", target.path())),
        };
        let absent = || Failure::Failed(format!("File not found: {path}. Nothing was changed."));
        match &self.section {
            PatchSection::Add { content, .. } => {
                vacant(&self.target)?;
                Ok(PlannedFile { before: None, after: Some(content.clone().into_bytes()) })
            }
            PatchSection::Delete { .. } => {
                let before = match self.target.before() {
                    // A file can go without anyone looking at all of it.
                    Err(regular_file::OpenError::TooLarge(_)) => self.target.start(0),
                    other => other,
                };
                let before = before.map_err(|error| error.failure("delete", self.target.path()))?;
                Ok(PlannedFile { before: Some(before.ok_or_else(absent)?), after: None })
            }
            PatchSection::Update { hunks, .. } => {
                let before = read(&self.target)?.ok_or_else(absent)?;
                self.destination.as_ref().map(vacant).transpose()?;
                // Its write protection does not keep it from being moved, only from being changed on the way.
                if before.rights.is_protected() && !hunks.is_empty() {
                    return Err(protected(self.target.path()));
                }
                let after = if hunks.is_empty() {
                    before.bytes.clone()
                } else {
                    patched(&before.bytes, hunks, &path, cancel)?
                };
                if self.destination.is_none() && after == before.bytes {
                    return Err(Failure::Failed(format!(
                        "The patch changes nothing in {path}. Nothing was changed."
                    )));
                }
                Ok(PlannedFile { before: Some(before), after: Some(after) })
            }
        }
    }

    /// What happens to the file, as clients name it.
    fn kind(&self) -> &'static str {
        match (&self.section, &self.destination) {
            (PatchSection::Add { .. }, _) => "add",
            (PatchSection::Delete { .. }, _) => "delete",
            (PatchSection::Update { .. }, None) => "update",
            (PatchSection::Update { .. }, Some(_)) => "move",
        }
    }
}

fn patched(
    before: &[u8],
    hunks: &[envelope::Hunk],
    path: &impl std::fmt::Display,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, Failure> {
    let lines = bound::lines(before);
    if lines > LINES_MAX {
        return Err(Failure::Failed(format!(
            "{path} has {lines} lines; at most {LINES_MAX} can be patched. Nothing was changed. Use `bash` to change \
             it, for example with `sed -i`."
        )));
    }
    let Ok(text) = std::str::from_utf8(before) else {
        return Err(Failure::Failed(format!(
            "{path} is not UTF-8 text, so it cannot be patched. Nothing was changed."
        )));
    };
    let after = hunk::apply(text, hunks, cancel).map_err(|why| {
        if cancel.is_cancelled() {
            return Failure::Cancelled;
        }
        Failure::Failed(format!(
            "The patch does not apply to {path}: {why}. Nothing was changed. Read the file again and write the hunk \
             from what it has."
        ))
    })?;
    Ok(after.into_bytes())
}

fn act(input: &Value, context: &Context) -> Result<Output, Failure> {
    if context.cancel.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    let files = files(input, |path| context.target(path, PathAccess::Write))?;
    let _locks = lock_all(files.iter().flat_map(PatchedFile::targets).map(Target::real));
    let mut plans = Vec::new();
    for file in &files {
        if context.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let plan = file.plan(&context.cancel)?;
        if let Some(before) = &plan.before {
            unchanged(context, &file.target, &before.fingerprint)?;
        }
        plans.push(plan);
    }
    let changes: Vec<FileChange<'_>> =
        files.iter().zip(&plans).flat_map(|(file, plan)| plan.changes(file)).collect();
    apply(&changes, &context.cancel).map_err(|error| error.failure())?;
    remember(&files, &plans, context);
    Ok(report(&files, &plans, &context.scope))
}

impl PlannedFile {
    fn changes<'a>(&'a self, file: &'a PatchedFile) -> Vec<FileChange<'a>> {
        let expected = self.before.as_ref().map(|before| &*before.fingerprint);
        let rights = self.before.as_ref().map(|before| &before.rights);
        let content = self.after.as_deref().map(|after| (after, rights));
        match &file.destination {
            Some(destination) => vec![
                FileChange { target: destination, expected: None, content },
                FileChange { target: &file.target, expected, content: None },
            ],
            None => vec![FileChange { target: &file.target, expected, content }],
        }
    }
}

/// Notes what the session now knows of the files.
fn remember(files: &[PatchedFile], plans: &[PlannedFile], context: &Context) {
    let seen = &context.seen;
    for (file, plan) in files.iter().zip(plans) {
        let from = file.target.real();
        let Some(after) = plan.after.as_deref() else {
            seen.forget(from);
            continue;
        };
        let shown = plan.before.is_none() || seen.shown(from);
        let to = file.destination.as_ref().map_or(from, Target::real);
        if to != from {
            seen.forget(from);
        }
        if shown { seen.record(to, hex(after)) } else { seen.renew(to, hex(after)) }
    }
}

/// The diff of the whole patch, and each file as clients show it: newer ones draw `patch`, older ones `diff`.
fn describe(files: &[PatchedFile], plans: &[PlannedFile], scope: &Scope) -> (String, Vec<Value>) {
    let mut whole = String::new();
    let mut described = Vec::new();
    for (file, plan) in files.iter().zip(plans) {
        let before = text(plan.before.as_ref().map(|before| &*before.bytes));
        let after = text(plan.after.as_deref());
        let path = file.target.path().display().to_string();
        let last = file.destination.as_ref().unwrap_or(&file.target);
        let patch = if before == after {
            Patch::default()
        } else {
            shown(&last.path().display().to_string(), before, after)
        };
        if !whole.is_empty() && !patch.text.is_empty() {
            whole.push('\n');
        }
        whole.push_str(&patch.text);
        let mut entry = json!({
            "filePath": path,
            "relativePath": scope.relative(last.path()),
            "type": file.kind(),
            "patch": patch.text,
            "diff": patch.text,
            "additions": patch.additions,
            "deletions": patch.deletions,
        });
        if let (Some(destination), Some(entry)) = (&file.destination, entry.as_object_mut()) {
            entry.insert("movePath".to_owned(), json!(destination.path().display().to_string()));
        }
        described.push(entry);
    }
    (whole, described)
}

/// What of a file can be shown.
fn text(bytes: Option<&[u8]>) -> &str {
    std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

fn report(files: &[PatchedFile], plans: &[PlannedFile], scope: &Scope) -> Output {
    let (diff, described) = describe(files, plans, scope);
    let lines: Vec<String> = files
        .iter()
        .zip(plans)
        .map(|(file, plan)| {
            let letter = match &file.section {
                PatchSection::Add { .. } => 'A',
                PatchSection::Delete { .. } => 'D',
                PatchSection::Update { .. } => 'M',
            };
            let last = file.destination.as_ref().unwrap_or(&file.target);
            let remark = match (&plan.before, &plan.after) {
                (Some(before), Some(_)) => before.remark(),
                _ => "",
            };
            format!("{letter} {}{remark}", scope.relative(last.path()))
        })
        .collect();
    let title = match files {
        [file] => scope.relative(file.target.path()),
        several => format!("{} files", several.len()),
    };
    let mut metadata = Map::new();
    metadata.insert("diff".to_owned(), json!(diff));
    metadata.insert("files".to_owned(), json!(described));
    metadata.insert("diagnostics".to_owned(), json!({}));
    metadata.insert("truncated".to_owned(), json!(false));
    Output {
        title,
        output: format!("Success. Updated the following files:\n{}", lines.join("\n")),
        metadata,
        edited: files.iter().flat_map(PatchedFile::targets).map(|target| target.path().to_owned()).collect(),
        ..Output::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_given_up_on_while_its_places_are_looked_for() {
        // A call that was cancelled went on through all of its hunks.
        let text = "*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch";
        let sections = envelope::parse(text).unwrap();
        let Some(PatchSection::Update { hunks, .. }) = sections.first() else { panic!("{sections:?}") };
        let cancel = CancellationToken::new();
        assert_eq!(patched(b"a\n", hunks, &"f", &cancel), Ok(b"b\n".to_vec()));
        cancel.cancel();
        assert_eq!(patched(b"a\n", hunks, &"f", &cancel), Err(Failure::Cancelled));
    }
}
