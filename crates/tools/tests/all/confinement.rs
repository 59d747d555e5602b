//! Paths that try to get out of the project, by words and by races.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::edit::EditTool;
use everturn_tools::read::ReadTool;
use everturn_tools::write::WriteTool;
use everturn_tools::{Failure, Need, Tool};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::bash::tool;
use crate::harness::{Project, tree};

const SECRET: &str = "the secret";

/// A project with a folder of secrets beside it.
fn project() -> Project {
    let project = Project::new();
    fs::create_dir_all(project.outside().join("secret/deep")).unwrap();
    fs::write(project.outside().join("secret/key"), SECRET).unwrap();
    fs::write(project.outside().join("secret/deep/key"), SECRET).unwrap();
    project.file("d/key", "inside");
    project.file("d/deep/key", "inside");
    project
}

/// Every file tool with an input about a path, the reading one first.
fn calls(path: &str) -> [(&'static dyn Tool, Value); 6] {
    let patch = |body: &str| json!({ "patchText": format!("*** Begin Patch\n{body}\n*** End Patch") });
    [
        (&ReadTool, json!({ "filePath": path })),
        (&WriteTool, json!({ "filePath": path, "content": "taken" })),
        (&EditTool, json!({ "filePath": path, "oldString": "", "newString": "taken" })),
        (&EditTool, json!({ "filePath": path, "oldString": "secret", "newString": "taken" })),
        (&ApplyPatchTool, patch(&format!("*** Add File: {path}\n+taken"))),
        (&ApplyPatchTool, patch(&format!("*** Update File: d/deep/key\n*** Move to: {path}"))),
    ]
}

/// What the person would be asked for beyond the project.
fn external(needs: &[Need]) -> Vec<String> {
    let external = needs.iter().filter(|need| need.permission == "external_directory");
    external.flat_map(|need| need.patterns.clone()).collect()
}

/// Without a permission for elsewhere, a path gets nobody out of the project.
async fn check(project: &Project, path: &str) {
    let outside = tree(&project.outside().join("secret"));
    for (tool, input) in calls(path) {
        let Ok(needs) = tool.needs(&input, &project.scope) else { continue };
        let asked = external(&needs);
        let granted = needs.into_iter().filter(|need| need.permission != "external_directory").collect();
        let result = project.run_with(granted, tool, input).await;
        assert!(asked.is_empty() || result.is_err(), "{} {path}: {asked:?} {result:?}", tool.name());
        let said = result.map_or_else(|failure| failure.to_string(), |output| output.output);
        assert!(!said.contains(SECRET), "{} {path}: {said}", tool.name());
        assert_eq!(tree(&project.outside().join("secret")), outside, "{} {path}", tool.name());
    }
}

#[tokio::test]
async fn no_spelling_leads_out() {
    let project = project();
    let secret = project.outside().join("secret");
    symlink(&secret, project.path("door")).unwrap();
    symlink("../secret/key", project.path("file")).unwrap();
    symlink("file", project.path("relay")).unwrap();
    symlink(secret.join("absent"), project.path("dangling")).unwrap();
    symlink("loop-b", project.path("loop-a")).unwrap();
    symlink("loop-a", project.path("loop-b")).unwrap();
    symlink("/proc/self/root", project.path("root")).unwrap();
    let absolute = secret.join("key").to_str().unwrap().to_owned();
    let long = format!("../secret/{}", "x".repeat(300));
    let deep = "d/../".repeat(700) + "../secret/key";
    for path in [
        "../secret/key",
        "d/../../secret/key",
        "./././../secret/./key",
        "../project/../secret/key",
        "d/deep/../../../secret/new",
        "../secret/key/",
        "../secret//key",
        &absolute,
        &format!("/{absolute}"),
        &format!("/proc/self/root{absolute}"),
        &format!("/proc/self/cwd/{absolute}"),
        &format!("/proc/thread-self/root{absolute}"),
        &format!("root{absolute}"),
        "door/key",
        "door/../secret/key",
        "door/new",
        "door/deep/new/file",
        "d/../door/key",
        "file",
        "relay",
        "file/",
        "file/below",
        "dangling",
        "dangling/below",
        "loop-a",
        "loop-a/key",
        &long,
        &deep,
        "~/key",
        "~",
        "",
        ".",
        "..",
        "/",
        "//",
        "d/key\0",
        "../secret/key\0.txt",
        "DOOR/KEY",
        "Door/key",
    ] {
        check(&project, path).await;
    }
}

#[tokio::test]
async fn look_alikes_are_only_names() {
    let project = project();
    for name in [
        "\u{ff0e}\u{ff0e}/secret/key",
        "\u{2024}\u{2024}/secret/key",
        "..\u{ff0f}secret\u{ff0f}key",
        "..\u{2215}secret\u{2215}key",
        "..\\secret\\key",
        "\u{202e}..",
        ".. /secret/key",
        "..\u{200b}/secret/key",
        "caf\u{e9}",
        "cafe\u{301}",
        "./~",
        "%2e%2e%2fsecret%2fkey",
        "$HOME",
        "-rf",
        "*",
    ] {
        check(&project, name).await;
        assert_eq!(fs::read_to_string(project.path(name)).unwrap(), "taken", "{name}");
    }
    // Two spellings of one letter are two files wherever the file system says so.
    assert!(project.path("caf\u{e9}").exists() && project.path("cafe\u{301}").exists());
}

#[tokio::test]
async fn what_is_no_path_is_refused_in_words() {
    let project = project();
    let long = "x/".repeat(3000);
    let name = "x".repeat(300);
    for (path, why) in [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("~/notes", "home folder"),
        (&long, "longer than any path"),
        (&name, "File name too long"),
        ("new/", "names a folder"),
        ("d/key/below", "Not a directory"),
    ] {
        let before = tree(&project.path(""));
        let result = project.run(&WriteTool, json!({ "filePath": path, "content": "x" })).await;
        let text = result.unwrap_err().to_string();
        assert!(text.contains(why), "{path:.20}: {text}");
        assert_eq!(tree(&project.path("")), before);
    }
}

/// A link that takes a name's place after the permission leads nowhere.
async fn check_swap(name: &str, to: &str, path: &str) {
    for at in 0..calls(path).len() {
        let project = project();
        let secret = tree(&project.outside().join("secret"));
        let (tool, input) = calls(path)[at].clone();
        let needs = tool.needs(&input, &project.scope).unwrap();
        assert_eq!(external(&needs), [""; 0], "{path}");
        fs::rename(project.path(name), project.path("away")).ok();
        symlink(to, project.path(name)).unwrap();
        let result = project.run_with(needs, tool, input).await;
        assert!(
            matches!(&result, Err(Failure::Failed(text)) if !text.contains(SECRET)),
            "{} {name}: {result:?}",
            tool.name()
        );
        assert_eq!(tree(&project.outside().join("secret")), secret, "{} {name}", tool.name());
    }
}

#[tokio::test]
async fn a_link_swapped_in_after_the_permission_leads_nowhere() {
    check_swap("d", "../secret", "d/key").await;
    check_swap("d", "../secret", "d/new").await;
    check_swap("d/deep", "../../secret/deep", "d/deep/new").await;
    check_swap("d/key", "../../secret/key", "d/key").await;
    check_swap("new", "../secret/new", "new").await;
    check_swap("new", "../secret", "new/er/file").await;
}

#[tokio::test]
async fn a_command_runs_where_it_was_permitted_to() {
    // The folder was looked up again at the start and not compared: a link that took its place led out.
    for background in [false, true] {
        let project = project();
        let run = json!({ "command": "echo x > new", "workdir": "d", "background": background });
        let needs = tool().needs(&run, &project.scope).unwrap();
        assert_eq!(external(&needs), [""; 0]);
        fs::rename(project.path("d"), project.path("away")).unwrap();
        symlink("../secret", project.path("d")).unwrap();
        let text = project.run_with(needs, &tool(), run.clone()).await.unwrap_err().to_string();
        assert!(text.contains("leads elsewhere now than when it was permitted"), "{text}");
        assert!(!project.outside().join("secret/new").exists());
        // Permitted as it is now, it runs there.
        project.run(&tool(), run).await.unwrap();
        assert!(project.outside().join("secret/new").exists());
    }
}

#[tokio::test]
async fn a_permission_is_for_one_file_within_the_project_too() {
    let project = project();
    project.file(".env", SECRET);
    let input = json!({ "filePath": "d/key" });
    let needs = ReadTool.needs(&input, &project.scope).unwrap();
    fs::remove_file(project.path("d/key")).unwrap();
    symlink("../.env", project.path("d/key")).unwrap();
    let text = project.run_with(needs, &ReadTool, input).await.unwrap_err().to_string();
    assert!(text.contains("leads elsewhere now than when it was permitted"), "{text}");
}

#[tokio::test]
async fn a_working_folder_that_became_a_link_is_no_door() {
    let project = project();
    let scope = everturn_tools::Scope { directory: project.path("d"), ..(*project.scope).clone() };
    fs::rename(project.path("d"), project.path("away")).unwrap();
    symlink("../secret", project.path("d")).unwrap();
    let needs = ReadTool.needs(&json!({ "filePath": "key" }), &scope).unwrap();
    assert_eq!(external(&needs), [project.outside().join("secret/*").to_str().unwrap()]);
}

#[tokio::test]
async fn changing_what_git_keeps_asks_and_reading_does_not() {
    let project = project();
    project.file(".git/config", "[core]\n");
    project.file("sub/.git", "gitdir: ../.git/modules/sub\n");
    project.file("d/.gitignore", "x\n");
    fs::create_dir_all(project.path("store/hooks")).unwrap();
    symlink("../store", project.path("sub/link")).unwrap();
    symlink(".git/hooks", project.path("hooks")).unwrap();
    for (path, folder) in [
        (".git/config", Some(".git")),
        (".git/hooks/pre-commit", Some(".git/hooks")),
        (".git", Some(".git")),
        (".GIT/config", Some(".GIT")),
        ("d/../.git/config", Some(".git")),
        ("sub/.git", Some("sub")),
        ("hooks/pre-commit", Some(".git/hooks")),
        ("d/.gitignore", None),
        ("d/.git.txt", None),
        (".github/workflows/a", None),
        ("sub/link/hooks/x", None),
    ] {
        let expected: Vec<String> =
            folder.iter().map(|folder| project.path(folder).join("*").to_str().unwrap().to_owned()).collect();
        for (tool, input) in calls(path).into_iter().skip(1) {
            let needs = tool.needs(&input, &project.scope).unwrap();
            assert_eq!(external(&needs), expected, "{} {path}", tool.name());
        }
        let needs = ReadTool.needs(&json!({ "filePath": path }), &project.scope).unwrap();
        assert_eq!(external(&needs), [""; 0], "{path}");
    }
    // Where git keeps its things behind a link, they are still git's.
    fs::rename(project.path(".git"), project.path("git-dir")).unwrap();
    symlink("git-dir", project.path(".git")).unwrap();
    let needs =
        WriteTool.needs(&json!({ "filePath": "git-dir/hooks/x", "content": "" }), &project.scope).unwrap();
    assert_eq!(external(&needs), [project.path("git-dir/hooks/*").to_str().unwrap()]);
}

/// Two names that change places as fast as the machine can, until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(pairs: Vec<(std::path::PathBuf, std::path::PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for (a, b) in &pairs {
                    // A name may be away for a moment while a call moves files.
                    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).ok();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Runs calls on a path whose links are swapped all the while, and says how many of them succeeded and failed.
