//! What is configured of a server, in the shape of OpenCode's configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// A configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefinition {
    /// Where it is.
    pub endpoint: ServerAddress,
    /// Whether it is to be used.
    pub enabled: bool,
    /// How long connecting may take, and how long a list may. A call may be silent for at least two minutes, and for
    /// this long if it is longer.
    pub timeout: Option<Duration>,
}

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A program to start, spoken to over its standard input and output.
    Local {
        /// The program and its arguments.
        command: Vec<String>,
        /// More of its environment.
        environment: BTreeMap<String, String>,
        /// Where it runs; the project's folder if nothing is said, or relative to it.
        cwd: Option<PathBuf>,
    },
    /// An address, spoken to over streamable HTTP.
    Remote {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl fmt::Debug for ServerAddress {
    /// Values of variables and headers are left out: they are where keys are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { command, environment, cwd } => f
                .debug_struct("Local")
                .field("command", command)
                .field("environment", &environment.keys())
                .field("cwd", cwd)
                .finish(),
            Self::Remote { headers, .. } => {
                f.debug_struct("Remote").field("headers", &headers.keys()).finish_non_exhaustive()
            }
        }
    }
}

/// Why a server's configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidServer(String);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum WrittenServer {
    Local {
        command: Vec<String>,
        #[serde(default)]
        environment: BTreeMap<String, String>,
        #[serde(default)]
        cwd: Option<PathBuf>,
        #[serde(default)]
        enabled: Option<bool>,
        #[serde(default)]
        timeout: Option<u64>,
    },
    Remote {
        url: String,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        enabled: Option<bool>,
        #[serde(default)]
        timeout: Option<u64>,
    },
}

impl ServerDefinition {
    /// Reads one server.
    ///
    /// # Errors
    /// When it says too little, or something of the wrong kind.
    pub fn from_value(value: &Value) -> Result<Self, InvalidServer> {
        let written = WrittenServer::deserialize(value).map_err(|error| InvalidServer(error.to_string()))?;
        let (endpoint, enabled, timeout) = match written {
            WrittenServer::Local { command, environment, cwd, enabled, timeout } => {
                if command.first().is_none_or(String::is_empty) {
                    return Err(InvalidServer("`command` names no program".to_owned()));
                }
                (ServerAddress::Local { command, environment, cwd }, enabled, timeout)
            }
            WrittenServer::Remote { url, headers, enabled, timeout } => {
                let parsed =
                    url::Url::parse(&url).map_err(|error| InvalidServer(format!("`url`: {error}")))?;
                if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
                    return Err(InvalidServer("`url` must begin with http:// or https://".to_owned()));
                }
                (ServerAddress::Remote { url, headers }, enabled, timeout)
            }
        };
        let timeout = timeout.filter(|timeout| *timeout > 0).map(Duration::from_millis);
        Ok(Self { endpoint, enabled: enabled.unwrap_or(true), timeout })
    }

    /// A hash of what would be started or called. Two servers with the same one do the same, whatever they are named.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        // Each with its length, so that no two lists look the same one behind another.
        let mut add = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        let pairs = match &self.endpoint {
            ServerAddress::Local { command, environment, cwd } => {
                add(b"local");
                add(&(command.len() as u64).to_le_bytes());
                command.iter().for_each(|word| add(word.as_bytes()));
                match cwd {
                    Some(cwd) => {
                        add(b"in");
                        add(cwd.as_os_str().as_encoded_bytes());
                    }
                    None => add(b"here"),
                }
                environment
            }
            ServerAddress::Remote { url, headers } => {
                add(b"remote");
                add(url.as_bytes());
                headers
            }
        };
        for (name, value) in pairs {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let local = json!({"type": "local", "command": ["npx", "x"], "environment": {"A": "b"}, "enabled": false,
            "timeout": 5000});
        let endpoint = ServerAddress::Local {
            command: vec!["npx".to_owned(), "x".to_owned()],
            environment: [("A".to_owned(), "b".to_owned())].into(),
            cwd: None,
        };
        let expected = ServerDefinition { endpoint, enabled: false, timeout: Some(Duration::from_secs(5)) };
        assert_eq!(ServerDefinition::from_value(&local), Ok(expected));
        let remote = json!({"type": "remote", "url": "https://example.com/mcp", "headers": {"X": "y"}, "oauth": false});
        let endpoint = ServerAddress::Remote {
            url: "https://example.com/mcp".to_owned(),
            headers: [("X".to_owned(), "y".to_owned())].into(),
        };
        assert!(!format!("{endpoint:?}").contains('y'), "{endpoint:?}");
        assert_eq!(
            ServerDefinition::from_value(&remote),
            Ok(ServerDefinition { endpoint, enabled: true, timeout: None })
        );
    }

    #[test]
    fn a_fingerprint_is_of_what_would_happen() {
        let print = |value: Value| ServerDefinition::from_value(&value).unwrap().fingerprint();
        let plain = print(json!({"type": "local", "command": ["a", "b"]}));
        assert_eq!(
            plain,
            print(json!({"type": "local", "command": ["a", "b"], "enabled": false, "timeout": 7}))
        );
        for other in [
            json!({"type": "local", "command": ["ab"]}),
            json!({"type": "local", "command": ["a", "b", ""]}),
            json!({"type": "local", "command": ["a"], "environment": {"b": ""}}),
            json!({"type": "local", "command": ["a", "b"], "environment": {"A": "b"}}),
            json!({"type": "local", "command": ["a", "b"], "cwd": "x"}),
            json!({"type": "remote", "url": "http://a/b"}),
        ] {
            assert_ne!(plain, print(other.clone()), "{other}");
        }
    }

    #[test]
    fn faults_are_named() {
        let check = |value: Value, expected: &str| {
            let error = ServerDefinition::from_value(&value).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(json!({"type": "local", "command": []}), "names no program");
        check(json!({"type": "local", "command": "npx x"}), "expected a sequence");
        check(json!({"type": "remote", "url": "file:///etc/passwd"}), "must begin with http");
        check(json!({"type": "remote"}), "missing field `url`");
        check(json!({"type": "else"}), "unknown variant");
        check(json!({"enabled": false}), "missing field `type`");
    }
}
