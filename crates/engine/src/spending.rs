//! Spending: what all sessions together have used, by project or by model.
//!
//! What counts is what was billed here or came along with an import, whatever became of the messages: sessions in the
//! archive and in the trash count too, and what a fork has copied does not count twice.

use std::collections::BTreeMap;

use everturn_model::session::{ModelRef, Spent};
use everturn_model::{EntryId, Event, Session, SessionId};
use everturn_store::{ArchivedSessions, Filter, Store, Totals};

use crate::Error;
use crate::projects::{GLOBAL, Projects};

/// What was used under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct SpentOn {
    /// The project's folder or the model; none for what belongs to none that is known.
    pub name: Option<String>,
    /// In how many sessions.
    pub sessions: u64,
    /// How much.
    pub spent: Spent,
}

/// What was used by each model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpentByModel {
    /// The models, the most expensive first.
    pub rows: Vec<SpentOn>,
    /// The sessions whose logs cannot be read, and why. What they used is in the row without a name.
    pub unread: Vec<(SessionId, String)>,
}

/// What the sessions of a store have used; clones share it.
#[derive(Debug, Clone)]
pub struct Spending {
    store: Store,
    projects: Projects,
}

impl Spending {
    /// The spending of a store's sessions.
    pub(crate) fn new(store: Store, projects: Projects) -> Self {
        Self { store, projects }
    }

    /// Everything.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn total(&self) -> Result<SpentOn, Error> {
        self.of(None, None).await
    }

    /// By project, the most expensive first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn by_project(&self) -> Result<Vec<SpentOn>, Error> {
        let mut rows = Vec::new();
        for project in self.projects.all().await?.into_iter().filter(|project| project.id != GLOBAL) {
            let folder = project.worktree.display().to_string();
            rows.push(self.of(Some(&project.id), Some(folder)).await?);
        }
        // Whatever is in no repository belongs to one project that nobody has to open.
        rows.push(self.of(Some(GLOBAL), Some(GLOBAL.to_owned())).await?);
        // Sessions of a project that was never opened here came in from elsewhere.
        let total = self.total().await?;
        let known: u64 = rows.iter().map(|row| row.sessions).sum();
        rows.push(SpentOn {
            name: None,
            sessions: total.sessions.saturating_sub(known),
            spent: less(total.spent, &rows),
        });
        Ok(sorted(rows))
    }

    /// By model. This reads the logs of all sessions, so it takes its time. One that cannot be read is in the way of no
    /// other.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn by_model(&self) -> Result<SpentByModel, Error> {
        let mut models: BTreeMap<String, SpentOn> = BTreeMap::new();
        let mut unread = Vec::new();
        let mut rest = SpentOn { name: None, sessions: 0, spent: Spent::default() };
        for trashed in [false, true] {
            let filter = Filter { archived: ArchivedSessions::Included, trashed, ..Filter::default() };
            for session in self.store.sessions(filter).await? {
                let own = match self.models_of(&session).await {
                    Ok(own) => own,
                    Err(error) if is_damage(&error) => {
                        unread.push((session.id.clone(), error.to_string()));
                        BTreeMap::new()
                    }
                    Err(error) => return Err(error),
                };
                let mut left = session.spent;
                for (name, spent) in own {
                    left = minus(left, &spent);
                    let fresh = || SpentOn { name: Some(name.clone()), sessions: 0, spent: Spent::default() };
                    let row = models.entry(name.clone()).or_insert_with(fresh);
                    row.sessions += 1;
                    row.spent = plus(row.spent, &spent);
                }
                // The log says of titles, and of some that was imported, how much it was and not which model it was.
                if left != Spent::default() {
                    rest.sessions += 1;
                    rest.spent = plus(rest.spent, &left);
                }
            }
        }
        Ok(SpentByModel { rows: sorted(models.into_values().chain([rest]).collect()), unread })
    }

    async fn models_of(&self, session: &Session) -> Result<BTreeMap<String, Spent>, Error> {
        let mut models: BTreeMap<EntryId, ModelRef> = BTreeMap::new();
        let mut used: BTreeMap<String, Spent> = BTreeMap::new();
        let mut imported: BTreeMap<String, Spent> = BTreeMap::new();
        for record in self.store.events(&session.id, None, usize::MAX).await? {
            match record.event {
                Event::StepStarted { entry, .. } => {
                    let model = entry.body.assistant().and_then(|assistant| assistant.model.clone());
                    models.extend(model.map(|model| (entry.id.clone(), model)));
                }
                Event::StepEnded { entry, tokens, cost, .. } => {
                    if let Some(model) = models.get(&entry) {
                        add(&mut used, model, &Spent { tokens, cost });
                    }
                }
                Event::SessionImported { seed, .. } => {
                    for answer in seed.nodes.iter().filter_map(|node| node.entry.body.assistant()) {
                        if let Some(model) = &answer.model {
                            add(&mut imported, model, &Spent { tokens: answer.tokens, cost: answer.cost });
                        }
                    }
                }
                _ => {}
            }
        }
        let mut left = used.values().fold(session.spent, minus);
        for (name, spent) in imported {
            // The program that it came from may have counted less than its messages say.
            let spent = Spent { tokens: spent.tokens.at_most(&left.tokens), cost: spent.cost.min(left.cost) };
            left = minus(left, &spent);
            let sum = used.entry(name).or_default();
            *sum = plus(*sum, &spent);
        }
        used.retain(|_, spent| *spent != Spent::default());
        Ok(used)
    }

    async fn of(&self, project: Option<&str>, name: Option<String>) -> Result<SpentOn, Error> {
        let mut row = SpentOn { name, sessions: 0, spent: Spent::default() };
        for trashed in [false, true] {
            let project = project.map(str::to_owned);
            let filter =
                Filter { project, archived: ArchivedSessions::Included, trashed, ..Filter::default() };
            let Totals { sessions, tokens, cost } = self.store.totals(filter).await?;
            row.sessions += sessions;
            row.spent = plus(row.spent, &Spent { tokens, cost });
        }
        Ok(row)
    }
}

fn add(sums: &mut BTreeMap<String, Spent>, ModelRef { provider, model, .. }: &ModelRef, spent: &Spent) {
    let sum = sums.entry(format!("{provider}/{model}")).or_default();
    *sum = plus(*sum, spent);
}

/// Whether only this session's log cannot be read.
fn is_damage(error: &Error) -> bool {
    use everturn_store::Error as Cause;
    matches!(error, Error::Store(Cause::Corrupt { .. } | Cause::Broken { .. } | Cause::Damaged { .. }))
}

fn plus(one: Spent, other: &Spent) -> Spent {
    Spent { tokens: one.tokens.plus(&other.tokens), cost: one.cost + other.cost }
}

fn minus(one: Spent, other: &Spent) -> Spent {
    Spent { tokens: one.tokens.minus(&other.tokens), cost: one.cost - other.cost }
}

fn less(total: Spent, rows: &[SpentOn]) -> Spent {
    rows.iter().fold(total, |left, row| minus(left, &row.spent))
}

/// Those with anything in them, the most expensive first, then the ones with most tokens.
fn sorted(mut rows: Vec<SpentOn>) -> Vec<SpentOn> {
    rows.retain(|row| row.sessions > 0);
    rows.sort_by(|one, other| {
        let key = |row: &SpentOn| (row.spent.cost, row.spent.tokens.sum());
        key(other).cmp(&key(one))
    });
    rows
}
