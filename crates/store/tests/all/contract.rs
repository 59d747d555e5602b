//! The contract of the store, promise by promise, on both engines.

mod appends;
mod concurrency;
mod cursors;
mod lists;
mod paths;
mod reads;
mod repeats;
