//! The paths that commands name, and which folder they are relative to.
//!
//! Arguments of programs that are known to take paths are looked at as paths; those of others where they can hardly
//! be anything else. A line may change folders on the way. Since loops and conditions decide whether it does, every
//! path is then resolved from each of them, unless nothing at all runs where the line was before.

use std::cell::Cell;
use std::path::{Component, Path, PathBuf};

use crate::scope::{PathAccess, Scope, real};

use super::programs::listed;
use super::repositories;
use super::word::CommandWord;

/// More folders than this are not followed.
const FOLDERS_MAX: usize = 8;

/// Programs that only look at the paths among their arguments.
const READERS: &str = "\
    cat head tail tac nl less more ls dir tree wc sort diff cmp comm stat du df file strings od xxd hexdump base64 md5sum \
    sha1sum sha256sum find";

/// Those whose first word is a pattern or a script, unless an option brings it.
const SEARCHERS: &str = "grep egrep fgrep zgrep rg ag sed awk gawk mawk jq";

/// Programs that make, change or remove the paths among their arguments, or work there.
const WRITERS: &str = "\
    cd pushd rm rmdir unlink shred truncate cp mv ln link install mkdir mkfifo mknod mktemp touch tee sponge dd split \
    csplit patch chmod chown chgrp chattr setfacl rsync zip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd 7z 7za 7zz \
    cpio strip objcopy dos2unix unix2dos rustfmt gofmt black isort prettier clang-format";

/// Commands that only repeat or compare what they are given.
const TALKERS: &str = "\
    echo printf test [ true false : read set export exit return kill sleep seq expr basename dirname realpath readlink \
    which type date tr cut";

/// What a program does to the paths among its arguments, and whether the first word is one.
fn access(name: &str) -> Option<(PathAccess, bool)> {
    if listed(WRITERS, name) {
        Some((PathAccess::Write, true))
    } else if listed(READERS, name) {
        Some((PathAccess::Read, true))
    } else {
        listed(SEARCHERS, name).then_some((PathAccess::Read, false))
    }
}

/// The folders that a line may be in.
#[derive(Debug)]
pub(super) struct PossibleFolders<'a> {
    scope: &'a Scope,
    known: Vec<PathBuf>,
    /// A folder cannot be told.
    pub(super) lost: bool,
    /// Nothing runs in the known folders any more once the line goes to another one.
    pub(super) left: bool,
    /// The line goes up from a folder, which a loop may repeat.
    pub(super) climbs: bool,
    /// A path goes up from something that is not a folder yet: if the line makes it a link, the path leads elsewhere.
    pub(super) unfounded: Cell<bool>,
}

impl<'a> PossibleFolders<'a> {
    pub(super) fn new(workdir: &Path, scope: &'a Scope) -> Self {
        Self {
            scope,
            known: vec![workdir.to_owned()],
            lost: false,
            left: false,
            climbs: false,
            unfounded: Cell::new(false),
        }
    }

    /// Whether a relative path means the same as in the folder where the session works.
    pub(super) fn home(&self) -> bool {
        !self.lost && self.known == [self.scope.directory.clone()]
    }

    /// Whether git would find another repository than the project's own in one of the folders.
    pub(super) fn foreign(&self) -> bool {
        self.lost || self.known.iter().any(|folder| repositories::foreign(folder, self.scope))
    }

    /// Whether one of the folders is not the project's root, where `.git` is the project's own.
    pub(super) fn deeper(&self) -> bool {
        self.lost || self.known.iter().any(|folder| *folder != self.scope.worktree)
    }

    /// Whether a program that writes may be led to any file by a word that is only known later.
    pub(super) fn uncertain(&self, name: &str, arguments: &[CommandWord]) -> bool {
        listed(WRITERS, name) && !matches!(name, "cd" | "pushd") && arguments.iter().any(may_be_anywhere)
    }

    /// Whether a program may put files into folders of the project that make a repository of them.
    pub(super) fn fills(name: &str, arguments: &[CommandWord]) -> bool {
        let archives = "tar bsdtar gtar unzip bsdcpio unar curl wget";
        let others = "cd pushd rm rmdir unlink shred truncate chmod chown chgrp chattr setfacl mktemp touch";
        // Content cannot bring empty folders, but the line can.
        let needed = |word: &CommandWord| {
            word.known().is_none_or(|text| text.split('/').any(|part| matches!(part, "objects" | "refs")))
        };
        match name {
            "mkdir" => arguments.iter().any(needed),
            _ => listed(archives, name) || listed(WRITERS, name) && !listed(others, name),
        }
    }

