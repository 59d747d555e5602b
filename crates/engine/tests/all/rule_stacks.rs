//! Whole random configurations, as files: whatever projects, agents, sessions, imports and approvals say, nothing is looser
//! than what the person denied, and before trust the files of a project allow nothing more.
//!
//! - `files`: random files of configuration, and what they mean
//! - `slips`: denials with a slip of the pen in them

mod files;
mod slips;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use everturn_engine::config::{ConfigSources, SandboxStrength, Trust};
use everturn_engine::{Config, Configurations};
use everturn_model::Session;
use everturn_model::permission::{Action, Rule};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::json;

use files::{AGENTS, ConfigFile, FileForm, config_file, markdown, rules};

/// What is asked about.
const PERMISSIONS: [&str; 13] = [
    "bash",
    "BASH",
    "edit",
    "read",
    "webfetch",
    "external_directory",
    "task",
    "docs_search",
    "outside_sandbox",
    "network",
    "protected_file",
    "local_network",
    "secret_file",
];
const RESOURCES: [&str; 9] =
    ["git status", "git push now", "GIT status", "rm -rf a", "a.env", "src/a", "ab", "x", "/srv/keys/a"];

/// What only a sandbox keeps commands from.
const KEPT: [&str; 5] = ["external_directory", "network", "outside_sandbox", "protected_file", "secret_file"];

/// An agent of the person's about which nothing is said.
const NEUTRAL: &str = "neutral";

/// The person's files, in the order in which they count.
const OF_PERSON: [(&str, FileForm); 10] = [
    ("own/config.json", FileForm::Commented),
    ("own/opencode.json", FileForm::Json),
    ("own/opencode.jsonc", FileForm::Commented),
    ("own/everturn.toml", FileForm::Toml),
    ("own/config.toml", FileForm::Toml),
    ("named.json", FileForm::Commented),
    ("own/agent/AGENT.md", FileForm::Markdown),
    ("last/opencode.json", FileForm::Json),
    ("last/config.toml", FileForm::Toml),
    ("last/everturn.toml", FileForm::Toml),
];

/// The project's.
const OF_PROJECT: [(&str, FileForm); 10] = [
    ("opencode.json", FileForm::Json),
    ("opencode.jsonc", FileForm::Commented),
    ("everturn.toml", FileForm::Toml),
    (".opencode/opencode.json", FileForm::Json),
    (".opencode/config.toml", FileForm::Toml),
    (".opencode/everturn.toml", FileForm::Toml),
    ("sub/opencode.jsonc", FileForm::Commented),
    ("sub/.opencode/config.toml", FileForm::Toml),
    (".opencode/agents/AGENT.md", FileForm::Markdown),
    ("sub/.opencode/agent/AGENT.md", FileForm::Markdown),
];

/// What is said by whom.
#[derive(Debug, Clone)]
struct RuleStack {
    person: Vec<(usize, ConfigFile)>,
    project: Vec<(usize, ConfigFile)>,
    session: Vec<Rule>,
    imported: Vec<Rule>,
    is_child: bool,
    approved: Vec<Rule>,
}

/// Some of the files of a list, each with a content, in the order of the list.
fn some_files(list: &'static [(&'static str, FileForm)]) -> impl Strategy<Value = Vec<(usize, ConfigFile)>> {
    let one = |(_, form): &(&str, FileForm)| match form {
        FileForm::Markdown => prop::option::of(markdown()).boxed(),
        _ => prop::option::of(config_file()).boxed(),
    };
    let each: Vec<_> = list.iter().map(one).collect();
    each.prop_map(|files| files.into_iter().enumerate().filter_map(|(at, file)| Some((at, file?))).collect())
}

fn stack() -> impl Strategy<Value = RuleStack> {
    let said = (some_files(&OF_PERSON), some_files(&OF_PROJECT));
    (said, rules(), rules(), any::<bool>(), rules()).prop_map(
        |(said, session, imported, is_child, approved)| {
            // An approval is an allow.
            let approved = approved.into_iter().map(|rule| Rule { action: Action::Allow, ..rule }).collect();
            RuleStack { person: said.0, project: said.1, session, imported, is_child, approved }
        },
    )
}

impl RuleStack {
    /// What the person says about an agent, the last word last.
    fn of_person(&self, agent: &str) -> Vec<Rule> {
        let files = || self.person.iter().map(|(_, file)| file);
        files().flat_map(ConfigFile::rules).chain(files().flat_map(|file| file.rules_of(agent))).collect()
    }

    /// Whether the person has no such agent.
    fn is_disabled_by_person(&self, agent: &str) -> bool {
        self.person.iter().rev().find_map(|(_, file)| file.disables(agent)).unwrap_or(false)
    }

