//! Protected files: what in a project makes programs run by itself, or tells agents what to do.
//!
//! Writing one is more than an edit: the next start of an editor, a hook, a shell, a pipeline or an agent runs what is in
//! it. So changing one asks, also where edits are allowed, and a sandbox keeps commands from it. Reading one is harmless.
//! What git keeps in `.git` is judged by [`crate::scope`].

use std::ffi::OsStr;
use std::path::{Component, Path};

/// Names of files and folders, wherever in a project they are. A folder stands for all that is in it.
/// This is the only list: what the tools for files ask about, what is known of a command line, and what the sandbox
/// keeps programs from.
const NAMES: [&[&str]; 5] = [
    // Agents take them for the person's word: what to do, what to start, what is allowed.
    &[
        ".agents",
        ".aider.conf.yml",
        ".claude",
        ".clinerules",
        ".codex",
        ".cursor",
        ".cursorrules",
        ".gemini",
        ".mcp.json",
        ".opencode",
        ".windsurf",
        ".windsurfrules",
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.local.md",
        "CLAUDE.md",
        "GEMINI.md",
        "everturn.toml",
        "opencode.json",
        "opencode.jsonc",
    ],
    // Editors run what they name when a folder or a file is opened: tasks, tools, containers, code.
    &[
        ".devcontainer",
        ".devcontainer.json",
        ".dir-locals.el",
        ".exrc",
        ".fleet",
        ".idea",
        ".nvim",
        ".nvim.lua",
        ".nvimrc",
        ".vimrc",
        ".vscode",
        ".zed",
    ],
    // Hooks: git runs them, or has them run, and so does a shell that enters the folder.
    &[
        ".direnv",
        ".envrc",
        ".githooks",
        ".gitmodules",
        ".husky",
        ".lefthook.yml",
        ".pre-commit-config.yaml",
        "lefthook.yml",
    ],
    // Shells run them when they start or end.
    &[
        ".bash_login",
        ".bash_logout",
        ".bash_profile",
        ".bashrc",
        ".profile",
        ".zlogin",
        ".zprofile",
        ".zshenv",
        ".zshrc",
    ],
    // Pipelines run them elsewhere, with the secrets of whoever owns the repository.
    &[
        ".circleci",
        ".github",
        ".gitlab-ci.yml",
        ".travis.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
    ],
];

/// What in a protected folder is not protected: plans are text for people, and an agent that plans writes them.
pub(crate) const EXCEPTION: [&str; 2] = [".opencode", "plans"];

/// Names in a folder of git's by which git is made to run programs, or to look elsewhere. For files of git's the tools
/// ask about everything; a program must be able to change the rest, or nothing could be committed.
pub(crate) const IN_GIT: [&str; 7] =
    ["commondir", "config", "config.worktree", "gitdir", "hooks", "info/attributes", "info/sparse-checkout"];

/// The names, as they are usually spelled.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().flatten().copied()
}

/// Whether a file or folder of this name is protected, with all that is in it but for the exception. Some file systems
/// do not tell capitals from small letters.
#[must_use]
pub fn is_protected_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    names().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether what lies at a path of a project is protected.
#[must_use]
pub fn is_protected(below_project: &Path) -> bool {
    let names: Vec<&OsStr> = below_project
        .components()
        .filter_map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
        .collect();
    let excepted = |names: &[&OsStr]| {
        names
            .windows(2)
            .any(|pair| pair.iter().zip(EXCEPTION).all(|(name, known)| name.eq_ignore_ascii_case(known)))
    };
    names.last().is_some_and(|name| is_protected_name(name))
        || names.iter().any(|name| is_protected_name(name)) && !excepted(&names)
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
}
