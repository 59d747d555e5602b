//! The `list` tool: a folder as a tree, as far down as there is room.
//!
//! Whole levels are shown before deeper ones, so that a large first folder does not hide its neighbours. Where the
//! tree ends early, the folders that were not opened are still named.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::walk::{self, SearchRoot, SearchTree, StopCondition};
use crate::wildcard::Wildcard;

/// The most files shown.
const FILES: usize = 100;
/// The most folders shown.
const FOLDERS: usize = 300;
/// The deepest level that is looked at.
const DEPTH: usize = 32;

/// Folders that hold what tools have made or fetched: many files, and nothing that was written here.
const JUNK: [&str; 28] = [
    ".cache",
    ".gradle",
    ".hg",
    ".idea",
    ".jj",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".svn",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    ".zig-cache",
    "__pycache__",
    "bower_components",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "obj",
    "target",
    "venv",
    "zig-out",
];

/// The tool that shows what is in a folder.
#[derive(Debug, Clone, Copy)]
pub struct ListTool {
    /// How long it may take before it ends with what it has found.
    pub patience: Duration,
}

impl Default for ListTool {
    fn default() -> Self {
        Self { patience: walk::PATIENCE }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListInput {
    /// The folder; the project folder unless given
    #[serde(default)]
    path: Option<String>,
    /// Glob patterns of files and folders to leave out
    #[serde(default)]
    ignore: Option<Vec<String>>,
}

impl Tool for ListTool {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> &'static str {
        "Shows the files and folders in a folder as a tree, upper levels first, at most 100 files. Names of folders \
         end with a slash. What git ignores and folders such as node_modules, target or dist are left out, and what \
         matches one of the patterns in `ignore`. Use `glob` or `grep` when you know what you are looking for."
    }

    fn schema(&self) -> Value {
        schema::<ListInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: ListInput = decode(self.name(), input.clone())?;
        let path = SearchRoot::named(input.path.as_deref(), scope);
        let mut metadata = Map::new();
        metadata.insert("path".to_owned(), json!(path.display().to_string()));
        let own = Need {
            permission: "list".to_owned(),
            patterns: scope.patterns(&path),
            always: vec!["*".to_owned()],
            metadata,
        };
        Ok(walk::needs(own, &path, scope))
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: ListInput = decode(self.name(), input)?;
            walk::within(self.patience, context.cancel.clone(), move |stop| show(&input, &context, stop))
                .await
        })
    }
}

fn show(input: &ListInput, context: &Context, stop: &StopCondition) -> Result<Output, Failure> {
    let ignored = input
        .ignore
        .iter()
        .flatten()
        .map(|text| Wildcard::parse("ignore", text.strip_suffix('/').unwrap_or(text)))
        .collect::<Result<Vec<_>, _>>()?;
    let folder = SearchRoot::named(input.path.as_deref(), &context.scope);
    let title = context.scope.relative(&folder);
    let heading = folder.display().to_string();
    let tree = SearchRoot::granted(folder, context)?.tree()?;
    let mut top = ListedFolder::default();
    let mut shown = ShownEntries::default();
    for depth in 1..=DEPTH {
        if shown.truncated || !shown.level(&tree, depth, &ignored, &mut top, stop) {
            break;
        }
    }
    stop.cancelled()?;
    let mut text = format!("{}/", heading.trim_end_matches('/'));
    top.draw(1, &mut text);
    if shown.files == 0 && shown.folders == 0 {
        text.push_str("\n(empty)");
    }
    if shown.truncated {
        text.push_str(&format!(
            "\n\n(There is more: only {} files are shown. Name a folder in `path`, or use `glob`.)",
            shown.files
        ));
    }
    text.push_str(&walk::remarks(&tree, stop));
    let mut metadata = Map::new();
    metadata.insert("count".to_owned(), json!(shown.files));
    metadata.insert("truncated".to_owned(), json!(shown.truncated));
    Ok(Output { title, output: text, metadata, ..Output::default() })
}

/// What has been shown so far.
#[derive(Debug, Default)]
struct ShownEntries {
    files: usize,
    folders: usize,
    truncated: bool,
}

impl ShownEntries {
    /// Adds one level, and says whether there may be another one below it.
    fn level(
        &mut self,
        tree: &SearchTree,
        depth: usize,
        ignored: &[Wildcard],
        top: &mut ListedFolder,
        stop: &StopCondition,
    ) -> bool {
        let ignored = ignored.to_vec();
        let mut folders = false;
        let mut walk = tree.walk_where(move |below| {
            let junk = below.file_name().is_some_and(|name| JUNK.iter().any(|junk| name == *junk));
            !junk && !ignored.iter().any(|ignored| ignored.matches(below))
        });
        walk.max_depth(Some(depth)).sort_by_file_name(Ord::cmp);
        for entry in walk.build() {
            if stop.now() {
                return false;
            }
            let Ok(entry) = entry else { continue };
            if entry.depth() != depth {
                continue;
            }
            let below = tree.below(entry.path());
            let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let (count, most) = if folder { (&mut self.folders, FOLDERS) } else { (&mut self.files, FILES) };
            if *count >= most {
                self.truncated = true;
                return false;
            }
            if tree.holds(below) {
                *count += 1;
                folders |= folder;
                top.put(below, folder);
            }
        }
        folders
    }
}

/// A folder and what is in it, by name.
#[derive(Debug, Default)]
struct ListedFolder {
    folders: BTreeMap<OsString, Self>,
    files: Vec<OsString>,
}

impl ListedFolder {
    fn put(&mut self, below: &Path, folder: bool) {
        let Some(name) = below.file_name() else { return };
        let mut place = self;
        for part in below.parent().into_iter().flat_map(Path::components) {
            place = place.folders.entry(part.as_os_str().to_owned()).or_default();
        }
        if folder {
            place.folders.entry(name.to_owned()).or_default();
        } else {
            place.files.push(name.to_owned());
        }
    }

    fn draw(&self, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        for (name, folder) in &self.folders {
            text.push_str(&format!("\n{indent}{}/", name.display()));
            folder.draw(depth + 1, text);
        }
        for name in &self.files {
            text.push_str(&format!("\n{indent}{}", name.display()));
        }
    }
}
