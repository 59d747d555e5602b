//! What git runs besides itself.
//!
//! Options before the sub-command can name any program (`-c core.pager=…`, `--exec-path`), sub-commands that are not
//! git's own can be aliases for a shell line, and some options of its own name a program or a file to write.

use super::options::matching;
use super::programs::listed;
use super::word::CommandWord;

/// Sub-commands that do what they say; all others may be aliases, or run what they are given.
const OWN: &str = "\
    add am apply archive blame branch cat-file check-attr check-ignore checkout cherry cherry-pick clean clone \
    commit count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc \
    grep hash-object init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes pull push range-diff \
    rebase reflog remote reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref stash \
    status switch symbolic-ref tag version whatchanged worktree";

/// Options of sub-commands that name a program to run or a file to write; a way to merge may be a program.
const LONG: &str = "\
    upload-pack receive-pack exec open-files-in-pager ext-diff textconv output output-directory extcmd tool remote \
    config template interactive edit edit-todo help gpg-sign separate-git-dir git-dir work-tree unsafe-paths \
    build-fake-ancestor strategy";

/// Whether this call may run another program, or write a file that only an option names.
pub(super) fn runs(arguments: &[CommandWord]) -> bool {
    let global = |word: &&CommandWord| {
        matches!(word.known(), Some("--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs"))
    };
    let from = arguments.iter().take_while(global).count();
    let Some((command, rest)) = arguments.get(from..).and_then(<[CommandWord]>::split_first) else {
        return false;
    };
    let Some(command) = command.known() else { return true };
    let reading = rest.first().and_then(CommandWord::known).unwrap_or_default();
    match command {
        "--version" | "version" => return false,
        "config" => {
            // One name alone asks for its value.
            let asks = rest.len() == 1 && reading.contains('.') && !reading.starts_with('-');
            return !asks && !matches!(reading, "--get" | "--get-all" | "--list" | "-l" | "get" | "list");
        }
        "submodule" => return !matches!(reading, "status" | "summary") || matching(rest, "", LONG),
        "bisect" => return !matches!(reading, "start" | "good" | "bad" | "reset" | "log" | "skip"),
        _ if !listed(OWN, command) => return true,
        _ => {}
    }
    // A transport may be a program: `ext::sh -c …` is, and `evil://x` runs `git-remote-evil`.
    let remote = listed("clone fetch ls-remote pull push remote archive", command);
    let transport = rest.iter().any(|word| word.text.contains("::") || remote && !reachable(word));
    let short = match command {
        "grep" => "O",
        "merge" => "s",
        "rebase" => "xis",
        "clone" | "ls-remote" => "uc",
        "add" | "checkout" | "restore" | "reset" | "clean" => "ie",
        "format-patch" | "archive" => "o",
        "pull" => "is",
        "fetch" | "push" | "am" | "apply" => "i",
        _ => "",
    };
    let options = before_paths(command, rest);
    transport || matching(&without_messages(command, options), short, LONG)
}

/// The sub-command and what follows it, with any options before it skipped.
pub(super) fn subcommand(arguments: &[CommandWord]) -> Option<(&str, &[CommandWord])> {
    let (command, rest) = bare(arguments).unwrap_or(arguments).split_first()?;
    Some((command.known()?, rest))
}

/// Whether this call may bring other files into the project: a repository among them, even.
pub(super) fn moves(arguments: &[CommandWord]) -> bool {
    let movers = "checkout switch pull merge rebase stash apply am reset restore cherry-pick revert clone worktree \
        submodule init mv";
    subcommand(arguments).is_none_or(|(command, _)| listed(movers, command) || !listed(OWN, command))
}

/// Whether this call changes what its words name.
pub(super) fn fills(arguments: &[CommandWord]) -> bool {
    subcommand(arguments)
        .is_some_and(|(command, _)| listed("mv rm checkout restore clone worktree init", command))
}

