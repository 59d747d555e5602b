//! Dialects and foreign formats as pure conversions from and to the tree.
//!
//! OpenCode's V1 and V2 shapes, its JSON file tree, database rows and export, and the session files of pi and omp are
//! all views of the same tree. Nothing here reads a file, a clock or a database: bytes and rows come in, bytes and
//! values go out, so that every conversion can be checked against the real programs' data in memory.
//!
//! # Layout
//! - [`opencode`]: OpenCode's V1 messages, parts and events, V2 messages and durable events, file tree, rows, export
//! - [`pi`]: session files of pi (versions 1 to 3) and of the omp dialects, with their contexts, trees and problems

pub mod opencode;
pub mod pi;
