//! What a command may reach by its words: paths outside the project, and what cannot be told.

use super::super::launchers::LaunchedCommand;
use super::super::mentions::{PathMention, PathUse, SEARCHERS};
use super::super::options::{FIND_VALUED, matching};
use super::super::programs::{Concern, INTERPRETERS, SHELLS, listed};
use super::super::word::CommandWord;
use super::super::{git, remember};
use super::TreeWalk;

/// Programs that take names of files or commands from their input, and commands that make another program of a name.
const FED: &str = "\
    cpio bsdcpio pax parallel ed ex vi vim nvim m4 bc dc gnuplot sqlite3 duckdb psql mysql mariadb gdb lldb expect at \
    batch busybox toybox alias shopt hash enable";

/// Options by which programs take names of files, or more options, from a file: letters and long ones.
const LISTS: &[(&str, &str, &str)] = &[
    ("tar bsdtar gtar", "T", "files-from"),
    ("rsync", "", "files-from"),
    ("wc du sort", "", "files0-from"),
    ("git", "", "pathspec-from-file stdin-paths"),
    ("zip", "@", ""),
    ("curl", "K", "config"),
    ("wget", "i", "input-file"),
    ("file", "f", "files-from"),
];

impl TreeWalk<'_> {
    /// What a word may lead a program to.
    pub(super) fn mention(&self, base: &str, uses: PathUse, word: &CommandWord) -> PathMention {
        let mut found = PathMention::default();
        for shape in self.values.shapes(&word.shape, self.at) {
            let mention = self.folders.mention(base, uses, &shape);
            found.outside.extend(mention.outside);
            found.open |= mention.open;
        }
        found
    }

    /// The words with the values that the line itself gives them.
    fn spelled_out(&self, words: &[CommandWord]) -> Vec<CommandWord> {
        let spelled = |word: &CommandWord| match word.value {
            Some(_) => vec![word.clone()],
            None => {
                let shapes = self.values.shapes(&word.shape, self.at);
                shapes.iter().map(|shape| CommandWord::literal(shape)).collect()
            }
        };
        words.iter().flat_map(spelled).collect()
    }

    /// Follows a command's words: what lies outside is named, and a command with a word that may be any path is listed.
    /// Tells whether a program that writes may be led anywhere by a word that is only known later.
    pub(super) fn reach(
        &mut self,
        base: &str,
        words: &[CommandWord],
        inner: Option<&LaunchedCommand>,
        concern: Option<Concern>,
    ) -> bool {
        let (name, arguments) =
            words.split_first().map_or((None, words), |(name, rest)| (name.known(), rest));
        let mut open = match inner {
            // What it runs is followed by itself.
            Some(LaunchedCommand::Command { .. } | LaunchedCommand::Nothing) => return false,
            Some(LaunchedCommand::Unknown) => true,
            None => is_fed(base, &self.spelled_out(arguments), concern),
        };
        // Programs of the system are the same by their paths as by their names, and links of the project its programs.
        let foreign = name.filter(|name| name.contains('/') && self.installed(name).is_none());
        let uses = match PathUse::of(base) {
            PathUse::Talks if foreign.is_some() => PathUse::Unknown,
            uses => uses,
        };
        let mut led = false;
        for word in &path_words(base, arguments, concern.is_some()) {
            let mention = self.mention(base, uses, word);
            open |= mention.open || concern.is_some() && (is_code(base, word) || word.text.contains("<("));
            led |= mention.leads(word);
            self.external.extend(mention.outside);
        }
        if base == "cd" && arguments.is_empty() {
            self.external.extend(self.folders.beyond("~", true, crate::scope::PathAccess::Write));
        }
        let leaves = |name: &&str| name.starts_with('/') || name.split('/').any(|part| part == "..");
        if let Some(name) = foreign.filter(leaves) {
            self.external.extend(self.folders.mention(base, PathUse::Reads, name).outside);
        }
        if open {
            self.unresolved.push(remember::text(words));
        }
        led && uses == PathUse::Writes && !matches!(base, "cd" | "pushd")
    }

    /// Follows the values of variables that programs get.
    pub(super) fn reach_by_variables(&mut self, text: &str, assignments: &[CommandWord]) {
        let mut open = false;
        for word in assignments {
            let mention = self.mention("", PathUse::Unknown, word);
            open |= mention.open;
            self.external.extend(mention.outside);
        }
        if open {
            self.unresolved.push(text.to_owned());
        }
    }
}

