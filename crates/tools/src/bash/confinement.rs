//! What a command may see, change and reach: the sandbox of its scope, and what was permitted for this call.

use std::path::Path;

use everturn_model::permission::{Action, Policy};
use serde_json::{Map, Value, json};

use super::BashInput;
use crate::process::sandbox::{
    SandboxMode, SandboxNetwork, SandboxPart, SandboxPolicy, SandboxSettings, hide_secrets, is_of_its_own,
};
use crate::scope::{PROTECTED, PathAccess, SECRET, Scope, real};
use crate::shell::{Analysis, exact};
use crate::target::Target;
use crate::tool::{Context, Need};

/// The permission to run a command outside the sandbox, or in one that is not whole.
pub const OUTSIDE: &str = "outside_sandbox";

/// The permission to use the network.
pub const NETWORK: &str = "network";

/// What must be permitted because of how the command is confined.
pub(super) fn needs(input: &BashInput, scope: &Scope, commands: &[String]) -> Vec<Need> {
    let need = |permission: &str, patterns: Vec<String>, metadata: Map<String, Value>| Need {
        permission: permission.to_owned(),
        // Only the very same commands: a pattern in one would cover others.
        always: patterns.iter().filter_map(|command| exact(command)).collect(),
        patterns,
        metadata,
    };
    let mut metadata = Map::new();
    metadata.insert("command".to_owned(), json!(input.command));
    let mut needs = Vec::new();
    let outside = |sandbox: &&SandboxSettings| wants_outside(input) || !sandbox.is_whole();
    if let Some(sandbox) = scope.sandbox.as_ref().filter(outside) {
        let missing: Vec<String> = sandbox.missing().map(|part| part.to_string()).collect();
        let mut metadata = metadata.clone();
        if !missing.is_empty() {
            metadata.insert("missing".to_owned(), json!(missing));
        }
        needs.push(need(OUTSIDE, commands.to_vec(), metadata));
    }
    let programs = programs(commands);
    let reaches = match &scope.sandbox {
        // The rules are not known here, and whoever decides about needs has them.
        None => true,
        Some(sandbox) => {
            let wanted = input.network == Some(true) || wants_outside(input) || !cuts_off(sandbox);
            wanted && network(sandbox, commands) == SandboxNetwork::Own
        }
    };
    if reaches && !programs.is_empty() {
        needs.push(need(NETWORK, programs, metadata));
    }
    needs
}

/// Whether commands in this sandbox can be kept from the network.
fn cuts_off(sandbox: &SandboxSettings) -> bool {
    sandbox.parts.contains(&SandboxPart::Network)
}

/// What the command runs in, by what was permitted; nothing if it can do what the account can.
pub(super) fn policy(input: &BashInput, workdir: &Path, context: &Context) -> Option<SandboxPolicy> {
    let scope = &context.scope;
    let sandbox = scope.sandbox.as_ref()?;
    let granted = |permission: &str| context.granted.iter().any(|need| need.permission == permission);
    if sandbox.parts.is_empty() || wants_outside(input) && granted(OUTSIDE) {
        return None;
    }
    let mut policy = sandbox.policy(scope);
    let mut analysis = Analysis::of(&input.command, workdir, scope);
    policy.network = network(sandbox, &analysis.commands);
    if granted(NETWORK) {
        policy.network = SandboxNetwork::Host;
    }
    analysis.external.insert(0, (workdir.to_owned(), PathAccess::Write));
    leave_out_its_own(&mut analysis, scope);
    for (path, access) in analysis.external {
        let needs = scope.external(&path, access);
        let is_granted = |need: &Need| context.granted.iter().any(|known| known.covers(need));
        if !needs.is_empty() && needs.iter().all(is_granted) {
            let path = real(&path);
            if needs.iter().any(|need| need.permission == SECRET) {
                permit_secret(&mut policy, &path, access);
            } else {
                let is_protected = needs.iter().any(|need| need.permission == PROTECTED);
                permit(&mut policy, &path, access, sandbox.mode, scope, is_protected);
            }
        }
    }
    Some(policy)
}

/// Leaves out the paths about which nobody need be asked: those that mean something of the sandbox's own to the command, and
/// what every command in it can read anyway.
pub(super) fn leave_out_its_own(analysis: &mut Analysis, scope: &Scope) {
    let Some(sandbox) = scope.sandbox.as_ref().filter(|sandbox| sandbox.is_whole()) else { return };
    if analysis.external.is_empty() {
        return;
    }
    let policy = sandbox.policy(scope);
    analysis.external.retain(|(path, access)| {
        let shown = || *access == PathAccess::Read && policy.shows(&real(path));
        scope.contains(path) || !is_of_its_own(path) && !shown()
    });
}

