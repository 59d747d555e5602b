//! What a project may not open, although it is trusted: what the person's rules deny.

use std::path::{Path, PathBuf};

use everturn_model::permission::Policy;
use everturn_tools::bash::{NETWORK, OUTSIDE};
use everturn_tools::scope::{PROTECTED, SECRET};
use serde_json::Value;

use super::misspelling::shown;
use super::sandbox_choice::{SandboxChoice, SandboxMistake, SandboxPlaces, SandboxStrength};
use crate::agents::may_edit;

/// The permission for what lies outside the project.
const ELSEWHERE: &str = "external_directory";

/// What a sandbox keeps programs from, by the permission for it.
const KEPT: [&str; 5] = [ELSEWHERE, NETWORK, OUTSIDE, PROTECTED, SECRET];

impl SandboxChoice {
    /// What holds under some rules. What they deny, a project does not open: neither a place in which they deny anything, nor
    /// all of it by switching the sandbox off. The person's own places stay: they have said both themselves.
    #[must_use]
    pub fn under(&self, policy: &Policy) -> Self {
        let strength = if self.is_off_by_project && needs_sandbox(policy) {
            SandboxStrength::default()
        } else {
            self.strength
        };
        let open = |own: &[PathBuf], brought: &[PathBuf]| {
            let brought = brought.iter().filter(|place| !is_closed(policy, place));
            own.iter().chain(brought).cloned().collect()
        };
        Self {
            strength,
            readable: open(&self.readable, &self.brought.readable),
            writable: open(&self.writable, &self.brought.writable),
            own_servers: self.own_servers,
            off_by: self.off_by.clone().filter(|_| strength == SandboxStrength::Off),
            brought: SandboxPlaces::default(),
            is_off_by_project: self.is_off_by_project && strength == SandboxStrength::Off,
        }
    }

    /// What of it does not hold under the person's rules, in words.
    pub(super) fn refusals(&self, policy: &Policy) -> Vec<SandboxMistake> {
        let mut refusals = Vec::new();
        if self.is_off_by_project && needs_sandbox(policy) {
            let what = "it does not switch the sandbox off: your rules deny what that would allow";
            refusals.push(SandboxMistake { key: None, what: what.to_owned(), meant: None });
        }
        for (key, places) in [("readable", &self.brought.readable), ("writable", &self.brought.writable)] {
            for place in places.iter().filter(|place| is_closed(policy, place)) {
                let what = format!(
                    "`{}` is not opened: your rules for `{ELSEWHERE}` deny it or a part of it",
                    shown(&place.display().to_string())
                );
                refusals.push(SandboxMistake::at(key, what));
            }
        }
        refusals
    }
}

/// Whether rules deny something that nothing but a sandbox keeps commands from.
fn needs_sandbox(policy: &Policy) -> bool {
    !may_edit(policy) || KEPT.into_iter().any(|kept| policy.denies_below(kept, ""))
}

/// Whether rules deny a place or something in it, where it leads to included.
fn is_closed(policy: &Policy, place: &Path) -> bool {
    let denies = |place: &Path| {
        let text = place.display().to_string();
        policy.denies_below(ELSEWHERE, &format!("{}/", text.trim_end_matches('/')))
    };
    denies(place) || place.canonicalize().is_ok_and(|real| denies(&real))
}

/// What a person lets happen by trusting a project's setting.
pub(super) fn words(value: &Value) -> String {
    let mode = value.get("mode").unwrap_or(value);
    if mode == SandboxStrength::Off.name() {
        return "the sandbox is switched off: commands can read and change all that you can".to_owned();
    }
    let list = |key: &str| {
        let places = value.get(key).and_then(Value::as_array).into_iter().flatten();
        places.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let opened = [("read", list("readable")), ("change", list("writable"))];
    let opened: Vec<String> = opened
        .into_iter()
        .filter(|(_, places)| !places.is_empty())
        .map(|(verb, places)| format!("{verb} {places}"))
        .collect();
    match opened.as_slice() {
        [] => "how far commands are confined".to_owned(),
        opened => format!("commands can {} besides the project", opened.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use everturn_model::permission::{Action, Rule};
    use serde_json::json;

    use super::super::rules::rules;
    use super::*;

    fn choice(folder: &Path) -> SandboxChoice {
        let places = |name: &str| vec![folder.join(name)];
        SandboxChoice {
            strength: SandboxStrength::Off,
            readable: places("keys"),
            off_by: Some("the project".to_owned()),
            brought: SandboxPlaces { readable: places("link"), writable: places("other") },
            is_off_by_project: true,
            ..SandboxChoice::default()
        }
    }

    #[test]
    fn a_project_opens_nothing_that_rules_deny() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("keys")).unwrap();
        std::os::unix::fs::symlink(folder.join("keys"), folder.join("link")).unwrap();
        let choice = choice(&folder);
        let check = |permission: Value, is_off: bool, link: bool, other: bool| {
            let policy = Policy::new(rules(&permission));
            let under = choice.under(&policy);
            let found = (
                under.strength == SandboxStrength::Off && under.off_by.is_some(),
                under.readable.contains(&folder.join("link")),
                under.writable.contains(&folder.join("other")),
            );
            assert_eq!(found, (is_off, link, other), "{permission}");
            assert!(under.readable.contains(&folder.join("keys")), "the person's own: {permission}");
            let refused = [is_off, link, other].into_iter().filter(|holds| !holds).count();
            assert_eq!(choice.refusals(&policy).len(), refused, "{permission}");
        };
        let below = |name: &str| format!("{}/{name}", folder.display());
        check(json!({}), true, true, true);
        check(json!({"external_directory": "ask", "bash": "deny"}), true, true, true);
        check(json!({"external_directory": "deny"}), false, false, false);
        // A link leads to what is denied.
        check(json!({"external_directory": {"*": "allow", below("keys/*"): "deny"}}), false, false, true);
        check(json!({"external_directory": {below("other/deep/*"): "deny"}}), false, true, false);
        check(json!({"external_directory": {"*": "deny", below("other/*"): "allow"}}), false, false, true);
        for kept in ["outside_sandbox", "network", "protected_file", "secret_file", "edit"] {
            check(json!({kept: "deny"}), false, true, true);
        }
        check(json!({"outside_sandbox": {"rm *": "deny"}}), false, true, true);
        let within = Policy::new(vec![Rule::new("*", "*", Action::Allow)]).within(vec![Rule::new(
            OUTSIDE,
            "*",
            Action::Deny,
        )]);
        assert_eq!(choice.under(&within).strength, SandboxStrength::Workspace);
    }
}
