//! An overlong conversation, in the words of every provider that is known to have some.

use everturn_llm::Protocol;

use super::{PROTOCOLS, check};

/// Who says it, with which status, and how.
const WORDINGS: &[(&str, u16, &str)] = &[
    (
        "OpenAI",
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.",
    ),
    (
        "OpenAI Responses",
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    ("Anthropic", 400, "prompt is too long: 213462 tokens > 200000 maximum"),
    (
        "Anthropic",
        400,
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again",
    ),
    ("Anthropic", 413, "Request exceeds the maximum size"),
    (
        "Gemini",
        400,
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
    (
        "Vertex",
        400,
        "Unable to submit request because the input token count is 40000 but model only supports up to 32767.",
    ),
    (
        "Mistral",
        400,
        "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    ),
    ("Groq", 400, "Please reduce the length of the messages or completion."),
    (
        "Groq",
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.",
    ),
    (
        "OpenAI",
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 31538. The input or output tokens must be reduced in order to run successfully.",
    ),
    ("xAI", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (
        "DeepSeek",
        400,
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (62000 in the messages, 8000 in the completion).",
    ),
    (
        "OpenRouter",
        400,
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 35000 tokens.",
    ),
    ("Together", 422, "The input (40000 tokens) is longer than the model's context length (32768 tokens)."),
    ("Together", 422, "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens"),
    ("Fireworks", 400, "The prompt is too long: 140000, model maximum context length: 131071"),
    (
        "Cerebras",
        400,
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    ),
    ("llama.cpp", 400, "the request exceeds the available context size, try increasing it"),
    ("Ollama", 400, "prompt too long; exceeded max context length by 4096 tokens"),
    ("Ollama", 400, "the input length exceeds the context length"),
    (
        "vLLM",
        400,
        "The decoder prompt (length 38000) is longer than the maximum model length of 32768. Make sure that `max_model_len` is no smaller than the number of text tokens.",
    ),
    (
        "vLLM",
        400,
        "You passed 40961 input tokens and requested 0 output tokens. However, the model's context length is only 40960 tokens.",
    ),
    (
        "LM Studio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length.",
    ),
    ("Amazon Bedrock", 400, "Input is too long for requested model."),
    (
        "Amazon Bedrock",
        400,
        "Too many input tokens. Max input tokens: 128000, request input token count: 130000",
    ),
    ("GitHub Copilot", 400, "prompt token count of 130000 exceeds the limit of 128000"),
    ("Kimi", 400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
    ("MiniMax", 400, "invalid params, context window exceeds limit (2013)"),
    ("Z.ai", 400, "Prompt exceeds max length"),
    ("Qwen", 400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
    ("Cohere", 400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    ("Hugging Face", 422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    ("SGLang", 400, "Requested token count exceeds the model's maximum context length of 32768 tokens."),
    ("Cloudflare", 413, ""),
];

/// Codes that say it, whatever the text may be.
const CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
];

#[tokio::test]
async fn in_all_wordings() {
    let line = |(_, status, words): &(&str, u16, &str)| {
        (format!("ERR:{status}\nERRTEXT:{words}"), format!("context overflow {status}, give up"))
    };
    let lines: Vec<(String, String)> = WORDINGS.iter().map(line).collect();
    let lines: Vec<(&str, &str)> =
        lines.iter().map(|(prompt, expected)| (prompt.as_str(), expected.as_str())).collect();
    for protocol in PROTOCOLS {
        check(protocol, &lines).await;
    }
}

#[tokio::test]
async fn by_code() {
    for code in CODES {
        let line = format!("ERR:400 ERRTYPE:invalid_request_error ERRCODE:{code}\nERRTEXT:No.");
        for protocol in [Protocol::OpenAiChat, Protocol::OpenAiResponses] {
            check(protocol, &[(&line, "context overflow 400, give up")]).await;
        }
    }
    let anthropic = "ERR:413 ERRTYPE:request_too_large\nERRTEXT:No.";
    check(Protocol::Anthropic, &[(anthropic, "context overflow 413, give up")]).await;
}

/// Aggregators repeat what the provider behind them said, in their own way.
#[tokio::test]
async fn at_second_hand() {
    check(
        Protocol::OpenAiChat,
        &[(
            "ERR:400\nERRBODY:{\"error\":{\"message\":\"Provider returned error\",\"code\":400,\"metadata\":{\"raw\":\"{\\\"message\\\":\\\"prompt is too long: 3 tokens > 2 maximum\\\"}\",\"provider_name\":\"Amazon Bedrock\"}}}",
            "context overflow 400, give up",
        )],
    )
    .await;
}

/// Words about tokens that speak of something else.
#[tokio::test]
async fn and_nothing_else() {
    check(
        Protocol::OpenAiChat,
        &[
            (
                "ERR:429\nERRTEXT:Too many tokens, please wait before trying again.",
                "rate limit 429, again after 2 s",
            ),
            (
                "ERR:400\nERRTEXT:max_tokens is too large: 200000. It must be at most 16384.",
                "invalid request 400, give up",
            ),
            ("ERR:429\nERRTEXT:Rate limit: the context window is busy", "rate limit 429, again after 2 s"),
        ],
    )
    .await;
}
