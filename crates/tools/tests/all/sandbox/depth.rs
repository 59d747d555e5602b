//! Protected names below the root of a project, and repositories that are not the project's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use everturn_tools::{Output, Tool as _};
use tokio::time::{sleep, timeout};

use super::{EnclosedBash, all, enclosed, require_whole};
use crate::bash::{PATIENCE, command, quick};
use crate::harness::{Project, names, tree};

/// A project with protected files in its folders, and a repository among them.
pub(super) fn deep() -> Project {
    let project = Project::new();
    for (name, text) in [
        ("sub/.vscode/tasks.json", "{}"),
        ("sub/deeper/AGENTS.md", "Be good.\n"),
        ("sub/.opencode/agent.md", ""),
        ("sub/.opencode/plans/one.md", ""),
        ("nested/.git/HEAD", "ref: refs/heads/main\n"),
        ("nested/.git/config", "[core]\n\tbare = false\n\tfsmonitor = mine\n"),
        ("nested/.git/hooks/pre-commit", "mine"),
        ("nested/.git/modules/inner/HEAD", "x"),
        ("nested/.git/modules/inner/config", "[core]\n\teditor = mine\n"),
        ("linked/.git", "gitdir: ../nested/.git\n"),
        ("bare/HEAD", "x"),
        ("bare/config", "x"),
        ("bare/objects/x", ""),
        ("bare/refs/x", ""),
        ("node_modules/x/inner/.vscode/tasks.json", "made by an earlier command"),
    ] {
        project.file(name, text);
    }
    project
}

/// What a command in the sandbox of a project says about protected names, below the project.
pub(super) fn told(project: &Project, output: &Output) -> Vec<String> {
    let Some((before, _)) = output.output.rsplit_once(": commands must not make") else { return Vec::new() };
    let Some((_, names)) = before.rsplit_once('(') else { return Vec::new() };
    let base = format!("{}/", project.scope.worktree.display());
    let mut told: Vec<String> = names.split(", ").map(|name| name.replace(&base, "")).collect();
    told.sort();
    told
}

#[tokio::test]
async fn protected_files_in_subfolders_cannot_be_changed() {
    require_whole();
    let lines = [
        "echo x > sub/.vscode/tasks.json",
        "rm -r sub/.vscode",
        "mv sub/.vscode sub/gone",
        "echo x >> sub/deeper/AGENTS.md",
        "rm -f sub/deeper/AGENTS.md",
        "echo x > new; mv new sub/deeper/AGENTS.md",
        "rm -rf sub",
        "echo x >> sub/.opencode/agent.md",
        "echo x >> nested/.git/config",
        "rm nested/.git/hooks/pre-commit",
        "echo x > nested/.git/hooks/post-commit",
        "mv nested/.git nested/gone",
        "echo x >> nested/.git/modules/inner/config",
        "mv nested/.git/modules/inner nested/.git/modules/gone",
        "echo x >> bare/config",
    ];
    for line in lines {
        let check = async |tool: EnclosedBash| {
            let project = deep();
            let before = tree(&project.scope.worktree);
            project.run_with(Vec::new(), &tool, command(line)).await.unwrap();
            let mut after = tree(&project.scope.worktree);
            after.retain(|path, _| before.contains_key(path));
            // What was made in a folder of git's counts as well.
            let hooks = names(&project.path("nested")).contains(&".git".to_owned())
                && names(&project.path("nested/.git/hooks")) == ["pre-commit"];
            after == before && hooks
        };
        assert!(!check(quick().into()).await, "without a sandbox: {line}");
        // Of a folder that is removed, other files go.
        let kept = check(enclosed(all())).await || line == "rm -rf sub";
        assert!(kept, "{line}");
    }
    let project = deep();
    project
        .run_with(Vec::new(), &enclosed(all()), command("rm -rf sub; echo new > sub/.opencode/plans/two.md"))
        .await
        .unwrap();
    assert_eq!(project.text("sub/.vscode/tasks.json"), "{}");
    assert_eq!(project.text("sub/deeper/AGENTS.md"), "Be good.\n");
}

