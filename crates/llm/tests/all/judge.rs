//! The official SDKs as judges: of the scripted model, which the other tests rest on, and of our requests.
//!
//! `judge/main.mjs` is the program that uses them. Everything here is compared as a whole: what an SDK and our provider
//! make of the same answer has to be equal, down to the ids.

mod conversation;
mod reading;
mod requests;
mod sdk;

use everturn_llm::{Anthropic, Endpoint, Gemini, OpenAiChat, OpenAiResponses, Provider};
use everturn_testkit::ModelServer;
use serde_json::json;

/// The key that both sides send.
const KEY: &str = "key-of-the-judge";

/// The protocols, by the module that knows the SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Protocol {
    /// The name of the module.
    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// Our provider, at the path where the real one is.
    fn provider(self, server: &ModelServer) -> Box<dyn Provider> {
        let version = if self == Self::Gemini { "v1beta" } else { "v1" };
        let endpoint = Endpoint::new(format!("{}/{version}", server.root())).with_api_key(KEY);
        match self {
            Self::Anthropic => Box::new(Anthropic::new(endpoint)),
            Self::Responses => Box::new(OpenAiResponses::new(endpoint)),
            Self::Chat => Box::new(OpenAiChat::new(endpoint)),
            Self::Gemini => Box::new(Gemini::new(endpoint)),
        }
    }
}

/// What the model is asked. Each prompt says what was used, because an estimate would depend on the request.
const PROMPTS: &[&str] = &[
    // Text, with letters of two, three and four bytes.
    "USAGE:100,0,7,0 SAY:Grüße – from the model, 🦀 and \"all\".",
    "USAGE:100,60,7,0 SAY:out of the cache",
    // Reasoning.
    "THINK USAGE:100,60,50,20 SAY:one two",
    // Tools: one, two at once, with nested arguments, without any.
    "USAGE:10,0,7,0\nTOOL:read:src/ä.rs",
    "USAGE:10,0,7,0 TOGETHER:3\nJSONTOOL:edit:{\"path\": \"a\", \"changes\": [{\"at\": 1.5, \"to\": \"\\\"🦀\\\"\\n\"}]}\n\
        JSONTOOL:list:{}\nTOOL:bash:ls -la",
    "THINK USAGE:10,5,7,2 TOGETHER:2\nTOOL:read:a\nTOOL:read:b",
    // Other endings.
    "REFUSE USAGE:10,0,7,0 SAY:well, to begin with",
    "REFUSE EMPTY USAGE:10,0,0,0",
    "LENGTH USAGE:10,0,7,0 SAY:on and on and",
    "THINK LENGTH EMPTY USAGE:10,0,7,7",
    "EMPTY USAGE:10,0,0,0",
    // Failures before and within the answer.
    "ERR:400 ERRTYPE:invalid_request_error ERRTEXT:no such field",
    "ERR:401 ERRTYPE:authentication_error ERRTEXT:no such key",
    "ERR:403 ERRTYPE:permission_error ERRTEXT:not for you",
    "ERR:404 ERRTYPE:not_found_error ERRTEXT:no such model",
    "ERR:429 ERRTYPE:rate_limit_error ERRTEXT:slow down",
    "ERR:500 ERRTYPE:api_error ERRTEXT:something broke",
    "ERR:503 ERRTYPE:unavailable ERRTEXT:come back later",
    "ERR:529 ERRTYPE:overloaded_error ERRTEXT:Overloaded",
    "FAIL:overloaded_error SAY:one two three",
    "DROP:2 SAY:one two three four",
];

/// Both sides have a server of their own and ask it the same in the same order, so that even its ids are the same.
async fn check(protocol: Protocol) {
    let (ours, theirs) = (ModelServer::start(), ModelServer::start());
    let judged = sdk::run(protocol, &theirs, &json!({"prompts": PROMPTS})).await;
    assert_eq!(judged["complaints"], json!([]));
    assert_eq!(judged["readings"].as_array().map(Vec::len), Some(PROMPTS.len()));
    let provider = protocol.provider(&ours);
    for (prompt, judgement) in PROMPTS.iter().zip(judged["readings"].as_array().unwrap()) {
        let reading = reading::read(protocol, &*provider, prompt).await;
        assert_eq!(&reading, judgement, "ours is left, the SDK's is right, of {prompt:?}");
    }
}

#[tokio::test]
async fn anthropic_reads_the_same() {
    check(Protocol::Anthropic).await;
}

#[tokio::test]
async fn responses_reads_the_same() {
    check(Protocol::Responses).await;
}

#[tokio::test]
async fn chat_reads_the_same() {
    check(Protocol::Chat).await;
}

#[tokio::test]
async fn gemini_reads_the_same() {
    check(Protocol::Gemini).await;
}
