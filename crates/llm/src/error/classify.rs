//! Which kind of failure an HTTP answer or an in-stream error object is.
//!
//! Providers agree on little. The status decides where it is telling; the error's code, type and wording decide
//! where it is not (an overlong prompt is a plain 400 nearly everywhere, an empty account often a 429). The
//! order of the questions matters: wording about rate limits also speaks of tokens and must not look like an
//! overlong prompt.

use std::time::Duration;

use serde_json::Value;

use super::{Error, HttpFailure, advice};

/// Codes and wording of an overlong prompt, lower-case.
const OVERFLOW: &[&str] = &[
    // OpenAI, Azure, DeepSeek, Groq, Cerebras, OpenRouter, vLLM
    "context_length_exceeded",
    "maximum context",
    "reduce the length of the messages",
    "reduce the length of the input",
    "reduce the length of the prompt",
    "reduce your prompt",
    "string_above_max_length",
    "max_model_len",
    "maximum model length",
    // … and Together, Fireworks, Mistral, SGLang, Ollama, LM Studio
    "context length",
    // OpenAI's Responses, Anthropic, MiniMax
    "context window",
    "context_window",
    "exceeds the context",
    "exceed context limit",
    // Anthropic, Fireworks, Ollama
    "prompt is too long",
    "prompt too long",
    "request_too_large",
    "request exceeds the maximum size",
    // Amazon Bedrock
    "input is too long",
    "input too long",
    "too many input tokens",
    // Gemini, Vertex
    "input token count",
    "maximum number of tokens",
    "maximum allowed number of input tokens",
    "input tokens exceed",
    // xAI
    "maximum prompt length",
    // llama.cpp
    "context size",
    "context_size",
    // GitHub Copilot
    "prompt token count",
    "model_max_prompt_tokens_exceeded",
    // Kimi, Z.ai, Qwen, Cohere, Hugging Face
    "exceeded model token limit",
    "prompt exceeds max length",
    "range of input length should be",
    "tokens in the prompt cannot exceed",
    "`inputs` tokens + `max_new_tokens` must be",
    "`inputs` must have less than",
    // Others
    "token limit exceeded",
    "request too large",
];

/// A single request that is larger than all that an account may send in a minute: only a shorter one gets through.
const OVERSIZED: &[&str] = &["request too large for", "tokens must be reduced", "reduce your message size"];

/// Codes and wording of rate limits.
const RATE: &[&str] = &[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "too_many_requests",
    "throttl",
    "per min",
];

/// Codes that say nothing else, although the text beside them may advertise larger plans.
const RATE_CODES: &[&str] = &["rate_limit_exceeded", "rate_limit_error"];

/// Codes that say nothing else.
const QUOTA_CODES: &[&str] = &["insufficient_quota", "billing_error", "usage_limit_reached"];

/// Codes and wording of an account without credit.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "quota_exceeded",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credit",
    "insufficient funds",
    "credit balance",
    "billing",
    "payment required",
    "usage_not_included",
    "usage_limit_reached",
    "usage limit",
];

/// Codes and wording of a provider without capacity.
const OVERLOAD: &[&str] = &[
    "overloaded",
    "at capacity",
    "over capacity",
    "no capacity",
    "engine is currently busy",
    "exhausted",
    "slow_down",
];

/// Codes and wording of a refused policy check.
const FILTER: &[&str] = &[
    "content_filter",
    "content filter",
    "content_policy",
    "content policy",
    "content management policy",
    "responsibleaipolicy",
    "moderation",
    "usage policy",
    "usage policies",
    "content exists risk",
    "data_inspection_failed",
    "considered high risk",
    "new_sensitive",
    "prohibited_content",
];

/// Codes and wording of bad credentials.
const CREDENTIALS: &[&str] = &[
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "api_key_invalid",
    "api key not valid",
    "api key not found",
    "api key expired",
    "authentication_error",
    "unauthorized",
    "permission_denied",
    "permission_error",
];

/// Codes of a request that will be refused again, for errors that come without a status.
const INVALID: &[&str] = &["invalid_request", "invalid_prompt", "invalid_image", "not_found_error"];

/// What an error body says, wherever it says it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ErrorDetails {
    /// The human text.
    pub(super) message: Option<String>,
    /// A status named inside the body.
    status: Option<u16>,
    /// How long the body asks to wait.
    pub(super) pause: Option<Duration>,
    /// Which of Google's limits was reached.
    limit: Option<LimitPeriod>,
    /// Code, type, status word and message in one lower-case text.
    words: String,
}

/// A limit by the time after which it opens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitPeriod {
    /// In a day: that is too long to wait.
    Daily,
    /// Sooner.
    Short,
}

