//! The session: every field that OpenCode and pi know, and what the log's fold caches for it.

use serde::{Deserialize, Serialize};

use crate::budget::BudgetGrant;
use crate::compaction::{OpenCompaction, Pins};
use crate::entry::{Body, Entry};
use crate::fault::Fault;
use crate::finish::FileChange;
use crate::ids::Stamp;
use crate::permission::Rule;
use crate::{EntryId, Extra, Map, Millis, Money, PartId, SessionId, Tokens};

/// The longest title, in bytes.
pub const TITLE_LIMIT: usize = 4096;

/// The longest name of an agent, a provider, a model, a variant or a file, in bytes.
pub const NAME_LIMIT: usize = 256;

/// The largest metadata that a client keeps with a session or a part, in bytes of its JSON.
pub const METADATA_LIMIT: usize = 256 * 1024;

/// How many fields metadata has.
pub const METADATA_KEY_LIMIT: usize = 1000;

/// How many permission rules a session has.
pub const RULE_LIMIT: usize = 1000;

/// The longest permission or pattern of such a rule, in bytes.
pub const RULE_TEXT_LIMIT: usize = 4096;

/// How many refusals to trust a project are remembered in a session.
pub const REFUSED_TRUST_LIMIT: usize = 16;

/// After how many recoveries of a turn that did not get on a session waits for a person.
pub const RECOVERY_LIMIT: usize = 3;

/// A provider's model, with the variant chosen for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// The provider's id.
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
    /// A named set of options of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Changes to one file between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The path, relative to the worktree.
    pub file: String,
    /// The change as a unified diff; empty for binary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FileChange>,
    /// Fields of other versions (`before` and `after` texts of OpenCode 1.1).
    #[serde(flatten)]
    pub extra: Map,
}

/// How much a session changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Files changed.
    pub files: u64,
    /// The changes themselves, where they are kept here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Vec<FileDiff>>,
}

/// A staged revert: what would leave the path when it is committed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revert {
    /// The first message that would leave (V1), or the last that stays (V2).
    pub message: EntryId,
    /// The first part that would leave, for part-level reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
    /// The state of the files before the revert, to undo it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the revert changed in the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The files right after the revert, in logs from before [`restored`](Self::restored) was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The files that were put back. Each is brought to what `snapshot` has when the revert is undone, if it is still
    /// as one of its trees here has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<RevertedFile>,
    /// True from the decision until the files are done: then any of them may be as in `snapshot` or as in a tree of
    /// `restored`, and there is no `diff`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Files that were left alone: the person had changed them, or they are none that undo may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Per-file changes, as V2 shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<serde_json::Value>,
    /// Fields without a word here.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map,
}

impl Revert {
    /// A revert to a message, with nothing known of the files.
    #[must_use]
    pub fn new(message: EntryId) -> Self {
        Self {
            message,
            part: None,
            snapshot: None,
            diff: None,
            after: None,
            restored: Vec::new(),
            pending: false,
            skipped: Vec::new(),
            files: None,
            extra: Map::new(),
        }
    }
}

/// A file that a revert put back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RevertedFile {
    /// The file, as an absolute path.
    pub file: String,
    /// The tree that it was taken from; one that lacks it means that it was removed.
    pub tree: String,
}

/// Moments of a session, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTimes {
    /// When it was created.
    pub created: Millis,
    /// Its last activity.
    pub updated: Millis,
    /// When a compaction began that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Millis>,
    /// When it was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Millis>,
    /// When it moved to another folder: a Context Epoch from before then that does not say its folder does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Millis>,
    /// When it was put into the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trashed: Option<Millis>,
}

/// Where a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The session that was copied.
    pub session: SessionId,
    /// The last entry that was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryId>,
}

