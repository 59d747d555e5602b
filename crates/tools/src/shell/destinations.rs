//! Where programs put files that are named neither by a redirection nor as plain paths: `git clone`, `gcc -o`.

use super::git;
use super::word::CommandWord;

/// Paths that the program makes or fills.
pub(super) fn of(base: &str, arguments: &[CommandWord]) -> Vec<CommandWord> {
    match base {
        "git" => match git::subcommand(arguments) {
            Some(("mv" | "clone" | "worktree" | "init", rest)) => rest.to_vec(),
            _ => Vec::new(),
        },
        "tar" | "bsdtar" | "gtar" => {
            // Without a dash the values of a cluster's letters follow one after the other.
            let cluster = arguments.first().and_then(CommandWord::known).unwrap_or_default();
            let clustered = !cluster.starts_with('-') && cluster.contains('C');
            let following = arguments.iter().skip(1).filter(|_| clustered).cloned();
            valued(arguments, 'C', "--directory").into_iter().chain(following).collect()
        }
        "gh" if arguments.iter().any(|word| matches!(word.known(), Some("clone" | "download"))) => {
            let mut found = valued(arguments, 'D', "--dir");
            found.extend(arguments.iter().filter(|word| !word.prefix.starts_with('-')).cloned());
            found
        }
        "unzip" => valued(arguments, 'd', "--"),
        _ => Vec::new(),
    }
}

/// The values of an option: the next word, or the rest of its own, also behind other letters.
fn valued(arguments: &[CommandWord], letter: char, long: &str) -> Vec<CommandWord> {
    let mut found = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let Some(text) = word.known() else {
            found.extend(word.prefix.starts_with('-').then(|| word.clone()));
            continue;
        };
        let value = if text.starts_with("--") {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            Some(value).filter(|_| name.len() > 2 && long.starts_with(name))
        } else {
            text.strip_prefix('-').and_then(|text| text.split_once(letter)).map(|(_, value)| value)
        };
        match value {
            Some("") => found.extend(arguments.get(at + 1).cloned()),
            Some(value) => found.push(CommandWord::literal(value)),
            None => {}
        }
    }
    found
}

/// The words behind one of these options.
fn after<'a>(arguments: &'a [CommandWord], options: &[&str]) -> Vec<&'a CommandWord> {
    let named = |word: &CommandWord| word.known().is_some_and(|text| options.contains(&text));
    arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .filter(|(word, _)| named(word))
        .map(|(_, next)| next)
        .collect()
}

/// Files that a compiler writes.
pub(super) fn outputs(base: &str, arguments: &[CommandWord]) -> Vec<CommandWord> {
    if !matches!(base, "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++") {
        return Vec::new();
    }
    let joined = arguments.iter().filter_map(|word| {
        let text = word.known()?;
        let path = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"))?;
        Some(CommandWord::literal(path)).filter(|_| !path.is_empty())
    });
    after(arguments, &["-o", "--output"]).into_iter().cloned().chain(joined).collect()
}

/// Archives that are written.
pub(super) fn archives(base: &str, arguments: &[CommandWord]) -> Vec<CommandWord> {
    let first = arguments.first().and_then(CommandWord::known).unwrap_or_default();
    let letters = |text: &str| !text.starts_with("--") && text.contains(['x', 't']) && !text.contains('c');
    let reads = letters(first) || matches!(first, "--extract" | "--get" | "--list");
    if reads || !matches!(base, "tar" | "bsdtar" | "gtar") {
        return Vec::new();
    }
    let mut named = valued(arguments, 'f', "--file");
    if !first.starts_with('-') && first.contains('f') {
        named.extend(arguments.get(1).cloned());
    }
    named
}

/// The repositories that git sends to, now or later, or the words that may be them.
pub(super) fn remotes(arguments: &[CommandWord]) -> Vec<&CommandWord> {
    let option = |word: &&CommandWord| word.known().is_some_and(|text| text.starts_with('-'));
    match git::subcommand(arguments) {
        Some(("push", rest)) => {
            // An option with a value of its own would shift the words.
            let valued = |word: &&CommandWord| {
                word.known().is_some_and(|text| {
                    text == "-o"
                        || text.starts_with("--repo")
                        || text.starts_with("--push-o") && !text.contains('=')
                })
            };
            let found = rest.iter().find(valued).or_else(|| rest.iter().find(|word| !option(word)));
            found.into_iter().collect()
        }
        // What is written down now is pushed to later.
        Some(("remote", [first, rest @ ..])) if !matches!(first.known(), Some("add" | "set-url")) => {
            // Options may come before `add`.
            let adds = rest.iter().any(|word| matches!(word.known(), None | Some("add" | "set-url")));
            if adds && option(&first) { vec![first] } else { Vec::new() }
        }
        Some(("remote", [_, rest @ ..])) => rest.iter().filter(|word| !option(word)).skip(1).collect(),
        Some(("fetch" | "pull", rest))
            if rest.iter().any(|word| word.known().is_some_and(|text| text.starts_with("--set-u"))) =>
        {
            rest.iter().filter(|word| !option(word)).take(1).collect()
        }
        _ => Vec::new(),
    }
}
