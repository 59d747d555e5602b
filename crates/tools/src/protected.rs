//! Protected files: what in a project makes programs run by itself, or tells agents what to do.
//!
//! Writing one is more than an edit: the next start of an editor, a hook, a shell, a pipeline or an agent runs what is in
//! it. So changing one asks, also where edits are allowed, and a sandbox keeps commands from it. Reading one is harmless.
//! What git keeps in `.git` is protected too, which [`crate::scope`] sees to.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// Names of files and folders, wherever in a project they are. A folder stands for all that is in it, `*` for any text in
/// a name, and what is before a slash for the folder that it must lie in.
///
/// The rule: a name is here if some program takes what is there for the person's word, or runs what it names, **by
/// itself**, when a folder is opened or entered, a file in it is opened, something is committed, checked out or pushed, or
/// an agent, a shell or a desktop starts. What a person starts by name is not, and neither is what that starts in turn: a
/// Makefile, scripts of package.json, settings of tools for building and checking. Neither is `.env`,
/// which scripts of many projects write, although an old tool runs it.
///
/// This is the only list: what the tools for files ask about, what is known of a command line, and what the sandbox
/// keeps programs from.
const NAMES: [&[&str]; 6] = [
    // Agents take them for the person's word: what to do, what to start, what is allowed.
    &[
        ".agent",
        ".agents",
        ".aider.conf.yaml",
        ".aider.conf.yml",
        ".aider.model.*",
        ".amazonq",
        ".amp",
        ".augment",
        ".augment-guidelines",
        ".claude",
        ".clinerules",
        ".codebuddy",
        ".codex",
        ".continue",
        ".continuerc.json",
        ".crush.json",
        ".cursor",
        ".cursorrules",
        ".factory",
        ".gemini",
        ".goosehints",
        ".grok",
        ".iflow",
        ".junie",
        ".kilo",
        ".kilocode",
        ".kilocodemodes",
        ".kiro",
        ".mcp.json",
        ".omp",
        ".opencode",
        ".openhands",
        ".pi",
        ".qwen",
        ".roo",
        ".rooignore",
        ".roomodes",
        ".roorules*",
        ".rovodev",
        ".rules",
        ".trae",
        ".vibe",
        ".windsurf",
        ".windsurfrules",
        "AGENT.md",
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.local.md",
        "CLAUDE.md",
        "CONTEXT.md",
        "CRUSH.md",
        "GEMINI.md",
        "QWEN.md",
        "WARP.md",
        "crush.json",
        "everturn.toml",
        "gptme.toml",
        "opencode.json",
        "opencode.jsonc",
    ],
    // Editors run what they name when a folder or a file is opened: tasks, tools, containers, code.
    &[
        "*.code-workspace",
        "*.sublime-project",
        "*.sublime-workspace",
        ".bsp/*.json",
        ".codesandbox",
        ".devcontainer",
        ".devcontainer.json",
        ".dir-locals-2.el",
        ".dir-locals.el",
        ".exrc",
        ".externalToolBuilders",
        ".fleet",
        ".gitpod.yml",
        ".gvimrc",
        ".helix",
        ".idea",
        ".idx",
        ".lvimrc",
        ".nvim",
        ".nvim.lua",
        ".nvimrc",
        ".project",
        ".replit",
        ".theia",
        ".vimrc",
        ".vs",
        ".vscode",
        ".zed",
    ],
    // Hooks: git and others run them, or have them run, when something is committed, pushed or checked out.
    &[
        ".git-hooks",
        ".githooks",
        ".gitmodules",
        ".grumphp.y*ml",
        ".hg/hgrc",
        ".hg/hgrc-not-shared",
        ".hg/sharedpath",
        ".husky",
        ".huskyrc*",
        ".jj/repo/config.toml",
        ".lazygit.yml",
        ".lefthook",
        ".lefthook-local",
        ".lefthook-local.json*",
        ".lefthook-local.toml",
        ".lefthook-local.y*ml",
        ".lefthook.json*",
        ".lefthook.toml",
        ".lefthook.y*ml",
        ".overcommit.yml",
        ".pre-commit-config.yaml",
        ".pre-commit-config.yml",
        ".sl/config",
        ".trunk",
        "captainhook.json",
        "grumphp.y*ml",
        "hk.pkl",
        "lefthook-local.json*",
        "lefthook-local.toml",
        "lefthook-local.y*ml",
        "lefthook.json*",
        "lefthook.toml",
        "lefthook.y*ml",
        "prek.toml",
    ],
    // Shells run them, or what they name, when somebody enters the folder.
    &[
        ".autoenv",
        ".autoenv.zsh",
        ".config/mise",
        ".direnv",
        ".envrc",
        ".mise",
        ".mise.*.toml",
        ".mise.toml",
        ".rtx.toml",
        ".tool-versions",
        "mise.*.toml",
        "mise.toml",
        "mise/config.toml",
    ],
    // Shells, terminals and the desktop run them when they start or end.
    &[
        ".bash_aliases",
        ".bash_login",
        ".bash_logout",
        ".bash_profile",
        ".bashrc",
        ".config/autostart",
        ".config/environment.d",
        ".config/fish",
        ".config/git",
        ".config/nvim",
        ".config/systemd",
        ".config/tmux",
        ".emacs",
        ".emacs.d",
        ".gitconfig",
        ".inputrc",
        ".pam_environment",
        ".profile",
        ".tmux.conf",
        ".vim",
        ".xinitrc",
        ".xprofile",
        ".xsession",
        ".xsessionrc",
        ".zlogin",
        ".zlogout",
        ".zprofile",
        ".zshenv",
        ".zshrc",
    ],
    // Pipelines run them elsewhere, with the secrets of whoever owns the repository.
    &[
        ".appveyor.yml",
        ".azure-pipelines",
        ".azuredevops",
        ".build.yml",
        ".buildkite",
        ".builds",
        ".circleci",
        ".cirrus.star",
        ".cirrus.yml",
        ".drone.*",
        ".evergreen.yml",
        ".forgejo",
        ".gitea",
        ".github",
        ".gitlab",
        ".gitlab-ci.yml",
        ".harness",
        ".onedev-buildspec.yml",
        ".readthedocs.y*ml",
        ".semaphore",
        ".teamcity",
        ".tekton",
        ".travis.yml",
        ".woodpecker",
        ".woodpecker.*",
        ".zuul.d",
        ".zuul.yaml",
        "Jenkinsfile",
        "Jenkinsfile.*",
        "appveyor.yml",
        "azure-pipelines*.y*ml",
        "bitbucket-pipelines.yml",
        "bitrise.yml",
        "buildspec.y*ml",
        "cloudbuild.y*ml",
        "codefresh.yml",
        "codemagic.yaml",
        "wercker.yml",
    ],
];

