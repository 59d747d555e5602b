//! What git runs besides itself.
//!
//! Options before the sub-command can name any program (`-c core.pager=…`, `--exec-path`), sub-commands that are not
//! git's own can be aliases for a shell line, and some options of its own name a program or a file to write.

use super::{
    programs::{listed, matching},
    word::Word,
};

/// Sub-commands that do what they say; all others may be aliases, or run what they are given.
const OWN: &str = "\
    add am apply archive blame branch cat-file check-attr check-ignore checkout cherry cherry-pick clean clone \
    commit count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc \
    grep hash-object init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff \
    rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash \
    status switch symbolic-ref tag version whatchanged worktree";

/// Options of sub-commands that name a program to run or a file to write.
const LONG: &[&str] = &[
    "upload-pack",
    "receive-pack",
    "exec",
    "open-files-in-pager",
    "ext-diff",
    "textconv",
    "output",
    "output-directory",
    "extcmd",
    "tool",
    "remote",
    "config",
    "template",
    "interactive",
    "edit",
    "edit-todo",
    "help",
    "gpg-sign",
    "separate-git-dir",
    "git-dir",
    "work-tree",
];

/// Whether this call may run another program, or write a file that only an option names.
pub(super) fn runs(arguments: &[Word]) -> bool {
    let global = |word: &&Word| {
        matches!(word.known(), Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs"))
    };
    let from = arguments.iter().take_while(global).count();
    let Some((command, rest)) = arguments.get(from..).and_then(<[Word]>::split_first) else { return false };
    let Some(command) = command.known() else { return true };
    let reading = rest.first().and_then(Word::known).unwrap_or_default();
    match command {
        "--version" | "version" => return false,
        "config" => return !matches!(reading, "--get" | "--get-all" | "--list" | "-l" | "get" | "list"),
        "submodule" => return !matches!(reading, "status" | "summary") || matching(rest, "", LONG),
        "bisect" => return !matches!(reading, "start" | "good" | "bad" | "reset" | "log" | "skip"),
        _ if !listed(OWN, command) => return true,
        _ => {}
    }
    // A transport may be a program: `ext::sh -c …`.
    let transport = rest.iter().any(|word| word.text.contains("::"));
    let short = match command {
        "grep" => "O",
        "rebase" => "xi",
        "clone" | "ls-remote" => "uc",
        "add" | "checkout" | "restore" | "reset" | "clean" => "ie",
        "format-patch" | "archive" => "o",
        "fetch" | "pull" | "push" | "am" | "apply" => "i",
        _ => "",
    };
    transport || matching(&without_messages(command, rest), short, LONG)
}

/// The arguments without messages, which are often put together when the command runs.
fn without_messages(command: &str, arguments: &[Word]) -> Vec<Word> {
    let takes = matches!(command, "commit" | "tag" | "merge");
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        rest.push(word.clone());
        if takes && matches!(word.known(), Some("-m" | "-am" | "--message")) {
            rest.extend(words.next().filter(|message| message.several).cloned());
        }
    }
    rest
}
