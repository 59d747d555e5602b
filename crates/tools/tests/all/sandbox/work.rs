//! What a program must still be able to do.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use everturn_tools::process::sandbox::{SandboxNetwork, SandboxSettings};
use everturn_tools::{Context, Failure, Tool as _};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{all, enclosed, enclosed_by, require_whole};
use crate::bash::{PATIENCE, command, quick, watch};
use crate::harness::Project;
use crate::session::Script;

/// A server that says hello to everyone, and writes down its port.
const SERVER: &str = "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); \
    bind(S, pack_sockaddr_in(0, INADDR_LOOPBACK)) or die $!; listen(S, 5); \
    my ($port) = unpack_sockaddr_in(getsockname(S)); open(F, \">port.new\"); print F $port; close(F); \
    rename(\"port.new\", \"port\"); while (accept(C, S)) { print C \"hello\"; close(C) }'";

/// Lines that print the same with the sandbox and without.
const LINES: [&str; 30] = [
    "bash -lc true; echo $?",
    "id; whoami; nproc; locale",
    "date +%Y",
    "f=$(mktemp) && echo x > $f && cat $f && rm $f",
    "mkdir src && echo a > src/a && tar cf a.tar src && tar tf a.tar",
    "find . -name a.tar",
    "flock l echo locked",
    "mkfifo p && (echo through > p &) && cat p",
    "ln -s src link && cp -a link copy && readlink copy",
    "install -m755 src/a b && stat -c %a b",
    "dd if=/dev/zero of=z bs=1k count=3 2>/dev/null && stat -c %s z && head -c4 /dev/urandom | wc -c",
    "sleep 1000 & kill %1; wait %1; echo $?",
    "git init -q -b main && git config user.name A && git config user.email a@b",
    "git add src && git commit -qm one && git log --format=%s",
    "echo b > src/b && git add . && git stash -q && git stash pop -q && git status --short | head -3",
    "git commit -qam two && git checkout -qb side && echo c > src/c && git add . && git commit -qm three && git log --format=%s",
    "git rebase -q main && git checkout -q main && git merge -q side && git log --format=%s | wc -l",
    "git gc -q && git fsck > /dev/null 2>&1 && echo sound",
    "git worktree add -q ../project/tree side2 2>/dev/null || git worktree add -q -b side2 tree && git -C tree log -1 --format=%s",
    "cd tree && echo d > d && git add d && git commit -qm four && git log -1 --format=%s",
    "printf 'all:\\n\\t@echo made\\n' > Makefile; if command -v make > /dev/null; then make -s -j2; fi",
    "perl -e 'print \"perl\\n\"'",
    "(echo one; echo two >&2) 2>&1 | sort",
    "python3 -c 'import multiprocessing as m; l = m.Lock(); print(l.acquire())' 2>/dev/null || /usr/bin/python3 -c 'import multiprocessing as m; l = m.Lock(); print(l.acquire())'",
    "script -qc 'echo typed' /dev/null | tr -d '\\r'",
    "if command -v strace > /dev/null; then strace -o t true; tail -1 t; fi",
    "exec 3<>/dev/tcp/127.0.0.1/1 2>/dev/null; echo $?",
    "setsid -w echo apart",
    "test -w /dev/null && test -e /dev/stdin && ls -d /dev/shm /dev/pts /dev/fd",
    "ulimit -n > /dev/null && umask && pwd -P | xargs basename",
];

#[tokio::test]
async fn ordinary_lines_do_what_they_did() {
    let (plain, walled) = (Project::new(), Project::new());
    for line in LINES {
        let expected = plain.run(&quick(), command(line)).await.unwrap();
        assert_eq!(expected.metadata["exit"], 0, "{line}: {}", expected.output);
        let output = walled.run(&enclosed(all()), command(line)).await.unwrap();
        assert_eq!(
            (output.output.as_str(), &output.metadata["exit"]),
            (expected.output.as_str(), &expected.metadata["exit"]),
            "{line}"
        );
    }
}

#[tokio::test]
async fn ends_are_told_as_without() {
    let project = Project::new();
    let tool = enclosed(all());
    for (line, exit) in [("exit 3", json!(3)), ("kill -9 $$", json!(137)), ("kill -TERM $$", json!(143))] {
        let output = project.run(&tool, command(line)).await.unwrap();
        assert_eq!(output.metadata["exit"], exit, "{line}");
    }
}

