//! One connection to a server: the handshake, then typed requests.
//!
//! Every list is bounded in pages and entries, every request in time. A call may take long as long as the server shows
//! progress; it can be cancelled, and the server is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::catalogue::PromptAnswer;
use super::content::CallResult;
use super::http::HttpSession;
use super::inbox::Inbox;
use super::servers::McpTiming;
use super::stdio::{ServerProgram, Stdio};
use super::{
    CallProgress, EmbeddedResource, McpError, PromptInfo, Resource, ServerAddress, ServerDefinition,
    ToolInfo, message, readable,
};
use crate::process::Launcher;

/// The revisions that are spoken, the newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// The most pages and entries of one list.
const PAGES_MAX: usize = 100;
const ENTRIES_MAX: usize = 1000;

/// The shortest pause between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// The longest text that a server may give as its instructions, in bytes.
const INSTRUCTIONS_MAX: usize = 16 * 1024;

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of the protocol that is spoken with it.
    pub revision: String,
    /// How it wants to be used.
    pub instructions: Option<String>,
    tools: bool,
    resources: bool,
    prompts: bool,
}

#[derive(Debug)]
enum Carrier {
    Stdio(Stdio),
    Http(HttpSession),
}

/// An open connection. The server is stopped, or the session left, when this is dropped; [`Connection::close`] waits
/// for it.
#[derive(Debug)]
pub struct Connection {
    inbox: Arc<Inbox>,
    carrier: Carrier,
    peer: Peer,
    /// How long a list may take.
    patience: Duration,
    timing: McpTiming,
}

impl Connection {
    /// Connects to a server for a project's folder.
    ///
    /// # Errors
    /// When there is no connection within the time that the server is given.
    pub async fn open(
        server: &ServerDefinition,
        directory: &Path,
        launcher: &Launcher,
        timing: McpTiming,
    ) -> Result<Self, McpError> {
        let inbox = Arc::new(Inbox::new(roots(directory)));
        let patience = server.timeout.unwrap_or(timing.connect);
        let carrier = match &server.endpoint {
            ServerAddress::Local { command, environment, cwd } => {
                let directory = cwd.as_ref().map_or_else(|| directory.to_owned(), |cwd| directory.join(cwd));
                let launcher = Launcher { grace: timing.grace, ..launcher.clone() };
                let program = ServerProgram { command, environment, directory: &directory };
                // It is up to the system, and a program may be on a disk that does not answer.
                let starting = Stdio::start(&program, &launcher, Arc::clone(&inbox));
                Carrier::Stdio(timeout(patience, starting).await.map_err(|_| McpError::TimedOut(patience))??)
            }
            ServerAddress::Remote { url, headers } => {
                Carrier::Http(HttpSession::new(url, headers, Arc::clone(&inbox))?)
            }
        };
        let timing = McpTiming { silence: timing.silence.max(server.timeout.unwrap_or_default()), ..timing };
        let mut connection = Self { inbox, carrier, peer: Peer::default(), patience, timing };
        match (connection.greet().await, &connection.carrier) {
            (Ok(()), _) => Ok(connection),
            // What it wrote to its log may say what it waits for.
            (Err(fault @ McpError::TimedOut(_)), Carrier::Stdio(stdio)) => {
                Err(McpError::Closed(format!("{fault}{}", stdio.log())))
            }
            (Err(fault), _) => Err(fault),
        }
    }

