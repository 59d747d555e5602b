//! Our requests beside those that the SDKs send for the same conversation, field by field.
//!
//! Each SDK is given its documented parameters for the same features. Whatever then differs stands in [`DIFFERENCES`]
//! with its reason: one that does not fails the test, and so does a reason for which nothing differs any more.

mod compare;

use everturn_llm::openai_chat::ChatDialect;
use everturn_llm::{Endpoint, OpenAiChat, Provider};
use everturn_testkit::ModelServer;
use everturn_testkit::model_server::ArrivedRequest;
use futures_util::StreamExt;
use serde_json::json;

use super::conversation::{DOCUMENT, PIXEL, requests};
use super::{KEY, Protocol, sdk};
use compare::differences;

/// What may differ: the protocol, the request or `*` for all of them, the place and the reason. A place is `path`,
/// `query`, a header or a pointer into the body. A star at its end stands for anything.
const DIFFERENCES: &[(Protocol, &str, &str, &str)] = &[
    (Protocol::Anthropic, "*", "accept", ACCEPT),
    (Protocol::Anthropic, "*", "user-agent", NAME),
    (Protocol::Anthropic, "*", "x-stainless-*", TELEMETRY),
    (Protocol::Anthropic, "*", "authorization", KEY_HEADER),
    (Protocol::Anthropic, "*", "x-api-key", KEY_HEADER),
    (Protocol::Anthropic, "*", "anthropic-version", VERSION),
    (Protocol::Anthropic, "forced", "/temperature", VERSION),
    (Protocol::Anthropic, "*", "/tools/0/input_schema/$schema", DRAFT),
    (Protocol::Anthropic, "budget", "/output_config/format/schema/properties/kind/type", LITERALS),
    (Protocol::Anthropic, "adaptive", "/output_config/format/schema/properties/kind/type", LITERALS),
    (Protocol::Responses, "*", "accept", ACCEPT),
    (Protocol::Responses, "*", "user-agent", NAME),
    (Protocol::Responses, "*", "x-stainless-*", TELEMETRY),
    (Protocol::Responses, "*", "/tools/0/parameters/$schema", DRAFT),
    (Protocol::Responses, "*", "/input/9/content", UNKNOWN_ID),
    (Protocol::Chat, "*", "accept", ACCEPT),
    (Protocol::Chat, "*", "user-agent", NAME),
    (Protocol::Chat, "*", "x-stainless-*", TELEMETRY),
    (Protocol::Chat, "*", "/tools/0/function/parameters/$schema", DRAFT),
    (Protocol::Chat, "compatible", "/max_completion_tokens", OTHER_SERVERS),
    (Protocol::Chat, "compatible", "/max_tokens", OTHER_SERVERS),
    (Protocol::Chat, "compatible", "/prompt_cache_key", OTHER_SERVERS),
    (Protocol::Chat, "compatible", "/messages/2/reasoning_content", OTHER_SERVERS),
    (Protocol::Gemini, "*", "accept", ACCEPT),
    (Protocol::Gemini, "*", "user-agent", NAME),
    (Protocol::Gemini, "*", "x-goog-api-client", TELEMETRY),
    (Protocol::Gemini, "*", "/systemInstruction/role", ROLE),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/type", CASE),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/properties/filePath/type", CASE),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/properties/offset/type", CASE),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/properties/mode/type", CONSTANTS),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/properties/mode/enum", CONSTANTS),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/0/parameters/properties/mode/anyOf", CONSTANTS),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/1/parameters/type", CASE),
    (Protocol::Gemini, "*", "/tools/0/functionDeclarations/1/parameters/properties/file/type", CASE),
    (Protocol::Gemini, "level", "/generationConfig/thinkingConfig/thinkingLevel", CASE),
    (Protocol::Gemini, "level", "/generationConfig/responseSchema/type", CASE),
    (Protocol::Gemini, "level", "/generationConfig/responseSchema/properties/lines/type", CASE),
    (Protocol::Gemini, "level", "/generationConfig/responseSchema/properties/names/type", CASE),
    (Protocol::Gemini, "level", "/generationConfig/responseSchema/properties/names/items/type", CASE),
    (Protocol::Gemini, "level", "/generationConfig/responseSchema/properties/kind/type", CASE),
];

