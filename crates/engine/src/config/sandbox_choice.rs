//! How far programs are confined, as a configuration says it.
//!
//! `"sandbox": "workspace"`, `"read-only"` or `"off"`, or an object with the `mode` and more. The person decides; a
//! project can confine further at once, and anything else it asks for waits until it is trusted. Even then it confines
//! no less than the person has asked for.

use std::path::{Path, PathBuf};

use everturn_tools::process::sandbox::SandboxMode;
use serde_json::Value;

/// How far programs are confined, from the least to the most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxStrength {
    /// Not at all: command-line rules alone decide.
    Off,
    /// The project can be changed.
    #[default]
    Workspace,
    /// Nothing can.
    ReadOnly,
}

impl SandboxStrength {
    /// What may be done to the project, where there is a sandbox.
    #[must_use]
    pub fn mode(self) -> Option<SandboxMode> {
        match self {
            Self::Off => None,
            Self::Workspace => Some(SandboxMode::Workspace),
            Self::ReadOnly => Some(SandboxMode::ReadOnly),
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "workspace" => Some(Self::Workspace),
            "read-only" => Some(Self::ReadOnly),
            _ => None,
        }
    }
}

/// What is configured of the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxChoice {
    /// How far programs are confined.
    pub strength: SandboxStrength,
    /// What can be read besides the project.
    pub readable: Vec<PathBuf>,
    /// What can be changed besides the project.
    pub writable: Vec<PathBuf>,
    /// Whether the person's own MCP servers are confined, like those of a project always are.
    pub own_servers: bool,
    /// Who has switched it off: the file, or what else says so.
    pub off_by: Option<String>,
}

/// What one side says: the person, or a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SandboxWish {
    pub(super) strength: Option<SandboxStrength>,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    own_servers: bool,
}

/// Whether a project's wish only confines further.
pub(super) fn restricts(value: &Value) -> bool {
    let mode = match value {
        Value::Object(fields) if fields.len() == 1 => fields.get("mode"),
        other => Some(other),
    };
    mode.and_then(Value::as_str).and_then(SandboxStrength::named) == Some(SandboxStrength::ReadOnly)
}

impl SandboxWish {
    /// Reads a setting. What is wrong with it is the second value, in words; the rest counts.
    pub(super) fn read(value: Option<&Value>, home: &Path) -> (Self, Vec<String>) {
        let (mut wish, mut wrong) = (Self::default(), Vec::new());
        let mut strength = |value: &Value| {
            let named = value.as_str().and_then(SandboxStrength::named);
            if named.is_none() {
                wrong.push(format!("the sandbox can be `workspace`, `read-only` or `off`, not {value}"));
            }
            named
        };
        match value {
            None => {}
            Some(Value::Object(fields)) => {
                wish.strength = fields.get("mode").and_then(&mut strength);
                for (key, value) in fields {
                    match key.as_str() {
                        "mode" => {}
                        "readable" => wish.readable = paths(key, value, home, &mut wrong),
                        "writable" => wish.writable = paths(key, value, home, &mut wrong),
                        "mcp" if value.is_boolean() => wish.own_servers = value == true,
                        "mcp" => wrong.push(format!("`sandbox.mcp` is true or false, not {value}")),
                        _ => wrong.push(format!("there is no `sandbox.{key}`")),
                    }
                }
            }
            Some(value) => wish.strength = strength(value),
        }
        (wish, wrong)
    }

    /// What counts: the person's wish, and a project's as far as it may say something.
    pub(super) fn settle(person: Self, project: Self) -> SandboxChoice {
        let strength = match (person.strength, project.strength) {
            (Some(person), Some(project)) => person.max(project),
            (one, other) => one.or(other).unwrap_or_default(),
        };
        SandboxChoice {
            strength,
            readable: person.readable.into_iter().chain(project.readable).collect(),
            writable: person.writable.into_iter().chain(project.writable).collect(),
            own_servers: person.own_servers || project.own_servers,
            off_by: None,
        }
    }
}

