//! A project, or a folder that was permitted, inside of what is protected in a home folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::scope::PathAccess;
use everturn_tools::{Scope, Tool as _};

use super::places::run;
use super::{all, enclosed, require_whole};
use crate::bash::command;
use crate::harness::{Project, tree};

/// A project that is a place in a home folder.
fn project_at(place: &str) -> Project {
    let mut project = Project::new();
    let scope = Arc::get_mut(&mut project.scope).unwrap();
    let worktree = scope.home.join(place);
    fs::create_dir_all(&worktree).unwrap();
    scope.directory.clone_from(&worktree);
    scope.worktree = worktree;
    project
}

/// Places, each with what would make something run by itself there.
const PLACES: [(&str, &str); 12] = [
    (
        ".config",
        "mkdir -p autostart fish systemd/user i3 git; echo E > autostart/x.desktop; echo E > fish/config.fish; \
         echo E > systemd/user/x.service; echo E > i3/config; echo E > git/config; echo E > foo",
    ),
    (".config/fish", "echo E > config.fish; mkdir conf.d; echo E > conf.d/x.fish"),
    (".config/nvim", "echo E > init.lua"),
    ("bin", "echo E > ls"),
    (".local/bin", "echo E > ls"),
    (".local/share/applications", "echo E > x.desktop"),
    (".vim", "echo E > vimrc"),
    (".ssh", "echo E > authorized_keys"),
    (".local", "mkdir -p bin share/systemd/user; echo E > bin/ls; echo E > share/systemd/user/x.service"),
    (".oh-my-zsh", "echo E > oh-my-zsh.sh"),
    (".claude", "echo E > settings.json"),
    (".cargo", "mkdir bin; echo E > bin/cargo; echo E > config.toml"),
];

#[tokio::test]
async fn a_project_among_the_settings_of_a_home_folder_can_only_be_read() {
    require_whole();
    for (place, line) in PLACES {
        let project = project_at(place);
        project.file("old", "old\n");
        project.file("e.sh", format!("{line}; echo E > old; true\n"));
        let before = tree(&project.scope.worktree);
        let (said, told) = run(&project, &SandboxSettings::default(), "cat old; sh e.sh; false").await;
        assert_eq!((tree(&project.scope.worktree), told), (before, Vec::new()), "{place}: {said}");
        let why = format!(
            "(The command ran in a sandbox: {} can only be read in it, because the project lies among the settings and \
             programs of a home folder: a command changes there what its line names, if the person permits it. If",
            project.scope.worktree.display()
        );
        assert!(said.starts_with("old\n") && said.contains(&why), "{place}: {said}");
    }
}

#[tokio::test]
async fn changes_among_the_settings_of_a_home_folder_ask_for_each_file() {
    require_whole();
    for (place, line) in PLACES {
        let project = project_at(place);
        let asked = |scope: &Scope, name: &str, access| -> Vec<String> {
            let needs = scope.external(&scope.worktree.join(name), access);
            needs.into_iter().map(|need| need.permission).collect()
        };
        assert_eq!(asked(&project.scope, "sub/file", PathAccess::Write), ["protected_file"], "{place}");
        assert_eq!(asked(&project.scope, "sub/file", PathAccess::Read), [""; 0], "{place}");
        let tool = enclosed(all());
        let needs = |line: &str| -> Vec<String> {
            let needs = tool.needs(&command(line), &project.scope).unwrap();
            needs.into_iter().map(|need| need.permission).collect()
        };
        // To look around asks nothing.
        assert_eq!(needs("ls"), ["bash"], "{place}");
        assert_eq!(needs("echo new > mine"), ["protected_file", "bash"], "{place}");
        // What was permitted is changed, and nothing else.
        project.file("mine", "old\n");
        project.file("other", "old\n");
        project.file("e.sh", format!("{line}; echo E > other; true\n"));
        let mut expected = tree(&project.scope.worktree);
        let output = project.run(&tool, command("echo new > mine; sh e.sh")).await.unwrap();
        assert_eq!(project.text("mine"), "new\n", "{place}: {}", output.output);
        project.file("mine", "old\n");
        let mut after = tree(&project.scope.worktree);
        let is_aside = |name: &str| name.split('/').any(|part| part.ends_with(".untrusted"));
        after.retain(|name, _| !is_aside(&name.display().to_string()));
        // Places of caches can be made on the way.
        let is_folder = |name: &PathBuf| project.scope.worktree.join(name).is_dir();
        after.retain(|name, _| !is_folder(name));
        expected.retain(|name, _| !is_folder(name));
        assert_eq!(after, expected, "{place}: {}", output.output);
    }
}

