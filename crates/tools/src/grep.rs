//! The `grep` tool: lines that match a regular expression, found by ripgrep's own parts in this process.
//!
//! The newest files come first, so all files must be looked at before it is known which lines are shown. Only the best
//! lines so far are kept. Once there are as many as may be shown, and it is known that there are more, a file that is
//! older than all of them is not opened any more: it could change nothing. What is shown is therefore the same
//! whatever the order in which the threads find it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use ignore::WalkState;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::scope::{PathAccess, Scope};
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::walk::{self, Modified, SearchRoot, SearchTree, StopCheck, StopCondition};
use crate::wildcard::Wildcard;

/// Matches shown unless the call asks for fewer or more.
const LIMIT: usize = 100;
/// The most matches a call may ask for.
const LIMIT_MAX: usize = 1000;
/// Characters shown of one line.
const LINE_CHARS: usize = 2000;
/// Bytes of the longest line that is searched.
const LINE_MAX: usize = 32 * 1024 * 1024;
/// Bytes of a file that are read before it is asked again whether to go on.
const UNWATCHED: usize = 256 * 1024;
/// Bytes of a compiled expression, and of what a thread keeps to match it fast.
const REGEX_MAX: usize = 16 * 1024 * 1024;
/// The longest pattern whose mistake is shown in place.
const PATTERN_SHOWN: usize = 500;
/// What is said when nothing matches.
pub(crate) const NOTHING: &str = "No files found";

/// The tool that searches the content of files.
#[derive(Debug, Clone, Copy)]
pub struct GrepTool {
    /// How long a search may take before it ends with what it has found.
    pub patience: Duration,
}

impl Default for GrepTool {
    fn default() -> Self {
        Self { patience: walk::PATIENCE }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct GrepInput {
    /// The regular expression (Rust's syntax) to look for in each line
    pattern: String,
    /// The folder or file to search; the project folder unless given
    #[serde(default)]
    path: Option<String>,
    /// Only files that match this glob pattern, such as `*.rs` or `src/**/*.{ts,tsx}`
    #[serde(default)]
    include: Option<String>,
    /// How many matches to show (default 100)
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    #[serde(default)]
    limit: Option<usize>,
}

impl Tool for GrepTool {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Searches the content of files with a regular expression, line by line, and shows matching lines with their \
         numbers, those of the most recently changed files first. `path` narrows it to a folder or a file, `include` \
         to names that match a glob pattern. Files that git ignores and binary files are left out, hidden ones are \
         not. At most 100 matches unless `limit` says otherwise. To find files by name use `glob`."
    }

    fn schema(&self) -> Value {
        schema::<GrepInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: GrepInput = decode(self.name(), input.clone())?;
        let mut metadata = Map::new();
        metadata.insert("pattern".to_owned(), json!(input.pattern));
        metadata.extend(input.path.as_ref().map(|path| ("path".to_owned(), json!(path))));
        metadata.extend(input.include.as_ref().map(|include| ("include".to_owned(), json!(include))));
        let path = SearchRoot::named(input.path.as_deref(), scope);
        let own = Need {
            permission: "grep".to_owned(),
            patterns: vec![input.pattern],
            always: vec!["*".to_owned()],
            metadata,
        };
        let mut needs = walk::needs(own, &path, scope);
        // One file by its name is read as the `read` tool reads it, and asks the same.
        if !path.is_dir() {
            needs.push(Need {
                permission: PathAccess::Read.permission().to_owned(),
                patterns: scope.patterns(&path),
                always: vec!["*".to_owned()],
                metadata: Map::new(),
            });
        }
        Ok(needs)
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: GrepInput = decode(self.name(), input)?;
            walk::within(self.patience, context.cancel.clone(), move |stop| search(input, &context, stop))
                .await
        })
    }
}

fn search(input: GrepInput, context: &Context, stop: &StopCondition) -> Result<Output, Failure> {
    let limit = limit(input.limit, LIMIT, LIMIT_MAX)?;
    let matcher = compile(&input.pattern)?;
    let include = input.include.as_deref().map(|text| Wildcard::parse("include", text)).transpose()?;
    let place = SearchRoot::granted(SearchRoot::named(input.path.as_deref(), &context.scope), context)?;
    let best = Mutex::new(BestMatches { limit, ..BestMatches::default() });
    if !place.is_folder()? {
        context.permitted(place.target(), PathAccess::Read)?;
        return single(input.pattern, &place, &matcher, best, stop);
    }
    let tree = place.tree()?;
    let shown = tree.shown(Path::new(""));
    let spelled = context.scope.spelled(tree.real());
    let hunt = SharedSearch {
        tree: &tree,
        folders: if shown == spelled { vec![shown] } else { vec![shown, spelled] },
        matcher: &matcher,
        include: include.as_ref(),
        limit,
        best: &best,
        full: AtomicBool::new(false),
        stop,
        context,
    };
    tree.walk().build_parallel().run(|| {
        let (mut searcher, mut pulse) = (searcher(&matcher), StopCheck::default());
        let hunt = &hunt;
        Box::new(move |entry| {
            if pulse.stops(hunt.stop) {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    hunt.look(&mut searcher, hunt.tree.below(entry.path()));
                }
                Ok(_) => {}
                Err(_) => hunt.tree.passed_over(),
            }
            WalkState::Continue
        })
    });
    stop.cancelled()?;
    let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    let remarks = walk::remarks(&tree, stop);
    Ok(best.output(input.pattern, &remarks, |below| tree.shown(below)))
}

