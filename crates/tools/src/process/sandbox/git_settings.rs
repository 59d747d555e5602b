//! Settings of git's: which run nothing, and what the others name.

use std::fs::File;
use std::io::{self, Read as _};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

/// The most that is read of a file of settings. One that is longer could name anything in the rest.
const LONGEST: u64 = 1024 * 1024;

/// How many files include one another.
const MOST_FILES: usize = 64;

/// Sections of git's settings of which no key runs a program, and no value names one.
const HARMLESS_SECTIONS: [&str; 11] =
    ["advice", "branch", "color", "column", "extensions", "fetch", "index", "pack", "pull", "push", "status"];

/// Harmless keys of other sections.
const HARMLESS_KEYS: [(&str, &[&str]); 22] = [
    (
        "blame",
        &["coloring", "date", "ignorerevsfile", "markignoredlines", "markunblamablelines", "showemail"],
    ),
    ("commit", &["cleanup", "gpgsign", "status", "template", "verbose"]),
    (
        "core",
        &[
            "abbrev",
            "attributesfile",
            "autocrlf",
            "bare",
            "checkstat",
            "commentchar",
            "commitgraph",
            "compression",
            "eol",
            "excludesfile",
            "filemode",
            "fscache",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
            "worktree",
        ],
    ),
    ("credential", &["usehttppath", "username"]),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "colormovedws",
            "context",
            "ignoresubmodules",
            "indentheuristic",
            "mnemonicprefix",
            "noprefix",
            "renamelimit",
            "renames",
            "submodule",
            "wserrorhighlight",
        ],
    ),
    ("gc", &["auto", "autodetach", "pruneexpire", "reflogexpire"]),
    // Of git-flow's, which names branches. Its hooks are elsewhere.
    (
        "gitflow",
        &["bugfix", "develop", "feature", "hotfix", "main", "master", "release", "support", "versiontag"],
    ),
    ("gpg", &["format", "mintrustlevel"]),
    ("grep", &["column", "extendedregexp", "fullname", "linenumber", "patterntype"]),
    ("init", &["defaultbranch"]),
    ("log", &["abbrevcommit", "date", "decorate", "follow", "mailmap", "showsignature"]),
    ("mailmap", &["blob", "file"]),
    ("maintenance", &["auto", "autodetach", "repo", "strategy"]),
    (
        "merge",
        &["autostash", "conflictstyle", "directoryrenames", "ff", "log", "renamelimit", "renames", "stat"],
    ),
    ("rebase", &["autosquash", "autostash", "missingcommitscheck", "rebasemerges", "stat", "updaterefs"]),
    ("remote", &["fetch", "mirror", "partialclonefilter", "promisor", "prune", "pushurl", "tagopt", "url"]),
    ("rerere", &["autoupdate", "enabled"]),
    ("safe", &["directory"]),
    ("stash", &["showincludeuntracked", "showpatch", "showstat"]),
    ("submodule", &["active", "branch", "url"]),
    ("tag", &["forcesignannotated", "gpgsign", "sort"]),
    ("user", &["email", "name", "signingkey", "useconfigonly"]),
];

/// Keys that name a folder of the work tree, also by a bare word: git runs what it finds there, or copies it to where it
/// does.
const FOLDERS: [(&str, &str); 2] = [("core", "hookspath"), ("init", "templatedir")];

/// Whether no value of a setting runs anything.
pub(super) fn is_harmless(section: &str, key: &str) -> bool {
    HARMLESS_SECTIONS.contains(&section)
        || HARMLESS_KEYS.iter().any(|(name, keys)| *name == section && keys.contains(&key))
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GitSetting {
    /// In small letters, without what is quoted behind it.
    section: String,
    /// In small letters.
    key: String,
    value: String,
}

/// What a setting names that may make git run something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NamedPlace {
    /// Whatever is at a path, or could be made there.
    Path(String),
    /// A word with a slash in it: a file, or one that could be made.
    File(String),
    /// Other words that count if they are a file that is there.
    Word(String),
}

/// What files of settings say.
#[derive(Debug, Default)]
pub(super) struct NamedPlaces {
    /// Other files of settings that they include, whether or not they are there.
    pub(super) files: Vec<PathBuf>,
    /// What they name, relative to where git runs it.
    pub(super) places: Vec<NamedPlace>,
    /// Where they say that the work tree is.
    pub(super) work_tree: Option<String>,
}

