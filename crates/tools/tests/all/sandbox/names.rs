//! What is protected because something else leads to it, and what is in a home folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use everturn_tools::Scope;
use everturn_tools::process::sandbox::SandboxSettings;

use super::places::run;
use super::{all, enclosed, require_whole};
use crate::bash::command;
use crate::harness::{Project, names, tree};

/// A project with files, and with links.
pub(super) fn project(files: &[&str], links: &[(&str, &str)]) -> Project {
    let project = Project::new();
    for name in files {
        project.file(name, "old\n");
    }
    for (link, target) in links {
        fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
        symlink(target, project.path(link)).unwrap();
    }
    project
}

/// A project that is the home folder.
fn home(files: &[&str]) -> Project {
    let mut project = project(files, &[]);
    let home = project.scope.worktree.clone();
    Arc::get_mut(&mut project.scope).unwrap().home = home;
    project
}

/// Runs a line, and compares what is told about names.
async fn check_told(project: &Project, line: &str, renamed: &[&str]) {
    let (said, told) = run(project, &SandboxSettings::default(), line).await;
    let renamed: Vec<String> =
        renamed.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
    assert_eq!(told, renamed, "{line}: {said}");
}

#[tokio::test]
async fn what_a_protected_link_leads_to_cannot_be_changed() {
    require_whole();
    let files =
        ["docs/guide.md", "tools/editor/tasks.json", "shared/command.md", "scripts/hook", "real/g.md"];
    let links = [
        ("AGENTS.md", "docs/guide.md"),
        (".vscode", "tools/editor"),
        (".claude/commands", "../shared"),
        (".git/hooks/pre-commit", "../../scripts/hook"),
        ("door", "real"),
        ("sub/CLAUDE.md", "../door/g.md"),
    ];
    let line = "for f in docs/guide.md tools/editor/tasks.json tools/editor/new shared/command.md shared/new \
                scripts/hook real/g.md; do echo evil > $f; rm -f $f; done; mv shared x; rm -r tools/editor";
    let project = project(&files, &links);
    fs::write(project.path(".git/HEAD"), "").unwrap();
    let before = tree(&project.scope.worktree);
    check_told(&project, line, &[]).await;
    assert_eq!(tree(&project.scope.worktree), before);
    // What lies beside it can be worked with.
    check_told(&project, "echo new > docs/other.md; mv docs/other.md scripts/", &[]).await;
    assert_eq!(project.text("scripts/other.md"), "new\n");
}

#[tokio::test]
async fn what_takes_the_place_of_what_a_protected_link_leads_to_does_not_stay() {
    require_whole();
    let check = async |line: &str, renamed: &[&str]| {
        let links = [("AGENTS.md", "docs/guide.md"), ("CLAUDE.md", "door/g.md"), ("door", "real")];
        let project = project(&["docs/guide.md", "real/g.md", "evil/g.md", "evil/guide.md"], &links);
        symlink("later/tasks", project.path(".zed")).unwrap();
        check_told(&project, line, renamed).await;
    };
    check("mv docs x && mkdir docs && echo evil > docs/guide.md", &["docs/guide.md"]).await;
    check("mv docs x && ln -s evil docs", &["docs"]).await;
    check("rm door && ln -s evil door", &["door"]).await;
    check("mkdir -p later/tasks", &["later/tasks"]).await;
    check("mkdir later && ln -s ../evil later/tasks", &["later/tasks"]).await;
    check("mv docs x; mkdir later; mv x docs", &[]).await;
}

#[tokio::test]
async fn what_a_home_folder_is_linked_to_cannot_be_changed() {
    require_whole();
    let project = project(&["bashrc", "nvim/init.lua", "tool", "notes"], &[]);
    let home = &project.scope.home;
    for (link, target) in
        [(".bashrc", "bashrc"), (".config/nvim", "nvim"), (".local/bin/tool", "tool"), ("notes", "notes")]
    {
        fs::create_dir_all(home.join(link).parent().unwrap()).unwrap();
        symlink(project.path(target), home.join(link)).unwrap();
    }
    check_told(&project, "for f in bashrc nvim/init.lua nvim/new tool notes; do echo new > $f; done", &[])
        .await;
    let texts = ["bashrc", "nvim/init.lua", "tool", "notes"].map(|name| project.text(name));
    assert_eq!(texts, ["old\n", "old\n", "old\n", "new\n"]);
}

