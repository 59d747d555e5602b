//! `everturn serve`: the HTTP server.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use everturn_api::{Auth, Hosts};
use everturn_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::settings::{self, Listeners};
use crate::table;

/// How often unfinished sessions are looked for.
const SWEEP: Duration = Duration::from_secs(15);

/// How often old tool output is removed.
const TIDY: Duration = Duration::from_secs(60 * 60);

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
}

impl ServeCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<()> {
        let engine = settings::open(&settings::working_folder()?, Listeners::Some).await?;
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
        table::line(format!("everturn server listening on http://{bound}"));
        table::note(format!("user `opencode`, password {place}"));
        if waiting > 0 {
            table::note(format!("continuing {waiting} sessions that were at work"));
        }
        let sweeping = sweep(engine.clone(), closing.clone());
        let tidying = tokio::spawn(tidy(engine.clone()));
        let stop = async move {
            interrupted().await;
            closing.cancel();
        };
        let sweeping = tokio::spawn(sweeping);
        everturn_api::serve(listener, router, stop).await?;
        sweeping.abort();
        tidying.abort();
        engine.close().await;
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

async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    tokio::signal::ctrl_c().await.ok();
}
