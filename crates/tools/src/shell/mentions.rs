//! Which paths outside the project a word of a command may be, or hold.
//!
//! Which of its words a program takes for paths is not known for most. So every word counts as one, and so does what
//! stands in it where a path can begin: behind `=`, `@` or `:`, behind the letters of an option, in a piece of code. A
//! word is open, and may be any path, if anything in it is only known when the command runs. The one exception are names
//! in a single folder, as in `src/*.rs`: only a link among them leads anywhere else.

use std::path::Path;

use super::paths::{OutsidePaths, PossibleFolders};
use super::programs::listed;
use super::word::CommandWord;
use crate::scope::PathAccess;

/// The longest path that the system takes, in bytes.
const PATH_MAX: usize = 4096;

/// The value of an option is looked for behind this many letters.
const LETTERS_MAX: usize = 16;

/// More pieces of one word are not looked at.
const PIECES_MAX: usize = 2000;

/// Programs that do nothing but read and print, whatever words they get.
const READERS: &str = "\
    cat head tail tac nl ls dir wc cmp comm stat du df strings od hexdump base64 md5sum sha1sum sha256sum cut paste join \
    column grep";

/// Programs that do so unless an option makes them do more.
const LOOKERS: &str = "find sort diff tree file xxd";

/// Those of them whose first word is a pattern or a script, unless an option brings it.
pub(super) const SEARCHERS: &str = "grep zgrep rg ag sed awk jq";

/// Programs that make, change or remove the paths among their words, or work there.
pub(super) const WRITERS: &str = "\
    cd pushd rm rmdir unlink shred truncate cp mv ln link install mkdir mkfifo mknod mktemp touch tee sponge dd split \
    csplit patch chmod chown chgrp chattr setfacl rsync tar unzip zip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd 7z \
    cpio strip objcopy dos2unix unix2dos rustfmt gofmt black isort prettier clang-format";

/// Commands that open nothing: they only repeat, compare or count what they are given.
const TALKERS: &str = "\
    echo printf test [ true false : read set exit return kill sleep seq expr basename dirname realpath readlink which \
    type tr wait pwd umask";

/// Programs to which a slash alone is a separator, and the variables that only a line itself looks at.
const SEPARATED: &str = "= awk cut sort paste join column";

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
        } else if [READERS, LOOKERS, SEARCHERS].iter().any(|list| listed(list, name)) {
            Self::Reads
        } else if listed(TALKERS, name) {
            Self::Talks
        } else {
            Self::Unknown
        }
    }
}

/// Whether no word can make the program of this name do more than read and print.
pub(super) fn only_reads(name: &str) -> bool {
    listed(READERS, name) || listed(TALKERS, name)
}

/// What is known of the paths that a word may be, or hold.
#[derive(Debug, Default)]
pub(super) struct PathMention {
    /// Those outside the project.
    pub(super) outside: OutsidePaths,
    /// There may be others.
    pub(super) open: bool,
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
    /// The paths that a word may lead a program to.
    pub(super) fn mention(&self, name: &str, uses: PathUse, word: &CommandWord) -> PathMention {
        let mut found = PathMention::default();
        let uses = match uses {
            // The shell itself looks for names, in what it splits too.
            PathUse::Talks if word.glob || word.splits => PathUse::Reads,
            PathUse::Talks => return found,
            uses => uses,
        };
        let text = word.known().unwrap_or(&word.prefix);
        let pieces = pieces(text);
        found.open = pieces.len() > PIECES_MAX || is_disguised(text);
        for (lead, piece) in pieces.into_iter().take(PIECES_MAX) {
            // Of what is only known later, the folder that it begins with.
            let folder = piece.rfind('/').and_then(|slash| piece.get(..=slash)).unwrap_or_default();
            let piece = if word.value.is_some() { piece } else { folder };
            let tilde =
                piece.starts_with('~') && (word.tilde || piece.contains('/') || lead == PathLead::Value);
            self.judge(lead, piece, tilde, (name, uses), &mut found);
        }
        let access = if uses == PathUse::Writes { PathAccess::Write } else { PathAccess::Read };
        let known = word.value.is_some() || is_pipe(word) || self.lists(word, access, &mut found);
        found.open |= self.tired() || !known;
        found
    }

    fn judge(
        &self,
        lead: PathLead,
        path: &str,
        tilde: bool,
        (name, uses): (&str, PathUse),
        found: &mut PathMention,
    ) {
        let only_slashes = path.trim_matches('/').is_empty();
        if only_slashes && (path.is_empty() || lead == PathLead::Inner || listed(SEPARATED, name)) {
            return;
        }
        if path.len() > PATH_MAX || self.tired() {
            found.open |= path.contains("..") || path.starts_with(['/', '~']) || self.tired();
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
        if meant || begins_somewhere(path) {
            found.outside.extend(self.beyond(path, tilde, access));
        }
    }

    /// Looks at the links among the names that a word may turn out as; false if it may turn out as anything else.
    fn lists(&self, word: &CommandWord, access: PathAccess, found: &mut PathMention) -> bool {
        let prefix = &word.prefix;
        let start = prefix.rfind('/').map_or(0, |slash| slash + 1);
        let Some((folder, start)) = prefix.split_at_checked(start) else { return false };
        // `.*` may be the parent, and `.g*` is git's own.
        let Some(end) = word.names.as_ref().filter(|_| !start.starts_with('.')) else { return false };
        if !self.beyond(folder, word.tilde, access).is_empty() {
            // Where it was named, so was all that is in it.
            return !found.outside.is_empty();
        }
        let places = self.resolve(folder, word.tilde).unwrap_or_default();
        for entry in places.iter().filter_map(|place| place.read_dir().ok()).flatten().flatten() {
            self.look();
            if self.tired() {
                return false;
            }
            let fits = |name: &str| name.starts_with(start) && name.ends_with(end);
            let fits = entry.file_name().to_str().is_none_or(fits);
            if fits && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                let Some(path) = entry.path().to_str().map(str::to_owned) else { return false };
                found.outside.extend(self.beyond(&path, false, access));
            }
        }
        true
    }
}

/// Whether a path can begin behind this character.
fn leads_to_path(c: char) -> bool {
    c.is_whitespace() || "=:,@([{<>|;&'\"`!".contains(c)
}

/// Whether a word is the path that the shell makes of something that is open already.
fn is_pipe(word: &CommandWord) -> bool {
    word.text.starts_with("<(") && word.text.ends_with(')') && !word.splits
}

/// The pieces of a word that may be paths: the word itself, and what stands where one can begin.
fn pieces(text: &str) -> Vec<(PathLead, &str)> {
    let mut found = vec![(PathLead::Word, text)];
    if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
        let letter = |(_, c): &(usize, char)| c.is_ascii_alphanumeric();
        let places = letters.char_indices().take(LETTERS_MAX).take_while(letter);
        found.extend(places.filter_map(|(at, _)| Some((PathLead::Value, letters.get(at + 1..)?))));
    }
    let mut rest = text;
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

/// Whether a word holds the address of a file in which characters may stand for others.
fn is_disguised(text: &str) -> bool {
    text.contains(['%', '{', '[']) && text.to_ascii_lowercase().contains("file:")
}

/// Whether the folder at the root that a path begins with is there.
fn begins_somewhere(path: &str) -> bool {
    let first = path.split('/').find(|part| !part.is_empty()).unwrap_or_default();
    Path::new("/").join(first).symlink_metadata().is_ok()
}
