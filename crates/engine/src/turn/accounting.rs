//! Accounting: what an answer has used, also one that never gets to its end.
//!
//! Providers count while they answer, or at the end, or not at all. What they have said counts; what they had no time to
//! say is estimated from what was sent and what came, and marked as such. What was billed is recorded whatever becomes of
//! the answer.

use everturn_llm::{Block, Content, Message, ModelRequest, StreamEvent as Delta, Usage};
use everturn_model::part::PartKind;
use everturn_model::tree::Node;
use everturn_model::usage::{Cache, Pricing};
use everturn_model::{Event, Money, Tokens};

use super::{Turn, TurnSetup};

/// How many bytes of text make a token, where nobody has counted.
const BYTES: usize = 4;

/// By how much the count of a provider has to grow before it is worth recording again.
const WORTH_NOTING: u64 = 1_000;

/// What one attempt at an answer has used so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerMeter {
    /// Whether the provider took the request: before that nothing is billed.
    accepted: bool,
    /// What it has said.
    reported: Option<Tokens>,
    /// What of that the log has.
    noted: Option<Tokens>,
    /// Whether that is all.
    ended: bool,
    /// Bytes of text and input since it last said something.
    written: usize,
    /// The same of thoughts.
    thought: usize,
}

/// What an answer has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsedTokens {
    pub(crate) tokens: Tokens,
    /// Whether the provider did not say all of that.
    pub(super) estimated: bool,
}

impl AnswerMeter {
    /// Follows a delta.
    pub(crate) fn follow(&mut self, delta: &Delta) {
        match delta {
            Delta::Start => self.accepted = true,
            Delta::Usage(usage) => {
                self.reported = Some(tokens(usage));
                (self.written, self.thought) = (0, 0);
            }
            Delta::StepFinish { usage, .. } if tokens(usage).sum() > 0 => {
                self.reported = Some(tokens(usage));
                (self.written, self.thought) = (0, 0);
                self.ended = true;
            }
            Delta::TextDelta { text, .. } | Delta::ToolInputDelta { text, .. } => self.written += text.len(),
            Delta::ReasoningDelta { text, .. } => self.thought += text.len(),
            _ => {}
        }
    }

    /// What the log does not have yet of what the provider has said, if that is worth an event.
    fn news(&mut self) -> Option<Tokens> {
        let reported = self.reported?;
        let known = self.noted.map_or(0, |noted| noted.sum());
        let grown = reported.sum().saturating_sub(known);
        if self.noted.is_some() && !self.ended && grown < WORTH_NOTING && grown.saturating_mul(10) <= known {
            return None;
        }
        self.noted = Some(reported);
        self.reported
    }

    /// What the provider has said, if it said anything.
    fn reported(&self) -> Option<Tokens> {
        self.reported
    }

    /// What an answer to this request has used, if it ends here.
    pub(crate) fn used(&self, request: &ModelRequest) -> UsedTokens {
        if !self.accepted && self.reported.is_none() {
            return UsedTokens::default();
        }
        let said = self.reported.unwrap_or_default();
        let said = with_input(said, || estimate(size(request)));
        let estimated = self.reported.is_none_or(|reported| reported.input != said.input);
        add_streamed(said, self.written, self.thought, estimated)
    }
}

/// What was said, with an estimate of the input if that was not said.
pub(super) fn with_input(said: Tokens, estimate: impl FnOnce() -> u64) -> Tokens {
    if said.input + said.cache.read + said.cache.write > 0 {
        return said;
    }
    Tokens { input: estimate(), ..said }
}

/// What was said, with an estimate of what streamed since then.
pub(super) fn add_streamed(said: Tokens, written: usize, thought: usize, estimated: bool) -> UsedTokens {
    let (output, reasoning) = (estimate(written), estimate(thought));
    let tokens = Tokens {
        total: None,
        output: said.output.saturating_add(output),
        reasoning: said.reasoning.saturating_add(reasoning),
        ..said
    };
    UsedTokens { tokens, estimated: estimated || output + reasoning > 0 }
}

/// What a text is in tokens, roughly.
pub(super) fn estimate(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES)).unwrap_or(u64::MAX)
}

/// What a conversation was in bytes when it was sent: for an answer of an earlier version, whose request is gone.
pub(super) fn size_of_path(path: &[&Node]) -> usize {
    let text = |kind: &PartKind| match kind {
        PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } => text.len(),
        PartKind::Tool { state, .. } => state.input().to_string().len(),
        _ => 0,
    };
    let own = |node: &Node| match &node.entry.body {
        everturn_model::Body::Epoch { baseline, .. } => baseline.len(),
        everturn_model::Body::System { text, .. } => text.len(),
        everturn_model::Body::ToolResult { result } => result.output.len(),
        _ => 0,
    };
    path.iter().map(|node| own(node) + node.parts.iter().map(|part| text(&part.kind)).sum::<usize>()).sum()
}

