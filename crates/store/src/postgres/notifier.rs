//! Notifies other processes and listens to them, over one connection that nothing else uses.
//!
//! - It lives: its row is kept up to date, by the server's clock.
//! - It has committed: a notice, at most a few times a second and never in the transaction of an append, because
//!   notices are committed one after the other in the whole server.
//! - Others have committed: their notices wake those who follow. Where this fails, they look by themselves.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::address::{Address, Wire};
use super::failure::ServerFailure;
use super::lease::ThisProcess;
use super::pause::Pause;
use crate::options::Timing;
use crate::watch::Wakes;

/// The least time between two notices.
const NOTICES: Duration = Duration::from_millis(20);

/// How long anything here may take before the connection counts as gone.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the last word of a process may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the notifier works with.
pub(super) struct Notifier {
    address: Address,
    wakes: Arc<Wakes>,
    /// The name of this process and where it runs; none when it may only read.
    me: Option<(String, String)>,
    timing: Timing,
}

/// A connection that listens.
struct ListeningConnection {
    client: Client,
    /// Ends with the connection.
    driver: JoinHandle<()>,
}

impl Drop for ListeningConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Notifier {
    pub(super) fn new(address: Address, wakes: Arc<Wakes>, me: Option<&ThisProcess>, timing: Timing) -> Self {
        let me = me.map(|me| (me.owner.name().to_owned(), me.boot.clone()));
        Self { address, wakes, me, timing }
    }

    /// Makes this process known, and goes on until all senders of pokes are gone.
    pub(super) async fn start(self, pokes: watch::Receiver<u64>) -> Result<(), ServerFailure> {
        let line = self.connect().await?;
        tokio::spawn(self.run(line, pokes));
        Ok(())
    }

    async fn run(self, first: ListeningConnection, mut pokes: watch::Receiver<u64>) {
        let mut next = Some(first);
        let mut pause = Pause::default();
        loop {
            if let Some(mut line) = next.take() {
                if self.serve(&mut line, &mut pokes).await.is_ok() {
                    return;
                }
                pause = Pause::default();
            }
            // A process that ends has no use for a new line; whether it does is all that matters of the pokes now.
            tokio::select! {
                () = pause.wait() => {}
                () = gone(&mut pokes) => return,
            }
            match self.connect().await {
                Ok(line) => {
                    // Something may have been missed.
                    self.wakes.note_outside();
                    next = Some(line);
                }
                Err(failure) => {
                    let reason = failure.into_error(self.address.name()).to_string();
                    tracing::debug!(reason, "notices of other processes are missed");
                }
            }
        }
    }

    async fn connect(&self) -> Result<ListeningConnection, ServerFailure> {
        let make = async {
            let (client, wire) = self.address.wire().await?;
            let number = Arc::new(AtomicI32::new(0));
            let driver = tokio::spawn(drive(wire, Arc::clone(&self.wakes), Arc::clone(&number)));
            let line = ListeningConnection { client, driver };
            line.client.batch_execute(self.address.settings()).await?;
            let own = line.client.query_one("SELECT pg_backend_pid()", &[]).await?;
            number.store(own.try_get(0)?, Ordering::Relaxed);
            line.client.batch_execute("LISTEN everturn").await?;
            if self.me.is_some() {
                // Processes that are long gone need no row to be known as that.
                let old = "DELETE FROM host WHERE until < clock_timestamp() - interval '1 day'";
                line.client.batch_execute(old).await?;
            }
            self.beat(&line).await?;
            Ok(line)
        };
        timeout(ANSWER * 2, make)
            .await
            .unwrap_or_else(|_| Err(ServerFailure::Lost("it does not answer".to_owned())))
    }

    /// Ends well when this process is done, and badly when the line breaks.
    async fn serve(
        &self,
        line: &mut ListeningConnection,
        pokes: &mut watch::Receiver<u64>,
    ) -> Result<(), ServerFailure> {
        let mut beat = interval(self.timing.beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut free = Instant::now();
        loop {
            tokio::select! {
                poked = pokes.changed() => {
                    if poked.is_err() {
                        self.leave(line).await;
                        return Ok(());
                    }
                    // What comes in the meantime is told with it.
                    sleep_until(free).await;
                    pokes.borrow_and_update();
                    self.say(line, "NOTIFY everturn").await?;
                    free = Instant::now() + NOTICES;
                }
                _ = &mut line.driver => return Err(ServerFailure::Lost("the connection ended".to_owned())),
                _ = beat.tick() => timeout(ANSWER, self.beat(line))
                    .await
                    .unwrap_or_else(|_| Err(ServerFailure::Lost("it does not answer".to_owned())))?,
            }
        }
    }

    async fn say(&self, line: &ListeningConnection, sql: &str) -> Result<(), ServerFailure> {
        match timeout(ANSWER, line.client.batch_execute(sql)).await {
            Ok(said) => Ok(said?),
            Err(_) => Err(ServerFailure::Lost("it does not answer".to_owned())),
        }
    }

    /// Says that this process lives.
    async fn beat(&self, line: &ListeningConnection) -> Result<(), ServerFailure> {
        let Some((name, boot)) = &self.me else { return self.say(line, "").await };
        let sql = "INSERT INTO host (name, until, boot)
                   VALUES ($1, clock_timestamp() + make_interval(secs => $2), $3)
                   ON CONFLICT (name) DO UPDATE SET until = excluded.until, boot = excluded.boot";
        line.client.execute(sql, &[name, &self.timing.patience.as_secs_f64(), boot]).await?;
        Ok(())
    }

    /// Says that this process is gone, so that others need not wait for its silence.
    async fn leave(&self, line: &ListeningConnection) {
        if let Some((name, _)) = &self.me {
            // Nobody is left to hear of a failure, and silence says the same.
            drop(timeout(FAREWELL, line.client.execute("DELETE FROM host WHERE name = $1", &[name])).await);
        }
    }
}

/// Waits until all senders are gone.
async fn gone(pokes: &mut watch::Receiver<u64>) {
    while pokes.changed().await.is_ok() {}
}

/// Drives a connection and passes on what others than itself say; `own` is its number in the server.
async fn drive(mut wire: Wire, wakes: Arc<Wakes>, own: Arc<AtomicI32>) {
    while let Some(Ok(message)) = poll_fn(|context| wire.poll_message(context)).await {
        if let AsyncMessage::Notification(notice) = message
            && notice.process_id() != own.load(Ordering::Relaxed)
        {
            wakes.note_outside();
        }
    }
}
