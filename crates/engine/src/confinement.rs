//! The sandbox that programs run in: what is configured in a place, what the machine offers, and whose work it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_model::SessionId;
use everturn_model::permission::{Action, Policy, Rule};
use everturn_tools::Scope;
use everturn_tools::bash::{NETWORK, OUTSIDE};
use everturn_tools::mcp::ServerConfinement;
use everturn_tools::process::sandbox::{
    SandboxMachine, SandboxMode, SandboxNetwork, SandboxPart, SandboxSettings,
};
use everturn_tools::scope::SECRET;
use everturn_tools::shell::UncertainCommand;

use crate::Config;
use crate::agents::may_edit;
use crate::background::blocking;
use crate::options::Paths;
use crate::outputs::folder_in;
use crate::temporary::temporary_in;

/// The permission to run a command.
pub(crate) const COMMAND: &str = "bash";

/// Decides what programs run in; clones share what is known of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Confinement {
    machine: SandboxMachine,
    paths: Arc<Paths>,
}

impl Confinement {
    /// Sandboxes as this machine has them.
    pub(crate) fn new(machine: SandboxMachine, paths: Arc<Paths>) -> Self {
        Self { machine, paths }
    }

    /// Waits until it is known what the machine offers; false if `stopped` comes first.
    pub(crate) async fn ready(&self, stopped: impl Future<Output = ()>) -> bool {
        if self.machine.is_known() {
            return true;
        }
        let machine = self.machine.clone();
        tokio::select! {
            // It fails only when the process is ending.
            found = blocking(move || drop(machine.parts().cloned())) => found.is_ok(),
            () = stopped => false,
        }
    }

    /// What the commands of a session run in, by what its agent may do: one that may change no file gets commands that
    /// cannot either, and one that may not use the network without asking gets commands that have none. Whoever does not
    /// wait until it is known what the machine offers gets none of it, so that everything is asked about.
    pub(crate) fn of_commands(
        &self,
        config: &Config,
        policy: &Policy,
        session: &SessionId,
    ) -> Option<SandboxSettings> {
        let settings = self.settings(config, policy, self.machine.parts_by_now()?)?;
        let mode = if may_edit(policy) { settings.mode } else { SandboxMode::ReadOnly };
        // What is put there could not be told from what is gone with the program.
        let temporary = (mode == SandboxMode::Workspace)
            .then(|| temporary_in(&self.paths.data).join(folder_name(session)));
        Some(SandboxSettings { mode, temporary, ..settings })
    }

    /// What MCP servers of a place run in, where they are confined. Nobody is asked when one starts, so it must be allowed
    /// to use the network where it cannot be kept from that.
    pub(crate) fn of_servers(&self, config: &Config, worktree: &Path) -> ServerConfinement {
        // What is not known yet is waited for: nobody is asked about them.
        let parts = self.machine.parts().cloned();
        let settings = parts.and_then(|parts| self.settings(config, &server_policy(config), parts));
        let cuts_off =
            settings.as_ref().is_some_and(|settings| settings.parts.contains(&SandboxPart::Network));
        if server_network(config) == SandboxNetwork::Own && !cuts_off {
            let missing = match settings {
                None => "without a sandbox".to_owned(),
                Some(_) => format!("without a {}", SandboxPart::Network),
            };
            return ServerConfinement::Impossible(format!(
                "it is not started: the rule `{NETWORK}` does not allow it to use the network, and {missing} it cannot be \
                 kept from that"
            ));
        }
        match settings.filter(|settings| !settings.parts.is_empty()) {
            Some(settings) => {
                let policy = settings.policy(&self.scope(worktree, worktree, None));
                ServerConfinement::Sandbox(Box::new(policy))
            }
            None => ServerConfinement::Open,
        }
    }

    /// Where calls in a place work.
    pub(crate) fn scope(&self, directory: &Path, worktree: &Path, sandbox: Option<SandboxSettings>) -> Scope {
        Scope {
            directory: directory.to_owned(),
            worktree: worktree.to_owned(),
            output_dir: folder_in(&self.paths.data),
            home: self.paths.home.clone(),
            sandbox,
        }
    }

