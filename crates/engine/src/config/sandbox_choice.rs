//! How far programs are confined, as a configuration says it.
//!
//! `"sandbox": "workspace"`, `"read-only"` or `"off"`, or an object with the `mode` and more. The person decides; a
//! project can confine further at once, and anything else it asks for waits until it is trusted. Even then it confines
//! no less than the person has asked for.

use std::path::{Path, PathBuf};

use everturn_tools::process::sandbox::SandboxMode;
use serde_json::{Value, json};

use super::misspelling::{is_close, plain, shown};

/// The keys of the setting.
const KEYS: [&str; 4] = ["mcp", "mode", "readable", "writable"];

pub(super) const STRICT: &str = "; until it is mended, the project can only be read";

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

    /// The word for it in a configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Workspace => "workspace",
            Self::ReadOnly => "read-only",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Off, Self::Workspace, Self::ReadOnly].into_iter().find(|strength| strength.name() == name)
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
    /// What a project that is trusted opens besides.
    pub brought: SandboxPlaces,
    /// Whether it is a project that has switched it off.
    pub is_off_by_project: bool,
}

/// Places besides the project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPlaces {
    /// What can be read.
    pub readable: Vec<PathBuf>,
    /// What can be changed.
    pub writable: Vec<PathBuf>,
}

/// What one side says: the person, or a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SandboxWish {
    pub(super) strength: Option<SandboxStrength>,
    /// Whether the strength is the most there is because nobody can tell which was meant.
    is_unclear: bool,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    own_servers: bool,
}

/// Something in a setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SandboxMistake {
    /// The key of it, if the setting is an object.
    pub(super) key: Option<String>,
    /// What is wrong.
    pub(super) what: String,
    /// What was given under a key that there is not: it may have been meant to forbid something.
    pub(super) meant: Option<Value>,
}

/// Whether nobody can tell how far a wish confines.
pub(super) fn is_unclear(value: &Value) -> bool {
    SandboxWish::read(Some(value), Path::new("/")).0.is_unclear
}

/// The setting that confines as far as possible.
pub(super) fn strictest() -> Value {
    json!({"mode": SandboxStrength::ReadOnly.name(), "mcp": true})
}

/// Whether a project's wish only confines further.
pub(super) fn restricts(value: &Value) -> bool {
    let mode = match value {
        Value::Object(fields) => {
            let is_stricter =
                |(key, value): (&String, &Value)| key == "mode" || key == "mcp" && *value == true;
            fields.get("mode").filter(|_| fields.iter().all(is_stricter))
        }
        other => Some(other),
    };
    mode.and_then(Value::as_str).and_then(SandboxStrength::named) == Some(SandboxStrength::ReadOnly)
}

impl SandboxWish {
    /// Reads a setting. What is wrong with it is the second value; the rest counts, and how far programs are confined is as
    /// far as possible where nobody can tell.
    pub(super) fn read(value: Option<&Value>, home: &Path) -> (Self, Vec<SandboxMistake>) {
        let (mut wish, mut wrong) = (Self::default(), Vec::new());
        match value {
            None => {}
            Some(Value::Object(fields)) => {
                if let Some(mode) = fields.get("mode") {
                    wrong.extend(wish.take_mode(Some("mode"), mode));
                }
                for (key, value) in fields {
                    match key.as_str() {
                        "mode" => {}
                        "readable" => wish.readable = paths(key, value, home, &mut wrong),
                        "writable" => wish.writable = paths(key, value, home, &mut wrong),
                        "mcp" if value.is_boolean() => wish.own_servers = value == true,
                        "mcp" => {
                            wish.own_servers = true;
                            let what = "`sandbox.mcp` is true or false; until it is mended, it is true";
                            wrong.push(SandboxMistake::at(key, what.to_owned()));
                        }
                        _ => {
                            let near = KEYS.into_iter().find(|known| is_close(&plain(key), known));
                            let hint =
                                near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
                            let mut what = format!("there is no `sandbox.{}`{hint}", shown(key));
                            // It may have been meant to be the mode.
                            if !fields.contains_key("mode") {
                                wish.be_strict();
                                what.push_str(STRICT);
                            }
                            let meant = Some(json!({key.clone(): value}));
                            wrong.push(SandboxMistake { meant, ..SandboxMistake::at(key, what) });
                        }
                    }
                }
            }
            Some(value) => wrong.extend(wish.take_mode(None, value)),
        }
        (wish, wrong)
    }

    fn take_mode(&mut self, key: Option<&str>, value: &Value) -> Option<SandboxMistake> {
        self.strength = value.as_str().and_then(SandboxStrength::named);
        if self.strength.is_some() {
            return None;
        }
        self.be_strict();
        let what = format!("the sandbox can be `workspace`, `read-only` or `off`, not {value}{STRICT}");
        Some(SandboxMistake { key: key.map(str::to_owned), what, meant: None })
    }

