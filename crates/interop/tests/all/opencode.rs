//! OpenCode round trips.
