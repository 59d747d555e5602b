//! What is remembered of the folders of a project, so that looking again costs one call for each of them.
//!
//! They are kept in the order in which they are looked at, those of one folder in a row, and each by its name alone: with a
//! path for each, a large project took many times the memory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::survey::Changed;

/// What a folder that is looked into is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderKind {
    Ordinary,
    /// It cannot be changed itself.
    Protected,
}

/// What in a folder matters to the sandbox, by real paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FolderFindings {
    pub(super) names: Vec<PathBuf>,
    pub(super) excepted: Vec<PathBuf>,
    pub(super) links: Vec<PathBuf>,
    pub(super) protected_links: Vec<PathBuf>,
    pub(super) protected_files: Vec<PathBuf>,
    pub(super) git: Vec<PathBuf>,
}

/// What was read of a folder: the folders in it that are looked at, by their names in it, and the rest.
#[derive(Debug, Default)]
pub(super) struct FolderContent {
    pub(super) folders: Vec<(PathBuf, FolderKind)>,
    pub(super) findings: FolderFindings,
}

/// The folders of one project.
#[derive(Debug, Default)]
pub(super) struct FolderIndex {
    entries: Vec<FolderEntry>,
    /// Their names, one after the other.
    names: Vec<u8>,
}

/// One folder.
#[derive(Debug)]
struct FolderEntry {
    kind: FolderKind,
    /// When it was changed last; nothing if it may have been changed since without that showing, or was not looked into.
    changed: Option<Changed>,
    inode: u64,
    /// The folder that it lies in.
    above: usize,
    /// Where its name begins, which ends where that of the next one begins.
    name: usize,
    /// The first of the folders in it, and how many there are.
    first: usize,
    count: usize,
    /// Most folders have nothing that matters.
    findings: Option<Box<FolderFindings>>,
}

impl FolderIndex {
    fn push(&mut self, above: usize, name: &[u8], kind: FolderKind) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        let (changed, findings) = (None, None);
        let entry = FolderEntry { kind, changed, inode: 0, above, name: start, first: 0, count: 0, findings };
        self.entries.push(entry);
    }

    fn name(&self, at: usize) -> &[u8] {
        let start = |at: usize| self.entries.get(at).map_or(self.names.len(), |entry| entry.name);
        self.names.get(start(at)..start(at + 1)).unwrap_or_default()
    }

    /// Where a folder is, below the root.
    fn path(&self, mut at: usize) -> PathBuf {
        let mut way = Vec::new();
        while let Some(entry) = self.entries.get(at).filter(|_| at > 0) {
            way.push(OsStr::from_bytes(self.name(at)));
            at = entry.above;
        }
        way.into_iter().rev().collect()
    }
}

/// A look at the folders of a project, one after the other, with what was remembered of them.
#[derive(Debug)]
pub(super) struct FolderWalk {
    old: FolderIndex,
    new: FolderIndex,
    /// Which of the old ones each of the new ones is.
    before: Vec<Option<usize>>,
    /// How many were given.
    given: usize,
}

impl FolderWalk {
    pub(super) fn over(old: FolderIndex) -> Self {
        let mut new = FolderIndex::default();
        new.entries.reserve_exact(old.entries.len());
        new.names.reserve_exact(old.names.len());
        new.push(0, b"", FolderKind::Ordinary);
        Self { old, new, before: vec![Some(0)], given: 0 }
    }

    /// The next folder, below the root, which comes first itself. One of which nothing is said then is looked at again the
    /// next time.
    pub(super) fn next(&mut self) -> Option<(PathBuf, FolderKind)> {
        let kind = self.new.entries.get(self.given)?.kind;
        self.given += 1;
        Some((self.new.path(self.given - 1), kind))
    }

    /// Takes what was in the folder from memory, if it is the same as then.
    pub(super) fn recall(&mut self, changed: Changed, inode: u64) -> bool {
        let at = self.given - 1;
        let Some(was) = self.before.get(at).copied().flatten() else { return false };
        let Some(old) = self.old.entries.get_mut(was) else { return false };
        if old.changed != Some(changed) || old.inode != inode {
            return false;
        }
        let (findings, inner) = (old.findings.take(), old.first..old.first + old.count);
        self.enter(Some(changed), inode, findings, inner.len());
        for was in inner {
            let Some(old) = self.old.entries.get(was) else { continue };
            self.new.push(at, self.old.name(was), old.kind);
            self.before.push(Some(was));
        }
        true
    }

