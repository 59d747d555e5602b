//! Spending: what all sessions together have used, by day, by model or by project.
//!
//! What counts is what was billed here or came along with an import, whatever became of the messages: sessions in the
//! archive and in the trash count too, and what a fork has copied does not count twice. It comes from the bills that the
//! store keeps beside the logs, so it takes no longer with longer conversations.

use std::collections::{BTreeMap, HashMap};

use everturn_model::session::Spent;
use everturn_model::{Millis, Money, SessionId, Tokens};
pub use everturn_store::Unbilled;
use everturn_store::{Store, UseGroup, UseKey, UseQuery, UseSum};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::Error;
use crate::mint::Mint;
use crate::projects::{GLOBAL, Projects};

/// How many days are told apart; what was used before counts for the first of them.
const DAYS: i32 = 20 * 366;

/// Moments before and after everything that a clock can say.
const EVER: (Millis, Millis) = (-(1 << 60), 1 << 60);

/// By what spending is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendingGroup {
    /// By day, as days begin where this process runs.
    Day,
    /// By the model that was asked.
    Model,
    /// By the project that the session is in now; what is in no repository by its folder, which is its project for budgets too.
    Project,
}

/// What was used under one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpentOn {
    /// The day, the model, or the folder of the project or of what is in no repository; none for what belongs to none that is known.
    pub name: Option<String>,
    /// In how many sessions.
    pub sessions: u64,
    /// How often something was asked of a model.
    pub uses: u64,
    /// How much.
    pub spent: Spent,
}

/// What was used, added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpendingReport {
    /// Days in their order; models and projects with the most expensive first.
    pub rows: Vec<SpentOn>,
    /// All of them together.
    pub total: SpentOn,
    /// The sessions whose logs cannot be read, and why. All that they have used is in the row without a name, or that of
    /// their project, or of the day on which they were last active.
    pub unread: Vec<Unbilled>,
}

/// What the sessions of a store have used; clones share it.
#[derive(Debug, Clone)]
pub struct Spending {
    store: Store,
    projects: Projects,
    mint: Mint,
}

impl Spending {
    /// The spending of a store's sessions.
    pub(crate) fn new(store: Store, projects: Projects, mint: Mint) -> Self {
        Self { store, projects, mint }
    }

    /// What was used at or after a moment.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn report(&self, group: SpendingGroup, since: Option<Millis>) -> Result<SpendingReport, Error> {
        let unread = self.store.settle_bills().await?;
        let since = since.unwrap_or(Millis::MIN);
        let names = self.names(group, since).await?;
        let query = |group| self.store.uses(UseQuery { group, since });
        let mut rows: BTreeMap<Option<String>, SpentOn> = BTreeMap::new();
        for sum in query(names.asked()).await? {
            names.put(&mut rows, &sum);
        }
        let total = query(UseGroup::Everything).await?.pop();
        let mut total = total.map(|sum| SpentOn { name: None, ..spent_on(&sum) }).unwrap_or_default();
        for unbilled in &unread {
            let session = match self.store.session(&unbilled.session).await {
                Ok(session) => session,
                // Nothing is known of what it used either.
                Err(everturn_store::Error::Corrupt { .. } | everturn_store::Error::Damaged { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let Some(session) = session.filter(|session| session.time.updated >= since) else { continue };
            let key = match group {
                SpendingGroup::Day => UseKey::Span(names.span(session.time.updated)),
                SpendingGroup::Model => UseKey::Model(None),
                SpendingGroup::Project if session.project == GLOBAL && !session.directory.is_empty() => {
                    UseKey::Folder(session.directory)
                }
                SpendingGroup::Project => UseKey::Project(session.project),
            };
            let (tokens, cost) = (session.spent.tokens, session.spent.cost);
            let sum = UseSum { key, sessions: 1, uses: 1, tokens, cost };
            if tokens.sum() > 0 || cost > Money::ZERO {
                names.put(&mut rows, &sum);
                add(&mut total, &sum);
            }
        }
        let mut rows: Vec<SpentOn> = rows.into_values().collect();
        if group != SpendingGroup::Day {
            rows.sort_by_key(|row| std::cmp::Reverse((row.spent.cost, row.spent.tokens.sum())));
        }
        Ok(SpendingReport { rows, total, unread })
    }

    /// What each of these sessions has used, together with those that belong to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of_families(&self, roots: Vec<SessionId>) -> Result<HashMap<SessionId, Spent>, Error> {
        let totals = self.store.family_totals(roots).await?;
        let spent = |total: everturn_store::Totals| Spent { tokens: total.tokens, cost: total.cost };
        Ok(totals.into_iter().map(|(id, total)| (id, spent(total))).collect())
    }

    async fn names(&self, group: SpendingGroup, since: Millis) -> Result<RowNames, Error> {
        Ok(match group {
            SpendingGroup::Model => RowNames::Models,
            SpendingGroup::Project => {
                let projects = self.projects.all().await?.into_iter();
                let folders = projects.map(|project| (project.id, project.worktree.display().to_string()));
                let mut folders: HashMap<String, String> = folders.collect();
                // Left are sessions that name no folder.
                folders.insert(GLOBAL.to_owned(), GLOBAL.to_owned());
                RowNames::Projects(folders)
            }
            SpendingGroup::Day => {
                let now = self.mint.now();
                let first = self.store.first_use().await?.unwrap_or(now).max(since);
                RowNames::Days(days(first, now, &TimeZone::system()))
            }
        })
    }
}

/// What the rows of a report are called.
enum RowNames {
    Models,
    /// The folders of projects by their ids.
    Projects(HashMap<String, String>),
    /// Days and the spans of time that they are.
    Days(Vec<(Date, (Millis, Millis))>),
}

impl RowNames {
    fn asked(&self) -> UseGroup {
        match self {
            Self::Models => UseGroup::Model,
            Self::Projects(_) => UseGroup::Project { by_folder: GLOBAL.to_owned() },
            Self::Days(days) => UseGroup::Spans(days.iter().map(|(_, span)| *span).collect()),
        }
    }