async fn race(project: &Project, path: &str, pairs: &[(&str, &str)]) -> (usize, usize) {
    let honest: Vec<(&dyn Tool, Value, Vec<Need>)> = calls(path)
        .into_iter()
        .map(|(tool, input)| {
            let needs = tool.needs(&input, &project.scope).unwrap();
            assert_eq!(external(&needs), [""; 0]);
            (tool, input, needs)
        })
        .collect();
    let outside = tree(&project.outside().join("secret"));
    let swapper = Swapper::start(pairs.iter().map(|(a, b)| (project.path(a), project.path(b))).collect());
    let (mut done, mut refused, mut rounds) = (0, 0, 0);
    while rounds < 300 || done == 0 || refused == 0 {
        rounds += 1;
        for (tool, input, needs) in &honest {
            match project.run_with(needs.clone(), *tool, input.clone()).await {
                Ok(output) => {
                    done += 1;
                    assert!(!output.output.contains(SECRET), "{}", output.output);
                }
                Err(failure) => {
                    refused += 1;
                    assert!(!failure.to_string().contains(SECRET), "{failure}");
                }
            }
        }
    }
    drop(swapper);
    assert_eq!(tree(&project.outside().join("secret")), outside);
    (done, refused)
}

#[tokio::test]
async fn a_racing_swap_of_a_folder_never_wins() {
    let project = project();
    symlink("../secret", project.path("e")).unwrap();
    race(&project, "d/key", &[("d", "e")]).await;
    // The folder's handle may outlive its name, so what is staged goes where the folder is, and is not left there.
    for name in tree(&project.path("")).keys().chain(tree(&project.outside()).keys()) {
        assert!(!name.display().to_string().contains("everturn-tmp"), "{}", name.display());
    }
}

#[tokio::test]
async fn a_racing_swap_of_a_file_never_wins() {
    let project = project();
    symlink("../../secret/key", project.path("d/link")).unwrap();
    race(&project, "d/key", &[("d/key", "d/link")]).await;
    assert!(Path::new(&project.path("d")).is_dir());
}
