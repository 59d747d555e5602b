//! The checks before every route: `Host`, `Origin`, then the token.
//!
//! A page on the internet can make a browser send requests to a loopback address, with its own name bound to it (DNS
//! rebinding) or across origins. The exact `Host` stops the first, the `Origin` check the second; neither needs a
//! browser to be honest about more than those two headers. No CORS header is ever sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

use crate::Options;
use crate::connections::Visitor;
use crate::error::Error;
use crate::input::BodyRoom;
use crate::logins::{FAILURE_DELAY, FailedLogins};

/// Under which names a server may be addressed, and by which pages.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Hosts {
    /// The loopback names with this port, and the address itself when it is a real one.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let mut hosts = Self::default();
        for name in ["127.0.0.1", "localhost", "[::1]"] {
            hosts = hosts.with_name(name, port);
        }
        match address.ip() {
            ip if ip.is_unspecified() || ip.is_loopback() => hosts,
            IpAddr::V4(ip) => hosts.with_name(&ip.to_string(), port),
            IpAddr::V6(ip) => hosts.with_name(&format!("[{ip}]"), port),
        }
    }

    /// Another name on a port. A browser leaves the port out where it is the usual one.
    #[must_use]
    pub fn with_name(self, name: &str, port: u16) -> Self {
        let hosts = self.with_host(&format!("{name}:{port}"));
        if port == 80 || port == 443 { hosts.with_host(name) } else { hosts }
    }

    /// Another exact value of `Host`.
    #[must_use]
    pub fn with_host(mut self, host: &str) -> Self {
        self.hosts.push(host.to_ascii_lowercase());
        self
    }

    /// A page that may speak to the server although it is not its own, such as `https://app.example.com`.
    #[must_use]
    pub fn with_origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.trim_end_matches('/').to_ascii_lowercase());
        self
    }

    fn check(&self, parts: &Parts) -> Result<(), Error> {
        let given = match parts.uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => single(&parts.headers, &HOST)?,
        };
        let Some(given) = given else {
            return Err(Error::Forbidden("the request has no Host header".to_owned()));
        };
        let host = given.to_ascii_lowercase();
        if !self.hosts.contains(&host) {
            return Err(Error::Forbidden(format!(
                "Host {given:?} is not a name of this server; address it as {} or add the name to the server's hosts",
                self.hosts.first().map_or("(none)", String::as_str)
            )));
        }
        let Some(origin) = single(&parts.headers, &ORIGIN)? else { return Ok(()) };
        let page = origin.to_ascii_lowercase();
        let own = page.strip_prefix("http://").or_else(|| page.strip_prefix("https://")) == Some(&host);
        if own || self.origins.contains(&page) {
            return Ok(());
        }
        Err(Error::Forbidden(format!("Origin {origin:?} may not speak to this server")))
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Error::Forbidden(format!("the request has several {name} headers")));
    }
    let unreadable = || Error::Forbidden(format!("the {name} header is not readable"));
    first.map(|value| value.to_str().map_err(|_| unreadable())).transpose()
}

/// What the checks need.
#[derive(Debug)]
struct Gate {
    options: Options,
    logins: FailedLogins,
    room: BodyRoom,
}

/// Puts the checks before a router. Nothing of a body is read before they are passed.
pub(crate) fn guard(router: Router, options: Options) -> Router {
    let room = BodyRoom::new(options.bodies);
    let gate = Gate { options, logins: FailedLogins::default(), room };
    router.layer(from_fn_with_state(Arc::new(gate), check))
}

async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(error) = gate.options.hosts.check(&parts) {
        return error.into_response();
    }
    let visitor = parts.extensions.get::<Arc<Visitor>>().cloned();
    if !gate.options.auth.admits(&parts) {
        let guessed = visitor.filter(|_| gate.options.auth.is_tried(&parts));
        let mut response = Error::Unauthorized.into_response();
        if guessed.is_some_and(|visitor| gate.logins.note(visitor.peer())) {
            tokio::time::sleep(FAILURE_DELAY).await;
            response = Error::TooManyFailures.into_response();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let challenge = HeaderValue::from_static("Basic realm=\"Everturn\", charset=\"UTF-8\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        return response;
    }
    if let Some(visitor) = visitor {
        visitor.let_in();
    }
    parts.extensions.insert(gate.room.clone());
    next.run(Request::from_parts(parts, body)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let hosts = Hosts::of(([127, 0, 0, 1], 4096).into()).with_origin("https://app.example.com/");
        let mut request = Request::builder().uri("/session").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        hosts.check(&parts).is_ok()
    }

    #[test]
    fn hosts_are_exact() {
        for host in ["127.0.0.1:4096", "localhost:4096", "LOCALHOST:4096", "[::1]:4096"] {
            assert!(check(host, None), "{host}");
        }
        for host in ["127.0.0.1", "127.0.0.1:4097", "evil.example:4096", "localhost.evil.example:4096", ""] {
            assert!(!check(host, None), "{host}");
        }
    }

    #[test]
    fn a_request_says_once_and_in_one_place_whom_it_is_for() {
        let hosts = Hosts::of(([127, 0, 0, 1], 4096).into());
        let check = |uri: &str, headers: &[(HeaderName, &str)], expected: bool| {
            let mut request = Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(hosts.check(&parts).is_ok(), expected, "{uri} {headers:?}");
        };
        let (own, other) = ("127.0.0.1:4096", "evil.example:4096");
        check("/session", &[], false);
        check("/session", &[(HOST, own)], true);
        check("/session", &[(HOST, own), (HOST, other)], false);
        check("/session", &[(HOST, own), (HOST, own)], false);
        check("/session", &[(HOST, own), (ORIGIN, "http://127.0.0.1:4096"), (ORIGIN, "null")], false);
        // An address in the request counts before the header.
        check("http://evil.example:4096/session", &[(HOST, own)], false);
        check("http://127.0.0.1:4096/session", &[(HOST, other)], true);
    }

    #[test]
    fn origins_are_the_server_or_listed() {
        for origin in ["http://127.0.0.1:4096", "https://127.0.0.1:4096", "https://app.example.com"] {
            assert!(check("127.0.0.1:4096", Some(origin)), "{origin}");
        }
        let foreign =
            ["null", "http://localhost:4096", "http://127.0.0.1", "https://app.example.com.evil", ""];
        for origin in foreign {
            assert!(!check("127.0.0.1:4096", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn an_open_listener_is_still_addressed_by_name() {
        let hosts = Hosts::of(([0, 0, 0, 0], 80).into()).with_name("box.example", 80);
        assert!(hosts.hosts.contains(&"localhost".to_owned()));
        assert!(hosts.hosts.contains(&"box.example".to_owned()));
        assert!(!hosts.hosts.iter().any(|host| host.starts_with("0.0.0.0")));
    }
}
