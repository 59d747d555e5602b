//! From a line's tree to the commands in it.
//!
//! The walk goes everywhere, also where something was not understood: what it finds there can still be denied by a
//! rule. But a line with anything that is not on the list of known kinds is marked as a whole.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use tree_sitter::Node;

use super::agreement::KEYWORDS;
use super::launchers::LaunchedCommand;
use super::lexer::{SubstitutionEnds, Unsure};
use super::paths::{OutsidePaths, PossibleFolders};
use super::programs::Concern;
use super::syntax::{children, start, text};
use super::word::CommandWord;
use super::{
    Analysis, CHANGES, OPAQUE, RUNS, agreement, git, launchers, programs, remember, repositories, script,
    syntax, variables,
};
use crate::scope::{PathAccess, Scope, real};

mod conditions;
mod expansions;
mod reach;
mod redirections;

/// The kinds of syntax that are understood.
const KINDS: &str = "\
    program list pipeline command command_name word string string_content raw_string ansi_c_string number \
    concatenation simple_expansion expansion variable_name special_variable_name command_substitution \
    process_substitution arithmetic_expansion brace_expression redirected_statement file_redirect \
    file_descriptor heredoc_redirect heredoc_start heredoc_body heredoc_content heredoc_end herestring_redirect \
    subshell compound_statement negated_command if_statement elif_clause else_clause while_statement \
    for_statement do_group case_statement case_item extglob_pattern test_command unary_expression \
    binary_expression parenthesized_expression test_operator variable_assignment variable_assignments \
    declaration_command unset_command function_definition comment regex";

/// Launchers inside launchers are followed this far.
const LAUNCHES_MAX: usize = 8;

/// Takes a line apart.
pub(super) fn analyse(line: &str, workdir: &Path, scope: &Scope) -> Analysis {
    let mut walk = TreeWalk {
        line,
        scope,
        ends: SubstitutionEnds::new(),
        folders: PossibleFolders::new(workdir, scope),
        found: Vec::new(),
        relative: Vec::new(),
        repositories: Vec::new(),
        always: Vec::new(),
        external: Vec::new(),
        unresolved: Vec::new(),
        opaque: false,
        loops: false,
        reopens: false,
        crossed: false,
        moved: false,
        unsettled: false,
    };
    walk.run();
    walk.finish()
}

struct TreeWalk<'a> {
    line: &'a str,
    scope: &'a Scope,
    ends: SubstitutionEnds,
    folders: PossibleFolders<'a>,
    found: Vec<String>,
    /// Commands that are paths, which mean something else in another folder.
    relative: Vec<String>,
    /// Commands that work in the repository which they find.
    repositories: Vec<String>,
    always: Vec<String>,
    external: OutsidePaths,
    /// Commands with a word that may be any path.
    unresolved: Vec<String>,
    opaque: bool,
    loops: bool,
    /// A device is written to that stands for an open descriptor.
    reopens: bool,
    /// What is written to may be a file that was opened to be read.
    crossed: bool,
    /// A command before may have brought files into the project.
    moved: bool,
    /// Git works in a repository that may have come with such a change.
    unsettled: bool,
}

