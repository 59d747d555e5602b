//! JSON as Python's `json.dumps` writes it: spaces after separators, ASCII only.
//!
//! The fixtures were recorded against a model server in Python. Arguments of tool calls reach the events as raw
//! text, and usage is counted from the length of the body, so the spelling is part of what was recorded.

use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// `value` as text.
pub(super) fn dumps(value: &Value) -> String {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)).expect("JSON into memory");
    String::from_utf8(bytes).expect("ASCII")
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spelling() {
        let value = json!({"a": [1, 2.5, null], "b": "ü🦀\n\"", "c": {}, "d": []});
        assert_eq!(
            dumps(&value),
            r#"{"a": [1, 2.5, null], "b": "\u00fc\ud83e\udd80\n\"", "c": {}, "d": []}"#
        );
    }
}
