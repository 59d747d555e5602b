//! Budgets: before each turn, whether the session or its project may use up more.
//!
//! What is used up is asked about between two turns and never within one, so the last turn may go beyond it. The request is
//! durable: whoever goes on with the session after a restart waits for the same answer.

use std::collections::HashSet;
use std::path::Path;

use everturn_model::budget::{BudgetMeasure, BudgetPause, BudgetScope};
use everturn_model::session::Spent;
use everturn_model::{Session, Tree};
use everturn_store::{ArchivedSessions, Filter, Store};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::config::Budget;
use crate::configurations::Configurations;
use crate::family::Family;
use crate::projects::GLOBAL;
use crate::requests::Requests;
use crate::worker::NextWork;

/// Asks a person before more is used up than a budget has.
#[derive(Debug)]
pub(crate) struct BudgetGuard {
    store: Store,
    configurations: Configurations,
    requests: Requests,
}

/// What was used up.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    steps: u64,
    spent: Spent,
}

impl Used {
    fn add(&mut self, session: &Session) {
        self.steps += session.steps;
        self.spent.tokens = self.spent.tokens.plus(&session.spent.tokens);
        self.spent.cost += session.spent.cost;
    }

    fn amount(&self, measure: BudgetMeasure) -> u64 {
        match measure {
            BudgetMeasure::Steps => self.steps,
            BudgetMeasure::Tokens => self.spent.tokens.sum(),
            BudgetMeasure::Cost => u64::try_from(self.spent.cost.to_nanos()).unwrap_or(0),
        }
    }
}

impl BudgetGuard {
    /// A guard of the sessions of a store.
    pub(crate) fn new(store: Store, configurations: Configurations, requests: Requests) -> Self {
        Self { store, configurations, requests }
    }

    /// Asks and waits where the next turn has no budget left; false when it has. What came of the answer is in the session
    /// then, if there was one.
    pub(crate) async fn ask(
        &self,
        tree: &mut Tree,
        work: &NextWork,
        cancel: &CancellationToken,
    ) -> Result<bool, Error> {
        let wants_answer = |id| tree.waiting(id).is_some_and(|item| item.reply);
        let asks_a_model =
            tree.session.open || work.compaction.is_some() || work.promote.iter().any(wants_answer);
        if cancel.is_cancelled() || !asks_a_model {
            return Ok(false);
        }
        let asked = tree.requests.values().find(|request| BudgetPause::of(request).is_some()).cloned();
        let pause = self.pause(&tree.session).await?;
        let Some(pause) = pause else {
            if let Some(request) = asked {
                // There is more by now, or nothing has a budget any more.
                tree.requests.remove(&request.id);
                self.requests.take_back(&tree.session.id, &request).await?;
            }
            return Ok(false);
        };
        match asked {
            Some(request) => {
                tree.requests.remove(&request.id);
                self.requests.ask_again(&tree.session, &request, cancel).await?;
            }
            None => drop(self.requests.ask_between_turns(&tree.session, pause.ask(), cancel).await?),
        }
        Ok(true)
    }

    /// The first budget that is used up.
    async fn pause(&self, session: &Session) -> Result<Option<BudgetPause>, Error> {
        let budgets = self.configurations.at(Path::new(&session.directory)).await.budgets;
        if budgets.session.is_unlimited() && budgets.project.is_unlimited() {
            return Ok(None);
        }
        let family = self.family(session).await?;
        let mut used = Used::default();
        family.iter().for_each(|member| used.add(member));
        let within = |scope, budget: &Budget, used: &Used| {
            budget.limits().find_map(|(measure, allowance)| pause(&family, scope, measure, allowance, used))
        };
        if let Some(pause) = within(BudgetScope::Session, &budgets.session, &used) {
            return Ok(Some(pause));
        }
        if budgets.project.is_unlimited() {
            return Ok(None);
        }
        let used = self.used_by_project(session, budgets.project.steps.is_some()).await?;
        Ok(within(BudgetScope::Project, &budgets.project, &used))
    }

    /// The session that a session works for in the end, and all that work for that one.
    async fn family(&self, session: &Session) -> Result<Vec<Session>, Error> {
        let mut root = session.clone();
        // One that came from elsewhere may be its own ancestor.
        let mut seen = HashSet::from([session.id.clone()]);
        while let Some(parent) = root.parent.clone().filter(|parent| seen.insert(parent.clone())) {
            match self.store.session(&parent).await? {
                Some(parent) => root = parent,
                None => break,
            }
        }
        let mut members = vec![root.clone()];
        let mut family = Family::of(&root.id);
        while let Some(parent) = family.next() {
            let children = self.store.children(&parent).await?;
            family.add(children.iter().map(|child| child.id.clone()));
            members.extend(children);
        }
        Ok(members)
    }

    /// What all sessions of a project have used. Outside of repositories the folder is the project.
    async fn used_by_project(&self, session: &Session, counts_steps: bool) -> Result<Used, Error> {
        let directory = (session.project == GLOBAL).then(|| session.directory.clone());
        let mut used = Used::default();
        for trashed in [false, true] {
            let project = Some(session.project.clone());
            let archived = ArchivedSessions::Included;
            let filter =
                Filter { project, directory: directory.clone(), archived, trashed, ..Filter::default() };
            if counts_steps {
                self.store.sessions(filter).await?.iter().for_each(|session| used.add(session));
            } else {
                let totals = self.store.totals(filter).await?;
                used.spent.tokens = used.spent.tokens.plus(&totals.tokens);
                used.spent.cost += totals.cost;
            }
        }
        Ok(used)
    }
}

/// What there is to ask about one budget, if it is used up with all that was granted.
fn pause(
    family: &[Session],
    scope: BudgetScope,
    measure: BudgetMeasure,
    allowance: u64,
    used: &Used,
) -> Option<BudgetPause> {
    let granted = family.iter().flat_map(|member| &member.granted);
    let mut limit = allowance;
    for grant in granted.filter(|grant| grant.scope == scope && grant.measure == measure) {
        // Without an amount there is no limit.
        limit = limit.saturating_add(grant.more?);
    }
    let spent = used.amount(measure);
    // An answer lets at least the next turn begin.
    (spent >= limit).then_some(BudgetPause { scope, measure, spent, limit, allowance: allowance.max(1) })
}
