//! Paths in JSON, byte for byte: a program can make a name that is no text, and must not escape by it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a path that is no text begins with, which none on disk does. Its bytes follow, each as two digits.
const MARK: char = '\0';

/// A path on its way.
struct ExactPath<'a>(Cow<'a, Path>);

impl Serialize for ExactPath<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.0.to_str() {
            return serializer.serialize_str(text);
        }
        let bytes = self.0.as_os_str().as_bytes().iter();
        let text = bytes.fold(String::from(MARK), |text, byte| text + &format!("{byte:02x}"));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for ExactPath<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ExactPathVisitor).map(|path| Self(Cow::Owned(path)))
    }
}

struct ExactPathVisitor;

impl Visitor<'_> for ExactPathVisitor {
    type Value = PathBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PathBuf, E> {
        let Some(digits) = text.strip_prefix(MARK) else { return Ok(text.into()) };
        let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap_or_default());
        let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
        bytes.map(|bytes| OsString::from_vec(bytes).into()).map_err(E::custom)
    }
}

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    ExactPath(Cow::Borrowed(path)).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    ExactPath::deserialize(deserializer).map(|path| path.0.into_owned())
}

/// The same for a list or a set of paths.
pub(super) mod list {
    use super::{Cow, Deserialize as _, Deserializer, ExactPath, PathBuf, Serializer};

    pub(in super::super) fn serialize<'a, C, S: Serializer>(
        paths: &'a C,
        serializer: S,
    ) -> Result<S::Ok, S::Error>
    where
        &'a C: IntoIterator<Item = &'a PathBuf>,
    {
        serializer.collect_seq(paths.into_iter().map(|path| ExactPath(Cow::Borrowed(path))))
    }

    pub(in super::super) fn deserialize<'de, C: FromIterator<PathBuf>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<C, D::Error> {
        let paths = Vec::<ExactPath<'_>>::deserialize(deserializer)?;
        Ok(paths.into_iter().map(|path| path.0.into_owned()).collect())
    }
}

/// The same for what is known by paths.
pub(super) mod map {
    use super::{Cow, Deserialize, Deserializer, ExactPath, PathBuf, Serialize, Serializer};

    pub(in super::super) fn serialize<'a, C, V: Serialize + 'a, S: Serializer>(
        map: &'a C,
        serializer: S,
    ) -> Result<S::Ok, S::Error>
    where
        &'a C: IntoIterator<Item = (&'a PathBuf, &'a V)>,
    {
        serializer.collect_seq(map.into_iter().map(|(path, value)| (ExactPath(Cow::Borrowed(path)), value)))
    }

    pub(in super::super) fn deserialize<'de, C, V, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<C, D::Error>
    where
        C: FromIterator<(PathBuf, V)> + IntoIterator<Item = (PathBuf, V)>,
        V: Deserialize<'de>,
    {
        let pairs = Vec::<(ExactPath<'_>, V)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(path, value)| (path.0.into_owned(), value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "list")]
        more: Vec<PathBuf>,
        #[serde(with = "map")]
        known: std::collections::BTreeMap<PathBuf, u8>,
    }

    #[test]
    fn every_path_comes_back_as_it_was() {
        for bytes in [b"".as_slice(), b"a/b", "a/\u{e4}\u{fffd}".as_bytes(), b"a/\xff\xfe/b", b"\xc3"] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            let known = [(path.clone(), 1)].into();
            let paths = Paths { one: path.clone(), more: vec![path, "x".into()], known };
            let text = serde_json::to_string(&paths).unwrap();
            assert_eq!(serde_json::from_str::<Paths>(&text).unwrap(), paths, "{text}");
        }
        assert!(serde_json::from_str::<Paths>(r#"{"one": "\u0000zz", "more": [], "known": []}"#).is_err());
    }
}
