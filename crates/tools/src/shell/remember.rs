//! What to remember when a person answers "always".
//!
//! The answer should cover the next call of the same kind and nothing else: `git log -1` is remembered as
//! `git log *`, since git is many programs in one, and `ls src` as `ls *`. Where such a pattern would cover anything
//! at all (`bash *`, `find *`), only the very same text is remembered.

use super::programs;
use super::word::CommandWord;

/// Programs whose second word says what they do, or whose third does.
const ARITY: &[(&str, usize)] = &[
    ("apt", 2),
    ("apt-get", 2),
    ("brew", 2),
    ("bun run", 3),
    ("bun", 2),
    ("bundle", 2),
    ("cargo", 2),
    ("composer", 2),
    ("conda", 2),
    ("deno task", 3),
    ("deno", 2),
    ("docker compose", 3),
    ("docker", 2),
    ("docker-compose", 2),
    ("dotnet", 2),
    ("gem", 2),
    ("gh", 3),
    ("git remote", 3),
    ("git stash", 3),
    ("git worktree", 3),
    ("git", 2),
    ("go", 2),
    ("gradle", 2),
    ("helm", 2),
    ("just", 2),
    ("kubectl", 2),
    ("make", 2),
    ("mvn", 2),
    ("npm run", 3),
    ("npm", 2),
    ("pip", 2),
    ("pip3", 2),
    ("pnpm run", 3),
    ("pnpm", 2),
    ("podman compose", 3),
    ("podman", 2),
    ("poetry", 2),
    ("rustup", 2),
    ("swift", 2),
    ("systemctl", 2),
    ("terraform", 2),
    ("tofu", 2),
    ("uv", 2),
    ("yarn run", 3),
    ("yarn", 2),
    ("zig", 2),
];

/// The pattern for a command that nothing speaks against, if there is a safe one.
pub(super) fn pattern(words: &[CommandWord]) -> Option<String> {
    let name = words.first()?.known()?;
    if programs::broad(name) {
        return exact(&text(words));
    }
    let two = words.get(..2).map(text).unwrap_or_default();
    let arity = |name: &str| ARITY.iter().find(|(known, _)| *known == name).map(|(_, arity)| *arity);
    let arity = arity(&two).or_else(|| arity(programs::base(name))).unwrap_or(1);
    // `git stash` alone is named by fewer words than there could be.
    let named = words.get(..arity.min(words.len()))?;
    let plain = |word: &CommandWord| word.known() == Some(&word.text) && !word.option;
    if !named.iter().all(plain) {
        return if words.iter().all(|word| word.value.is_some()) { exact(&text(words)) } else { None };
    }
    exact(&text(named)).map(|named| format!("{named} *"))
}

/// A text as a pattern that matches nothing else, if it can be one.
pub(crate) fn exact(text: &str) -> Option<String> {
    // The pattern's own signs would match more, and a backslash matches a slash.
    let safe = !text.contains(['*', '?', '\\', '$', '`']) && !text.chars().any(char::is_control);
    safe.then(|| text.to_owned())
}

/// Words as one text.
pub(super) fn text(words: &[CommandWord]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