#[tokio::test]
async fn plans_can_be_written_in_subfolders_too() {
    require_whole();
    let project = deep();
    let line = "echo new > sub/.opencode/plans/two.md";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    assert_eq!((output.metadata["exit"].as_i64(), output.output.as_str()), (Some(0), "(no output)"));
    assert_eq!(project.text("sub/.opencode/plans/two.md"), "new\n");
}

#[tokio::test]
async fn names_that_are_not_there_cannot_be_made_for_good_in_subfolders() {
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let project = deep();
        let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
        let expected: Vec<String> =
            expected.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
        assert_eq!(told(&project, &output), expected, "{line}: {}", output.output);
    };
    check("echo x > sub/CLAUDE.md", &["sub/CLAUDE.md"]).await;
    check("mkdir sub/deeper/.VSCode; echo {} > sub/deeper/.VSCode/tasks.json", &["sub/deeper/.VSCode"]).await;
    check("mkdir -p a/b/c/.zed; echo x > a/b/AGENTS.md; touch a/b/other", &["a/b/AGENTS.md", "a/b/c/.zed"])
        .await;
    check("ln -s /tmp sub/.idea", &["sub/.idea"]).await;
    check(
        "mkdir -p sub/.hg sub/repo; touch sub/.hg/hgrc sub/hgrc sub/x.code-workspace",
        &["sub/.hg/hgrc", "sub/x.code-workspace"],
    )
    .await;
    check(
        "touch mise.toml sub/lefthook-local.yml sub/azure-pipelines-2.yaml; mkdir sub/.roo",
        &["mise.toml", "sub/.roo", "sub/azure-pipelines-2.yaml", "sub/lefthook-local.yml"],
    )
    .await;
    // Times of a folder can be set, but not the one that counts.
    check("touch -r sub t; echo x > sub/CLAUDE.md; touch -r t sub", &["sub/CLAUDE.md"]).await;
    check("touch -d 2001-01-01 sub; echo x > sub/CLAUDE.md; touch -d 2001-01-01 sub", &["sub/CLAUDE.md"])
        .await;
    // With another folder in the place of the one that is known, or around it.
    check("mv sub gone; mkdir -p sub/.vscode", &["sub/.vscode"]).await;
    check("mv nested gone; mkdir nested; mv node_modules/x/inner nested/y", &["nested/y/.vscode"]).await;
    check("mv sub/deeper gone; mv node_modules/x/inner sub/deeper", &["sub/deeper/.vscode"]).await;
    check("mv node_modules/x y", &["y/inner/.vscode"]).await;
    // A copy elsewhere is new.
    check("cp sub/deeper/AGENTS.md .; mkdir copy; cp -r sub/.vscode copy", &["AGENTS.md", "copy/.vscode"])
        .await;
    check(
        "mv sub gone; mkdir -p sub/.vscode z/.vscode; touch sub/.vscode/x z/.vscode/x",
        &["sub/.vscode", "z/.vscode"],
    )
    .await;
    // What lies where tools put packages is theirs.
    check("mkdir -p node_modules/z/.github; echo x > node_modules/z/AGENTS.md", &[]).await;
    check("touch sub/deeper/other sub/agents.txt", &[]).await;
}

#[tokio::test]
async fn what_was_there_stays_when_its_folder_is_moved() {
    require_whole();
    let project = deep();
    let line = "mkdir away && mv sub away/ && mv nested away/ && mv linked away/ && touch away/sub/deeper/x";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    assert_eq!(output.output, "(no output)");
    for (name, text) in [
        ("away/sub/.vscode/tasks.json", "{}"),
        ("away/sub/deeper/AGENTS.md", "Be good.\n"),
        ("away/nested/.git/hooks/pre-commit", "mine"),
        ("away/linked/.git", "gitdir: ../nested/.git\n"),
    ] {
        assert_eq!(project.text(name), text);
    }
}

