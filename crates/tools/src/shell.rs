//! What a command line would run, for permission rules.
//!
//! A rule such as `git *` must not let `git status; rm -rf ~` through, and a rule against `rm *` must see the `rm`
//! behind `&&` or inside `$(…)`. So a line is taken apart into its simple commands, each of which must be allowed.
//! The line is parsed with the shell's grammar, and read a second time by the shell's rules for words; only where
//! both agree, and only with kinds of syntax that are on a list, does the analysis count.
//!
//! The patterns of a line, all of which must be allowed before it may run:
//!
//! - `git log -1`: a command, wherever the shell would start one. Quotes are gone where they only quote.
//! - `rm x` beside `/bin/rm x`, `git push` beside `git -P push`: the command as a rule against it would name it.
//! - `A=1 git log` and `git log`: a command with variables set for it, with and without them. Variables that only say
//!   how to print, as in `NO_COLOR=1 git log`, are left out.
//! - `> notes.txt`: a redirection that writes, with the file as rules name files. A rule for the program does not
//!   cover it. A file that `sed -i` edits is named likewise. Reading, `/dev/null` and other descriptors need nothing.
//! - [`RUNS`]` find . -delete`: a command whose arguments make it run other programs, or write files although its program
//!   only reads, so that `find *` alone is not enough. What `env`, `timeout` and `xargs` run is listed as a command as well.
//! - [`CHANGES`]` alias ls=rm`: a command that changes what later ones do. Setting a variable with a small name, as
//!   in `for f in *.rs`, is not one: nothing but the line itself looks at it.
//! - [`OPAQUE`]` …`: the whole line, when something in it is not understood, or too long, or too deep.
//!
//! The last three match no rule that names a program, only one such as `*` or one that repeats the prefix.
//!
//! Besides, a line is asked where it leads. Every word of every command may be a path, and so may what stands in it
//! where one can begin. Those that lie outside the project are named, so that a person can permit them. Nothing else is
//! followed: a command with a variable, a substitution, alternatives or a pattern among its words may reach any path
//! ([`UNRESOLVED`]), and so may one that runs other programs or takes names of files from elsewhere. Names in one folder, as
//! in `src/*.rs`, are the exception. A wall around the command makes what is not resolved harmless; without one it needs a
//! permission. There is no list of the programs that take paths, only of those that write them and of those that open nothing.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::scope::{PathAccess, Scope};
use crate::tool::Need;

mod agreement;
mod builtins;
mod git;
mod launchers;
mod lexer;
mod mentions;
mod options;
mod paths;
mod programs;
mod remember;
mod repositories;
mod script;
mod syntax;
mod variables;
mod walk;
mod word;

pub(crate) use remember::exact;

/// What stands before a line that is not understood.
pub const OPAQUE: &str = "(not analysed) ";
/// What stands before a command that runs other programs.
pub const RUNS: &str = "(runs other programs) ";
/// What stands before a command that changes what later ones do.
pub const CHANGES: &str = "(changes the shell) ";

/// What stands before a command with a word that may be any path.
pub const UNRESOLVED: &str = "(not resolved) ";

/// The mark before a pattern that says that more may happen than the pattern names.
fn mark(pattern: &str) -> Option<&'static str> {
    [OPAQUE, RUNS, CHANGES].into_iter().find(|mark| pattern.starts_with(mark))
}

/// A command of which only the beginning is known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncertainCommand<'p> {
    /// What it begins with for certain.
    pub beginning: &'p str,
    /// What a rule begins with that means just such commands.
    pub mark: &'static str,
    /// Whether that stands before its pattern, too.
    pub is_marked: bool,
}

impl<'p> UncertainCommand<'p> {
    /// What is known of one of the patterns of a line; nothing if it is all there is to it. Of a command that runs others, or
    /// that is not understood, nothing is known.
    #[must_use]
    pub fn of(pattern: &'p str) -> Option<Self> {
        if let Some(mark) = mark(pattern) {
            return Some(Self { beginning: "", mark, is_marked: true });
        }
        let (mut quoted, mut word, mut rest) = (None, 0, pattern.char_indices().peekable());
        while let Some((at, letter)) = rest.next() {
            match (letter, quoted) {
                ('\'', Some('\'')) | ('"', Some('"')) => quoted = None,
                (_, Some('\'')) => {}
                ('\\', _) => drop(rest.next()),
                ('\'' | '"', None) => quoted = Some(letter),
                (' ', None) => word = at + 1,
                // A command of this name.
                ('[', None) if matches!(rest.peek(), None | Some((_, ' ' | '['))) => {}
                ('$' | '`', _) | ('*' | '?' | '[' | '{', None) => {
                    let beginning = pattern.get(..word).unwrap_or_default();
                    return Some(Self { beginning, mark: UNRESOLVED, is_marked: false });
                }
                _ => {}
            }
        }
        None
    }
}

/// What must be allowed before a line may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// The patterns that must all be allowed, in order and without repeats; never empty.
    pub commands: Vec<String>,
    /// The patterns to remember when the person answers "always".
    pub always: Vec<String>,
    /// Paths outside the project that the line names.
    pub external: Vec<(PathBuf, PathAccess)>,
    /// The commands in which a word may name a path that cannot be told before they run, in order and without repeats.
    pub unresolved: Vec<String>,
}

impl Analysis {
    /// Takes a line apart that would run in `workdir`.
    #[must_use]
    pub fn of(line: &str, workdir: &Path, scope: &Scope) -> Self {
        walk::analyse(line, workdir, scope)
    }

    /// The permissions for the paths outside the project, without repeats.
    #[must_use]
    pub fn external_needs(&self, scope: &Scope) -> Vec<Need> {
        let mut needs: Vec<Need> = Vec::new();
        let all = self.external.iter().flat_map(|(path, access)| scope.external(path, *access));
        all.for_each(|need| need.add_to(&mut needs));
        needs
    }

    /// The permission for the commands in which a word may name any path; nothing if there is none.
    #[must_use]
    pub fn unresolved_need(&self) -> Option<Need> {
        let patterns: Vec<String> =
            self.unresolved.iter().map(|command| format!("{UNRESOLVED}{command}")).collect();
        // The same text with a variable in it may be another path the next time.
        let always = patterns.iter().filter_map(|pattern| exact(pattern)).collect();
        let mut metadata = Map::new();
        metadata.insert("command".to_owned(), Value::String(self.unresolved.join("\n")));
        let permission = "external_directory".to_owned();
        (!patterns.is_empty()).then_some(Need { permission, patterns, always, metadata })
    }
}
