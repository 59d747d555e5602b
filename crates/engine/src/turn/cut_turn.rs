//! What a turn that was cut off had used and changed, as far as the log and the files tell.
//!
//! Files are taken for the turn's only if they have not been written to since its process last gave a sign of life: what
//! came later is a person's work, and undo must not take it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use everturn_model::event::StepRemains;
use everturn_model::part::PartKind;
use everturn_model::tool::ToolState;
use everturn_model::usage::Pricing;
use everturn_model::{EntryId, Event, Finish, Money, Part, PartId, Tokens, path};
use everturn_tools::Snapshots;
use everturn_tools::snapshot::TreeId;
use serde_json::Value;

use super::accounting::{self, UsedTokens};
use super::leftovers::called;
use super::remains::{ChangedFiles, last_sign_of_life, start_of};
use super::{ProviderTurns, Turn};
use crate::Error;

/// What a turn left that an earlier process began.
pub(super) struct CutTurn {
    used: UsedTokens,
    cost: Money,
    start: Option<TreeId>,
    changed: ChangedFiles,
    snapshots: Option<Arc<Snapshots>>,
}

impl CutTurn {
    /// What is recorded of it when it fails.
    pub(super) fn remains(&self, turn: &Turn<'_>) -> StepRemains {
        StepRemains { cost: self.cost, ..turn.left(self.used, &self.changed, self.start.as_ref()) }
    }

    /// Looks again at the files: calls were run that had not happened.
    pub(super) async fn after_calls(mut self) -> Self {
        self.changed = self.changed.and_since(self.snapshots.as_ref()).await;
        self
    }

    /// Its end, where the model goes on with the results of its calls.
    pub(super) fn ended(
        self,
        turn: &Turn<'_>,
        entry: EntryId,
        declined: bool,
        structured: Option<Value>,
    ) -> Event {
        let (tokens, cost) = (self.used.tokens, self.cost);
        let finish = if structured.is_some() { Finish::Stop } else { Finish::ToolCalls };
        let snapshot = self.changed.end.as_ref().map(|tree| tree.as_str().to_owned());
        let finished =
            PartKind::StepFinish { reason: finish.clone(), snapshot: snapshot.clone(), tokens, cost };
        let patch = self.changed.patch(self.start.as_ref());
        let part = |kind| Part::new(turn.services.journal.mint().part(turn.session()), kind);
        Event::StepEnded {
            entry,
            finish,
            tokens,
            cost,
            files: snapshot.is_some().then_some(self.changed.files),
            snapshot,
            parts: std::iter::once(finished).chain(patch).map(part).collect(),
            declined,
            estimated: self.used.estimated,
            error: None,
            structured,
        }
    }
}

impl ProviderTurns {
    /// Looks at what a turn left, of whose text this much was saved. Nothing may have been run again before.
    pub(super) async fn cut_turn(
        &self,
        turn: &Turn<'_>,
        assistant: &EntryId,
        saved: &HashMap<PartId, String>,
    ) -> Result<CutTurn, Error> {
        let services = &self.services;
        let location = services.projects.location(Some(&turn.session().directory)).await?;
        let config = services.configurations.at(&location.directory).await;
        let answer = turn.tree.node(assistant).and_then(|node| node.entry.body.assistant());
        let model = answer.and_then(|answer| answer.model.clone());
        let chosen = services.models.of(&config).choose(model.as_ref(), Path::new(&location.directory)).ok();
        let pricing = chosen.map(|chosen| chosen.pricing());
        let (used, cost) = used(turn, assistant, saved, pricing.as_ref());
        let start = start_of(&turn.tree, assistant);
        let snapshots = services.snapshots.of(&config, &location);
        let changed = if called(&turn.tree, assistant) {
            let moment = last_sign_of_life(&turn.tree, turn.lease.taken_from);
            let all = ChangedFiles::since(snapshots.as_ref(), start.as_ref()).await;
            all.until(location.worktree.clone(), moment).await
        } else {
            ChangedFiles::default()
        };
        Ok(CutTurn { used, cost, start, changed, snapshots })
    }
}

/// What an answer used: what the provider had said by then, and an estimate of the rest.
fn used(
    turn: &Turn<'_>,
    assistant: &EntryId,
    saved: &HashMap<PartId, String>,
    pricing: Option<&Pricing>,
) -> (UsedTokens, Money) {
    let Some(node) = turn.tree.node(assistant) else { return (UsedTokens::default(), Money::ZERO) };
    // The provider took the request before anything else happened in the step.
    if !node.parts.iter().any(|part| matches!(part.kind, PartKind::StepStart { .. })) {
        return (UsedTokens::default(), Money::ZERO);
    }
    let answer = node.entry.body.assistant();
    let reported = answer.and_then(|answer| answer.reported.as_deref().copied());
    if let Some(all) = reported.filter(|reported| reported.last) {
        return (UsedTokens { tokens: all.tokens, estimated: false }, all.cost);
    }
    let sent = answer.and_then(|answer| answer.sent.as_ref()).map_or(0, |sent| sent.size);
    let (mut written, mut thought) = (0, 0);
    for part in &node.parts {
        let text = |text: &String| saved.get(&part.id).map_or(0, String::len).max(text.len());
        match &part.kind {
            PartKind::Text { text: own, .. } => written += text(own),
            PartKind::Reasoning { text: own, .. } => thought += text(own),
            PartKind::Tool { state: ToolState::Pending { raw, .. }, .. } => written += raw.len(),
            PartKind::Tool { state, .. } => written += state.input().to_string().len(),
            _ => {}
        }
    }
    let input = || match usize::try_from(sent) {
        Ok(sent) if sent > 0 => accounting::estimate(sent),
        _ => {
            let path = path::to(&turn.tree, turn.session().leaf.as_ref());
            let before: Vec<_> = path.into_iter().take_while(|node| node.entry.id != *assistant).collect();
            accounting::estimate(accounting::size_of_path(&before))
        }
    };
    let said = reported.map_or_else(Tokens::default, |said| said.tokens);
    let said = accounting::with_input(said, input);
    // What it had said of its output was of the beginning: the text is at least as much.
    let fresh = Tokens { output: 0, reasoning: 0, ..said };
    let streamed = accounting::add_streamed(fresh, written, thought, true);
    let tokens = Tokens {
        output: streamed.tokens.output.max(said.output),
        reasoning: streamed.tokens.reasoning.max(said.reasoning),
        ..streamed.tokens
    };
    // The model may be configured no more, or without its price.
    let known = reported.map_or(Money::ZERO, |said| said.cost);
    let cost = accounting::cost(pricing, &tokens).max(known);
    (UsedTokens { tokens, estimated: true }, cost)
}
