//! Compaction: a conversation that outgrows the model's window goes on with a summary of its beginning.
//!
//! Nothing is taken away: the log keeps every word, and only what the model is given changes. A summary stands for what
//! comes before the first entry that is kept; what must survive word for word (the task list, what a person has pinned,
//! which files were touched) is carried beside it and not through the model.
//!
//! # Layout
//! - `cut`: where a conversation is cut
//! - `size`: how large entries and requests are, roughly
//! - `transcript`: what is summed up, as text
//! - `question`: what the model is asked, and what it is told of the answer later
//! - `files`: which files were read and changed
//! - `occasion`: when a conversation is summed up without being asked, and when it is not tried again
//! - `ledger`: what each compaction kept and dropped
//! - `service`: compactions on request, the ledger, undo, pins

pub(crate) mod cut;
pub(crate) mod files;
mod ledger;
pub(crate) mod occasion;
pub(crate) mod question;
mod service;
pub(crate) mod size;
pub(crate) mod transcript;

use ledger::ledger;
pub use ledger::{CompactionRecord, ConversationSpan};
pub use service::{Compactions, NewCompaction};
