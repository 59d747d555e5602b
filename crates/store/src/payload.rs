//! How the JSON of an event, an entry or a part is kept: short as it is, long with blobs.
//!
//! A session is copied when it is forked, and what an event says is said again by the rows made of it. With an
//! attachment of some megabytes in each of them, a database would be mostly copies. So long texts are taken out and
//! kept once, under the BLAKE3 hash of their bytes.
//!
//! # Forms
//! - JSON: as it is. No JSON begins with `*` or `@`.
//! - `*` and JSON with markers: each string that begins with NUL is a marker and names the blob that holds the string,
//!   escaped as it was. A payload that has such a string of its own is never given markers, so nothing a person wrote
//!   is ever taken for one.
//! - `@` and a hash: the blob holds the whole, in one of the forms above.
//!
//! Nothing is parsed: the text comes back byte for byte, with its order, numbers and escapes.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// The longest payload that is kept as it is, and the longest string that stays in its payload, in bytes.
pub(crate) const LIMIT: usize = 64 * 1024;

/// The longest payload and the longest blob, in bytes. SQLite takes no longer value; and a damaged row, which may name
/// one large blob a thousand times, must not take all memory.
const LONGEST: usize = 1_000_000_000;

/// How a marker begins. It is how `serde_json` writes NUL, and JSON has no other way to write it.
const NUL: &str = "\\u0000";

/// zstd's level: attachments are mostly images in base64, on which higher levels cost time and gain nothing.
const LEVEL: i32 = 1;

/// The largest window a compressed blob may ask for, as a power of two: 8 MiB. Level 1 asks for 512 KiB.
const WINDOW: u32 = 23;

/// The name of a blob: BLAKE3 of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash in 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.to_string()
    }

    /// The hash as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash in these bytes, if they are 32.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl FromStr for Hash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        // One hash has one text: two spellings would be two names of one blob.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(BadHash);
        }
        blake3::Hash::from_hex(text).map(|hash| Self(*hash.as_bytes())).map_err(|_| BadHash)
    }
}

/// The text is not a [`struct@Hash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 lower-case hexadecimal digits, and this is not")]
pub struct BadHash;

/// A long text as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    /// Of the bytes before compression, so that another level or none gives the same blob.
    pub(crate) hash: Hash,
    /// How many bytes it holds.
    pub(crate) size: usize,
    /// The bytes, compressed; or as they are, if there are `size` of them.
    pub(crate) packed: Vec<u8>,
}

impl Blob {
    /// The blob that holds these bytes.
    ///
    /// # Errors
    /// If zstd fails: there is no memory.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, io::Error> {
        Self::named(Hash::of(bytes), bytes)
    }

    fn named(hash: Hash, bytes: &[u8]) -> Result<Self, io::Error> {
        let size = bytes.len();
        let mut packed = zstd::bulk::compress(bytes, LEVEL)?;
        // Where it gains little, reading should not pay for it.
        if packed.len() > size - size.div_ceil(10) {
            packed = bytes.to_vec();
        }
        packed.shrink_to_fit();
        Ok(Self { hash, size, packed })
    }

    /// The bytes of a blob, whose hash is still to be checked ([`unpack`] does).
    ///
    /// # Errors
    /// If `packed` does not hold exactly `size` bytes, or holds what zstd does not understand.
    pub(crate) fn unpack(size: usize, packed: &[u8]) -> Result<Vec<u8>, io::Error> {
        if packed.len() == size {
            return Ok(packed.to_vec());
        }
        if size > LONGEST {
            return Err(damaged("the blob is said to be longer than any"));
        }
        let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
        decoder.window_log_max(WINDOW)?;
        let mut bytes = Vec::new();
        while bytes.len() < size {
            // No more than twice what is really there: `size` may be damaged too.
            let step = bytes.len().max(LIMIT).min(size - bytes.len());
            bytes.try_reserve_exact(step)?;
            let limit = u64::try_from(step).map_err(io::Error::other)?;
            if decoder.by_ref().take(limit).read_to_end(&mut bytes)? == 0 {
                return Err(damaged("the blob is shorter than it is said to be"));
            }
        }
        if decoder.read(&mut [0])? > 0 {
            return Err(damaged("the blob is longer than it is said to be"));
        }
        Ok(bytes)
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A payload as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    /// What goes into the row.
    pub(crate) data: String,
    /// All blobs that are needed to get the payload back, each once, also those that only another blob names.
    pub(crate) blobs: Vec<Blob>,
}

/// How a payload is to be kept.
///
/// # Errors
/// If the text cannot be JSON, is longer than a gigabyte, or zstd fails.
pub(crate) fn pack(json: String) -> Result<Packed, io::Error> {
    if json.starts_with(['*', '@']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the payload is not JSON"));
    }
    if json.len() <= LIMIT {
        return Ok(Packed { data: json, blobs: Vec::new() });
    }
    if json.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the payload is longer than a gigabyte"));
    }
    let mut blobs = Vec::new();
    let mut data = match mark(&json) {
        None => json,
        Some((marked, strings)) => {
            for (hash, string) in strings {
                blobs.push(Blob::named(hash, string.as_bytes())?);
            }
            marked
        }
    };
    if data.len() > LIMIT {
        let whole = Blob::of(data.as_bytes())?;
        data = format!("@{}", whole.hash);
        blobs.push(whole);
    }
    Ok(Packed { data, blobs })
}

