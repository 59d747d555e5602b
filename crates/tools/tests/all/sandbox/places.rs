//! What is hidden, and places of tools, where they lie in a project: no command decides for the next one what is there.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use everturn_tools::process::sandbox::SandboxSettings;

use super::depth::told;
use super::{all, enclosed_by, require_whole};
use crate::bash::command;
use crate::harness::{Project, names};

/// Runs a line in a project, in a sandbox with settings.
pub(super) async fn run(project: &Project, settings: &SandboxSettings, line: &str) -> (String, Vec<String>) {
    let sandbox = SandboxSettings { parts: all(), ..settings.clone() };
    let output = project.run_with(Vec::new(), &enclosed_by(sandbox), command(line)).await.unwrap();
    let told = told(project, &output);
    (output.output, told)
}

#[tokio::test]
async fn a_folder_above_something_hidden_stays_where_it_is() {
    // The next command saw what was hidden, at the other name.
    require_whole();
    let project = Project::new();
    project.file("a/b/data/key", "canary");
    project.file("a/other/file", "text");
    let settings = SandboxSettings { hidden: vec![project.path("a/b/data")], ..SandboxSettings::default() };
    run(&project, &settings, "mv a x; mv a/b y; mkdir z; mv a/b z/; mv --exchange a z").await;
    let (said, _) = run(&project, &settings, "cat */key */*/key */*/*/key */*/*/*/key").await;
    assert!(!said.contains("canary"), "{said}");
    assert_eq!(project.text("a/b/data/key"), "canary");
    // What lies beside it can be worked with.
    run(&project, &settings, "mv a/other a/new && echo more >> a/new/file && touch a/b/file").await;
    assert_eq!((project.text("a/new/file"), project.text("a/b/file")), ("textmore\n".into(), String::new()));
}

#[tokio::test]
async fn a_home_folder_as_the_project_keeps_its_secrets_and_its_tools() {
    require_whole();
    let mut project = Project::new();
    let home = project.scope.worktree.clone();
    Arc::get_mut(&mut project.scope).unwrap().home = home;
    for (name, text) in [
        (".config/gh/hosts.yml", "canary"),
        (".ssh/id", "canary"),
        (".local/bin/tool", "mine"),
        (".local/share/keyrings/x", "canary"),
        ("src/main", ""),
    ] {
        project.file(name, text);
    }
    let settings = SandboxSettings::default();
    run(&project, &settings, "mv .config c; mv .local l; mv .local/share s; ln -s .ssh .volta").await;
    let line = "cat c/gh/* l/share/keyrings/* s/keyrings/* .volta/*; for f in l/bin/tool .local/bin/tool; do echo x > $f; done";
    let (said, _) = run(&project, &settings, line).await;
    assert!(!said.contains("canary"), "{said}");
    assert_eq!(project.text(".local/bin/tool"), "mine");
    // A policy for another folder would have followed it.
    assert!(!project.path(".volta").is_symlink() && project.path(".volta.untrusted").is_symlink());
    let (_, told) =
        run(&project, &settings, "mkdir -p .npm .cache/x; ln -s /usr .cache/pip; mv src new").await;
    assert_eq!(told, [".cache/pip was renamed to .cache/pip.untrusted"]);
    assert!(project.path(".npm").is_dir() && project.path("new/main").exists());
}

#[tokio::test]
async fn an_environment_in_another_project_is_no_way_out() {
    // A variable names it for all projects, and commands of its own project made it a link.
    require_whole();
    let (one, other) = (Project::new(), Project::new());
    let secret = one.outside().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("id"), "canary").unwrap();
    one.file("venv/bin/python", "real");
    let settings = SandboxSettings { readable: vec![one.path("venv")], ..SandboxSettings::default() };
    let look = format!("cat {0}/id {1}/bin/python {1}/id", secret.display(), one.path("venv").display());
    let (said, _) = run(&other, &settings, &look).await;
    assert!(said.contains("real") && !said.contains("canary"), "{said}");

    let link = format!("rm -r venv; ln -s {} venv", secret.display());
    let (_, told) = run(&one, &settings, &link).await;
    assert_eq!(told, ["venv was renamed to venv.untrusted"]);
    // Made while nobody named it.
    symlink(&secret, one.path("venv")).unwrap();
    fs::create_dir(one.path(".git")).unwrap();
    let (said, _) = run(&other, &settings, &look).await;
    assert!(!said.contains("canary"), "{said}");
    // A new environment can be made.
    fs::remove_file(one.path("venv")).unwrap();
    let (_, told) = run(&one, &settings, "mkdir -p venv/bin && echo new > venv/bin/python").await;
    assert_eq!(told, [""; 0]);
    let (said, _) = run(&other, &settings, &look).await;
    assert!(said.contains("new"), "{said}");
}

