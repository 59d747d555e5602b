//! A real PostgreSQL server for tests: a private one, or one that all tests of a run share.
//!
//! A private server ([`Postgres::start`]) can be stopped, killed and started again on its data; that costs about half
//! a second. The shared one ([`Postgres::shared`]) is there for tests that only need a database: whoever comes first
//! starts it, and it ends by itself when it is not used any more. Nothing is left behind even if tests are killed;
//! see `shared_folder`. All calls wait without an executor, so they work inside and outside of one.
//!
//! A server listens on loopback only and asks for a password, which differs from run to run.

mod certificate;
mod cluster;
mod database;
mod programs;
mod shared_folder;
mod sql;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

pub use database::TestDatabase;
use shared_folder::SharedFolder;

/// The superuser.
const USER: &str = "everturn";

/// Where servers listen.
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// How long the shared server waits for another user.
const SHARED_IDLE: Duration = Duration::from_secs(20);

/// Whether connections over the network have to be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tls {
    Off,
    On,
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Transactions are rolled back, clients are told, and everything is written.
    Fast,
    /// Everything ends at once, and the next start recovers from the log, as after a crash.
    Immediate,
}

/// Where a server is. Databases have it too, so that a shared server is kept as long as they are used.
#[derive(Debug)]
struct ServerPlace {
    folder: SharedFolder,
    port: u16,
    password: String,
    tls: Tls,
}

impl ServerPlace {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((HOST, self.port))
    }

    fn sql(&self, statement: &str) -> Vec<String> {
        sql::run(self.folder.path(), self.port, statement, cluster::PATIENCE).unwrap_or_else(|trouble| {
            panic!("{statement}: {trouble:?}\n{}", cluster::read_log(self.folder.path()))
        })
    }
}

/// A server. One of our own ends when dropped; a shared one when nobody has used it for a while.
#[derive(Debug)]
pub struct Postgres {
    place: Arc<ServerPlace>,
    /// The process of a server of our own, while it runs.
    own: Option<Mutex<Option<Child>>>,
}

impl Postgres {
    /// Starts a server for the caller alone.
    ///
    /// # Panics
    ///
    /// When PostgreSQL is not installed or does not start.
    pub fn start() -> Self {
        Self::start_in(&shared_folder::root(), Tls::Off)
    }

    /// Starts a server for the caller alone that takes only encrypted connections over the network, with a certificate
    /// for `localhost` and `127.0.0.1` by the authority in [`Self::ca_file`].
    ///
    /// # Panics
    ///
    /// When PostgreSQL is not installed or does not start.
    pub fn start_with_tls() -> Self {
        Self::start_in(&shared_folder::root(), Tls::On)
    }

    /// The server that all tests of this checkout share, which is started if it does not run.
    ///
    /// # Panics
    ///
    /// When PostgreSQL is not installed or does not start.
    pub fn shared() -> Self {
        Self::shared_in(&shared_folder::root(), SHARED_IDLE)
    }

    fn start_in(root: &Path, tls: Tls) -> Self {
        let folder = SharedFolder::private(root);
        let password = cluster::prepare(root, folder.path(), tls);
        let (child, port) = cluster::launch_somewhere(folder.path());
        Self {
            place: Arc::new(ServerPlace { folder, port, password, tls }),
            own: Some(Mutex::new(Some(child))),
        }
    }

    fn shared_in(root: &Path, idle: Duration) -> Self {
        let sound = |folder: &Path| {
            read_access(folder).is_some_and(|(port, _)| sql::is_alive(folder, port, Duration::from_secs(20)))
        };
        let make = |folder: &Path| {
            let password = cluster::prepare(root, folder, Tls::Off);
            let (child, port) = cluster::launch_somewhere(folder);
            shared_folder::detach(child);
            std::fs::write(access_file(folder), format!("{port} {password}")).expect("port and password");
        };
        let folder = SharedFolder::shared(root, "server", idle, sound, make);
        let (port, password) = read_access(folder.path()).expect("port and password of the shared server");
        Self { place: Arc::new(ServerPlace { folder, port, password, tls: Tls::Off }), own: None }
    }

    /// Makes a new, empty database.
    ///
    /// # Panics
    ///
    /// When the server does not run.
    pub fn database(&self) -> TestDatabase {
        TestDatabase::create(&self.place)
    }

