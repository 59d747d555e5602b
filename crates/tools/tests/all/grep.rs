//! Searching the content of files: what is found, in which order, and what is never opened.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use everturn_tools::glob::GlobTool;
use everturn_tools::grep::GrepTool;
use everturn_tools::list::ListTool;
use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::{Context, Failure, Output, Readable, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::Project;

/// Makes a file this many seconds old, on a scale of the test's own.
pub(crate) fn age(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

async fn grep(project: &Project, input: Value) -> Output {
    project.run(&GrepTool::default(), input).await.unwrap()
}

/// Runs a search and compares the whole text, with the project's path as `P`.
async fn check(project: &Project, input: Value, expected: &str) {
    let output = grep(project, input.clone()).await;
    let shown = output.output.replace(project.scope.worktree.to_str().unwrap(), "P");
    assert_eq!(shown, expected, "{input}");
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn matches_are_grouped_by_file_and_the_newest_comes_first() {
    let project = Project::new();
    age(&project.file("old.txt", "one needle\nnothing\r\nneedle two\r\n"), 20);
    age(&project.file("a/new.txt", "x\nneedle"), 10);
    age(&project.file("b/new.txt", "needle here"), 10);
    let output = grep(&project, json!({ "pattern": "needle" })).await;
    let root = project.scope.worktree.display();
    assert_eq!(
        output,
        Output {
            title: "needle".to_owned(),
            output: format!(
                "Found 4 matches\n{root}/a/new.txt:\n  Line 2: needle\n\n{root}/b/new.txt:\n  Line 1: needle here\n\n\
                 {root}/old.txt:\n  Line 1: one needle\n  Line 3: needle two"
            ),
            metadata: json!({ "matches": 4, "truncated": false }).as_object().unwrap().clone(),
            ..Output::default()
        }
    );
    check(&project, json!({ "pattern": "absent" }), "No files found").await;
    check(
        &project,
        json!({ "pattern": "needle$", "path": "a" }),
        "Found 1 matches\nP/a/new.txt:\n  Line 2: needle",
    )
    .await;
    check(
        &project,
        json!({ "pattern": "NEEDLE|(?i)HERE", "include": "b/**/*.txt" }),
        "Found 1 matches\nP/b/new.txt:\n  Line 1: needle here",
    )
    .await;
    check(
        &project,
        json!({ "pattern": "two", "path": "old.txt" }),
        "Found 1 matches\nP/old.txt:\n  Line 3: needle two",
    )
    .await;
}

#[tokio::test]
async fn the_limit_keeps_the_newest_whatever_the_threads_do() {
    let project = Project::new();
    for number in 0..60_u64 {
        let lines = "hit\n".repeat(3);
        age(&project.file(&format!("d{}/f{number:02}.txt", number % 7), lines), (number * 37) % 60);
    }
    let newest: Vec<u64> = {
        let mut files: Vec<u64> = (0..60).collect();
        files.sort_by_key(|number| (number * 37) % 60);
        files
    };
    let mut seen = Vec::new();
    for _ in 0..10 {
        let output = grep(&project, json!({ "pattern": "hit", "limit": 8 })).await;
        assert_eq!(Value::Object(output.metadata), json!({ "matches": 8, "truncated": true }));
        assert!(output.output.contains("There are more matches"), "{}", output.output);
        seen.push(output.output);
    }
    seen.dedup();
    let [text] = &seen[..] else { panic!("the result depends on chance: {seen:?}") };
    for (rank, number) in newest.iter().enumerate() {
        assert_eq!(text.contains(&format!("f{number:02}.txt")), rank < 3, "{number} {text}");
    }
    assert_eq!(text.matches("Line").count(), 8);
    // Exactly as many as there are is not too many, and one more is.
    for (limit, truncated) in [(180, false), (179, true), (181, false)] {
        let output = grep(&project, json!({ "pattern": "hit", "limit": limit })).await;
        assert_eq!(output.metadata["truncated"], truncated, "{limit}");
    }
    assert_eq!(grep(&project, json!({ "pattern": "hit" })).await.metadata["matches"], 100);
    for limit in [0, 1001] {
        let failure = project.run(&GrepTool::default(), json!({ "pattern": "x", "limit": limit })).await;
        assert!(matches!(failure, Err(Failure::InvalidInput(_))), "{failure:?}");
    }
}

#[tokio::test]
async fn ignored_files_are_left_out_and_hidden_ones_are_not() {
    let project = Project::new();
    fs::create_dir(project.path(".git")).unwrap();
    for name in [".git/config", "out/a", "log.tmp", ".hidden/a", ".env", "src/a", "src/keep/b", "sub/own/a"] {
        project.file(name, "needle");
        age(&project.path(name), 5);
    }
    project.file(".gitignore", "/out\n*.tmp\n");
    project.file("src/.gitignore", "keep/*\n");
    project.file("sub/.ignore", "own\n");
    let found = "Found 3 matches\nP/.env:\n  Line 1: needle\n\nP/.hidden/a:\n  Line 1: needle\n\nP/src/a:\n  Line 1: needle";
    check(&project, json!({ "pattern": "^needle" }), found).await;
    check(&project, json!({ "pattern": "^needle", "include": "*.tmp" }), "No files found").await;
    // What is named is looked at.
    for path in ["out", "log.tmp", "src/keep/b"] {
        let output = grep(&project, json!({ "pattern": "^needle", "path": path })).await;
        assert_eq!(output.metadata["matches"], 1, "{path}");
    }
}

#[tokio::test]
async fn binary_files_are_passed_over() {
    let project = Project::new();
    project.file("program", b"\x7fELF\0needle\n");
    project.file("latin", b"needle \xe9t\xe9\n");
    project.file("utf16", b"\xff\xfen\0e\0e\0d\0l\0e\0!\0\n\0");
    for name in ["program", "latin", "utf16"] {
        age(&project.path(name), 5);
    }
    check(
        &project,
        json!({ "pattern": "needle" }),
        "Found 2 matches\nP/latin:\n  Line 1: needle \u{fffd}t\u{fffd}\n\nP/utf16:\n  Line 1: needle!",
    )
    .await;
    check(
        &project,
        json!({ "pattern": "needle", "path": "program" }),
        "No files found\n\n(It is a binary file and was searched only up to its first NUL.)",
    )
    .await;
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_says_why_and_where() {
    let project = Project::new();
    project.file("a", "a");
    for (pattern, reason) in [
        ("a(b", "    a(b\n     ^\nerror: unclosed group"),
        ("[z-a]", "     ^^^\nerror: invalid character class range"),
        ("x{2,1}", "error: invalid repetition count range"),
        ("a\\nb", "one line at a time"),
        ("(?:\\w{100}){100}{100}", "exceeds size limit"),
    ] {
        let failure = project.run(&GrepTool::default(), json!({ "pattern": pattern })).await.unwrap_err();
        assert!(matches!(&failure, Failure::Failed(text) if text.contains(reason)), "{pattern}: {failure}");
    }
    let deep = "(".repeat(100_000);
    let failure = project.run(&GrepTool::default(), json!({ "pattern": deep })).await.unwrap_err();
    let text = failure.to_string();
    assert!(text.contains("cannot be used") && text.len() < 1000, "{text}");
    let failure =
        project.run(&GrepTool::default(), json!({ "pattern": "a", "include": "[a" })).await.unwrap_err();
    assert!(failure.to_string().contains("include \"[a\" is not a valid glob pattern"), "{failure}");
    let failure =
        project.run(&GrepTool::default(), json!({ "pattern": "a", "path": "gone" })).await.unwrap_err();
    assert!(failure.to_string().ends_with("gone does not exist."), "{failure}");
}

#[tokio::test]
async fn long_lines_are_cut_and_endless_ones_given_up() {
    let project = Project::new();
    project.file("long", format!("{}needle", "ä".repeat(3000)));
    let output = grep(&project, json!({ "pattern": "needle" })).await;
    let line = output.output.lines().nth(2).unwrap();
    assert_eq!(line, format!("  Line 1: {}... (line cut at 2000 characters)", "ä".repeat(2000)));
    fs::remove_file(project.path("long")).unwrap();
    project.file("endless", vec![b'x'; 33 * 1024 * 1024]);
    project.file("short", "needle");
    let found = "Found 1 matches\nP/short:\n  Line 1: needle\n\n(1 file or folder could not be read.)";
    check(&project, json!({ "pattern": "needle|xyz" }), found).await;
}

#[tokio::test]
async fn nothing_is_waited_for() {
    let project = Project::new();
    project.file("a", "needle");
    fifo(&project.path("pipe"));
    fs::create_dir_all(project.path("trap/inner")).unwrap();
    fifo(&project.path("trap/.gitignore"));
    project.file("trap/inner/a", "needle");
    let _listener = UnixListener::bind(project.path("socket")).unwrap();
    symlink("/dev/zero", project.path("zero")).unwrap();
    symlink("pipe", project.path("link")).unwrap();
    fs::create_dir(project.path(".git")).unwrap();
    let found = "Found 1 matches\nP/a:\n  Line 1: needle\n\n(1 file or folder could not be read.)";
    check(&project, json!({ "pattern": "needle" }), found).await;
    let output = project.run(&GlobTool::default(), json!({ "pattern": "**/a" })).await.unwrap();
    assert_eq!(output.metadata["count"], 1);
    for name in ["pipe", "socket"] {
        let input = json!({ "pattern": "needle", "path": name });
        let failure = project.run(&GrepTool::default(), input).await.unwrap_err();
        assert!(failure.to_string().contains("not an ordinary file"), "{failure}");
    }
    // Also when the rules are above the folder that is searched.
    fifo(&project.outside().join(".gitignore"));
    assert_eq!(
        grep(&project, json!({ "pattern": "needle", "path": "trap/inner" })).await.metadata["matches"],
        1
    );
}

#[tokio::test]
async fn a_search_stops_when_told_and_when_time_is_over() {
    let project = Project::new();
    project.file("big", "hay\n".repeat(8 * 1024 * 1024));
    let (context, _reports) = project.context();
    context.cancel.cancel();
    let failure = GrepTool::default().run(json!({ "pattern": "needle" }), context).await.unwrap_err();
    assert_eq!(failure, Failure::Cancelled);
    let hasty = GrepTool { patience: Duration::from_millis(1) };
    for path in [".", "big"] {
        let output = project.run(&hasty, json!({ "pattern": "needle", "path": path })).await.unwrap();
        assert!(output.output.contains("Time was over"), "{path}: {}", output.output);
    }
}

#[tokio::test]
async fn outside_needs_permission_and_managed_files_do_not() {
    let project = Project::new();
    let tool = GrepTool::default();
    let needs = |input: Value| {
        let needs = tool.needs(&input, &project.scope).unwrap();
        needs.into_iter().map(|need| (need.permission, need.patterns)).collect::<Vec<_>>()
    };
    let own = ("grep".to_owned(), vec!["a.b".to_owned()]);
    assert_eq!(needs(json!({ "pattern": "a.b" })), std::slice::from_ref(&own));
    let external = ("external_directory".to_owned(), vec!["/etc/*".to_owned()]);
    assert_eq!(needs(json!({ "pattern": "a.b", "path": "/etc" })), [external.clone(), own.clone()]);
    let read = ("read".to_owned(), vec!["/etc/hosts".to_owned()]);
    assert_eq!(
        needs(json!({ "pattern": "a.b", "path": "/etc/hosts" })),
        [external.clone(), own.clone(), read]
    );
    symlink("/etc", project.path("door")).unwrap();
    assert_eq!(needs(json!({ "pattern": "a.b", "path": "door" })), [external, own.clone()]);
    // Managed files are ours to search, whatever an ignore file above them says.
    fs::create_dir(project.outside().join(".git")).unwrap();
    fs::write(project.outside().join(".gitignore"), "*\n").unwrap();
    fs::create_dir(&project.scope.output_dir).unwrap();
    fs::write(project.scope.output_dir.join("tool_x"), "a-b").unwrap();
    let input = json!({ "pattern": "a.b", "path": project.scope.output_dir });
    assert_eq!(needs(input.clone()), [own]);
    assert_eq!(grep(&project, input).await.metadata["matches"], 1);
}

#[tokio::test]
async fn what_holds_secrets_is_passed_over_and_named() {
    // In a home folder that is the project a search printed keys.
    let mut project = Project::new();
    let home = project.scope.worktree.clone();
    let scope = Arc::get_mut(&mut project.scope).unwrap();
    scope.home.clone_from(&home);
    let hidden = vec![home.join("ours")];
    scope.sandbox = Some(SandboxSettings { hidden, ..SandboxSettings::default() });
    for name in [".ssh/id", ".netrc", "ours/auth.json", "src/a.txt"] {
        project.file(name, "CANARY\n");
    }
    let note = "(Passed over, because secrets may be in there: P/.netrc, P/.ssh, P/ours. To look into one, name it.)";
    let shown = async |tool: &dyn Tool, input: Value| {
        let output = project.run(tool, input).await.unwrap().output;
        output.replace(project.scope.worktree.to_str().unwrap(), "P")
    };
    let found = shown(&GrepTool::default(), json!({ "pattern": "CANARY" })).await;
    assert_eq!(found, format!("Found 1 matches\nP/src/a.txt:\n  Line 1: CANARY\n\n{note}"));
    let found = shown(&GlobTool::default(), json!({ "pattern": "**/*" })).await;
    assert_eq!(found, format!("P/src/a.txt\n\n{note}"));
    let found = shown(&ListTool::default(), json!({})).await;
    assert_eq!(found, format!("P/\n  src/\n    a.txt\n\n{note}"));
    // Whoever names one is asked, and then finds what is in it.
    let found = shown(&GlobTool::default(), json!({ "pattern": "*", "path": home.join("ours") })).await;
    assert_eq!(found, "P/ours/auth.json");
}

#[tokio::test]
async fn links_are_not_followed() {
    let project = Project::new();
    let secret = project.outside().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "needle").unwrap();
    symlink(&secret, project.path("door")).unwrap();
    symlink(secret.join("key"), project.path("key")).unwrap();
    check(&project, json!({ "pattern": "needle" }), "No files found").await;
}

/// A folder is swapped for a link to another one outside while searches go on: nothing of the other one may show.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_swapped_for_a_link_leads_nowhere() {
    let project = Project::new();
    let secret = project.outside().join("secret");
    fs::create_dir(&secret).unwrap();
    for number in 0..50 {
        fs::write(secret.join(format!("outside{number}")), "needle outside").unwrap();
        project.file(&format!("door/inside{number}"), "needle inside");
    }
    symlink(&secret, project.path("link")).unwrap();
    let (door, link, aside) = (project.path("door"), project.path("link"), project.path("aside"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (from, to) in [(&door, &aside), (&link, &door), (&door, &link), (&aside, &door)] {
                    fs::rename(from, to).unwrap();
                }
            }
        });
        let handle = tokio::runtime::Handle::current();
        let leaked = tokio::task::block_in_place(|| {
            handle.block_on(async {
                for _ in 0..100 {
                    let text = grep(&project, json!({ "pattern": "needle", "limit": 1000 })).await.output;
                    if text.contains("outside") {
                        return Some(text);
                    }
                    let input = json!({ "pattern": "**", "limit": 1000 });
                    let text = project.run(&GlobTool::default(), input).await.unwrap().output;
                    if text.contains("outside") {
                        return Some(text);
                    }
                }
                None
            })
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(leaked, None);
    });
}

/// Rules about reading a file held for `read` alone, and a search showed its lines all the same.
#[tokio::test]
async fn files_that_must_be_asked_about_stay_closed() {
    let project = Project::new();
    project.file(".env", "TOKEN=abc");
    project.file("sub/prod.env", "TOKEN=def");
    project.file("a.txt", "TOKEN=none");
    let input = json!({ "pattern": "TOKEN" });
    let readable = Readable::by(|name| !name.ends_with(".env"));
    let context = Context { readable: readable.clone(), ..project.context().0 };
    let found = GrepTool::default().run(input, context).await.unwrap().output;
    assert_eq!(found, format!("Found 1 matches\n{}:\n  Line 1: TOKEN=none", project.path("a.txt").display()));
    let named = json!({ "pattern": "TOKEN", "path": ".env" });
    let needs = GrepTool::default().needs(&named, &project.scope).unwrap();
    let wanted: Vec<_> = needs.iter().map(|need| (&*need.permission, &*need.patterns[0])).collect();
    assert_eq!(wanted, [("grep", "TOKEN"), ("read", ".env")]);
    let context = Context { readable, granted: needs.into(), ..project.context().0 };
    assert!(GrepTool::default().run(named.clone(), context).await.unwrap().output.contains("TOKEN=abc"));
    let refused = GrepTool::default().run(named, project.context().0).await;
    assert!(refused.is_err(), "the file was not permitted");
}

/// A rule about a folder held for its own name alone: through a link to it a search showed what it holds.
#[tokio::test]
async fn a_rule_about_files_holds_behind_a_link() {
    let project = Project::new();
    project.file("secrets/key", "TOKEN=abc");
    symlink("secrets", project.path("door")).unwrap();
    let input = json!({ "pattern": "TOKEN", "path": "door" });
    let granted = GrepTool::default().needs(&input, &project.scope).unwrap().into();
    let readable = Readable::by(|name| !name.starts_with("secrets/"));
    let context = Context { readable, granted, ..project.context().0 };
    assert_eq!(GrepTool::default().run(input.clone(), context).await.unwrap().output, "No files found");
    check(&project, input, "Found 1 matches\nP/door/key:\n  Line 1: TOKEN=abc").await;
}

/// `read` shows lines without the carriage return at their end, but a search for the end of a line did not find it.
#[tokio::test]
async fn the_end_of_a_line_is_before_its_carriage_return() {
    let project = Project::new();
    project.file("f", "one;\r\ntwo\r\nthree;\n");
    let pattern = |text: &str| json!({ "pattern": text });
    check(&project, pattern(";$"), "Found 2 matches\nP/f:\n  Line 1: one;\n  Line 3: three;").await;
    check(&project, pattern("^t.o$"), "Found 1 matches\nP/f:\n  Line 2: two").await;
    check(&project, pattern(r"\r$"), "Found 2 matches\nP/f:\n  Line 1: one;\n  Line 2: two").await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The result is what a plain loop over all files and lines gives.
    #[test]
    fn searches_find_what_a_loop_finds(
        files in proptest::collection::btree_map("[ab]/[a-c]{1,2}", (proptest::collection::vec("[xyz ]{0,6}", 0..6), 0_u64..4), 0..8),
        pattern in "[xyz]{1,2}",
        limit in 1_usize..12,
    ) {
        let project = Project::new();
        let mut all = Vec::new();
        for (name, (lines, seconds)) in &files {
            age(&project.file(name, lines.join("\n")), *seconds);
            let found = lines.iter().enumerate().filter(|(_, line)| line.contains(&pattern));
            all.extend(found.map(|(number, line)| (*seconds, name, number + 1, line)));
        }
        all.sort();
        let truncated = all.len() > limit;
        all.truncate(limit);
        let mut expected = Vec::new();
        let mut last = None;
        for (_, name, number, line) in all {
            if last.replace(name) != Some(name) {
                expected.push(format!("{}:", project.path(name).display()));
            }
            expected.push(format!("  Line {number}: {line}"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let output = runtime.block_on(grep(&project, json!({ "pattern": pattern, "limit": limit })));
        let shown: Vec<&str> = output
            .output
            .split("\n\n(")
            .next()
            .unwrap()
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .collect();
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(output.metadata["truncated"].as_bool(), Some(truncated));
    }
}
