//! Agents and skills as clients see them.

use std::collections::BTreeMap;

use everturn_engine::LoadedSkill;
use everturn_engine::agents::Agent;
use everturn_model::permission::Rule;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::session::PermissionRule;
use crate::answer::shaped;

/// An agent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub(crate) struct AgentInfo<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[schemars(with = "AgentMode")]
    mode: &'a str,
    native: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "Option<bool>")]
    hidden: bool,
    #[schemars(with = "Vec<PermissionRule>")]
    permission: &'a [Rule],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(rename = "topP", skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    options: BTreeMap<String, Value>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it describes the words of the engine")]
enum AgentMode {
    Subagent,
    Primary,
    All,
}

impl<'a> AgentInfo<'a> {
    /// An agent as clients see it.
    pub(crate) fn of((agent, permission): (&'a Agent, &'a [Rule])) -> Self {
        Self {
            name: &agent.name,
            description: agent.description.as_deref(),
            mode: agent.role.as_str(),
            native: agent.native,
            hidden: agent.hidden,
            permission,
            temperature: agent.temperature,
            top_p: agent.top_p,
            steps: agent.steps,
            options: BTreeMap::new(),
        }
    }
}

/// A skill with its text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SkillInfo<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    #[schemars(with = "Option<String>")]
    description: &'a str,
    location: String,
    content: &'a str,
}

impl<'a> SkillInfo<'a> {
    /// A skill as clients see it.
    pub(crate) fn of(skill: &'a LoadedSkill) -> Self {
        Self {
            name: &skill.name,
            description: &skill.description,
            location: skill.location.display().to_string(),
            content: &skill.content,
        }
    }
}

shaped! {
    AgentInfo<'_> as AgentInfo<'static>,
    SkillInfo<'_> as SkillInfo<'static>,
}
