//! Who is at the other end of a connection: programs of an agent are told from everybody else, whatever they do to hide.

use std::fs;
use std::net::SocketAddr;

use everturn_tools::bash::BashTool;
use everturn_tools::peer::{self, PeerProcess};
use everturn_tools::pty::{NewPty, Ptys};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::bash::{PATIENCE, command, quick};
use crate::harness::Project;
use crate::sandbox::{all, as_ordinary_user, enclosed};

/// Connects, in one of several ways, and waits until the other side has had enough.
const PROGRAM: &str = r#"
import ctypes, os, socket, struct, sys, threading

port, how = int(sys.argv[1]), sys.argv[2]

def connect():
    line = socket.create_connection(("127.0.0.1", port))
    line.sendall(b"hello")
    return line

def wait(line):
    while line.recv(100):
        pass

def work():
    line = connect()
    if how == "hand over" and os.fork():
        os._exit(0)
    if how == "leave":
        os._exit(0)
    if how == "reset":
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.close()
        os._exit(0)
    wait(line)

if how == "daemon":
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
if how == "hide":
    # Whoever is no root cannot look at its files then.
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
if how == "thread":
    def apart():
        # A table of open files of its own.
        assert ctypes.CDLL(None).unshare(0x400) == 0
        work()
    thread = threading.Thread(target=apart)
    thread.start()
    thread.join()
else:
    work()
"#;

/// Ways to connect, each with the line that goes it.
fn lines(port: u16) -> Vec<String> {
    let mut lines: Vec<String> = ["plain", "hand over", "daemon", "thread", "leave", "reset", "hide"]
        .map(|how| format!("python3 connect.py {port} '{how}'"))
        .into();
    lines.push(format!("env -i PATH=\"$PATH\" setsid python3 connect.py {port} daemon"));
    lines.push(format!("exec 3<>/dev/tcp/127.0.0.1/{port}; (sleep 1000 &); exec 3<&-"));
    lines
}

/// A project with the program, and a place to connect to.
async fn scene() -> (Project, TcpListener, u16) {
    let project = Project::new();
    project.file("connect.py", PROGRAM);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (project, listener, port)
}

/// What is found out about the next connection.
async fn judge(listener: &TcpListener) -> (PeerProcess, PeerProcess) {
    let (stream, peer) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let local = stream.local_addr().unwrap();
    let judged = tokio::task::spawn_blocking(move || both(peer, local)).await.unwrap();
    drop(stream);
    judged
}

/// Who has made it, and who may decide.
fn both(peer: SocketAddr, local: SocketAddr) -> (PeerProcess, PeerProcess) {
    (peer::caller(peer, local), peer::find(Some(peer)))
}

/// The line, and then a wait until it was judged.
fn held(line: &str) -> Value {
    command(&format!("{line}\nuntil [ -e judged ]; do sleep 0.02; done"))
}

#[tokio::test]
async fn a_program_of_an_agent_is_known_however_it_connects() {
    let check = async |tool: &BashTool, background: bool, enclosed: bool| {
        for at in 0..lines(0).len() {
            let (project, listener, port) = scene().await;
            let line = lines(port).swap_remove(at);
            // The sandbox gives no thread files of its own.
            if enclosed && line.contains("'thread'") {
                continue;
            }
            let mut input = held(&line);
            input["background"] = json!(background);
            let judging = async {
                let judged = judge(&listener).await;
                fs::write(project.path("judged"), "").unwrap();
                judged
            };
            let (ran, (caller, found)) = tokio::join!(project.run(tool, input), judging);
            ran.unwrap();
            let leaves = line.contains("'leave'") || line.contains("'reset'");
            let may_be_gone = leaves && caller == PeerProcess::Gone;
            assert!(caller == PeerProcess::Agent || may_be_gone, "{line}: {caller:?}");
            assert_ne!(found, PeerProcess::Person, "{line}");
        }
    };
    check(&quick(), false, false).await;
    check(&quick(), true, false).await;
    check(&enclosed(all()), false, true).await;
}

/// Kills what watches over it, and keeps the connection that it has inherited.
const KEEPER: &str = "kill -9 $SUPERVISOR\nsleep 1000\ntrue\n";

/// The same with a terminal of its own.
const TERMINAL_KEEPER: &str = r#"
import fcntl, os, termios, time

ours, theirs = os.openpty()
fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
os.kill(int(os.environ["SUPERVISOR"]), 9)
time.sleep(1000)
"#;