    /// Notes what was read of the folder.
    pub(super) fn learn(&mut self, changed: Option<Changed>, inode: u64, content: FolderContent) {
        let at = self.given - 1;
        let old = self.before.get(at).copied().flatten().and_then(|was| self.old.entries.get(was));
        let inner = old.map_or(0..0, |old| old.first..old.first + old.count);
        let known: HashMap<&[u8], usize> = inner.map(|was| (self.old.name(was), was)).collect();
        let names = content.folders.iter().map(|(name, _)| name.as_os_str().as_bytes());
        self.before.extend(names.map(|name| known.get(name).copied()));
        let findings = Some(content.findings).filter(|findings| *findings != FolderFindings::default());
        self.enter(changed, inode, findings.map(Box::new), content.folders.len());
        for (name, kind) in content.folders {
            self.new.push(at, name.as_os_str().as_bytes(), kind);
        }
    }

    /// Fills in the folder before those in it are added.
    fn enter(
        &mut self,
        changed: Option<Changed>,
        inode: u64,
        findings: Option<Box<FolderFindings>>,
        count: usize,
    ) {
        let first = self.new.entries.len();
        if let Some(entry) = self.new.entries.get_mut(self.given - 1) {
            *entry = FolderEntry { changed, inode, first, count, findings, ..*entry };
        }
    }

    /// What in the folder matters.
    pub(super) fn findings(&self) -> Option<&FolderFindings> {
        self.new.entries.get(self.given - 1)?.findings.as_deref()
    }

    /// What is remembered from now on.
    pub(super) fn end(self) -> FolderIndex {
        self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Changed = (1, 0);

    fn content(folders: &[&str], link: Option<&str>) -> FolderContent {
        let folders = folders.iter().map(|name| (PathBuf::from(name), FolderKind::Ordinary)).collect();
        let links = link.into_iter().map(PathBuf::from).collect();
        FolderContent { folders, findings: FolderFindings { links, ..FolderFindings::default() } }
    }

    /// Goes over a project in which some folders have changed. What had to be read, and what there is, are the result.
    fn walk(
        index: &mut FolderIndex,
        changed: &[&str],
        inner: impl Fn(&str) -> FolderContent,
    ) -> (Vec<String>, Vec<String>) {
        let mut walk = FolderWalk::over(std::mem::take(index));
        let (mut read, mut found) = (Vec::new(), Vec::new());
        while let Some((path, _)) = walk.next() {
            let path = path.display().to_string();
            let now = if changed.contains(&path.as_str()) { (2, 0) } else { OLD };
            if !walk.recall(now, 7) {
                walk.learn(Some(OLD), 7, inner(&path));
                read.push(path.clone());
            }
            let links = walk.findings().map_or(0, |found| found.links.len());
            found.push(format!("{path}:{links}"));
        }
        *index = walk.end();
        (read, found)
    }

    #[test]
    fn only_what_changed_is_read_again() {
        let mut index = FolderIndex::default();
        let first = |path: &str| match path {
            "" => content(&["a", "b/plans", "c"], None),
            "a" => content(&["x", "y"], Some("/a/link")),
            _ => content(&[], None),
        };
        let all = ["", "a", "b/plans", "c", "a/x", "a/y"].map(str::to_owned).to_vec();
        let found = [":0", "a:1", "b/plans:0", "c:0", "a/x:0", "a/y:0"].map(str::to_owned).to_vec();
        assert_eq!(walk(&mut index, &[], first), (all, found.clone()));
        assert_eq!(walk(&mut index, &[], first), (Vec::new(), found));
        // Of what is in a folder that changed, the rest is known still.
        let second = |path: &str| match path {
            "" => content(&["a", "c", "d"], None),
            _ => content(&[], None),
        };
        let read = ["", "d"].map(str::to_owned).to_vec();
        let found = [":0", "a:1", "c:0", "d:0", "a/x:0", "a/y:0"].map(str::to_owned).to_vec();
        assert_eq!(walk(&mut index, &[""], second), (read, found));
    }

    #[test]
    fn a_folder_takes_little_memory() {
        // Each had its whole path, twice, and nine lists: 50,000 of them took 178 MB.
        let mut index = FolderIndex::default();
        let names: Vec<String> = (0..1000).map(|at| format!("folder-{at:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        walk(&mut index, &[], |path| content(if path.is_empty() { &names } else { &[] }, None));
        walk(&mut index, &[], |_| content(&[], None));
        let bytes = index.entries.capacity() * size_of::<FolderEntry>() + index.names.capacity();
        assert_eq!((index.entries.len(), bytes / 1000 <= 100), (1001, true), "{bytes}");
    }
}