/// A session: what people see of it, and what the fold caches for its leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// A short readable name for addresses.
    #[serde(default)]
    pub slug: String,
    /// The project: the root commit of a git repository, or `global`.
    pub project: String,
    /// The workspace, where a host has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The session that started this one as a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The folder it works in.
    pub directory: String,
    /// That folder relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its name.
    pub title: String,
    /// The version of the program that made it.
    pub version: String,
    /// The agent selected for the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model selected for the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The thinking level selected for the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// How much it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The address it is shared at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// What a client keeps with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map>,
    /// Permission rules of this session, after the agent's and the configuration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<Rule>>,
    /// A staged revert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
    /// Its moments.
    pub time: SessionTimes,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ForkOrigin>,
    /// Fields of other programs.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,

    /// The end of the path that is the conversation; none while it is empty or after a move before the first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<EntryId>,
    /// True while the conversation expects the model to go on: a promoted prompt without an answer, or a turn that
    /// is not closed. A restart continues these sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The command of a person that runs now. A restart settles it, and never runs it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<EntryId>,
    /// How often somebody asked the work to stop: the owner compares it to see a request from another process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u64,
    /// True while a turn is open that somebody asked to stop. Whoever runs the session hears of it by the feed and stops;
    /// if that process has died, whoever takes the session over finds it here, and closes the turn instead of going on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
    /// How many prompts wait in the inbox.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// True while the prompts that wait stay where they are: somebody stopped the session after they came, or they were
    /// admitted without a wish to begin. The next prompt that wants an answer lets them go on, or a person does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// True for a session that came from another program with work left: it waits for a prompt instead of going on by
    /// itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// Why it waits for a person, where going on with it failed again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_reason: Option<Fault>,
    /// What it waits for before it asks the provider again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryState>,
    /// When its open turn was taken up again, since a turn last got on: the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Millis>,
    /// The rules that a session of another program brought along, and forks of it: they only restrict. None for
    /// sessions of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_rules: Option<Vec<Rule>>,
    /// What of a project's configuration the person would not trust here, as digests, the newest last: it is not asked
    /// for again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_trust: Vec<String>,
    /// How many Provider Turns began here. Those of earlier versions are not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// What was granted beyond a budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<BudgetGrant>,
    /// The surroundings of requests that the log has, by their digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<String>,
    /// The newest Context Epoch on the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<EntryId>,
    /// The newest compaction on the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<EntryId>,
    /// A compaction that is being made. A restart makes it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_compaction: Option<OpenCompaction>,
    /// What every compaction keeps word for word.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub pins: Pins,
    /// Tokens of the path.
    #[serde(default)]
    pub tokens: Tokens,
    /// Cost of the path.
    #[serde(default, with = "crate::money::exact")]
    pub cost: Money,
    /// Tokens and cost of everything that ever ran here; never falls.
    #[serde(default)]
    pub spent: Spent,
    /// The greatest stamp of any message or part id: the floor for new ones.
    #[serde(default)]
    pub floor: Stamp,
}

/// A call to a provider that is to be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryState {
    /// The answer that it is for.
    pub entry: EntryId,
    /// Which attempt failed.
    pub attempt: u64,
    /// How, for people.
    pub message: String,
    /// When it is made again.
    pub next: Millis,
}

/// Usage that was billed, whatever became of the entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens of all turns, titles and summaries.
    #[serde(default)]
    pub tokens: Tokens,
    /// Their cost.
    #[serde(default, with = "crate::money::exact")]
    pub cost: Money,
}

impl Session {
    /// A new session with nothing but its place and name.
    #[must_use]
    pub fn new(
        id: SessionId,
        project: &str,
        directory: &str,
        title: &str,
        version: &str,
        now: Millis,
    ) -> Self {
        Self {
            id,
            slug: String::new(),
            project: project.to_owned(),
            workspace: None,
            parent: None,
            directory: directory.to_owned(),
            path: None,
            title: title.to_owned(),
            version: version.to_owned(),
            agent: None,
            model: None,
            thinking: None,
            summary: None,
            share: None,
            metadata: None,
            permission: None,
            revert: None,
            time: SessionTimes { created: now, updated: now, ..SessionTimes::default() },
            origin: None,
            extra: Extra::default(),
            leaf: None,
            open: false,
            shell: None,
            interrupts: 0,
            stopping: false,
            waiting: 0,
            held: false,
            parked: false,
            parked_reason: None,
            retry: None,
            recoveries: Vec::new(),
            foreign_rules: None,
            refused_trust: Vec::new(),
            steps: 0,
            granted: Vec::new(),
            frames: Vec::new(),
            epoch: None,
            compaction: None,
            open_compaction: None,
            pins: Pins::default(),
            tokens: Tokens::default(),
            cost: Money::ZERO,
            spent: Spent::default(),
            floor: Stamp::default(),
        }
    }

    /// True when a turn is open, a person's command runs or prompts wait, whether or not somebody holds them.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.is_at_work() || self.waiting > 0
    }

    /// True when a turn is open or a person's command runs.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.open || self.shell.is_some()
    }

    /// Nobody waits for a person any more, and what failed before counts no more.
    pub(crate) fn unpark(&mut self) {
        (self.parked, self.parked_reason) = (false, None);
        self.recoveries.clear();
    }

    /// Remembers that an open turn was taken up again.
    pub(crate) fn note_recovery(&mut self, time: Millis) {
        self.recoveries.push(time);
        let surplus = self.recoveries.len().saturating_sub(RECOVERY_LIMIT);
        self.recoveries.drain(..surplus);
    }

    /// True when a Context Epoch is about the folder that the session works in.
    #[must_use]
    pub fn holds_epoch(&self, entry: &Entry) -> bool {
        match &entry.body {
            Body::Epoch { directory: Some(directory), .. } => *directory == self.directory,
            // Earlier versions did not say what it is about.
            Body::Epoch { directory: None, .. } => self.time.moved.is_none_or(|moved| entry.time >= moved),
            _ => false,
        }
    }

    /// Raises the floor for new ids above an id that is used here.
    pub fn raise_floor(&mut self, id: &str) {
        if let Some(stamp) = Stamp::of(id) {
            self.floor = self.floor.max(stamp);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
