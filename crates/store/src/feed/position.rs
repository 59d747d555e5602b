//! A moment in the life of a database: which changes are before it.

/// A moment, in the engine's own terms. Changes are numbered; the number of a change is its stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// Changes are committed one after the other: this is the newest.
    Newest(u64),
    /// Changes are committed in any order.
    Snapshot(TransactionSnapshot),
}

impl Position {
    /// Whether a change is before this moment.
    pub(crate) fn covers(&self, stamp: u64) -> bool {
        match self {
            Self::Newest(newest) => stamp <= *newest,
            Self::Snapshot(snapshot) => snapshot.covers(stamp),
        }
    }

    /// Whether everything before another moment is before this one. It is not known of snapshots.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Newest(newest), Self::Newest(other)) if other <= newest)
    }
}

/// A snapshot of PostgreSQL, as it writes it: `least:end:running,running`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransactionSnapshot {
    text: String,
    /// All transactions before this one are over.
    least: u64,
    /// This one and all after it had not begun.
    end: u64,
    /// Those between that were not over.
    running: Vec<u64>,
}

impl TransactionSnapshot {
    /// None when it is written in another way.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(':');
        let (least, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let running = fields.next()?.split(',').filter(|field| !field.is_empty());
        let running = running.map(|field| field.parse().ok()).collect::<Option<Vec<u64>>>()?;
        fields.next().is_none().then(|| Self { text: text.to_owned(), least, end, running })
    }

    /// As PostgreSQL writes it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn covers(&self, stamp: u64) -> bool {
        stamp < self.least || (stamp < self.end && !self.running.contains(&stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_covers_what_was_over() {
        let snapshot = Position::Snapshot(TransactionSnapshot::parse("10:20:10,14,15").unwrap());
        let covered: Vec<u64> = (8..22).filter(|stamp| snapshot.covers(*stamp)).collect();
        assert_eq!(covered, [8, 9, 11, 12, 13, 16, 17, 18, 19]);
        let quiet = Position::Snapshot(TransactionSnapshot::parse("7:7:").unwrap());
        assert!(quiet.covers(6) && !quiet.covers(7));
        assert_eq!(TransactionSnapshot::parse("7:7"), None);
        assert_eq!(TransactionSnapshot::parse("a:7:"), None);
    }

    #[test]
    fn the_newest_commit_covers_itself_and_all_before() {
        assert!(Position::Newest(5).covers(5) && !Position::Newest(5).covers(6));
    }
}