/// How many results a call wants.
pub(crate) fn limit(asked: Option<usize>, default: usize, most: usize) -> Result<usize, Failure> {
    match asked.unwrap_or(default) {
        0 => Err(Failure::InvalidInput("limit must be at least 1.".to_owned())),
        limit if limit > most => Err(Failure::InvalidInput(format!("limit may be {most} at most."))),
        limit => Ok(limit),
    }
}

fn compile(pattern: &str) -> Result<RegexMatcher, Failure> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).size_limit(REGEX_MAX).dfa_size_limit(REGEX_MAX);
    // Lines are shown without the carriage return at their end, so `$` is before it; unless it is looked for itself.
    let built = builder.clone().crlf(true).build(pattern);
    built
        .or_else(|_| builder.line_terminator(Some(b'\n')).build(pattern))
        .map_err(|error| {
            // The matcher wraps the pattern before it parses it, which would move the position.
            let reason = regex_syntax::parse(pattern).err().map_or_else(|| error.to_string(), |own| own.to_string());
            let reason =
                if pattern.len() > PATTERN_SHOWN { reason.lines().last().unwrap_or_default() } else { &reason };
            Failure::Failed(format!(
                "The pattern cannot be used: {reason}\nIt is a regular expression in Rust's syntax, matched against \
                 one line at a time. Put a backslash before characters that are meant literally."
            ))
        })
}

fn searcher(matcher: &RegexMatcher) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(matcher.line_terminator().unwrap_or_default())
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .heap_limit(Some(LINE_MAX))
        .build()
}

/// Searches one file that was named.
fn single(
    pattern: String,
    place: &SearchRoot,
    matcher: &RegexMatcher,
    best: Mutex<BestMatches>,
    stop: &StopCondition,
) -> Result<Output, Failure> {
    let file = place.open()?;
    let mut best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut found = FileMatches::new(best.limit);
    let result = searcher(matcher).search_reader(matcher, InterruptibleFile::new(&file, stop), &mut found);
    stop.cancelled()?;
    let remark = match result {
        Err(error) if !stop.late() => format!("\n\n(The search ended early: {error}.)"),
        _ if stop.late() => "\n\n(Time was over before everything was looked at.)".to_owned(),
        _ if found.binary => {
            "\n\n(It is a binary file and was searched only up to its first NUL.)".to_owned()
        }
        _ => String::new(),
    };
    best.insert(MatchRank::new((0, 0), Path::new("")), found);
    Ok(best.output(pattern, &remark, |_| place.shown().to_owned()))
}

/// What the threads of a search share.
#[derive(Debug)]
struct SharedSearch<'a> {
    tree: &'a SearchTree,
    /// The folder under every name that rules may know it by.
    folders: Vec<PathBuf>,
    matcher: &'a RegexMatcher,
    include: Option<&'a Wildcard>,
    limit: usize,
    best: &'a Mutex<BestMatches>,
    /// Whether there are as many matches as may be shown, so that the age of a file matters.
    full: AtomicBool,
    stop: &'a StopCondition,
    context: &'a Context,
}

impl SharedSearch<'_> {
    fn look(&self, searcher: &mut Searcher, below: &Path) {
        if self.include.is_some_and(|include| !include.matches(below)) {
            return;
        }
        let Some(max) = self.room(below) else { return };
        let Ok(file) = self.tree.open(below) else {
            self.tree.passed_over();
            return;
        };
        let mut found = FileMatches::new(max);
        if searcher.search_reader(self.matcher, InterruptibleFile::new(&file, self.stop), &mut found).is_err()
            && !self.stop.now()
        {
            self.tree.passed_over();
        }
        if found.lines.is_empty() {
            return;
        }
        // Without a word: to say that something was left out would tell that it matches.
        let Context { readable, scope, .. } = self.context;
        if !self.folders.iter().all(|folder| readable.allows(&scope.label(&folder.join(below)))) {
            return;
        }
        // Only a file with a match is asked for its age.
        let Ok(meta) = file.metadata() else { return };
        let key = MatchRank::new(walk::modified(&meta), below);
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        best.insert(key, found);
        self.full.store(best.lines >= best.limit, Ordering::Release);
    }

    /// How many matches of a file are worth having; nothing if the file is not worth opening.
    fn room(&self, below: &Path) -> Option<usize> {
        if !self.full.load(Ordering::Acquire) {
            return Some(self.limit);
        }
        let key = MatchRank::new(self.tree.modified(below).ok()?, below);
        let best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.files.last_key_value().is_none_or(|(worst, _)| key < *worst) {
            Some(self.limit)
        } else {
            // It can only tell that there is more.
            (!best.more).then_some(1)
        }
    }
}