#[tokio::test]
async fn ordinary_folders_of_a_home_folder_are_ordinary_projects() {
    require_whole();
    let check = async |place: &str, settings: SandboxSettings| {
        let project = project_at(place);
        project.file(".venv/bin/tool", "old\n");
        let programs = vec![project.path(".venv/bin")];
        let settings = SandboxSettings { programs, ..settings };
        let (said, told) =
            run(&project, &settings, "echo new > file; echo new > .venv/bin/tool; echo E > AGENTS.md").await;
        let expected = vec!["AGENTS.md was renamed to AGENTS.md.untrusted".to_owned()];
        assert_eq!(told, expected, "{place}: {said}");
        assert_eq!((project.text("file"), project.text(".venv/bin/tool")), ("new\n".into(), "new\n".into()));
    };
    check("src/tool", SandboxSettings::default()).await;
    check(".cache/clone", SandboxSettings::default()).await;
    // What the person has listed is theirs to have changed.
    let project = project_at(".dotfiles");
    let settings =
        SandboxSettings { writable: vec![project.scope.worktree.clone()], ..SandboxSettings::default() };
    let (said, _) = run(&project, &settings, "echo new > file").await;
    assert_eq!(fs::read_to_string(project.path("file")).ok().as_deref(), Some("new\n"), "{said}");
    // Programs of a folder that is no project of its own.
    let project = project_at("go");
    let (_, told) = run(&project, &SandboxSettings::default(), "mkdir bin src").await;
    assert_eq!(told, ["bin was renamed to bin.untrusted"]);
    // A name may be protected because of where the project lies.
    let project = project_at("dotfiles/.config");
    let (_, told) = run(&project, &SandboxSettings::default(), "mkdir fish foo").await;
    assert_eq!(told, ["fish was renamed to fish.untrusted"]);
}

#[tokio::test]
async fn a_file_that_was_permitted_in_a_home_folder_opens_nothing_beside_it() {
    require_whole();
    for (permitted, kept, line) in [
        (
            ".config/foorc",
            ".config/fish/config.fish",
            "cd .config; echo E >> fish/config.fish; mkdir -p autostart systemd/user i3 git; echo E > autostart/e.desktop; \
             echo E > systemd/user/e.service; echo E > i3/config; echo E > git/config",
        ),
        (
            ".local/t.txt",
            ".local/bin/tool",
            "cd .local; mkdir -p bin share/systemd/user share/applications; echo E > bin/ls; \
             echo E > share/systemd/user/x.service; echo E > bin/tool",
        ),
        (
            ".config/nvim/notes.txt",
            ".config/nvim/init.lua",
            "cd .config/nvim; echo E >> init.lua; mkdir -p plugin; echo E > plugin/x.lua",
        ),
        (".config/foo/n", ".config/foo/run.sh", "cd .config/foo; echo E > run.sh; echo E > other.sh"),
        ("go/notes", "go/bin/tool", "cd go; echo E > bin/tool; echo E > bin/new"),
    ] {
        let project = Project::new();
        let home = project.scope.home.clone();
        for name in [permitted, kept] {
            fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            fs::write(home.join(name), "old\n").unwrap();
        }
        project.file("e.sh", format!("cd {}; {line}; true\n", home.display()));
        let line = format!("echo new > {}; sh e.sh", home.join(permitted).display());
        let output = project.run(&enclosed(all()), command(&line)).await.unwrap();
        let mut evil: Vec<String> = tree(&home).keys().map(|name| name.display().to_string()).collect();
        evil.retain(|name| fs::read_to_string(home.join(name)).is_ok_and(|text| text.contains('E')));
        evil.retain(|name| !name.split('/').any(|part| part.ends_with(".untrusted")));
        let text = |name: &str| fs::read_to_string(home.join(name)).unwrap();
        assert_eq!(
            (evil, text(permitted).as_str(), text(kept).as_str()),
            (Vec::new(), "new\n", "old\n"),
            "{permitted}: {}",
            output.output
        );
    }
}
