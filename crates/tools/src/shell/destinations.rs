//! Where programs put files that are named neither by a redirection nor as plain paths: `git clone`, `gcc -o`.

use super::{git, word::Word};

/// Paths that the program makes or fills.
pub(super) fn of(base: &str, arguments: &[Word]) -> Vec<Word> {
    match base {
        "git" => match git::subcommand(arguments) {
            Some(("mv" | "clone" | "worktree" | "init", rest)) => rest.to_vec(),
            _ => Vec::new(),
        },
        "tar" | "bsdtar" | "gtar" => valued(arguments, 'C', "--directory"),
        "unzip" => valued(arguments, 'd', "--"),
        _ => Vec::new(),
    }
}

/// The values of an option: the next word, or the rest of its own, also behind other letters.
fn valued(arguments: &[Word], letter: char, long: &str) -> Vec<Word> {
    let mut found = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let Some(text) = word.known() else { continue };
        let value = if text.starts_with("--") {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            Some(value).filter(|_| name.len() > 2 && long.starts_with(name))
        } else {
            text.strip_prefix('-').and_then(|text| text.split_once(letter)).map(|(_, value)| value)
        };
        match value {
            Some("") => found.extend(arguments.get(at + 1).cloned()),
            Some(value) => found.push(Word::literal(value)),
            None => {}
        }
    }
    found
}

/// The words behind one of these options.
fn after<'a>(arguments: &'a [Word], options: &[&str]) -> Vec<&'a Word> {
    let named = |word: &Word| word.known().is_some_and(|text| options.contains(&text));
    arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .filter(|(word, _)| named(word))
        .map(|(_, next)| next)
        .collect()
}

/// Files that a compiler writes.
pub(super) fn outputs(base: &str, arguments: &[Word]) -> Vec<Word> {
    if !matches!(base, "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++") {
        return Vec::new();
    }
    let joined = arguments.iter().filter_map(|word| {
        let text = word.known()?;
        let path = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"))?;
        Some(Word::literal(path)).filter(|_| !path.is_empty())
    });
    after(arguments, &["-o", "--output"]).into_iter().cloned().chain(joined).collect()
}

/// The repository that git pushes to, or the word that may be it.
pub(super) fn remote(arguments: &[Word]) -> Option<&Word> {
    let ("push", rest) = git::subcommand(arguments)? else { return None };
    let option = |word: &&Word| word.known().is_some_and(|text| text.starts_with('-'));
    // An option with a value of its own would shift the words.
    let valued = |word: &&Word| {
        word.known().is_some_and(|text| {
            text == "-o" || text.starts_with("--repo") || text.starts_with("--push-o") && !text.contains('=')
        })
    };
    rest.iter().find(valued).or_else(|| rest.iter().find(|word| !option(word)))
}
