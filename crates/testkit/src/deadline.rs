//! Bounded waiting: long enough for a loaded machine, short enough to notice.

use std::time::Duration;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `future`.
///
/// # Panics
///
/// When it is not done within [`PATIENCE`]; `what` says what was waited for.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} for {what}"),
    }
}
