//! The engine's own life: what it does in the background, and that it is closing.
//!
//! Every service that waits for something also waits for the engine to close. Work that must finish before the process
//! ends is started here.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Whether the engine is closing, and what it waits for then; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifecycle {
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Lifecycle {
    /// Whether the engine is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Resolves when the engine begins to close.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Resolves then, or when something else is cancelled.
    pub(crate) async fn closing_or(&self, cancel: &CancellationToken) {
        tokio::select! {
            () = self.closing() => {}
            () = cancel.cancelled() => {}
        }
    }

    /// Does something in the background. Closing waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Says that the engine is closing, and waits for what was started.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
