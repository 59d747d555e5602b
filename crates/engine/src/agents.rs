//! Agents: who acts, under which rules and with which instructions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use everturn_model::Session;
use everturn_model::permission::{Action, Policy, Rule, denials};
use everturn_tools::bash::OUTSIDE;
use everturn_tools::scope::{PROTECTED, SECRET};
use everturn_tools::webfetch::LOCAL_NETWORK;

use crate::config::{AgentDefinition, AgentRole, ConfiguredRules};
use crate::{Config, Error};

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// For whom it works.
    pub role: AgentRole,
    /// True for those that people do not choose.
    pub hidden: bool,
    /// True for those that nobody had to configure.
    pub native: bool,
    /// What it may do.
    pub policy: Policy,
    /// Its instructions.
    pub prompt: String,
    /// The name of its model, where it has one of its own.
    pub model: Option<String>,
    /// The sampling temperature of its requests, where it has one of its own.
    pub temperature: Option<f64>,
}

/// The agents of a place, and the rules that hold for them; clones share them.
#[derive(Debug, Clone)]
pub struct Agents {
    all: Arc<[Agent]>,
    /// The rules of each as one list, once somebody has asked for them: with many rules it takes a while.
    flattened: Arc<[OnceLock<Vec<Rule>>]>,
    default: String,
}

impl Agents {
    /// The agents of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let all = agents(config);
        let default = config.default_agent.clone().unwrap_or_else(|| "build".to_owned());
        let flattened = all.iter().map(|_| OnceLock::new()).collect();
        Self { all: all.into(), flattened, default }
    }

    /// All of them, each with its rules as one list, for those who know nothing else.
    pub fn with_rules(&self) -> impl Iterator<Item = (&Agent, &[Rule])> {
        let known = self.all.iter().zip(self.flattened.iter());
        known.map(|(agent, rules)| (agent, rules.get_or_init(|| agent.policy.flattened()).as_slice()))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Agent] {
        &self.all
    }

    /// The name of the agent for sessions that choose none.
    pub(crate) fn default_name(&self) -> String {
        self.default.clone()
    }

    /// Ensures that there is an agent of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        if self.named(name).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = self.all.iter().map(|agent| agent.name.as_str()).collect();
        Err(Error::Invalid(format!("there is no agent {name}; known: {}", names.join(", "))))
    }

    /// The agent of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&Agent> {
        self.all.iter().find(|agent| agent.name == name)
    }

    /// What may be done in a session: by its agent, the configuration, and rules of its own.
    #[must_use]
    pub fn policy(&self, session: &Session) -> Policy {
        self.policy_of(session.agent.as_deref().unwrap_or(&self.default), session)
    }

    /// The same for a turn's own agent: a switch that came since does not change what the turn may do.
    pub(crate) fn policy_of(&self, name: &str, session: &Session) -> Policy {
        // An agent that does not exist may do nothing, whatever the session's own rules say.
        let nothing = || Policy::default().within([Rule::new("*", "*", Action::Deny)]);
        let policy = self.named(name).map_or_else(nothing, |agent| agent.policy.clone());
        let own = session.permission.as_deref().unwrap_or_default();
        // Those of a child are what the one that it works for may do; those that came with a session from elsewhere are
        // somebody else's words. Neither allows more.
        let policy = if session.parent.is_some() { policy.within(own) } else { policy.refined(own) };
        let policy = policy.within(session.foreign_rules.as_deref().unwrap_or_default());
        // Outside the sandbox its commands could change what it may not.
        if may_edit(&policy) { policy } else { policy.within([Rule::new(OUTSIDE, "*", Action::Ask)]) }
    }
}

const BUILD: &str = "You are a coding agent working in a person's project through tools. \
Look before you change: read the files that matter, then make the smallest change that does what was asked. \
Check your work with the project's own tests or tools when there are any. \
Say plainly what you did, what you could not do and what is uncertain. \
When a tool's outcome is unknown, inspect the state before you act again.";

