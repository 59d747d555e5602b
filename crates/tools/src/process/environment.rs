//! Variables of our environment that programs must not see: keys of providers, and our own secrets.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The variable that marks the programs of one call, so that they can be found when their supervisor was killed.
pub(super) const MARK: &str = "EVERTURN_CALL";

/// The names of variables that hold keys. They are found out when the first program starts: most commands of ours start
/// none, and the names are in the table of all models. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Mutex<SecretNames>>);

#[derive(Default)]
struct SecretNames {
    known: BTreeSet<String>,
    /// What gives further names, and was not asked yet.
    unasked: Vec<FindNames>,
}

type FindNames = Box<dyn FnOnce() -> Vec<String> + Send>;

impl Secrets {
    /// The names that `find` gives, asked once.
    pub fn found_by(find: impl FnOnce() -> Vec<String> + Send + 'static) -> Self {
        let secrets = Self::default();
        secrets.add(find);
        secrets
    }

    /// Further names, asked for once, for all who share these: what is a secret in one folder is none in another.
    pub fn add(&self, find: impl FnOnce() -> Vec<String> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unasked.push(Box::new(find));
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for find in std::mem::take(&mut names.unasked) {
            let found = find();
            names.known.extend(found);
        }
        names.known.iter().cloned().collect()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Variables that hold secrets of ours in every environment.
const OURS: [&str; 4] =
    ["EVERTURN_DATABASE", "EVERTURN_SERVER_PASSWORD", "OPENCODE_CONFIG_CONTENT", "OPENCODE_SERVER_PASSWORD"];

/// The variables that a program must not inherit.
pub(super) fn hidden(secrets: &[String]) -> impl Iterator<Item = &str> {
    OURS.into_iter().chain(secrets.iter().map(String::as_str))
}

/// Whether a variable of this name is ours alone or holds a key, as far as its name says so. Whoever reads the
/// environment adds the names for which this holds to the [`Secrets`].
#[must_use]
pub fn is_secret(name: &str) -> bool {
    // `OPENCODE_CONFIG_CONTENT` is a whole configuration, keys of providers included.
    name.starts_with("EVERTURN_") || OURS.contains(&name) || known(name)
}

/// Whether a name is that of a key which providers of models give out, also in a spelling that no catalogue lists
/// (`OPENAI_API_KEY_2`, `ANTHROPIC_AUTH_TOKEN`).
fn known(name: &str) -> bool {
    const PROVIDERS: [&str; 14] = [
        "ANTHROPIC_",
        "CEREBRAS_",
        "CLAUDE_CODE_",
        "COHERE_",
        "DEEPSEEK_",
        "FIREWORKS_",
        "GEMINI_",
        "GROQ_",
        "MISTRAL_",
        "OPENAI_",
        "OPENROUTER_",
        "PERPLEXITY_",
        "TOGETHER_",
        "XAI_",
    ];
    let Some(rest) = PROVIDERS.iter().find_map(|provider| name.strip_prefix(provider)) else { return false };
    rest.split('_').any(|word| matches!(word, "KEY" | "TOKEN" | "SECRET"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_with_us() {
        for name in [
            "EVERTURN_TOKEN",
            "EVERTURN_",
            "OPENCODE_SERVER_PASSWORD",
            "OPENCODE_CONFIG_CONTENT",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "OPENAI_API_KEY_2",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "MY_EVERTURN_X",
            "OPENCODE_SERVER_PASSWORD_FILE",
            "OPENCODE_CONFIG",
            "HOME",
            "OPENAI_BASE_URL",
            "STRIPE_API_KEY",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        let given = ["SOME_PROVIDER".to_owned()];
        let hidden: Vec<&str> = hidden(&given).collect();
        assert!(hidden.contains(&"SOME_PROVIDER") && hidden.contains(&"EVERTURN_DATABASE"), "{hidden:?}");
    }
}
