//! Whether a call may do what it needs: by the rules, by what was approved before, or because a person says so now.

use std::sync::Arc;

use everturn_model::permission::{Action, Policy, Rule};
use everturn_model::request::{Ask, Request};
use everturn_tools::bash::NETWORK;
use everturn_tools::process::sandbox::{SandboxPart, SandboxSettings};
use everturn_tools::{Need, Scope};

use super::repetition::is_about_repetition;
use super::{CallSurroundings, INTERRUPTED, ToolCall, ToolCalls};
use crate::Error;
use crate::confinement::{COMMAND, decide_commands, decide_within};
use crate::requests::RequestAnswer;

/// What the model is told when the person says no. Clients look for these words.
const REJECTED: &str = "The user rejected permission to use this specific tool call.";

/// Whether a call may run.
pub(super) enum Permit {
    /// Go on; whether somebody had to be asked.
    Run { asked: bool },
    /// Do not, with what the model is told.
    Refuse { text: String, declined: bool },
}

impl ToolCalls {
    /// Decides about a call, and asks the person where the rules leave it to them.
    pub(super) async fn permit(
        &self,
        setting: &mut CallSurroundings,
        call: &ToolCall,
        needs: Vec<Need>,
    ) -> Result<Permit, Error> {
        // A call asks its own questions when it runs: it was permitted before, and has begun.
        let running = matches!(&call.waiting, Some(Request { ask: Ask::Question { .. }, .. }));
        let waiting = call.waiting.as_ref().filter(|request| !running && !is_about_repetition(request));
        let mut asked = waiting.is_some();
        if let Some(request) = waiting {
            let answer = self.requests.ask_again(&setting.session, request, &setting.cancel).await?;
            if let Some(refusal) = refusal(answer) {
                return Ok(refusal);
            }
            self.heed_denials(setting, call).await?;
        }
        // Nobody is asked about a call that another of its needs forbids.
        if let Some(need) = needs.iter().find(|need| setting.decide(&[], need) == Action::Deny) {
            return Ok(denial(need));
        }
        let all = needs;
        let needs: Vec<Need> =
            all.iter().filter(|need| !setting.is_asked_with_another(need, &all)).cloned().collect();
        for need in needs {
            let saved = self.requests.approvals(&setting.session, &setting.scope.worktree).await?;
            match setting.decide(&saved, &need) {
                Action::Allow => {}
                Action::Deny => return Ok(denial(&need)),
                Action::Ask if running => {}
                // The request that was answered above was for this need; the others are asked as ever.
                Action::Ask if waiting.is_some_and(|request| asks_for(request, &need)) => {}
                Action::Ask => {
                    asked = true;
                    let caller = call.caller();
                    let Need { permission, patterns, always, metadata } = need;
                    let ask = Ask::Permission { permission, patterns, always, metadata };
                    let (session, policy) = (&setting.session, &setting.policy);
                    let answer = self.requests.ask(session, ask, caller, policy, &setting.cancel).await?;
                    if let Some(refusal) = refusal(answer) {
                        return Ok(refusal);
                    }
                    self.heed_denials(setting, call).await?;
                    if let Some(need) = all.iter().find(|need| setting.decide(&[], need) == Action::Deny) {
                        return Ok(denial(need));
                    }
                }
            }
        }
        Ok(Permit::Run { asked })
    }

    /// Lets what was forbidden while a call waited for a person count for it.
    pub(super) async fn heed_denials(
        &self,
        setting: &mut CallSurroundings,
        call: &ToolCall,
    ) -> Result<(), Error> {
        let (session, policy) = (&setting.session.id, &setting.policy);
        setting.policy = Arc::new(self.requests.policy_after(session, &call.entry, policy).await?);
        Ok(())
    }
}

impl CallSurroundings {
    /// What the rules say about a need, and what people have approved.
    fn decide(&self, approved: &[Rule], need: &Need) -> Action {
        decide_need(&self.scope, &self.policy, approved, need)
    }

    /// Whether one answer is for a need and for another one of the call.
    fn is_asked_with_another(&self, need: &Need, needs: &[Need]) -> bool {
        let asks = |need: &Need| self.decide(&[], need) == Action::Ask;
        let by_name = |name: &str| needs.iter().any(|other| other.permission == name && asks(other));
        need.asked_with().is_some_and(|name| by_name(name) && asks(need))
            || self.is_asked_with_the_command(need, needs)
    }

    /// Whether a need is asked for with the command that has it. What cannot be kept from the network is either run or not,
    /// so where the same rule asks for both, one answer is for both, now or for good.
    fn is_asked_with_the_command(&self, need: &Need, needs: &[Need]) -> bool {
        let cuts_off = |sandbox: &SandboxSettings| sandbox.parts.contains(&SandboxPart::Network);
        if need.permission != NETWORK || self.scope.sandbox.as_ref().is_some_and(cuts_off) {
            return false;
        }
        let mut commands = needs.iter().filter(|need| need.permission == COMMAND);
        commands.any(|command| {
            self.decide(&[], need) == Action::Ask
                && self.decide(&[], command) == Action::Ask
                && self.policy.asks_alike(NETWORK, COMMAND, &need.patterns)
        })
    }
}

/// What rules say about a need in a scope, and what people have approved.
pub(crate) fn decide_need(scope: &Scope, policy: &Policy, approved: &[Rule], need: &Need) -> Action {
    if scope.sandbox.as_ref().is_some_and(SandboxSettings::is_whole) {
        decide_within(policy, approved, &need.permission, &need.patterns)
    } else {
        // There is no wall to leave, and nothing that it hides, and who allows everything means that too.
        decide_commands(policy, approved, &need.permission, &need.patterns)
    }
}

/// What is said of a need that a rule denies.
pub(crate) fn denial_words(need: &Need) -> String {
    format!("a rule is against {} on {}", need.permission, need.patterns.join(", "))
}

fn denial(need: &Need) -> Permit {
    let text =
        format!("Not allowed: {}. Find another way or say that it cannot be done.", denial_words(need));
    Permit::Refuse { text, declined: false }
}

pub(super) fn refusal(answer: RequestAnswer) -> Option<Permit> {
    match answer {
        RequestAnswer::Allowed => None,
        RequestAnswer::Rejected(rejection) => Some(match rejection.words(REJECTED) {
            None => Permit::Refuse { text: REJECTED.to_owned(), declined: true },
            Some(text) => Permit::Refuse { text, declined: false },
        }),
        // Labels are no permission.
        RequestAnswer::Interrupted | RequestAnswer::Chosen(_) => {
            Some(Permit::Refuse { text: INTERRUPTED.to_owned(), declined: false })
        }
    }
}

fn asks_for(request: &Request, need: &Need) -> bool {
    match &request.ask {
        Ask::Permission { permission, patterns, .. } => {
            permission == &need.permission && patterns == &need.patterns
        }
        Ask::Question { .. } => false,
    }
}