    fn settings(
        &self,
        config: &Config,
        policy: &Policy,
        parts: BTreeSet<SandboxPart>,
    ) -> Option<SandboxSettings> {
        let tools = self.machine.tools()?;
        let choice = config.sandbox.under(policy);
        let network = network(policy);
        let Paths { state, config, opencode, data, .. } = &*self.paths;
        let ours = [state, config, opencode, data].into_iter().filter(|folder| folder.is_absolute());
        let hidden: Vec<PathBuf> = ours.cloned().collect();
        Some(SandboxSettings {
            mode: choice.strength.mode()?,
            network,
            rules: Some(policy.clone()),
            parts,
            readable: choice.readable.iter().chain(&tools.readable).cloned().collect(),
            writable: choice.writable.iter().chain(&tools.writable).cloned().collect(),
            programs: tools.programs.clone(),
            hidden,
            temporary: None,
        })
    }
}

/// What programs without a command line reach by network.
fn network(policy: &Policy) -> SandboxNetwork {
    match policy.decide(&[], NETWORK, &["*".to_owned()]) {
        Action::Allow => SandboxNetwork::Host,
        Action::Ask | Action::Deny => SandboxNetwork::Own,
    }
}

/// The rules for MCP servers: they work for every agent, and go by what the default one may do.
pub(crate) fn server_policy(config: &Config) -> Policy {
    let agents = config.agents();
    agents.named(&agents.default_name()).map_or_else(|| Policy::new(Vec::new()), |agent| agent.policy.clone())
}

/// What MCP servers that are confined reach by network.
pub(crate) fn server_network(config: &Config) -> SandboxNetwork {
    network(&server_policy(config))
}

/// What rules say where there is a whole sandbox, and what people have approved. To leave it must be allowed by name, and so
/// must what it hides: who allows everything does not think of that. And what was approved for others does not let out who may change nothing.
pub(crate) fn decide_within(
    policy: &Policy,
    approved: &[Rule],
    permission: &str,
    patterns: &[String],
) -> Action {
    match permission {
        OUTSIDE => policy.decide_named(if may_edit(policy) { approved } else { &[] }, permission, patterns),
        SECRET => policy.decide_named(approved, permission, patterns),
        _ => decide_commands(policy, approved, permission, patterns),
    }
}

/// What rules say where there is no sandbox, and what people have approved: of commands more is asked than the rules say.
pub(crate) fn decide_commands(
    policy: &Policy,
    approved: &[Rule],
    permission: &str,
    patterns: &[String],
) -> Action {
    let may_be_denied = |pattern: &String| may_be_denied(policy, approved, pattern);
    match policy.decide(approved, permission, patterns) {
        Action::Allow if permission == COMMAND && patterns.iter().any(may_be_denied) => Action::Ask,
        decided => decided,
    }
}

/// Whether a command of which not all is known may be one that is denied: that it is not denied as it stands there says
/// nothing then, and neither does a rule that allows everything, but only one that means just such commands.
fn may_be_denied(policy: &Policy, approved: &[Rule], pattern: &str) -> bool {
    let Some(UncertainCommand { beginning, mark, is_marked }) = UncertainCommand::of(pattern) else {
        return false;
    };
    let named = if is_marked { pattern.to_owned() } else { format!("{mark}{pattern}") };
    policy.denies_below(COMMAND, beginning) && !policy.allows_by_name(approved, COMMAND, &named, mark)
}

