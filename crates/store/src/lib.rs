//! The durable log of sessions and its projections.
//!
//! A [`Store`] accepts events, gives them their `seq`, folds them into rows and acknowledges only when all of it is
//! on disk. What it acknowledged is there after `kill -9` and after power loss. Reads come from the rows; the rows
//! can be rebuilt from the log.
//!
//! # Layout
//! - [`append`]: what goes in: new events, who may write them, what comes back
//! - [`query`]: what can be asked: filters and pages
//! - [`error`]: what can go wrong, by what the caller can do
//! - [`watch`]: following a session's log, whoever writes it
//! - [`sqlite`]: the engine on SQLite: writer thread with group commit, readers, schema, leases
//! - [`foreign`]: reading databases of other programs, without writing to them

pub mod append;
pub mod error;
pub mod foreign;
pub mod query;
pub mod sqlite;
pub mod watch;

pub use append::{Appended, Authority, Committed, Lease, NewEvent, Observer};
pub use error::Error;
pub use query::{Filter, StreamText};
pub use sqlite::Store;
pub use watch::Watch;
