//! What to remember when a person answers "always".
//!
//! The answer should cover the next call of the same kind and nothing else: `git log -1` is remembered as
//! `git log *`, since git is many programs in one, and `ls src` as `ls *`. Where such a pattern would cover anything
//! at all (`bash *`, `find *`), only the very same text is remembered.

use super::programs;
use super::word::CommandWord;

/// Programs whose second word says what they do.
const TWO: &str = "\
    apt apt-get brew bun bundle cargo composer conda deno docker docker-compose dotnet gem git go gradle helm just kubectl \
    make mvn npm pip pnpm podman poetry rustup swift systemctl terraform tofu uv yarn zig";

/// Those of them whose third word does, behind these.
const THREE: &[&str] = &[
    "bun run",
    "deno task",
    "docker compose",
    "git remote",
    "git stash",
    "git worktree",
    "npm run",
    "pnpm run",
    "podman compose",
    "yarn run",
];

/// The pattern for a command that nothing speaks against, if there is a safe one.
pub(super) fn pattern(words: &[CommandWord]) -> Option<String> {
    let name = words.first()?.known()?;
    if programs::broad(name) {
        return exact(&text(words));
    }
    let base = programs::base(name);
    let two = words.get(..2).map(text).unwrap_or_default();
    let arity = if base == "gh" || THREE.contains(&two.as_str()) {
        3
    } else if programs::listed(TWO, base) {
        2
    } else {
        1
    };
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
