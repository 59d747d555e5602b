//! Upkeep: what a store needs over the years, beside appending and reading.
//!
//! The log is the truth, so most of this is one movement: read a session's log, fold it, and compare the rows with it
//! ([`verify`]) or replace them ([`rebuild`]). What is here asks an engine only for a few primitives and knows
//! nothing of its database.
//!
//! - [`blob`]: bytes that a session uses, and collecting those that none uses
//! - [`trash`]: deleting for good, retention
//! - [`disk`]: what takes how much space
//! - [`verify`], [`rebuild`]: checking rows against the log, and rebuilding them
//! - [`set_aside`]: damaged sessions that are set aside
//! - [`scrub`]: removing a secret that got into a log; `secret`: how it is found in texts
//! - [`backup`]: backups and restoring them, from one engine to another too
//! - [`audit`]: what was done to the log itself
//! - `instance_rows`: what belongs to no session
//! - `compare`: rows beside what a log means
//! - `stored_session`: a session as it is stored, undecoded, and its log read from that

pub mod audit;
pub mod backup;
pub mod blob;
mod compare;
pub mod disk;
pub(crate) mod instance_rows;
pub mod rebuild;
pub mod scrub;
mod secret;
pub mod set_aside;
pub(crate) mod stored_session;
pub mod trash;
pub mod verify;

pub use audit::Audit;
pub use blob::Collected;
pub use disk::{BlobUse, DiskUse, LargeSession, TrashUse};
pub use rebuild::{FOLD_VERSION, Rebuilt, RebuiltAll};
pub use scrub::{Scrub, Scrubbed};
pub use set_aside::SetAside;
pub use trash::{Erasure, FreeSpace, Retention, Swept, Tombstone};
pub use verify::{CheckReport, RowTable, SessionCheck, SessionProblem};