/// The place of a file in the results: newest first, then by path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MatchRank {
    modified: Reverse<Modified>,
    below: PathBuf,
}

impl MatchRank {
    fn new(modified: Modified, below: &Path) -> Self {
        Self { modified: Reverse(modified), below: below.to_owned() }
    }
}

/// The best matches so far.
#[derive(Debug, Default)]
struct BestMatches {
    limit: usize,
    files: BTreeMap<MatchRank, Vec<MatchedLine>>,
    lines: usize,
    /// Whether there are matches that are not among them.
    more: bool,
}

impl BestMatches {
    fn insert(&mut self, key: MatchRank, found: FileMatches) {
        self.more |= found.more;
        if found.lines.is_empty() {
            return;
        }
        self.lines += found.lines.len();
        self.files.insert(key, found.lines);
        while self.lines > self.limit {
            self.more = true;
            let Some(mut worst) = self.files.last_entry() else { break };
            let excess = self.lines - self.limit;
            let lines = worst.get_mut();
            if lines.len() > excess {
                lines.truncate(lines.len() - excess);
                self.lines = self.limit;
            } else {
                self.lines -= worst.remove().len();
            }
        }
    }

    fn output(self, title: String, remarks: &str, shown: impl Fn(&Path) -> PathBuf) -> Output {
        let mut text = String::new();
        if self.lines == 0 {
            text.push_str(NOTHING);
        } else {
            write!(text, "Found {} matches", self.lines).ok();
        }
        for (position, (key, lines)) in self.files.iter().enumerate() {
            let gap = if position == 0 { "\n" } else { "\n\n" };
            write!(text, "{gap}{}:", shown(&key.below).display()).ok();
            for line in lines {
                write!(text, "\n  Line {}: {}", line.number, line.text).ok();
            }
        }
        if self.more {
            write!(
                text,
                "\n\n(There are more matches; these are the first {} in order of change. Use a narrower pattern, \
                 path or include, or a higher limit.)",
                self.lines
            )
            .ok();
        }
        text.push_str(remarks);
        let mut metadata = Map::new();
        metadata.insert("matches".to_owned(), json!(self.lines));
        metadata.insert("truncated".to_owned(), json!(self.more));
        Output { title, output: text, metadata, ..Output::default() }
    }
}

/// A line that matched.
#[derive(Debug)]
struct MatchedLine {
    number: u64,
    text: String,
}

/// The matches of one file, as many as are wanted.
#[derive(Debug)]
struct FileMatches {
    lines: Vec<MatchedLine>,
    max: usize,
    more: bool,
    binary: bool,
}

impl FileMatches {
    fn new(max: usize) -> Self {
        Self { lines: Vec::new(), max, more: false, binary: false }
    }
}

impl Sink for &mut FileMatches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.lines.len() >= self.max {
            self.more = true;
            return Ok(false);
        }
        let line = MatchedLine { number: found.line_number().unwrap_or_default(), text: cut(found.bytes()) };
        self.lines.push(line);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The text of a line as it is shown.
fn cut(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // No character has more than four bytes.
    let start = line.get(..LINE_CHARS * 4 + 4).unwrap_or(line);
    let text = String::from_utf8_lossy(start);
    match text.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => {
            format!("{}... (line cut at {LINE_CHARS} characters)", text.get(..end).unwrap_or_default())
        }
        None => text.into_owned(),
    }
}

/// A file that ends when the search must.
struct InterruptibleFile<'a> {
    file: &'a File,
    stop: &'a StopCondition,
    unwatched: usize,
}

impl<'a> InterruptibleFile<'a> {
    fn new(file: &'a File, stop: &'a StopCondition) -> Self {
        Self { file, stop, unwatched: 0 }
    }
}

impl Read for InterruptibleFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Small files are over before anybody could want them to be.
        if self.unwatched > UNWATCHED {
            self.unwatched = 0;
            if self.stop.now() {
                return Err(io::Error::other("the search was stopped"));
            }
        }
        let count = self.file.read(buffer)?;
        self.unwatched += count;
        Ok(count)
    }
}
