//! The life of the shared server: who starts it, who ends it, and what happens when something of it is killed.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Postgres, Tls, programs, sql};

const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of its own, so that the server is not the one that other tests share.
fn root() -> TempDir {
    let root = tempfile::Builder::new().prefix("everturn-pg-").tempdir_in("/tmp").unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.path(), everybody).unwrap();
    root
}

fn folder(server: &Postgres) -> &Path {
    server.place.folder.path()
}

fn name(server: &Postgres) -> String {
    server.place.folder.name().to_owned()
}

/// The guards of a server, by their command line.
fn guards(folder: &Path) -> Vec<Pid> {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let parts: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        (parts.first() == Some(&b"sh".as_slice()) && parts.contains(&folder.as_bytes())).then_some(pid)
    });
    found.collect()
}

fn assert_ends(name: &str, folder: &Path) {
    let ended = programs::until(PATIENCE, || programs::members(name).is_empty() && !folder.exists());
    assert!(ended, "waited {PATIENCE:?} for {} to go away", folder.display());
}

#[test]
fn a_shared_server_ends_when_its_last_user_has_gone() {
    let root = root();
    let first = Postgres::shared_in(root.path(), Duration::from_secs(1));
    let second = Postgres::shared_in(root.path(), Duration::from_secs(1));
    let (name, folder) = (name(&first), folder(&first).to_owned());
    assert_eq!(first.pid(), second.pid());
    let database = second.database();
    drop(first);
    drop(second);
    assert!(!programs::until(Duration::from_secs(3), || !folder.exists()), "a database keeps its server");
    drop(database);
    assert_ends(&name, &folder);

    let third = Postgres::shared_in(root.path(), Duration::from_secs(1));
    third.database();
}

#[test]
fn a_dead_shared_server_is_replaced() {
    let root = root();
    let first = Postgres::shared_in(root.path(), Duration::from_secs(1));
    for pid in programs::members(&name(&first)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    assert!(programs::until(PATIENCE, || programs::members(&name(&first)).is_empty()));
    let second = Postgres::shared_in(root.path(), Duration::from_secs(1));
    assert_ne!(name(&first), name(&second));
    second.database();
}

#[test]
fn a_shared_server_that_was_not_finished_is_replaced() {
    let root = root();
    let first = Postgres::shared_in(root.path(), Duration::from_secs(1));
    // As if the first user had been killed before it told the others.
    std::fs::remove_file(root.path().join("server")).unwrap();
    let second = Postgres::shared_in(root.path(), Duration::from_secs(1));
    assert_ne!(name(&first), name(&second));
    assert!(programs::members(&name(&first)).is_empty());
    second.database();
}

#[test]
fn a_dead_guard_is_replaced() {
    let root = root();
    let first = Postgres::shared_in(root.path(), Duration::from_secs(1));
    let (name, folder) = (name(&first), folder(&first).to_owned());
    assert!(programs::until(PATIENCE, || guards(&folder).len() == 1));
    for guard in guards(&folder) {
        kill_process(guard, Signal::KILL).unwrap();
    }
    assert!(programs::until(PATIENCE, || guards(&folder).is_empty()));
    let second = Postgres::shared_in(root.path(), Duration::from_secs(1));
    assert_eq!(first.pid(), second.pid());
    drop(first);
    drop(second);
    assert_ends(&name, &folder);
}

#[test]
fn a_server_of_ones_own_leaves_nothing() {
    let root = root();
    let server = Postgres::start_in(root.path(), Tls::Off);
    let (name, folder) = (name(&server), folder(&server).to_owned());
    assert!(programs::members(&name).len() > 1);
    drop(server);
    assert!(programs::members(&name).is_empty());
    assert!(!folder.exists());
}

#[test]
fn a_server_without_room_is_alive() {
    let root = root();
    let server = Postgres::start_in(root.path(), Tls::Off);
    server.place.sql("ALTER SYSTEM SET max_connections = 4");
    server.restart(super::Shutdown::Fast);
    let url = format!(
        "postgres://{}:{}@{}/postgres?sslmode=disable",
        server.user(),
        server.password(),
        server.address()
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut open = Vec::new();
    let refusal = loop {
        match runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls)) {
            Ok(connected) => open.push(connected),
            Err(cause) => break cause,
        }
        assert!(open.len() < 10);
    };
    assert_eq!(refusal.code(), Some(&tokio_postgres::error::SqlState::TOO_MANY_CONNECTIONS));
    assert!(sql::is_alive(folder(&server), server.port(), PATIENCE));
    server.kill();
    assert!(!sql::is_alive(folder(&server), server.port(), PATIENCE));
}
