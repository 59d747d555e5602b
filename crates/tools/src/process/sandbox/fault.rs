//! Why a sandbox could not be made.

use std::fmt::Display;
use std::io;

/// What was being done when the system refused.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub(super) struct SandboxFault {
    doing: String,
    source: io::Error,
}

/// Says what was being done.
pub(super) fn during<E: Into<io::Error>>(doing: impl Display) -> impl FnOnce(E) -> SandboxFault {
    move |error| SandboxFault { doing: doing.to_string(), source: error.into() }
}