const PLAN: &str = "You are a planning agent. Study the project and the request, change nothing but the file of the plan, \
and write a plan that another agent can carry out: the steps in order, the files each one touches, and how to check \
the result. Ask the person where the choice is theirs. When the plan is complete, ask with `plan_exit` whether it shall \
be carried out.";

const GENERAL: &str = "You are an agent to whom another agent has given a piece of work. Do all of it yourself with your \
tools: you cannot ask anybody, and the one who gave it sees nothing but your last message. End with that message: what \
you found or did, the files and lines that matter, what you could not do and what is uncertain.";

const EXPLORE: &str = "You are an agent that finds things in a project and changes nothing. Search broadly first, by file \
names and by content, then read what matters. Follow names to where they are defined and used before you conclude. Your \
last message is all that the one who asked gets to see: answer what was asked, with paths and lines, and say what you \
looked for and did not find.";

const TITLE: &str = "You are a title generator. Answer with one line of at most eight words that names what the \
conversation is about. No quotes, no full stop, no explanation.";

/// What an agent may never do as long as another one waits for it: ask the person, plan with them, keep the task list
/// that is not its own, and delegate further.
pub(crate) const NOT_FOR_SUBAGENTS: [&str; 5] = ["question", "plan_enter", "plan_exit", "todowrite", "task"];

fn base_rules(data: &Path) -> Vec<Rule> {
    let mut rules = vec![
        Rule::new("*", "*", Action::Allow),
        Rule::new("doom_loop", "*", Action::Ask),
        Rule::new("question", "*", Action::Deny),
        Rule::new("plan_enter", "*", Action::Deny),
        Rule::new("plan_exit", "*", Action::Deny),
    ];
    rules.extend(looking_rules(data));
    rules
}

/// Where plans are in a project, and where those of sessions outside any repository are.
pub(crate) const PLANS: &str = ".opencode/plans";
pub(crate) const PLANS_ELSEWHERE: &str = "plans";

/// What is asked for whatever else is allowed: other folders, files that make programs run, leaving the sandbox, what is
/// nearby on the network, and secrets.
fn looking_rules(data: &Path) -> [Rule; 12] {
    let outputs = format!("{}/*", data.join("tool-output").display());
    let plans = format!("{}/*", data.join(PLANS_ELSEWHERE).display());
    [
        Rule::new("external_directory", "*", Action::Ask),
        Rule::new(PROTECTED, "*", Action::Ask),
        Rule::new(OUTSIDE, "*", Action::Ask),
        Rule::new(SECRET, "*", Action::Ask),
        Rule::new(SECRET, &plans, Action::Allow),
        Rule::new("external_directory", &outputs, Action::Allow),
        Rule::new("external_directory", &plans, Action::Allow),
        Rule::new(LOCAL_NETWORK, "*", Action::Ask),
        Rule::new("read", "*", Action::Allow),
        Rule::new("read", "*.env", Action::Ask),
        Rule::new("read", "*.env.*", Action::Ask),
        Rule::new("read", "*.env.example", Action::Allow),
    ]
}

/// The agents that a task may be given to, each with what it is for.
pub(crate) fn delegates(agents: &[Agent]) -> Vec<(String, String)> {
    let able = agents.iter().filter(|agent| agent.role != AgentRole::Primary && !agent.hidden);
    able.map(|agent| (agent.name.clone(), agent.description.clone().unwrap_or_default())).collect()
}

/// The file of a session's plan: in the project, or in the data folder where there is no repository.
pub(crate) fn plan_file(session: &Session, worktree: &Path, data: &Path) -> PathBuf {
    // The slug of an imported session is somebody else's word.
    let slug: String = session
        .slug
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
        .take(64)
        .collect();
    let name = format!("{}-{slug}.md", session.time.created);
    // Outside a repository the root is that of the file system.
    let folder = if worktree.parent().is_some() { worktree.join(PLANS) } else { data.join(PLANS_ELSEWHERE) };
    folder.join(name)
}