    /// Follows a command that changes folders.
    pub(super) fn enter(&mut self, arguments: &[CommandWord]) {
        let target: Vec<&CommandWord> =
            arguments.iter().filter(|word| !matches!(word.known(), Some("-L" | "--"))).collect();
        let text = match target.as_slice() {
            [] => Some("~"),
            [one] => one.known().filter(|text| !text.starts_with(['-', '+'])),
            _ => None,
        };
        let tilde = target.is_empty() || target.iter().all(|word| word.tilde);
        let Some(places) = text.and_then(|text| self.resolve(text, tilde)) else {
            self.lost = true;
            return;
        };
        self.climbs |= text.is_some_and(|text| text.split('/').any(|part| part == ".."));
        if self.left {
            self.known.clear();
        }
        for place in places {
            if !self.known.contains(&place) {
                self.known.push(place);
            }
        }
        self.lost |= self.known.len() > FOLDERS_MAX;
    }

    /// Where a path may be; nothing if that cannot be told. `..` behind a link is the parent of where the link leads,
    /// but `cd` takes it for the parent of the link.
    pub(super) fn resolve(&self, path: &str, tilde: bool) -> Option<Vec<PathBuf>> {
        let (folders, path) = if tilde {
            let rest = path.strip_prefix('~')?;
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
            let home = Some(&self.scope.home).filter(|home| home.is_absolute())?;
            (vec![home.clone()], rest.trim_start_matches('/'))
        } else {
            (self.known.clone(), path)
        };
        let mut places = Vec::new();
        for folder in folders {
            let written = Scope { directory: folder.clone(), ..self.scope.clone() }.resolve(path);
            let followed = climbs(path).then(|| follow(&folder, path)).flatten();
            self.unfounded.set(self.unfounded.get() || climbs(path) && followed.is_none());
            let other = followed.filter(|followed| real(followed) != real(&written));
            places.extend([Some(written), other].into_iter().flatten());
        }
        Some(places)
    }

    /// The paths outside the project among a command's arguments.
    pub(super) fn outside(&self, name: &str, arguments: &[CommandWord]) -> Vec<(PathBuf, PathAccess)> {
        let Some((access, first)) = access(name) else {
            return if listed(TALKERS, name) { Vec::new() } else { self.mentioned(arguments) };
        };
        let mut found: Vec<(PathBuf, PathAccess)> = Vec::new();
        if name == "cd" && arguments.is_empty() {
            found.extend(self.beyond("~", true, access));
        }
        let scripts = ["-e", "-f", "--regexp", "--file", "--expression", "--from-file"];
        let brought = arguments.iter().filter_map(CommandWord::known).any(|text| {
            scripts.iter().any(|option| text.starts_with(option)) || name == "rg" && text == "--files"
        });
        let mut skip = !first && !brought;
        let mut options = true;
        for word in arguments {
            let Some(text) = word.known() else {
                if !std::mem::take(&mut skip) {
                    found.extend(self.beyond_prefix(word, access));
                }
                continue;
            };
            if options && text == "--" {
                options = false;
            } else if options && text.starts_with('-') && text.len() > 1 {
                // What follows are tests, and no paths any more.
                if name == "find" && !matches!(text, "-H" | "-L" | "-P") {
                    break;
                }
                if access == PathAccess::Write {
                    found.extend(joined(text).flat_map(|value| self.beyond(value, false, access)));
                }
            } else if !std::mem::take(&mut skip) {
                let operand =
                    if name == "dd" { text.split_once('=').map_or(text, |(_, path)| path) } else { text };
                found.extend(self.beyond(operand, word.tilde, access));
            }
        }
        found
    }

