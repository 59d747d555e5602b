//! Commands that a person runs.

use super::{Error, Fold};
use crate::entry::{Body, Entry};
use crate::{EntryId, Part};

impl Fold<'_> {
    /// Notes that a command runs. The same entry may say how it ended: it came from elsewhere.
    pub(super) fn begin_shell(&mut self, entry: &Entry) -> Result<(), Error> {
        let Body::Shell(shell) = &entry.body else { return Err(self.unfit(&entry.id)) };
        if shell.output.is_none() {
            self.tree.session.shell = Some(entry.id.clone());
        }
        Ok(())
    }

    /// Records how a command ended.
    pub(super) fn end_shell(
        &mut self,
        entry: &EntryId,
        output: &str,
        exit: Option<i64>,
        part: Option<&Part>,
    ) -> Result<(), Error> {
        let time = self.time;
        let Body::Shell(shell) = &mut self.entry(entry)?.body else { return Err(self.unfit(entry)) };
        shell.output = Some(output.to_owned());
        shell.exit = exit;
        shell.completed = Some(time);
        if let Some(pair) = &mut shell.pair {
            pair.assistant.completed = Some(time);
        }
        if let Some(part) = part {
            self.replace_part(entry, part)?;
        }
        let running = &mut self.tree.session.shell;
        if running.as_ref() == Some(entry) {
            *running = None;
        }
        Ok(())
    }
}
