//! What is in the folder after a power loss.
//!
//! The model is a journaling file system on a disk with sectors of 512 bytes:
//!
//! * What was written to a file before its last sync is there. Each later write is there, or not, or only some of its
//!   sectors are, whatever the order was. A file may have grown without the bytes that made it grow: they are zeros.
//! * A truncation that no sync followed has happened or not.
//! * What happened to one name happens in order. A creation is durable once that file was synced; a creation or
//!   deletion is durable once the folder was synced. SQLite syncs the folder after a deletion only if it is told to,
//!   and with the first sync of a new journal or WAL file.

use std::collections::BTreeMap;

use super::chance::Chance;
use super::trace::{DiskStep, Inode, Trace};

/// The unit that a disk writes as a whole.
const SECTOR: usize = 512;

/// What becomes of everything that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It is all there: the process was killed, the machine runs on.
    Nothing,
    /// It is all lost.
    Everything,
    /// Some of it is lost, torn or out of order, as this seed has it.
    Random(u64),
}

impl From<u64> for Loss {
    fn from(seed: u64) -> Self {
        Self::Random(seed)
    }
}

/// The files after the first `cut` steps and the loss.
pub(super) fn build(trace: &Trace, cut: usize, loss: Loss) -> BTreeMap<String, Vec<u8>> {
    let steps = trace.steps().get(..cut).expect("a cut within the trace");
    let mut fate = FateOfWrites::new(loss, cut);
    let mut files = BTreeMap::new();
    for (name, history) in histories(trace, steps) {
        if let Some(inode) = fate.choose(&history) {
            files.insert(name.to_owned(), content(trace, steps, inode, &mut fate));
        }
    }
    files
}

/// What a name stood for, one state after the other; from `durable` on each of them may be the one on disk.
struct NameHistory {
    states: Vec<Option<Inode>>,
    durable: usize,
}

impl NameHistory {
    fn new(first: Option<Inode>) -> Self {
        Self { states: vec![first], durable: 0 }
    }

    /// The file was synced, and with it the name that leads to it.
    fn keep(&mut self, inode: Inode) {
        let reached = self.states.iter().position(|state| *state == Some(inode));
        self.durable = self.durable.max(reached.unwrap_or(0));
    }

    fn keep_all(&mut self) {
        self.durable = self.states.len() - 1;
    }
}

fn histories<'a>(trace: &'a Trace, steps: &[DiskStep]) -> BTreeMap<&'a str, NameHistory> {
    let found = trace.found().iter();
    let mut names: BTreeMap<&str, NameHistory> =
        found.map(|found| (trace.name(found.inode), NameHistory::new(Some(found.inode)))).collect();
    for step in steps {
        let (inode, synced) = match step {
            DiskStep::Create(inode) => (*inode, false),
            DiskStep::Sync { inode, folder } | DiskStep::Delete { inode, folder } => (*inode, *folder),
            DiskStep::Write { .. } | DiskStep::Truncate { .. } | DiskStep::Mark(_) => continue,
        };
        let history = names.entry(trace.name(inode)).or_insert_with(|| NameHistory::new(None));
        match step {
            DiskStep::Create(_) => history.states.push(Some(inode)),
            DiskStep::Delete { .. } => history.states.push(None),
            _ => history.keep(inode),
        }
        if synced {
            names.values_mut().for_each(NameHistory::keep_all);
        }
    }
    names
}

fn content(trace: &Trace, steps: &[DiskStep], inode: Inode, fate: &mut FateOfWrites) -> Vec<u8> {
    let found = trace.found().iter().find(|found| found.inode == inode);
    let mut content = found.map(|found| found.content.clone()).unwrap_or_default();
    let synced = |step: &DiskStep| matches!(step, DiskStep::Sync { inode: other, .. } if *other == inode);
    let durable = steps.iter().rposition(synced).unwrap_or(0);
    fate.change_mood();
    for (index, step) in steps.iter().enumerate() {
        let mut outcome = || if index < durable { WriteFate::Kept } else { fate.decide() };
        match step {
            DiskStep::Write { inode: other, offset, bytes } if *other == inode => match outcome() {
                WriteFate::Kept => put(&mut content, *offset, bytes),
                WriteFate::Dropped => {}
                WriteFate::Torn => tear(&mut content, *offset, bytes, fate),
            },
            DiskStep::Truncate { inode: other, size } if *other == inode => match outcome() {
                WriteFate::Kept => content.resize(*size, 0),
                WriteFate::Dropped | WriteFate::Torn => {}
            },
            _ => {}
        }
    }
    content
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content.get_mut(offset..end).expect("just made long enough").copy_from_slice(bytes);
}

/// Some sectors land. The new length may be on disk although bytes are missing, as it is kept elsewhere.
fn tear(content: &mut Vec<u8>, offset: usize, bytes: &[u8], fate: &mut FateOfWrites) {
    let mut rest = bytes;
    let mut start = offset;
    while !rest.is_empty() {
        let (sector, behind) = rest.split_at(rest.len().min(SECTOR - start % SECTOR));
        if fate.coin() {
            put(content, start, sector);
        }
        start += sector.len();
        rest = behind;
    }
    if fate.coin() && content.len() < start {
        content.resize(start, 0);
    }
}

#[derive(Clone, Copy)]
enum WriteFate {
    Kept,
    Dropped,
    Torn,
}

/// Decides about everything that is not durable.
struct FateOfWrites {
    loss: Loss,
    chance: Chance,
    /// How many of a hundred writes are kept. It differs from file to file: were it always the same, images in which
    /// nearly all or nearly nothing of a long stretch is there would never come up.
    kept: u64,
}

impl FateOfWrites {
    fn new(loss: Loss, cut: usize) -> Self {
        let seed = match loss {
            Loss::Random(seed) => seed,
            Loss::Nothing | Loss::Everything => 0,
        };
        // The cut goes in so that one seed does not decide alike for neighbouring cuts.
        let seed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ cut as u64;
        Self { loss, chance: Chance::new(seed), kept: 0 }
    }

    fn change_mood(&mut self) {
        self.kept = self.chance.pick(&[0, 10, 50, 90, 100]);
    }

    fn coin(&mut self) -> bool {
        self.chance.happens(50)
    }

    fn decide(&mut self) -> WriteFate {
        match self.loss {
            Loss::Nothing => WriteFate::Kept,
            Loss::Everything => WriteFate::Dropped,
            Loss::Random(_) => {
                if self.chance.happens(self.kept) {
                    WriteFate::Kept
                } else {
                    self.chance.pick(&[WriteFate::Dropped, WriteFate::Torn])
                }
            }
        }
    }

    fn choose(&mut self, history: &NameHistory) -> Option<Inode> {
        let open = history.states.get(history.durable..).unwrap_or_default();
        match self.loss {
            Loss::Nothing => open.last().copied().flatten(),
            Loss::Everything => open.first().copied().flatten(),
            Loss::Random(_) => self.chance.pick(open),
        }
    }
}