#[tokio::test]
async fn a_protected_link_to_the_project_itself_closes_nothing() {
    require_whole();
    let project = project(&["src/a"], &[(".claude", "."), (".cursor", ".."), ("AGENTS.md", "/usr")]);
    check_told(&project, "echo new > src/a", &[]).await;
    assert_eq!(project.text("src/a"), "new\n");
}

/// A project with settings of git's, and with files.
pub(super) fn repository(settings: &str, files: &[&str]) -> Project {
    let project = project(files, &[]);
    project.file(".git/HEAD", "ref: refs/heads/main\n");
    project.file(".git/config", settings);
    project
}

#[tokio::test]
async fn what_the_settings_of_a_repository_name_cannot_be_changed() {
    require_whole();
    let check = async |settings: &str, name: &str| {
        let project = repository(settings, &[name, "other/x"]);
        let line = format!("echo evil > {name}; rm -f {name}; echo new > other/x; ls other; true");
        let (said, _) = run(&project, &SandboxSettings::default(), &line).await;
        assert_eq!(project.text(name), "old\n", "{settings}: {said}");
        assert_eq!(project.text("other/x"), "new\n", "{settings}: {said}");
    };
    check("[core]\n\thooksPath = scripts/hooks\n", "scripts/hooks/pre-commit").await;
    check("[core]\n\thooksPath = hooks # ours\n", "hooks/pre-commit").await;
    check("[core] fsmonitor = ./tool\n", "tool").await;
    check("[filter \"x\"]\n\tclean = python3 tool.py %f\n", "tool.py").await;
    check("[diff \"x\"]\n\ttextconv = \"sh -c 'bin/conv \\\"$1\\\"' x\"\n", "bin/conv").await;
    check("[alias]\n\tx = !sh \\\n./bin/x\n", "bin/x").await;
    check("[alias]\n\tx = -c core.pager=bin/x log\n", "bin/x").await;
    check("[alias]\n\tx = rebase -x bin/x\n", "bin/x").await;
    check("[alias]\n\tx = rebase -xbin/x\n", "bin/x").await;
    check("[include]\n\tpath = ../gitconfig.inc\n", "gitconfig.inc").await;
    check("[includeIf \"gitdir:/x\"]\n\tpath = ../sub/inc\n", "sub/inc").await;
}

#[tokio::test]
async fn settings_are_followed_to_other_files_and_repositories() {
    require_whole();
    let project = repository("[include]\n\tpath = ../one.inc\n[core]\n\thooksPath = later/hooks\n", &[]);
    let person = "[core]\n\tfsmonitor = mine/monitor\n";
    for (name, text) in [
        ("one.inc", "[include]\n\tpath = sub/two.inc\n"),
        ("sub/two.inc", "[core]\n\tpager = ./pager\n"),
        ("pager", "old"),
        (".git/config.worktree", "[core]\n\teditor = ./editor\n"),
        ("editor", "old"),
        ("nested/.git/HEAD", "x"),
        ("nested/.git/config", "[core]\n\tsshCommand = ./ssh\n"),
        ("nested/ssh", "old"),
        (".git/modules/m/HEAD", "x"),
        (".git/modules/m/config", "[core]\n\tworktree = ../../../m\n\tfsmonitor = ./watch\n"),
        ("m/watch", "old"),
        ("mine/monitor", "old"),
        ("nested/mine/monitor", "old"),
    ] {
        project.file(name, text);
    }
    fs::create_dir_all(&project.scope.home).unwrap();
    fs::write(project.scope.home.join(".gitconfig"), person).unwrap();
    let before = tree(&project.scope.worktree);
    let line = "for f in one.inc sub/two.inc pager editor nested/ssh m/watch mine/monitor nested/mine/monitor; do \
                echo evil > $f; done; mkdir -p later/hooks";
    check_told(&project, line, &["later/hooks"]).await;
    let mut after = tree(&project.scope.worktree);
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
}

