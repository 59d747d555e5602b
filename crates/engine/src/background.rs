//! Work that waits for the disk, kept off the threads that carry the streams.

use tokio_util::sync::CancellationToken;

use crate::Error;

/// Does work that waits for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Io { context: "cannot look at files".to_owned(), source: error.into() })
}

/// The same, given up when `cancel` fires: a file system that does not answer must not keep a session from being
/// stopped. None when it was given up.
pub(crate) async fn unless_stopped<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    tokio::select! {
        biased;
        done = blocking(work) => done.map(Some),
        () = cancel.cancelled() => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_that_does_not_end_is_given_up() {
        // A call that was looked at on a file system that had stopped answering kept its session busy for good.
        let (cancel, (answer, silence)) = (CancellationToken::new(), mpsc::channel::<u8>());
        let stuck = unless_stopped(&cancel, move || silence.recv());
        cancel.cancel();
        assert_eq!(stuck.await.unwrap(), None);
        drop(answer);
        assert_eq!(unless_stopped(&CancellationToken::new(), || 1).await.unwrap(), Some(1));
    }
}