#[tokio::test]
async fn files_can_be_moved_between_folders_with_protected_files() {
    // Folders that were mounted would be other devices to each other, and `git mv` cannot do that.
    require_whole();
    let project = Project::new();
    project.file("one/AGENTS.md", "");
    project.file("one/a", "");
    project.file("two/inner/AGENTS.md", "");
    let line =
        "git init -q . && git add . && git mv one/a two/inner/a && ln two/inner/a one/b && ls two/inner one";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    assert_eq!(output.output, "one:\nAGENTS.md\nb\n\ntwo/inner:\nAGENTS.md\na\n");
}

#[tokio::test]
async fn a_new_repository_stays_and_what_it_would_run_does_not() {
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let project = deep();
        let line = format!(
            "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; {line}"
        );
        let output = project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
        assert_eq!(output.metadata["exit"], 0, "{line}: {}", output.output);
        let expected: Vec<String> =
            expected.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
        assert_eq!(told(&project, &output), expected, "{line}: {}", output.output);
        project
    };
    let hook = "printf '#!/bin/sh\\ntouch ran\\n' > new/.git/hooks/post-commit && chmod +x new/.git/hooks/post-commit";
    check("git init -q new && git -C new config user.name B", &[]).await;
    let project =
        check(&format!("git init -q new && mkdir -p new/.git/hooks && {hook}"), &["new/.git/hooks"]).await;
    // The person's own git goes on, without the hook.
    let committed = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"])
        .current_dir(project.path("new"))
        .status()
        .unwrap();
    assert!(committed.success() && !project.path("new/ran").exists());

    let origin = "git init -q origin && git -C origin commit -q --allow-empty -m one";
    check(&format!("{origin} && git clone -q origin new && git clone -q --bare origin new.git"), &[]).await;
    check(
        &format!("{origin} && git clone -q --bare origin b && git -C b config core.fsmonitor evil"),
        &["b/config"],
    )
    .await;
    check(
        "git init -q new && git -C new config core.fsmonitor evil && git -C new config user.name B",
        &["new/.git/config"],
    )
    .await;
    let packed = "mkdir -p t/x/.git/hooks && echo ref: refs/heads/main > t/x/.git/HEAD && \
                  echo evil > t/x/.git/hooks/pre-commit && tar cf t.tar -C t x && rm -r t && tar xf t.tar";
    check(packed, &["x/.git/hooks"]).await;
    // A file that leads to a folder which is one of git's in all but its name, or leads away.
    let evil = "mkdir -p plain/objects plain/refs a && echo ref: refs/heads/main > plain/HEAD && \
                printf '[core]\\n\\tfsmonitor = evil\\n' > plain/config && ";
    check(&format!("{evil} echo gitdir: ../plain > a/.git"), &["plain/config"]).await;
    check("mkdir a && echo gitdir: /usr/share/evil > a/.git", &["a/.git"]).await;
    check("mkdir a && ln -s ../nested/.git a/.git", &["a/.git"]).await;
    // A push to a folder runs the hooks there. Where they are looked for, it may.
    let push = "git init -q new && git -C new remote add origin";
    check(&format!("{push} ../node_modules/x"), &["new/.git/config"]).await;
    check(&format!("{push} ../sub && git init -q --bare sub/up && git -C new remote add up ../sub/up"), &[])
        .await;
    check("git init -q . && git remote add origin sub", &[".git/config"]).await;
    check("git init -q new && git -C new config branch.main.remote ../node_modules/x", &["new/.git/config"])
        .await;
    // Submodules and worktrees of a repository that was there.
    check("mkdir -p nested/.git/modules/m && cd nested/.git/modules/m && echo x > HEAD && mkdir hooks && echo x > hooks/update",
          &["nested/.git/modules/m/hooks"]).await;
    check("mkdir -p nested/.git/worktrees/w && cd nested/.git/worktrees/w && echo x > HEAD && echo ../../../../sub > commondir",
          &["nested/.git/worktrees/w/commondir"]).await;
}

