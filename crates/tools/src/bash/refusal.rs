//! What the sandbox kept from a command, in words: a missing file looks like a mistake otherwise.
//!
//! The system does not tell which access was refused. So the paths that the end of its output names, and for read-only files
//! those of the command too, are compared with what the sandbox shows. Nothing here looks at the disk: whether something
//! is there outside the sandbox is not for the model to learn.

use std::path::{Component, Path, PathBuf};

use super::confinement::Offers;
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

/// What git prints about files of the work tree that it could not bring in line with a commit. It goes on all the same.
const LEFT_BEHIND: [&str; 6] = [
    "unable to unlink",
    "unable to create file",
    "unable to write file",
    "cannot stat",
    "failed to remove",
    "could not remove",
];

/// What programs print when something is not there.
const ABSENT: [&str; 4] = ["No such file or directory", "ENOENT", "Permission denied", "EACCES"];

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

/// How `wget` and `curl` end when they reach nobody, which they need not say.
const UNREACHED_EXITS: [i32; 3] = [4, 6, 7];

/// Why a project as a whole can only be read.
const IN_HOME: &str = ", because the project lies among the settings and programs of a home folder: a command changes there \
                       what its line names, if the person permits it";

/// Where a command ran, and what it could do there.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandPlace<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) home: &'a Path,
    pub(super) workdir: &'a Path,
}

/// What the sandbox kept from a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandRefusal {
    /// Whether the command ended as if all was well.
    went_on: bool,
    /// Places that it could not see.
    hidden: String,
    /// Files that it could not change.
    fixed: String,
    /// Whether that is because of where the whole project lies.
    in_home: bool,
    /// Files that git could not bring in line with what is committed, as git names them.
    left: Vec<String>,
    /// Whether it had no network, and may have wanted it.
    offline: bool,
}

impl CommandPlace<'_> {
    /// What was kept from a command, if it can be told by how it ended and what it printed: `output` within bounds, which
    /// has the beginning, and the last of it.
    pub(super) fn refusal(
        &self,
        command: &str,
        exit: i32,
        output: &str,
        last: &str,
    ) -> Option<CommandRefusal> {
        let policy = self.policy;
        let end = end(last);
        let says = |words: &[&str]| words.iter().any(|word| end.contains(word));
        let mut found = CommandRefusal { went_on: exit == 0, ..CommandRefusal::default() };
        if policy.has(SandboxPart::Mounts) {
            found.left = self.left_behind(output.lines().chain(last.lines()));
        }
        if policy.has(SandboxPart::Mounts) || policy.has(SandboxPart::Landlock) {
            // What a command mentions that ended well need not be what it missed.
            let missed = |line: &&str| !found.went_on || says_any(line, &ABSENT);
            let seen = end.lines().filter(missed).flat_map(|line| self.paths(line));
            found.hidden = listed(seen.filter(|path| !policy.shows(path)));
        }
        if policy.has(SandboxPart::Mounts) || policy.has(SandboxPart::Landlock) && !found.went_on {
            let complained =
                || end.lines().filter(|line| says_any(line, &READ_ONLY) && !is_left_behind(line));
            let named = complained().flat_map(|line| self.paths(line));
            let named = named.filter(|path| policy.protects(path) || policy.only_shows(path));
            // Any word can be a name: those count that no program makes by chance.
            let bare =
                complained().flat_map(|line| self.bare_names(line)).filter(|path| policy.protects(path));
            let fixed = named.chain(bare);
            let meant = self.paths(command).chain(self.bare_names(command)).chain(self.paths(end));
            let meant = meant.filter(|path| policy.protects(path));
            let meant = meant.filter(|_| !found.went_on && complained().next().is_some());
            found.in_home = policy.home.closes(self.workdir)
                && policy.only_shows(self.workdir)
                && complained().next().is_some();
            // Any name in it would do.
            let all = found.in_home.then(|| self.workdir.to_owned());
            found.fixed = match all {
                Some(all) => listed([all].into_iter()),
                None => listed(meant.chain(fixed)),
            };
        }
        // A line that names an address and prints nothing has hardly reached it.
        let silent = output.trim().is_empty();
        let unreached = says(&UNREACHED)
            || UNREACHED_EXITS.contains(&exit) && (silent || command.contains("://"))
            || silent && command.contains("://");
        found.offline =
            policy.network == SandboxNetwork::Own && policy.has(SandboxPart::Network) && unreached;
        let nothing = CommandRefusal { went_on: found.went_on, ..CommandRefusal::default() };
        (found != nothing).then_some(found)
    }

    /// The protected files that git says it could not change. It names them from the root of the repository on.
    fn left_behind<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for line in lines.filter(|line| says_any(line, &READ_ONLY) && is_left_behind(line)) {
            let Some((_, quoted)) = line.split_once('\'') else { continue };
            let Some((name, _)) = quoted.rsplit_once('\'') else { continue };
            let mut roots = self.policy.projects.iter().map(PathBuf::as_path).chain([self.workdir]);
            let protected = roots.any(|root| self.policy.protects(&root.join(name)));
            if protected && names.len() < MOST && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The paths that a text names.
    fn paths<'a>(&'a self, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        words(text).filter_map(|word| path(word, self.home, self.workdir))
    }

    /// What a text names in the folder that the command began in.
    fn bare_names<'a>(&'a self, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        words(text).filter(|word| !word.is_empty() && !word.contains('/')).map(|word| self.workdir.join(word))
    }
}

