//! What setting a variable can do.
//!
//! Programs obey variables, and some name programs to run. So a command with variables set for it is another command
//! to a rule, except for a few that say how to print, and for the one that `read` itself uses.

use super::programs::listed;
use super::word::CommandWord;

/// Variables that only say how much to print, and how.
const PRINTING: &str = "\
    RUST_BACKTRACE RUST_LIB_BACKTRACE RUST_LOG RUST_TEST_THREADS NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI NODE_ENV \
    TZ LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME COLUMNS LINES PYTHONUNBUFFERED \
    PYTHONDONTWRITEBYTECODE CARGO_TERM_COLOR";

/// Whether the variables in front of a command make no difference to what it runs.
pub(super) fn quiet(assignments: &[CommandWord], words: &[CommandWord]) -> bool {
    let reads = words.first().and_then(CommandWord::known) == Some("read");
    assignments.iter().all(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=-".contains(c);
        match word.known().and_then(|text| text.split_once('=')) {
            // Only this one `read` splits by it.
            Some(("IFS", _)) => reads,
            Some((name, value)) => listed(PRINTING, name) && value.chars().all(plain),
            None => false,
        }
    })
}

/// Whether a variable of this name means nothing to the shell or to programs.
pub(super) fn small(name: &str) -> bool {
    let shaped = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let known = ["_", "histchars", "auto_resume"].contains(&name);
    shaped && !known && !name.ends_with("_proxy") && !name.starts_with("npm_") && !name.starts_with("cargo_")
}

/// Whether a variable of this name in front of a command may make it run something else.
pub(super) fn commanding(name: &str) -> bool {
    let prefixes = "LD_ DYLD_ BASH GIT_ PYTHON PERL RUBY NODE_OPTIONS NODE_PATH NPM_ npm_ JAVA _JAVA CARGO_ RUSTC \
        RUSTFLAGS RUSTDOC RUSTUP LESS GCC_ SSH_ PROMPT LUA_ MAKE TAR_ RSYNC_ XDG_ DOCKER_";
    let names = "PATH IFS ENV SHELL SHELLOPTS PS4 PS1 PS0 CDPATH HOME EDITOR VISUAL PAGER BROWSER CC CXX LINKER MANPAGER \
        MANOPT FCEDIT GOFLAGS TMPDIR PWD OLDPWD INPUTRC RIPGREP_CONFIG_PATH GREP_OPTIONS POSIXLY_CORRECT FIGNORE \
        GLOBIGNORE TERMINFO ZDOTDIR";
    listed(names, name)
        || prefixes.split_ascii_whitespace().any(|prefix| name.starts_with(prefix))
        || name.ends_with("PAGER")
        || name.ends_with("EDITOR")
        || name.ends_with("_proxy")
        || name.ends_with("_PROXY")
}