/// What in a protected folder is not protected: plans are text for people, and an agent that plans writes them.
const EXCEPTION: [&str; 2] = [".opencode", "plans"];

/// Names in a folder of git's by which git is made to run programs, or to look elsewhere. For files of git's the tools
/// ask about everything; a program must be able to change the rest, or nothing could be committed.
pub(crate) const IN_GIT: [&str; 10] = [
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    "info/attributes",
    "info/sparse-checkout",
    "lazygit.yml",
    "remotes",
];

/// The names, as they are usually spelled.
fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().flatten().copied()
}

/// A name of the list: the last part of it, and what is before the slash.
struct KnownName {
    last: &'static str,
    above: &'static str,
}

/// The names by the first letter of the last part, a small one, and at `*` those that begin with any text. Every name in
/// every project is looked up here, and almost none is one of them.
static BY_FIRST: LazyLock<HashMap<u8, Vec<KnownName>>> = LazyLock::new(|| {
    let mut by_first: HashMap<u8, Vec<KnownName>> = HashMap::new();
    for known in names() {
        let (above, last) = known.rsplit_once('/').unwrap_or(("", known));
        let first = last.bytes().next().unwrap_or_default().to_ascii_lowercase();
        by_first.entry(first).or_default().push(KnownName { last, above });
    }
    by_first
});

/// Whether what lies at a path of a project has a protected name itself, and so is protected with all that is in it but
/// for the exception. Some file systems do not tell capitals from small letters.
#[must_use]
pub fn has_protected_name(below_project: &Path) -> bool {
    let Some(last) = below_project.file_name() else { return false };
    let first = last.as_encoded_bytes().first().map(u8::to_ascii_lowercase);
    let known = first.into_iter().chain([b'*']).filter_map(|first| BY_FIRST.get(&first)).flatten();
    known.into_iter().any(|known| {
        is_like(known.last, last) && {
            let mut folders = below_project.iter().rev().skip(1);
            let mut above = known.above.rsplit('/').filter(|name| !name.is_empty());
            above.all(|name| folders.next().is_some_and(|folder| is_like(name, folder)))
        }
    })
}

/// Whether a name is one of the list, or like it.
fn is_like(known: &str, name: &OsStr) -> bool {
    is_like_bytes(known.as_bytes(), name.as_encoded_bytes())
}