#[tokio::test]
async fn a_server_answers_later_commands_and_people_until_it_is_stopped() {
    let project = Project::new();
    let tool = enclosed(all());
    let gone = watch(&project.path("pipe"));
    let job =
        json!({ "command": format!("exec 9>pipe; {SERVER}"), "description": "serve", "background": true });
    let started = project.run(&tool, job).await.unwrap();
    let port = timeout(PATIENCE, async {
        loop {
            match fs::read_to_string(project.path("port")) {
                Ok(port) => return port,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let port = port.await.unwrap();
    let later = project.run(&tool, command(&format!("cat < /dev/tcp/127.0.0.1/{port}"))).await.unwrap();
    assert_eq!(later.output, "hello");
    let mut said = String::new();
    TcpStream::connect(format!("127.0.0.1:{port}")).unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello");
    // The shell of another command sees no such process: it was told that there is none.
    let pid = started.metadata["pid"].as_i64().unwrap();
    let stopped = project.run(&tool, command(&format!("kill {pid}"))).await.unwrap();
    assert_eq!((stopped.output.contains("was stopped"), &stopped.metadata["exit"]), (true, &json!(0)));
    timeout(PATIENCE, gone).await.unwrap().unwrap();
    assert_eq!(tool.jobs.running(), 0);
}

#[tokio::test]
async fn a_job_is_stopped_by_its_own_session_only() {
    // The tool carries `kill` out itself, and did so for every job of the server.
    require_whole();
    let (project, tool) = (Project::new(), enclosed(all()));
    let run = async |session: &str, input| {
        let host = Arc::new(Script { id: session.to_owned(), ..Script::default() });
        tool.run(input, Context { host, ..project.context().0 }).await.unwrap()
    };
    let mut job = command("sleep 1000");
    job["background"] = json!(true);
    let started = run("ses_a", job).await;
    let line = format!("kill {}", started.metadata["pid"]);
    let refused = run("ses_b", command(&line)).await;
    assert_eq!((tool.jobs.running(), &refused.metadata["exit"]), (1, &json!(1)), "{}", refused.output);
    let stopped = run("ses_a", command(&line)).await;
    assert_eq!(
        (tool.jobs.running(), stopped.output.contains("was stopped")),
        (0, true),
        "{}",
        stopped.output
    );
}

#[tokio::test]
async fn a_worktree_of_a_repository_elsewhere_can_be_committed_to() {
    require_whole();
    let main = Project::new();
    let line = "git init -qb main && git config user.name A && git config user.email a@b && \
                git commit -q --allow-empty -m one && git worktree add -q -b side ../tree";
    assert_eq!(main.run(&quick(), command(line)).await.unwrap().metadata["exit"], 0);
    let mut tree = Project::new();
    let folder = main.outside().join("tree");
    let scope = Arc::get_mut(&mut tree.scope).unwrap();
    (scope.directory, scope.worktree) = (folder.clone(), folder);
    let line = "echo a > a && git add a && git commit -qm two && git log -1 --format=%s";
    assert_eq!(tree.run(&enclosed(all()), command(line)).await.unwrap().output, "two\n");
    let hook = format!(
        "echo x > {0}/.git/hooks/post-commit; git config x.y z; echo $?",
        main.scope.worktree.display()
    );
    let before = main.text(".git/config");
    let output = tree.run_with(Vec::new(), &enclosed(all()), command(&hook)).await.unwrap();
    assert!(!output.output.ends_with("\n0\n"));
    assert!(!main.path(".git/hooks/post-commit").exists());
    assert_eq!(main.text(".git/config"), before);
}

#[tokio::test]
async fn a_submodule_that_is_opened_by_itself_can_be_committed_to() {
    // There was no repository in it.
    require_whole();
    let top = Project::new();
    let line = "git init -q ../lib && cd ../lib && git config user.name A && git config user.email a@b && \
                git commit -q --allow-empty -m one && cd ../project && git init -q && \
                git -c protocol.file.allow=always submodule -q add ../lib lib && cd lib && \
                git config user.name A && git config user.email a@b";
    let made = top.run(&quick(), command(line)).await.unwrap();
    assert_eq!(made.metadata["exit"], 0, "{}", made.output);
    let mut inner = Project::new();
    let folder = top.path("lib");
    let scope = Arc::get_mut(&mut inner.scope).unwrap();
    (scope.directory, scope.worktree) = (folder.clone(), folder);
    let line = "echo a > a && git add a && git commit -qm two && git log -1 --format=%s";
    assert_eq!(inner.run(&enclosed(all()), command(line)).await.unwrap().output, "two\n");
    let before = top.text(".git/modules/lib/config");
    let line = "g=$(git rev-parse --git-dir); echo x > $g/hooks/post-commit; git config x.y z; echo $?";
    let output = inner.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    assert!(!output.output.ends_with("\n0\n"), "{}", output.output);
    assert!(!top.path(".git/modules/lib/hooks/post-commit").exists());
    assert_eq!(top.text(".git/modules/lib/config"), before);
}

#[tokio::test]
async fn a_network_of_its_own_has_itself() {
    require_whole();
    let project = Project::new();
    let sandbox =
        SandboxSettings { parts: all(), network: SandboxNetwork::Own, ..SandboxSettings::default() };
    let tool = enclosed_by(sandbox);
    let line = format!(
        "{SERVER} & until [ -e port ]; do sleep 0.01; done; cat < /dev/tcp/127.0.0.1/$(cat port); kill %1"
    );
    let output = project.run(&tool, command(&line)).await.unwrap();
    assert_eq!(output.output, "hello");
}

#[tokio::test]
async fn what_is_put_into_tmp_is_found_again_where_a_folder_is_given() {
    require_whole();
    let project = Project::new();
    let temporary = project.outside().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let sandbox = SandboxSettings { parts: all(), temporary: Some(temporary), ..SandboxSettings::default() };
    let tool = enclosed_by(sandbox);
    project.run(&tool, command("echo kept > /tmp/kept-by-a-test")).await.unwrap();
    assert_eq!(project.run(&tool, command("cat /tmp/kept-by-a-test")).await.unwrap().output, "kept\n");
    assert!(!std::path::Path::new("/tmp/kept-by-a-test").exists());
    let without =
        project.run(&enclosed(all()), command("echo kept > /tmp/kept-by-a-test; ls /tmp")).await.unwrap();
    assert!(without.output.contains("kept-by-a-test"));
    assert_ne!(
        project.run(&enclosed(all()), command("cat /tmp/kept-by-a-test")).await.unwrap().metadata["exit"],
        0
    );
}

#[tokio::test]
async fn plans_can_be_written_among_protected_files() {
    require_whole();
    let project = Project::new();
    project.file(".opencode/plans/one.md", "");
    project.file(".opencode/agent.md", "kept");
    let line = "echo new > .opencode/plans/two.md; echo x > .opencode/agent.md; cat .opencode/plans/two.md";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    let fixed = format!("{} can only be read in it", project.path(".opencode/agent.md").display());
    assert!(output.output.contains("\nnew\n") && output.output.contains(&fixed), "{}", output.output);
    assert_eq!(
        (project.text(".opencode/plans/two.md"), project.text(".opencode/agent.md")),
        ("new\n".into(), "kept".into())
    );
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_made_keeps_the_command_from_running() {
    require_whole();
    let project = Project::new();
    let inner = project.file("private/inner/x", "").parent().unwrap().to_owned();
    let hidden = vec![project.path("private")];
    let tool = enclosed_by(SandboxSettings { parts: all(), hidden, ..SandboxSettings::default() });
    let input = json!({ "command": "touch ran", "description": "a test", "workdir": inner });
    let Err(Failure::Failed(text)) = project.run(&tool, input).await else { panic!("it ran") };
    let why = format!(
        "the sandbox could not be made: {}: No such file or directory (os error 2). `everturn doctor` shows",
        inner.display()
    );
    assert!(text.contains(&why), "{text}");
    assert!(!inner.join("ran").exists());
}

#[tokio::test]
async fn nothing_outlives_a_supervisor_that_is_killed() {
    require_whole();
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let line = "exec 9>pipe; trap '' TERM HUP INT; setsid -f env -i sleep 1000; sleep 1000";
    let job = json!({ "command": line, "description": "stay", "background": true });
    let tool = enclosed(all());
    let started = project.run(&tool, job).await.unwrap();
    let pid = started.metadata["pid"].as_i64().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn no_command_leaves_a_program_that_runs_as_somebody_else() {
    // Every other account could start it.
    require_whole();
    let project = Project::new();
    let line = "cp /usr/bin/id own && chmod 755 own; chmod 4755 own; chmod u+s own; install -m 4755 /usr/bin/id other; \
                mkdir -p shared && chmod 1777 shared";
    project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    let mode =
        |name: &str| project.path(name).metadata().map_or(0, |meta| meta.permissions().mode() & 0o7777);
    assert_eq!((mode("own"), mode("shared"), mode("other") & 0o4000), (0o755, 0o1777, 0));
}
