//! Where programs put files that are named neither by a redirection nor as plain paths: `git clone`, `gcc -o`.

use super::{git, word::Word};

/// Paths that the program makes or fills.
pub(super) fn of<'a>(base: &str, arguments: &'a [Word]) -> Vec<&'a Word> {
    match base {
        "git" => match git::subcommand(arguments) {
            Some(("mv" | "clone" | "worktree" | "init", rest)) => rest.iter().collect(),
            _ => Vec::new(),
        },
        // Only the folder is written to; but any other word may turn out as the option.
        "tar" | "bsdtar" | "gtar" => after(arguments, &["-C", "--directory"]),
        "unzip" => after(arguments, &["-d"]),
        _ => Vec::new(),
    }
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