/// What a request is in bytes of text.
pub(crate) fn size(request: &ModelRequest) -> usize {
    let content = |content: &Content| match content {
        Content::Text(text) => text.len(),
        Content::Media { .. } => 0,
    };
    let block = |block: &Block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.len(),
        Block::ToolCall { input, .. } | Block::HostedCall { input, .. } => input.to_string().len(),
        Block::HostedResult { output, .. } => output.to_string().len(),
    };
    let message = |message: &Message| match message {
        Message::User(all) => all.iter().map(content).sum(),
        Message::System(text) => text.len(),
        Message::Assistant { blocks, .. } => blocks.iter().map(block).sum(),
        Message::Tool { output, .. } => output.iter().map(content).sum(),
    };
    let tool = |tool: &everturn_llm::ToolSpec| {
        tool.name.len() + tool.description.len() + tool.schema.to_string().len()
    };
    request.system.iter().map(String::len).sum::<usize>()
        + request.messages.iter().map(message).sum::<usize>()
        + request.tools.iter().map(tool).sum::<usize>()
}

/// Counts of a provider as the log has them.
pub(super) fn tokens(usage: &Usage) -> Tokens {
    Tokens {
        total: usage.total,
        input: usage.input,
        output: usage.output,
        reasoning: usage.reasoning,
        cache: Cache { read: usage.cache_read, write: usage.cache_write },
    }
}

/// What tokens cost, where the prices are known.
pub(super) fn cost(pricing: Option<&Pricing>, tokens: &Tokens) -> Money {
    pricing.map_or(Money::ZERO, |pricing| pricing.cost(tokens))
}

impl Turn<'_> {
    /// Has what the provider has said so far recorded with whatever is recorded next.
    pub(super) fn note_usage(&mut self, setup: &TurnSetup, meter: &mut AnswerMeter) {
        if let Some(tokens) = meter.news() {
            let cost = setup.chosen.pricing().cost(&tokens);
            let (entry, last) = (setup.assistant.clone(), meter.ended);
            self.record_later(Event::UsageReported { entry, tokens, cost, last });
        }
    }
}

/// What an attempt that nothing came of was billed.
pub(super) fn failed_attempt(setup: &TurnSetup, meter: &AnswerMeter) -> Option<Event> {
    let tokens = meter.reported().filter(|tokens| tokens.sum() > 0)?;
    Some(Event::UsageRecorded {
        source: "attempt".to_owned(),
        tokens,
        cost: setup.chosen.pricing().cost(&tokens),
        model: Some(setup.chosen.reference.clone()),
        failed: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: usize) -> Delta {
        Delta::TextDelta { id: "t".to_owned(), text: "word".repeat(words) }
    }

    #[test]
    fn what_the_provider_had_no_time_to_say_is_estimated() {
        let request = ModelRequest { system: vec!["x".repeat(40)], ..ModelRequest::default() };
        let check = |deltas: &[Delta], input: u64, output: u64, estimated: bool| {
            let mut meter = AnswerMeter::default();
            deltas.iter().for_each(|delta| meter.follow(delta));
            let tokens = Tokens { input, output, ..Tokens::default() };
            assert_eq!(meter.used(&request), UsedTokens { tokens, estimated }, "{deltas:?}");
        };
        let said = |input, output| Delta::Usage(Usage { input, output, ..Usage::default() });
        check(&[], 0, 0, false);
        check(&[Delta::Start], 10, 0, true);
        check(&[Delta::Start, text(3)], 10, 3, true);
        check(&[Delta::Start, said(70, 1)], 70, 1, false);
        check(&[Delta::Start, said(70, 1), text(3)], 70, 4, true);
        check(&[Delta::Start, said(70, 1), text(3), said(70, 5)], 70, 5, false);
    }

    #[test]
    fn small_changes_of_a_count_are_not_recorded() {
        let mut meter = AnswerMeter::default();
        let mut say = |output| {
            meter.follow(&Delta::Usage(Usage { input: 5_000, output, ..Usage::default() }));
            meter.news().map(|tokens| tokens.output)
        };
        assert_eq!([say(1), say(2), say(400), say(700), say(710)], [Some(1), None, None, Some(700), None]);
    }
}
