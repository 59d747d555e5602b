//! Why a sandbox could not be made.

use std::fmt::Display;
use std::io;

use rustix::io::Errno;

/// What was being done when the system refused.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub(super) struct SandboxFault {
    doing: String,
    source: io::Error,
}

impl SandboxFault {
    /// What is not where it was when it was looked at, if that is why. It may fit if all is looked at again.
    pub(super) fn moved(&self) -> Option<&str> {
        (self.source.raw_os_error() == Some(MOVED.raw_os_error())).then_some(self.doing.as_str())
    }
}

/// The error for what is not where it was when it was looked at.
pub(super) const MOVED: Errno = Errno::STALE;

/// Says what was being done.
pub(super) fn during<E: Into<io::Error>>(doing: impl Display) -> impl FnOnce(E) -> SandboxFault {
    move |error| SandboxFault { doing: doing.to_string(), source: error.into() }
}