impl LimitPeriod {
    /// The limit in the details of an error: `{"violations": [{"quotaId": "GenerateRequestsPerDay…"}]}`.
    fn of(details: &[Value]) -> Option<Self> {
        let violations = details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        let ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
        ids.map(|id| if id.contains("PerDay") { Self::Daily } else { Self::Short })
            .reduce(|worst, other| if worst == Self::Daily { worst } else { other })
    }
}

impl ErrorDetails {
    /// Reads the shapes in use: `{error:{…}}`, `{error:"…"}`, `{message}`, `{detail}`, and a list of these.
    pub(super) fn of(body: &Value) -> Self {
        if let Value::Array(items) = body {
            return items.first().map(Self::of).unwrap_or_default();
        }
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        if let Value::String(text) = error {
            return Self { message: Some(text.clone()), ..Self::in_words(text) };
        }
        let text = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let message = text("message").or_else(|| text("detail")).or_else(|| text("error")).or_else(|| {
            // `{error: {…}, message: "…"}`
            body.get("message").and_then(Value::as_str)
        });
        // Aggregators keep the original error below `metadata.raw`.
        let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
        let listed = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let reasons = listed.iter().filter_map(|detail| detail.get("reason")?.as_str());
        let words = ["code", "type", "status"].map(text);
        let words: Vec<&str> = words.into_iter().chain([message, raw]).flatten().chain(reasons).collect();
        let words = Self::in_words(&words.join("\n"));
        Self {
            message: message.map(str::to_owned),
            status: ["code", "status"].into_iter().find_map(|name| status_of(error.get(name)?)),
            pause: advice::in_details(listed).or(words.pause),
            limit: LimitPeriod::of(listed),
            words: words.words,
        }
    }

    /// What a text says that is not an object.
    fn in_words(text: &str) -> Self {
        Self { pause: advice::in_words(text), words: text.to_lowercase(), ..Self::default() }
    }

    /// Reads a body, whatever it is.
    pub(super) fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => Self::in_words(body),
        }
    }

    fn mentions(&self, list: &[&str]) -> bool {
        list.iter().any(|word| self.words.contains(word))
    }
}

/// 400 to 599, as a number or in digits.
fn status_of(value: &Value) -> Option<u16> {
    let number = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(digits) => digits.parse().ok()?,
        _ => return None,
    };
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// The error behind an answer whose status is not a success.
pub(crate) fn classify(http: HttpFailure) -> Error {
    let details = ErrorDetails::read(&http.body);
    by_status(http.status, &details, http)
}

/// The error behind an error object found inside an answer that began as a success.
pub(crate) fn classify_in_stream(mut http: HttpFailure) -> Error {
    let details = ErrorDetails::read(&http.body);
    if let Some(status) = details.status {
        http.status = status;
        return by_status(status, &details, http);
    }
    // Without a status the wording is all there is, and a failure in mid-answer is the provider's.
    match by_words(&details) {
        Some(kind) => kind.build(http),
        None if details.mentions(INVALID) => FailureKind::InvalidRequest.build(http),
        None => FailureKind::Server.build(http),
    }
}

fn by_status(status: u16, details: &ErrorDetails, http: HttpFailure) -> Error {
    let kind = match status {
        401 => FailureKind::Authentication,
        402 => FailureKind::Quota,
        403 if details.mentions(QUOTA) => FailureKind::Quota,
        403 if details.mentions(FILTER) => FailureKind::ContentFilter,
        403 => FailureKind::Authentication,
        408 | 425 => FailureKind::Server,
        429 => too_many(details),
        503 | 529 => FailureKind::Overloaded,
        500.. if details.mentions(OVERLOAD) => FailureKind::Overloaded,
        500.. => FailureKind::Server,
        _ => match by_words(details) {
            Some(kind) => kind,
            None if status == 413 => FailureKind::ContextOverflow,
            None if status == 409 => FailureKind::Server,
            None => FailureKind::InvalidRequest,
        },
    };
    kind.build(http)
}

/// What a 429 means: nearly every limit is one, also those that no waiting helps against.
///
/// A rate limit may come with an advertisement for larger plans, so what speaks of money counts last.
fn too_many(details: &ErrorDetails) -> FailureKind {
    match details.limit {
        Some(LimitPeriod::Daily) => FailureKind::Quota,
        _ if details.mentions(QUOTA_CODES) => FailureKind::Quota,
        _ if details.mentions(OVERSIZED) => FailureKind::ContextOverflow,
        Some(LimitPeriod::Short) => FailureKind::RateLimit,
        None if details.pause.is_some() || details.mentions(RATE_CODES) => FailureKind::RateLimit,
        None if details.mentions(QUOTA) => FailureKind::Quota,
        None => FailureKind::RateLimit,
    }
}

