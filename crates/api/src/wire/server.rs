//! MCP servers, and what is known of the server itself.

use std::borrow::Cow;

use everturn_engine::mcp::{Resource, ServerStatus};
use everturn_model::Map;
use everturn_model::secret_shape::mask;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::answer::shaped;

/// What an MCP server is doing. Clients know of no state in between.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
#[schemars(rename = "MCPStatus")]
pub(crate) enum McpState {
    Connected,
    Disabled,
    Failed { error: String },
    NeedsAuth,
}

impl From<ServerStatus> for McpState {
    fn from(status: ServerStatus) -> Self {
        match status {
            ServerStatus::Connected => Self::Connected,
            ServerStatus::Disabled => Self::Disabled,
            // A program or an address names its own arguments in what it says.
            ServerStatus::Failed(error) => Self::Failed { error: mask(&error).into_owned() },
            ServerStatus::NeedsAuth(_) => Self::NeedsAuth,
            ServerStatus::Connecting => Self::Failed { error: "it is still connecting".to_owned() },
        }
    }
}

/// A resource of an MCP server.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct McpResource {
    name: String,
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    mime: Option<String>,
    client: String,
}

impl McpResource {
    /// A resource under the name that clients list it by.
    pub(crate) fn of(server: &str, resource: Resource) -> (String, Self) {
        let plain = |text: &str| -> String {
            let keep =
                |char: char| if char.is_ascii_alphanumeric() || "_-".contains(char) { char } else { '_' };
            text.chars().map(keep).collect()
        };
        let key = format!("{}:{}", plain(server), plain(&resource.name));
        let shown = Self {
            name: resource.name,
            uri: resource.uri,
            description: resource.description,
            mime: resource.mime_type,
            client: server.to_owned(),
        };
        (key, shown)
    }
}

/// An MCP server in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ServerPath {
    pub(crate) name: String,
}

/// That the server is there.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Health {
    #[schemars(extend("const" = true))]
    pub(crate) healthy: bool,
    pub(crate) version: &'static str,
}

/// What of OpenCode's trials this server takes part in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExperimentalCapabilities {
    pub(crate) background_subagents: bool,
}

/// What a console manages here.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsoleState {
    pub(crate) console_managed_providers: Vec<String>,
    pub(crate) switchable_org_count: u32,
}

/// A list of what this release has none of.
#[derive(Debug)]
pub(crate) struct EmptyList;

impl Serialize for EmptyList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq([(); 0])
    }
}

impl JsonSchema for EmptyList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EmptyList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "maxItems": 0})
    }
}

/// The same by name.
#[derive(Debug)]
pub(crate) struct EmptyMap;

impl Serialize for EmptyMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([((), ()); 0])
    }
}

impl JsonSchema for EmptyMap {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EmptyMap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "maxProperties": 0})
    }
}

/// The configuration without its secrets, as it was written.
#[derive(JsonSchema)]
#[schemars(rename = "Config")]
#[expect(dead_code, reason = "it describes what was written")]
pub(crate) struct ConfigShape(#[schemars(with = "Map")] Value);

shaped! {
    Map as ConfigShape,
    McpState as McpState,
    McpResource as McpResource,
    Health as Health,
    ExperimentalCapabilities as ExperimentalCapabilities,
    ConsoleState as ConsoleState,
    EmptyList as EmptyList,
    EmptyMap as EmptyMap,
}

/// A line of a client for the server's log.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct LogLine {
    pub(crate) service: String,
    pub(crate) level: LogLevel,
    pub(crate) message: String,
}

/// How much a line of a log matters.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn states_and_resources_have_the_shapes_of_the_protocol() {
        // A login that is missing carried a field more than clients' schemas allow.
        let missing = McpState::from(ServerStatus::NeedsAuth("401".to_owned()));
        assert_eq!(to_value(missing).unwrap(), json!({"status": "needs_auth"}));
        let failed = "could not start \"docs --key sk-proj-Ab3dEf6hIj9kLm2n\"";
        let failed = McpState::from(ServerStatus::Failed(failed.to_owned()));
        let shown = "could not start \"docs --key [hidden]\"";
        assert_eq!(to_value(failed).unwrap(), json!({"status": "failed", "error": shown}));
        let resource = Resource {
            uri: "demo://a".to_owned(),
            name: "A note.md".to_owned(),
            description: None,
            mime_type: Some("text/markdown".to_owned()),
        };
        let expected = json!({"name": "A note.md", "uri": "demo://a", "mimeType": "text/markdown", "client": "my server"});
        let (key, shown) = McpResource::of("my server", resource);
        assert_eq!((key.as_str(), to_value(shown).unwrap()), ("my_server:A_note_md", expected));
    }
}