    fn name(&self, key: &UseKey) -> Option<String> {
        match (self, key) {
            (Self::Models, UseKey::Model(Some((provider, model)))) => Some(format!("{provider}/{model}")),
            (Self::Projects(folders), UseKey::Project(id)) => folders.get(id).cloned(),
            (Self::Projects(_), UseKey::Folder(folder)) => Some(folder.clone()),
            (Self::Days(days), UseKey::Span(span)) => days.get(*span).map(|(day, _)| day.to_string()),
            _ => None,
        }
    }

    /// The day of a moment.
    fn span(&self, moment: Millis) -> usize {
        let Self::Days(days) = self else { return usize::MAX };
        days.iter().position(|(_, (first, end))| (*first..*end).contains(&moment)).unwrap_or(usize::MAX)
    }

    fn put(&self, rows: &mut BTreeMap<Option<String>, SpentOn>, sum: &UseSum) {
        let name = self.name(&sum.key);
        let fresh = || SpentOn { name: name.clone(), ..SpentOn::default() };
        add(rows.entry(name.clone()).or_insert_with(fresh), sum);
    }
}

/// The days from a moment to another with the spans of time that they are here. The first one has what came before it, and
/// the last one what comes after it.
fn days(first: Millis, now: Millis, here: &TimeZone) -> Vec<(Date, (Millis, Millis))> {
    let date = |moment: Millis| {
        let moment = Timestamp::from_millisecond(moment).unwrap_or_default();
        moment.to_zoned(here.clone()).date()
    };
    let last = date(now);
    let oldest = last.checked_sub(DAYS.days()).unwrap_or(last);
    let mut day = date(first.min(now)).max(oldest);
    let mut days: Vec<(Date, (Millis, Millis))> = Vec::new();
    while day <= last {
        let begin = here.to_ambiguous_timestamp(day.at(0, 0, 0, 0)).compatible();
        let begin = begin.map_or(EVER.0, Timestamp::as_millisecond);
        if let Some((_, (_, end))) = days.last_mut() {
            *end = begin;
        }
        days.push((day, (if days.is_empty() { EVER.0 } else { begin }, EVER.1)));
        let Ok(next) = day.tomorrow() else { break };
        day = next;
    }
    days
}

fn spent_on(sum: &UseSum) -> SpentOn {
    let spent = Spent { tokens: sum.tokens, cost: sum.cost };
    SpentOn { name: None, sessions: sum.sessions, uses: sum.uses, spent }
}

fn add(row: &mut SpentOn, sum: &UseSum) {
    row.sessions += sum.sessions;
    row.uses += sum.uses;
    let Spent { tokens, cost } = row.spent;
    row.spent = Spent { tokens: Tokens::plus(&tokens, &sum.tokens), cost: cost + sum.cost };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other_without_a_gap_also_where_clocks_are_set() {
        // On the last Sunday of March a day has 23 hours here, and 25 in October.
        let here = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let found = days(at("2026-03-27T23:30:00Z"), at("2026-03-30T10:00:00Z"), &here);
        let day = |day: i8| jiff::civil::date(2026, 3, day);
        let (saturday, sunday) = (at("2026-03-27T23:00:00Z"), at("2026-03-28T23:00:00Z"));
        let monday = at("2026-03-29T22:00:00Z");
        assert_eq!(monday - sunday, 23 * 60 * 60 * 1000);
        assert_eq!(
            found,
            [(day(28), (EVER.0, sunday)), (day(29), (sunday, monday)), (day(30), (monday, EVER.1))]
        );
        assert!(saturday < sunday);
        // A use of the year 1 is no reason to ask for all days since.
        assert_eq!(days(-1 << 50, at("2026-03-30T10:00:00Z"), &here).len(), 7321);
        assert_eq!(days(i64::MAX, at("2026-03-30T10:00:00Z"), &here).len(), 1, "a clock that was ahead");
    }
}
