//! What can be asked of the store.

use everturn_model::{EntryId, Millis, PartId};

/// Which sessions to list, newest activity first. Sessions in the trash are never listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this project.
    pub project: Option<String>,
    /// In this folder.
    pub directory: Option<String>,
    /// Without those that belong to another session.
    pub roots: bool,
    /// Whose title contains this, in any case.
    pub search: Option<String>,
    /// Active at or after this moment.
    pub since: Option<Millis>,
    /// With archived ones too.
    pub archived: bool,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Text of a part that is still being streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamText {
    /// The entry.
    pub entry: EntryId,
    /// The part.
    pub part: PartId,
    /// What was saved of it.
    pub text: String,
}