impl NamedPlaces {
    /// Reads a file of settings, and those that it includes, under whatever condition. Nothing is there if it is not.
    pub(super) fn of(file: &Path, home: Option<&Path>) -> io::Result<Self> {
        let mut found = Self::default();
        let mut next = vec![file.to_owned()];
        while let Some(file) = next.pop() {
            for setting in parse(&content(&file)?) {
                let GitSetting { section, key, value } = setting;
                if matches!(section.as_str(), "include" | "includeif") && key == "path" {
                    let path = match (value.strip_prefix("~/"), home, file.parent()) {
                        (Some(below), Some(home), _) => home.join(below),
                        (_, _, Some(above)) => above.join(value),
                        _ => continue,
                    };
                    if found.files.len() >= MOST_FILES {
                        return Err(too_much(&path));
                    }
                    if !found.files.contains(&path) {
                        found.files.push(path.clone());
                        next.push(path);
                    }
                } else if section == "core" && key == "worktree" {
                    found.work_tree = Some(value);
                } else if !is_harmless(&section, &key) {
                    found.name(&section, &key, &value);
                }
            }
        }
        Ok(found)
    }

    /// Takes down what a setting may name. A bare word at the beginning is looked up among programs, or known to git alone,
    /// unless the key says that it is a file, such as that of signers whom git trusts.
    fn name(&mut self, section: &str, key: &str, value: &str) {
        if FOLDERS.contains(&(section, key)) {
            self.places.push(NamedPlace::Path(value.to_owned()));
            return;
        }
        // Another alias is a command of git's own, which runs programs because of these options.
        let runs = |word: &str| ["-c", "-x", "--exec"].iter().any(|option| word.starts_with(option));
        if section == "alias" && !value.starts_with('!') && !value.split_whitespace().any(runs) {
            return;
        }
        let is_edge = |letter: char| letter.is_whitespace() || "\"'`;|&()<>=,:!{}".contains(letter);
        let words = value.split(is_edge).map(|word| word.strip_prefix("-x").unwrap_or(word));
        let words = words.filter(|word| !word.is_empty());
        self.places.extend(words.enumerate().filter_map(|(at, word)| match word.contains('/') {
            true => Some(NamedPlace::File(word.to_owned())),
            false => (at > 0 || key.ends_with("file")).then(|| NamedPlace::Word(word.to_owned())),
        }));
        // A path can have spaces in it.
        if value.contains('/') && value.contains(is_edge) {
            self.places.push(NamedPlace::Word(value.to_owned()));
        }
    }
}

/// The text of a file of settings; none if there is no such file.
fn content(path: &Path) -> io::Result<String> {
    let file = match open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        // What this account cannot read, its git cannot either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => {
            return Ok(String::new());
        }
        other => other?,
    };
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = File::from(file).take(LONGEST).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read >= LONGEST) {
        return Err(too_much(path));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn too_much(path: &Path) -> io::Error {
    let text = format!("{} says too much to look for what git would run because of it", path.display());
    io::Error::other(text)
}

/// Takes settings apart as git does. What it would not read at all is passed over.
fn parse(text: &str) -> Vec<GitSetting> {
    let mut settings = Vec::new();
    let mut section = String::new();
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '#' | ';' => skip_line(&mut letters),
            '[' => section = parse_section(&mut letters),
            letter if letter.is_ascii_alphanumeric() => {
                let mut key = String::from(letter.to_ascii_lowercase());
                while let Some(letter) =
                    letters.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
                {
                    key.push(letter.to_ascii_lowercase());
                }
                while letters.next_if(|letter| matches!(letter, ' ' | '\t')).is_some() {}
                let has_value = letters.next_if_eq(&'=').is_some();
                let value = if has_value { parse_value(&mut letters) } else { String::new() };
                settings.push(GitSetting { section: section.clone(), key, value });
            }
            _ => {}
        }
    }
    settings
}

fn skip_line(letters: &mut Peekable<Chars<'_>>) {
    while letters.next().is_some_and(|letter| letter != '\n') {}
}

/// The name of a section, without the part behind it.
fn parse_section(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut name = String::new();
    let (mut is_name, mut is_quoted) = (true, false);
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if is_quoted => drop(letters.next()),
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => break,
            '\n' => break,
            letter if is_name && (letter.is_ascii_alphanumeric() || letter == '-') => {
                name.push(letter.to_ascii_lowercase());
            }
            _ => is_name = false,
        }
    }
    name
}