    fn be_strict(&mut self) {
        self.strength = Some(SandboxStrength::ReadOnly);
        self.is_unclear = true;
    }

    /// What counts: the person's wish, and a project's as far as it may say something.
    pub(super) fn settle(person: Self, project: Self) -> SandboxChoice {
        let strength = match (person.strength, project.strength) {
            (Some(person), Some(project)) => person.max(project),
            (one, other) => one.or(other).unwrap_or_default(),
        };
        SandboxChoice {
            strength,
            readable: person.readable,
            writable: person.writable,
            own_servers: person.own_servers || project.own_servers,
            off_by: None,
            brought: SandboxPlaces { readable: project.readable, writable: project.writable },
            is_off_by_project: strength == SandboxStrength::Off && person.strength.is_none(),
        }
    }
}

impl SandboxMistake {
    pub(super) fn at(key: &str, what: String) -> Self {
        Self { key: Some(key.to_owned()), what, meant: None }
    }
}

/// The folders of a list: absolute ones, and such of the home folder.
fn paths(key: &str, value: &Value, home: &Path, wrong: &mut Vec<SandboxMistake>) -> Vec<PathBuf> {
    let Value::Array(list) = value else {
        wrong.push(SandboxMistake::at(key, format!("`sandbox.{key}` is a list of folders, not {value}")));
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
            None => {
                let what =
                    format!("`sandbox.{key}` names whole paths, or such that begin with ~/, not {value}");
                wrong.push(SandboxMistake::at(key, what));
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> (SandboxWish, Vec<String>) {
        let (wish, wrong) = SandboxWish::read(Some(value), Path::new("/srv/me"));
        (wish, wrong.into_iter().map(|mistake| mistake.what).collect())
    }

    #[test]
    fn a_wish_is_read_and_what_is_wrong_is_told() {
        let (wish, wrong) =
            read(&json!({"mode": "read-only", "readable": ["~/docs", "/srv/x"], "mcp": true}));
        let expected = SandboxWish {
            strength: Some(SandboxStrength::ReadOnly),
            is_unclear: false,
            readable: vec!["/srv/me/docs".into(), "/srv/x".into()],
            writable: Vec::new(),
            own_servers: true,
        };
        assert_eq!((wish, wrong), (expected, Vec::new()));
        assert_eq!(read(&json!("off")).0.strength, Some(SandboxStrength::Off));
        let (wish, wrong) =
            read(&json!({"mode": "none", "writable": ["x", "/", 1], "readable": 1, "mcp": 1, "odd": 1}));
        let strict = SandboxWish {
            is_unclear: true,
            strength: Some(SandboxStrength::ReadOnly),
            ..SandboxWish::default()
        };
        assert_eq!(wish, SandboxWish { own_servers: true, ..strict.clone() });
        let end = "; until it is mended, the project can only be read";
        let expected = [
            &format!("the sandbox can be `workspace`, `read-only` or `off`, not \"none\"{end}"),
            "`sandbox.writable` names whole paths, or such that begin with ~/, not \"x\"",
            "`sandbox.writable` names whole paths, or such that begin with ~/, not \"/\"",
            "`sandbox.writable` names whole paths, or such that begin with ~/, not 1",
            "`sandbox.readable` is a list of folders, not 1",
            "`sandbox.mcp` is true or false; until it is mended, it is true",
            "there is no `sandbox.odd`",
        ];
        assert_eq!(wrong, expected);
        let what = format!("the sandbox can be `workspace`, `read-only` or `off`, not false{end}");
        assert_eq!(read(&json!(false)), (strict.clone(), vec![what]));
        let what = format!("there is no `sandbox.mdoe`: did you mean `mode`?{end}");
        assert_eq!(read(&json!({"mdoe": "off"})), (strict, vec![what]));
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
    fn a_wish_is_unclear_where_nobody_can_tell_how_far_it_confines() {
        for value in [json!("of"), json!(null), json!({"mode": "of"}), json!({"odd": 1, "readable": ["/x"]})]
        {
            assert!(is_unclear(&value), "{value}");
        }
        for value in [json!("off"), json!({}), json!({"mode": "off", "odd": 1}), json!({"readable": 1})] {
            assert!(!is_unclear(&value), "{value}");
        }
    }

    #[test]
    fn only_a_wish_for_more_counts_at_once() {
        for value in [json!("read-only"), json!({"mode": "read-only"}), strictest()] {
            assert!(restricts(&value), "{value}");
        }
        let more = json!({"mode": "read-only", "readable": ["~/.ssh"]});
        for value in [json!("workspace"), json!("off"), json!(null), json!({}), more] {
            assert!(!restricts(&value), "{value}");
        }
    }
}