/// The folders of a list: absolute ones, and such of the home folder.
fn paths(key: &str, value: &Value, home: &Path, wrong: &mut Vec<String>) -> Vec<PathBuf> {
    let Value::Array(list) = value else {
        wrong.push(format!("`sandbox.{key}` is a list of folders, not {value}"));
        return Vec::new();
    };
    let path = |value: &Value| {
        let text = value.as_str()?;
        let path = text.strip_prefix("~/").map_or_else(|| PathBuf::from(text), |below| home.join(below));
        (path.is_absolute() && path.parent().is_some()).then_some(path)
    };
    let mut paths = Vec::new();
    for value in list {
        match path(value) {
            Some(path) => paths.push(path),
            None => wrong
                .push(format!("`sandbox.{key}` names whole paths, or such that begin with ~/, not {value}")),
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> (SandboxWish, Vec<String>) {
        SandboxWish::read(Some(value), Path::new("/srv/me"))
    }

    #[test]
    fn a_wish_is_read_and_what_is_wrong_is_told() {
        let (wish, wrong) =
            read(&json!({"mode": "read-only", "readable": ["~/docs", "/srv/x"], "mcp": true}));
        let expected = SandboxWish {
            strength: Some(SandboxStrength::ReadOnly),
            readable: vec!["/srv/me/docs".into(), "/srv/x".into()],
            writable: Vec::new(),
            own_servers: true,
        };
        assert_eq!((wish, wrong), (expected, Vec::new()));
        assert_eq!(read(&json!("off")).0.strength, Some(SandboxStrength::Off));
        let (wish, wrong) =
            read(&json!({"mode": "none", "writable": ["x", "/", 1], "readable": 1, "mcp": 1, "odd": 1}));
        assert_eq!(wish, SandboxWish::default());
        let expected = [
            "the sandbox can be `workspace`, `read-only` or `off`, not \"none\"",
            "`sandbox.writable` names whole paths, or such that begin with ~/, not \"x\"",
            "`sandbox.writable` names whole paths, or such that begin with ~/, not \"/\"",
            "`sandbox.writable` names whole paths, or such that begin with ~/, not 1",
            "`sandbox.readable` is a list of folders, not 1",
            "`sandbox.mcp` is true or false, not 1",
            "there is no `sandbox.odd`",
        ];
        assert_eq!(wrong, expected);
        assert_eq!(
            read(&json!(false)).1,
            ["the sandbox can be `workspace`, `read-only` or `off`, not false"]
        );
    }

    #[test]
    fn a_project_never_confines_less_than_the_person_asked_for() {
        let check = |person: Option<&str>, project: Option<&str>, expected: SandboxStrength| {
            let wish = |name: Option<&str>| {
                SandboxWish::read(name.map(|name| json!(name)).as_ref(), Path::new("/")).0
            };
            assert_eq!(
                SandboxWish::settle(wish(person), wish(project)).strength,
                expected,
                "{person:?} {project:?}"
            );
        };
        check(None, None, SandboxStrength::Workspace);
        check(Some("off"), None, SandboxStrength::Off);
        check(Some("off"), Some("read-only"), SandboxStrength::ReadOnly);
        check(Some("workspace"), Some("off"), SandboxStrength::Workspace);
        check(Some("read-only"), Some("workspace"), SandboxStrength::ReadOnly);
        // Only what the person trusts gets this far.
        check(None, Some("off"), SandboxStrength::Off);
    }

    #[test]
    fn only_a_wish_for_more_counts_at_once() {
        for value in [json!("read-only"), json!({"mode": "read-only"})] {
            assert!(restricts(&value), "{value}");
        }
        let more = json!({"mode": "read-only", "readable": ["~/.ssh"]});
        for value in [json!("workspace"), json!("off"), json!(null), json!({}), more] {
            assert!(!restricts(&value), "{value}");
        }
    }
}
