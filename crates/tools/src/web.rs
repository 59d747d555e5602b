//! Requests to the web, for the tools that make them: clients, addresses and bodies within limits.
//!
//! A name of the public internet that leads to an address of this machine or of its network is not connected to:
//! whoever permitted the name did not permit what stands behind it. This is judged for each connection on the very
//! addresses that it uses, so a name server that changes its mind gains nothing. Addresses written as numbers, and
//! names that say themselves that they are local, are what they seem; [`is_nearby`] tells them, and they need a permission of
//! their own.
//!
//! Nothing carries over between requests: no cookies, no credentials, no connections.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_ENCODING, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use url::{Host, Url};

use crate::tool::{BoxFuture, Failure};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(15);

/// The last parts of names that mean a machine nearby.
const LOCAL: [&str; 9] =
    ["localhost", "local", "internal", "lan", "home", "corp", "intranet", "private", "home.arpa"];

/// The clients of one tool, built when they are needed.
#[derive(Clone)]
pub(crate) struct WebAccess(Arc<WebClients>);

struct WebClients {
    names: Arc<GuardedResolver>,
    /// With and without TLS, to machines nearby and elsewhere: the former never through a proxy, and those without
    /// TLS work on a machine that has no certificates.
    clients: [OnceLock<Client>; 4],
}

impl fmt::Debug for WebAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Web")
    }
}

impl Default for WebAccess {
    fn default() -> Self {
        Self::with(|name| {
            Box::pin(async move {
                tokio::net::lookup_host((name.as_str(), 0)).await.map(Iterator::collect).map_err(Into::into)
            })
        })
    }
}

type NameLookup = fn(String) -> BoxFuture<'static, Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>>>;

impl WebAccess {
    fn with(lookup: NameLookup) -> Self {
        let names = Arc::new(GuardedResolver { lookup, guarded: Mutex::default() });
        Self(Arc::new(WebClients { names, clients: Default::default() }))
    }

    /// The client for an address that a model wrote, and the watch over its name; both are needed until the answer is
    /// there.
    pub(crate) fn client(&self, url: &Url) -> Result<(Client, Option<GuardedName>), Failure> {
        let guard = match url.host() {
            Some(Host::Domain(name)) if !is_local(name) => Some(self.0.names.guard(name)),
            _ => None,
        };
        Ok((self.trusted(url)?, guard))
    }

    /// The client for an address that a person has configured, which may be anywhere.
    pub(crate) fn trusted(&self, url: &Url) -> Result<Client, Failure> {
        let (secure, local) = (url.scheme() == "https", is_loopback(url));
        let slot = match (secure, local) {
            (false, false) => 0,
            (false, true) => 1,
            (true, false) => 2,
            (true, true) => 3,
        };
        let Some(slot) = self.0.clients.get(slot) else {
            return Err(Failure::Failed("No web client fits this address.".to_owned()));
        };
        if let Some(client) = slot.get() {
            return Ok(client.clone());
        }
        install_tls();
        let names: Arc<GuardedResolver> = Arc::clone(&self.0.names);
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0)
            .redirect(Policy::none())
            .referer(false)
            .dns_resolver(names);
        if !secure {
            builder = builder.tls_certs_only([]);
        }
        if local {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| {
            Failure::Failed(format!("The web client could not be set up: {}", chain(&error)))
        })?;
        Ok(slot.get_or_init(|| client).clone())
    }
}

/// Looks names up, and holds back addresses that a public name must not have.
struct GuardedResolver {
    lookup: NameLookup,
    /// The names that are asked for now, and how often. A proxy has a name as well, and may be nearby.
    guarded: Mutex<HashMap<String, usize>>,
}

impl GuardedResolver {
    fn guard(self: &Arc<Self>, name: &str) -> GuardedName {
        let name = name.to_ascii_lowercase();
        *self.guarded.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default() += 1;
        GuardedName { names: Arc::clone(self), name }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_ascii_lowercase();
        let guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&name);
        let found = (self.lookup)(name.clone());
        Box::pin(async move {
            let mut found = found.await?;
            let first = found.first().map(SocketAddr::ip);
            if guarded {
                found.retain(|address| is_public(address.ip()));
            }
            match first {
                Some(address) if found.is_empty() => Err(LocalAddress { name, address }.into()),
                _ => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

/// A name under watch.
pub(crate) struct GuardedName {
    names: Arc<GuardedResolver>,
    name: String,
}

impl Drop for GuardedName {
    fn drop(&mut self) {
        let mut guarded = self.names.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = guarded.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                guarded.remove(&self.name);
            }
        }
    }
}

/// A public name that leads to a machine nearby.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} leads to {address}, which is on this machine or its network; ask for that address itself if it is meant"
)]
struct LocalAddress {
    name: String,
    address: IpAddr,
}

/// Whether an address is of this machine or of its network, by what it says itself. A name that says nothing of it and
/// leads there is not connected to.
pub(crate) fn is_nearby(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_local(name),
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        None => true,
    }
}

