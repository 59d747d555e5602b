//! Protected files: what in a project makes programs run by itself, or tells agents what to do.
//!
//! Writing one is more than an edit: the next start of an editor, a hook, a shell, a pipeline or an agent runs what is in
//! it. So changing one asks, also where edits are allowed, and a sandbox keeps commands from it. Reading one is harmless.
//! What git keeps in `.git` is judged by [`crate::scope`].

use std::path::{Component, Path};

/// Files, by their name, wherever in a project they are.
const FILES: [&str; 37] = [
    // Agents: their configuration and their instructions.
    "opencode.json",
    "opencode.jsonc",
    "everturn.toml",
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    ".aider.conf.yml",
    ".clinerules",
    ".cursorrules",
    ".mcp.json",
    ".windsurfrules",
    // Editors.
    ".dir-locals.el",
    ".exrc",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    // Hooks.
    ".envrc",
    ".gitmodules",
    ".lefthook.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    // Shell profiles.
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    // Pipelines.
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "jenkinsfile",
];

/// Folders, by their name, wherever in a project they are: everything in them.
const FOLDERS: [&str; 17] = [
    ".agents",
    ".circleci",
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".fleet",
    ".gemini",
    ".githooks",
    ".github",
    ".husky",
    ".idea",
    ".nvim",
    ".opencode",
    ".vscode",
    ".windsurf",
    ".zed",
];

/// What in such a folder is not protected: plans are text for people, and an agent that plans writes them.
const EXCEPTION: [&str; 2] = [".opencode", "plans"];

/// Whether what lies at a path of a project is protected. Some file systems do not tell capitals from small letters.
#[must_use]
pub fn is_protected(below_project: &Path) -> bool {
    let names: Vec<String> = below_project
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
            _ => None,
        })
        .collect();
    let plan = names.windows(2).any(|pair| pair == EXCEPTION);
    let inside = names.iter().any(|name| FOLDERS.contains(&name.as_str()));
    let file = names.last().is_some_and(|name| FILES.contains(&name.as_str()));
    file || inside && !plan
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
