//! What is wrong or unusual in a session file, and what reading it did about that.

use std::fmt;

/// Something that the reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProblem {
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What it is.
    pub kind: ProblemKind,
}

/// The kinds of problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// A byte order mark.
    ByteOrderMark,
    /// Lines that end with carriage return and line feed.
    CarriageReturns,
    /// A format version that is not known here.
    FutureVersion(String),
    /// An entry type that is not known here.
    UnknownType(String),
    /// The file is empty.
    Empty,
    /// No line is a session header.
    NoHeader,
    /// The header is not the first entry.
    LateHeader,
    /// The header is not wholly within the first 512 bytes, from the first one on.
    OutOfSight,
    /// The header's id is not a text.
    BadHeader,
    /// One more header.
    ExtraHeader,
    /// A line that is no JSON.
    Unreadable(String),
    /// The last line, cut short.
    CutShort,
    /// JSON that is no entry.
    NotAnEntry,
    /// Bytes that are no UTF-8.
    InvalidText,
    /// Half of a character, as JavaScript cuts them.
    HalfCharacter,
    /// An entry without an id.
    NoId,
    /// An entry whose id an earlier line has.
    RepeatedId(String),
    /// An entry without a parent field.
    NoParent,
    /// A parent that is not in the file.
    MissingParent(String),
    /// An entry that is its own parent.
    OwnParent,
    /// A loop of parents, closed here.
    Loop,
    /// A label or a compaction that names an entry which is not there.
    MissingTarget(String),
    /// An entry without a readable time.
    NoTime,
}

impl ProblemKind {
    /// True when the file lost something, or a program would lose something over it; false when it is only unusual.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        !matches!(
            self,
            Self::ByteOrderMark
                | Self::CarriageReturns
                | Self::FutureVersion(_)
                | Self::UnknownType(_)
                | Self::OutOfSight
                | Self::Empty
        )
    }

    /// A stable name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ByteOrderMark => "byte_order_mark",
            Self::CarriageReturns => "carriage_returns",
            Self::FutureVersion(_) => "future_version",
            Self::UnknownType(_) => "unknown_type",
            Self::Empty => "empty",
            Self::NoHeader => "no_header",
            Self::LateHeader => "late_header",
            Self::OutOfSight => "out_of_sight",
            Self::BadHeader => "bad_header",
            Self::ExtraHeader => "extra_header",
            Self::Unreadable(_) => "unreadable",
            Self::CutShort => "cut_short",
            Self::NotAnEntry => "not_an_entry",
            Self::InvalidText => "invalid_text",
            Self::HalfCharacter => "half_character",
            Self::NoId => "no_id",
            Self::RepeatedId(_) => "repeated_id",
            Self::NoParent => "no_parent",
            Self::MissingParent(_) => "missing_parent",
            Self::OwnParent => "own_parent",
            Self::Loop => "loop",
            Self::MissingTarget(_) => "missing_target",
            Self::NoTime => "no_time",
        }
    }

    /// What reading did about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::ByteOrderMark | Self::CarriageReturns | Self::OutOfSight => "kept as it is",
            Self::FutureVersion(_) => "read as version 3",
            Self::UnknownType(_) | Self::NotAnEntry => "kept as a foreign entry",
            Self::Empty => "an empty session",
            Self::NoHeader => "the entries were read without it",
            Self::LateHeader => "used as the header",
            Self::BadHeader => "its other fields were used",
            Self::ExtraHeader => "kept as a foreign entry; the first header counts",
            Self::Unreadable(_) | Self::CutShort => "kept byte for byte as a foreign entry",
            Self::InvalidText | Self::HalfCharacter => "shown as U+FFFD; the bytes are kept",
            Self::NoId => "has an id of its own here",
            Self::RepeatedId(_) => "both are kept; the last one is meant where the id is named",
            Self::NoParent | Self::MissingParent(_) | Self::OwnParent => {
                "follows the entry before it in the file"
            }
            Self::Loop => "the loop was opened at its earliest entry",
            Self::MissingTarget(_) => "kept as it is; it points at nothing",
            Self::NoTime => "has the time of the entry before it",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrderMark => f.write_str("a byte order mark"),
            Self::CarriageReturns => f.write_str("lines end with carriage return and line feed"),
            Self::FutureVersion(version) => write!(f, "format version {version} is not known"),
            Self::UnknownType(name) => write!(f, "entry type {name:?} is not known"),
            Self::Empty => f.write_str("the file is empty"),
            Self::NoHeader => f.write_str("there is no session header"),
            Self::LateHeader => f.write_str("the session header is not the first entry"),
            Self::OutOfSight => {
                f.write_str("pi does not find the header when it looks for the latest session")
            }
            Self::BadHeader => f.write_str("the session header's id is not a text"),
            Self::ExtraHeader => f.write_str("a second session header"),
            Self::Unreadable(reason) => write!(f, "the line is no JSON: {reason}"),
            Self::CutShort => f.write_str("the last line is cut short"),
            Self::NotAnEntry => f.write_str("the line is JSON, but no entry"),
            Self::InvalidText => f.write_str("bytes that are no UTF-8"),
            Self::HalfCharacter => f.write_str("half of a character"),
            Self::NoId => f.write_str("the entry has no id"),
            Self::RepeatedId(id) => write!(f, "id {id:?} is used again"),
            Self::NoParent => f.write_str("the entry does not say what it follows"),
            Self::MissingParent(id) => write!(f, "parent {id:?} is not in the file"),
            Self::OwnParent => f.write_str("the entry is its own parent"),
            Self::Loop => f.write_str("the entry is its own ancestor"),
            Self::MissingTarget(id) => write!(f, "entry {id:?}, which it names, is not in the file"),
            Self::NoTime => f.write_str("the entry has no readable time"),
        }
    }
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.kind, self.kind.remedy()),
            line => write!(f, "line {line}: {}: {}", self.kind, self.kind.remedy()),
        }
    }
}