impl CommandRefusal {
    /// In words, with what can be done about it.
    pub(super) fn told(&self, offers: &Offers) -> String {
        let mut reasons = Vec::new();
        if !self.hidden.is_empty() {
            reasons.push(format!("{} cannot be seen in it", self.hidden));
        }
        if !self.fixed.is_empty() {
            let why = if self.in_home { IN_HOME } else { "" };
            reasons.push(format!("{} can only be read in it{why}", self.fixed));
        }
        let walled = !reasons.is_empty();
        if self.offline {
            let offer = if offers.network() { "set `network` to ask for it" } else { "a rule is against it" };
            reasons.push(format!("it has no network ({offer})"));
        }
        let mut told = Vec::new();
        if !reasons.is_empty() {
            let consequence = match (self.went_on, self.fixed.is_empty()) {
                (false, _) => "If that is why it failed",
                (true, false) => "That is as it was, whatever else the command did. If it must change",
                (true, true) => "If it needs that",
            };
            let offer = if !walled && !offers.network() {
                "find another way"
            } else if offers.outside() {
                "`outside_sandbox` asks the person to run it outside"
            } else {
                "find another way: a rule is against running it outside"
            };
            told.push(format!(
                "(The command ran in a sandbox: {}. {consequence}, {offer}.)",
                reasons.join("; ")
            ));
        }
        if !self.left.is_empty() {
            told.push(self.told_left(offers));
        }
        told.join(" ")
    }

    /// The same as lines for a person.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.hidden.is_empty() {
            lines.push(format!("{} cannot be seen in the sandbox", self.hidden));
        }
        if !self.fixed.is_empty() {
            lines.push(format!("{} can only be read in the sandbox", self.fixed));
        }
        if self.offline {
            lines.push("it had no network".to_owned());
        }
        if !self.left.is_empty() {
            lines.push(format!("git could not change {}: it is still the old one", self.left.join(", ")));
        }
        lines
    }

    fn told_left(&self, offers: &Offers) -> String {
        let names = self.left.join(", ");
        let mut told = format!(
            "(git could not change {names}, because it can only be read in the sandbox: the file in the work tree is \
             still the old one, and a commit of everything takes the change back, also one that this line made."
        );
        let mend = format!(
            "run `git checkout HEAD -- {}` (`rm` where it is not committed), and the person is asked",
            self.left.join(" ")
        );
        let leave = "`outside_sandbox` asks the person to run it outside";
        told.push_str(&match (offers.change(&self.left), offers.outside()) {
            (true, true) => format!(" To bring it in line, {mend}; or {leave}.)"),
            (true, false) => format!(" To bring it in line, {mend}.)"),
            (false, true) => format!(" To bring it in line, {leave}.)"),
            (false, false) => " Rules are against changing it: go back to where it fits.)".to_owned(),
        });
        told
    }
}

fn says_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

fn is_left_behind(line: &str) -> bool {
    says_any(line, &LEFT_BEHIND)
}

/// The part of an output that is looked at.
fn end(output: &str) -> &str {
    let start = output.len().saturating_sub(END);
    let start = (start..=output.len()).find(|at| output.is_char_boundary(*at));
    start.and_then(|start| output.get(start..)).unwrap_or_default()
}

/// The words of a text that may be paths.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_edge = |letter: char| letter.is_whitespace() || "'\"`=:;,|&<>(){}[]@‘’".contains(letter);
    text.split(is_edge).filter(|word| word.len() <= PATH_MAX)
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
    use crate::scope::Scope;

    #[test]
    fn what_was_kept_from_a_command_is_named() {
        let project = PathBuf::from("/srv/p");
        let mut policy =
            SandboxPolicy::of(SandboxMode::Workspace, [&project].into_iter(), Path::new("/srv/me"));
        policy.parts = SandboxPart::ALL.into();
        let offers = || {
            let scope = Scope {
                directory: project.clone(),
                worktree: project.clone(),
                output_dir: "/srv/out".into(),
                home: "/srv/me".into(),
                sandbox: None,
            };
            Offers::of("make", &project, &scope)
        };
        let check = |policy: &SandboxPolicy, command: &str, output: &str, expected: Option<&str>| {
            let place = CommandPlace { policy, home: Path::new("/srv/me"), workdir: Path::new("/srv/p/sub") };
            let said = place.refusal(command, 1, output, output).map(|found| found.told(&offers()));
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
        let place = CommandPlace { policy: &policy, home: Path::new("/srv/me"), workdir: &project };
        let done = |said: &str| place.refusal("git push", 0, said, said).map(|found| found.told(&offers()));
        let told = done(&format!("{said}\nbranch 'a' set up to track 'b'.")).unwrap();
        assert!(told.contains("/srv/p/.git/config can only be read in it. That is as it was"), "{told}");
        assert_eq!(done("/srv/p/.git/config is fine\nsda: Device or resource busy"), None);
        policy.network = SandboxNetwork::Own;
        let said = "curl: (6) Could not resolve host";
        let reason = "it has no network (set `network` to ask for it)";
        check(&policy, "curl -s https://example.com", said, Some(reason));
        policy.parts.clear();
        check(&policy, "curl ~/x", said, None);
    }
}
