//! Appending, reading back and surviving a reopening.
