//! What a program must not reach: each attempt first succeeds without the sandbox.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use everturn_tools::process::sandbox::{SandboxMode, SandboxNetwork, SandboxPart, SandboxSettings};
use futures_util::future::join_all;
use rustix::process::geteuid;

use super::{EnclosedBash, all, enclosed, enclosed_by, require_whole};
use crate::bash::{command, quick};
use crate::harness::{Project, names, tree};

/// What an attempt prints when it has got through.
const REACHED: &str = "canary-reached";

/// A project with things around it that a program must not reach.
struct Field {
    project: Project,
    other: Child,
    /// Held open, for the attempts to connect to.
    _path: UnixListener,
    _name: UnixListener,
    port: TcpListener,
    /// A file that is not closed when another program starts.
    open: File,
}

impl Drop for Field {
    fn drop(&mut self) {
        self.other.kill().ok();
        self.other.wait().ok();
    }
}

impl Field {
    fn new() -> Self {
        let project = Project::new();
        let base = project.outside();
        fs::create_dir_all(base.join("home/.ssh")).unwrap();
        fs::write(base.join("home/.ssh/id"), REACHED).unwrap();
        fs::write(base.join("other"), REACHED).unwrap();
        project.file(".git/config", "[core]\n\tbare = false\n");
        project.file(".git/HEAD", "ref: refs/heads/main\n");
        project.file(".git/hooks/README", "");
        project.file(".github/workflows/ci.yml", "on: push\n");
        project.file(".vscode/tasks.json", "{}");
        project.file(".opencode/agent.md", "");
        project.file(".opencode/plans/one.md", "");
        project.file("AGENTS.md", "Be good.\n");
        let open = File::open(base.join("other")).unwrap();
        rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
        let other = Command::new("sleep").arg("1000").env("CANARY", REACHED).stdin(Stdio::null()).spawn();
        let name = SocketAddr::from_abstract_name(base.as_os_str().as_encoded_bytes()).unwrap();
        Self {
            other: other.unwrap(),
            _path: UnixListener::bind(base.join("socket")).unwrap(),
            _name: UnixListener::bind_addr(&name).unwrap(),
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            project,
            open,
        }
    }

    /// The attempts, each with a name.
    fn attempts(&self) -> Vec<(&'static str, String)> {
        let base = self.project.outside();
        let secret = base.join("home").join(".ssh/id");
        let (base, secret) = (base.display(), secret.display());
        let pid = self.other.id();
        let port = self.port.local_addr().unwrap().port();
        let connect = |address: String, kind: &str| {
            format!(
                "perl -MSocket -e 'socket(my $s, {kind}, SOCK_STREAM, 0) or die; \
                 connect($s, {address}) or die $!; print \"{REACHED}\"'"
            )
        };
        let mut attempts = vec![
            ("read a secret", format!("cat {secret}")),
            ("read by a way round", "d=..; for f in $d/h*/.ssh/*; do cut -c1-99 $f; done".to_owned()),
            ("see that it is there", format!("stat {secret} && echo {REACHED}")),
            ("change its mode", format!("chmod 600 {secret} && echo {REACHED}")),
            ("write beside the project", "echo x >> ../other".to_owned()),
            ("change git's settings", format!("echo '[x]' >> .git/config && echo {REACHED}")),
            ("replace git's settings", format!("echo '[x]' > c && mv c .git/config && echo {REACHED}")),
            ("link to git's settings", format!("ln .git/config c && echo '[x]' >> c && echo {REACHED}")),
            ("move git away", format!("mv .git gone && cp -r gone .git && echo {REACHED}")),
            ("add a hook", format!("echo x > .git/hooks/pre-commit && echo {REACHED}")),
            ("change what an editor runs", format!("echo x > .vscode/tasks.json && echo {REACHED}")),
            ("remove what an editor runs", format!("rm -r .vscode && mkdir .vscode && echo {REACHED}")),
            ("move a folder of protected files", format!("mv .github g && echo {REACHED}")),
            ("change instructions", format!("echo x >> AGENTS.md && echo {REACHED}")),
            ("signal another process", format!("kill -0 {pid} && echo {REACHED}")),
            ("read another's environment", format!("tr '\\0' '\\n' < /proc/{pid}/environ")),
            ("look around through the parent", format!("cat /proc/$PPID/root{base}/other")),
            (
                "see other command lines",
                "ps ax -o args | grep -q '^sleep 1000$' && echo ".to_owned() + REACHED,
            ),
            (
                "connect to a socket by its path",
                connect(format!("pack_sockaddr_un(\"{base}/socket\")"), "PF_UNIX"),
            ),
            (
                "connect to a socket by its name",
                connect(format!("pack_sockaddr_un(\"\\0{base}\")"), "PF_UNIX"),
            ),
            (
                "connect to a port",
                connect(format!("pack_sockaddr_in({port}, inet_aton(\"127.0.0.1\"))"), "PF_INET"),
            ),
            ("use what was left open", format!("cat <&{}", self.open.as_raw_fd())),
            ("make a namespace", format!("unshare --user true && echo {REACHED}")),
        ];
        if geteuid().is_root() {
            attempts
                .push(("read hashes of passwords", format!("grep -q ^root: /etc/shadow && echo {REACHED}")));
            let pattern = "/proc/sys/kernel/core_pattern";
            attempts.push((
                "change the machine",
                format!("cat {pattern} > p; cat p > {pattern} && echo {REACHED}"),
            ));
        }
        attempts
    }
}

