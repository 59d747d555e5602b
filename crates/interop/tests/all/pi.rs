//! pi round trips.
