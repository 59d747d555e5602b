//! Which paths outside the project a word of a command may be, or hold.
//!
//! Which of its words a program takes for paths is not known for most. So every word counts as one, and so does what
//! stands in it where a path can begin: behind `=`, `@` or `:`, behind the letters of an option, in a piece of code. A
//! word that may turn out as any text is said to be open.

use std::path::{Path, PathBuf};

use super::paths::{OutsidePaths, PossibleFolders};
use super::programs::listed;
use super::shape::{HOME, NAMES, WORDS, is_open};
use super::values::leads_to_path;
use super::word::CommandWord;
use crate::scope::PathAccess;

/// The longest path that the system takes, in bytes.
const PATH_MAX: usize = 4096;

/// The value of an option is looked for behind this many letters.
const LETTERS_MAX: usize = 16;

/// More pieces of one word are not looked at.
const PIECES_MAX: usize = 2000;

/// Programs that only look at the paths among their words.
const READERS: &str = "\
    cat head tail tac nl less more ls dir tree wc sort diff cmp comm stat du df file strings od xxd hexdump base64 md5sum \
    sha1sum sha256sum find cut paste join column";

/// Those of them whose first word is a pattern or a script, unless an option brings it.
pub(super) const SEARCHERS: &str = "grep egrep fgrep zgrep rg ag sed awk gawk mawk jq";

/// Programs that make, change or remove the paths among their words, or work there.
pub(super) const WRITERS: &str = "\
    cd pushd rm rmdir unlink shred truncate cp mv ln link install mkdir mkfifo mknod mktemp touch tee sponge dd split \
    csplit patch chmod chown chgrp chattr setfacl rsync zip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd 7z 7za 7zz \
    cpio strip objcopy dos2unix unix2dos rustfmt gofmt black isort prettier clang-format";

/// Commands that open nothing: they only repeat, compare or count what they are given.
const TALKERS: &str = "\
    echo printf test [ true false : read set exit return kill sleep seq expr basename dirname realpath readlink which \
    type tr wait pwd umask";

/// Programs to which a slash alone is a separator.
const SEPARATED: &str = "awk gawk mawk cut sort paste join column";

/// What a program does with the paths among its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathUse {
    /// Nothing.
    Talks,
    Reads,
    Writes,
    /// It is not known. It is taken to read, and also to write what git keeps.
    Unknown,
}

impl PathUse {
    /// What the program of this name does.
    pub(super) fn of(name: &str) -> Self {
        if listed(WRITERS, name) {
            Self::Writes
        } else if listed(READERS, name) || listed(SEARCHERS, name) {
            Self::Reads
        } else if listed(TALKERS, name) {
            Self::Talks
        } else {
            Self::Unknown
        }
    }
}

/// What is known of the paths that a word may be, or hold.
#[derive(Debug, Default)]
pub(super) struct PathMention {
    /// Those outside the project.
    pub(super) outside: OutsidePaths,
    /// There may be others.
    pub(super) open: bool,
}

impl PathMention {
    /// Whether a word that is only known later may lead anywhere: a variable may hold `..`, and so may alternatives.
    pub(super) fn leads(&self, word: &CommandWord) -> bool {
        let valued = word.prefix.starts_with('-') || word.prefix.contains('=');
        let alternatives = word.text.contains('{') && (word.text.contains(',') || word.text.contains(".."));
        let open = alternatives && self.open || valued || word.text.contains(['$', '`', '<']);
        word.value.is_none() && (open || !self.outside.is_empty())
    }
}

/// Where in a word a path may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathLead {
    /// At its start.
    Word,
    /// As the value of an option or a variable.
    Value,
    /// As the address of a file.
    Address,
    /// Elsewhere.
    Inner,
}