#[tokio::test]
async fn what_was_permitted_outside_keeps_what_is_protected_and_hidden() {
    require_whole();
    let project = Project::new();
    let home = project.scope.home.clone();
    let write = |name: &str| {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), "old\n").unwrap();
    };
    let kept = [".bashrc", ".gitconfig", ".config/everturn/x", "other/.git/hooks/update", "other/AGENTS.md"];
    kept.iter().for_each(|name| write(name));
    fs::write(home.join("other/.git/HEAD"), "").unwrap();
    let files = kept.map(|name| home.join(name).display().to_string()).join(" ");
    project.file(
        "e.sh",
        format!("for f in {files}; do echo evil > $f; done; cd {}; mkdir .zsh bin\n", home.display()),
    );
    let line = format!("echo x > {}/notes.txt; sh e.sh", home.display());
    let output = project.run(&enclosed(all()), command(&line)).await.unwrap();
    for name in kept {
        assert_eq!(fs::read_to_string(home.join(name)).unwrap(), "old\n", "{name}: {}", output.output);
    }
    let mut found = names(&home);
    found.retain(|name| !name.starts_with(".cache"));
    let expected =
        [".bashrc", ".config", ".gitconfig", ".zsh.untrusted", "bin.untrusted", "notes.txt", "other"];
    assert_eq!(found, expected, "{}", output.output);
}

#[tokio::test]
async fn in_a_home_folder_every_name_with_a_dot_is_protected() {
    require_whole();
    let files = [
        ".gdbinit",
        ".config/i3/config",
        ".local/share/systemd/user/x.service",
        ".oh-my-zsh/custom/x.zsh",
        ".cargo/env",
        ".cargo/registry/x",
        ".npm/x",
        "go/bin/tool",
        "src/.bash_completion",
    ];
    let project = home(&files);
    let line = "for f in .gdbinit .config/i3/config .config/new .local/share/systemd/user/x.service .cargo/env \
                .local/share/new .oh-my-zsh/custom/x.zsh .cargo/registry/x .npm/x go/bin/tool src/.bash_completion; \
                do echo new > $f; done";
    check_told(&project, line, &[".local/share/new"]).await;
    for name in files {
        let open = matches!(name, ".cargo/registry/x" | ".npm/x" | "src/.bash_completion");
        assert_eq!(project.text(name), if open { "new\n" } else { "old\n" }, "{name}");
    }
    // What is not there is not made for good, but for the places of caches.
    let project = home(&["src/a"]);
    let line = "mkdir -p .cargo/registry .cargo/bin .local/bin .config/sway .direnv bin go/bin go/pkg/mod src/bin; \
                touch .bash_completion .cargo/env .face";
    let renamed = [
        ".bash_completion",
        ".cargo/bin",
        ".cargo/env",
        ".config",
        ".direnv",
        ".face",
        ".local/bin",
        "bin",
        "go/bin",
    ];
    check_told(&project, line, &renamed).await;
    assert!(project.path(".cargo/registry").is_dir() && project.path("src/bin").is_dir());
    // A folder of programs that a variable names.
    let programs = vec![project.path("my/programs")];
    let settings = SandboxSettings { programs, ..SandboxSettings::default() };
    let (_, told) = run(&project, &settings, "mkdir -p my/programs my/other").await;
    assert_eq!(told, ["my/programs was renamed to my/programs.untrusted"]);
}

#[tokio::test]
async fn a_folder_above_the_home_folder_protects_the_same() {
    require_whole();
    let mut project = project(&["me/.config/x", "me/src/a", ".config/other/x"], &[]);
    let home = project.path("me");
    Arc::get_mut(&mut project.scope).unwrap().home = home;
    let line = "for f in me/.config/x me/src/a .config/other/x; do echo new > $f; done; mkdir me/.zsh .zsh";
    check_told(&project, line, &["me/.zsh"]).await;
    let texts = ["me/.config/x", "me/src/a", ".config/other/x"].map(|name| project.text(name));
    assert_eq!(texts, ["old\n", "new\n", "new\n"]);
}