    /// What any program is given that looks like a path, and leads out of the project and could be there, or to what
    /// git keeps.
    fn mentioned(&self, arguments: &[CommandWord]) -> Vec<(PathBuf, PathAccess)> {
        let mut found = Vec::new();
        for word in arguments {
            let text = word.known().unwrap_or(&word.prefix);
            let option = text.starts_with('-');
            let Some(path) = (if option { text.split_once('=').map(|(_, value)| value) } else { Some(text) })
            else {
                continue;
            };
            // It may be written to as well.
            if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
                found.extend(self.beyond(path, word.tilde, PathAccess::Write));
                continue;
            }
            if !(word.tilde || path.starts_with('/') || path.split('/').next() == Some("..")) {
                continue;
            }
            let places = match word.known() {
                Some(_) => self.beyond(path, word.tilde, PathAccess::Read),
                None => self.beyond_prefix(word, PathAccess::Read),
            };
            // Here nobody says that it is a path at all.
            found.extend(places.into_iter().filter(|(place, _)| plausible(place)));
        }
        found
    }

    /// The folder that a path begins with whose end is only known later.
    pub(super) fn beyond_prefix(&self, word: &CommandWord, access: PathAccess) -> Vec<(PathBuf, PathAccess)> {
        let bare = word.text.trim_start_matches('"');
        let home = ["$HOME", "${HOME}"].iter().any(|name| bare.starts_with(name));
        // `.gi?/hooks` may turn out as git's own.
        let (folder, name) = word.prefix.rsplit_once('/').unwrap_or((".", &word.prefix));
        if name.starts_with('.') && ".git".starts_with(&name.to_ascii_lowercase()) {
            return self.beyond(&format!("{folder}/.git"), word.tilde, access);
        }
        if wanders(word) {
            return vec![(PathBuf::from("/"), access)];
        }
        match word.prefix.rsplit_once('/') {
            Some((folder, _)) => self.beyond(&format!("{folder}/"), word.tilde, access),
            None if home => self.beyond("~", true, access),
            None => Vec::new(),
        }
    }

    /// Where a path may be, as far as that is outside the project, or git's own and to be changed.
    pub(super) fn beyond(&self, path: &str, tilde: bool, access: PathAccess) -> Vec<(PathBuf, PathAccess)> {
        let places = self.resolve(path, tilde).unwrap_or_else(|| vec![PathBuf::from("/")]);
        places
            .into_iter()
            .filter(|place| !device(place, access) && self.scope.external(place, access).is_some())
            .map(|place| (place, access))
            .collect()
    }
}

/// Whether a path goes up from a folder that it names itself.
fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Where the system finds a path, links followed before `..`; nothing if it goes up from something that is not a folder
/// yet.
fn follow(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    let mut named = false;
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                let from = real(&place);
                if named && !from.is_dir() {
                    return None;
                }
                place = from.parent().unwrap_or(&from).to_owned();
            }
            Component::Normal(name) => {
                place.push(name);
                named = true;
            }
            Component::RootDir => place = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(place)
}

/// Whether a text that begins with a slash is meant as a path: `/etc/x` may be one, `/api/v1` is not.
fn plausible(place: &Path) -> bool {
    let Some(folder) = place.parent() else { return false };
    folder.parent().is_some() && folder.is_dir() || place.symlink_metadata().is_ok()
}

/// What an option may have as its value: behind `=`, or behind any of its letters.
fn joined(option: &str) -> impl Iterator<Item = &str> {
    let letters = option.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    let joined = letters
        .char_indices()
        .take_while(|(_, letter)| letter.is_ascii_alphanumeric())
        .filter_map(|(at, _)| letters.get(at + 1..));
    joined.chain(option.split_once('=').map(|(_, value)| value))
}

/// Whether nothing is certain about the folder that a path is in: a variable may hold `..`, and so may alternatives.
/// Names of files that a pattern finds do not begin with a dot.
pub(super) fn may_be_anywhere(word: &CommandWord) -> bool {
    if word.value.is_some() {
        return false;
    }
    let anywhere = word.prefix.split('/').all(|part| matches!(part, "" | "." | ".."));
    let alternatives = word.text.contains('{') && (word.text.contains(',') || word.text.contains(".."));
    let valued = word.prefix.starts_with('-') || word.prefix.contains('=');
    valued || anywhere && alternatives || wanders(word) || word.text.contains(['$', '`', '<'])
}

/// Whether a pattern or alternatives are followed by `..` or by a folder of git's, or may be.
fn wanders(word: &CommandWord) -> bool {
    if word.value.is_some() {
        return false;
    }
    let bare: String = word.text.chars().filter(|c| !"'\"\\".contains(*c)).collect();
    let Some((_, tail)) = bare.split_once(['*', '?', '[', '{']) else { return false };
    let hidden = tail.split(['/', '{', ',']).any(|part| {
        let end = part.find(['*', '?', '[', '}']).unwrap_or(part.len());
        let name = part.get(..end).unwrap_or_default().to_ascii_lowercase();
        name.starts_with('.') && (name.starts_with(".git") || ".git".starts_with(&name))
    });
    // `{1..3}` gives just these numbers.
    let spans = |(at, _): (usize, &str)| {
        let plain = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let (before, after) = tail.split_at_checked(at).unwrap_or((tail, ""));
        !(plain(before.chars().next_back()) && plain(after.chars().nth(2)))
    };
    hidden || tail.match_indices("..").any(spans)
}

/// Devices that keep nothing, and descriptors that are open already. Those for reading may be files, and opening them
/// by name to write writes the file.
pub(super) fn device(path: &Path, access: PathAccess) -> bool {
    let text = path.to_string_lossy();
    if access == PathAccess::Write {
        return matches!(
            &*text,
            "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/full"
        );
    }
    matches!(&*text, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/full")
        || text
            .strip_prefix("/dev/fd/")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}