/// Opens what somebody has permitted.
fn permit(
    policy: &mut SandboxPolicy,
    path: &Path,
    access: PathAccess,
    mode: SandboxMode,
    scope: &Scope,
    is_protected: bool,
) {
    let opened = match access {
        PathAccess::Read => {
            policy.permit_reading(path);
            path
        }
        // Nothing in a project that can only be read is changed, whatever else is permitted.
        PathAccess::Write if mode == SandboxMode::ReadOnly && scope.contains(path) => return,
        // Whoever goes there, or names all of it, does not mean the hooks in it: those have names of their own.
        PathAccess::Write if scope.contains(path) && path.ends_with(".git") && path.is_dir() => return,
        PathAccess::Write => {
            policy.permit_change(path);
            let inside = policy.writable.iter().any(|folder| path.starts_with(folder) && folder != path);
            // What is to be made or replaced needs its folder. That is not the home folder where only a file in it was
            // permitted, and nobody was asked for the folder.
            let is_alone = |folder: &Path| is_protected && path.exists() && scope.is_around_home(folder);
            let folder = path.parent().filter(|folder| !inside && !path.is_dir() && !is_alone(folder));
            policy.writable.extend(folder.map(Path::to_owned));
            // Nothing but the file is open in a folder that is protected itself, or lies in something that is: no name in
            // there is known for what it is.
            let is_closed = |folder: &&Path| {
                scope.is_protected_outside(&Target::new(folder.to_path_buf(), folder.to_path_buf()))
            };
            policy.protected.extend(folder.filter(is_closed).map(Path::to_owned));
            let opened = folder.unwrap_or(path);
            // What is protected in a project is protected there too: what was permitted is a name, and not all that runs
            // by itself beside it.
            if !inside && opened.is_dir() && !policy.projects.iter().any(|known| known == opened) {
                policy.projects.push(opened.to_owned());
            }
            opened
        }
    };
    if scope.home.starts_with(opened) {
        policy.show_home(&scope.home);
    }
    hide_secrets(policy, &scope.home);
}

/// Opens something that is hidden, and nothing beside it: to be made or replaced it would need its folder.
fn permit_secret(policy: &mut SandboxPolicy, path: &Path, access: PathAccess) {
    policy.hidden.retain(|hidden| hidden != path);
    match access {
        PathAccess::Read => policy.permit_reading(path),
        PathAccess::Write => policy.permit_change(path),
    }
}

fn wants_outside(input: &BashInput) -> bool {
    input.outside_sandbox == Some(true)
}

/// What a line reaches by network without asking. It has one network, so each of its commands must be allowed; what is not
/// understood of it matches no rule that names a program.
fn network(sandbox: &SandboxSettings, commands: &[String]) -> SandboxNetwork {
    let Some(rules) = &sandbox.rules else { return sandbox.network };
    match rules.decide(&[], NETWORK, &programs(commands)) {
        Action::Allow => SandboxNetwork::Host,
        Action::Ask | Action::Deny => SandboxNetwork::Own,
    }
}

/// What of that which must be allowed is a program: a file that is written reaches nothing.
fn programs(commands: &[String]) -> Vec<String> {
    commands.iter().filter(|command| !command.starts_with("> ")).cloned().collect()
}

/// What a person may be asked for when a command is kept from something: nobody is told to ask for what is denied.
#[derive(Debug)]
pub(super) struct Offers {
    rules: Option<Policy>,
    commands: Vec<String>,
}

impl Offers {
    /// Those for a command in its scope.
    pub(super) fn of(command: &str, workdir: &Path, scope: &Scope) -> Self {
        let rules = scope.sandbox.as_ref().and_then(|sandbox| sandbox.rules.clone());
        Self { rules, commands: Analysis::of(command, workdir, scope).commands }
    }

    /// To run it outside.
    pub(super) fn outside(&self) -> bool {
        self.offers(OUTSIDE, &self.commands)
    }

    /// To let it use the network.
    pub(super) fn network(&self) -> bool {
        self.offers(NETWORK, &programs(&self.commands))
    }

    /// To change protected files.
    pub(super) fn change(&self, names: &[String]) -> bool {
        self.offers(PROTECTED, names)
    }

    fn offers(&self, permission: &str, patterns: &[String]) -> bool {
        let denied = |rules: &Policy| rules.decide(&[], permission, patterns) == Action::Deny;
        !self.rules.as_ref().is_some_and(denied)
    }
}
