//! Commands that make more, deeper or stranger things than anybody does in earnest: none of it takes protection away,
//! neither from what was there nor from the next command.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use everturn_tools::process::sandbox::SandboxSettings;
use rustix::process::geteuid;

use super::depth::{deep, told};
use super::{all, enclosed, places, require_whole};
use crate::bash::command;
use crate::harness::Project;

/// Runs lines in the sandbox of a project, one after the other. What the last says about protected names is the result.
async fn run(project: &Project, lines: &[&str]) -> Vec<String> {
    let mut last = Vec::new();
    for line in lines {
        let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
        last = told(project, &output);
    }
    last
}

/// What is told about names that were renamed.
fn renamed(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect()
}

/// Folders in one another.
fn nested(count: usize) -> String {
    vec!["d"; count].join("/")
}

#[tokio::test]
async fn many_new_folders_take_nothing_from_the_next_command() {
    // They came first among the folders that are looked at, and the others were left out.
    require_whole();
    let project = deep();
    let made = run(
        &project,
        &[
            "seq 2100 | sed s/^/0/ | xargs mkdir",
            "echo x >> sub/deeper/AGENTS.md; echo x >> nested/.git/config; mkdir sub/deeper/.zed",
        ],
    )
    .await;
    assert_eq!(made, renamed(&["sub/deeper/.zed"]));
    assert_eq!(project.text("sub/deeper/AGENTS.md"), "Be good.\n");
    assert_eq!(project.text("nested/.git/config"), "[core]\n\tbare = false\n\tfsmonitor = mine\n");
}

#[tokio::test]
async fn a_folder_that_looks_like_one_of_gits_hides_nothing() {
    // What is called `objects` beside `HEAD` and `refs` was not looked into.
    require_whole();
    let project = deep();
    project.file("sub/objects/AGENTS.md", "mine");
    let made = run(
        &project,
        &[
            "mkdir sub/refs; touch sub/HEAD; mkdir -p bare/objects/ab/.vscode",
            "echo x >> sub/objects/AGENTS.md; mkdir sub/objects/.zed; mkdir -p bare/objects/cd; touch bare/objects/cd/CLAUDE.md",
        ],
    )
    .await;
    assert_eq!(made, renamed(&["bare/objects/cd/CLAUDE.md", "sub/objects/.zed"]));
    assert_eq!(project.text("sub/objects/AGENTS.md"), "mine");
    assert!(project.path("bare/objects/ab/.vscode.untrusted").exists());
}

#[tokio::test]
async fn what_lies_deep_is_found_before_and_after() {
    require_whole();
    let project = deep();
    let (deep, deeper) = (nested(20), nested(60));
    project.file(&format!("{deep}/AGENTS.md"), "mine");
    let line = format!(
        "echo x >> {deep}/AGENTS.md; mkdir -p {deeper}/.vscode {deep}/.zed; touch {deeper}/.vscode/new; mkdir sub/.idea"
    );
    let mut expected = [format!("{deeper}/.vscode"), format!("{deep}/.zed"), "sub/.idea".to_owned()];
    expected.sort();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let mut made = run(&project, &[&line]).await;
    made.sort_by_key(|told| told.split(' ').next().unwrap_or_default().to_owned());
    assert_eq!(made, renamed(&expected));
    assert_eq!(project.text(&format!("{deep}/AGENTS.md")), "mine");
}

