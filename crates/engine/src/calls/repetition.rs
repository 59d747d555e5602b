//! A call that completes a loop: refused by a rule, let go on by one, or left to a person.

use everturn_model::Map;
use everturn_model::permission::Action;
use everturn_model::request::{Ask, DOOM_LOOP, Request};
use serde_json::json;

use super::permission::{Permit, refusal};
use super::{CallSurroundings, ToolCall, ToolCalls};
use crate::Error;
use crate::guards::Repetition;

impl ToolCalls {
    /// Decides about a call that was made before, if it was. This comes before everything else that is said of it: what
    /// fails or is forbidden can be tried for ever, too.
    pub(super) async fn permit_repetition(
        &self,
        setting: &mut CallSurroundings,
        call: &ToolCall,
        repeats: Option<Repetition>,
    ) -> Result<Permit, Error> {
        let answer = match (&call.waiting, repeats) {
            (Some(request), _) if is_about_repetition(request) => {
                self.requests.ask_again(&setting.session, request, &setting.cancel).await?
            }
            // It was let go on, and asks for something else by now.
            (Some(_), _) | (None, None) => return Ok(Permit::Run { asked: false }),
            (None, Some(repetition)) => {
                let saved = self.requests.approvals(&setting.session, &setting.scope.worktree).await?;
                let subject = vec![call.tool.clone()];
                match setting.policy.decide(&saved, DOOM_LOOP, &subject) {
                    Action::Allow => return Ok(Permit::Run { asked: false }),
                    Action::Deny => return Ok(denial(call, repetition)),
                    Action::Ask => {
                        let ask = ask(call, repetition, subject);
                        let (session, caller, policy) = (&setting.session, call.caller(), &setting.policy);
                        self.requests.ask(session, ask, caller, policy, &setting.cancel).await?
                    }
                }
            }
        };
        if let Some(refusal) = refusal(answer) {
            return Ok(refusal);
        }
        self.heed_denials(setting, call).await?;
        // Nobody allows for ever what a rule is against by now.
        let forbidden =
            setting.policy.decide(&[], DOOM_LOOP, std::slice::from_ref(&call.tool)) == Action::Deny;
        Ok(match repeats.filter(|_| forbidden) {
            Some(repetition) => denial(call, repetition),
            None => Permit::Run { asked: true },
        })
    }
}

/// Whether a request asks whether a loop goes on.
pub(super) fn is_about_repetition(request: &Request) -> bool {
    matches!(&request.ask, Ask::Permission { permission, .. } if permission == DOOM_LOOP)
}

fn ask(call: &ToolCall, repetition: Repetition, subject: Vec<String>) -> Ask {
    let metadata = Map::from_iter([
        ("tool".to_owned(), json!(call.tool)),
        ("note".to_owned(), json!(format!("{} Shall it go on?", describe(repetition)))),
    ]);
    Ask::Permission { permission: DOOM_LOOP.to_owned(), patterns: subject.clone(), always: subject, metadata }
}

fn describe(repetition: Repetition) -> String {
    match repetition.cycle {
        1 => "The model has made this call three times with the same input.".to_owned(),
        cycle => format!("The model has made the same {cycle} calls three times in turn."),
    }
}

fn denial(call: &ToolCall, repetition: Repetition) -> Permit {
    let repeated = describe(repetition);
    let text = if repetition.is_hopeless {
        format!("{repeated} A rule is against that ({DOOM_LOOP} {}), so the work ends here.", call.tool)
    } else {
        format!(
            "{repeated} A rule is against that ({DOOM_LOOP} {}), so it was not run again. Use what you know, do something \
             else, or say that it cannot be done.",
            call.tool
        )
    };
    Permit::Refuse { text, declined: repetition.is_hopeless }
}
