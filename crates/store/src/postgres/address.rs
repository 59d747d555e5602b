//! Where the server is, and how a connection to it is made.
//!
//! The address holds the password: nothing here prints it, and errors name host and port only.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Connect};
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::encryption::Encryption;
use super::failure::{ServerFailure, refusal};
use super::tls::{EncryptedSocket, TlsClient};
use crate::Error;
use crate::options::{Durability, Options, PostgresServer};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// After how long a silent connection is checked, how often, and when it counts as gone.
const QUIET: Duration = Duration::from_secs(30);
const CHECK: Duration = Duration::from_secs(10);
const CHECKS: u32 = 3;

/// The port of a server that names none.
const PORT: u16 = 5432;

/// A connection that is not yet driven.
pub(super) type Wire = Connection<Socket, EncryptedSocket>;

/// A server, and what each connection to it is told first.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: TlsClient,
    settings: Arc<str>,
    /// Host and port.
    name: Arc<str>,
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Address").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Address {
    pub(super) fn new(server: &PostgresServer, options: &Options) -> Result<Self, Error> {
        let (url, encryption) = Encryption::take(&server.url)?;
        let mut config = parse(&url)?;
        config.ssl_mode(encryption.mode);
        let name = name(&config).ok_or_else(|| Error::Address("it names no host".to_owned()))?;
        if name.contains('@') {
            // The rest of a password would be taken for the host, and shown.
            return Err(Error::Address("an @ in the password has to be written as %40".to_owned()));
        }
        if config.get_application_name().is_none() {
            config.application_name("everturn");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives(true).keepalives_idle(QUIET).keepalives_interval(CHECK).keepalives_retries(CHECKS);
        config.tcp_user_timeout(QUIET + CHECK * CHECKS);
        let tls = TlsClient::new(encryption.client()?);
        Ok(Self { config, tls, settings: settings(options).into(), name: name.into() })
    }

    /// Host and port.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Server and database, for people.
    pub(super) fn place(&self) -> String {
        let user = self.config.get_user().map_or(String::new(), |user| format!("{user}@"));
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("postgres://{user}{}/{database}", self.name)
    }

    /// A connection of whose messages the caller takes care. It has to be driven for the settings to be made.
    pub(super) async fn wire(&self) -> Result<(Client, Wire), ServerFailure> {
        self.config.connect(self.tls.clone()).await.map_err(|error| refusal(&error, &self.name))
    }

    /// What each connection has to be told first.
    pub(super) fn settings(&self) -> &str {
        &self.settings
    }

    /// A connection that is ready for use and ends when it is dropped.
    pub(super) async fn client(&self) -> Result<ClientWrapper, ServerFailure> {
        let (client, driver) = self.driven().await.map_err(|error| refusal(&error, &self.name))?;
        Ok(ClientWrapper::new(client, driver))
    }

    async fn driven(&self) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = error.to_string(), "a connection to the database server ended");
            }
        });
        // A client that is dropped on the way ends the task too.
        client.batch_execute(&self.settings).await?;
        Ok((client, driver))
    }
}

impl Connect for Address {
    fn connect(&self, _config: &Config) -> Pin<Box<dyn Future<Output = ConnectResult> + Send + '_>> {
        Box::pin(self.driven())
    }
}

/// What the pool expects of a connection.
type ConnectResult = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;

/// The configuration in an address. Its parser's errors can hold pieces of a password, so they are not passed on.
fn parse(url: &str) -> Result<Config, Error> {
    Config::from_str(url).map_err(|error| {
        let known = ["port", "connect_timeout", "channel_binding", "target_session_attrs"];
        let text = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let option = known.iter().find(|option| text == format!("invalid value for option `{option}`"));
        Error::Address(match option {
            Some(option) => format!("its {option} cannot be understood"),
            None => "it cannot be understood".to_owned(),
        })
    })
}

fn name(config: &Config) -> Option<String> {
    let port = config.get_ports().first().copied().unwrap_or(PORT);
    let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(host)), _) => host.clone(),
        (Some(Host::Unix(folder)), _) => folder.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => return None,
    };
    Some(format!("{host}:{port}"))
}

/// What each connection is told first.
fn settings(options: &Options) -> String {
    let mut settings = String::from(
        // Every access here has an index that is made for it; plans by guesses on young tables only lose.
        "SET search_path = everturn;
         SET client_min_messages = warning;
         SET default_transaction_isolation = 'read committed';
         SET statement_timeout = 0;
         SET lock_timeout = '5s';
         SET jit = off;
         SET enable_seqscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET enable_sort = off;",
    );
    // A process that is stopped in a transaction must not keep those out that take its sessions over.
    let patience = options.timing.patience.as_millis().max(1);
    settings.push_str(&format!("SET idle_in_transaction_session_timeout = {patience};"));
    settings.push_str(match options.durability {
        // What is more than this is left as it is.
        Durability::Full => {
            "SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local');"
        }
        Durability::Process => "SET synchronous_commit = off;",
    });
    settings
}
