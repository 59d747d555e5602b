//! What a revert does to the files: which are put back, from which tree, and which are left alone because the person
//! changed them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use everturn_model::part::PartKind;
use everturn_model::session::{FileDiff, Revert, RevertedFile};
use everturn_model::{EntryId, Tree, path};
use everturn_tools::Snapshots;
use everturn_tools::snapshot::{SnapshotError as Trouble, SnapshotPlan, TreeId};

use crate::Error;
use crate::turn::diffs;

/// One step that a revert takes back.
#[derive(Debug, Default)]
pub(super) struct UndoneStep {
    before: Option<TreeId>,
    after: Option<TreeId>,
    files: Vec<PathBuf>,
}

/// The steps that a revert takes back, oldest first.
pub(super) fn undone_steps(tree: &Tree, boundary: &EntryId, worktree: &Path) -> Vec<UndoneStep> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    let mut steps = Vec::new();
    for node in path.into_iter().skip_while(|node| &node.entry.id != boundary) {
        let mut step = UndoneStep::default();
        // The session may have been moved since: then so were the files.
        let root = node.entry.body.assistant().and_then(|assistant| assistant.root.as_deref());
        for part in &node.parts {
            match &part.kind {
                PartKind::StepStart { snapshot } => {
                    // An imported answer may hold several steps.
                    steps.push(std::mem::take(&mut step));
                    step.before = parse(snapshot.as_deref());
                }
                PartKind::StepFinish { snapshot, .. } => step.after = parse(snapshot.as_deref()),
                // What a step that was stopped left behind.
                PartKind::Snapshot { snapshot } => step.after = parse(Some(snapshot)),
                PartKind::Patch { files, .. } => {
                    let now = |file: &String| {
                        let file = Path::new(file);
                        let below = root.and_then(|root| file.strip_prefix(root).ok());
                        worktree.join(below.unwrap_or(file))
                    };
                    step.files.extend(files.iter().map(now));
                }
                _ => {}
            }
        }
        steps.push(step);
    }
    steps.retain(|step| step.before.is_some() || step.after.is_some());
    steps
}

fn parse(tree: Option<&str>) -> Option<TreeId> {
    tree?.parse().ok()
}

/// How much the steps changed in all, as clients are told.
pub(super) fn undone_changes(snapshots: &Snapshots, steps: &[UndoneStep]) -> Vec<FileDiff> {
    let first = steps.iter().find_map(|step| step.before.as_ref());
    let last = steps.iter().rev().find_map(|step| step.after.as_ref());
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    diffs(snapshots, first.as_str(), last.as_str()).unwrap_or_default()
}

/// What is to be done to the files.
#[derive(Debug)]
pub(super) struct RestorePlan {
    /// The files before the first stage.
    original: TreeId,
    /// What to put where. A file that the original has again is as if never touched.
    plan: SnapshotPlan,
    /// The files that the earlier stage put back, each with the trees that it may be from.
    earlier: BTreeMap<PathBuf, BTreeSet<TreeId>>,
    /// Files that are left alone: the person changed them, or there is nothing to take them from.
    left: BTreeSet<PathBuf>,
}

/// What was done to the files.
#[derive(Debug)]
pub(super) struct RestoreOutcome {
    pub(super) restored: Vec<RevertedFile>,
    pub(super) skipped: Vec<String>,
    pub(super) diff: String,
}

impl RestorePlan {
    /// Plans to undo an earlier stage and some steps, as one change from the files as they are now.
    pub(super) fn plan(
        snapshots: &Snapshots,
        steps: &[UndoneStep],
        earlier: Option<&Revert>,
    ) -> Result<Self, Error> {
        let now = snapshots.capture()?;
        let mut trees = TreeComparisons { snapshots, differing: HashMap::new() };
        let original = earlier.and_then(|earlier| parse(earlier.snapshot.as_deref()));
        // A revert that came with an imported session names trees that are not here.
        let known = match original {
            Some(original) if trees.differing(&now, &original)?.is_some() => Some(original),
            _ => None,
        };
        let mut left = BTreeSet::new();
        let earlier = match (earlier, &known) {
            (Some(earlier), Some(original)) => put_back(&mut trees, earlier, original)?,
            (Some(earlier), None) => {
                left.extend(earlier.restored.iter().map(|restored| PathBuf::from(&restored.file)));
                BTreeMap::new()
            }
            (None, _) => BTreeMap::new(),
        };
        let original = known.unwrap_or_else(|| now.clone());
        let mut goals = BTreeMap::new();
        for (file, from) in &earlier {
            let mut ours = trees.same(&now, &original, file)?;
            for tree in from {
                ours = ours || trees.same(&now, tree, file)?;
            }
            if ours {
                goals.insert(file.clone(), original.clone());
            } else {
                left.insert(file.clone());
            }
        }
        for (file, (first, last)) in touched(steps) {
            if left.contains(file) {
                continue;
            }
            // What the agent left is what may be replaced, and nothing that came after it.
            let ours = goals.contains_key(file) || trees.same(&now, &original, file)?;
            let ours = match (first, last) {
                (Some(first), Some(last)) if ours && trees.differing(&now, first)?.is_some() => {
                    trees.same(&original, last, file)?.then_some(first)
                }
                _ => None,
            };
            if let Some(first) = ours {
                goals.insert(file.to_owned(), first.clone());
                continue;
            }
            let there = goals.get(file).unwrap_or(&now);
            let already = match first {
                Some(first) => trees.same(there, first, file)?,
                None => false,
            };
            if !already {
                left.insert(file.to_owned());
            }
        }
        let plan = SnapshotPlan { expected: now, files: goals.into_iter().collect() };
        Ok(Self { original, plan, earlier, left })
    }

