//! Commands of the shell that look harmless and are not with every word: `test`, `printf` and `set`.
//!
//! The first two can be made to look at or set a variable whose name is only a word to them, and a name may hold a
//! command in an index: `test -v 'a[$(…)]'` runs it. So only forms are accepted whose operators are there to be seen.

use super::programs::listed;
use super::word::CommandWord;

/// Operators of `test` with one operand. Not `-v` and `-R`, which look at a variable by name.
const UNARY: &str = "! -a -b -c -d -e -f -g -h -k -n -o -p -r -s -t -u -w -x -z -G -L -N -O -S";

/// Operators of `test` with two operands. In `test` the numbers are numbers, and nothing is evaluated.
const BINARY: &str = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o";

/// Whether a test may evaluate one of its words.
pub(super) fn test(words: &[CommandWord]) -> bool {
    if words.iter().any(|word| word.several || names(word)) {
        return true;
    }
    if words.iter().all(|word| word.value.is_some()) {
        return false;
    }
    let is = |word: &CommandWord, list: &str| word.known().is_some_and(|text| listed(list, text));
    // The number of words decides how they are read; with more than four it also depends on the words.
    !match words {
        [] | [_] => true,
        [operator, _] => is(operator, UNARY),
        [first, second, _] => is(second, BINARY) || is(first, "!") && is(second, UNARY),
        [not, _, operator, _] => is(not, "!") && is(operator, BINARY),
        _ => false,
    }
}

/// Whether a word makes a test look at a variable by name, or is such a name with a command in it.
pub(super) fn names(word: &CommandWord) -> bool {
    word.known()
        .is_some_and(|text| matches!(text, "-v" | "-R") || text.contains('[') && text.contains(['$', '`']))
}

/// Whether `set` does more than stop the line at a failure.
pub(super) fn set(arguments: &[CommandWord]) -> bool {
    let strict = "-e -u -eu -ue -euo -ueo -eo -uo -o +e +u errexit nounset pipefail";
    // A name belongs to the `o` before it; elsewhere it would be a parameter.
    let mut named = false;
    for word in arguments {
        let Some(text) = word.known().filter(|text| listed(strict, text)) else { return true };
        if text.starts_with(['-', '+']) == named {
            return true;
        }
        named = text.ends_with('o') && text.starts_with('-');
    }
    named || arguments.is_empty()
}

/// Whether `printf` may set a variable: with `-v`, or with `%n` in its format.
pub(super) fn printf(arguments: &[CommandWord]) -> bool {
    let mut words = arguments.iter();
    let format = match words.next() {
        Some(first) if first.known() == Some("--") => words.next(),
        first => first,
    };
    match format.map(CommandWord::known) {
        None => false,
        Some(None) => true,
        Some(Some(format)) => format.starts_with('-') && format.len() > 1 || counts(format),
    }
}

/// Whether a format has a conversion that stores how much was printed, or may have.
fn counts(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        let conversion =
            after.trim_start_matches(|c: char| c.is_ascii_digit() || "#- +'*.hlLjztq".contains(c));
        let Some(kind) = conversion.chars().next() else { return false };
        if matches!(kind, 'n' | '\\' | '$') {
            return true;
        }
        rest = conversion.get(kind.len_utf8()..).unwrap_or_default();
    }
    false
}