/// Whether a name says that it is of a machine nearby.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.')
        || LOCAL.iter().any(|local| name.strip_suffix(local).is_some_and(|rest| rest.ends_with('.')))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|inner| inner.is_loopback())
        }
        None => false,
    }
}

/// Whether an address is one of the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            if let Some(inner) = embedded(address) {
                return is_public_v4(inner);
            }
            let [first, ..] = address.segments();
            // Only 2000::/3 is handed out for the public internet; 2001:db8::/32 is for documents.
            first & 0xe000 == 0x2000 && !matches!(address.segments(), [0x2001, 0xdb8, ..])
        }
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, translated, or tunnelled.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

/// Makes ring the process's TLS provider unless somebody chose one already.
fn install_tls() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a TLS provider is installed already");
        }
    });
}

/// An error and its causes on one line, without the address: whoever reads it knows the address, or must not.
pub(crate) fn explain(error: reqwest::Error) -> String {
    chain(&error.without_url())
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

/// Why a body was not taken.
#[derive(Debug)]
pub(crate) enum BodyRefusal {
    /// It is compressed, although that was not asked for: its real size is anyone's guess.
    Encoded(String),
    /// It has more bytes than are taken.
    TooLarge,
    /// It broke off.
    Broken(String),
}

/// What is done with a body that is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    Refuse,
    Cut,
}

/// The body of an answer, as far as the limit.
pub(crate) async fn body(
    response: &mut Response,
    limit: usize,
    excess: Excess,
) -> Result<Vec<u8>, BodyRefusal> {
    let coded = response.headers().get(CONTENT_ENCODING).filter(|value| !value.is_empty());
    if let Some(coded) = coded.filter(|value| *value != HeaderValue::from_static("identity")) {
        return Err(BodyRefusal::Encoded(String::from_utf8_lossy(coded.as_bytes()).into_owned()));
    }
    let announced = response.content_length().is_some_and(|length| length > limit as u64);
    if announced && excess == Excess::Refuse {
        return Err(BodyRefusal::TooLarge);
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => return Ok(body),
            // What there is of a text that was to be cut anyway will do.
            Err(_) if excess == Excess::Cut && !body.is_empty() => return Ok(body),
            Err(error) => return Err(BodyRefusal::Broken(explain(error))),
        }
        if body.len() > limit {
            if excess == Excess::Refuse {
                return Err(BodyRefusal::TooLarge);
            }
            body.truncate(limit);
            return Ok(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_in_any_script_are_understood() {
        // What `url` knows of Unicode depends on a crate that is only named in Cargo.toml.
        for (written, name) in [
            ("B\u{fc}cher.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("stra\u{df}e.example", "xn--strae-oqa.example"),
            ("\u{4f8b}\u{3048}\u{3002}\u{30c6}\u{30b9}\u{30c8}", "xn--r8jz45g.xn--zckzah"),
            ("\u{5d0}\u{5d1}.example", "xn--4dbc.example"),
            ("\u{ff11}\u{ff12}\u{ff17}.0.0.1", "127.0.0.1"),
        ] {
            let url = Url::parse(&format!("http://{written}/")).unwrap();
            assert_eq!(url.host_str(), Some(name), "{written}");
        }
        for wrong in ["a\u{200d}b.example", "\u{5d0}a.example", "xn--a.example", "\u{fffd}.example"] {
            assert!(Url::parse(&format!("http://{wrong}/")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_nearby_are_not_public() {
        for nearby in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(nearby.parse().unwrap()), "{nearby}");
        }
        for public in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn local_names_say_so() {
        for local in ["localhost", "a.localhost", "wiki", "printer.local", "db.internal.", "x.home.arpa"] {
            assert!(is_local(local), "{local}");
        }
        for public in ["example.com", "notlocal.example", "local.example", "xlocal.com", "127.0.0.1.nip.io"] {
            assert!(!is_local(public), "{public}");
        }
    }

    /// A name under somebody else's control must not lead to this machine, however it is spelt.
    #[tokio::test]
    async fn a_public_name_does_not_lead_to_this_machine() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let web = WebAccess::with(|_| Box::pin(async { Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]) }));
        for host in ["rebind.example", "REBIND.example", "rebind.example."] {
            let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
            let (client, guard) = web.client(&url).unwrap();
            let error = explain(client.get(url).send().await.unwrap_err());
            assert!(error.contains("leads to 127.0.0.1"), "{error}");
            drop(guard);
        }
        assert!(web.0.names.guarded.lock().unwrap().is_empty());
        // Without the watch, as for the name of a proxy, the same name does connect.
        let url = Url::parse(&format!("http://rebind.example:{port}/")).unwrap();
        let (client, _) = web.client(&url).unwrap();
        let request = tokio::spawn(client.get(url).send());
        listener.accept().await.unwrap();
        request.abort();
    }
}