#[tokio::test]
async fn what_a_store_of_secrets_leads_to_is_hidden() {
    require_whole();
    let dotfiles = |project: &Project, home: &Path| {
        for name in ["ssh/id", "netrc", "keys/one", "bashrc"] {
            project.file(&format!("dotfiles/{name}"), format!("canary {name}\n"));
        }
        let dotfiles = project.path("dotfiles");
        fs::create_dir_all(home.join(".gnupg")).unwrap();
        symlink(dotfiles.join("ssh"), home.join(".ssh")).unwrap();
        symlink(dotfiles.join("netrc"), home.join(".netrc")).unwrap();
        symlink(dotfiles.join("keys/one"), home.join(".gnupg/one")).unwrap();
    };
    let look = "cat dotfiles/ssh/* dotfiles/netrc dotfiles/keys/* dotfiles/bashrc 2>/dev/null";
    for mut project in [Project::new(), home(&[])] {
        dotfiles(&project, &project.scope.home.clone());
        let (said, _) = run(&project, &SandboxSettings::default(), look).await;
        assert_eq!(said, "canary bashrc\n");
        // The dotfiles themselves are the project.
        let directory = project.path("dotfiles");
        let scope = Scope { worktree: directory.clone(), directory, ..(*project.scope).clone() };
        project.scope = Arc::new(scope);
        let (said, _) =
            run(&project, &SandboxSettings::default(), "cat ssh/* netrc keys/* bashrc 2>/dev/null").await;
        assert_eq!(said, "canary bashrc\n");
    }
}

#[tokio::test]
async fn what_is_protected_among_plans_cannot_be_changed() {
    // The folder of plans covered what had been mounted in it.
    require_whole();
    let project = project(&[".opencode/plans/AGENTS.md", ".opencode/plans/a.md"], &[]);
    check_told(&project, "for f in .opencode/plans/*; do echo new > $f; done", &[]).await;
    let texts = ["AGENTS.md", "a.md"].map(|name| project.text(&format!(".opencode/plans/{name}")));
    assert_eq!(texts, ["old\n", "new\n"]);
}

#[tokio::test]
async fn plans_can_be_made_where_nothing_else_is() {
    require_whole();
    let project = Project::new();
    check_told(
        &project,
        "mkdir -p .opencode/plans sub/.opencode/plans && echo x > .opencode/plans/a.md",
        &[],
    )
    .await;
    assert_eq!(project.text(".opencode/plans/a.md"), "x\n");
    // Whatever comes with them does not stay, nor does what is protected among them.
    let line =
        "mkdir -p one/.opencode/plans one/.opencode/agent two/.opencode; touch .opencode/plans/AGENTS.md";
    check_told(&project, line, &[".opencode/plans/AGENTS.md", "one/.opencode", "two/.opencode"]).await;
    check_told(&project, "mkdir -p new/.opencode/plans/.vscode", &["new/.opencode/plans/.vscode"]).await;
    // A link would let anything be there.
    check_told(&project, "mkdir -p x/.opencode; ln -s ../.. x/.opencode/plans", &["x/.opencode"]).await;
    let project = home(&[".opencode/plans/a.md"]);
    check_told(&project, "echo new > .opencode/plans/a.md; echo new > .opencode/plans/b.md", &[]).await;
    let texts = [".opencode/plans/a.md", ".opencode/plans/b.md"].map(|name| project.text(name));
    assert_eq!(texts, ["new\n", "new\n"]);
    // What is there is closed.
    let project = self::project(&[".opencode/agent/a.md"], &[]);
    check_told(&project, "mkdir .opencode/plans; echo x > .opencode/agent/a.md; echo x > .opencode/new", &[])
        .await;
    assert_eq!(
        (names(&project.path(".opencode")), project.text(".opencode/agent/a.md")),
        (vec!["agent".into()], "old\n".into())
    );
}
