//! Finding the key of a provider.
//!
//! A key in the configuration comes before the environment, which comes before the [file](AuthFile) of keys: what
//! was said for one run wins over what was said once for all. The caller passes in how to look up environment
//! variables and where the file is. No key is ever part of an error, a `Debug` text or a log line.

mod file;

use std::fmt;
use std::path::PathBuf;

pub use file::{AuthEntry, AuthFile};

use crate::Secret;
use crate::catalogue::ProviderInfo;

/// Looks up an environment variable.
pub type Variables<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// Why keys cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// Others may read the file.
    #[error(
        "others may read the keys in {} (its mode is {mode:03o}): run `chmod 600 {}`, and replace the keys if somebody else uses this machine",
        path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is no JSON object.
    #[error(
        "the keys in {} cannot be read: line {line}, column {column} is not as it should be; correct the file, or move it away and add the keys again",
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line at which reading stopped.
        line: usize,
        /// The column.
        column: usize,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}; check who owns it and that the disk is not full", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A key that cannot be one.
    #[error("the key for {provider} is empty or has a line break in it: copy it again")]
    Unusable {
        /// The provider.
        provider: String,
    },
    /// There is no key.
    #[error("there is no key for {provider}: {}", advice(variables, file.as_ref()))]
    Missing {
        /// The provider.
        provider: String,
        /// The variables that would be looked at.
        variables: Vec<String>,
        /// The file that was looked at.
        file: Option<PathBuf>,
    },
}

fn advice(variables: &[String], file: Option<&PathBuf>) -> String {
    let mut ways = Vec::new();
    if !variables.is_empty() {
        ways.push(format!("set {}", variables.join(" or ")));
    }
    ways.push("set its `apiKey` in the configuration".to_owned());
    ways.extend(file.map(|file| format!("add it to {}", file.display())));
    ways.join(", or ")
}

/// Where a key was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In the configuration.
    Configuration,
    /// In this environment variable.
    Variable(String),
    /// In this file.
    File(PathBuf),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration => f.write_str("the configuration"),
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A key and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    /// The key.
    pub key: Secret,
    /// Where it was.
    pub source: KeySource,
}

/// The places where keys may be.
#[derive(Clone)]
pub struct Keyring<'a> {
    variables: Variables<'a>,
    files: Vec<AuthFile>,
}

impl fmt::Debug for Keyring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<'a> Keyring<'a> {
    /// Keys in the environment and in files. The first file is this program's own; the others belong to other programs,
    /// and one of these that cannot be read is passed over.
    #[must_use]
    pub fn new(variables: Variables<'a>, files: Vec<AuthFile>) -> Self {
        Self { variables, files }
    }

    /// How environment variables are looked up.
    pub fn variables(&self) -> Variables<'a> {
        self.variables
    }

    /// The key of a provider, if there is one.
    ///
    /// # Errors
    ///
    /// When the file has to be asked and cannot be read.
    pub fn find(&self, provider: &ProviderInfo) -> Result<Option<FoundKey>, CredentialError> {
        if let Some(key) = &provider.key {
            return Ok(Some(FoundKey { key: key.clone(), source: KeySource::Configuration }));
        }
        for name in provider.key_variables() {
            let value = (self.variables)(name).unwrap_or_default();
            // A variable that is set to nothing counts as not set; a value that was read from a file often ends with
            // a line break.
            if !value.trim().is_empty() {
                return Ok(Some(FoundKey {
                    key: value.trim().into(),
                    source: KeySource::Variable(name.to_owned()),
                }));
            }
        }
        for (place, file) in self.files.iter().enumerate() {
            let found = pass_over(place, file.key(&provider.id))?.flatten();
            if let Some(key) = found {
                return Ok(Some(FoundKey { key, source: KeySource::File(file.path().to_owned()) }));
            }
        }
        Ok(None)
    }

    /// The key of a provider that needs one.
    ///
    /// # Errors
    ///
    /// When there is none, or as [`find`](Self::find).
    pub fn require(&self, provider: &ProviderInfo) -> Result<FoundKey, CredentialError> {
        self.find(provider)?.ok_or_else(|| CredentialError::Missing {
            provider: provider.id.clone().into_owned(),
            variables: provider.key_variables().map(str::to_owned).collect(),
            file: self.files.first().map(|file| file.path().to_owned()),
        })
    }

    /// The providers that can be used, as a question for the catalogue. The files are read once, here.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn usable(&self) -> Result<impl Fn(&ProviderInfo) -> bool + use<'a>, CredentialError> {
        let mut entries = Vec::new();
        for (place, file) in self.files.iter().enumerate() {
            entries.extend(pass_over(place, file.entries())?.unwrap_or_default());
        }
        let variables = self.variables;
        Ok(move |provider: &ProviderInfo| {
            let is_set = |name: &str| variables(name).is_some_and(|value| !value.trim().is_empty());
            provider.is_usable(&is_set)
                || entries.iter().any(|entry| entry.provider == provider.id && entry.is_key())
        })
    }
}

/// Nothing instead of an error, if the file belongs to another program.
fn pass_over<T>(place: usize, read: Result<T, CredentialError>) -> Result<Option<T>, CredentialError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if place > 0 => {
            tracing::warn!(%error, "keys of another program are not used");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(key: Option<&str>) -> ProviderInfo {
        ProviderInfo {
            id: "azure".into(),
            env: vec!["AZURE_RESOURCE_NAME".into(), "AZURE_API_KEY".into(), "AZURE_TOKEN".into()],
            key: key.map(Secret::from),
            ..ProviderInfo::default()
        }
    }

    fn check(key: Option<&str>, set: &[(&str, &str)], expected: Option<(&str, KeySource)>) {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let lookup = |name: &str| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let found = Keyring::new(&lookup, Vec::new()).find(&provider(key)).unwrap();
        assert_eq!(found, expected.map(|(key, source)| FoundKey { key: key.into(), source }));
        let usable = Keyring::new(&lookup, Vec::new()).usable().unwrap()(&provider(key));
        assert_eq!(usable, found.is_some());
    }

    #[test]
    fn the_configuration_comes_before_the_environment_and_variables_in_their_order() {
        let variable = |name: &str| KeySource::Variable(name.to_owned());
        check(None, &[], None);
        check(Some("k1"), &[("AZURE_API_KEY", "k2")], Some(("k1", KeySource::Configuration)));
        check(
            None,
            &[("AZURE_TOKEN", "k3"), ("AZURE_API_KEY", "k2")],
            Some(("k2", variable("AZURE_API_KEY"))),
        );
        check(
            None,
            &[("AZURE_TOKEN", "k3\n"), ("AZURE_API_KEY", " ")],
            Some(("k3", variable("AZURE_TOKEN"))),
        );
        // The name of a resource is not sent anywhere as a key.
        check(None, &[("AZURE_RESOURCE_NAME", "mine")], None);
    }

    #[test]
    fn a_missing_key_is_explained() {
        let error = Keyring::new(&|_| None, Vec::new()).require(&provider(None)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no key for azure: set AZURE_API_KEY or AZURE_TOKEN, or set its `apiKey` in the configuration"
        );
    }

    #[test]
    fn keys_do_not_print_themselves() {
        let lookup = |_: &str| Some("sk-very-secret".to_owned());
        let keyring = Keyring::new(&lookup, Vec::new());
        let shown =
            format!("{keyring:?} {:?} {:?}", keyring.find(&provider(None)), provider(Some("sk-very-secret")));
        assert!(shown.contains("Secret(…)") && !shown.contains("very-secret"), "{shown}");
    }
}