#[tokio::test]
async fn what_cannot_be_looked_through_gets_another_name_as_a_whole() {
    // The search ended there, and nothing else was found either.
    require_whole();
    let deep_one = format!("mkdir -p sub/{}/.vscode", nested(400));
    let long_one = "n=$(printf 'x%.0s' $(seq 200)); mkdir sub/d; cd sub/d; \
                    for i in $(seq 40); do mkdir $n; cd $n; done; mkdir .vscode; cd \"$OLDPWD\"";
    for line in [deep_one.as_str(), long_one] {
        let project = deep();
        let made = run(&project, &[&format!("mkdir -p a/.zed z/.zed; {line}")]).await;
        assert_eq!(made, renamed(&["a/.zed", "sub/d", "z/.zed"]), "{line}");
        assert!(!project.path("sub/d").exists() && project.path("sub/d.untrusted").exists(), "{line}");
        // What has another name is nothing that anybody works in; with a usual one it is new.
        let made =
            run(&project, &["mkdir sub/e.untrusted sub/e.untrusted/.zed; echo x >> sub/deeper/AGENTS.md"]);
        assert_eq!(made.await, [""; 0]);
        let made = run(&project, &["mv sub/e.untrusted sub/e; mv sub/d.untrusted sub/d"]);
        assert_eq!(made.await, renamed(&["sub/d", "sub/e/.zed"]), "{line}");
        assert_eq!(project.text("sub/deeper/AGENTS.md"), "Be good.\n");
    }
}

#[tokio::test]
async fn names_that_are_no_text_are_looked_into() {
    require_whole();
    let project = deep();
    let folder = project.scope.worktree.join(OsStr::from_bytes(b"sub/\xff"));
    fs::create_dir_all(folder.join("in")).unwrap();
    fs::write(folder.join("in/AGENTS.md"), "mine").unwrap();
    std::os::unix::fs::symlink("AGENTS.md", folder.join("in/CLAUDE.md")).unwrap();
    let line = "s=$(printf 'sub/\\377'); n=$(printf 'sub/\\376'); echo x >> $s/in/AGENTS.md; mkdir -p $n/.vscode $s/.zed; \
                echo x > $s/in/GEMINI.md; ln -sf elsewhere $s/in/CLAUDE.md; mkdir a; mv node_modules/x a/";
    let made = run(&project, &[line]).await;
    let lossy = |name: &str| format!("sub/\u{fffd}/{name} was renamed to sub/\u{fffd}/{name}.untrusted");
    let mut expected =
        [lossy(".vscode"), lossy(".zed"), lossy("in/CLAUDE.md"), lossy("in/GEMINI.md")].to_vec();
    expected.extend(renamed(&["a/x/inner/.vscode"]));
    expected.sort();
    assert_eq!(made, expected);
    assert_eq!(fs::read_to_string(folder.join("in/AGENTS.md")).unwrap(), "mine");
    assert_eq!(fs::read_link(folder.join("in/CLAUDE.md")).unwrap().as_os_str(), "AGENTS.md");
}

#[tokio::test]
async fn every_protected_name_is_protected_however_many_there_are() {
    require_whole();
    let project = Project::new();
    for number in 0..300 {
        project.file(&format!("a{number}/AGENTS.md"), format!("{number}"));
    }
    for number in 0..80 {
        project.file(&format!("r{number}/.git/HEAD"), "ref: refs/heads/main\n");
        project.file(&format!("r{number}/.git/hooks/pre-commit"), "mine");
        project.file(&format!(".git/modules/m{number}/HEAD"), "x");
        project.file(&format!(".git/modules/m{number}/config"), "[core]\n\teditor = mine\n");
    }
    project.file(".git/HEAD", "ref: refs/heads/main\n");
    let line = "for f in a*/AGENTS.md r*/.git/hooks/pre-commit .git/modules/*/config; do echo x >> $f; done 2> errors; \
                wc -l < errors";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    assert_eq!(output.output, "460\n");
    for number in 0..300 {
        assert_eq!(project.text(&format!("a{number}/AGENTS.md")), format!("{number}"));
    }
    for number in 0..80 {
        assert_eq!(project.text(&format!("r{number}/.git/hooks/pre-commit")), "mine");
        assert_eq!(project.text(&format!(".git/modules/m{number}/config")), "[core]\n\teditor = mine\n");
    }
}