/// What is hidden in a home folder that is the project, and is not there: each gets another name as a whole.
#[tokio::test]
async fn what_is_hidden_and_is_not_there_cannot_be_made_for_good() {
    // The next run had no sandbox, and the person's ssh server another key.
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let mut project = Project::new();
        let home = project.scope.worktree.clone();
        Arc::get_mut(&mut project.scope).unwrap().home = home;
        project.file("local/file", "");
        project.file("dotfiles/file", "");
        symlink("dotfiles/empty", project.path("kept")).unwrap();
        symlink("dotfiles", project.path("linked")).unwrap();
        let hidden = ["config/everturn", "local/share/data", "kept/opencode", "linked/state"];
        let hidden = hidden.map(|name| project.path(name)).to_vec();
        let settings = SandboxSettings { hidden, ..SandboxSettings::default() };
        let (said, told) = run(&project, &settings, line).await;
        let expected: Vec<String> =
            expected.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
        assert_eq!(told, expected, "{line}: {said}");
    };
    check(
        "mkdir -p config/everturn; echo 'sandbox = \"off\"' > config/everturn/everturn.toml",
        &["config/everturn"],
    )
    .await;
    check("mkdir -p x/everturn; mv x config", &["config/everturn"]).await;
    check("mkdir -p x/everturn; ln -s x config", &["config"]).await;
    check("mkdir -p local/share/data", &["local/share/data"]).await;
    check("mkdir config; mkdir config/everturn; chmod 0 config", &["config/everturn"]).await;
    check("mkdir .ssh; echo key > .ssh/authorized_keys; echo x > .npmrc", &[".npmrc", ".ssh"]).await;
    check(
        "mkdir -p .aws .config/gh .cargo; echo x > .cargo/credentials.toml",
        &[".aws", ".cargo/credentials.toml", ".config", ".config/gh"],
    )
    .await;
    // Where links lead that were there, to nothing or to something.
    check("mkdir -p dotfiles/empty/opencode dotfiles/state", &["dotfiles/empty/opencode", "dotfiles/state"])
        .await;
    check("rm linked; mkdir -p linked/state", &["linked"]).await;
    // What is beside it can be made.
    check("mkdir -p config/other local/share/other .cargo dotfiles/other; touch ssh-not", &[]).await;
}

#[tokio::test]
async fn what_is_hidden_cannot_be_made_in_another_place_that_can_be_changed() {
    require_whole();
    let project = Project::new();
    let home = project.scope.home.clone();
    fs::create_dir_all(home.join(".config")).unwrap();
    let settings = SandboxSettings {
        writable: vec![home.join(".config")],
        hidden: vec![home.join(".config/everturn")],
        ..SandboxSettings::default()
    };
    let config = home.join(".config");
    let line = format!("cd {}; mkdir everturn gh other; touch everturn/everturn.toml", config.display());
    run(&project, &settings, &line).await;
    assert_eq!(names(&config), ["everturn.untrusted", "gh.untrusted", "other"]);
}

#[tokio::test]
async fn a_link_into_something_hidden_shows_nothing_of_it() {
    // A folder in it was mounted on what covers it.
    require_whole();
    let project = Project::new();
    let home = &project.scope.home;
    fs::create_dir_all(home.join("data/inner")).unwrap();
    fs::write(home.join("data/inner/key"), "canary").unwrap();
    symlink("data/inner", home.join("tool")).unwrap();
    let settings = SandboxSettings {
        readable: vec![home.join("tool")],
        hidden: vec![home.join("data")],
        ..SandboxSettings::default()
    };
    let line = format!("cd {}; cat tool/key data/inner/key", home.display());
    let (said, _) = run(&project, &settings, &line).await;
    assert!(!said.contains("canary"), "{said}");
}

#[tokio::test]
async fn nothing_is_written_where_something_is_hidden() {
    // It would be gone with the command, which was told that all went well.
    require_whole();
    let project = Project::new();
    project.file("data/key", "canary");
    let settings = SandboxSettings { hidden: vec![project.path("data")], ..SandboxSettings::default() };
    let (said, _) = run(&project, &settings, "ls data; touch data/new; true").await;
    assert!(said.starts_with("touch: cannot touch 'data/new': Read-only file system\n"), "{said}");
}

#[tokio::test]
async fn links_of_a_home_folder_are_followed_also_if_that_is_a_repository() {
    require_whole();
    let project = Project::new();
    let home = &project.scope.home;
    for (folder, file) in [(".git", "HEAD"), ("real", "tool")] {
        fs::create_dir_all(home.join(folder)).unwrap();
        fs::write(home.join(folder).join(file), "mine").unwrap();
    }
    symlink("real", home.join(".volta")).unwrap();
    let line = format!("cat {}", home.join(".volta/tool").display());
    let (said, _) = run(&project, &SandboxSettings::default(), &line).await;
    assert_eq!(said, "mine");
}
