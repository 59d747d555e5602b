//! Fetches a page, following redirects as far as they were permitted.

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION, USER_AGENT};
use reqwest::{Response, StatusCode};
use url::Url;

use super::page::{self, FetchedPage};
use crate::tool::Failure;
use crate::web::{self, BodyRefusal, Excess, WebAccess};

/// How many redirects are followed.
const REDIRECTS: usize = 5;
/// Bytes of the largest page.
const PAGE_MAX: usize = 5 * 1024 * 1024;
/// Bytes read of the page that explains an error, and characters shown of it.
const EXCUSE_MAX: usize = 64 * 1024;
const EXCUSE_CHARS: usize = 2000;
/// Characters shown of an address that somebody else wrote.
const ADDRESS_CHARS: usize = 2000;

/// What most sites expect to be told.
const AGENT: &str = concat!("Mozilla/5.0 (compatible; everturn/", env!("CARGO_PKG_VERSION"), ")");
/// The same without pretence, for sites that take the first one for a browser and test whether it is one.
const PLAIN_AGENT: &str = concat!("everturn/", env!("CARGO_PKG_VERSION"));

/// One fetch.
#[derive(Debug)]
pub(super) struct Redirects<'a> {
    pub(super) web: &'a WebAccess,
    pub(super) accept: &'static str,
}

/// Where a fetch ended.
#[derive(Debug)]
pub(super) enum FetchEnd {
    Page(FetchedPage),
    /// A redirect that was not followed: what to tell, and its target.
    Elsewhere(String, String),
}

impl Redirects<'_> {
    pub(super) async fn follow(&self, start: Url) -> Result<FetchEnd, Failure> {
        let mut visited = vec![start.clone()];
        let mut url = start;
        loop {
            let response = self.request(&url).await?;
            if !response.status().is_redirection() {
                return self.arrive(url, response).await.map(FetchEnd::Page);
            }
            // The body of a redirect is not looked at, so it does not matter that it may never end.
            let target = target(&url, &response)?;
            if let Some(reason) = objection(&url, &target) {
                return Ok(elsewhere(&url, target, reason));
            }
            if visited.contains(&target) {
                return Err(Failure::Failed(format!(
                    "{url} redirects in a circle, back to {}.",
                    shown(&target)
                )));
            }
            if visited.len() > REDIRECTS {
                return Err(Failure::Failed(format!(
                    "{url} redirects once more after {REDIRECTS} redirects; the next one leads to {}.",
                    shown(&target)
                )));
            }
            visited.push(target.clone());
            url = target;
        }
    }

    async fn request(&self, url: &Url) -> Result<Response, Failure> {
        let response = self.send(url, AGENT).await?;
        let challenged = response.status() == StatusCode::FORBIDDEN
            && response.headers().get("cf-mitigated").is_some_and(|value| value == "challenge");
        if challenged { self.send(url, PLAIN_AGENT).await } else { Ok(response) }
    }

    async fn send(&self, url: &Url, agent: &str) -> Result<Response, Failure> {
        let (client, _guard) = self.web.client(url)?;
        client
            .get(url.clone())
            .header(USER_AGENT, agent)
            .header(ACCEPT, self.accept)
            .header(ACCEPT_ENCODING, "identity")
            .send()
            .await
            .map_err(|error| Failure::Failed(format!("{url} could not be fetched: {}.", web::explain(error))))
    }

    async fn arrive(&self, url: Url, mut response: Response) -> Result<FetchedPage, Failure> {
        let status = response.status();
        let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let (media, charset) = page::media(header.unwrap_or_default());
        let limit = if status.is_success() { PAGE_MAX } else { EXCUSE_MAX };
        let excess = if status.is_success() { Excess::Refuse } else { Excess::Cut };
        let body = match web::body(&mut response, limit, excess).await {
            Ok(body) => body,
            Err(_) if !status.is_success() => Vec::new(),
            Err(BodyRefusal::TooLarge) => {
                return Err(Failure::Failed(format!(
                    "{url} has more than {PAGE_MAX} bytes. Use `bash` to save it to a file if you need it."
                )));
            }
            Err(BodyRefusal::Encoded(coding)) => {
                return Err(Failure::Failed(format!(
                    "{url} is sent compressed ({}) although it was asked for as it is; it was not read.",
                    coding.chars().take(100).collect::<String>()
                )));
            }
            Err(BodyRefusal::Broken(reason)) => {
                return Err(Failure::Failed(format!("{url} broke off while it was read: {reason}.")));
            }
        };
        let page = FetchedPage { url, media, charset, body };
        if status.is_success() { Ok(page) } else { Err(refusal(&page, status)) }
    }
}

