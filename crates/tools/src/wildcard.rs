//! Patterns of file names: `*`, `**`, `?`, `{a,b}` and classes, matched against paths below a folder.
//!
//! As in an ignore file, a pattern without a slash means a name at any depth, and one with a slash means a path from
//! the folder that is searched.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::tool::Failure;

/// The characters that make a name a pattern.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// The same, and those that make the rest of a pattern more than an ending.
const BEYOND_PLAIN: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '/'];

/// The longest pattern.
const LENGTH_MAX: usize = 4096;

/// A pattern that is ready to be matched.
#[derive(Debug, Clone)]
pub(crate) struct Wildcard {
    set: GlobSet,
    /// What a name must end with, when that is all there is to the pattern: by far the most common kind.
    ending: Option<Vec<u8>>,
    negated: bool,
    /// The folders that every match lies in.
    folders: Vec<String>,
}

impl Wildcard {
    /// Reads a pattern; one that begins with `!` matches what the rest of it does not.
    pub(crate) fn parse(field: &str, text: &str) -> Result<Self, Failure> {
        let (negated, body) = text.strip_prefix('!').map_or((false, text), |body| (true, body));
        let bad = |reason: String| {
            Failure::InvalidInput(format!("{field} {text:?} is not a valid glob pattern: {reason}."))
        };
        if body.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        if body.len() > LENGTH_MAX {
            return Err(Failure::InvalidInput(format!("{field} may be {LENGTH_MAX} bytes long at most.")));
        }
        let anchored = body.trim_start_matches("./").trim_start_matches('/');
        let pattern = if body.contains('/') { anchored.to_owned() } else { format!("**/{body}") };
        // A trailing slash names a folder; what is meant is what lies in it.
        let pattern = if pattern.ends_with('/') { format!("{pattern}**") } else { pattern };
        let glob = GlobBuilder::new(&pattern)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| bad(error.kind().to_string()))?;
        let set = GlobSetBuilder::new().add(glob).build().map_err(|error| bad(error.kind().to_string()))?;
        let folders = if negated { Vec::new() } else { folders(&pattern) };
        let ending = pattern.strip_prefix("**/*").filter(|ending| !ending.contains(BEYOND_PLAIN));
        let ending = ending.map(|ending| ending.as_bytes().to_vec());
        Ok(Self { set, ending, negated, folders })
    }

    /// Whether a path below the folder matches.
    pub(crate) fn matches(&self, below: &Path) -> bool {
        let matches = match &self.ending {
            Some(ending) => below.as_os_str().as_bytes().ends_with(ending),
            None => self.set.is_match(below),
        };
        matches != self.negated
    }

    /// Whether anything in a folder below the searched one can match.
    pub(crate) fn enters(&self, below: &Path) -> bool {
        let mut names = below.components();
        self.folders.iter().all(|folder| match names.next() {
            Some(Component::Normal(name)) => name == folder.as_str(),
            _ => true,
        })
    }
}

/// The folders that a pattern begins with, up to the first special character; its last part is a file's name.
fn folders(pattern: &str) -> Vec<String> {
    let mut parts: Vec<&str> = pattern.split('/').collect();
    parts.pop();
    let plain = |part: &&str| !part.contains(SPECIAL) && !part.contains('\\');
    // Braces may hold slashes; what stands before the first special character is plain all the same.
    parts.into_iter().take_while(plain).map(str::to_owned).collect()
}

/// Takes the folders off the beginning of a pattern that leaves the searched folder: one that is absolute or goes up.
/// The rest is a pattern below them.
pub(crate) fn split(pattern: &str) -> Result<Option<(PathBuf, String)>, Failure> {
    let up = |part: &str| part == "..";
    let absolute = pattern.starts_with('/');
    if !absolute && !pattern.split('/').any(up) {
        return Ok(None);
    }
    let parts: Vec<&str> = pattern.split('/').collect();
    let plain = parts.iter().take_while(|part| !part.contains(SPECIAL)).count();
    // The last part stays a pattern, so that a plain path is the pattern of one file.
    let (folder, rest) = parts.split_at_checked(plain.min(parts.len().saturating_sub(1))).unwrap_or_default();
    if rest.iter().any(|part| up(part)) {
        return Err(Failure::InvalidInput(format!(
            "pattern {pattern:?} goes up with `..` behind a wildcard. Name the folder in `path` instead."
        )));
    }
    let folder = folder.join("/");
    let folder = if absolute { format!("/{folder}") } else { folder };
    // A slash in front keeps the pattern where it was: in this folder, not at any depth.
    Ok(Some((PathBuf::from(folder), format!("/{}", rest.join("/")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_ignore_files_mean() {
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "x/y/a.rs", true),
            ("/*.rs", "a.rs", true),
            ("/*.rs", "x/a.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/x/a.rs", false),
            ("./src/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/x/y/a.rs", true),
            ("src/**/*.rs", "lib/src/a.rs", false),
            ("**/*.{ts,tsx}", "x/a.tsx", true),
            ("{a,b/c}.txt", "b/c.txt", true),
            ("[a-c]?.txt", "b1.txt", true),
            ("[!a-c]?.txt", "b1.txt", false),
            ("src/", "src/x/y", true),
            ("!*.rs", "a.rs", false),
            ("!*.rs", "a.txt", true),
            (".*", "x/.env", true),
            ("*.rs", "x/.rs", true),
            ("*.rs", "x.rs/a", false),
            ("*.rs", "a.RS", false),
            ("*rs", "x/ars", true),
            ("*.tar.gz", "x/a.tar.gz", true),
            ("*", "x/a", true),
        ] {
            assert_eq!(
                Wildcard::parse("pattern", pattern).unwrap().matches(Path::new(path)),
                expected,
                "{pattern} {path}"
            );
        }
        for bad in ["", "!", "[a", "{a"] {
            let text = Wildcard::parse("pattern", bad).unwrap_err().to_string();
            assert!(text.contains("is not a valid glob pattern"), "{text}");
        }
    }

    #[test]
    fn a_walk_enters_only_where_a_match_can_be() {
        for (pattern, folder, expected) in [
            ("src/a/*.rs", "src", true),
            ("src/a/*.rs", "src/a/deeper", true),
            ("src/a/*.rs", "lib", false),
            ("src/a/*.rs", "src/b", false),
            ("{src,lib}/a/*.rs", "lib", true),
            ("**/a/*.rs", "lib", true),
            ("*.rs", "lib", true),
            ("!src/*.rs", "lib", true),
        ] {
            assert_eq!(
                Wildcard::parse("pattern", pattern).unwrap().enters(Path::new(folder)),
                expected,
                "{pattern} {folder}"
            );
        }
    }

    #[test]
    fn patterns_that_leave_name_the_folder_they_go_to() {
        let check = |pattern: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(folder, rest)| (PathBuf::from(folder), rest.to_owned()));
            assert_eq!(split(pattern).unwrap(), expected, "{pattern}");
        };
        check("src/**/*.rs", None);
        check("a..b/*", None);
        check("/etc/*.conf", Some(("//etc", "/*.conf")));
        check("/etc/hosts", Some(("//etc", "/hosts")));
        check("/*", Some(("/", "/*")));
        check("../other/**/x", Some(("../other", "/**/x")));
        check("a/../../b/*", Some(("a/../../b", "/*")));
        assert!(split("*/../x").is_err());
        assert!(split("..").is_err());
    }
}