fn by_words(details: &ErrorDetails) -> Option<FailureKind> {
    if details.mentions(RATE_CODES) {
        return Some(too_many(details));
    }
    let table = [
        (OVERSIZED, FailureKind::ContextOverflow),
        (QUOTA, FailureKind::Quota),
        (RATE, FailureKind::RateLimit),
        (OVERFLOW, FailureKind::ContextOverflow),
        (OVERLOAD, FailureKind::Overloaded),
        (FILTER, FailureKind::ContentFilter),
        (CREDENTIALS, FailureKind::Authentication),
    ];
    table.into_iter().find_map(|(words, kind)| details.mentions(words).then_some(kind))
}

#[derive(Clone, Copy)]
enum FailureKind {
    Authentication,
    RateLimit,
    Overloaded,
    ContextOverflow,
    ContentFilter,
    InvalidRequest,
    Quota,
    Server,
}

impl FailureKind {
    fn build(self, http: HttpFailure) -> Error {
        let retry_after = http.retry_after();
        let http = Box::new(http);
        match self {
            Self::Authentication => Error::Authentication { http },
            Self::RateLimit => Error::RateLimit { retry_after, http },
            Self::Overloaded => Error::Overloaded { http },
            Self::ContextOverflow => Error::ContextOverflow { http },
            Self::ContentFilter => Error::ContentFilter { http },
            Self::InvalidRequest => Error::InvalidRequest { http },
            Self::Quota => Error::Quota { http },
            Self::Server => Error::Server { http },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(error: &Error) -> &'static str {
        match error {
            Error::Authentication { .. } => "authentication",
            Error::RateLimit { .. } => "rate limit",
            Error::Overloaded { .. } => "overloaded",
            Error::ContextOverflow { .. } => "context overflow",
            Error::ContentFilter { .. } => "content filter",
            Error::InvalidRequest { .. } => "invalid request",
            Error::Quota { .. } => "quota",
            Error::Server { .. } => "server",
            _ => "other",
        }
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let error = classify(HttpFailure { status, body: body.into(), ..HttpFailure::default() });
        assert_eq!(kind(&error), expected, "{status} {body}");
    }

    #[track_caller]
    fn check_in_stream(body: &str, expected: &str, status: u16) {
        let error =
            classify_in_stream(HttpFailure { status: 200, body: body.into(), ..HttpFailure::default() });
        assert_eq!(kind(&error), expected, "{body}");
        assert_eq!(error.http().unwrap().status, status);
    }

    #[test]
    fn by_status_alone() {
        for (status, expected) in [
            (400, "invalid request"),
            (401, "authentication"),
            (402, "quota"),
            (403, "authentication"),
            (404, "invalid request"),
            (408, "server"),
            (409, "server"),
            (413, "context overflow"),
            (422, "invalid request"),
            (429, "rate limit"),
            (500, "server"),
            (502, "server"),
            (503, "overloaded"),
            (504, "server"),
            (524, "server"),
            (529, "overloaded"),
        ] {
            check(status, r#"{"error":{"message":"fake error","type":"fake"}}"#, expected);
        }
    }

    #[test]
    fn by_wording() {
        let too_long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
        check(400, too_long, "context overflow");
        check(400, "the request exceeds the available context size, try increasing it", "context overflow");
        check(400, r#"{"error":"prompt is too long: 300000 tokens > 200000 maximum"}"#, "context overflow");
        check(400, r#"{"message":"rate limit: too many input tokens per minute"}"#, "rate limit");
        check(429, r#"{"error":{"message":"Rate limit: context window busy"}}"#, "rate limit");
        check(429, r#"{"error":{"code":"insufficient_quota","message":"check your plan"}}"#, "quota");
        check(403, r#"{"error":{"message":"Your credit balance is too low"}}"#, "quota");
        check(400, r#"{"error":{"code":"content_filter","message":"filtered"}}"#, "content filter");
        check(400, r#"{"error":{"message":"Invalid API key"}}"#, "authentication");
        check(500, r#"{"error":{"message":"The model is overloaded"}}"#, "overloaded");
        check(502, "<html>", "server");
    }

    #[test]
    fn inside_a_stream() {
        check_in_stream(r#"{"error":{"code":502,"message":"upstream"}}"#, "server", 502);
        check_in_stream(r#"{"error":{"code":"429","message":"slow down"}}"#, "rate limit", 429);
        check_in_stream(r#"{"error":{"type":"overloaded_error","message":"x"}}"#, "overloaded", 200);
        check_in_stream(
            r#"{"error":{"type":"invalid_request_error","message":"x"}}"#,
            "invalid request",
            200,
        );
        check_in_stream(r#"{"error":{"code":"invalid_prompt","message":"x"}}"#, "invalid request", 200);
        check_in_stream(r#"{"error":"something broke"}"#, "server", 200);
        let raw =
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"context window exceeded"}}}"#;
        check_in_stream(raw, "context overflow", 200);
    }
}