    /// The host it listens on, as in a URL.
    pub fn host(&self) -> String {
        HOST.to_string()
    }

    /// The port it listens on. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.place.port
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.place.address()
    }

    /// The superuser.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// The superuser's password.
    pub fn password(&self) -> &str {
        &self.place.password
    }

    /// The certificate of the authority, as PEM, if the server has TLS.
    pub fn ca_file(&self) -> Option<PathBuf> {
        (self.place.tls == Tls::On).then(|| certificate::authority(self.place.folder.path()))
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        cluster::read_log(self.place.folder.path())
    }

    /// The id of its main process, which all others are children of.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn pid(&self) -> i32 {
        if self.own.is_some() {
            let process = self.process();
            let child = process.as_ref().expect("the server runs");
            return cluster::pid(child).as_raw_nonzero().get();
        }
        let file = self.place.folder.path().join("data/postmaster.pid");
        let pid = std::fs::read_to_string(file).ok().and_then(|text| text.lines().next()?.parse().ok());
        pid.expect("the server runs")
    }

    /// Breaks all connections to a database, waits until the server has let go of them and returns how many there were.
    ///
    /// # Panics
    ///
    /// When the server does not run.
    pub fn terminate_backends(&self, database: &str) -> usize {
        // In two steps: within one condition the server might end connections before it has looked whose they are.
        let ended = self.place.sql(&format!(
            "WITH found AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE datname = '{database}' \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()) \
             SELECT pid FROM found WHERE pg_terminate_backend(pid)"
        ));
        if !ended.is_empty() {
            let left = format!("SELECT pid FROM pg_stat_activity WHERE pid IN ({})", ended.join(", "));
            let gone = programs::until(cluster::PATIENCE, || self.place.sql(&left).is_empty());
            assert!(gone, "waited {:?} for connections to {database} to end", cluster::PATIENCE);
        }
        ended.len()
    }

    /// Stops it as with [`Shutdown::Fast`].
    ///
    /// # Panics
    ///
    /// When it is shared or does not run.
    pub fn stop(&self) {
        self.shut_down(&mut self.process(), Shutdown::Fast);
    }

    /// Starts it on its data and its port after [`Self::stop`] or [`Self::kill`].
    ///
    /// # Panics
    ///
    /// When it is shared, runs already or does not start.
    pub fn start_again(&self) {
        self.launch(&mut self.process());
    }

    /// Stops it and starts it again.
    ///
    /// # Panics
    ///
    /// When it is shared, does not run or does not start.
    pub fn restart(&self, how: Shutdown) {
        let mut process = self.process();
        self.shut_down(&mut process, how);
        self.launch(&mut process);
    }

    /// Kills all its processes with `SIGKILL` and waits until they are gone.
    ///
    /// # Panics
    ///
    /// When it is shared or does not run.
    pub fn kill(&self) {
        let mut child = self.process().take().expect("the server runs");
        assert!(cluster::kill(&mut child, self.place.folder.name()), "the killed server did not end");
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        let own = self.own.as_ref().expect("a server of one's own: the shared one is in use by other tests");
        own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shut_down(&self, process: &mut Option<Child>, how: Shutdown) {
        let mut child = process.take().expect("the server runs");
        let signal = match how {
            Shutdown::Fast => Signal::INT,
            Shutdown::Immediate => Signal::QUIT,
        };
        if !cluster::end(&mut child, signal, cluster::PATIENCE) {
            cluster::kill(&mut child, self.place.folder.name());
            panic!("the server did not stop:\n{}", self.log());
        }
    }

    fn launch(&self, process: &mut Option<Child>) {
        assert!(process.is_none(), "the server runs already");
        *process = Some(cluster::launch_again(self.place.folder.path(), self.place.port));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(own) = &mut self.own else { return };
        if let Some(mut child) = own.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // Not a kill at first: that would leave its shared memory behind.
            if !cluster::end(&mut child, Signal::QUIT, Duration::from_secs(10)) {
                cluster::kill(&mut child, self.place.folder.name());
            }
        }
    }
}

fn access_file(folder: &Path) -> PathBuf {
    folder.join("access")
}

fn read_access(folder: &Path) -> Option<(u16, String)> {
    let text = std::fs::read_to_string(access_file(folder)).ok()?;
    let (port, password) = text.split_once(' ')?;
    Some((port.parse().ok()?, password.to_owned()))
}