/// The failure behind an answer that is not a page.
fn refusal(page: &FetchedPage, status: StatusCode) -> Failure {
    let text = match page.kind() {
        page::PageKind::Html => page::plain(&page.decode(true)),
        page::PageKind::Text => page.decode(false),
        page::PageKind::Image(_) | page::PageKind::Binary => String::new(),
    };
    let text: String = text.trim().chars().take(EXCUSE_CHARS).collect();
    let gap = if text.is_empty() { "." } else { ":\n\n" };
    Failure::Failed(format!("{} answered {status}{gap}{text}", page.url))
}

/// Where a redirect points to.
fn target(url: &Url, response: &Response) -> Result<Url, Failure> {
    let status = response.status();
    let Some(location) = response.headers().get(LOCATION) else {
        return Err(Failure::Failed(format!("{url} answered {status} without saying where to go.")));
    };
    let text = String::from_utf8_lossy(location.as_bytes());
    let mut target = url.join(&text).map_err(|error| {
        Failure::Failed(format!(
            "{url} redirects to {:?}, which is not an address: {error}.",
            text.chars().take(ADDRESS_CHARS).collect::<String>()
        ))
    })?;
    target.set_fragment(None);
    Ok(target)
}

/// Why a redirect is not followed; nothing if it stays within what was permitted.
fn objection(from: &Url, to: &Url) -> Option<&'static str> {
    let upgraded = from.scheme() == "http"
        && to.scheme() == "https"
        && from.port_or_known_default() == Some(80)
        && to.port_or_known_default() == Some(443);
    if !matches!(to.scheme(), "http" | "https") {
        Some("is no web address")
    } else if !to.username().is_empty() || to.password().is_some() {
        Some("carries a user name or password")
    } else if from.host() != to.host() {
        Some("is another host")
    } else if upgraded
        || (from.scheme() == to.scheme() && from.port_or_known_default() == to.port_or_known_default())
    {
        None
    } else if from.scheme() == "https" && to.scheme() == "http" {
        Some("is not encrypted")
    } else {
        Some("is another port")
    }
}

fn elsewhere(url: &Url, mut target: Url, reason: &str) -> FetchEnd {
    // A password that somebody put into the address is not handed on.
    if !target.username().is_empty() || target.password().is_some() {
        target.set_username("").ok();
        target.set_password(None).ok();
    }
    let address = shown(&target);
    let advice = if matches!(target.scheme(), "http" | "https") {
        " Call `webfetch` with that address if you want what is there."
    } else {
        ""
    };
    let text = format!("{url} redirects to {address}\nThat {reason}, so it was not followed.{advice}");
    FetchEnd::Elsewhere(text, address)
}

fn shown(url: &Url) -> String {
    url.as_str().chars().take(ADDRESS_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_where_permission_was_given() {
        for (from, to, expected) in [
            ("http://a.example/x", "http://a.example/y", None),
            ("http://a.example/x", "https://a.example/y", None),
            ("http://A.example:80/x", "https://a.example:443/y", None),
            ("http://a.example:8080/x", "https://a.example/y", Some("is another port")),
            ("http://a.example/x", "https://a.example:8443/y", Some("is another port")),
            ("https://a.example/x", "http://a.example/y", Some("is not encrypted")),
            ("http://a.example/x", "http://b.example/", Some("is another host")),
            ("http://a.example/x", "http://www.a.example/", Some("is another host")),
            ("http://a.example/x", "http://169.254.169.254/", Some("is another host")),
            ("http://a.example/x", "http://a.example.b.example/", Some("is another host")),
            ("http://a.example/x", "http://u@a.example/", Some("carries a user name or password")),
            ("http://a.example/x", "http://:p@a.example/", Some("carries a user name or password")),
            ("http://a.example/x", "file:///etc/passwd", Some("is no web address")),
            ("http://a.example/x", "javascript:alert(1)", Some("is no web address")),
            ("http://127.0.0.1/x", "http://0x7f000001/y", None),
        ] {
            let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
            assert_eq!(objection(&from, &to), expected, "{from} {to}");
        }
    }
}
