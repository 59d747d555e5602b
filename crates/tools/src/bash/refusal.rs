//! What the sandbox kept from a command, in words: a missing file looks like a mistake otherwise.
//!
//! The system does not tell which access was refused. So the paths that the end of its output names, and for read-only files
//! those of the command too, are compared with what the sandbox shows. Nothing here looks at the disk: whether something
//! is there outside the sandbox is not for the model to learn.

use std::path::{Component, Path, PathBuf};

use crate::process::sandbox::{SandboxNetwork, SandboxPart, SandboxPolicy};

/// How much of the end of an output is looked at, in bytes.
const END: usize = 8 * 1024;

/// How many paths are named.
const MOST: usize = 3;

/// The longest word that is taken for a path.
const PATH_MAX: usize = 4096;

/// What programs print when they cannot change something.
const READ_ONLY: [&str; 5] =
    ["Read-only file system", "read-only file system", "EROFS", "Device or resource busy", "EBUSY"];

/// What is said to a program that failed, and to one that did not.
const FAILED: &str = "If that is why it failed";
const WENT_ON: &str = "It has not changed it, whatever it says. If it must";

/// What programs print when they reach nobody.
const UNREACHED: [&str; 7] = [
    "Network is unreachable",
    "network is unreachable",
    "Could not resolve",
    "could not resolve",
    "Temporary failure in name resolution",
    "EAI_AGAIN",
    "ENETUNREACH",
];

/// Says what the sandbox kept from a command that failed, if it can be told.
pub(super) fn explain(
    policy: &SandboxPolicy,
    home: &Path,
    workdir: &Path,
    command: &str,
    output: &str,
) -> Option<String> {
    let end = end(output);
    let says = |words: &[&str]| words.iter().any(|word| end.contains(word));
    let mut reasons = Vec::new();
    if policy.has(SandboxPart::Mounts) || policy.has(SandboxPart::Landlock) {
        let hidden = listed(paths(end, home, workdir).filter(|path| !policy.shows(path)));
        if !hidden.is_empty() {
            reasons.push(format!("{hidden} cannot be seen in it"));
        }
        let named = paths(command, home, workdir).chain(paths(end, home, workdir));
        let settled = complaints(end, home, workdir).filter(|path| policy.only_shows(path));
        let fixed = listed(named.filter(|path| policy.protects(path)).chain(settled));
        if !fixed.is_empty() && says(&READ_ONLY) {
            reasons.push(format!("{fixed} can only be read in it"));
        }
    }
    if policy.network == SandboxNetwork::Own && policy.has(SandboxPart::Network) && says(&UNREACHED) {
        reasons.push("it has no network (set `network` to ask for it)".to_owned());
    }
    (!reasons.is_empty()).then(|| told(&reasons.join("; "), FAILED))
}

/// Says what a command could not change although it ended as if all was well, if it can be told: git says that a branch
/// tracks another one after it could not write that down.
pub(super) fn explain_success(
    policy: &SandboxPolicy,
    home: &Path,
    workdir: &Path,
    output: &str,
) -> Option<String> {
    if !policy.has(SandboxPart::Mounts) {
        return None;
    }
    let named = complaints(end(output), home, workdir);
    let fixed = listed(named.filter(|path| policy.protects(path) || policy.only_shows(path)));
    (!fixed.is_empty()).then(|| told(&format!("{fixed} can only be read in it"), WENT_ON))
}

/// The paths in lines that say that something could not be changed.
fn complaints(end: &str, home: &Path, workdir: &Path) -> impl Iterator<Item = PathBuf> {
    let lines = end.lines().filter(|line| READ_ONLY.iter().any(|word| line.contains(word)));
    lines.flat_map(move |line| paths(line, home, workdir))
}

/// The part of an output that is looked at.
fn end(output: &str) -> &str {
    let start = output.len().saturating_sub(END);
    let start = (start..=output.len()).find(|at| output.is_char_boundary(*at));
    start.and_then(|start| output.get(start..)).unwrap_or_default()
}

fn told(reasons: &str, consequence: &str) -> String {
    format!(
        "(The command ran in a sandbox: {reasons}. {consequence}, `outside_sandbox` asks the person to run it outside.)"
    )
}