#[tokio::test]
async fn a_program_that_kills_its_supervisor_is_no_person() {
    // Until it was stopped as well, it was one; and one that looked like a supervisor, or had a terminal, was never stopped.
    let keeper = |line: &str| {
        format!("setsid env -i PATH=\"$PATH\" HOME=\"$HOME\" SUPERVISOR=$PPID {line} & exec sleep 1000")
    };
    for (times, line) in [
        (20, "kill -9 $PPID; sleep 1000".to_owned()),
        (3, keeper("bash __supervisor")),
        (3, keeper("bash -c 'exec -a everturn bash __supervisor'")),
        (3, keeper("python3 terminal.py")),
    ] {
        for _ in 0..times {
            let (project, listener, port) = scene().await;
            project.file("__supervisor", KEEPER);
            project.file("terminal.py", TERMINAL_KEEPER);
            let tool = quick();
            let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; {line}");
            let judging = async {
                let (stream, peer) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
                let local = stream.local_addr().unwrap();
                let follow = move || loop {
                    match peer::caller(peer, local) {
                        PeerProcess::Agent => {}
                        found => return found,
                    }
                };
                timeout(PATIENCE, tokio::task::spawn_blocking(follow)).await.unwrap().unwrap()
            };
            let (ran, found) = tokio::join!(project.run(&tool, command(&line)), judging);
            ran.unwrap();
            assert_eq!(found, PeerProcess::Gone, "{line}");
        }
    }
}

/// Sends a connection to itself, so that no process has it, and takes it out when it was judged.
const FLIER: &str = r#"
import os, socket, sys, time

line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
here, there = socket.socketpair(socket.AF_UNIX)
socket.send_fds(here, [b"x"], [line.fileno()])
line.close()
open("flies", "w").close()
while not os.path.exists("judged"):
    time.sleep(0.02)
_, files, _, _ = socket.recv_fds(there, 1, 1)
socket.socket(fileno=files[0]).sendall(b"hello")
"#;

#[tokio::test]
async fn a_connection_that_no_process_has_is_no_persons() {
    // No program of the agent was seen with it, so it was a person's; and what came out of it later was obeyed.
    let (project, listener, port) = scene().await;
    project.file("fly.py", FLIER);
    let tool = quick();
    let judging = async {
        let (stream, peer) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        while !project.path("flies").exists() {
            tokio::task::yield_now().await;
        }
        let local = stream.local_addr().unwrap();
        let judged = tokio::task::spawn_blocking(move || both(peer, local)).await.unwrap();
        fs::write(project.path("judged"), "").unwrap();
        judged
    };
    let line = format!("python3 fly.py {port}");
    let (ran, judged) = tokio::join!(project.run(&tool, command(&line)), judging);
    assert_eq!(ran.unwrap().metadata["exit"], 0);
    assert_eq!(judged, (PeerProcess::Agent, PeerProcess::Gone));
}

#[tokio::test]
async fn many_are_told_apart_at_once() {
    let (project, listener, port) = scene().await;
    let tool = quick();
    let local = listener.local_addr().unwrap();
    let line = held(&format!("python3 connect.py {port} plain"));
    let judging = async {
        let (theirs, agent) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let ours = TcpStream::connect(local).await.unwrap();
        let (kept, person) = listener.accept().await.unwrap();
        drop(TcpStream::connect(local).await.unwrap());
        let (left, gone) = listener.accept().await.unwrap();
        let ends = [agent, person, gone].map(|peer| (peer, local));
        let judged = tokio::task::spawn_blocking(move || peer::callers(&ends)).await.unwrap();
        fs::write(project.path("judged"), "").unwrap();
        drop((theirs, ours, kept, left));
        judged
    };
    let (ran, judged) = tokio::join!(project.run(&tool, line), judging);
    ran.unwrap();
    assert_eq!(judged, [PeerProcess::Agent, PeerProcess::Person, PeerProcess::Gone]);
}

#[tokio::test]
async fn a_person_is_let_in_beside_programs_of_an_agent() {
    let (project, listener, _) = scene().await;
    let tool = quick();
    let job = json!({"command": "sleep 1000", "description": "a job", "background": true});
    project.run(&tool, job).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(judge(&listener).await, (PeerProcess::Person, PeerProcess::Person));
    drop(stream);
    // So is another program of theirs.
    let mut program = tokio::process::Command::new("python3");
    let file = project.path("connect.py");
    let port = address.port().to_string();
    let mut child = program.arg(file).args([port.as_str(), "plain"]).kill_on_drop(true).spawn().unwrap();
    assert_eq!(judge(&listener).await.0, PeerProcess::Person);
    timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_program_in_a_terminal_may_connect_and_not_decide() {
    let (project, listener, port) = scene().await;
    let tool = quick();
    let job = json!({"command": "sleep 1000", "description": "a job", "background": true});
    project.run(&tool, job).await.unwrap();
    let ptys = Ptys::new(tool.launcher.clone());
    let line = format!("python3 connect.py {port} plain");
    let program = NewPty {
        command: "bash".to_owned(),
        args: ["-c".to_owned(), line].into(),
        cwd: project.scope.directory.clone(),
        ..NewPty::default()
    };
    ptys.create("pty_1".to_owned(), program).await.unwrap();
    assert_eq!(judge(&listener).await, (PeerProcess::Person, PeerProcess::Agent));
    ptys.close("pty_1").await.unwrap();
}

#[test]
fn it_is_the_same_for_an_ordinary_user() {
    as_ordinary_user(&[
        "peer::a_person_is_let_in_beside_programs_of_an_agent",
        "peer::a_program_in_a_terminal_may_connect_and_not_decide",
        "peer::a_connection_that_no_process_has_is_no_persons",
        "peer::a_program_of_an_agent_is_known_however_it_connects",
        "peer::a_program_that_kills_its_supervisor_is_no_person",
    ]);
}