/// The words of a command that may be paths. Those that are patterns, scripts or messages are left out, unless the program
/// was made to do something else with them.
fn path_words(base: &str, arguments: &[CommandWord], concern: bool) -> Vec<CommandWord> {
    match base {
        "git" => match git::subcommand(arguments) {
            Some((command, rest)) => {
                let before = arguments.len() - rest.len();
                let before = arguments.get(..before).unwrap_or_default().iter().cloned();
                before.chain(git::without_messages(command, rest)).collect()
            }
            None => arguments.to_vec(),
        },
        "gh" => without_values(arguments, |option| listed("-b --body -t --title", option)),
        "find" if !concern => without_values(arguments, |test| listed(FIND_VALUED, test) && test != "-newer"),
        _ if listed(SEARCHERS, base) && !concern => {
            let mut words = arguments.to_vec();
            if let Some(at) = pattern(base, arguments) {
                words.remove(at);
            }
            words
        }
        _ => arguments.to_vec(),
    }
}

/// The words without those behind an option of these.
fn without_values(arguments: &[CommandWord], valued: impl Fn(&str) -> bool) -> Vec<CommandWord> {
    let mut words = Vec::new();
    let mut rest = arguments.iter().peekable();
    while let Some(word) = rest.next() {
        words.push(word.clone());
        if word.known().is_some_and(&valued) {
            rest.next_if(|value| !value.several);
        }
    }
    words
}

/// Where the pattern or script of a program stands, unless an option brings it, or might take it for its value.
fn pattern(base: &str, arguments: &[CommandWord]) -> Option<usize> {
    let option = |word: &CommandWord| word.prefix.starts_with('-') && word.prefix.len() > 1;
    let brings = |text: &str| match text.strip_prefix("--") {
        Some(long) => ["regexp", "file", "expression", "from-file"].iter().any(|name| long.starts_with(name)),
        None => text.starts_with('-') && text.contains(['e', 'f']),
    };
    let brought = arguments.iter().any(|word| option(word) && brings(&word.prefix));
    let at = arguments.iter().position(|word| !option(word)).filter(|_| !brought)?;
    let before = at.checked_sub(1).and_then(|at| arguments.get(at)).and_then(CommandWord::known);
    let valued = before.is_some_and(|text| text.starts_with("--") && text.len() > 2 && !text.contains('='));
    let imports = base == "jq" && arguments.get(at).is_some_and(imports);
    (!valued && !imports && !arguments.get(at).is_some_and(|word| word.several)).then_some(at)
}

/// Whether a script of jq or yq reads other files.
fn imports(word: &CommandWord) -> bool {
    word.known().is_some_and(|text| {
        let named = ["import", "include", "load"].iter().any(|name| text.contains(name));
        named && text.contains(['"', '('])
    })
}

/// Whether a word holds code, of which nothing is known.
fn is_code(base: &str, word: &CommandWord) -> bool {
    let language = listed(SHELLS, base) || listed(INTERPRETERS, base);
    word.known().is_some_and(|text| {
        text.len() > 1 && text.contains(|c: char| "$`\"'\\;&|<>()\n".contains(c) || language && c == ' ')
    })
}

/// Whether a path is that of something that is open already.
fn is_stream(path: &str) -> bool {
    path.starts_with("/dev/") || path.starts_with("/proc/")
}

/// Whether a program takes names of files or code from somewhere else than its words.
fn is_fed(base: &str, arguments: &[CommandWord], concern: Option<Concern>) -> bool {
    let listing =
        |(names, short, long): &(&str, &str, &str)| listed(names, base) && matching(arguments, short, long);
    let known = || arguments.iter().filter_map(CommandWord::known);
    let runs = concern == Some(Concern::Runs);
    listed(FED, base)
        || LISTS.iter().any(listing)
        || runs && (listed(SEARCHERS, base) || known().any(is_stream))
        || match base {
            // Without a dash the first word is a cluster of options.
            "tar" | "bsdtar" | "gtar" => known().next().is_some_and(|text| text.contains('T')),
            "find" => known().any(|text| text.starts_with("-files0")),
            "jq" | "yq" => arguments.iter().any(imports),
            "make" | "gmake" => known().any(|text| text.ends_with('-')),
            "7z" | "7za" | "7zz" | "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" => {
                known().any(|text| text.starts_with('@'))
            }
            "java" | "scala" | "kotlin" => false,
            _ if runs && (listed(SHELLS, base) || listed(INTERPRETERS, base)) => {
                let letters = if listed(SHELLS, base) { "cs" } else { "ceErpn" };
                let code = |text: &str| {
                    let short = text.strip_prefix('-').filter(|option| !option.starts_with('-'));
                    short.is_some_and(|option| {
                        option.is_empty() || option.contains(|c: char| letters.contains(c))
                    }) || ["--eval", "--print"].contains(&text)
                };
                let script = |text: &str| !text.starts_with('-') || text == "--test";
                !known().any(script) || known().any(code)
            }
            _ => false,
        }
}
