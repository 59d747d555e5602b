//! Spans of the work, which is how it is seen from outside. Each says whose session it is, how it ended and how long
//! it took.
//!
//! Names, fields and outcomes are here and nowhere else, so that a filter of today works tomorrow.

use std::time::Instant;

use everturn_model::SessionId;
use everturn_model::session::ModelRef;
use tracing::{Span, field, info_span};

/// How a piece of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkOutcome {
    /// It came to its end.
    Completed,
    /// It could not be done.
    Failed,
    /// Somebody stopped it, or the process is ending.
    Interrupted,
    /// A person said no.
    Declined,
    /// Nobody knows whether it took effect.
    Unknown,
}

impl WorkOutcome {
    /// Its word in the log.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Declined => "declined",
            Self::Unknown => "unknown",
        }
    }
}

/// The span of a piece of work. Work that is dropped before its end was interrupted; if it panicked, it failed.
#[derive(Debug)]
pub(crate) struct WorkSpan {
    span: Span,
    /// When it began; none once its end is known.
    begun: Option<Instant>,
}

impl WorkSpan {
    /// A drain that has its session.
    pub(crate) fn session(id: &SessionId) -> Self {
        Self::begin(
            info_span!("session", session.id = %id, outcome = field::Empty, duration_ms = field::Empty),
        )
    }

    /// A turn.
    pub(crate) fn turn(session: &SessionId) -> Self {
        Self::begin(
            info_span!("turn", session.id = %session, outcome = field::Empty, duration_ms = field::Empty),
        )
    }

    /// A call to a provider.
    pub(crate) fn provider_call(session: &SessionId, model: &ModelRef) -> Self {
        Self::begin(info_span!(
            "provider_call",
            session.id = %session,
            provider = model.provider,
            model = model.model,
            outcome = field::Empty,
            duration_ms = field::Empty,
        ))
    }

    /// A call of a tool.
    pub(crate) fn tool_call(session: &SessionId, tool: &str, call: &str) -> Self {
        Self::begin(info_span!(
            "tool_call",
            session.id = %session,
            tool,
            call.id = call,
            outcome = field::Empty,
            duration_ms = field::Empty,
        ))
    }

    fn begin(span: Span) -> Self {
        Self { span, begun: Some(Instant::now()) }
    }

    /// What the work is done in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Says how the work ended. Only the first word counts.
    pub(crate) fn end(&mut self, outcome: WorkOutcome) {
        let Some(begun) = self.begun.take() else { return };
        self.span.record("outcome", outcome.as_str());
        let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.span.record("duration_ms", millis);
    }
}

impl Drop for WorkSpan {
    fn drop(&mut self) {
        self.end(match std::thread::panicking() {
            true => WorkOutcome::Failed,
            false => WorkOutcome::Interrupted,
        });
    }
}
