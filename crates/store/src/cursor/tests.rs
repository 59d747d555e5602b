//! Tests of cursor.