/// Which attempts get through, each in a field of its own: they print what they got at, or change what was there.
async fn reached(tool: &EnclosedBash) -> BTreeSet<&'static str> {
    let count = Field::new().attempts().len();
    let attempts = (0..count).map(async |at| {
        let field = Field::new();
        let (name, line) = field.attempts().swap_remove(at);
        let before = tree(&field.project.outside());
        // Nothing was permitted but the command.
        let output = field.project.run_with(Vec::new(), tool, command(&line)).await.unwrap();
        let mut after = tree(&field.project.outside());
        after.retain(|path, _| before.contains_key(path));
        (output.output.contains(REACHED) || after != before).then_some(name)
    });
    join_all(attempts).await.into_iter().flatten().collect()
}

/// The attempts that get through when nothing can be mounted.
const WITHOUT_MOUNTS: [&str; 13] = [
    "add a hook",
    "change git's settings",
    "change instructions",
    "change its mode",
    "change what an editor runs",
    "connect to a socket by its path",
    "link to git's settings",
    "move a folder of protected files",
    "move git away",
    "remove what an editor runs",
    "replace git's settings",
    "see other command lines",
    "see that it is there",
];

#[tokio::test]
async fn what_is_not_listed_is_out_of_reach() {
    require_whole();
    let open = reached(&quick().into()).await;
    let attempts: BTreeSet<&str> = Field::new().attempts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(open, attempts, "without a sandbox everything is reached");
    let sandbox =
        SandboxSettings { parts: all(), network: SandboxNetwork::Own, ..SandboxSettings::default() };
    let cut_off = enclosed_by(sandbox);
    assert_eq!(reached(&cut_off).await, BTreeSet::new());
}

#[tokio::test]
async fn each_part_stops_what_it_is_for() {
    require_whole();
    let check = async |parts: BTreeSet<SandboxPart>, expected: &[&'static str]| {
        // The network is the machine's here.
        let expected: BTreeSet<&str> = expected.iter().copied().chain(["connect to a port"]).collect();
        assert_eq!(reached(&enclosed(parts.clone())).await, expected, "{parts:?}");
    };
    let without = |part| all().into_iter().filter(|other| *other != part).collect::<BTreeSet<_>>();
    let mut without_mounts = WITHOUT_MOUNTS.to_vec();
    if geteuid().is_root() {
        check(without(SandboxPart::User), &[]).await;
        without_mounts.push("read hashes of passwords");
    }
    check(all(), &[]).await;
    check(without(SandboxPart::Mounts), &without_mounts).await;
    check(without(SandboxPart::Processes), &["see other command lines"]).await;
    check(without(SandboxPart::Proc), &["see other command lines"]).await;
    check(without(SandboxPart::Landlock), &["connect to a socket by its name"]).await;
    check(without(SandboxPart::Seccomp), &["make a namespace"]).await;
    // What is left where namespaces are refused.
    check([SandboxPart::Landlock, SandboxPart::Seccomp].into(), &without_mounts).await;
}

