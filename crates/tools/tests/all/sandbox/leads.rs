//! What settings of git's and links name, and do not name, in a project.

use std::process::Command;

use everturn_tools::process::sandbox::SandboxSettings;

use super::names::{project, repository};
use super::places::run;
use super::require_whole;

/// Tries to change files of a project with settings of git's, and compares which of them could be.
async fn check(settings: &str, closed: &[&str], open: &[&str]) {
    let files = [closed, open].concat();
    let project = repository(settings, &files);
    let line = format!("for f in {}; do echo new > $f; done; true", files.join(" "));
    let (said, told) = run(&project, &SandboxSettings::default(), &line).await;
    let changed: Vec<&str> = files.into_iter().filter(|name| project.text(name) == "new\n").collect();
    assert_eq!((changed.as_slice(), told.as_slice()), (open, [].as_slice()), "{settings}: {said}");
}

#[tokio::test]
async fn ordinary_settings_close_no_folder() {
    require_whole();
    for (settings, name) in [
        ("[diff]\n\tsubmodule = log\n", "log/a"),
        ("[credential]\n\thelper = cache --timeout=3600\n", "cache/a"),
        ("[credential]\n\thelper = store\n", "store/a"),
        ("[gpg]\n\tformat = ssh\n", "ssh/a"),
        ("[core]\n\teditor = code --wait\n", "code/a"),
        ("[core]\n\tpager = delta\n", "delta"),
        ("[gitflow \"prefix\"]\n\tsupport = support/\n", "support/a"),
        ("[gitflow \"prefix\"]\n\trelease = release/\n", "release/a"),
        ("[gitflow \"other\"]\n\tlater = release/\n", "release/a"),
        ("[safe]\n\tdirectory = ./sub\n", "sub/a"),
        ("[maintenance]\n\trepo = sub\n", "sub/a"),
        ("[other]\n\tname = sub/inner\n", "sub/inner/a"),
        ("[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n", ".git-blame-ignore-revs"),
        ("[alias]\n\tx = log -- docs/a\n", "docs/a"),
        ("[alias]\n\tx = !make test\n", "test/a"),
    ] {
        check(settings, &[], &[name]).await;
    }
    // Nor one that is made later.
    let project = repository("[gitflow \"other\"]\n\tlater = release/\n[x]\n\ty = sub/inner/\n", &[]);
    let line = "mkdir -p release sub/inner && echo made";
    let done = run(&project, &SandboxSettings::default(), line).await;
    assert_eq!(done, ("made\n".to_owned(), Vec::new()));
}

#[tokio::test]
async fn settings_that_name_files_and_folders_of_the_work_tree_close_them() {
    require_whole();
    for (settings, name) in [
        ("[core]\n\thooksPath = log\n", "log/pre-commit"),
        ("[init]\n\ttemplateDir = template\n", "template/hooks/a"),
        ("[credential]\n\thelper = ./cache\n", "cache"),
        ("[gpg]\n\tprogram = tools/gpg\n", "tools/gpg"),
        ("[core]\n\teditor = ./code --wait\n", "code"),
        ("[trailer \"x\"]\n\tcommand = sh trailer.sh\n", "trailer.sh"),
        ("[alias]\n\tx = !sh test\n", "test"),
        ("[gpg \"ssh\"]\n\tallowedSignersFile = signers\n", "signers"),
        ("[include]\n\tpath = ../inc\n", "inc"),
    ] {
        check(settings, &[name], &["other/a"]).await;
    }
}

#[tokio::test]
async fn what_lies_in_a_folder_that_is_mounted_later_stays_closed() {
    // Its folder of git's is mounted on itself after it, from a copy in which it is not mounted.
    require_whole();
    check("[core]\n\tfsmonitor = .git/a/run\n", &[".git/a/run"], &[".git/a/other"]).await;
}

#[tokio::test]
async fn what_comes_before_a_path_in_a_setting_does_not_matter() {
    require_whole();
    let top = "\\\"$(git rev-parse --show-toplevel)\\\"";
    for (settings, name) in [
        ("clean = $PWD/tools/a.sh".to_owned(), "tools/a.sh"),
        ("clean = ${PWD}/a.sh %f".to_owned(), "a.sh"),
        (format!("clean = \"{top}/tools/a.sh\""), "tools/a.sh"),
        ("clean = $(git rev-parse --show-toplevel)/tools/a.sh".to_owned(), "tools/a.sh"),
        ("clean = `git rev-parse --show-toplevel`/tools/a.sh".to_owned(), "tools/a.sh"),
    ] {
        check(&format!("[filter \"x\"]\n\t{settings}\n"), &[name], &["tools/b.sh", "other/tools/a.sh"]).await;
    }
    // What is there is meant as it is.
    check("[filter \"x\"]\n\tclean = /bin/cat\n", &[], &["bin/cat", "cat"]).await;
}

#[tokio::test]
async fn what_tools_fill_can_be_removed_whatever_leads_there() {
    require_whole();
    let links = [(".claude/skills/s", "../../node_modules/p/skill"), ("AGENTS.md", "docs/node_modules.md")];
    let project = project(&["node_modules/p/skill/SKILL.md", "docs/node_modules.md"], &links);
    let line = "rm -rf node_modules && mkdir -p node_modules/p/skill && ls; echo new > docs/node_modules.md";
    let (said, told) = run(&project, &SandboxSettings::default(), line).await;
    assert!(said.starts_with("AGENTS.md\ndocs\nnode_modules\n"), "{said}");
    assert_eq!((told, project.text("docs/node_modules.md")), (Vec::new(), "old\n".to_owned()));
}

#[tokio::test]
async fn a_link_that_a_branch_does_not_have_is_gone_with_it() {
    require_whole();
    let project = project(&["sub/x"], &[("CLAUDE.md", "sub/x"), ("GEMINI.md", "sub/x")]);
    let person = "git init -qb with; git config user.name n; git config user.email e; git add -A; git commit -qm one; \
                  git checkout -qb without; git rm -q CLAUDE.md; git commit -qm two; git checkout -q with";
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", person]).current_dir(&project.scope.worktree).status().unwrap().success());
    let (said, told) =
        run(&project, &SandboxSettings::default(), "git checkout -q without; git status -s").await;
    assert_eq!((said.as_str(), told), ("(no output)", Vec::new()));
    assert!(!project.path("CLAUDE.md").is_symlink());
    // Something else in its place does not stay.
    let line = "rm GEMINI.md; echo evil > GEMINI.md";
    let (_, told) = run(&project, &SandboxSettings::default(), line).await;
    assert_eq!(told, ["GEMINI.md was renamed to GEMINI.md.untrusted"]);
    assert_eq!(project.text("GEMINI.md"), "old\n");
}