fn is_like_bytes(known: &[u8], name: &[u8]) -> bool {
    let Some(star) = known.iter().position(|byte| *byte == b'*') else {
        return known.eq_ignore_ascii_case(name);
    };
    let (start, end) = (known.get(..star).unwrap_or_default(), known.get(star + 1..).unwrap_or_default());
    let Some((first, rest)) = name.split_at_checked(star) else { return false };
    first.eq_ignore_ascii_case(start)
        && (0..=rest.len()).any(|at| is_like_bytes(end, rest.get(at..).unwrap_or_default()))
}

/// Whether what lies at a path of a project is protected.
#[must_use]
pub fn is_protected(below_project: &Path) -> bool {
    let names = below_project.components().filter(|part| matches!(part, Component::Normal(_)));
    let path: PathBuf = names.collect();
    has_protected_name(&path) || path.ancestors().any(has_protected_name) && !path.ancestors().any(is_plans)
}

/// The same for an absolute path in a project. What the project lies in counts for what a name must lie in, and makes
/// nothing protected by itself.
pub(crate) fn is_protected_in(project: &Path, path: &Path) -> bool {
    let below = || path.ancestors().take_while(|at| at.starts_with(project) && *at != project);
    has_protected_name(path) && path != project || below().any(has_protected_name) && !below().any(is_plans)
}

/// Whether a path is that of a folder of plans.
pub(crate) fn is_plans(path: &Path) -> bool {
    let [_, inner] = EXCEPTION;
    let is_last = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(inner));
    is_last && path.parent().and_then(plans_in).is_some()
}

/// The folder of plans that may be in a protected folder.
pub(crate) fn plans_in(folder: &Path) -> Option<PathBuf> {
    let [outer, inner] = EXCEPTION;
    let name = folder.file_name()?;
    name.eq_ignore_ascii_case(outer).then(|| folder.join(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_by_itself_is_protected() {
        for path in [
            "opencode.json",
            "sub/opencode.jsonc",
            "AGENTS.md",
            "docs/agents.md",
            ".vscode/tasks.json",
            "sub/.VSCode/settings.json",
            ".opencode/agent/x.md",
            ".opencode",
            ".github/workflows/ci.yml",
            ".husky/pre-commit",
            ".envrc",
            "Jenkinsfile",
            ".direnv/flake-profile",
            "sub/.devcontainer.json",
            ".clinerules/rules.md",
            ".opencode/plans/AGENTS.md",
            ".kilo/x",
            ".grok/x",
            ".vibe/x",
            ".iflow/x",
            ".codebuddy/x",
            ".rovodev/x",
            ".amp/x",
            "gptme.toml",
            "sub/.sl/config",
            ".vs/tasks.vs.json",
            ".bsp/x.json",
            ".trunk/trunk.yaml",
        ] {
            assert!(is_protected(Path::new(path)), "{path}");
        }
        for path in [
            "",
            "src/main.rs",
            ".opencode/plans/1-x.md",
            "opencode.json.bak",
            "vscode/tasks.json",
            ".gitignore",
            "README.md",
            "my.agents.md",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn every_name_of_the_list_is_protected_wherever_it_is() {
        for known in names() {
            let name = known.replace('*', "x");
            for path in [name.clone(), format!("a/b/{name}"), name.to_uppercase(), format!("{name}/inner")] {
                assert!(is_protected(Path::new(&path)), "{path}");
                assert_eq!(has_protected_name(Path::new(&path)), !path.ends_with("/inner"), "{path}");
            }
            let beside =
                [format!("not{name}").replace("not.", "not-"), format!("{name}.bak"), format!("{name}x")];
            for path in beside {
                let is_meant = names()
                    .filter(|other| other.contains('*'))
                    .any(|other| is_like(other, OsStr::new(&path)));
                assert!(is_meant || !is_protected(Path::new(&path)), "{path}");
            }
        }
        for group in NAMES {
            assert!(group.is_sorted_by(|one, other| one < other), "{group:?}");
        }
    }

    #[test]
    fn what_a_person_starts_by_name_is_not_protected() {
        for path in [
            "Makefile",
            "package.json",
            "build.rs",
            ".cargo/config.toml",
            ".env",
            "flake.nix",
            ".npmrc",
            "justfile",
            "repo/config.toml",
            "hgrc",
            "config/mise",
            "src/mise/main.rs",
            ".config/other",
            "drone.yml",
            "x.code-workspaces",
            ".bsp/x.log",
            ".sl/store",
        ] {
            assert!(!is_protected(Path::new(path)), "{path}");
        }
    }
}