/// What the planning agent is told about the file of its plan.
pub(crate) fn plan_note(agent: &Agent, file: &Path) -> Option<String> {
    (agent.name == "plan")
        .then(|| format!("The file of the plan, the only one that you may change: {}", file.display()))
}

/// An agent as it is built in.
struct BuiltinAgent {
    name: &'static str,
    description: Option<&'static str>,
    role: AgentRole,
    hidden: bool,
    /// Its own rules, before those that are configured.
    own: Vec<Rule>,
    /// What it is for, which no rule widens.
    bounds: Vec<Rule>,
    prompt: &'static str,
}

fn builtin(data: &Path) -> [BuiltinAgent; 5] {
    let allow = |name: &str| Rule::new(name, "*", Action::Allow);
    [
        BuiltinAgent {
            name: "build",
            description: Some("Works on the project with all tools that the rules allow."),
            role: AgentRole::Primary,
            hidden: false,
            own: vec![allow("question"), allow("plan_enter")],
            bounds: Vec::new(),
            prompt: BUILD,
        },
        BuiltinAgent {
            name: "plan",
            description: Some("Studies the project and makes a plan; changes nothing else."),
            role: AgentRole::Primary,
            hidden: false,
            own: vec![allow("question"), allow("plan_exit")],
            bounds: planning_bounds(data).to_vec(),
            prompt: PLAN,
        },
        BuiltinAgent {
            name: "general",
            description: Some(
                "Does work of several steps on its own, searching and changing files; several at once, if they do \
                 not touch the same files.",
            ),
            role: AgentRole::Subagent,
            hidden: false,
            own: Vec::new(),
            bounds: NOT_FOR_SUBAGENTS.map(|name| Rule::new(name, "*", Action::Deny)).to_vec(),
            prompt: GENERAL,
        },
        BuiltinAgent {
            name: "explore",
            description: Some(
                "Finds files, code and answers about how the project works; changes nothing. Say how thorough it \
                 shall be.",
            ),
            role: AgentRole::Subagent,
            hidden: false,
            own: Vec::new(),
            bounds: exploring_bounds(),
            prompt: EXPLORE,
        },
        BuiltinAgent {
            name: "title",
            description: None,
            role: AgentRole::Primary,
            hidden: true,
            own: Vec::new(),
            bounds: vec![Rule::new("*", "*", Action::Deny)],
            prompt: TITLE,
        },
    ]
}

/// The agents of a configuration: the built-in ones as it wants them, then its own, by name.
fn agents(config: &Config) -> Vec<Agent> {
    let nothing = AgentDefinition::default();
    let configured = |name: &str| config.agents.get(name).unwrap_or(&nothing);
    let builtin = builtin(&config.data);
    let own = config.agents.keys().filter(|name| builtin.iter().all(|known| known.name != *name));
    let own: Vec<Agent> = own
        .filter(|name| !configured(name).disabled)
        .map(|name| {
            let definition = configured(name);
            Agent {
                name: name.clone(),
                description: definition.description.clone(),
                role: definition.role.unwrap_or(AgentRole::All),
                hidden: definition.hidden.unwrap_or(false),
                native: false,
                policy: policy(config, &[], &definition.rules),
                prompt: definition.prompt.clone().unwrap_or_else(|| BUILD.to_owned()),
                model: definition.model.clone(),
                temperature: definition.temperature,
            }
        })
        .collect();
    let known = builtin.into_iter().filter(|agent| !configured(agent.name).disabled).map(|agent| {
        let definition = configured(agent.name);
        let description = definition.description.clone().or_else(|| agent.description.map(str::to_owned));
        Agent {
            name: agent.name.to_owned(),
            description,
            role: definition.role.unwrap_or(agent.role),
            hidden: definition.hidden.unwrap_or(agent.hidden),
            native: true,
            policy: policy(config, &agent.own, &definition.rules).within(agent.bounds),
            prompt: definition.prompt.clone().unwrap_or_else(|| agent.prompt.to_owned()),
            model: definition.model.clone(),
            temperature: definition.temperature,
        }
    });
    known.chain(own).collect()
}

