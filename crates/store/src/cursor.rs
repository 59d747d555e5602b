//! Where the next page begins, as a text that fixes its question and cannot be forged.
//!
//! A page is asked for with what the page before gave. Were that a plain position, a caller could change the filter
//! between two pages and get rows twice or never, or make up a position that no list ever gave out. So a cursor holds
//! the whole question with the position, under a MAC with the store's own key.
//!
//! A cursor is base64url without padding over a version byte, 16 bytes of keyed BLAKE3 and `[kind, body]` as JSON.
//! Whoever has a cursor can read it: nothing secret belongs into it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

/// What is before the MAC. Another layout gets another number.
const VERSION: u8 = 1;

/// How many bytes of the MAC are kept: too many to guess, few enough for an address line.
const MAC: usize = 16;

/// The longest cursor, in characters. Cursors travel in addresses, and longer ones are not even decoded.
pub(crate) const LONGEST: usize = 4096;

/// Where the next page of a list begins. It goes back to the store as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Cursor(String);

impl Cursor {
    /// The cursor as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Cursor {
    type Error = BadCursor;

    fn try_from(text: String) -> Result<Self, BadCursor> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.len() > LONGEST || !text.bytes().all(allowed) {
            return Err(BadCursor::Foreign);
        }
        Ok(Self(text))
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        // Before it is copied.
        if text.len() > LONGEST {
            return Err(BadCursor::Foreign);
        }
        Self::try_from(text.to_owned())
    }
}

/// Why a cursor is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCursor {
    /// It was made by another store or an older version, was changed, or never was a cursor.
    #[error("this cursor is not from this store or was changed; ask again for the first page")]
    Foreign,
    /// It is good, but for another list.
    #[error("this cursor is from another list; ask again for the first page of this one")]
    OtherKind,
}

/// Why a cursor cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsealed {
    /// The question cannot be written as JSON.
    #[error("the question cannot be kept in a cursor: {0}")]
    Json(#[from] serde_json::Error),
    /// The question is too long.
    #[error("the question is too long: its cursor would have {0} characters, and {LONGEST} are allowed")]
    TooLong(usize),
}

/// A cursor for the list `kind` that holds `body`.
///
/// # Errors
/// If `body` cannot be written as JSON or is too long.
pub(crate) fn seal(key: &[u8; 32], kind: &str, body: &impl Serialize) -> Result<Cursor, Unsealed> {
    let json = serde_json::to_vec(&(kind, body))?;
    let mut bytes = vec![VERSION];
    bytes.extend(mac(key, VERSION, &json));
    bytes.extend(json);
    let text = URL_SAFE_NO_PAD.encode(bytes);
    if text.len() > LONGEST { Err(Unsealed::TooLong(text.len())) } else { Ok(Cursor(text)) }
}

/// What a cursor for the list `kind` holds.
///
/// # Errors
/// If it was not made by [`seal`] with this key, this kind and a body of this type.
pub(crate) fn open<T: DeserializeOwned>(key: &[u8; 32], kind: &str, cursor: &Cursor) -> Result<T, BadCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(&cursor.0).map_err(|_| BadCursor::Foreign)?;
    let (&version, rest) = bytes.split_first().ok_or(BadCursor::Foreign)?;
    let (claimed, json) = rest.split_first_chunk::<MAC>().ok_or(BadCursor::Foreign)?;
    if version != VERSION || !same(claimed, &mac(key, version, json)) {
        return Err(BadCursor::Foreign);
    }
    // From here on it is certain that this store made it, though maybe an older version of it.
    let (made_for, body): (Cow<'_, str>, &RawValue) =
        serde_json::from_slice(json).map_err(|_| BadCursor::Foreign)?;
    if made_for != kind {
        return Err(BadCursor::OtherKind);
    }
    serde_json::from_str(body.get()).map_err(|_| BadCursor::Foreign)
}

/// The version has a fixed length and the kind is a JSON string, so no two questions have the same input.
fn mac(key: &[u8; 32], version: u8, json: &[u8]) -> [u8; MAC] {
    let mut mac = [0; MAC];
    blake3::Hasher::new_keyed(key).update(&[version]).update(json).finalize_xof().fill(&mut mac);
    mac
}

/// Whether both are equal, in a time that does not tell where they differ.
fn same(one: &[u8; MAC], other: &[u8; MAC]) -> bool {
    // `blake3::Hash` is compared in constant time, and the compiler is kept from shortening that.
    let widen = |mac: &[u8; MAC]| {
        let mut wide = [0; blake3::OUT_LEN];
        wide.iter_mut().zip(mac).for_each(|(to, from)| *to = *from);
        blake3::Hash::from_bytes(wide)
    };
    widen(one) == widen(other)
}
