//! `everturn serve`: the HTTP server.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use everturn_api::{Auth, ConnectionLimits, Hosts};
use everturn_engine::Engine;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::trust;
use crate::settings::{self, Listeners};
use crate::table;

/// How often unfinished sessions are looked for.
const SWEEP: Duration = Duration::from_secs(15);

/// How often old tool output is removed.
const TIDY: Duration = Duration::from_secs(60 * 60);

/// How often the trash is looked through, where the configuration says how long it is kept.
const EMPTY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the end of the server waits for the work to stop, and then for whatever hangs. What is lost by that is what a
/// crash would lose: the next start goes on with it.
const CLOSE: Duration = Duration::from_secs(15);
const LAST: Duration = Duration::from_secs(1);

/// Serve clients over HTTP
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    hostname: String,
    /// The port; 0 takes a free one
    #[arg(long, default_value_t = 4096)]
    port: u16,
    /// Another name under which clients may address the server, with its port
    #[arg(long = "allow-host", value_name = "HOST:PORT")]
    allow_hosts: Vec<String>,
    /// A web page that may speak to the server, by its origin: scheme, name and port
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allow_origins: Vec<String>,
    /// Trust what the configuration of the project in this folder asks for, as `everturn trust --yes` does
    #[arg(long)]
    trust: bool,
}

impl ServeCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(self.serve());
        // Whatever still waits, such as a read on a file system that does not answer, does not keep the process.
        runtime.shutdown_timeout(LAST);
        served
    }

    async fn serve(self) -> Result<()> {
        let folder = settings::working_folder()?;
        if self.trust {
            trust::grant_all(&folder)?;
        }
        let engine = settings::open(&folder, Listeners::Some).await?;
        let lifetime = engine.configurations().at(&folder).await.trash_lifetime();
        let name = if self.hostname == "localhost" { "127.0.0.1" } else { &self.hostname };
        let address: IpAddr = name.parse().with_context(|| format!("{name} is no address to listen on"))?;
        let listener = TcpListener::bind(SocketAddr::new(address, self.port))
            .await
            .with_context(|| format!("cannot listen on {name}:{}; choose another --port", self.port))?;
        let bound = listener.local_addr()?;
        let mut hosts = Hosts::of(bound);
        for host in &self.allow_hosts {
            hosts = hosts.with_host(host);
        }
        for origin in &self.allow_origins {
            hosts = hosts.with_origin(origin);
        }
        let (token, place) = settings::token(&engine.paths().data)?;
        let options = everturn_api::Options::new(Auth::new(token), hosts);
        let closing = options.closing.clone();
        let router = everturn_api::router(engine.clone(), options);
        let waiting = engine.recover().await?;
        // Before anybody is told that the server is there: whoever reads that line may stop it at once.
        let interrupt = Interrupt::listen()?;
        table::line(format!("everturn server listening on http://{bound}"));
        table::note(format!("user `opencode`, password {place}"));
        if waiting > 0 {
            let waiting = table::counted(waiting, "session that was", "sessions that were");
            table::note(format!("continuing {waiting} at work"));
        }
        let sweeping = sweep(engine.clone(), closing.clone());
        let tidying = tokio::spawn(tidy(engine.clone()));
        let emptying = lifetime.map(|lifetime| tokio::spawn(empty_trash(engine.clone(), lifetime)));
        let stop = async move {
            interrupt.received().await;
            closing.cancel();
        };
        let sweeping = tokio::spawn(sweeping);
        everturn_api::serve(listener, router, ConnectionLimits::default(), stop).await;
        sweeping.abort();
        tidying.abort();
        if let Some(emptying) = emptying {
            emptying.abort();
        }
        if tokio::time::timeout(CLOSE, engine.close()).await.is_err() {
            tracing::warn!("some of the work did not stop in time; the next start goes on with it");
        }
        Ok(())
    }
}

/// Looks now and then for sessions that another process left with work to do.
async fn sweep(engine: Engine, closing: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            () = closing.cancelled() => return,
        }
        if let Err(error) = engine.adopt().await {
            tracing::warn!(error = error.to_string(), "cannot look for unfinished sessions");
        }
    }
}

/// Removes old tool output, now and then once an hour.
async fn tidy(engine: Engine) {
    loop {
        settings::remove_old_output(&engine).await;
        tokio::time::sleep(TIDY).await;
    }
}

/// Deletes for good what was in the trash for as long as it is kept, now and once a day.
async fn empty_trash(engine: Engine, lifetime: Duration) {
    loop {
        match engine.trash().sweep(lifetime).await {
            Ok(swept) if swept.purged.is_empty() => {}
            Ok(swept) => tracing::info!(sessions = swept.purged.len(), "old sessions in the trash are gone"),
            Err(error) => tracing::warn!(error = error.to_string(), "the trash was not emptied"),
        }
        tokio::time::sleep(EMPTY).await;
    }
}

/// The signals that end the server in good order. They are caught from the moment this exists.
struct Interrupt {
    terminate: Signal,
    interrupt: Signal,
}

impl Interrupt {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn received(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
