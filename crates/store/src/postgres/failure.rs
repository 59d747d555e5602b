//! What went wrong at the server, by what can be done about it: connect again, try again, or give up.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

use crate::Error;

/// A failure on the way to the server or in it.
#[derive(Debug)]
pub(super) enum ServerFailure {
    /// The connection is gone, or none could be made.
    Lost(String),
    /// The server refused a statement and rolled its transaction back.
    Statement { code: SqlState, text: String },
    /// Anything that a caller has to hear as it is.
    Store(Error),
}

impl ServerFailure {
    /// The failure as callers see it; `address` is the server's host and port.
    pub(super) fn into_error(self, address: &str) -> Error {
        match self {
            Self::Lost(reason) => Error::Unreachable { address: address.to_owned(), reason },
            Self::Statement { text, .. } => Error::Server(text),
            Self::Store(error) => error,
        }
    }

    /// How often the statement may succeed if it is tried again.
    pub(super) fn chances(&self) -> u32 {
        let Self::Statement { code, .. } = self else { return 0 };
        match code {
            code if *code == SqlState::T_R_DEADLOCK_DETECTED => 5,
            code if *code == SqlState::T_R_SERIALIZATION_FAILURE => 5,
            // Another process made the same row first; now it can be seen.
            code if *code == SqlState::UNIQUE_VIOLATION => 2,
            // Somebody holds a session for very long: the others of this process should not wait for that one again.
            code if *code == SqlState::LOCK_NOT_AVAILABLE => 5,
            _ => 0,
        }
    }
}

impl From<tokio_postgres::Error> for ServerFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = describe(&error);
        match error.code() {
            Some(code) if is_end(code) => Self::Lost(text),
            Some(code) => Self::Statement { code: code.clone(), text },
            // Without a code it comes from the client: of its faults, only what the network did is worth another try.
            None if is_ours(&error) => Self::Store(Error::Server(text)),
            None => Self::Lost(text),
        }
    }
}

impl From<Error> for ServerFailure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Codes with which the server ends a connection or does not take one now.
fn is_end(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::TOO_MANY_CONNECTIONS
}

/// True for values and columns that do not fit: a fault of this program, which another try would only repeat.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    let network = error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
    let text = error.to_string();
    !network
        && ["error serializing", "error deserializing", "invalid column", "expected", "query returned"]
            .iter()
            .any(|start| text.starts_with(start))
}

/// Why a connection could not be made, as callers see it.
pub(super) fn refusal(error: &tokio_postgres::Error, address: &str) -> ServerFailure {
    let (address, reason) = (address.to_owned(), describe(error));
    match error.code() {
        Some(code) if is_end(code) => ServerFailure::Lost(reason),
        Some(code)
            if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            ServerFailure::Store(Error::Refused { address, reason })
        }
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
            ServerFailure::Store(Error::NoDatabase { address, reason })
        }
        Some(_) => ServerFailure::Store(Error::Server(reason)),
        // What the client says when the server wants a password and the address has none, or another way to prove it.
        None if ["authentication error", "invalid configuration"]
            .iter()
            .any(|start| error.to_string().starts_with(start)) =>
        {
            ServerFailure::Store(Error::Refused { address, reason })
        }
        None => ServerFailure::Lost(reason),
    }
}

/// The error with its causes in one line.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(found) = error.as_db_error() {
        return format!("{} ({})", found.message(), found.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