/// The paths that a text names.
fn paths(text: &str, home: &Path, workdir: &Path) -> impl Iterator<Item = PathBuf> {
    let is_edge = |letter: char| letter.is_whitespace() || "'\"`=:;,|&<>(){}[]@‘’".contains(letter);
    let words = text.split(is_edge).filter(|word| word.len() <= PATH_MAX);
    words.filter_map(|word| path(word, home, workdir))
}

/// The first few of them, as a list.
fn listed(paths: impl Iterator<Item = PathBuf>) -> String {
    let mut found: Vec<String> = Vec::new();
    for path in paths.map(|path| path.display().to_string()) {
        if found.len() < MOST && !found.contains(&path) {
            found.push(path);
        }
    }
    found.join(", ")
}

/// The path that a word names, if it looks like one.
fn path(word: &str, home: &Path, workdir: &Path) -> Option<PathBuf> {
    let word = word.trim_end_matches(['.', '!', '?']);
    let path = if let Some(below) = word.strip_prefix("~/") {
        home.join(below)
    } else if word.contains('/') && !word.trim_matches('/').is_empty() && !word.starts_with("//") {
        workdir.join(word)
    } else {
        return None;
    };
    let mut folded = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(folded.pop()),
            Component::CurDir => {}
            other @ (Component::Prefix(_) | Component::RootDir | Component::Normal(_)) => folded.push(other),
        }
    }
    Some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sandbox::SandboxMode;

    #[test]
    fn what_was_kept_from_a_command_is_named() {
        let project = PathBuf::from("/srv/p");
        let mut policy =
            SandboxPolicy::of(SandboxMode::Workspace, [&project].into_iter(), Path::new("/srv/me"));
        policy.parts = SandboxPart::ALL.into();
        let check = |policy: &SandboxPolicy, command: &str, output: &str, expected: Option<&str>| {
            let said = explain(policy, Path::new("/srv/me"), Path::new("/srv/p/sub"), command, output);
            let expected = expected.map(|reason| {
                format!(
                    "(The command ran in a sandbox: {reason}. If that is why it failed, `outside_sandbox` asks the \
                     person to run it outside.)"
                )
            });
            assert_eq!(said, expected, "{command}");
        };
        check(&policy, "cargo test", "error: test failed", None);
        check(&policy, "cat src/../x /usr/lib/y ~/z", "cat: src/../x: No such file or directory", None);
        check(
            &policy,
            "sed -n '/a/,/b/p' ~/.ssh/id",
            "sed: can't read /srv/me/.ssh/id: No such file\nx: '/var/log/x'\ny: ../../other/y: ~/z",
            Some("/srv/me/.ssh/id, /var/log/x, /srv/other/y cannot be seen in it"),
        );
        let said = "cannot create ../AGENTS.md: Read-only file system";
        check(&policy, "echo x >> ../AGENTS.md", said, Some("/srv/p/AGENTS.md can only be read in it"));
        check(&policy, "echo x >> ../AGENTS.md", "no room", None);
        let said = "error: could not write config file /srv/p/.git/config: Device or resource busy";
        check(&policy, "git config a.b c", said, Some("/srv/p/.git/config can only be read in it"));
        let settings = "error: could not write config file /srv/me/.gitconfig: Device or resource busy";
        let only = Some("/srv/me/.gitconfig can only be read in it");
        check(&policy, "git config --global a.b c", settings, only);
        let done = |said: &str| explain_success(&policy, Path::new("/srv/me"), &project, said);
        let told = done(&format!("{said}\nbranch 'a' set up to track 'b'.")).unwrap();
        assert!(told.contains("/srv/p/.git/config can only be read in it. It has not changed it"), "{told}");
        assert_eq!(done("/srv/p/.git/config is fine\nsda: Device or resource busy"), None);
        policy.network = SandboxNetwork::Own;
        let said = "curl: (6) Could not resolve host";
        let reason = "it has no network (set `network` to ask for it)";
        check(&policy, "curl -s https://example.com", said, Some(reason));
        policy.parts.clear();
        check(&policy, "curl ~/x", said, None);
    }
}