/// A session's name for a folder. Programs in the sandbox see it in their list of mounts, so it does not tell the id, which
/// is all that is needed to speak of the session to the server. Nor is it a path, which the id of an imported session may be.
pub(crate) fn folder_name(session: &SessionId) -> String {
    blake3::hash(session.as_str().as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use everturn_tools::process::sandbox::ToolPlaces;
    use serde_json::{Value, json};

    use super::*;

    fn confinement(machine: SandboxMachine) -> Confinement {
        let folder = |name: &str| PathBuf::from("/srv/me").join(name);
        let paths = Paths {
            home: "/srv/me".into(),
            state: folder("state"),
            config: folder("config"),
            opencode: folder("opencode"),
            data: folder("data"),
        };
        Confinement::new(machine, Arc::new(paths))
    }

    fn whole() -> SandboxMachine {
        SandboxMachine::known(SandboxPart::ALL.into())
    }

    fn of_commands(machine: SandboxMachine, config: &Value, agent: &str) -> Option<SandboxSettings> {
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        let policy = config.agents().named(agent).unwrap().policy.clone();
        let settings = confinement(machine).of_commands(&config, &policy, &SessionId::from("ses_1"))?;
        assert_eq!(settings.rules, Some(policy), "single commands go by the same rules");
        Some(SandboxSettings { rules: None, ..settings })
    }

    #[test]
    fn commands_are_confined_by_what_is_configured_and_by_what_their_agent_may_do() {
        let usual = SandboxSettings {
            mode: SandboxMode::Workspace,
            network: SandboxNetwork::Host,
            rules: None,
            parts: SandboxPart::ALL.into(),
            readable: Vec::new(),
            writable: Vec::new(),
            programs: Vec::new(),
            hidden: ["state", "config", "opencode", "data"]
                .map(|name| format!("/srv/me/{name}").into())
                .to_vec(),
            temporary: Some(format!("/srv/me/data/temporary/{}", blake3::hash(b"ses_1").to_hex()).into()),
        };
        let check = |config: Value, agent: &str, expected: Option<SandboxSettings>| {
            assert_eq!(of_commands(whole(), &config, agent), expected, "{config} {agent}");
        };
        check(json!({}), "build", Some(usual.clone()));
        check(json!({"sandbox": "off"}), "build", None);
        let looking = SandboxSettings { mode: SandboxMode::ReadOnly, temporary: None, ..usual.clone() };
        check(json!({"sandbox": "read-only"}), "build", Some(looking.clone()));
        check(json!({}), "plan", Some(looking.clone()));
        check(json!({"permission": {"edit": "deny"}}), "build", Some(looking));
        check(json!({"permission": {"edit": {"*.lock": "deny"}}}), "build", Some(usual.clone()));
        for action in ["ask", "deny"] {
            let cut_off = SandboxSettings { network: SandboxNetwork::Own, ..usual.clone() };
            check(json!({"permission": {"network": action}}), "build", Some(cut_off));
        }
        let more = json!({"sandbox": {"readable": ["/srv/docs"], "writable": ["/srv/out"]}});
        let wider = SandboxSettings {
            readable: vec!["/srv/docs".into()],
            writable: vec!["/srv/out".into()],
            ..usual
        };
        check(more, "build", Some(wider));
    }

    #[test]
    fn servers_see_none_of_our_own_folders() {
        // In them are the token, keys and all conversations.
        let confined = confinement(whole()).of_servers(&Config::default(), Path::new("/srv/work"));
        let ServerConfinement::Sandbox(policy) = confined else { panic!("{confined:?}") };
        let ours = ["state", "config", "opencode", "data"].map(|name| PathBuf::from("/srv/me").join(name));
        let seen: Vec<&PathBuf> = ours.iter().filter(|folder| !policy.hidden.contains(folder)).collect();
        assert_eq!(seen, [] as [&PathBuf; 0], "{policy:?}");
    }

    #[test]
    fn the_folder_of_a_session_tells_nothing_of_its_id() {
        // Commands read it in their list of mounts. That of an imported session was a path of the importer's choice.
        let usual = "ses_1ec81c4f5001W48T4tyWNW99jc";
        for id in [usual, "ses_x/../../../people/.ssh", "..", "", "ses_x\0"] {
            let name = folder_name(&SessionId::from(id));
            assert!(
                name.len() == 64 && name.chars().all(|letter| letter.is_ascii_hexdigit()),
                "{id}: {name}"
            );
        }
    }

    #[test]
    fn the_machine_decides_what_it_is_made_of() {
        assert_eq!(of_commands(SandboxMachine::unused(), &json!({}), "build"), None);
        let none =
            of_commands(SandboxMachine::new(None, ToolPlaces::default()), &json!({}), "build").unwrap();
        assert_eq!((none.parts, none.mode), (BTreeSet::new(), SandboxMode::Workspace));
    }
}