    async fn greet(&mut self) -> Result<(), McpError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Greeting {
            protocol_version: String,
            #[serde(default)]
            capabilities: Map<String, Value>,
            #[serde(default)]
            server_info: ServerInfo,
            #[serde(default)]
            instructions: Option<String>,
        }
        #[derive(Default, Deserialize)]
        struct ServerInfo {
            #[serde(default)]
            name: String,
            #[serde(default)]
            version: String,
        }
        let params = json!({
            "protocolVersion": REVISIONS[0],
            "capabilities": {"roots": {"listChanged": false}},
            "clientInfo": {"name": "everturn", "version": env!("CARGO_PKG_VERSION")},
        });
        let Greeting { protocol_version: revision, capabilities, server_info, instructions } =
            self.ask("initialize", params).await?;
        if !REVISIONS.contains(&revision.as_str()) {
            return Err(McpError::Configuration(format!(
                "the server speaks revision {:?} of the protocol, and we only {}",
                readable(&revision, 64),
                REVISIONS.join(", ")
            )));
        }
        self.peer = Peer {
            name: readable(&server_info.name, 256),
            version: readable(&server_info.version, 256),
            revision,
            instructions: instructions.map(|text| readable(&text, INSTRUCTIONS_MAX)),
            tools: capabilities.contains_key("tools"),
            resources: capabilities.contains_key("resources"),
            prompts: capabilities.contains_key("prompts"),
        };
        if let Carrier::Http(http) = &self.carrier {
            http.agree(&self.peer.revision);
        }
        let ready = message::notice("notifications/initialized", None);
        match &self.carrier {
            Carrier::Stdio(stdio) => stdio.send(ready).await?,
            Carrier::Http(http) => {
                http.carry(ready, None).await?;
                http.listen();
            }
        }
        Ok(())
    }

    /// What the server says about itself.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The tools.
    ///
    /// # Errors
    /// When the server does not answer, or not as the protocol says.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>, McpError> {
        self.list(self.peer.tools, "tools/list", "tools").await
    }

    /// The resources.
    ///
    /// # Errors
    /// As [`Connection::tools`].
    pub async fn resources(&self) -> Result<Vec<Resource>, McpError> {
        self.list(self.peer.resources, "resources/list", "resources").await
    }

    /// What a resource holds; a folder may hold several.
    ///
    /// # Errors
    /// As [`Connection::tools`], and when there is no such resource.
    pub async fn resource(&self, uri: &str) -> Result<Vec<EmbeddedResource>, McpError> {
        #[derive(Deserialize)]
        struct ResourceAnswer {
            contents: Vec<EmbeddedResource>,
        }
        Ok(self.ask::<ResourceAnswer>("resources/read", json!({"uri": uri})).await?.contents)
    }

    /// The prompts.
    ///
    /// # Errors
    /// As [`Connection::tools`].
    pub async fn prompts(&self) -> Result<Vec<PromptInfo>, McpError> {
        self.list(self.peer.prompts, "prompts/list", "prompts").await
    }

    /// The words of a prompt with its arguments.
    ///
    /// # Errors
    /// As [`Connection::tools`], and when there is no such prompt or an argument is missing.
    pub async fn prompt(&self, name: &str, arguments: &BTreeMap<String, String>) -> Result<String, McpError> {
        let params = json!({"name": name, "arguments": arguments});
        Ok(self.ask::<PromptAnswer>("prompts/get", params).await?.text())
    }

    /// Whether the server answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), McpError> {
        self.ask::<Value>("ping", json!({})).await.map(drop)
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        cancel: &CancellationToken,
        mut report: impl FnMut(&CallProgress),
    ) -> Result<CallResult, McpError> {
        let mut slot = self.inbox.reserve()?;
        let id = slot.id;
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        let text = message::request(id, "tools/call", &params);
        let mut progress = slot.progress();
        let begun = Instant::now();
        let mut deadline = begun + self.timing.silence;
        let mut reported = None;
        let outcome = {
            let working = self.exchange(text, &mut slot);
            tokio::pin!(working);
            loop {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => break Err(McpError::Cancelled),
                    outcome = &mut working => break outcome,
                    () = sleep_until(begun + self.timing.longest) => break Err(McpError::TimedOut(self.timing.longest)),
                    () = sleep_until(deadline) => break Err(McpError::TimedOut(self.timing.silence)),
                    Ok(()) = progress.changed() => {
                        deadline = Instant::now() + self.timing.silence;
                        let newest = progress.borrow_and_update().clone();
                        if reported.is_none_or(|last: Instant| last.elapsed() >= REPORT_EVERY) {
                            reported = Some(Instant::now());
                            report(&newest);
                        }
                    }
                }
            }
        };
        if let Err(fault @ (McpError::Cancelled | McpError::TimedOut(_))) = &outcome {
            let params = json!({"requestId": id, "reason": fault.to_string()});
            self.tell(message::notice("notifications/cancelled", Some(&params)));
        }
        decode(&outcome?)
    }

    /// Waits until the server says that its tools are others.
    pub(super) async fn tools_changed(&self) {
        self.inbox.tools_changed().await;
    }

    /// Waits for the end of the connection, and says why it ended.
    pub async fn closed(&self) -> McpError {
        self.inbox.closed().await
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Ends the connection for a reason: what waits for an answer fails with it.
    pub(super) fn fail(&self, fault: McpError) {
        self.inbox.close(fault);
    }

    /// Ends the connection and waits until nothing of it is left.
    pub async fn close(&self) {
        self.inbox.close(McpError::Closed("the server was disconnected".to_owned()));
        match &self.carrier {
            Carrier::Stdio(stdio) => stdio.close().await,
            Carrier::Http(http) => http.close().await,
        }
    }

    /// A message that is not worth waiting for.
    fn tell(&self, text: String) {
        match &self.carrier {
            Carrier::Stdio(stdio) => stdio.tell(text),
            Carrier::Http(http) => http.tell(text),
        }
    }

    /// Sends a request and waits for its answer.
    async fn exchange(
        &self,
        text: String,
        slot: &mut super::inbox::ReplySlot<'_>,
    ) -> Result<Box<RawValue>, McpError> {
        let id = slot.id;
        let carrying = async {
            match &self.carrier {
                Carrier::Stdio(stdio) => stdio.send(text).await,
                Carrier::Http(http) => http.carry(text, Some(id)).await,
            }
        };
        tokio::select! {
            biased;
            answer = slot.answer() => return answer,
            Err(fault) = carrying => Err(fault),
        }
        // The answer may have come in the very moment in which the way it came by ended.
        .or_else(|fault| slot.ready().unwrap_or(Err(fault)))
    }

    /// A short request.
    async fn ask<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, McpError> {
        let mut slot = self.inbox.reserve()?;
        let text = message::request(slot.id, method, &params);
        let answer = timeout(self.patience, self.exchange(text, &mut slot));
        let answer = answer.await.map_err(|_| McpError::TimedOut(self.patience))??;
        decode(&answer)
    }

    /// All pages of a list. An entry that is not as the protocol says is left out.
    async fn list<T: DeserializeOwned>(
        &self,
        offered: bool,
        method: &str,
        key: &str,
    ) -> Result<Vec<T>, McpError> {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        if !offered {
            return Ok(entries);
        }
        for _ in 0..PAGES_MAX {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let mut page: std::collections::HashMap<String, Box<RawValue>> = self.ask(method, params).await?;
            let rows = page.remove(key).unwrap_or_else(|| RawValue::NULL.to_owned());
            for row in decode::<Option<Vec<Box<RawValue>>>>(&rows)?.unwrap_or_default() {
                match serde_json::from_str(row.get()) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => {
                        tracing::debug!(%error, method, "an entry of an MCP server's list is left out");
                    }
                }
                if entries.len() >= ENTRIES_MAX {
                    tracing::warn!(
                        method,
                        server = self.peer.name,
                        "an MCP server's list is cut at {ENTRIES_MAX}"
                    );
                    return Ok(entries);
                }
            }
            cursor = match page.remove("nextCursor") {
                Some(next) => decode(&next)?,
                None => None,
            };
            if cursor.is_none() {
                return Ok(entries);
            }
        }
        tracing::warn!(
            method,
            server = self.peer.name,
            "an MCP server's list is cut after {PAGES_MAX} pages"
        );
        Ok(entries)
    }
}

fn decode<T: DeserializeOwned>(raw: &RawValue) -> Result<T, McpError> {
    serde_json::from_str(raw.get()).map_err(|error| {
        McpError::Malformed(format!("the server's answer is not as the protocol says: {error}"))
    })
}

/// The folder that we work in, as servers ask for it.
fn roots(directory: &Path) -> Value {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let root = Url::from_file_path(directory).map(|url| json!({"uri": url.as_str(), "name": name}));
    root.map_or_else(|()| json!([]), |root| json!([root]))
}
