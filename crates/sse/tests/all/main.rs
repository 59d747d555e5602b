//! Tests of the decoder from outside.

mod properties;
