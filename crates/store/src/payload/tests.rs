//! Tests of payload.