    /// The name of the tree with the files as they were before the first stage.
    pub(super) fn original(&self) -> &str {
        self.original.as_str()
    }

    /// Whether there is anything to put back.
    pub(super) fn changes_files(&self) -> bool {
        !self.plan.files.is_empty()
    }

    /// Every tree that a file may be from while the plan is carried out, apart from the original.
    pub(super) fn possible_sources(&self) -> Vec<RevertedFile> {
        let mut all = self.earlier.clone();
        for (file, tree) in self.plan.files.iter().filter(|(_, tree)| *tree != self.original) {
            all.entry(file.clone()).or_default().insert(tree.clone());
        }
        listed(&all)
    }

    pub(super) fn carry_out(
        mut self,
        snapshots: &Snapshots,
        worktree: &Path,
    ) -> Result<RestoreOutcome, Error> {
        let report = snapshots.restore(&self.plan)?;
        let mut diff = String::new();
        self.left.extend(report.skipped.into_iter().map(|skipped| skipped.file));
        // A file that the person has changed may become again what the earlier stage made of it.
        let mut restored = self.earlier;
        restored.retain(|file, _| self.left.contains(file));
        for (file, tree) in self.plan.files {
            if self.left.contains(&file) || tree == self.original {
                continue;
            }
            diff.push_str(&git_diff(snapshots, &self.original, &tree, &file, worktree));
            restored.entry(file).or_default().insert(tree);
        }
        let skipped = self.left.iter().map(|file| file.display().to_string()).collect();
        Ok(RestoreOutcome { restored: listed(&restored), skipped, diff: diff.trim_end().to_owned() })
    }
}

fn listed(files: &BTreeMap<PathBuf, BTreeSet<TreeId>>) -> Vec<RevertedFile> {
    let each = |file: &Path, tree: &TreeId| RevertedFile {
        file: file.display().to_string(),
        tree: tree.as_str().to_owned(),
    };
    files.iter().flat_map(|(file, trees)| trees.iter().map(move |tree| each(file, tree))).collect()
}

/// The files that a staged revert put back, each with the trees that it may be from.
fn put_back(
    trees: &mut TreeComparisons<'_>,
    revert: &Revert,
    original: &TreeId,
) -> Result<BTreeMap<PathBuf, BTreeSet<TreeId>>, Error> {
    let mut files: BTreeMap<PathBuf, BTreeSet<TreeId>> = BTreeMap::new();
    for RevertedFile { file, tree } in &revert.restored {
        if let Some(tree) = parse(Some(tree)) {
            files.entry(PathBuf::from(file)).or_default().insert(tree);
        }
    }
    if let (true, Some(after)) = (files.is_empty(), parse(revert.after.as_deref())) {
        for file in trees.differing(&after, original)?.into_iter().flatten() {
            files.insert(file.clone(), BTreeSet::from([after.clone()]));
        }
    }
    Ok(files)
}

/// Where each file was before the first step that changed it, and after the last one: what happened to it in between
/// and later is not the agent's.
fn touched(steps: &[UndoneStep]) -> BTreeMap<&Path, (Option<&TreeId>, Option<&TreeId>)> {
    let mut files = BTreeMap::new();
    for step in steps {
        for file in &step.files {
            match files.entry(file.as_path()) {
                Entry::Vacant(free) => drop(free.insert((step.before.as_ref(), step.after.as_ref()))),
                Entry::Occupied(mut known) => known.get_mut().1 = step.after.as_ref(),
            }
        }
    }
    files
}

/// Comparisons of trees, each made once.
struct TreeComparisons<'a> {
    snapshots: &'a Snapshots,
    differing: HashMap<(TreeId, TreeId), Option<HashSet<PathBuf>>>,
}

impl TreeComparisons<'_> {
    /// The files that differ between two trees; none when one of them cannot be had.
    fn differing(&mut self, a: &TreeId, b: &TreeId) -> Result<Option<&HashSet<PathBuf>>, Error> {
        let pair = (a.clone(), b.clone());
        if !self.differing.contains_key(&pair) {
            let found = match self.snapshots.changed(a, b) {
                Ok(files) => Some(files.into_iter().collect()),
                Err(error @ (Trouble::Unknown(_) | Trouble::Corrupt(_))) => {
                    tracing::warn!(error = error.to_string(), "files cannot be compared");
                    None
                }
                Err(error) => return Err(error.into()),
            };
            self.differing.insert(pair.clone(), found);
        }
        Ok(self.differing.get(&pair).and_then(Option::as_ref))
    }

    /// Whether a file is known to be the same in two trees.
    fn same(&mut self, a: &TreeId, b: &TreeId, file: &Path) -> Result<bool, Error> {
        Ok(self.differing(a, b)?.is_some_and(|files| !files.contains(file)))
    }
}

/// The change of a file in the form that git prints, which clients parse.
fn git_diff(snapshots: &Snapshots, from: &TreeId, to: &TreeId, file: &Path, worktree: &Path) -> String {
    let contents = snapshots.content(from, file).and_then(|from| Ok((from, snapshots.content(to, file)?)));
    match contents {
        Ok((from, to)) if from != to => {
            let name = file.strip_prefix(worktree).unwrap_or(file).display().to_string();
            everturn_tools::patch::git(&name, from.as_deref(), to.as_deref())
        }
        Ok(_) => String::new(),
        Err(error) => {
            // The file is where it should be; not being able to show how it changed does not undo that.
            tracing::warn!(file = %file.display(), error = error.to_string(), "a change cannot be shown");
            String::new()
        }
    }
}