/// The payload with markers in place of its long strings, and these; nothing if it has none or must not have markers.
fn mark(json: &str) -> Option<(String, BTreeMap<Hash, &str>)> {
    // A fork has thousands of strings and seldom a long one: looking is cheaper than copying.
    if !pieces(json).any(|piece| piece.string && piece.text.len() > LIMIT) {
        return None;
    }
    let mut marked = String::from("*");
    let mut strings = BTreeMap::new();
    for (at, piece) in pieces(json).enumerate() {
        if at > 0 {
            marked.push('"');
        }
        if piece.marker().is_some() {
            return None;
        }
        if piece.string && piece.text.len() > LIMIT {
            let hash = Hash::of(piece.text.as_bytes());
            marked.extend([NUL, &hash.to_hex()]);
            strings.insert(hash, piece.text);
        } else {
            marked.push_str(piece.text);
        }
    }
    (!strings.is_empty()).then_some((marked, strings))
}

/// The blobs that kept data names itself, each once. What is damaged names none.
pub(crate) fn references(data: &str) -> Vec<Hash> {
    if let Some(whole) = data.strip_prefix('@') {
        return whole.parse().into_iter().collect();
    }
    let Some(marked) = data.strip_prefix('*') else { return Vec::new() };
    let mut hashes: Vec<Hash> = pieces(marked).filter_map(|piece| piece.marker()?.parse().ok()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Why a payload cannot be had back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unpack<E> {
    /// The blob could not be fetched.
    #[error(transparent)]
    Fetch(E),
    /// The blob holds other bytes than its name says.
    #[error("blob {0} does not hold what its name says")]
    Changed(Hash),
    /// The blob holds no text.
    #[error("blob {0} is not UTF-8")]
    NotText(Hash),
    /// The kept data is none that was ever made here.
    #[error("the kept payload is damaged: {0}")]
    Malformed(&'static str),
}

/// The payload that was packed, with `fetch` for the bytes of a blob. Their hash is checked here.
///
/// # Errors
/// If a blob cannot be fetched, or if anything is damaged.
pub(crate) fn unpack<E>(
    data: String,
    mut fetch: impl FnMut(&Hash) -> Result<Vec<u8>, E>,
) -> Result<String, Unpack<E>> {
    let Some(whole) = data.strip_prefix('@') else { return fill(data, LONGEST, fetch) };
    let hash = whole.parse().map_err(|_| Unpack::Malformed("no hash after @"))?;
    let data = text(&hash, &mut fetch)?;
    if data.starts_with('@') {
        return Err(Unpack::Malformed("a whole in a whole"));
    }
    fill(data, LONGEST, fetch)
}

/// The payload with its long strings in place of the markers, if it has markers.
fn fill<E>(
    data: String,
    longest: usize,
    mut fetch: impl FnMut(&Hash) -> Result<Vec<u8>, E>,
) -> Result<String, Unpack<E>> {
    let Some(marked) = data.strip_prefix('*') else { return Ok(data) };
    let mut json = String::with_capacity(marked.len());
    for (at, piece) in pieces(marked).enumerate() {
        if at > 0 {
            json.push('"');
        }
        match piece.marker() {
            None => json.push_str(piece.text),
            Some(hex) => {
                let hash = hex.parse().map_err(|_| Unpack::Malformed("no hash in a marker"))?;
                let string = text(&hash, &mut fetch)?;
                if string.len() > longest.saturating_sub(json.len()) {
                    return Err(Unpack::Malformed("longer than any payload"));
                }
                json.push_str(&string);
            }
        }
    }
    Ok(json)
}

fn text<E>(hash: &Hash, fetch: &mut impl FnMut(&Hash) -> Result<Vec<u8>, E>) -> Result<String, Unpack<E>> {
    let bytes = fetch(hash).map_err(Unpack::Fetch)?;
    if Hash::of(&bytes) != *hash {
        return Err(Unpack::Changed(*hash));
    }
    String::from_utf8(bytes).map_err(|_| Unpack::NotText(*hash))
}

/// A stretch of JSON text. With a quote between each two, the pieces are the text.
pub(crate) struct JsonPiece<'a> {
    /// Within a string, escaped as it is there. Where a text ends within a string, that is the last piece.
    pub(crate) string: bool,
    pub(crate) text: &'a str,
}

impl<'a> JsonPiece<'a> {
    /// What a string that begins with NUL has after it: in data with markers, the hash.
    fn marker(&self) -> Option<&'a str> {
        if self.string { self.text.strip_prefix(NUL) } else { None }
    }
}

/// The text cut at the quotes of its strings, in one pass and whatever the text is.
pub(crate) fn pieces(json: &str) -> impl Iterator<Item = JsonPiece<'_>> {
    let mut rest = Some(json);
    let mut inside = true;
    std::iter::from_fn(move || {
        let text = rest?;
        inside = !inside;
        let quote = text.match_indices('"').map(|(at, _)| at).find(|at| {
            // Within a string, a quote after an odd number of backslashes does not end it.
            let before = text.as_bytes().get(..*at).unwrap_or_default();
            !inside || before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
        });
        let cut = quote.and_then(|at| text.split_at_checked(at));
        let (piece, after) = cut.unwrap_or((text, ""));
        rest = after.strip_prefix('"');
        Some(JsonPiece { string: inside, text: piece })
    })
}