impl PossibleFolders<'_> {
    /// The paths that a word of this shape may lead a program to.
    pub(super) fn mention(&self, name: &str, uses: PathUse, shape: &str) -> PathMention {
        let mut found = PathMention::default();
        if uses == PathUse::Talks {
            // The shell itself looks for names.
            if shape.contains(NAMES) {
                found.open = shape.contains(is_open);
                self.judge(PathLead::Word, shape, (name, uses), &mut found);
            }
            return found;
        }
        found.open = shape.contains(is_open) && !(uses == PathUse::Unknown && is_address(shape));
        let pieces = pieces(shape);
        found.open |= pieces.len() > PIECES_MAX || is_disguised(shape);
        for (lead, piece) in pieces.into_iter().take(PIECES_MAX) {
            self.judge(lead, piece, (name, uses), &mut found);
        }
        found.open |= self.tired();
        found
    }

    fn judge(&self, lead: PathLead, piece: &str, (name, uses): (&str, PathUse), found: &mut PathMention) {
        let only_slashes = piece.trim_matches('/').is_empty();
        if only_slashes && (piece.is_empty() || lead == PathLead::Inner || listed(SEPARATED, name)) {
            return;
        }
        if piece.len() > PATH_MAX || self.tired() {
            found.open |= piece.contains("..") || piece.starts_with(['/', '~', HOME]) || self.tired();
            return;
        }
        // Of what is only known later, the folder that it begins with.
        let piece = match piece.find(is_open).and_then(|at| piece.get(..at)) {
            Some(known) => known.rfind('/').and_then(|slash| known.get(..=slash)).unwrap_or_default(),
            None => piece,
        };
        let tilde = piece.starts_with(HOME) || piece.starts_with('~') && piece.contains('/');
        let path = piece.replacen(HOME, "~", 1);
        if let Some(before) = piece.find(HOME).and_then(|at| piece.get(..at)).filter(|text| !text.is_empty())
        {
            // Where a path can begin it is a piece of its own.
            found.open |= !before.ends_with(leads_to_path);
            return;
        }
        let gits = path.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
        // With a `=` it is hardly one path as a whole.
        let whole = lead == PathLead::Word && path.split('/').next().is_some_and(|part| part.contains('='));
        let access = match uses {
            _ if whole => PathAccess::Read,
            PathUse::Writes => PathAccess::Write,
            PathUse::Unknown if gits => PathAccess::Write,
            _ => PathAccess::Read,
        };
        // `/api/v1` is hardly meant as a path where there is no `/api`.
        let meant = uses == PathUse::Writes || lead == PathLead::Address || !path.starts_with('/');
        if path.is_empty() || !meant && !begins_somewhere(&path) {
            return;
        }
        match path.find(NAMES) {
            Some(at) => {
                let folder = path.get(..at).and_then(|known| known.rfind('/')).map_or(0, |slash| slash + 1);
                let (folder, rest) = path.split_at_checked(folder).unwrap_or(("", &path));
                let parts: Vec<&str> = rest.split('/').collect();
                found.outside.extend(self.matched(folder, tilde, &parts, access));
            }
            None => found.outside.extend(self.beyond(&path, tilde, access)),
        }
    }

    /// The places outside to which a pattern in a folder may lead.
    fn matched(&self, folder: &str, tilde: bool, parts: &[&str], access: PathAccess) -> OutsidePaths {
        let hidden = |part: &str| {
            let name = part.split(NAMES).next().unwrap_or_default().to_ascii_lowercase();
            name.starts_with('.') && (name.starts_with(".git") || ".git".starts_with(&name))
        };
        let up = |part: &&str| {
            let dots = part.replace(NAMES, "");
            *part == ".." || part.starts_with('.') && part.contains(NAMES) && matches!(&*dots, "." | "..")
        };
        let (first, rest) = parts.split_first().unwrap_or((&"", &[]));
        if rest.iter().any(up) || access == PathAccess::Write && rest.iter().any(|part| hidden(part)) {
            return vec![(PathBuf::from("/"), access)];
        }
        let here = if folder.is_empty() { "./" } else { folder };
        let mut found = self.beyond(here, tilde, access);
        // `.gi?/hooks` may turn out as git's own, and `.*` as the parent.
        if hidden(first) && access == PathAccess::Write {
            found.extend(self.beyond(&format!("{here}.git"), tilde, access));
        }
        if up(first) {
            found.extend(self.beyond(&format!("{here}.."), tilde, access));
        }
        if found.is_empty() {
            for place in self.resolve(here, tilde).unwrap_or_default() {
                self.follow_names(&place, parts, access, &mut found);
            }
        }
        found
    }

    /// Follows a pattern through the folders that are there: a link among the names may lead out.
    fn follow_names(&self, place: &Path, parts: &[&str], access: PathAccess, found: &mut OutsidePaths) {
        let Some((part, rest)) = parts.split_first() else {
            found.extend(place.to_str().map(|path| self.beyond(path, false, access)).unwrap_or_default());
            return;
        };
        let Some((start, end)) = part.split_once(NAMES) else {
            return self.follow_names(&place.join(part), rest, access, found);
        };
        let end = end.rsplit(NAMES).next().unwrap_or_default();
        for entry in place.read_dir().into_iter().flatten().flatten() {
            self.look();
            if self.tired() {
                return;
            }
            let name = entry.file_name();
            let fits = name.to_str().is_none_or(|name| {
                name.starts_with(start)
                    && name.ends_with(end)
                    && (!start.is_empty() || !name.starts_with('.'))
            });
            let kind = entry.file_type().ok();
            let link = kind.is_none_or(|kind| kind.is_symlink());
            if fits && (link || !rest.is_empty() && kind.is_some_and(|kind| kind.is_dir())) {
                self.follow_names(&entry.path(), rest, access, found);
            }
        }
    }
}

