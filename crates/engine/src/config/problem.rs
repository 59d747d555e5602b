//! What is wrong with a configuration: the file, the place in it and what to do. It stops nothing else.

use std::fmt;

/// Something in a configuration that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file, or what else the configuration is from.
    pub file: String,
    /// The line and the column, from one on, where they are known.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub what: String,
    /// True when nothing of the file counts.
    pub unread: bool,
}

impl ConfigProblem {
    /// Something that is wrong in a file.
    pub(super) fn in_file(file: &str, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: None, what: what.into(), unread: false }
    }

    /// Something that is wrong at a place in a file.
    pub(super) fn at(file: &str, place: Option<(usize, usize)>, what: String) -> Self {
        Self { place, ..Self::in_file(file, what) }
    }

    /// A file that cannot be read.
    pub(super) fn unread(file: &str, place: Option<(usize, usize)>, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place, what: what.into(), unread: true }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.what)?;
        if self.unread {
            f.write_str("; nothing of this file counts until it is mended, and more is asked")?;
        }
        Ok(())
    }
}
