//! A router on a listener.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// How long requests may go on after the shutdown was asked for.
const GRACE: Duration = Duration::from_secs(2);

/// Serves a router until `shutdown` is ready, then lets running requests end for a moment. A prompt that is waited
/// for goes on without its waiter, so nothing is lost when the moment is over.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Events are small and each one is waited for.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = error.to_string(), "a connection stays delayed");
        }
    });
    let asked = Arc::new(Notify::new());
    let told = Arc::clone(&asked);
    let serving = axum::serve(listener, router.into_make_service()).with_graceful_shutdown(async move {
        shutdown.await;
        told.notify_one();
    });
    tokio::select! {
        ended = serving.into_future() => ended,
        () = async { asked.notified().await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}