/// The pieces of a word that may be paths: the word itself, and what stands where one can begin.
fn pieces(shape: &str) -> Vec<(PathLead, &str)> {
    let mut found = vec![(PathLead::Word, shape)];
    if let Some(letters) = shape.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
        let letter = |(_, c): &(usize, char)| c.is_ascii_alphanumeric();
        let places = letters.char_indices().take(LETTERS_MAX).take_while(letter);
        found.extend(places.filter_map(|(at, _)| Some((PathLead::Value, letters.get(at + 1..)?))));
    }
    let mut rest = shape;
    let mut whole = true;
    while let Some((at, sign)) = rest.char_indices().find(|(_, c)| leads_to_path(*c)) {
        let (before, behind) = rest.split_at_checked(at).unwrap_or((rest, ""));
        rest = behind.get(sign.len_utf8()..).unwrap_or_default();
        if std::mem::take(&mut whole) && sign == '=' {
            found.push((PathLead::Value, rest));
        }
        let end = rest.find(|c: char| leads_to_path(c) || "})]^*?#$\\".contains(c)).unwrap_or(rest.len());
        let piece = rest.get(..end).unwrap_or_default();
        let lead = if sign == '=' { PathLead::Value } else { PathLead::Inner };
        match piece.strip_prefix("//").filter(|_| sign == ':') {
            // An address; only that of a file has a path of this machine, behind the name of a machine.
            Some(address) if before.to_ascii_lowercase().ends_with("file") => {
                let path = address.find('/').and_then(|slash| address.get(slash..));
                found.extend(path.map(|path| (PathLead::Address, path)));
            }
            Some(_) => {}
            None => found.push((lead, piece)),
        }
    }
    found
}

/// Whether a word begins as an address, and what is only known later is a part of that.
fn is_address(shape: &str) -> bool {
    let schemes = ["http://", "https://", "ssh://", "ws://", "wss://"];
    schemes.iter().any(|scheme| shape.starts_with(scheme)) && !shape.contains(WORDS)
}

/// Whether a word holds the address of a file in which characters may stand for others.
fn is_disguised(shape: &str) -> bool {
    shape.contains(['%', '{', '[']) && shape.to_ascii_lowercase().contains("file:")
}

/// Whether the folder at the root that a path begins with is there.
fn begins_somewhere(path: &str) -> bool {
    let first = path.split('/').find(|part| !part.is_empty()).unwrap_or_default();
    first.contains(NAMES) || Path::new("/").join(first).symlink_metadata().is_ok()
}