/// A value, without its quotes, up to the end of the line or a comment.
fn parse_value(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut value = String::new();
    let mut is_quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => break,
            '#' | ';' if !is_quoted => {
                skip_line(letters);
                break;
            }
            '"' => is_quoted = !is_quoted,
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some('\r') => drop(letters.next_if_eq(&'\n')),
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') => drop(value.pop()),
                Some(other) => value.push(other),
            },
            other => value.push(other),
        }
    }
    value.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        for text in [
            "[core]\n\thooksPath = a/b\n",
            "[Core] HooksPath=a/b # x\n",
            "\u{feff}[core \"x\\\"]\"]\nhooksPath = \"a/\"b ; x",
            "[core.x]\r\nhooksPath = a\\\n/b\r\n",
            "; [x]\n[user]\nname = \"# x\"\n[core]\nbare\nhooksPath = a/b",
        ] {
            std::fs::write(&file, text).unwrap();
            let settings = parse(text);
            let last = settings.last().map(|setting| (setting.section.as_str(), setting.key.as_str()));
            assert_eq!(last, Some(("core", "hookspath")), "{text}");
            let found = NamedPlaces::of(&file, None).unwrap();
            assert_eq!(found.places, [NamedPlace::Path("a/b".to_owned())], "{text}");
        }
    }

    #[test]
    fn git_itself_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = "[a]\n\tone = \"x y\" z\n[b \"s\"] two = 'q' \\\n  r ; c\n[c]\n\tthree=\\\"v\\\"\\\\w\n[d.e]four = # none\n";
        std::fs::write(&file, text).unwrap();
        let mut git = std::process::Command::new("git");
        let done = git.args(["config", "--null", "--list", "--file"]).arg(&file).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        let values: Vec<&str> =
            said.split_terminator('\0').filter_map(|one| Some(one.split_once('\n')?.1)).collect();
        let ours: Vec<String> = parse(text).into_iter().map(|setting| setting.value).collect();
        assert_eq!(ours, values);
        assert_eq!(values.len(), 4);
    }

    #[test]
    fn what_is_too_much_is_no_settings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "#".repeat(2 * 1024 * 1024)).unwrap();
        assert!(NamedPlaces::of(&file, None).is_err());
        // A file that includes itself is read once.
        std::fs::write(&file, "[include]\n\tpath = config\n").unwrap();
        assert_eq!(NamedPlaces::of(&file, None).unwrap().files, std::slice::from_ref(&file));
        assert_eq!(NamedPlaces::of(folder.path(), None).unwrap().files, Vec::<PathBuf>::new());
        let include = |count: usize| {
            let all: String = (0..count).map(|number| format!("[include]\n\tpath = {number}\n")).collect();
            std::fs::write(&file, all).unwrap();
            NamedPlaces::of(&file, None).map(|found| found.files.len()).ok()
        };
        assert_eq!([MOST_FILES, MOST_FILES + 1].map(include), [Some(MOST_FILES), None]);
    }

    #[test]
    fn what_a_setting_names_is_found_among_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let check = |text: &str, expected: &[NamedPlace]| {
            std::fs::write(&file, text).unwrap();
            assert_eq!(NamedPlaces::of(&file, None).unwrap().places, expected, "{text}");
        };
        let path = |text: &str| NamedPlace::File(text.to_owned());
        let word = |text: &str| NamedPlace::Word(text.to_owned());
        check("[core]\n\tpager = less tools/x y\n", &[path("tools/x"), word("y"), word("less tools/x y")]);
        check("[core]\n\tfsmonitor = \"my tools/x\"\n", &[path("tools/x"), word("my tools/x")]);
        check("[core]\n\tpager = tools/x\n", &[path("tools/x")]);
        check("[credential]\n\thelper = ./x\n\tusername = a/b\n", &[path("./x")]);
    }

    #[test]
    fn files_of_settings_are_included_under_every_condition() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "[include]\n\tpath = one\n[includeIf \"gitdir:/x\"]\n\tpath = ~/two\n[includeIf]\n\tother = three\n";
        std::fs::write(path("config"), text).unwrap();
        let mut found = NamedPlaces::of(&path("config"), Some(&path("home"))).unwrap();
        found.files.sort();
        assert_eq!(found.files, [path("home/two"), path("one")]);
    }
}
