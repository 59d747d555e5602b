//! A folder as a tree.

use std::fs;
use std::os::unix::fs::symlink;

use everturn_tools::list::ListTool;
use everturn_tools::{Failure, Output, Tool as _};
use serde_json::{Value, json};

use crate::harness::Project;

async fn list(project: &Project, input: Value) -> Output {
    project.run(&ListTool::default(), input).await.unwrap()
}

#[tokio::test]
async fn folders_come_first_and_junk_not_at_all() {
    let project = Project::new();
    fs::create_dir(project.path(".git")).unwrap();
    project.file(".gitignore", "*.log\n");
    for name in [
        "node_modules/x/index.js",
        "target/debug/a",
        "sub/dist/bundle.js",
        "src/main.rs",
        "src/bin/tool.rs",
        "src/secret.key",
        "notes.log",
        "zebra.txt",
        "Cargo.toml",
        "docs/a.md",
    ] {
        project.file(name, "");
    }
    fs::create_dir(project.path("empty")).unwrap();
    symlink("/etc", project.path("door")).unwrap();
    let root = project.scope.worktree.display();
    let output = list(&project, json!({ "ignore": ["*.key", "docs/"] })).await;
    assert_eq!(
        output,
        Output {
            title: ".".to_owned(),
            output: format!(
                "{root}/\n  empty/\n  src/\n    bin/\n      tool.rs\n    main.rs\n  sub/\n  .gitignore\n  Cargo.toml\n  \
                 door\n  zebra.txt"
            ),
            metadata: json!({ "count": 6, "truncated": false }).as_object().unwrap().clone(),
            ..Output::default()
        }
    );
    // A folder that is named is shown, whatever its name.
    let output = list(&project, json!({ "path": "node_modules" })).await;
    assert_eq!(output.output, format!("{root}/node_modules/\n  x/\n    index.js"));
    assert_eq!(list(&project, json!({ "path": "empty" })).await.output, format!("{root}/empty/\n(empty)"));
}

#[tokio::test]
async fn upper_levels_come_before_deeper_ones() {
    let project = Project::new();
    for number in 0..300 {
        project.file(&format!("a/deep/{number:03}"), "");
    }
    project.file("z/one", "");
    project.file("top", "");
    let output = list(&project, json!({})).await;
    assert_eq!(Value::Object(output.metadata), json!({ "count": 100, "truncated": true }));
    for shown in ["\n  top", "\n  z/\n    one", "\n  a/\n    deep/\n      000", "      097\n"] {
        assert!(output.output.contains(shown), "{shown:?} {}", output.output);
    }
    assert!(
        output
            .output
            .ends_with("(There is more: only 100 files are shown. Name a folder in `path`, or use `glob`.)")
    );
    for number in 0..400 {
        fs::create_dir(project.path(&format!("z/{number}"))).unwrap();
    }
    assert!(list(&project, json!({ "path": "z" })).await.output.lines().count() < 310);
}

#[tokio::test]
async fn other_places_ask_and_mistakes_are_told() {
    let project = Project::new();
    project.file("a", "");
    let tool = ListTool::default();
    let needs = |input: Value| {
        let needs = tool.needs(&input, &project.scope).unwrap();
        needs.into_iter().map(|need| (need.permission, need.patterns)).collect::<Vec<_>>()
    };
    let need = |kind: &str, pattern: &str| (kind.to_owned(), vec![pattern.to_owned()]);
    assert_eq!(needs(json!({})), [need("list", ".")]);
    assert_eq!(
        needs(json!({ "path": "/etc" })),
        [need("external_directory", "/etc/*"), need("list", "/etc")]
    );
    for (input, text) in [
        (json!({ "path": "a" }), "a is not a folder."),
        (json!({ "path": "gone" }), "gone does not exist."),
        (json!({ "ignore": ["{a"] }), "not a valid glob pattern"),
        (json!({ "ignore": "a" }), "It takes path (string, optional), ignore (array, optional)."),
    ] {
        let failure = match tool.needs(&input, &project.scope) {
            Ok(_) => project.run(&tool, input).await.unwrap_err(),
            Err(failure) => failure,
        };
        assert!(failure.to_string().contains(text), "{failure}");
    }
    let (context, _reports) = project.context();
    context.cancel.cancel();
    assert_eq!(tool.run(json!({}), context).await.unwrap_err(), Failure::Cancelled);
}
