//! Integration tests of the interop crate, one binary.

mod opencode;
mod pi;
