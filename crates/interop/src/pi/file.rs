//! What reading a session file gives.

use everturn_model::event::Seed;
use everturn_model::path::{self, PathState};
use everturn_model::{Map, Session, Tree};

use super::problems::LineProblem;

/// Which program's dialect a file is in, by its shape: all of them call themselves version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// pi.
    Pi,
    /// omp before its title slot.
    Omp5,
    /// omp with a title slot and its later entry types.
    Omp18,
}

impl Dialect {
    /// A stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Omp5 => "omp5",
            Self::Omp18 => "omp18",
        }
    }

    pub(super) fn of(name: &str) -> Self {
        match name {
            "omp5" => Self::Omp5,
            "omp18" => Self::Omp18,
            _ => Self::Pi,
        }
    }
}

/// Why bytes cannot be read as a session file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing in it is an entry of a session.
    #[error("this is no session file of pi or omp: none of its {lines} lines is an entry")]
    NotASession {
        /// How many lines it has.
        lines: usize,
    },
}

/// A session file.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionFile {
    /// Whose dialect it is in.
    pub dialect: Dialect,
    /// The version of the format that the header names; 1 where it names none.
    pub version: u64,
    /// The header as it is in the file.
    pub header: Option<Map>,
    /// The session.
    pub session: Session,
    /// Its entries and its leaf.
    pub seed: Seed,
    /// What was found wrong or unusual, by line.
    pub problems: Vec<LineProblem>,
}

impl SessionFile {
    /// The tree that importing the file into a new session gives.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new(self.session.clone());
        for node in &self.seed.nodes {
            tree.insert(node.clone());
        }
        tree.session.leaf.clone_from(&self.seed.leaf);
        let state: PathState = path::state(path::to(&tree, self.seed.leaf.as_ref()));
        state.store(&mut tree.session);
        tree
    }

    /// True when nothing is wrong with it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.problems.iter().any(|problem| problem.kind.is_damage())
    }
}