impl TreeWalk<'_> {
    fn run(&mut self) {
        // Neither the shell nor the grammar is sure of what these are.
        let odd = |c: char| c.is_control() && c != '\n' && c != '\t';
        if self.line.contains(odd) {
            self.opaque = true;
        }
        let Some(tree) = syntax::tree(self.line) else {
            self.opaque = true;
            return;
        };
        let Some(nodes) = syntax::all(&tree) else {
            self.opaque = true;
            return;
        };
        self.ends = syntax::ends(nodes.iter().map(|(node, _)| *node), self.line);
        let agreed = agreement::check(tree.root_node(), self.line, &self.ends).is_ok();
        self.opaque |= tree.root_node().has_error() || !agreed;
        let condition = syntax::condition(&tree, self.line);
        for (node, parent) in nodes {
            self.folders.left = Some(node) == condition;
            let known = !node.is_named() || programs::listed(KINDS, node.kind());
            if node.is_missing() || !known || !self.visit(node, parent) {
                self.opaque = true;
            }
        }
    }

    fn finish(mut self) -> Analysis {
        self.opaque |= self.reopens && self.crossed;
        self.unsettled |= self.moved && self.loops;
        self.opaque |= self.moved && self.folders.unfounded.get();
        self.opaque |= self.folders.lost || self.folders.climbs && self.loops;
        if !self.folders.home() {
            let elsewhere = std::mem::take(&mut self.relative);
            self.found.extend(elsewhere.into_iter().map(|text| format!("{RUNS}{text}")));
        }
        let elsewhere = self.folders.foreign() || self.unsettled && self.folders.deeper();
        if !self.repositories.is_empty() && elsewhere {
            let elsewhere = std::mem::take(&mut self.repositories);
            self.found.extend(elsewhere.into_iter().map(|text| format!("{RUNS}{text}")));
        }
        if self.found.is_empty() || self.opaque {
            self.found.push(if self.opaque {
                format!("{OPAQUE}{}", self.line)
            } else {
                self.line.to_owned()
            });
        }
        if self.opaque {
            self.always.clear();
            self.unresolved = vec![self.line.to_owned()];
        }
        // Who may write a file need not ask to read it.
        let writes = |(_, access): &&(PathBuf, PathAccess)| *access == PathAccess::Write;
        let written: HashSet<PathBuf> =
            self.external.iter().filter(writes).map(|(path, _)| path.clone()).collect();
        self.external.retain(|(path, access)| *access == PathAccess::Write || !written.contains(path));
        Analysis {
            commands: distinct(self.found),
            always: distinct(self.always),
            external: distinct(self.external),
            unresolved: distinct(self.unresolved),
        }
    }

    /// Looks at one node; false if it is not understood.
    fn visit(&mut self, node: Node<'_>, parent: Option<Node<'_>>) -> bool {
        let source = text(node, self.line);
        match node.kind() {
            "command" => self.command(node).is_ok(),
            "declaration_command" | "unset_command" => {
                self.found.push(source.to_owned());
                self.found.push(format!("{CHANGES}{source}"));
                self.declared(node)
            }
            "function_definition" => {
                let name = node.child_by_field_name("name").map_or("", |name| text(name, self.line));
                self.found.push(format!("{CHANGES}function {name}"));
                true
            }
            "variable_assignment" => parent.is_some_and(|parent| self.assignment(node, parent)),
            "for_statement" => {
                self.loops = true;
                let name = node.child_by_field_name("variable").map_or("", |name| text(name, self.line));
                self.reach_by_loop(node).is_ok() && variables::small(name)
            }
            "while_statement" => {
                self.loops = true;
                true
            }
            "file_redirect" => self.redirection(node).is_ok(),
            "test_command" => self.test(node).is_ok(),
            "expansion" => expansions::plain_expansion(source.trim_start()),
            "arithmetic_expansion" => expansions::plain_arithmetic(source.trim_start()),
            "extglob_pattern" => source.chars().all(|c| c.is_alphanumeric() || "_.*?/@%+,:=~-".contains(c)),
            "regex" => !source.contains(['$', '`']),
            "compound_statement" => source.starts_with('{'),
            // A word that the grammar takes for one may still be a keyword to the shell.
            "command_name" => !KEYWORDS.contains(&source) || source == "time",
            _ => true,
        }
    }

    fn word(&self, node: Node<'_>) -> Result<CommandWord, Unsure> {
        let at = start(node, self.line);
        let source = self.line.get(at..node.end_byte()).ok_or(Unsure)?;
        CommandWord::read(source, at, &self.ends)
    }

    fn command(&mut self, node: Node<'_>) -> Result<(), Unsure> {
        let mut assignments = Vec::new();
        let mut words = Vec::new();
        let mut sure = true;
        for (field, child) in children(node) {
            let list = match (child.kind(), field) {
                ("variable_assignment", _) => &mut assignments,
                ("command_name", _) | (_, Some("argument")) => &mut words,
                _ => continue,
            };
            match self.word(child) {
                Ok(word) => list.push(word),
                Err(Unsure) => {
                    sure = false;
                    list.push(CommandWord::unknown(text(child, self.line)));
                }
            }
        }
        self.simple(&assignments, &words, 0)?;
        if sure { Ok(()) } else { Err(Unsure) }
    }

    /// A command with its words, as the shell or a launcher starts it.
    fn simple(
        &mut self,
        assignments: &[CommandWord],
        words: &[CommandWord],
        depth: usize,
    ) -> Result<(), Unsure> {
        let text = remember::text(words);
        if !assignments.is_empty() && !variables::quiet(assignments, words) {
            let whole = format!("{} {text}", remember::text(assignments));
            let names =
                assignments.iter().map(|word| word.text.split(['=', '+', '[']).next().unwrap_or_default());
            if names.clone().any(variables::commanding) {
                self.found.push(format!("{CHANGES}{whole}"));
            } else if assignments.iter().all(|word| word.value.is_some()) {
                self.always.extend(remember::exact(&whole));
            }
            for assignment in assignments {
                self.reach_by_variable(&whole, assignment, false);
            }
            self.found.push(whole);
        }
        self.found.push(text.clone());
        let Some((name, arguments)) = words.split_first() else { return Err(Unsure) };
        let plain = |c: char| c.is_ascii_alphanumeric() || "_./+:@%,-[".contains(c);
        let name = name.known().filter(|name| !name.is_empty() && name.chars().all(plain)).ok_or(Unsure)?;
        if name.contains('/') && !name.starts_with('/') {
            self.relative.push(text.clone());
        }
        let base = programs::base(name);
        if repositories::read_by(base) {
            self.repositories.push(text.clone());
            self.unsettled |= self.moved;
        }
        self.moved |= PossibleFolders::fills(base, arguments) || base == "git" && git::moves(arguments);
        let canonical = self.canonical(name, words);
        self.found.extend(canonical.iter().map(|words| remember::text(words)));
        if base == "sed" {
            let sed = script::sed(arguments);
            for file in sed.edited {
                self.written(file);
                if let (Some(suffix), Some(path)) = (sed.suffix, file.known()) {
                    let copy =
                        CommandWord { tilde: file.tilde, ..CommandWord::literal(&format!("{path}{suffix}")) };
                    self.written(&copy);
                }
            }
        }
        let inner = launchers::inner(base, arguments).map(|inner| match inner {
            LaunchedCommand::Command { .. } if depth >= LAUNCHES_MAX => LaunchedCommand::Unknown,
            inner => inner,
        });
        let concern = match &inner {
            Some(LaunchedCommand::Unknown) => Some(Concern::Runs),
            Some(_) => None,
            None if base == "git" && git::remotes(arguments).into_iter().any(|remote| self.local(remote)) => {
                Some(Concern::Runs)
            }
            None => programs::concern(name, arguments),
        };
        self.reach(base, words, inner.as_ref(), concern);
        if matches!(base, "cd" | "pushd") {
            self.folders.enter(arguments);
        }
        if base == "popd" && !arguments.is_empty() {
            self.folders.lost = true;
        }
        let concern = match inner {
            Some(LaunchedCommand::Command { assignments, words }) => {
                self.launched(base, &assignments, &words, depth)?;
                launchers::is_fed_by_xargs(base, &words).then_some(Concern::Runs)
            }
            _ => concern,
        };
        match concern {
            Some(Concern::Changes) => self.found.push(format!("{CHANGES}{text}")),
            Some(Concern::Runs) => {
                if words.iter().all(|word| word.value.is_some()) {
                    let marked = format!("{RUNS}{text}");
                    self.always
                        .extend([remember::exact(&text), remember::exact(&marked)].into_iter().flatten());
                    self.always
                        .extend(canonical.iter().filter_map(|words| remember::exact(&remember::text(words))));
                }
                self.found.push(format!("{RUNS}{text}"));
            }
            None => {
                self.always.extend(remember::pattern(words));
                self.always.extend(canonical.iter().filter_map(|words| remember::pattern(words)));
            }
        }
        Ok(())
    }

    /// The same command as a rule against it would name it: by the program's bare name, and git without the options
    /// before its sub-command. It must be allowed as well as what is written.
    fn canonical(&self, name: &str, words: &[CommandWord]) -> Option<Vec<CommandWord>> {
        let (_, arguments) = words.split_first()?;
        let installed = self.installed(name);
        let bare = installed.as_deref().unwrap_or(name);
        let subcommand = if programs::base(bare) == "git" { git::bare(arguments) } else { None };
        if installed.is_none() && subcommand.is_none() {
            return None;
        }
        let rest = subcommand.unwrap_or(arguments);
        Some([CommandWord::literal(bare)].into_iter().chain(rest.iter().cloned()).collect())
    }

    /// The bare name of a program that is called by its path, if the system keeps it there.
    fn installed(&self, name: &str) -> Option<String> {
        let places = self.folders.resolve(name, false).filter(|_| name.contains('/'))?;
        places.iter().find_map(|place| installed(place).or_else(|| installed(&real(place))))
    }

    /// Whether the address of a repository is a folder here, whose hooks git would run.
    fn local(&self, remote: &CommandWord) -> bool {
        let Some(text) = remote.known() else { return true };
        let path = text.starts_with(['.', '/', '~', '-'])
            || text.starts_with("file:")
            || text.split_once('/').is_some_and(|(first, _)| !first.contains(':'));
        let there = |path: &str| {
            self.folders
                .resolve(path, false)
                .into_iter()
                .flatten()
                .any(|place| place.symlink_metadata().is_ok())
        };
        path || self.moved && text != "origin" || there(text) || there(&format!("{text}.git"))
    }

    /// The command that a launcher starts.
    fn launched(
        &mut self,
        launcher: &str,
        assignments: &[CommandWord],
        words: &[CommandWord],
        depth: usize,
    ) -> Result<(), Unsure> {
        // `time` is a keyword to the shell: what follows may be more than a simple command.
        let keyword = words.first().and_then(CommandWord::known).is_some_and(|name| KEYWORDS.contains(&name));
        let assigns = words.first().is_some_and(|word| word.text.contains('='));
        if launcher == "time" && (keyword || assigns) {
            return Err(Unsure);
        }
        self.simple(assignments, words, depth + 1)
    }

    /// What is declared by a word that is no assignment to the grammar, such as `"x=$y"`.
    fn declared(&mut self, node: Node<'_>) -> bool {
        let source = text(node, self.line);
        for (_, child) in children(node).into_iter().skip(1) {
            let Ok(word) = self.word(child) else { return false };
            if child.kind() != "variable_assignment" {
                self.reach_by_variable(source, &word, false);
            }
            // The index of an array is evaluated, with any command in it.
            if text(child, self.line).contains('[') {
                self.unresolved.push(source.to_owned());
            }
        }
        true
    }

    /// A variable that is set by itself, or in front of a command.
    fn assignment(&mut self, node: Node<'_>, parent: Node<'_>) -> bool {
        let alone = !matches!(parent.kind(), "command" | "declaration_command");
        let source = text(node, self.line);
        let name = source.split(['=', '+', '[']).next().unwrap_or_default();
        let shaped = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if parent.kind() != "command" {
            let Ok(word) = self.word(node) else { return false };
            // What is declared programs may get, and go by it.
            self.reach_by_variable(source, &word, alone && variables::small(name));
        }
        if alone && !variables::small(name) {
            self.found.push(source.to_owned());
            self.found.push(format!("{CHANGES}{source}"));
        }
        shaped && source.get(name.len()..).is_some_and(|rest| rest.starts_with('=') || rest.starts_with("+="))
    }
}

/// The name of a program that is installed where the system keeps its programs.
fn installed(path: &Path) -> Option<String> {
    let folders = ["/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
    let parent = path.parent()?;
    let name = path.file_name()?.to_str()?;
    folders.iter().any(|folder| parent == Path::new(folder)).then(|| name.to_owned())
}

/// The values without repeats, each where it first was.
fn distinct<T: std::hash::Hash + Eq + Clone>(values: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.into_iter().filter(|value| seen.insert(value.clone())).collect()
}