#[tokio::test]
async fn no_command_says_where_a_repository_pushes_to_in_the_old_way() {
    // A push to a folder runs the hooks that are there.
    require_whole();
    for before in ["", "mkdir .git/remotes .git/branches; echo old > .git/remotes/origin"] {
        let project = deep();
        person(&project, &format!("git init -q . && rm -rf .git/branches; {before}"));
        let line = "mkdir -p .git/remotes .git/branches; echo URL: evil > .git/remotes/origin; echo evil > .git/branches/x; \
                    git init -q new; mkdir -p new/.git/branches new/.git/remotes; echo evil > new/.git/branches/origin; true";
        let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
        let mut renamed = vec!["new/.git/branches"];
        if before.is_empty() {
            renamed.extend([".git/branches", ".git/remotes"]);
        }
        renamed.sort_unstable();
        let renamed: Vec<String> =
            renamed.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
        assert_eq!(told(&project, &output), renamed, "{before}: {}", output.output);
        if !before.is_empty() {
            assert_eq!(project.text(".git/remotes/origin"), "old\n");
            assert_eq!(names(&project.path(".git/branches")), [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_repository_that_runs_nothing_can_be_changed_and_removed() {
    // A clone could not be removed by a later command, nor a worktree.
    require_whole();
    let check = async |line: &str, expected: &[&str]| {
        let project = Project::new();
        project.file("AGENTS.md", "Be good.\n");
        let made = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; \
                    git init -qb main . && git add . && git commit -qm one && git clone -qn . clone && \
                    git worktree add -q -b side tree";
        let output = project.run_with(Vec::new(), &enclosed(all()), command(made)).await.unwrap();
        assert_eq!((output.output.as_str(), &output.metadata["exit"]), ("(no output)", &0.into()));
        let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
        assert_eq!(output.metadata["exit"], 0, "{line}: {}", output.output);
        let expected: Vec<String> =
            expected.iter().map(|name| format!("{name} was renamed to {name}.untrusted")).collect();
        assert_eq!(told(&project, &output), expected, "{line}: {}", output.output);
        names(&project.scope.worktree)
    };
    assert_eq!(check("rm -rf clone && git worktree remove tree", &[]).await, [".git", "AGENTS.md"]);
    check("git -C clone config user.name B && git -C clone remote add other https://x", &[]).await;
    check("echo x >> tree/AGENTS.md", &["tree/AGENTS.md"]).await;
    check("echo x > clone/.git/hooks/pre-push", &["clone/.git/hooks"]).await;
    check("git -C clone config core.editor evil", &["clone/.git/config"]).await;
    check("mv clone moved && git -C moved config core.editor evil", &["moved/.git/config"]).await;
    check("echo gitdir: /usr > tree/.git", &["tree/.git"]).await;
    check("echo gitdir: /usr > new && mv new tree/.git", &["tree/.git"]).await;
}

#[tokio::test]
async fn a_rebase_goes_on_and_runs_nothing_that_a_command_put_there() {
    require_whole();
    let project = Project::new();
    let run = async |line: &str| {
        let line = format!(
            "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b GIT_EDITOR=true; {line}"
        );
        let output = project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
        (output.metadata["exit"].as_i64(), told(&project, &output))
    };
    let made = "git init -qb main . && echo a > f && git add f && git commit -qm one && git checkout -qb side && \
                echo b > f && git commit -qam two && echo c > g && git add g && git commit -qm three && \
                git checkout -q main && echo d > f && git commit -qam four && git checkout -q side";
    assert_eq!(run(made).await, (Some(0), Vec::new()));
    // With commands of its own, in several steps.
    let waiting = ".git/rebase-merge/git-rebase-todo holds commands that git runs when the rebase goes on";
    assert_eq!(
        run("git rebase -q -x 'test -e gone' main 2> /dev/null").await,
        (Some(1), vec![waiting.to_owned()])
    );
    assert_eq!(
        run("echo e > f && git add f && touch gone && git rebase --continue > /dev/null 2>&1").await.1,
        [""; 0]
    );
    assert_eq!(
        run("test ! -d .git/rebase-merge && git log -1 --format=%s | grep three").await,
        (Some(0), Vec::new())
    );
    // One that the person has begun.
    assert_eq!(run("git reset -q --hard main~1 && echo x > f && git commit -qam five && echo h > h && git add h && git commit -qm six").await.0, Some(0));
    assert_eq!(run("git rebase -q main 2> /dev/null").await.0, Some(1));
    let (_, told) =
        run("echo y > f; git add f; echo exec touch evil >> .git/rebase-merge/git-rebase-todo").await;
    assert_eq!(
        told,
        [".git/rebase-merge/git-rebase-todo was renamed to .git/rebase-merge/git-rebase-todo.untrusted"]
    );
    let gone_on = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "core.editor=true", "rebase", "--continue"])
        .current_dir(&project.scope.worktree)
        .output()
        .unwrap();
    assert!(!project.path("evil").exists(), "{gone_on:?}");
}

/// A repository of a person's who has stopped in the middle of something, and the line that goes on with it.
fn stopped(begin: &str) -> Project {
    let project = Project::new();
    let line = format!(
        "git init -qb main . && echo a > f && git add f && git commit -qm one && git checkout -qb side && \
         echo b > f && git commit -qam two && echo c > g && git add g && git commit -qm three && \
         git checkout -q main && echo d > f && git commit -qam four && {{ {begin}; }} > /dev/null 2>&1; \
         echo e > f && git add f"
    );
    person(&project, &line);
    project
}

/// What a person does, outside of the sandbox.
fn person(project: &Project, line: &str) {
    let set = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(&project.scope.worktree).envs(set.map(|name| (name, "A")));
    shell.env("GIT_EDITOR", "true").output().unwrap();
}

#[tokio::test]
async fn what_a_person_has_begun_merges_by_nothing_that_a_command_chose() {
    // Git takes `x/e` for the file `git-merge-x/e` in the work tree.
    require_whole();
    let rebase = "git checkout -q side && git rebase -q main";
    let patches = "git checkout -q side && git rebase -q --apply main";
    let picks = "git cherry-pick side~1 side";
    let plant = "mkdir git-merge-x; printf '#!/bin/sh\ntouch \"$PWD/ran\"\nexit 2\n' > git-merge-x/e; chmod +x git-merge-x/e; ";
    let options = "printf '[options]\n\tstrategy = x/e\n' > .git/sequencer/opts";
    let instead = "mv .git/rebase-apply .git/rebase-merge; touch .git/rebase-merge/interactive; \
                   echo exec touch ran > .git/rebase-merge/git-rebase-todo";
    for (begin, line, go_on, expected) in [
        (
            rebase,
            "echo x/e > .git/rebase-merge/strategy",
            "git rebase --continue",
            ".git/rebase-merge/strategy",
        ),
        (picks, options, "git cherry-pick --continue", ".git/sequencer/opts"),
        (patches, instead, "git rebase --continue", ".git/rebase-merge/git-rebase-todo"),
        (
            picks,
            "mv .git/sequencer s; echo '[options] strategy = x/e' > s/opts; ln -s ../s .git/sequencer",
            "git cherry-pick --continue",
            ".git/sequencer",
        ),
    ] {
        let project = stopped(begin);
        let line = format!("{plant}{line}");
        let output = project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
        assert_eq!(
            told(&project, &output),
            [format!("{expected} was renamed to {expected}.untrusted")],
            "{line}: {}",
            output.output
        );
        person(&project, go_on);
        assert!(!project.path("ran").exists(), "{line}");
    }
}

#[tokio::test]
async fn what_a_person_has_begun_goes_on_in_a_command() {
    require_whole();
    for (begin, line) in [
        ("git checkout -q side && git rebase -q -s resolve main", "git rebase --continue"),
        ("git checkout -q side && git rebase -q -x 'test -e f' main", "git rebase --continue"),
        ("git cherry-pick -s side~1 side", "git cherry-pick --continue"),
        ("git cherry-pick --strategy=resolve side~1 side", "git cherry-pick --continue"),
        ("git checkout -q side && git rebase -q --apply main", "git rebase --continue"),
    ] {
        let project = stopped(begin);
        let line = format!(
            "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b GIT_EDITOR=true; \
             {line} > out 2>&1; cat out; test ! -d .git/rebase-merge -a ! -d .git/sequencer -a ! -d .git/rebase-apply && \
             git log -1 --format=%s"
        );
        let output = project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
        assert_eq!(output.metadata["exit"], 0, "{begin}: {}", output.output);
        assert!(output.output.ends_with("three\n"), "{begin}: {}", output.output);
    }
}

#[tokio::test]
async fn names_are_given_back_also_when_a_command_has_to_be_killed() {
    // They were looked at by the process that was killed.
    require_whole();
    let project = deep();
    let line =
        "trap '' TERM; mkdir .vscode sub/deeper/.zed; touch .vscode/tasks.json; while :; do sleep 1000; done";
    let (tool, input, context) = (enclosed(all()), command(line), project.context().0);
    let cancel = context.cancel.clone();
    let running = tool.run(input, context);
    let stop = async {
        while !project.path(".vscode/tasks.json").exists() {
            sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(running, stop);
    let output = output.unwrap();
    assert!(output.output.contains("the call was cancelled"), "{}", output.output);
    let expected = [
        ".vscode was renamed to .vscode.untrusted",
        "sub/deeper/.zed was renamed to sub/deeper/.zed.untrusted",
    ];
    assert_eq!(told(&project, &output), expected, "{}", output.output);
    assert!(!project.path(".vscode").exists() && project.path(".vscode.untrusted/tasks.json").exists());
}

#[tokio::test]
async fn names_are_given_back_also_when_nobody_waits_for_the_command() {
    require_whole();
    let project = deep();
    let (tool, aside) = (enclosed(all()), project.path("sub/.zed.untrusted"));
    let running = project.run_with(Vec::new(), &tool, command("mkdir sub/.zed; sleep 1000"));
    let made = async {
        while !project.path("sub/.zed").exists() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        output = running => panic!("it ended: {output:?}"),
        () = made => {}
    }
    let put_aside = async {
        while !aside.exists() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, put_aside).await.unwrap();
}

#[tokio::test]
async fn what_a_person_has_in_a_large_project_stays() {
    // What was not looked at before looked like new.
    require_whole();
    let project = Project::new();
    for outer in 0..9 {
        for inner in 0..300 {
            fs::create_dir_all(project.path(&format!("{outer}/{inner}"))).unwrap();
        }
    }
    let last = "8/299/a";
    project.file(&format!("{last}/AGENTS.md"), "");
    project.file(&format!("{last}/.git/hooks/pre-commit"), "mine");
    symlink("nowhere", project.path("8/299/.idea")).unwrap();
    let line = "echo x >> 8/299/a/AGENTS.md; touch 8/new 8/299/new 8/299/a/new 8/299/a/.git/new; mkdir 8/299/b; \
                echo x > 8/299/b/AGENTS.md; echo x > AGENTS.md";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    let expected =
        ["8/299/b/AGENTS.md", "AGENTS.md"].map(|name| format!("{name} was renamed to {name}.untrusted"));
    assert_eq!(told(&project, &output), expected);
    assert_eq!(names(&project.path(last)), [".git", "AGENTS.md", "new"]);
    assert_eq!(
        (project.text(&format!("{last}/AGENTS.md")).as_str(), names(&project.path("8/299/a/.git"))),
        ("", vec!["hooks".to_owned(), "new".to_owned()])
    );
}

#[tokio::test]
async fn a_folder_that_is_no_repository_is_the_project() {
    // Its root is the root of the file system then, all of which could be changed.
    require_whole();
    let mut project = Project::new();
    let scope = std::sync::Arc::get_mut(&mut project.scope).unwrap();
    scope.worktree = "/".into();
    let beside = project.outside().join("beside");
    fs::write(&beside, "").unwrap();
    let line = format!("echo x > here; echo x > {}; echo x > /etc/canary-of-a-test", beside.display());
    project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
    assert_eq!(fs::read_to_string(project.scope.directory.join("here")).unwrap(), "x\n");
    assert_eq!(fs::read_to_string(&beside).unwrap(), "");
    assert!(!std::path::Path::new("/etc/canary-of-a-test").exists());
}