const ACCEPT: &str = "we say that we want a stream; the SDKs leave that to the body or the query";
const NAME: &str = "each says who it is";
const TELEMETRY: &str = "the SDK tells its maker about its surroundings; we do not";
const KEY_HEADER: &str =
    "the API takes a key in either header, other makers' servers often in the older one only";
const VERSION: &str = "we speak the version that other makers' servers know too; every version is kept, and a temperature \
    can be asked for in this one only";
const DRAFT: &str =
    "which draft a schema follows is of no use to the model, and some servers refuse to be told";
const LITERALS: &str = "the type beside a list of values is allowed; the SDK leaves it out";
const UNKNOWN_ID: &str = "without the id of a message the SDK knows its content only as a plain text; the API takes the \
    parts too, and only they can hold refusals and annotations";
const OTHER_SERVERS: &str =
    "this is how servers that are not OpenAI's own want it; the SDK knows only OpenAI's";
const ROLE: &str = "the SDK gives an instruction the role of its other contents; the API does not look at it";
const CASE: &str =
    "the API reads the names of its enumerations in any case, and other clients write them as we do";
const CONSTANTS: &str =
    "the API has no constants in schemas, so we make them a list of values; the SDK hands them on";

/// Our provider for a request.
fn provider(protocol: Protocol, name: &str, server: &ModelServer) -> Box<dyn Provider> {
    if protocol == Protocol::Chat && name != "compatible" {
        let endpoint = Endpoint::new(format!("{}/v1", server.root())).with_api_key(KEY);
        return Box::new(OpenAiChat::with_dialect(endpoint, ChatDialect::OpenAi));
    }
    protocol.provider(server)
}

fn matches(pattern: &str, place: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => place.starts_with(start),
        None => pattern == place,
    }
}

async fn check(protocol: Protocol) {
    let (ours, theirs) = (ModelServer::start(), ModelServer::start());
    let requests = requests(protocol);
    let names: Vec<&str> = requests.iter().map(|(name, _)| *name).collect();
    let job = json!({"requests": names, "media": {"pixel": PIXEL, "document": DOCUMENT}});
    let judged = sdk::run(protocol, &theirs, &job).await;
    assert_eq!(judged["complaints"], json!([]));
    for (name, request) in requests {
        let events: Vec<_> = provider(protocol, name, &ours).stream(request).collect().await;
        assert!(events.iter().all(Result::is_ok), "{name}: {events:?}");
    }

    let mut complaints: Vec<String> = Vec::new();
    let pairs: Vec<(ArrivedRequest, ArrivedRequest)> =
        ours.arrivals().into_iter().zip(theirs.arrivals()).collect();
    assert_eq!(pairs.len(), names.len());
    for (name, (ours, theirs)) in names.iter().zip(&pairs) {
        let found = differences(ours, theirs);
        let listed: Vec<&str> = DIFFERENCES
            .iter()
            .filter(|(of, request, _, _)| *of == protocol && (*request == "*" || request == name))
            .map(|(_, _, place, _)| *place)
            .collect();
        let unlisted = found.iter().filter(|one| !listed.iter().any(|pattern| matches(pattern, &one.place)));
        complaints.extend(unlisted.map(|one| format!("{name}: {one}")));
        let outdated = listed.iter().filter(|pattern| !found.iter().any(|one| matches(pattern, &one.place)));
        complaints.extend(outdated.map(|pattern| format!("{name}: {pattern} does not differ any more")));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn anthropic_asks_the_same() {
    check(Protocol::Anthropic).await;
}

#[tokio::test]
async fn responses_asks_the_same() {
    check(Protocol::Responses).await;
}

#[tokio::test]
async fn chat_asks_the_same() {
    check(Protocol::Chat).await;
}

#[tokio::test]
async fn gemini_asks_the_same() {
    check(Protocol::Gemini).await;
}