    fn session(&self, agent: &str) -> Session {
        let mut session = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        session.agent = Some(agent.to_owned());
        session.permission = Some(self.session.clone());
        session.foreign_rules = Some(self.imported.clone());
        session.parent = self.is_child.then(|| "ses_0".into());
        session
    }

    /// What a configuration decides for an agent, for everything that is asked about.
    fn decisions(&self, config: &Config, agent: &str) -> Vec<(&'static str, &'static str, Action)> {
        let policy = config.agents().policy(&self.session(agent));
        let every =
            PERMISSIONS.iter().flat_map(|name| RESOURCES.iter().map(move |resource| (*name, *resource)));
        every
            .map(|(name, resource)| {
                (name, resource, policy.decide(&self.approved, name, &[resource.to_owned()]))
            })
            .collect()
    }
}

/// The folders of a person and of a project, and what is found there.
struct Desk {
    _folder: tempfile::TempDir,
    root: PathBuf,
    trust: Trust,
    configurations: Configurations,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("project/.git")).unwrap();
        fs::create_dir_all(root.join("project/sub")).unwrap();
        let base = json!({"model": "fake/fake-1", "agent": {NEUTRAL: {"description": "about which nothing is said"}},
            "mcp": {"mine": {"type": "local", "command": ["mine"], "enabled": false}}});
        fs::create_dir(root.join("base")).unwrap();
        fs::write(root.join("base/opencode.json"), base.to_string()).unwrap();
        fs::create_dir(root.join("last")).unwrap();
        fs::write(root.join("named.json"), "{}").unwrap();
        let sources = ConfigSources {
            home: root.join("home"),
            base: Some(root.join("own/config.json")),
            own: vec![root.join("base"), root.join("own")],
            file: Some(root.join("named.json")),
            last: Some(root.join("last")),
            ..ConfigSources::default()
        };
        let trust = Trust::new(&root.join("state"));
        let data = root.join("data");
        let configurations =
            Configurations::found(sources, trust.clone(), &data, everturn_tools::Secrets::default());
        Self { _folder: folder, root, trust, configurations }
    }

    fn write(&self, below: &str, list: &[(&str, FileForm)], files: &[(usize, ConfigFile)]) {
        for (at, file) in files {
            let (name, form) = list[*at];
            let path = self.root.join(below).join(name.replace("AGENT", file.name()));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file.text(form)).unwrap();
        }
    }

    fn look(&self) -> Arc<Config> {
        self.configurations.look_at(&self.root.join("project/sub"))
    }

    fn trust_all(&self, config: &Config) {
        assert_eq!(config.root, self.root.join("project"));
        let held = config.held.iter().map(|(name, value)| (name.as_str(), value));
        self.trust.grant(&config.root, held).unwrap();
    }
}

fn strictness(action: Action) -> u8 {
    match action {
        Action::Allow => 0,
        Action::Ask => 1,
        Action::Deny => 2,
    }
}

/// The last word of a list.
fn last_word(rules: &[Rule], permission: &str, resource: &str) -> Option<Action> {
    use everturn_model::permission::matches;
    let fits = |rule: &&Rule| matches(&rule.permission, permission) && matches(&rule.pattern, resource);
    rules.iter().rev().find(fits).map(|rule| rule.action)
}

/// Expects that what the person denies an agent is denied.
fn check_denials(stack: &RuleStack, config: &Config, when: &str) -> Result<(), TestCaseError> {
    for agent in AGENTS {
        let person = stack.of_person(agent);
        for (permission, resource, decided) in stack.decisions(config, agent) {
            if last_word(&person, permission, resource) == Some(Action::Deny) {
                prop_assert_eq!(decided, Action::Deny, "{}: {} {} of {}", when, permission, resource, agent);
            }
        }
    }
    Ok(())
}