#[tokio::test]
async fn names_that_are_not_there_cannot_be_made_for_good() {
    require_whole();
    // Nothing can be mounted on a name that is not there, or on a link.
    let project = Project::new();
    project.file(".git/HEAD", "");
    project.file("elsewhere/a", "");
    std::os::unix::fs::symlink("elsewhere", project.path(".idea")).unwrap();
    let line = "mkdir .git/hooks .vscode && touch .git/hooks/pre-commit .vscode/tasks.json opencode.json && \
                rm .idea && mkdir .idea && echo done";
    let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
    let renamed = [".git/hooks", ".idea", ".vscode", "opencode.json"].map(|name| {
        let path = project.path(name);
        format!("{0} was renamed to {0}.untrusted", path.display())
    });
    let note = "commands must not make what runs programs or instructs agents. With the tool `write` it can be made, if the \
                person permits it.";
    assert_eq!(output.output, format!("done\n\n({}: {note})", renamed.join(", ")));
    let expected =
        [".git", ".idea", ".idea.untrusted", ".vscode.untrusted", "elsewhere", "opencode.json.untrusted"];
    assert_eq!(names(&project.scope.worktree), expected);
    assert_eq!(names(&project.path(".git")), ["HEAD", "hooks.untrusted"]);
    assert_eq!(fs::read_link(project.path(".idea")).unwrap(), Path::new("elsewhere"));
}

#[tokio::test]
async fn what_leads_to_a_repository_cannot_be_changed() {
    require_whole();
    let project = Project::new();
    project.file(".git", "gitdir: ../elsewhere\n");
    for line in ["echo 'gitdir: here' > .git", "rm .git", "echo x > new && mv new .git"] {
        let output = project.run_with(Vec::new(), &enclosed(all()), command(line)).await.unwrap();
        assert_ne!(output.metadata["exit"], 0, "{line}");
        assert_eq!(project.text(".git"), "gitdir: ../elsewhere\n");
    }
}

#[tokio::test]
async fn nothing_is_changed_in_a_project_that_can_only_be_read() {
    require_whole();
    let field = Field::new();
    let before = tree(&field.project.scope.worktree);
    let mode = SandboxMode::ReadOnly;
    let tool = enclosed_by(SandboxSettings { parts: all(), mode, ..SandboxSettings::default() });
    let line = "cat AGENTS.md; echo x > new; rm AGENTS.md; echo kept > /tmp/x && cat /tmp/x";
    let output = field.project.run_with(Vec::new(), &tool, command(line)).await.unwrap();
    assert!(
        output.output.starts_with("Be good.\n") && output.output.ends_with("kept\n"),
        "{}",
        output.output
    );
    assert_eq!(tree(&field.project.scope.worktree), before);
}

#[tokio::test]
async fn the_root_and_what_says_how_the_machine_works_can_only_be_read() {
    // Landlock keeps both as well, where there is any.
    require_whole();
    let parts = all().into_iter().filter(|part| *part != SandboxPart::Landlock).collect();
    let line = "mkdir /new; awk '$5 ~ \"^/proc/\" { split($6, o, \",\"); print $5, o[1] }' /proc/self/mountinfo | sort";
    let output = Project::new().run_with(Vec::new(), &enclosed(parts), command(line)).await.unwrap();
    let there = ["bus", "irq", "sys", "sysrq-trigger"].map(|name| format!("/proc/{name}"));
    let there = there.iter().filter(|path| Path::new(path).exists());
    let closed: String = there.map(|path| format!("{path} ro\n")).collect();
    let refused = "mkdir: cannot create directory ‘/new’: Read-only file system\n";
    assert_eq!(output.output, format!("{refused}{closed}"));
}
