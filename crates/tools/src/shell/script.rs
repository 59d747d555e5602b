//! Small languages that are mostly used harmlessly: the scripts of sed and awk.
//!
//! Both can run programs and write files from inside a script. Only scripts of a few plain forms are taken to be
//! harmless; there is no need to understand the others.

use super::word::CommandWord;

/// What a call of sed does.
#[derive(Debug, Default)]
pub(super) struct SedEffects<'a> {
    /// Whether it may run a program, or write a file other than those it edits.
    pub(super) doubtful: bool,
    /// The files, if it writes them instead of printing.
    pub(super) edited: Vec<&'a CommandWord>,
    /// What is appended to their names for a copy of what they were.
    pub(super) suffix: Option<&'static str>,
}

/// Looks at the arguments of sed.
pub(super) fn sed(arguments: &[CommandWord]) -> SedEffects<'_> {
    // With `-e`, wherever it stands, no other word is the script.
    let separate = arguments.iter().any(|word| matches!(word.known(), Some("-e" | "-ne" | "-Ee")));
    let mut words = arguments.iter();
    let mut scripts = 0;
    let mut files = Vec::new();
    let mut in_place = false;
    let mut suffix = None;
    let mut doubtful = false;
    while let Some(word) = words.next() {
        let Some(text) = word.known() else {
            doubtful |= word.option || scripts == 0;
            files.push(word);
            continue;
        };
        match text {
            "-n" | "-E" | "-r" | "-s" | "-z" | "-u" | "--quiet" | "--silent" | "--regexp-extended"
            | "-nE" | "-En" | "-nr" | "-rn" => {}
            "-i" | "--in-place" | "-Ei" => in_place = true,
            "-i.bak" => {
                in_place = true;
                suffix = Some(".bak");
            }
            "-e" | "-ne" | "-Ee" => {
                scripts += 1;
                doubtful |= !words.next().and_then(CommandWord::known).is_some_and(plain_sed);
            }
            option if option.starts_with('-') => {
                doubtful = true;
                in_place |= option.starts_with("--i") || !option.starts_with("--") && option.contains('i');
            }
            script if !separate && scripts == 0 && files.is_empty() => {
                scripts += 1;
                doubtful |= !plain_sed(script);
            }
            _ => files.push(word),
        }
    }
    // A file that is only known later may be any.
    doubtful |= scripts == 0 || in_place && files.iter().any(|word| word.value.is_none());
    SedEffects { doubtful, edited: if in_place { files } else { Vec::new() }, suffix }
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

/// `/pattern/p` or `/pattern/,/pattern/d`.
fn selects(command: &str) -> bool {
    let plain = |pattern: &str| !pattern.is_empty() && !pattern.ends_with('\\') && !pattern.contains('\n');
    let parts: Vec<&str> = command.split('/').collect();
    match parts.as_slice() {
        ["", pattern, "p" | "d" | "q" | "="] => plain(pattern),
        ["", from, ",", to, "p" | "d"] => plain(from) && plain(to),
        _ => false,
    }
}

/// Whether a call of awk may run a program or write a file.
pub(super) fn awk(arguments: &[CommandWord]) -> bool {
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