/// Expects that a trusted project's sandbox opens nothing that the person denies.
fn check_sandbox(stack: &RuleStack, config: &Config) -> Result<(), TestCaseError> {
    for agent in AGENTS {
        let policy = config.agents().policy(&stack.session(agent));
        let (person, sandbox) = (stack.of_person(agent), config.sandbox.under(&policy));
        let is_denied = |name: &str, resource: &str| last_word(&person, name, resource) == Some(Action::Deny);
        let own: Vec<PathBuf> = [&config.sandbox.readable[..], &config.sandbox.writable].concat();
        for place in sandbox.readable.iter().chain(&sandbox.writable).filter(|place| !own.contains(place)) {
            let place = place.display().to_string();
            for below in ["/*", "/a"] {
                let text = format!("{place}{below}");
                prop_assert!(!is_denied("external_directory", &text), "{} is open to {}", text, agent);
            }
            // Who denies what is around a folder and makes an exception of all that is in it means the folder too.
            let inside = last_word(&person, "external_directory", &format!("{place}/"));
            if inside.is_none_or(|action| action == Action::Deny) {
                prop_assert!(!is_denied("external_directory", &place), "{} is open to {}", place, agent);
            }
        }
        let of_person = stack.person.iter().any(|(_, file)| file.has_sandbox());
        if !of_person && KEPT.into_iter().any(|kept| RESOURCES.iter().any(|text| is_denied(kept, text))) {
            prop_assert!(sandbox.strength != SandboxStrength::Off, "{} has no sandbox", agent);
        }
    }
    Ok(())
}

/// Expects that a project's files, which nobody trusts, allow nothing that was not allowed without them.
fn check_untrusted(stack: &RuleStack, before: &Config, after: &Config) -> Result<(), TestCaseError> {
    let known = |agent: &str| before.agents().all().iter().any(|known| known.name == agent);
    for agent in AGENTS.into_iter().chain([NEUTRAL]) {
        // An agent that the project brings may do what any agent may about which the person has said nothing.
        let like = if known(agent) || stack.is_disabled_by_person(agent) { agent } else { NEUTRAL };
        let pairs = stack.decisions(before, like).into_iter().zip(stack.decisions(after, agent));
        for ((permission, resource, was), (_, _, is)) in pairs {
            prop_assert!(
                strictness(is) >= strictness(was),
                "{permission} {resource} of {agent}: {was:?} became {is:?}"
            );
        }
    }
    let chosen = |config: &Config| {
        let Config { model, small_model, default_agent, snapshot, tool_output, key_variables, .. } = config;
        let raw =
            ["provider", "mcp", "websearch", "sandbox", "trash"].map(|key| config.raw.get(key).cloned());
        let names = (model.clone(), small_model.clone(), default_agent.clone());
        (names, *snapshot, *tool_output, key_variables.clone(), raw)
    };
    prop_assert_eq!(chosen(before), chosen(after));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn nothing_is_looser_than_what_the_person_denied(stack in stack()) {
        let desk = Desk::new();
        desk.write("", &OF_PERSON, &stack.person);
        let before = desk.look();
        check_denials(&stack, &before, "without a project")?;
        desk.write("project", &OF_PROJECT, &stack.project);
        let untrusted = desk.look();
        prop_assert!(untrusted.problems.iter().all(|problem| !problem.unread), "{:?}", untrusted.problems);
        check_denials(&stack, &untrusted, "before trust")?;
        check_untrusted(&stack, &before, &untrusted)?;
        desk.trust_all(&untrusted);
        let trusted = desk.look();
        prop_assert!(trusted.held.is_empty(), "{:?}", trusted.held);
        check_denials(&stack, &trusted, "after trust")?;
        check_sandbox(&stack, &trusted)?;
    }
}

#[test]
fn random_files_reach_what_they_are_for() {
    // A generator that never denies, loosens or asks for anything would prove nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut denied, mut held, mut loosened, mut stricter) = (0, 0, 0, 0);
    let (mut opened, mut closed) = (0, 0);
    for _ in 0..24 {
        let stack = stack().new_tree(&mut runner).unwrap().current();
        let desk = Desk::new();
        desk.write("", &OF_PERSON, &stack.person);
        let before = desk.look();
        desk.write("project", &OF_PROJECT, &stack.project);
        let untrusted = desk.look();
        held += untrusted.held.len();
        desk.trust_all(&untrusted);
        let trusted = desk.look();
        for agent in AGENTS {
            let policy = trusted.agents().policy(&stack.session(agent));
            let (asked, sandbox) = (&trusted.sandbox, trusted.sandbox.under(&policy));
            let more = sandbox.readable.len() - asked.readable.len();
            opened += more;
            closed += asked.brought.readable.len() - more;
            let now = stack.decisions(&trusted, agent);
            for ((before, after), now) in
                stack.decisions(&before, agent).iter().zip(stack.decisions(&untrusted, agent)).zip(now)
            {
                denied += usize::from(before.2 == Action::Deny);
                stricter += usize::from(strictness(after.2) > strictness(before.2));
                loosened += usize::from(strictness(now.2) < strictness(after.2));
            }
        }
    }
    assert!(opened > 5 && closed > 5, "{opened} {closed}");
    assert!(
        denied > 100 && held > 20 && loosened > 20 && stricter > 20,
        "{denied} {held} {loosened} {stricter}"
    );
}
