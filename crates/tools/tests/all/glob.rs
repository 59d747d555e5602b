//! Finding files by name.

use std::fs;
use std::os::unix::fs::symlink;

use everturn_tools::glob::GlobTool;
use everturn_tools::grep::GrepTool;
use everturn_tools::list::ListTool;
use everturn_tools::{Failure, Output, Tool as _};
use serde_json::{Value, json};

use crate::grep::age;
use crate::harness::Project;

/// Runs a search and compares the names that are shown, relative to the project.
async fn check(project: &Project, input: Value, expected: &[&str]) {
    let output = project.run(&GlobTool::default(), input.clone()).await.unwrap();
    let root = format!("{}/", project.scope.worktree.display());
    let shown: Vec<String> = output.output.lines().map(|line| line.replace(&root, "")).collect();
    let expected = if expected.is_empty() { &["No files found"] } else { expected };
    assert_eq!(shown, expected, "{input}");
    let count = expected.iter().filter(|line| **line != "No files found").count();
    assert_eq!(Value::Object(output.metadata), json!({ "count": count, "truncated": false }), "{input}");
}

#[tokio::test]
async fn patterns_find_the_newest_first() {
    let project = Project::new();
    fs::create_dir(project.path(".git")).unwrap();
    project.file(".git/x.rs", "");
    project.file(".gitignore", "/target\n*.gen.rs\n");
    age(&project.path(".gitignore"), 50);
    for (name, seconds) in [
        ("src/main.rs", 3),
        ("src/deep/er/a.rs", 1),
        ("src/a.gen.rs", 1),
        ("target/b.rs", 1),
        ("top.rs", 2),
        (".config/c.rs", 4),
        ("web/x1.ts", 7),
        ("web/x2.tsx", 6),
        ("web/y.js", 5),
    ] {
        age(&project.file(name, ""), seconds);
    }
    symlink("top.rs", project.path("link.rs")).unwrap();
    let all = ["src/deep/er/a.rs", "top.rs", "src/main.rs", ".config/c.rs"];
    check(&project, json!({ "pattern": "**/*.rs" }), &all).await;
    check(&project, json!({ "pattern": "*.rs" }), &all).await;
    check(&project, json!({ "pattern": "src/*.rs" }), &["src/main.rs"]).await;
    check(&project, json!({ "pattern": "*.rs", "path": "src" }), &["src/deep/er/a.rs", "src/main.rs"]).await;
    check(&project, json!({ "pattern": "web/*.{ts,tsx}" }), &["web/x2.tsx", "web/x1.ts"]).await;
    check(&project, json!({ "pattern": "x[0-9].ts" }), &["web/x1.ts"]).await;
    check(&project, json!({ "pattern": "web/?.js" }), &["web/y.js"]).await;
    check(&project, json!({ "pattern": "nosuch/**" }), &[]).await;
    check(&project, json!({ "pattern": "*.gen.rs" }), &[]).await;
    check(&project, json!({ "pattern": "*", "path": "target" }), &["target/b.rs"]).await;
    // An absolute pattern and one that goes up and comes back are of this project all the same.
    let absolute = project.path("src/**/*.rs");
    check(&project, json!({ "pattern": absolute }), &["src/deep/er/a.rs", "src/main.rs"]).await;
    check(&project, json!({ "pattern": "../web/*.js", "path": "src" }), &["web/y.js"]).await;
    let output =
        project.run(&GlobTool::default(), json!({ "pattern": "*", "path": "src/deep" })).await.unwrap();
    assert_eq!(output.title, "src/deep");
}

#[tokio::test]
async fn the_limit_keeps_the_newest_and_says_how_many_there_are() {
    let project = Project::new();
    for number in 0..150 {
        age(&project.file(&format!("d{}/{number:03}", number % 5), ""), (number * 7) % 150);
    }
    let output = project.run(&GlobTool::default(), json!({ "pattern": "**", "limit": 2 })).await.unwrap();
    let root = project.scope.worktree.display();
    assert_eq!(
        output,
        Output {
            title: ".".to_owned(),
            output: format!(
                "{root}/d0/000\n{root}/d3/043\n\n(The 2 newest of 150 files. Use a narrower pattern or path, or a \
                 higher limit.)"
            ),
            metadata: json!({ "count": 2, "truncated": true }).as_object().unwrap().clone(),
            ..Output::default()
        }
    );
    let output = project.run(&GlobTool::default(), json!({ "pattern": "**" })).await.unwrap();
    assert_eq!(Value::Object(output.metadata), json!({ "count": 100, "truncated": true }));
}

#[tokio::test]
async fn a_pattern_that_leaves_the_project_asks() {
    let project = Project::new();
    let tool = GlobTool::default();
    let outside = project.outside().join("*").display().to_string();
    symlink("/etc", project.path("door")).unwrap();
    for (input, folder) in [
        (json!({ "pattern": "/etc/*.conf" }), "/etc/*"),
        (json!({ "pattern": "/etc/hosts" }), "/etc/*"),
        (json!({ "pattern": "*", "path": "/etc" }), "/etc/*"),
        (json!({ "pattern": "../../etc/*", "path": "/usr/lib" }), "/etc/*"),
        (json!({ "pattern": "../*" }), outside.as_str()),
        (json!({ "pattern": "src/../../*" }), outside.as_str()),
        (json!({ "pattern": "*", "path": "door" }), "/etc/*"),
        (json!({ "pattern": "/*" }), "/*"),
    ] {
        let needs = tool.needs(&input, &project.scope).unwrap();
        let kinds: Vec<&str> = needs.iter().map(|need| need.permission.as_str()).collect();
        assert_eq!(kinds, ["external_directory", "glob"], "{input}");
        assert_eq!(needs[0].patterns, [folder], "{input}");
    }
    for inside in [json!({ "pattern": "door/*" }), json!({ "pattern": "{..,x}/*" })] {
        assert_eq!(tool.needs(&inside, &project.scope).unwrap().len(), 1, "{inside}");
        // It is only a pattern of names: the link is not followed, and nothing is named `..`.
        let output = project.run(&tool, inside).await.unwrap();
        assert_eq!(output.output, "No files found");
    }
    for bad in ["*/../../x", "a/*/..", "[a", ""] {
        let failure = project.run(&tool, json!({ "pattern": bad })).await.unwrap_err();
        assert!(matches!(failure, Failure::InvalidInput(_)), "{bad}: {failure}");
    }
    project.file("file", "");
    let failure = project.run(&tool, json!({ "pattern": "*", "path": "file" })).await.unwrap_err();
    assert!(failure.to_string().ends_with("file is not a folder."), "{failure}");
}

#[tokio::test]
async fn a_cancelled_search_is_cancelled() {
    let project = Project::new();
    let (context, _reports) = project.context();
    context.cancel.cancel();
    let failure = GlobTool::default().run(json!({ "pattern": "*" }), context).await.unwrap_err();
    assert_eq!(failure, Failure::Cancelled);
}

#[tokio::test]
async fn what_a_change_left_beside_its_place_is_not_found() {
    // A file that was staged when its process was killed showed up in every search.
    let project = Project::new();
    project.file("a/x", "needle");
    project.file("a/.everturn-tmp-1-2", "needle");
    check(&project, json!({ "pattern": "**/*" }), &["a/x"]).await;
    let found = project.run(&GrepTool::default(), json!({ "pattern": "needle" })).await.unwrap().output;
    let listed = project.run(&ListTool::default(), json!({})).await.unwrap().output;
    assert!(!found.contains("everturn-tmp") && !listed.contains("everturn-tmp"), "{found}\n{listed}");
}