#[tokio::test]
async fn names_that_are_taken_or_too_long_do_not_keep_anything_in_its_place() {
    require_whole();
    let project = deep();
    let made = run(
        &project,
        &["mkdir sub/.zed sub/.zed.untrusted; for i in $(seq 2 100); do mkdir sub/.zed.untrusted-$i; done"],
    )
    .await;
    assert!(
        made.len() == 1 && made[0].starts_with("sub/.zed was renamed to sub/.zed.untrusted-"),
        "{made:?}"
    );
    assert!(!project.path("sub/.zed").exists());
    let long = "x".repeat(255);
    let made = run(&project, &[&format!("mkdir -p sub/{long}/{}", nested(400))]).await;
    assert!(made.len() == 1 && made[0].contains(&format!("{long} was renamed to ")), "{made:?}");
    assert!(!project.path("sub").join(long).exists());
}

/// Opens what a command has closed: the folder of a test could not be removed.
pub(super) fn open_all(project: &Project) {
    let mut chmod = Command::new("chmod");
    assert!(chmod.args(["-R", "u+rwx"]).arg(project.outside()).status().unwrap().success());
}

#[tokio::test]
async fn folders_that_a_command_closed_are_looked_into() {
    // Root is not kept out, so this says more where it runs as an ordinary user.
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let project = deep();
        project.file("docs/guide.md", "");
        std::os::unix::fs::symlink("docs/guide.md", project.path("AGENTS.md")).unwrap();
        let settings =
            SandboxSettings { readable: vec![project.path("tools/env")], ..SandboxSettings::default() };
        let (_, made) = places::run(&project, &settings, line).await;
        open_all(&project);
        assert_eq!(made, renamed(expected), "{line}");
    };
    check("mkdir -p n/.vscode; chmod 0 n", &["n/.vscode"]).await;
    check("mkdir -p n/m/.vscode; chmod 0 n/m; chmod 0 n", &["n/m/.vscode"]).await;
    check("mkdir -p n/.vscode sub/.idea; chmod 555 n sub", &["n/.vscode", "sub/.idea"]).await;
    check("mkdir sub/deeper/.zed .idea; chmod 0 sub/deeper sub .", &[".idea", "sub/deeper/.zed"]).await;
    check("echo x > linked/CLAUDE.md; chmod 111 linked", &["linked/CLAUDE.md"]).await;
    let hooks =
        "mkdir -p r/.git/hooks && echo x > r/.git/HEAD && echo x > r/.git/hooks/update && chmod 0 r/.git";
    check(hooks, &["r/.git/hooks"]).await;
    let modules = "mkdir -p r/.git/modules/m && echo x > r/.git/HEAD && cd r/.git/modules/m && echo x > HEAD && \
                   mkdir hooks && echo x > hooks/update && chmod 0 ..";
    check(modules, &["r/.git/modules/m/hooks"]).await;
    let modules = "cd nested/.git && mkdir modules/n && echo x > modules/n/HEAD && mkdir modules/n/hooks && \
                   echo x > modules/n/hooks/update && chmod 0 modules && chmod 0 .";
    check(modules, &["nested/.git/modules/n/hooks"]).await;
    // Where none was before.
    let trees = "cd nested/.git && mkdir -p worktrees/n/hooks && echo x > worktrees/n/HEAD && \
                 echo x > worktrees/n/hooks/update && chmod 0 worktrees";
    check(trees, &["nested/.git/worktrees/n/hooks"]).await;
    // One that can be found and not read.
    let modules =
        "cd nested/.git && mkdir -p modules/n/hooks && echo x > modules/n/HEAD && chmod 111 modules/n";
    if !geteuid().is_root() {
        check(modules, &["nested/.git/modules/n"]).await;
    }
    // What something protected leads to, and places of tools.
    check("mv docs x; mkdir docs; echo x > docs/guide.md; chmod 0 docs", &["docs/guide.md"]).await;
    check("mkdir tools; ln -s /usr tools/env; chmod 0 tools", &["tools/env"]).await;
}
