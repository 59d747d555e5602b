//! Credentials that do not print themselves, and their removal from foreign text.
//!
//! Providers often echo the key they refused. Whatever they send is passed through a `Redactor` before it
//! becomes part of an error.

use std::fmt;

/// Shorter values are not worth hiding and would blank out ordinary words.
const SHORTEST: usize = 6;

/// A credential. `Debug` hides it; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The credential itself, for putting it on the wire.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

/// Removes known credentials from text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Hides `secret` from now on.
    pub(crate) fn hide(&mut self, secret: &str) {
        if secret.len() >= SHORTEST {
            self.secrets.push(Secret::new(secret));
        }
    }

    /// Hides the value of a header if its name says that it is a credential.
    pub(crate) fn hide_header(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if ["auth", "key", "token", "secret", "cookie"].iter().any(|word| name.contains(word)) {
            // `Bearer <key>`: providers echo the key without the scheme.
            self.hide(value.rsplit(' ').next().unwrap_or(value));
        }
    }

    /// `text` without any of the credentials.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.reveal(), "[redacted]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value() {
        assert_eq!(format!("{:?}", Secret::new("sk-very-secret")), "Secret(…)");
    }

    #[test]
    fn cleans_keys_and_credential_headers() {
        let mut redactor = Redactor::default();
        redactor.hide("sk-abcdef");
        redactor.hide_header("Authorization", "Bearer tok-123456");
        redactor.hide_header("x-title", "everturn");
        assert_eq!(
            redactor.clean("bad key sk-abcdef or tok-123456 from everturn"),
            "bad key [redacted] or [redacted] from everturn"
        );
    }
}
