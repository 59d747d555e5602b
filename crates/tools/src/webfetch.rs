//! The `webfetch` tool: one page of the web as Markdown, text or HTML.
//!
//! Permission is given for one address, and one of this machine or its network needs another one ([`LOCAL_NETWORK`]). A redirect is therefore followed only to the same origin, or to its encrypted
//! twin; where else it points to is told to the model, which may ask for that address in a call of its own. Size, time
//! and the number of redirects are limited, and what a page is made of is bounded before it is converted.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use self::page::PageKind;
use self::redirects::{FetchEnd, Redirects};
use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{Attachment, BoxFuture, Context, Effect, Failure, Need, Output, Tool};
use crate::web::{self, WebAccess};
use crate::write::blocking;

mod markup;
mod page;
mod redirects;
mod rewrite;

/// The permission to reach this machine and its network. Services there often trust whoever comes from nearby, this
/// server among them, so being allowed to fetch pages is not enough.
pub const LOCAL_NETWORK: &str = "local_network";

/// The time limit of a call that names none, in seconds.
const TIMEOUT_DEFAULT: f64 = 30.0;
/// The longest time limit a call may ask for, in seconds.
const TIMEOUT_MAX: f64 = 120.0;
/// The longest address.
const URL_MAX: usize = 8 * 1024;

/// The tool that fetches pages.
#[derive(Debug, Clone, Default)]
pub struct WebfetchTool {
    web: WebAccess,
}

/// The form in which a page is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PageFormat {
    #[default]
    Markdown,
    Text,
    Html,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WebfetchInput {
    /// The address, beginning with http:// or https://
    url: String,
    /// The form of the result (default markdown)
    #[serde(default)]
    format: Option<PageFormat>,
    /// The time limit in seconds (default 30, at most 120)
    #[schemars(range(min = 1, max = 120))]
    #[serde(default)]
    timeout: Option<f64>,
}

impl WebfetchInput {
    /// The address that is asked for, in its one normal form.
    fn address(&self) -> Result<Url, Failure> {
        let bad = |reason: &str| Failure::InvalidInput(format!("url cannot be fetched: {reason}."));
        if self.url.len() > URL_MAX {
            return Err(bad("it is too long"));
        }
        let mut url = Url::parse(self.url.trim()).map_err(|error| {
            bad(&format!("{error}; give a whole address that begins with http:// or https://"))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("only http and https addresses are fetched"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("an address with a user name or password in it is not fetched"));
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn timeout(&self) -> Result<Duration, Failure> {
        let seconds = self.timeout.unwrap_or(TIMEOUT_DEFAULT);
        if !(seconds > 0.0 && seconds <= TIMEOUT_MAX) {
            return Err(Failure::InvalidInput(format!(
                "timeout is in seconds, more than 0 and at most {TIMEOUT_MAX}."
            )));
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Tool for WebfetchTool {
    fn name(&self) -> &'static str {
        "webfetch"
    }

    fn description(&self) -> &'static str {
        "Fetches a page of the web, and shows it as Markdown, or as `text` or `html` if `format` says so. PNG, JPEG, \
         GIF and WebP images are attached. Pages of more than 5 MiB are refused. A redirect to another site is not \
         followed: the result names its address, which you can fetch with another call."
    }

    fn schema(&self) -> Value {
        schema::<WebfetchInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        let input: WebfetchInput = decode(self.name(), input.clone())?;
        let url = input.address()?;
        input.timeout()?;
        let mut metadata = Map::new();
        metadata.insert("url".to_owned(), json!(url.as_str()));
        metadata.insert("format".to_owned(), json!(format_name(input.format.unwrap_or_default())));
        metadata.extend(input.timeout.map(|timeout| ("timeout".to_owned(), json!(timeout))));
        let need = |permission: &str| Need {
            permission: permission.to_owned(),
            patterns: vec![url.to_string()],
            always: vec![format!("{}/*", url.origin().ascii_serialization())],
            metadata: metadata.clone(),
        };
        let nearby = web::is_nearby(&url).then(|| need(LOCAL_NETWORK));
        Ok(std::iter::once(need("webfetch")).chain(nearby).collect())
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: WebfetchInput = decode(self.name(), input)?;
            let (url, timeout, format) =
                (input.address()?, input.timeout()?, input.format.unwrap_or_default());
            let call = async {
                let redirects = Redirects { web: &self.web, accept: accept(format) };
                match redirects.follow(url.clone()).await? {
                    FetchEnd::Elsewhere(text, target) => Ok(elsewhere(&url, text, &target)),
                    FetchEnd::Page(page) => blocking(move || show(&page, format)).await,
                }
            };
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err(Failure::Cancelled),
                ended = tokio::time::timeout(timeout, call) => ended.unwrap_or_else(|_| {
                    Err(Failure::Failed(format!(
                        "{url} was not there after {} s. Try again with a longer timeout (at most {TIMEOUT_MAX}), or \
                         go on without it.",
                        timeout.as_secs_f64()
                    )))
                }),
            }
        })
    }
}

fn format_name(format: PageFormat) -> &'static str {
    match format {
        PageFormat::Markdown => "markdown",
        PageFormat::Text => "text",
        PageFormat::Html => "html",
    }
}

/// What a server is asked for.
fn accept(format: PageFormat) -> &'static str {
    match format {
        PageFormat::Markdown => "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5",
        PageFormat::Text => "text/plain, text/markdown;q=0.9, text/html;q=0.8, */*;q=0.5",
        PageFormat::Html => "text/html, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5",
    }
}

fn elsewhere(url: &Url, text: String, target: &str) -> Output {
    let mut metadata = Map::new();
    metadata.insert("redirect".to_owned(), json!(target));
    Output { title: url.to_string(), output: text, metadata, ..Output::default() }
}

fn show(page: &page::FetchedPage, format: PageFormat) -> Result<Output, Failure> {
    let mut metadata = Map::new();
    metadata.insert("url".to_owned(), json!(page.url.as_str()));
    metadata.insert("contentType".to_owned(), json!(page.media));
    metadata.insert("bytes".to_owned(), json!(page.body.len()));
    let title =
        format!("{} ({})", page.url, if page.media.is_empty() { "unknown type" } else { &page.media });
    let mut output = Output { title, metadata, ..Output::default() };
    match page.kind() {
        PageKind::Image(mime) => {
            output.output = format!("Image attached ({mime}, {} bytes).", page.body.len());
            output.attachments.push(Attachment {
                mime: mime.to_owned(),
                url: format!("data:{mime};base64,{}", STANDARD.encode(&page.body)),
                filename: page.url.path_segments().and_then(Iterator::last).map(str::to_owned),
            });
        }
        PageKind::Binary => {
            return Err(Failure::Failed(format!(
                "{} is not text: {}, {} bytes. Use `bash` to save it to a file if you need it.",
                page.url,
                if page.media.is_empty() { "of an unknown type" } else { &page.media },
                page.body.len()
            )));
        }
        PageKind::Html => {
            let html = page.decode(true);
            output.output = match format {
                PageFormat::Html => html,
                PageFormat::Text => page::plain(&html),
                PageFormat::Markdown => page::markdown(&html, &page.url),
            };
        }
        PageKind::Text => output.output = page.decode(false),
    }
    if output.output.trim().is_empty() {
        output.output = "(The page is empty.)".to_owned();
    }
    Ok(output)
}
