//! What a command seems to have done and has not: the result names it.

use std::fs;

use serde_json::json;

use super::{all, enclosed, require_whole};
use crate::bash::command;
use crate::harness::Project;

/// A project with a home folder beside it, of which a tool chain is shown.
fn project() -> Project {
    let project = Project::new();
    fs::create_dir_all(project.scope.home.join(".cargo/bin")).unwrap();
    fs::create_dir_all(project.scope.home.join(".rustup")).unwrap();
    fs::create_dir_all(project.scope.home.join(".config/git")).unwrap();
    fs::write(project.scope.home.join(".config/git/ignore"), "").unwrap();
    fs::write(project.scope.home.join(".gitconfig"), "").unwrap();
    project
}

/// A line in which the home folder cannot be read off.
fn in_home(project: &Project, line: &str) -> String {
    format!("h=$(echo {}); {line}", project.scope.home.display())
}

#[tokio::test]
async fn what_is_written_to_the_hidden_home_folder_is_named_when_it_is_gone() {
    require_whole();
    let project = project();
    let run = async |line: &str| {
        let line = in_home(&project, line);
        project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap().output
    };
    let told = |names: &[&str], more: &str| {
        let names: Vec<String> =
            names.iter().map(|name| format!("{}/{name}", project.scope.home.display())).collect();
        format!(
            "(What the command wrote to {} is gone: the rest of the home folder is not shown in the sandbox. \
             `outside_sandbox` asks the person to run it outside.)",
            names.join(", ") + more
        )
    };
    let line = "echo a > $h/notes.txt; mkdir -p $h/beside/deep; echo b > $h/beside/deep/x; echo c >> $h/.bashrc; \
                ln -s x $h/link; mkdir -p $h/.config/tool; echo d > $h/.config/git/config; echo done";
    let names = [".bashrc", ".config/git/config", ".config/tool/", "beside/", "link", "notes.txt"];
    assert_eq!(run(line).await, format!("done\n\n{}", told(&names, "")));
    let many: Vec<String> = (10..20).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        run("for f in $(seq 10 39); do echo > $h/f$f; done; echo done").await,
        format!("done\n\n{}", told(&many, " and 20 more"))
    );
    assert!(!project.scope.home.join("notes.txt").exists());
    // What tools leave by themselves and nobody misses, what stays, and what is gone by the time it ends.
    for line in [
        "mkdir -p $h/.cache/tool $h/.local/state/tool $h/.npm/_logs; touch $h/.cache/tool/x $h/.npm/_logs/x",
        "touch $h/.bash_history $h/.wget-hsts $h/.lesshst $h/.viminfo",
        "touch $h/x; rm $h/x; touch here /tmp/there",
    ] {
        assert_eq!(run(line).await, "(no output)", "{line}");
    }
}

#[tokio::test]
async fn a_job_says_it_where_its_output_goes() {
    require_whole();
    let project = project();
    let tool = enclosed(all());
    let line = in_home(&project, "echo a > $h/notes.txt");
    let input = json!({ "command": line, "background": true });
    let output = project.run_with(Vec::new(), &tool, input).await.unwrap();
    let log = output.output_path.unwrap();
    while tool.jobs.running() > 0 {
        tokio::task::yield_now().await;
    }
    let log = fs::read_to_string(log).unwrap();
    let name = project.scope.home.join("notes.txt");
    assert!(log.contains(&format!("wrote to {} is gone", name.display())), "{log}");
}

#[tokio::test]
async fn settings_of_a_repository_that_were_not_changed_are_named() {
    require_whole();
    let project = Project::new();
    let run = async |line: &str| {
        let line = format!("git -c user.name=a -c user.email=b {line}");
        project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap()
    };
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        let done = git.current_dir(&project.scope.worktree).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x"]);
    let before = project.text(".git/config");
    let fixed = format!("{} can only be read in it", project.path(".git/config").display());
    // Some of them say that they have done it, and end as if they had.
    for (line, said_done) in [
        ("branch --track side main", true),
        ("checkout -b other --track main", true),
        ("remote add origin https://example.com/x", false),
    ] {
        let output = run(line).await;
        assert_eq!(output.metadata["exit"] == 0, said_done, "{line}: {}", output.output);
        assert!(output.output.contains(&fixed), "{line}: {}", output.output);
        assert_eq!(output.output.contains("That is as it was"), said_done, "{line}: {}", output.output);
    }
    assert_eq!(project.text(".git/config"), before);
    let quiet = run("status --short").await;
    assert_eq!(quiet.output, "(no output)");
}
