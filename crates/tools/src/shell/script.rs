//! Small languages that are mostly used harmlessly: the scripts of sed and awk.
//!
//! Both can run programs and write files from inside a script. Only scripts of a few plain forms are taken to be
//! harmless; there is no need to understand the others.

use super::word::Word;

/// Whether a call of sed may run a program or write a file other than those it edits.
pub(super) fn sed(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    let mut scripts = 0;
    let mut files = false;
    while let Some(word) = words.next() {
        let Some(text) = word.known() else {
            if word.option || scripts == 0 {
                return true;
            }
            files = true;
            continue;
        };
        match text {
            "-n" | "-E" | "-r" | "-i" | "-s" | "-z" | "-u" | "--quiet" | "--silent" | "--regexp-extended"
            | "--in-place" | "-nE" | "-En" | "-nr" | "-rn" | "-Ei" | "-i.bak" => {}
            "-e" | "-ne" | "-Ee" => {
                scripts += 1;
                if !words.next().and_then(Word::known).is_some_and(plain_sed) {
                    return true;
                }
            }
            option if option.starts_with('-') => return true,
            script if scripts == 0 && !files => {
                scripts += 1;
                if !plain_sed(script) {
                    return true;
                }
            }
            _ => files = true,
        }
    }
    scripts == 0
}

/// Whether a script only prints, deletes or replaces.
fn plain_sed(script: &str) -> bool {
    script.split(';').all(|command| {
        let command = command.trim();
        let rest =
            command.trim_start_matches(|c: char| c.is_ascii_digit() || "$,+~".contains(c)).trim_start();
        matches!(rest, "p" | "d" | "q" | "=" | "P" | "D") && !command.is_empty()
            || replaces(rest)
            || selects(rest)
    })
}

/// `s/old/new/flags` without escapes of the delimiter, and with flags that do nothing else.
fn replaces(command: &str) -> bool {
    let Some(rest) = command.strip_prefix('s') else { return false };
    let Some(delimiter) = rest.chars().next().filter(|c| "/|#,:@!%".contains(*c)) else { return false };
    let parts: Vec<&str> = rest.split(delimiter).collect();
    let [_, old, new, flags] = parts.as_slice() else { return false };
    let escapes = [old, new].iter().any(|part| part.ends_with('\\') || part.contains('\n'));
    !escapes && flags.chars().all(|c| "gpiI".contains(c) || c.is_ascii_digit())
}

/// `/pattern/p` or `/pattern/d`.
fn selects(command: &str) -> bool {
    let parts: Vec<&str> = command.split('/').collect();
    matches!(parts.as_slice(), ["", pattern, "p" | "d" | "q" | "="]
        if !pattern.is_empty() && !pattern.ends_with('\\') && !pattern.contains('\n'))
}

/// Whether a call of awk may run a program or write a file.
pub(super) fn awk(arguments: &[Word]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.known() else { return true };
        match text {
            "-F" => {
                if words.next().is_none_or(|value| value.known().is_none()) {
                    return true;
                }
            }
            separator if separator.starts_with("-F") => {}
            option if option.starts_with('-') => return true,
            program => {
                let doubtful = program.contains(['|', '>', '@', '\\'])
                    || ["system", "getline", "close", "fflush"].iter().any(|name| program.contains(name));
                // A file may be an assignment; a later option is a file.
                return doubtful || words.any(|word| word.option);
            }
        }
    }
    true
}
