//! The contract of the store, promise by promise, on both engines.

mod appends;
mod bills;
mod blobs;
mod concurrency;
mod cursors;
mod facts;
mod feeds;
mod forks;
mod hooks;
mod leases;
mod lists;
mod paths;
mod pieces;
mod reads;
mod repeats;
mod search;
mod streams;
mod upkeep;