/// What an agent may do: its own rules, refined by those that are configured for all agents and then for this one. What
/// the person denies, in either, nobody loosens.
fn policy(config: &Config, own: &[Rule], configured: &ConfiguredRules) -> Policy {
    let everybody = &config.rules;
    let person: Vec<Rule> = everybody.person.iter().chain(&configured.person).cloned().collect();
    let policy = Policy::new(base_rules(&config.data))
        .refined(own)
        .refined(&everybody.person)
        .refined(&everybody.project)
        .refined(&configured.person)
        .refined(&configured.project)
        .within(denials(&person));
    everybody.bounds.iter().chain(&configured.bounds).cloned().fold(policy, Policy::within)
}

/// Whether files of a project may be changed at all.
pub(crate) fn may_edit(policy: &Policy) -> bool {
    policy.decide(&[], "edit", &["*".to_owned()]) != Action::Deny
}

/// No files but those of plans.
fn planning_bounds(data: &Path) -> [Rule; 3] {
    let elsewhere = format!("{}/*.md", data.join(PLANS_ELSEWHERE).display());
    [
        Rule::new("edit", "*", Action::Deny),
        Rule::new("edit", &format!("{PLANS}/*.md"), Action::Allow),
        Rule::new("edit", &elsewhere, Action::Allow),
    ]
}

/// Nothing but looking.
fn exploring_bounds() -> Vec<Rule> {
    let looking = ["glob", "grep", "list", "webfetch", LOCAL_NETWORK, "read", "external_directory", SECRET];
    let looking = looking.map(|name| Rule::new(name, "*", Action::Allow));
    [Rule::new("*", "*", Action::Deny)].into_iter().chain(looking).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearby_is_asked_for_although_pages_may_be_fetched() {
        // Whoever could fetch pages could speak to the services of this machine, unasked.
        let mut config = Config::default();
        config.rules.person = vec![Rule::new("webfetch", "*", Action::Allow)];
        for agent in agents(&config).iter().filter(|agent| !agent.hidden) {
            let address = ["http://127.0.0.1:4096/session".to_owned()];
            let decide = |permission| agent.policy.decide(&[], permission, &address);
            assert_eq!(
                [decide("webfetch"), decide(LOCAL_NETWORK)],
                [Action::Allow, Action::Ask],
                "{agent:?}"
            );
        }
    }

    #[test]
    fn the_rules_of_an_agent_are_put_together_once() {
        // They were at each question of a client, for every agent.
        let agents = Agents::of(&Config::default());
        let asked =
            || agents.with_rules().map(|(agent, rules)| (&agent.name, rules.as_ptr())).collect::<Vec<_>>();
        assert_eq!(asked(), asked());
        for (agent, rules) in agents.with_rules() {
            assert_eq!(rules, agent.policy.flattened());
        }
    }

    #[test]
    fn an_agent_that_is_gone_may_do_nothing() {
        // Rules of a session could allow it what the person denies everybody.
        let mut session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        session.agent = Some("gone".to_owned());
        session.permission = Some(vec![Rule::new("bash", "*", Action::Allow)]);
        let policy = Agents::of(&Config::default()).policy(&session);
        assert_eq!(policy.decide(&[], "bash", &["ls".to_owned()]), Action::Deny);
    }

    #[test]
    fn a_plan_stays_in_its_folder() {
        let mut session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        session.slug = "../calm/../river".to_owned();
        let file = |worktree: &str| plan_file(&session, Path::new(worktree), Path::new("/data"));
        assert_eq!(file("/srv/demo"), Path::new("/srv/demo/.opencode/plans/17-calmriver.md"));
        assert_eq!(file("/"), Path::new("/data/plans/17-calmriver.md"));
    }
}
