//! The request of a turn: which agent and model answer, with which tools, and what the provider is given.

use everturn_llm::{ModelRequest, ToolChoice, ToolSpec};
use everturn_model::entry::Body;
use everturn_model::permission::Policy;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{Tree, path};
use everturn_tools::{Registry, ToolOffer};

use super::Turn;
use crate::agents::{Agent, Agents};
use crate::config::AgentRole;
use crate::history;
use crate::models::{self, UsableModel};

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
        })
    }

    pub(super) fn selected_model(&self) -> Option<ModelRef> {
        let last = self.work.promote.iter().rev().find_map(|id| self.tree.waiting(id)?.user.model.clone());
        // What a session from elsewhere names is not used, but what somebody chose for it here goes on.
        last.or_else(|| models::chosen_before(self.session())).or_else(|| self.work.model.clone())
    }

    /// The tools of this turn: those that the model can use, the person has not switched off and the rules do not
    /// forbid altogether.
    pub(super) fn offer(&self, registry: &Registry, chosen: &UsableModel, policy: &Policy) -> ToolOffer {
        if !chosen.model.abilities.tool_call {
            return ToolOffer::default();
        }
        let off = last_user(&self.tree).and_then(|node| match &node.entry.body {
            Body::User(user) => user.tools.as_ref(),
            _ => None,
        });
        registry.offer().filter(|tool| {
            off.and_then(|off| off.get(tool.name())?.as_bool()) != Some(false)
                && !policy.hides(tool.permission())
        })
    }

    pub(super) fn request(&self, chosen: &UsableModel, agent: &Agent, offer: &ToolOffer) -> ModelRequest {
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let baseline = path.iter().rev().find_map(|node| match &node.entry.body {
            Body::Epoch { baseline, .. } => Some(baseline.clone()),
            _ => None,
        });
        let user = last_user(&self.tree).and_then(|node| match &node.entry.body {
            Body::User(user) => Some(user),
            _ => None,
        });
        let mut system = vec![agent.prompt.clone()];
        system.extend(baseline);
        system.extend(user.and_then(|user| user.system.clone()));
        let setting = chosen.setting();
        ModelRequest {
            origin: chosen.origin(),
            model: chosen.model.wire.to_string(),
            system,
            messages: history::messages(&path, chosen.takes),
            tools: offer
                .specs()
                .into_iter()
                .map(|spec| ToolSpec { name: spec.name, description: spec.description, schema: spec.schema })
                .collect(),
            tool_choice: ToolChoice::Auto,
            max_output: (chosen.model.limits.output > 0).then(|| chosen.model.limits.output.min(32_000)),
            temperature: agent.temperature,
            headers: Vec::new(),
            cache_key: Some(self.session().id.to_string()),
            reasoning: setting.reasoning,
            options: setting.options,
            ..ModelRequest::default()
        }
    }
}

/// The newest message of a person on the path.
pub(super) fn last_user(tree: &Tree) -> Option<&Node> {
    let path = path::to(tree, tree.session.leaf.as_ref());
    path.into_iter().rev().find(|node| matches!(node.entry.body, Body::User(_)) && !node.entry.hidden)
}
