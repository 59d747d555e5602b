//! Agents: who acts, under which rules and with which instructions.

mod builtin;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use everturn_model::Session;
use everturn_model::permission::{Action, Policy, Rule, denials};
use everturn_tools::bash::OUTSIDE;
use everturn_tools::scope::{PROTECTED, SECRET};
use everturn_tools::webfetch::LOCAL_NETWORK;

use crate::config::{AgentDefinition, AgentRole, ConfiguredRules};
use crate::projects::Location;
use crate::{Config, Error};
use builtin::{BUILD, builtin};

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
    /// The share of likely words that its requests consider, where it has one of its own.
    pub top_p: Option<f64>,
    /// How many steps it may take for one prompt; the last of them answers without tools.
    pub steps: Option<u64>,
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

    /// Ensures that there is the agent for sessions that choose none.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn check_default(&self) -> Result<(), Error> {
        self.check(&self.default)
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

/// The agents that a person may give a task to: those that a conversation is held with, too.
pub(crate) fn chosen_by_people(agents: &[Agent]) -> Vec<(String, String)> {
    let shown = agents.iter().filter(|agent| !agent.hidden);
    shown.map(|agent| (agent.name.clone(), agent.description.clone().unwrap_or_default())).collect()
}

/// The file of a session's plan: in the project, or in the data folder where there is no repository.
pub(crate) fn plan_file(session: &Session, location: &Location, data: &Path) -> PathBuf {
    // The slug of an imported session is somebody else's word.
    let slug: String = session
        .slug
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
        .take(64)
        .collect();
    let name = format!("{}-{slug}.md", session.time.created);
    // Outside a repository a folder is its own root.
    let folder = match location.project.vcs {
        Some(_) => location.worktree.join(PLANS),
        None => data.join(PLANS_ELSEWHERE),
    };
    folder.join(name)
}

/// The agent that makes plans.
pub(crate) const PLANNING: &str = "plan";

/// The agent that sums up conversations.
pub(crate) const SUMMARISING: &str = "compaction";

/// What the planning agent is told about the file of its plan.
pub(crate) fn plan_note(file: &Path) -> String {
    format!("The file of the plan, the only one that you may change: {}", file.display())
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
                model: model_name(definition),
                temperature: definition.temperature,
                top_p: definition.top_p,
                steps: definition.steps,
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
            model: model_name(definition),
            temperature: definition.temperature,
            top_p: definition.top_p,
            steps: definition.steps,
        }
    });
    known.chain(own).collect()
}

/// The name of an agent's model, with the variant that is configured beside it.
fn model_name(definition: &AgentDefinition) -> Option<String> {
    let model = definition.model.as_ref()?;
    let variant = definition.variant.as_ref().filter(|_| !model.contains(':'));
    Some(variant.map_or_else(|| model.clone(), |variant| format!("{model}:{variant}")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projects::Project;

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
        let file = |vcs: Option<&str>, worktree: &str| {
            let mut session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
            session.slug = "../calm/../river".to_owned();
            let vcs = vcs.map(str::to_owned);
            let (id, places) = ("global".to_owned(), Vec::new());
            let project = Project { id, worktree: worktree.into(), vcs, created: 1, updated: 1, places };
            let (directory, worktree) = ("/srv/demo".into(), worktree.into());
            let location = Location { directory, worktree, project, path: String::new() };
            plan_file(&session, &location, Path::new("/data"))
        };
        assert_eq!(file(Some("git"), "/srv/demo"), Path::new("/srv/demo/.opencode/plans/17-calmriver.md"));
        // Without a repository, the folder was taken for the root of one.
        assert_eq!(file(None, "/srv/demo"), Path::new("/data/plans/17-calmriver.md"));
        assert_eq!(file(None, "/"), Path::new("/data/plans/17-calmriver.md"));
    }
}
