//! The second wall around files: what it lets through, and what it refuses where it is the only one.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use everturn_tools::process::sandbox::{SandboxPart, SandboxSettings};

use super::{EnclosedBash, all, enclosed, enclosed_by, require_whole};
use crate::bash::{command, quick};
use crate::harness::{Project, tree};

/// What is left where namespaces are refused.
fn alone() -> BTreeSet<SandboxPart> {
    [SandboxPart::Landlock, SandboxPart::Seccomp].into()
}

/// A home folder that is not there.
const HOME: &str = "/srv/of-a-test";

#[tokio::test]
async fn ordinary_work_is_let_through() {
    require_whole();
    let check = async |parts: BTreeSet<SandboxPart>, line: &str| {
        let mut project = Project::new();
        // Elsewhere than in what every command can write to.
        Arc::get_mut(&mut project.scope).unwrap().home = HOME.into();
        let line = format!("set -e; {line}; echo done");
        let output = project.run_with(Vec::new(), &enclosed(parts.clone()), command(&line)).await.unwrap();
        assert!(output.output.starts_with("done\n"), "{parts:?}: {line}: {}", output.output);
    };
    // Every right there is, and files moved from one folder to another.
    let work = "mkdir a b; echo x > a/f; mv a/f b/g; ln b/g a/h; ln -s b a/l; mkfifo a/p; : > b/g; rm a/h a/l a/p; \
                rmdir a; cp /bin/true b/t; b/t; rm -r b";
    for place in ["/tmp", "/var/tmp", "/run", "/dev/shm", HOME, "."] {
        check(all(), &format!("cd {place}; {work}")).await;
    }
    let own = "echo name > /proc/self/comm; ls /proc/self/task > /dev/null; head -c1 /dev/zero > /dev/null";
    check(all(), own).await;
    check(all(), "python3 -c 'import os, pty; one, other = pty.openpty(); os.get_terminal_size(other)'")
        .await;
    check(alone(), work).await;
    let project = Project::new();
    let temporary = Some(project.outside().join("temporary"));
    fs::create_dir(project.outside().join("temporary")).unwrap();
    let settings = SandboxSettings { parts: alone(), temporary, ..SandboxSettings::default() };
    let line = format!("cd $TMPDIR && {work} && echo done");
    let output = project.run_with(Vec::new(), &enclosed_by(settings), command(&line)).await.unwrap();
    assert!(output.output.starts_with("done\n"), "{}", output.output);
    check(alone(), "cat /proc/self/status /dev/null > f; head -c1 /dev/urandom > /dev/null; ls /usr > f")
        .await;
}

/// Lines that use or change what lies beside the project, each in a way of its own.
const OUTSIDE: [&str; 12] = [
    "cat ../folder/file > got",
    "ls ../folder > got",
    "../folder/tool > got",
    "echo x >> ../folder/file",
    "perl -e 'truncate(\"../folder/file\", 0)'",
    "rm ../folder/file",
    "rmdir ../folder/empty",
    "mkdir ../folder/new",
    "touch ../folder/new",
    "ln -s x ../folder/new",
    "mkfifo ../folder/new",
    "mv ../folder/file ../folder/new",
];

/// The lines that get or change something. What lies beside the project is told to whoever makes the tool.
async fn reached(tool: impl Fn(PathBuf) -> EnclosedBash) -> Vec<&'static str> {
    let mut reached = Vec::new();
    for line in OUTSIDE {
        let project = Project::new();
        let folder = project.outside().join("folder");
        fs::create_dir_all(folder.join("empty")).unwrap();
        fs::write(folder.join("file"), "text").unwrap();
        fs::copy("/bin/pwd", folder.join("tool")).unwrap();
        let before = tree(&folder);
        project.run_with(Vec::new(), &tool(folder.clone()), command(line)).await.unwrap();
        let got = fs::metadata(project.path("got")).is_ok_and(|got| got.len() > 0);
        if got || tree(&folder) != before {
            reached.push(line);
        }
    }
    reached
}

#[tokio::test]
async fn what_lies_outside_cannot_be_used_without_mounts() {
    require_whole();
    assert_eq!(reached(|_| quick().into()).await, OUTSIDE, "without a sandbox");
    assert_eq!(reached(|_| enclosed(alone())).await, [""; 0]);
}

#[tokio::test]
async fn what_is_listed_to_be_read_cannot_be_changed_without_mounts() {
    require_whole();
    let settings =
        |folder| SandboxSettings { parts: alone(), readable: vec![folder], ..SandboxSettings::default() };
    assert_eq!(reached(|folder| enclosed_by(settings(folder))).await, OUTSIDE[..3]);
}

#[tokio::test]
async fn what_is_listed_and_hidden_is_hidden_without_mounts_too() {
    require_whole();
    let project = Project::new();
    let folder = project.outside().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "canary").unwrap();
    let check = async |hidden: Vec<PathBuf>, expected: bool| {
        let readable = vec![folder.clone()];
        let settings = SandboxSettings { parts: alone(), readable, hidden, ..SandboxSettings::default() };
        let line = command("cat ../folder/file");
        let output = project.run_with(Vec::new(), &enclosed_by(settings), line).await.unwrap();
        assert_eq!(output.output.contains("canary"), expected, "{}", output.output);
    };
    check(Vec::new(), true).await;
    check(vec![folder.clone()], false).await;
}
