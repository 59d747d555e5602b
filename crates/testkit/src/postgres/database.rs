//! A database of its own for each test, on a server that may be shared.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{ServerPlace, Tls, USER, cluster, programs, sql};

/// A new, empty database. It is removed when dropped, if the server then runs.
#[derive(Debug)]
pub struct TestDatabase {
    place: Arc<ServerPlace>,
    name: String,
}

impl TestDatabase {
    pub(super) fn create(place: &Arc<ServerPlace>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}_{}", std::process::id(), programs::random());
        // Nobody can be connected to template0, which would get in the way of copying it.
        place.sql(&format!("CREATE DATABASE {name} TEMPLATE template0"));
        Self { place: Arc::clone(place), name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to reach it. `sslmode` is `require` if the server wants TLS, else `disable`.
    pub fn url(&self) -> String {
        self.url_at(self.place.address())
    }

    /// How to reach it through something else that listens at `address`, such as a [`crate::Proxy`].
    pub fn url_at(&self, address: SocketAddr) -> String {
        let mode = match self.place.tls {
            Tls::Off => "disable",
            Tls::On => "require",
        };
        self.url_with(address, &[("sslmode", mode)])
    }

    /// How to reach it at `address` with these parameters and no others. Their values have to fit into a URL as they
    /// are.
    pub fn url_with(&self, address: SocketAddr, parameters: &[(&str, &str)]) -> String {
        let mut url = format!("postgres://{USER}:{}@{address}/{}", self.place.password, self.name);
        for (index, (name, value)) in parameters.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(url, "{mark}{name}={value}").expect("text grows");
        }
        url
    }

    /// Runs the script that `pg_dump` wrote into the file `dump`.
    ///
    /// # Panics
    ///
    /// When `psql` is not installed, or a statement fails.
    pub fn restore(&self, dump: &Path) {
        let folder = self.place.folder.path();
        let mut psql = programs::command(&programs::psql(), None, folder);
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", &self.name]);
        psql.arg("-h").arg(folder).args(["-p", &self.place.port.to_string()]).arg("-f").arg(dump);
        programs::run(psql, &format!("psql with {}", dump.display()), cluster::PATIENCE);
    }

    /// The settings of [`Self::url`] as the client library has them.
    ///
    /// # Panics
    ///
    /// Never: the URL is our own.
    pub fn config(&self) -> tokio_postgres::Config {
        self.url().parse().expect("a URL of our own")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // If the server is down, its folder is going away, or the database stays until it does.
        let _ = sql::run(self.place.folder.path(), self.place.port, &statement, Duration::from_secs(10));
    }
}
