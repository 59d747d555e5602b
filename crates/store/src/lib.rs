//! The durable log of sessions and its projections.
//!
//! A [`Store`] accepts events, gives them their `seq`, folds them into rows and acknowledges only when all of it is
//! on disk. What it acknowledged is there after `kill -9` and after power loss. Reads come from the rows; the rows
//! can be rebuilt from the log.
//!
//! # Layout
//! - [`store`]: the contract, and the handle through which both engines are used
//! - [`options`]: where a store is and how it is opened
//! - [`append`]: what goes in: new events, who may write them, what comes back
//! - [`query`]: what can be asked: filters, pages, search
//! - [`bill`]: what sessions have used, added up
//! - [`fork`]: sessions made of other sessions' entries
//! - [`feed`]: everything that happens, told once for the process, whoever writes
//! - [`error`]: what can go wrong, by what the caller can do
//! - `plan`, `row`: what an append means in rows, without a database; `shape`: from rows back to values
//! - `parallel`: work on long lists, spread over the cores
//! - `payload`: how large payloads are kept; `cursor`, `page`: pages; `words`, `text`, `search`: full-text search
//! - [`upkeep`]: blobs, trash and retention, disk use, verification and rebuilding, scrubs, backups
//! - `owner`: which processes of this machine are alive
//! - `sqlite`: the engine on SQLite: writer thread with group commit, readers, schema, leases
//! - `postgres`: the engine on PostgreSQL: writer task with group commit, pool of readers, heartbeat, notices
//! - [`foreign`]: reading databases of other programs, without writing to them

pub mod append;
pub mod bill;
mod cursor;
pub mod error;
pub mod feed;
pub mod foreign;
pub mod fork;
pub mod options;
mod owner;
mod page;
mod parallel;
mod payload;
mod plan;
mod postgres;
pub mod query;
mod row;
mod search;
mod shape;
mod sqlite;
pub mod store;
mod text;
pub mod upkeep;
mod words;

pub use append::{Appended, Authority, Committed, Lease, NewEvent, WrittenBy};
pub use bill::{Unbilled, UseGroup, UseKey, UseQuery, UseSum};
pub use cursor::{BadCursor, Cursor};
pub use error::Error;
pub use feed::{FeedItem, ForeignText, Observer, PurgedSession, StreamingPart};
pub use fork::{Cut, Fork};
pub use options::{CommitHook, CommitMoment, Durability, Options, PostgresServer, StorePlace, Timing};
pub use payload::{BadHash, Hash};
pub use query::{
    ArchivedSessions, Filter, Hit, Order, Page, PageRequest, PathPiece, PathQuery, Search, StoredPath,
    StreamText, Tail, Totals,
};
pub use store::Store;
pub use upkeep::{
    Audit, BlobUse, CheckReport, Collected, DiskUse, Erasure, FOLD_VERSION, FreeSpace, LargeSession, Rebuilt,
    RebuiltAll, Retention, RowTable, Scrub, Scrubbed, SessionCheck, SessionProblem, SetAside, Swept,
    Tombstone, TrashUse,
};
pub use words::Snippet;
