//! Programs that run another one, named in their own arguments: `env`, `timeout`, `xargs`.
//!
//! What they run is a command of the line like any other, so it is listed beside them. That takes knowing which of
//! their arguments are options: those that are not listed here make the call one that may run anything.

use super::mentions::only_reads;
use super::programs::{self, listed};
use super::word::CommandWord;

/// What a launcher runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LaunchedCommand {
    /// Nothing: it was called without a command.
    Nothing,
    /// A command, with the variables set for it.
    Command { assignments: Vec<CommandWord>, words: Vec<CommandWord> },
    /// Something that cannot be told.
    Unknown,
}

/// A launcher's options: flags, and those whose value is the next word.
struct LauncherOptions {
    flags: &'static str,
    valued: &'static str,
    /// Words before the command that are not options.
    operands: usize,
    /// Whether variables may come before the command.
    assignments: bool,
}

const PLAIN: LauncherOptions = LauncherOptions { flags: "", valued: "", operands: 0, assignments: false };

/// Whether a program of this name runs another one.
pub(super) fn launches(name: &str) -> bool {
    launcher(name).is_some()
}

fn launcher(name: &str) -> Option<LauncherOptions> {
    Some(match name {
        "env" => LauncherOptions {
            flags: "-i --ignore-environment -0 --null",
            valued: "-u --unset",
            assignments: true,
            ..PLAIN
        },
        "nohup" | "builtin" => PLAIN,
        "time" => LauncherOptions { flags: "-p", ..PLAIN },
        "command" => LauncherOptions { flags: "-p", ..PLAIN },
        "setsid" => LauncherOptions { flags: "-w --wait -f --fork", ..PLAIN },
        "nice" => LauncherOptions { valued: "-n --adjustment", ..PLAIN },
        "ionice" => LauncherOptions { valued: "-c -n --class --classdata", flags: "-t", ..PLAIN },
        "stdbuf" => LauncherOptions {
            flags: "-o0 -oL -e0 -eL -i0",
            valued: "-o -e -i --output --error --input",
            ..PLAIN
        },
        "timeout" => LauncherOptions {
            flags: "--foreground --preserve-status -v --verbose",
            valued: "-k -s --kill-after --signal",
            operands: 1,
            ..PLAIN
        },
        "sudo" => LauncherOptions {
            flags: "-n -E -H -k -b --non-interactive",
            valued: "-u -g --user --group",
            assignments: true,
            ..PLAIN
        },
        "xargs" => LauncherOptions {
            flags: "-0 -r -t -x -0r -r0 --null --no-run-if-empty --verbose --max-lines",
            valued: "-n -P -L -d -I -E -s --max-args --max-procs --delimiter",
            ..PLAIN
        },
        _ => return None,
    })
}

/// What the launcher of this name runs with these arguments; nothing if it is none.
pub(super) fn inner(name: &str, arguments: &[CommandWord]) -> Option<LaunchedCommand> {
    let launcher = launcher(name)?;
    if name == "command" && matches!(arguments.first().and_then(CommandWord::known), Some("-v" | "-V")) {
        return Some(LaunchedCommand::Nothing);
    }
    let mut words = arguments.iter().peekable();
    let mut replaced: Option<String> = None;
    let mut counted = false;
    while let Some(word) = words.peek() {
        // An unknown word may be an option, or several words.
        let Some(text) = word.known() else { return Some(LaunchedCommand::Unknown) };
        counted |= ["-n", "-L", "--max-args", "--max-lines"].iter().any(|option| text.starts_with(option));
        if text == "--" {
            words.next();
            break;
        }
        let numbers = text.strip_prefix('-').is_some_and(|rest| {
            matches!(name, "nice" | "xargs") && {
                let rest = rest.strip_prefix(['n', 'P', 'L']).unwrap_or(rest);
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            }
        });
        if listed(launcher.flags, text) || numbers && text != "-0" {
            words.next();
        } else if let Some(pattern) =
            text.strip_prefix("-I").filter(|rest| name == "xargs" && !rest.is_empty())
        {
            replaced = Some(pattern.to_owned());
            words.next();
        } else if listed(launcher.valued, text) {
            words.next();
            let Some(value) = words.next().filter(|value| !value.several) else {
                return Some(LaunchedCommand::Unknown);
            };
            if text == "-I" {
                let Some(value) = value.known() else { return Some(LaunchedCommand::Unknown) };
                replaced = Some(value.to_owned());
            }
        } else if text.split_once('=').is_some_and(|(option, _)| {
            option.starts_with("--") && (listed(launcher.valued, option) || listed(launcher.flags, option))
        }) {
            words.next();
        } else if text.starts_with('-') {
            return Some(LaunchedCommand::Unknown);
        } else {
            break;
        }
    }
    for _ in 0..launcher.operands {
        match words.next() {
            Some(word) if word.known().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit())) => {
            }
            None => return Some(LaunchedCommand::Nothing),
            Some(_) => return Some(LaunchedCommand::Unknown),
        }
    }
    let mut assignments = Vec::new();
    while let Some(word) = words.peek().filter(|word| launcher.assignments && word.text.contains('=')) {
        // Without quotes a value may turn out as more words: the command would be one of them.
        if word.splits || !word.prefix.contains('=') {
            return Some(LaunchedCommand::Unknown);
        }
        assignments.extend(words.next().cloned());
    }
    let mut words: Vec<CommandWord> = words.cloned().collect();
    if words.is_empty() {
        return Some(LaunchedCommand::Nothing);
    }
    if name == "xargs" {
        let simple = |c: char| c.is_ascii_alphanumeric() || "{}%@_+".contains(c);
        let plain = |pattern: &String| !pattern.is_empty() && pattern.chars().all(simple);
        // Of `-I` and a number of lines or words the later one counts, and the other is forgotten.
        if replaced.as_ref().is_some_and(|pattern| counted || !plain(pattern)) {
            return Some(LaunchedCommand::Unknown);
        }
        words = filled(words, replaced.as_deref());
    }
    Some(LaunchedCommand::Command { assignments, words })
}

/// Whether a program gets words from xargs that may make it do something else.
pub(super) fn is_fed_by_xargs(launcher: &str, words: &[CommandWord]) -> bool {
    let reads =
        words.first().and_then(CommandWord::known).is_some_and(|name| only_reads(programs::base(name)));
    launcher == "xargs" && !reads && words.iter().any(|word| word.value.is_none())
}

/// The command of xargs with the words that it gets from its input.
fn filled(words: Vec<CommandWord>, replaced: Option<&str>) -> Vec<CommandWord> {
    let Some(pattern) = replaced else {
        return words.into_iter().chain([CommandWord::unknown("…")]).collect();
    };
    let fill = |word: CommandWord| match word.known() {
        // One word stays one word, but may begin with anything.
        Some(value) if value.contains(pattern) => {
            CommandWord { splits: false, several: false, ..CommandWord::unknown(&word.text) }
        }
        Some(_) => word,
        None => CommandWord::unknown(&word.text),
    };
    words.into_iter().map(fill).collect()
}
