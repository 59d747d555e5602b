//! Session files of pi (versions 1 to 3) and of omp (5 and 18).
//!
//! A file is JSON lines that form a tree by `id` and `parentId`. [`read()`] takes any of them, whatever happened to it:
//! nothing on a line is lost, and what is damaged is listed. [`write()`] gives the file back, byte for byte where nothing
//! changed. [`PiView`] says what pi or omp make of the tree: its context, its tree, its listing; it looks at the model's
//! nodes only, never at the lines.
//!
//! # Layout
//! - `line`: lines, and the forgiving reading of one
//! - `javascript`: JSON text and dates as JavaScript writes them
//! - `decode`, `encode`, `block`: entries and content blocks as bodies and parts, and back
//! - `patch`: what an entry has beyond its typed fields
//! - `link`: parents, and what is done where they cannot hold
//! - `names`: the ids by which pi knows entries
//! - `problems`: what was found wrong
//! - `file`, `read`, `write`: whole files
//! - `view`, `context`, `omp`: what the programs make of a tree

mod block;
mod context;
mod decode;
mod encode;
mod file;
mod javascript;
mod line;
mod link;
mod names;
mod omp;
mod patch;
mod problems;
mod read;
mod view;
mod write;

pub use file::{Dialect, Error, SessionFile};
pub use javascript::stringify;
pub use problems::{LineProblem, ProblemKind};
pub use read::read;
pub use view::{PathEnd, PiView, Program, SessionListing};
pub use write::write;

/// The name under which fields of pi ride along in `extra`.
pub const DIALECT: &str = "pi";
