//! What a command may reach by its words: paths outside the project, and what cannot be told.

use tree_sitter::Node;

use super::super::launchers::LaunchedCommand;
use super::super::lexer::Unsure;
use super::super::mentions::{PathUse, SEARCHERS};
use super::super::options::{FIND_VALUED, matching};
use super::super::programs::{Concern, listed};
use super::super::syntax::{children, text};
use super::super::word::CommandWord;
use super::super::{git, remember};
use super::TreeWalk;

/// Options by which programs take names of files from elsewhere: letters and long ones.
const LISTS: &[(&str, &str, &str)] = &[
    ("wc du", "", "files0-from"),
    ("git", "", "pathspec-from-file stdin-paths"),
    ("rsync", "", "files-from"),
    ("zip", "@", ""),
    ("file", "f", "files-from"),
];

impl TreeWalk<'_> {
    /// Follows a command's words: what lies outside is named, and a command with a word that may be any path is listed.
    /// So is one that runs other programs: those may open whatever they are told to.
    pub(super) fn reach(
        &mut self,
        base: &str,
        words: &[CommandWord],
        inner: Option<&LaunchedCommand>,
        concern: Option<Concern>,
    ) {
        // What it runs is followed by itself.
        if let Some(LaunchedCommand::Command { .. } | LaunchedCommand::Nothing) = inner {
            return;
        }
        let (name, arguments) =
            words.split_first().map_or((None, words), |(name, rest)| (name.known(), rest));
        // Programs of the system are the same by their paths as by their names, and links of the project its programs.
        let foreign = name.filter(|name| name.contains('/') && self.installed(name).is_none());
        let uses = match PathUse::of(base) {
            PathUse::Talks if foreign.is_some() => PathUse::Unknown,
            PathUse::Reads if concern.is_some() => PathUse::Unknown,
            PathUse::Unknown if base == "git" && git::fills(arguments) => PathUse::Writes,
            uses => uses,
        };
        let paths = path_words(base, arguments, concern.is_some());
        let mut open = concern.is_some() || is_fed(base, arguments, &paths);
        for word in &paths {
            let mention = self.folders.mention(base, uses, word);
            open |= mention.open;
            self.external.extend(mention.outside);
        }
        if base == "cd" && arguments.is_empty() {
            self.external.extend(self.folders.beyond("~", true, crate::scope::PathAccess::Write));
        }
        let leaves = |name: &&str| name.starts_with('/') || name.split('/').any(|part| part == "..");
        if let Some(name) = foreign.filter(leaves) {
            let program = CommandWord::literal(name);
            self.external.extend(self.folders.mention(base, PathUse::Reads, &program).outside);
        }
        if open {
            self.unresolved.push(remember::text(words));
        }
    }

    /// Follows what a variable is set to. What only the line itself looks at is followed where it does.
    pub(super) fn reach_by_variable(&mut self, source: &str, word: &CommandWord, small: bool) {
        let (name, uses) = if small { ("=", PathUse::Reads) } else { ("", PathUse::Unknown) };
        let mention = self.folders.mention(name, uses, word);
        self.external.extend(mention.outside);
        if mention.open && !small {
            self.unresolved.push(source.to_owned());
        }
    }

    /// Follows the words of a loop, among which the shell looks for names.
    pub(super) fn reach_by_loop(&mut self, node: Node<'_>) -> Result<(), Unsure> {
        let mut words = Vec::new();
        let mut open = false;
        for (_, child) in children(node).into_iter().filter(|(field, _)| *field == Some("value")) {
            let word = self.word(child)?;
            let mention = self.folders.mention("for", PathUse::Reads, &word);
            self.external.extend(mention.outside);
            open |= mention.open && (word.glob || word.splits);
            words.push(word);
        }
        if open {
            let name = node.child_by_field_name("variable").map_or("", |name| text(name, self.line));
            self.unresolved.push(format!("for {name} in {}", remember::text(&words)));
        }
        Ok(())
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
            if let Some(at) = pattern(arguments) {
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
fn pattern(arguments: &[CommandWord]) -> Option<usize> {
    let option = |word: &CommandWord| word.prefix.starts_with('-') && word.prefix.len() > 1;
    let brings = |text: &str| match text.strip_prefix("--") {
        Some(long) => ["regexp", "file", "expression", "from-file"].iter().any(|name| long.starts_with(name)),
        None => text.starts_with('-') && text.contains(['e', 'f']),
    };
    let brought = arguments.iter().any(|word| option(word) && brings(&word.prefix));
    let at = arguments.iter().position(|word| !option(word)).filter(|_| !brought)?;
    let before = at.checked_sub(1).and_then(|at| arguments.get(at)).and_then(CommandWord::known);
    let valued = before.is_some_and(|text| text.starts_with("--") && text.len() > 2 && !text.contains('='));
    // What is only known later may turn out as an option.
    (!valued && arguments.get(at).is_some_and(|word| word.value.is_some())).then_some(at)
}

/// Whether a program takes names of files from somewhere else than its words.
fn is_fed(base: &str, arguments: &[CommandWord], paths: &[CommandWord]) -> bool {
    let known = || arguments.iter().filter_map(CommandWord::known);
    let listing =
        |(names, short, long): &(&str, &str, &str)| listed(names, base) && matching(paths, short, long);
    match base {
        // A script may put the name of a file together.
        "jq" | "yq" => known().any(|text| {
            let named = ["import", "include", "load"].iter().any(|name| text.contains(name));
            named && text.contains(['"', '('])
        }),
        "7z" => known().any(|text| text.starts_with('@')),
        _ => LISTS.iter().any(listing),
    }
}
