//! Who may speak to the server: HTTP Basic, Bearer, or OpenCode's `auth_token` query.
//!
//! The token is always required. It is compared in constant time and never printed.

use std::fmt;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::input::value_in;

/// The user name that OpenCode's clients send.
pub const USER: &str = "opencode";

/// A user name and the token that goes with it.
#[derive(Clone)]
pub struct Auth {
    user: String,
    token: String,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Auth {
    /// A token for the user `opencode`.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self { user: USER.to_owned(), token: token.into() }
    }

    /// The same token for another user.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: user.into(), ..self }
    }

    /// Whether a request carries the token.
    pub(crate) fn admits(&self, parts: &Parts) -> bool {
        // An empty token would let everybody in.
        if self.token.is_empty() {
            return false;
        }
        if let Some(header) = parts.headers.get(AUTHORIZATION) {
            return header.to_str().is_ok_and(|header| self.admits_header(header));
        }
        // Some clients leave the `+` of base64 as it is, which a query reads as a space.
        let query = parts.uri.query().unwrap_or_default();
        value_in(query, "auth_token").is_some_and(|text| self.admits_pair(&text.replace(' ', "+")))
    }

    /// Whether a request carries any token at all.
    pub(crate) fn is_tried(&self, parts: &Parts) -> bool {
        let query = parts.uri.query().unwrap_or_default();
        parts.headers.contains_key(AUTHORIZATION) || value_in(query, "auth_token").is_some()
    }

    fn admits_header(&self, header: &str) -> bool {
        let Some((scheme, rest)) = header.trim().split_once(' ') else { return false };
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            same(rest.as_bytes(), self.token.as_bytes())
        } else {
            scheme.eq_ignore_ascii_case("basic") && self.admits_pair(rest)
        }
    }

    fn admits_pair(&self, text: &str) -> bool {
        let decoded = STANDARD
            .decode(text)
            .or_else(|_| STANDARD_NO_PAD.decode(text))
            .or_else(|_| URL_SAFE_NO_PAD.decode(text));
        let Ok(pair) = decoded else { return false };
        let Some(colon) = pair.iter().position(|byte| *byte == b':') else { return false };
        let (user, token) = pair.split_at(colon);
        let token = token.get(1..).unwrap_or_default();
        // Both are looked at whatever the first says.
        same(user, self.user.as_bytes()) & same(token, self.token.as_bytes())
    }
}

// The time depends on the length of what was sent only.
fn same(given: &[u8], secret: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != secret.len());
    let secret = secret.iter().chain(std::iter::repeat(&0));
    for (a, b) in given.iter().zip(secret) {
        difference |= std::hint::black_box(a ^ b);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str) -> bool {
        Auth::new("secret").admits_header(header)
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(same(b"secret", b"secret"));
        for other in ["", "s", "secre", "secrets", "Secret", "secret\0"] {
            assert!(!same(other.as_bytes(), b"secret"), "{other:?}");
        }
    }

    #[test]
    fn schemes() {
        assert!(check("Bearer secret"));
        assert!(check("bearer  secret"));
        assert!(check(&format!("Basic {}", STANDARD.encode("opencode:secret"))));
        assert!(!check(&format!("Basic {}", STANDARD.encode("other:secret"))));
        assert!(!check(&format!("Basic {}", STANDARD.encode("opencode:other"))));
        assert!(!check(&format!("Basic {}", STANDARD.encode("opencode"))));
        assert!(!check("Basic !!!"));
        assert!(!check("Digest secret"));
        assert!(!check("secret"));
    }

    #[test]
    fn a_token_may_contain_colons_and_the_user_may_be_another() {
        let auth = Auth::new("a:b").with_user("me");
        assert!(auth.admits_header(&format!("Basic {}", STANDARD.encode("me:a:b"))));
        assert!(!auth.admits_header(&format!("Basic {}", STANDARD.encode("opencode:a:b"))));
    }

    #[test]
    fn an_empty_token_admits_nobody() {
        // With an empty token, whoever sends an empty one would have it.
        let admits = |auth: &Auth, uri: &str, header: Option<&str>| {
            let mut request = axum::http::Request::builder().uri(uri);
            if let Some(header) = header {
                request = request.header(AUTHORIZATION, header);
            }
            auth.admits(&request.body(()).unwrap().into_parts().0)
        };
        let nothing = STANDARD.encode("opencode:");
        let query = format!("/session?auth_token={nothing}");
        let headers = ["Basic Og==", "Basic ", "Bearer ", "Bearer", &format!("Basic {nothing}")];
        for auth in [Auth::new(""), Auth::new("").with_user("")] {
            for header in headers {
                assert!(!admits(&auth, "/session", Some(header)), "{header:?}");
            }
            for uri in ["/session", "/session?auth_token=", "/session?auth_token=Og==", &query] {
                assert!(!admits(&auth, uri, None), "{uri}");
            }
        }
        // The same requests with a token are let in.
        let auth = Auth::new("secret");
        let pair = STANDARD.encode("opencode:secret");
        assert!(admits(&auth, "/session", Some(&format!("Basic {pair}"))));
        assert!(admits(&auth, &format!("/session?auth_token={pair}"), None));
    }

    #[test]
    fn the_token_is_not_printed() {
        assert!(!format!("{:?}", Auth::new("hidden-token")).contains("hidden-token"));
    }
}
