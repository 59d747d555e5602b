//! The `glob` tool: files whose path matches a pattern, the most recently changed first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ignore::WalkState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::grep::{NOTHING, limit};
use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::walk::{Modified, SearchRoot, StopCheck, StopCondition};
use crate::wildcard::Wildcard;
use crate::{walk, wildcard};

/// Files shown unless the call asks for fewer or more.
const LIMIT: usize = 100;
/// The most files a call may ask for.
const LIMIT_MAX: usize = 1000;

/// The tool that finds files by name.
#[derive(Debug, Clone, Copy)]
pub struct GlobTool {
    /// How long a search may take before it ends with what it has found.
    pub patience: Duration,
}

impl Default for GlobTool {
    fn default() -> Self {
        Self { patience: walk::PATIENCE }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct GlobInput {
    /// The glob pattern, such as `**/*.rs` or `src/**/*.{ts,tsx}`
    pattern: String,
    /// The folder to look in; the project folder unless given
    #[serde(default)]
    path: Option<String>,
    /// How many files to show (default 100)
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    #[serde(default)]
    limit: Option<usize>,
}

impl GlobInput {
    /// The folder that is searched, and the pattern below it: an absolute pattern names another folder.
    fn aim(&self, scope: &Scope) -> Result<(PathBuf, String), Failure> {
        let folder = SearchRoot::named(self.path.as_deref(), scope);
        Ok(match wildcard::split(&self.pattern)? {
            Some((leap, rest)) => (scope.resolve(&folder.join(leap).to_string_lossy()), rest),
            None => (folder, self.pattern.clone()),
        })
    }
}

impl Tool for GlobTool {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "Finds files by name. The pattern may have `*`, `**`, `?`, `{a,b}` and `[a-z]`; one without a slash means a \
         name at any depth. Shows absolute paths, the most recently changed files first, at most 100 unless `limit` \
         says otherwise. Files that git ignores are left out, hidden ones are not. To search in files use `grep`."
    }

    fn schema(&self) -> Value {
        schema::<GlobInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: GlobInput = decode(self.name(), input.clone())?;
        let (folder, _) = input.aim(scope)?;
        let mut metadata = Map::new();
        metadata.insert("pattern".to_owned(), json!(input.pattern));
        metadata.extend(input.path.as_ref().map(|path| ("path".to_owned(), json!(path))));
        let own = Need {
            permission: "glob".to_owned(),
            patterns: vec![input.pattern],
            always: vec!["*".to_owned()],
            metadata,
        };
        Ok(walk::needs(own, &folder, scope))
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: GlobInput = decode(self.name(), input)?;
            walk::within(self.patience, context.cancel.clone(), move |stop| find(&input, &context, stop))
                .await
        })
    }
}

fn find(input: &GlobInput, context: &Context, stop: &StopCondition) -> Result<Output, Failure> {
    let limit = limit(input.limit, LIMIT, LIMIT_MAX)?;
    let (folder, pattern) = input.aim(&context.scope)?;
    let wildcard = Wildcard::parse("pattern", &pattern)?;
    let title = context.scope.relative(&folder);
    let tree = SearchRoot::granted(folder, context)?.tree()?;
    let all = Mutex::new(NewestFiles::new(limit));
    tree.walk().build_parallel().run(|| {
        let (tree, wildcard) = (&tree, &wildcard);
        let mut own = ThreadFinds { found: NewestFiles::new(limit), all: &all };
        let mut pulse = StopCheck::default();
        Box::new(move |entry| {
            if pulse.stops(stop) {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else {
                tree.passed_over();
                return WalkState::Continue;
            };
            let below = tree.below(entry.path());
            match entry.file_type() {
                Some(kind) if kind.is_dir() && !wildcard.enters(below) => WalkState::Skip,
                Some(kind) if kind.is_file() && wildcard.matches(below) => {
                    // Only a file that matches is asked for its age.
                    if let Ok(modified) = tree.modified(below) {
                        own.found.offer(modified, below);
                    }
                    WalkState::Continue
                }
                _ => WalkState::Continue,
            }
        })
    });
    stop.cancelled()?;
    let NewestFiles { best, found, .. } = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let best = best.into_sorted_vec();
    let truncated = found > best.len();
    let paths: Vec<String> = best
        .iter()
        .filter(|(_, below)| tree.holds(below))
        .map(|(_, below)| tree.shown(below).display().to_string())
        .collect();
    let mut text = if paths.is_empty() { NOTHING.to_owned() } else { paths.join("\n") };
    if truncated {
        text.push_str(&format!(
            "\n\n(The {} newest of {found} files. Use a narrower pattern or path, or a higher limit.)",
            paths.len()
        ));
    }
    text.push_str(&walk::remarks(&tree, stop));
    let mut metadata = Map::new();
    metadata.insert("count".to_owned(), json!(paths.len()));
    metadata.insert("truncated".to_owned(), json!(truncated));
    Ok(Output { title, output: text, metadata, ..Output::default() })
}

/// The newest files of those that were found, and how many there were.
#[derive(Debug)]
struct NewestFiles {
    limit: usize,
    found: usize,
    /// The one to drop first is on top.
    best: BinaryHeap<(Reverse<Modified>, PathBuf)>,
}

impl NewestFiles {
    fn new(limit: usize) -> Self {
        Self { limit, found: 0, best: BinaryHeap::new() }
    }

    fn offer(&mut self, modified: Modified, below: &Path) {
        self.found += 1;
        let full = self.best.len() >= self.limit;
        if full {
            let better = |(age, path): &(_, PathBuf)| (Reverse(modified), below) < (*age, path.as_path());
            if !self.best.peek().is_some_and(better) {
                return;
            }
            self.best.pop();
        }
        self.best.push((Reverse(modified), below.to_owned()));
    }
}

/// What one thread has found; it joins what all have found when the thread ends.
struct ThreadFinds<'a> {
    found: NewestFiles,
    all: &'a Mutex<NewestFiles>,
}

impl Drop for ThreadFinds<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let others = self.found.found - self.found.best.len();
        for (Reverse(modified), below) in self.found.best.drain() {
            all.offer(modified, &below);
        }
        all.found += others;
    }
}