/// The words that may be repositories which git sends to, now or later.
pub(super) fn remotes(arguments: &[CommandWord]) -> Vec<&CommandWord> {
    let Some((command, rest)) = subcommand(arguments) else { return Vec::new() };
    let known = |word: &&CommandWord, start: &str| word.known().is_some_and(|text| text.starts_with(start));
    let operands = rest.iter().filter(|word| !known(word, "-"));
    match command {
        // An option with a value of its own would shift the words.
        "push" if rest.iter().any(|word| known(&word, "--repo") || known(&word, "--push-o")) => {
            rest.iter().collect()
        }
        "push" if rest.iter().any(|word| word.known() == Some("-o")) => rest.iter().collect(),
        "push" => operands.take(1).collect(),
        // What is written down now is pushed to later.
        "remote" if rest.iter().any(|word| matches!(word.known(), None | Some("add" | "set-url"))) => {
            operands.skip(2).collect()
        }
        "fetch" | "pull" if rest.iter().any(|word| known(&word, "--set-u")) => operands.take(1).collect(),
        _ => Vec::new(),
    }
}

/// Whether a word, taken as the address of a repository, is reached by git itself.
fn reachable(word: &CommandWord) -> bool {
    let schemes = ["https", "http", "ssh", "git", "file"];
    let text = word.known().unwrap_or(&word.prefix);
    if text.starts_with('-') && word.value.is_some() {
        // `--repo=evil://x`
        return !text.contains("://") || schemes.iter().any(|scheme| text.contains(&format!("={scheme}://")));
    }
    match text.split_once("://") {
        Some((scheme, _)) => schemes.contains(&scheme),
        // Behind a slash nothing is a transport any more.
        None => word.value.is_some() || text.split_once('/').is_some_and(|(first, _)| !first.contains(':')),
    }
}

/// The arguments up to a `--` that is certain to end the options: what follows are paths.
fn before_paths<'a>(command: &str, arguments: &'a [CommandWord]) -> &'a [CommandWord] {
    let takes =
        listed("add log diff show status checkout restore reset rm ls-files blame commit grep", command);
    let Some(end) = arguments.iter().position(|word| word.known() == Some("--")).filter(|_| takes) else {
        return arguments;
    };
    // Behind an option that takes a value, `--` may be that value.
    let certain = |word: &CommandWord| {
        word.known().is_some_and(|text| {
            let number =
                text.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
            let alone = listed("--stat --oneline --name-only --name-status --cached --staged -p -q -A", text);
            !text.starts_with('-') || text.starts_with("--") && text.contains('=') || number || alone
        })
    };
    let sure = end.checked_sub(1).and_then(|at| arguments.get(at)).is_none_or(certain);
    arguments.get(..end).filter(|_| sure).unwrap_or(arguments)
}

/// The words without the options before the sub-command, so that a rule about the sub-command sees it.
pub(super) fn bare(arguments: &[CommandWord]) -> Option<&[CommandWord]> {
    let valued = "-C -c --git-dir --work-tree --namespace --config-env --super-prefix --attr-source";
    let mut at = 0;
    while let Some(option) = arguments.get(at)?.known().filter(|text| text.starts_with('-')) {
        at += if listed(valued, option) { 2 } else { 1 };
    }
    arguments.get(at..).filter(|rest| at > 0 && !rest.is_empty())
}

/// The arguments without messages, which are often put together when the command runs, and without git's own ways to merge.
pub(super) fn without_messages(command: &str, arguments: &[CommandWord]) -> Vec<CommandWord> {
    let takes = matches!(command, "commit" | "tag" | "merge");
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        // Not the beginning of `--textconv`, but an option itself.
        if matches!(command, "diff" | "log" | "show") && word.known() == Some("--text") {
            continue;
        }
        let own = |way: &str| listed("ours resolve recursive octopus subtree ort", way);
        let way = words.as_slice().first().and_then(CommandWord::known).is_some_and(own);
        if way && word.known() == Some("-s") && listed("merge pull rebase", command) {
            words.next();
            continue;
        }
        rest.push(word.clone());
        // The value of another option is not an option itself.
        if takes && matches!(word.known(), Some("-F" | "-C" | "-c" | "-t" | "-u" | "--file")) {
            rest.extend(words.next().cloned());
        } else if takes && matches!(word.known(), Some("-m" | "-am" | "--message")) {
            rest.extend(words.next().filter(|message| message.several).cloned());
        }
    }
    rest
}
