//! Agents: who acts, under which rules and with which instructions.

use std::path::Path;

use everturn_model::permission::{Action, Rule};

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// `primary`, `subagent` or `all`.
    pub mode: &'static str,
    /// True for those that people do not choose.
    pub hidden: bool,
    /// Its rules.
    pub permission: Vec<Rule>,
    /// Its instructions.
    pub prompt: &'static str,
}

const BUILD: &str = "You are a coding agent working in a person's project through tools. \
Look before you change: read the files that matter, then make the smallest change that does what was asked. \
Check your work with the project's own tests or tools when there are any. \
Say plainly what you did, what you could not do and what is uncertain. \
When a tool's outcome is unknown, inspect the state before you act again.";

const PLAN: &str = "You are a planning agent. Study the project and the request, change nothing, and answer with a \
plan that another agent can carry out: the steps in order, the files each one touches, and how to check the result.";

const TITLE: &str = "You are a title generator. Answer with one line of at most eight words that names what the \
conversation is about. No quotes, no full stop, no explanation.";

fn base_rules(tool_output: &Path) -> Vec<Rule> {
    let outputs = format!("{}/*", tool_output.display());
    vec![
        Rule::new("*", "*", Action::Allow),
        Rule::new("doom_loop", "*", Action::Ask),
        Rule::new("external_directory", "*", Action::Ask),
        Rule::new("external_directory", &outputs, Action::Allow),
        Rule::new("question", "*", Action::Deny),
        Rule::new("plan_enter", "*", Action::Deny),
        Rule::new("plan_exit", "*", Action::Deny),
        Rule::new("read", "*", Action::Allow),
        Rule::new("read", "*.env", Action::Ask),
        Rule::new("read", "*.env.*", Action::Ask),
        Rule::new("read", "*.env.example", Action::Allow),
    ]
}

/// The agents of a server: the built-in ones with the configured rules behind their own.
#[must_use]
pub fn agents(configured: &[Rule], tool_output: &Path) -> Vec<Agent> {
    let with = |own: &[Rule]| {
        let mut rules = base_rules(tool_output);
        rules.extend_from_slice(own);
        rules.extend_from_slice(configured);
        rules
    };
    let hidden = |name: &str, prompt: &'static str| Agent {
        name: name.to_owned(),
        description: None,
        mode: "primary",
        hidden: true,
        permission: with(&[Rule::new("*", "*", Action::Deny)]),
        prompt,
    };
    vec![
        Agent {
            name: "build".to_owned(),
            description: Some("Works on the project with all tools that the rules allow.".to_owned()),
            mode: "primary",
            hidden: false,
            permission: with(&[
                Rule::new("question", "*", Action::Allow),
                Rule::new("plan_enter", "*", Action::Allow),
            ]),
            prompt: BUILD,
        },
        Agent {
            name: "plan".to_owned(),
            description: Some("Studies the project and makes a plan; changes nothing.".to_owned()),
            mode: "primary",
            hidden: false,
            permission: with(&[
                Rule::new("question", "*", Action::Allow),
                Rule::new("plan_exit", "*", Action::Allow),
                Rule::new("edit", "*", Action::Deny),
            ]),
            prompt: PLAN,
        },
        hidden("title", TITLE),
    ]
}
