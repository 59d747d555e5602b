//! OpenCode (being written).
