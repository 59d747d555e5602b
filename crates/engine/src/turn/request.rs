//! The request of a turn: which agent and model answer, and with which tools.

use everturn_model::entry::Body;
use everturn_model::permission::Policy;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{Tree, path};
use everturn_tools::{Registry, ToolOffer};

use super::{Turn, frame};
use crate::agents::{Agent, Agents};
use crate::config::AgentRole;
use crate::models::{self, UsableModel};
use crate::structured::{self, AnswerTool};

impl Turn<'_> {
    pub(super) fn wants_answer(&self) -> bool {
        self.work.promote.iter().any(|id| self.tree.waiting(id).is_some_and(|item| item.reply))
    }

    pub(super) fn agent(&self, agents: &Agents) -> Agent {
        let last = self.work.promote.iter().rev().find_map(|id| self.tree.waiting(id)?.user.agent.clone());
        let name = last.or_else(|| self.session().agent.clone()).unwrap_or_else(|| agents.default_name());
        // One that is gone since the prompt was admitted answers still, but by its name it may do nothing.
        agents.named(&name).cloned().unwrap_or_else(|| Agent {
            name,
            description: None,
            role: AgentRole::Primary,
            hidden: true,
            native: false,
            policy: Policy::default(),
            prompt: agents.all().first().map(|agent| agent.prompt.clone()).unwrap_or_default(),
            model: None,
            temperature: None,
            top_p: None,
            steps: None,
        })
    }

    pub(super) fn selected_model(&self) -> Option<ModelRef> {
        let last = self.work.promote.iter().rev().find_map(|id| self.tree.waiting(id)?.user.model.clone());
        // What a session from elsewhere names is not used, but what somebody chose for it here goes on.
        last.or_else(|| models::chosen_before(self.session())).or_else(|| self.work.model.clone())
    }

    /// The tools of this turn: those that the model can use, the person has not switched off and the rules do not
    /// forbid altogether. Where the prompt asks for an answer in a shape, the tool that takes it is among them, and in the
    /// last step it is the only one.
    pub(super) fn offer(
        &self,
        registry: &Registry,
        chosen: &UsableModel,
        policy: &Policy,
        path: &[&Node],
        last: bool,
    ) -> ToolOffer {
        if !chosen.model.abilities.tool_call {
            return ToolOffer::default();
        }
        let shape = structured::wanted(path);
        let off = frame::last_user(path).and_then(|user| user.tools.as_ref());
        let switch = |name: &str| off.and_then(|off| off.get(name).or_else(|| off.get("*"))?.as_bool());
        let offer = registry.offer().filter(|tool| {
            switch(tool.name()) != Some(false)
                && !policy.hides(tool.permission())
                && !(last && shape.is_some())
        });
        match shape {
            Some(shape) => offer.with(AnswerTool::of(shape)),
            None => offer,
        }
    }
}

/// The newest message of a person on the path.
pub(super) fn last_user(tree: &Tree) -> Option<&Node> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    path.into_iter().rev().find(|node| matches!(node.entry.body, Body::User(_)) && !node.entry.hidden)
}
