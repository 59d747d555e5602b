//! The files of a server and its start.
//!
//! `initdb` costs most of a second, so its result is kept for a while and copied. What makes writes durable is left on:
//! the tests are about that.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::programs::{self, Account};
use super::shared_folder::SharedFolder;
use super::{HOST, Tls, USER, certificate};

/// How long starting and stopping may take on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How long the result of `initdb` is kept after its last use.
const TEMPLATE_IDLE: Duration = Duration::from_secs(60);

/// Why a server did not start.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// Something else has its port.
    Port,
    /// Anything else, with the server's log.
    Other(String),
}

/// Fills the folder of a new server and returns its password.
pub(super) fn prepare(root: &Path, folder: &Path, tls: Tls) -> String {
    let account = Account::needed();
    if let Some(account) = account {
        account.own(folder);
    }
    let template = SharedFolder::shared(root, "template", TEMPLATE_IDLE, is_complete, init);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(template.path().join("data")).arg(folder);
    programs::run(copy, "copying a new database", PATIENCE);
    let password = std::fs::read_to_string(password_file(template.path())).expect("the password");

    let name = folder.file_name().and_then(|name| name.to_str()).expect("the name of a folder");
    let socket = folder.to_str().expect("a Unicode path");
    let mut settings = format!(
        "\n\
         listen_addresses = '{HOST}'\n\
         unix_socket_directories = '{socket}'\n\
         cluster_name = '{name}'\n\
         fsync = on\n\
         synchronous_commit = on\n\
         full_page_writes = on\n\
         shared_buffers = 16MB\n\
         max_connections = 200\n\
         # In the folder, so that nothing stays in /dev/shm after a kill.\n\
         dynamic_shared_memory_type = mmap\n\
         logging_collector = off\n\
         log_line_prefix = '%m [%p] %q%d '\n"
    );
    let network = match tls {
        Tls::Off => "host",
        Tls::On => {
            certificate::write(folder, account);
            settings.push_str(&format!(
                "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
                certificate::certificate(folder).display(),
                certificate::key(folder).display(),
            ));
            "hostssl"
        }
    };
    let data = folder.join("data");
    let file = OpenOptions::new().append(true).open(data.join("postgresql.conf"));
    file.and_then(|mut file| file.write_all(settings.as_bytes())).expect("the server's settings");
    // The socket is in a folder that only we and the server can enter.
    let access = format!("local all all trust\n{network} all all {HOST}/32 scram-sha-256\n");
    std::fs::write(data.join("pg_hba.conf"), access).expect("the server's access rules");
    password
}

fn is_complete(template: &Path) -> bool {
    template.join("data/global/pg_control").is_file() && password_file(template).is_file()
}

fn password_file(template: &Path) -> PathBuf {
    template.join("password")
}

/// Makes the files that all servers begin with.
fn init(template: &Path) {
    let account = Account::needed();
    let password = password_file(template);
    std::fs::write(&password, programs::random()).expect("the file of the password");
    if let Some(account) = account {
        account.own(template);
        account.own(&password);
    }
    let mut command = programs::command(&programs::folder().join("initdb"), account, template);
    command.arg("-D").arg(template.join("data")).arg("--pwfile").arg(&password);
    command.args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]);
    command.args(["--no-sync", "--no-instructions"]);
    programs::run(command, "initdb", PATIENCE);
}

/// A port that is free now. It is below those the system gives to outgoing connections: a client that keeps trying to
/// reach a stopped server there could be connected to itself, and the server could not come back.
fn free_port() -> u16 {
    let free = std::iter::repeat_with(|| {
        let chance = u64::from_str_radix(&programs::random(), 16).expect("hexadecimal digits");
        u16::try_from(15_000 + chance % 17_000).expect("a port number")
    });
    let mut free = free.take(1000).filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.next().expect("a free port")
}

/// Starts a server on a free port.
pub(super) fn launch_somewhere(folder: &Path) -> (Child, u16) {
    for _ in 0..20 {
        let port = free_port();
        match launch(folder, port) {
            Ok(child) => return (child, port),
            Err(StartFailure::Port) => {}
            Err(StartFailure::Other(text)) => panic!("{text}"),
        }
    }
    panic!("no port is free for long enough to start PostgreSQL")
}

/// Starts a server on the port it had before.
pub(super) fn launch_again(folder: &Path, port: u16) -> Child {
    let mut result = Err(StartFailure::Port);
    programs::until(PATIENCE, || {
        result = launch(folder, port);
        !matches!(result, Err(StartFailure::Port))
    });
    match result {
        Ok(child) => child,
        Err(StartFailure::Port) => panic!("waited {PATIENCE:?} for port {port}, which something else uses"),
        Err(StartFailure::Other(text)) => panic!("{text}"),
    }
}

fn launch(folder: &Path, port: u16) -> Result<Child, StartFailure> {
    let log = log_file(folder);
    let before = read_log(folder).len();
    let output = OpenOptions::new().create(true).append(true).open(&log).expect("the server's log");
    let copy = output.try_clone().expect("a copy of a file handle");
    let program = programs::folder().join("postgres");
    let mut command = programs::command(&program, Account::needed(), folder);
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]).stdout(output).stderr(copy);
    let spawned = command.spawn();
    let mut child =
        spawned.unwrap_or_else(|cause| panic!("{} cannot be started: {cause}", program.display()));
    let mut ended = false;
    let settled = programs::until(PATIENCE, || {
        ended = !matches!(child.try_wait(), Ok(None));
        ended || is_ready(folder, child.id())
    });
    if settled && !ended {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = read_log(folder).get(before..).unwrap_or_default().to_owned();
    if text.contains("Address already in use") {
        return Err(StartFailure::Port);
    }
    Err(StartFailure::Other(format!("PostgreSQL did not get ready:\n{text}")))
}

/// Whether the process `pid` has written that it takes connections.
fn is_ready(folder: &Path, pid: u32) -> bool {
    let status = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let mut lines = status.lines();
    lines.next() == Some(pid.to_string().as_str())
        && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

/// What the server has logged so far.
pub(super) fn read_log(folder: &Path) -> String {
    let bytes = std::fs::read(log_file(folder)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("log")
}

/// Sends a signal that ends the server and waits until it has ended, which it does after all its processes.
pub(super) fn end(child: &mut Child, signal: Signal, patience: Duration) -> bool {
    // One that has ended by itself is what we want.
    let _ = kill_process(pid(child), signal);
    programs::until(patience, || !matches!(child.try_wait(), Ok(None)))
}

/// Kills all processes of a server at once, as a power cut would.
pub(super) fn kill(child: &mut Child, name: &str) -> bool {
    // One that is stopped cannot start another while the others are looked for.
    let _ = kill_process(pid(child), Signal::STOP);
    let mut others = programs::members(name);
    others.retain(|other| *other != pid(child));
    let _ = child.kill();
    for other in others {
        let _ = kill_process(other, Signal::KILL);
    }
    let _ = child.wait();
    programs::kill_members(name, PATIENCE)
}

/// The id of a child's process.
pub(super) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
