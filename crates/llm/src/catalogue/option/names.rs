//! The names of options: what each means to a protocol, and where the wire has it.

use super::super::Protocol;

use OptionUse::{Body, Budget, Group, Level, Nothing, Object, OnlyOff, Place, Thinking};

/// What becomes of an option.
#[derive(Clone, Copy)]
pub(super) enum OptionUse {
    /// It goes to this place in the body.
    Place(&'static [&'static str]),
    /// It goes to this place, and the names in it are written with underscores there.
    Object(&'static [&'static str]),
    /// It is an effort, which the wire has in this place.
    Level(&'static [&'static str]),
    /// It is a number of tokens to think for, which the wire has in this place.
    Budget(&'static [&'static str]),
    /// It is an object that switches thinking on and off and may say how much.
    Thinking,
    /// It is an object of which some names are options themselves.
    Group,
    /// It is on unless this place says otherwise. To say that it is on would be refused where nothing is thought.
    OnlyOff(&'static [&'static str]),
    /// It holds fields of the body.
    Body,
    /// It means nothing here.
    Nothing,
}

pub(super) type OptionRow = (&'static str, OptionUse);

/// Settings of a client and not of a request.
pub(super) const CLIENT: &[OptionRow] = &[
    ("apiKey", Nothing),
    ("baseURL", Nothing),
    ("chunkTimeout", Nothing),
    ("fetch", Nothing),
    ("forceReasoning", Nothing),
    ("headers", Nothing),
    ("includeUsage", Nothing),
    ("passThroughUnsupportedFiles", Nothing),
    ("sendReasoning", Nothing),
    ("setCacheKey", Nothing),
    ("strictJsonSchema", Nothing),
    ("structuredOutputMode", Nothing),
    ("structuredOutputs", Nothing),
    ("systemMessageMode", Nothing),
    ("timeout", Nothing),
    ("toolStreaming", Nothing),
];

const CHAT: &[OptionRow] = &[
    ("anthropicBeta", Nothing),
    ("cacheControl", Object(&["cache_control"])),
    ("documentImageLimit", Place(&["document_image_limit"])),
    ("documentPageLimit", Place(&["document_page_limit"])),
    ("effort", Level(&["reasoning_effort"])),
    ("enableThinking", Place(&["enable_thinking"])),
    ("extraBody", Body),
    ("frequencyPenalty", Place(&["frequency_penalty"])),
    ("include", Nothing),
    ("includeReasoning", Place(&["include_reasoning"])),
    ("includeThoughts", Nothing),
    ("logitBias", Place(&["logit_bias"])),
    ("maxCompletionTokens", Place(&["max_completion_tokens"])),
    ("maxOutputTokens", Place(&["max_tokens"])),
    ("maxTokens", Place(&["max_tokens"])),
    ("maxToolCalls", Nothing),
    ("minP", Place(&["min_p"])),
    ("parallelToolCalls", Place(&["parallel_tool_calls"])),
    ("presencePenalty", Place(&["presence_penalty"])),
    ("previousResponseId", Nothing),
    ("promptCacheKey", Place(&["prompt_cache_key"])),
    ("promptCacheRetention", Place(&["prompt_cache_retention"])),
    ("reasoning", Group),
    ("reasoningEffort", Level(&["reasoning_effort"])),
    ("reasoningFormat", Place(&["reasoning_format"])),
    ("reasoningSummary", Nothing),
    ("reasoning_effort", Level(&["reasoning_effort"])),
    ("repetitionPenalty", Place(&["repetition_penalty"])),
    ("responseFormat", Place(&["response_format"])),
    ("safePrompt", Place(&["safe_prompt"])),
    ("safetyIdentifier", Place(&["safety_identifier"])),
    ("searchParameters", Object(&["search_parameters"])),
    ("serviceTier", Place(&["service_tier"])),
    ("stopSequences", Place(&["stop"])),
    ("textVerbosity", Place(&["verbosity"])),
    ("thinking", Thinking),
    ("thinkingBudget", Budget(&["thinking_budget"])),
    ("thinkingConfig", Nothing),
    ("thinkingLevel", Nothing),
    ("topK", Place(&["top_k"])),
    ("topLogprobs", Place(&["top_logprobs"])),
    ("topP", Place(&["top_p"])),
    ("webSearchOptions", Object(&["web_search_options"])),
];

const RESPONSES: &[OptionRow] = &[
    ("allowedTools", Nothing),
    ("contextManagement", Object(&["context_management"])),
    ("effort", Level(&["reasoning", "effort"])),
    ("includeThoughts", Nothing),
    ("logitBias", Nothing),
    ("logprobs", Nothing),
    ("maxCompletionTokens", Place(&["max_output_tokens"])),
    ("maxOutputTokens", Place(&["max_output_tokens"])),
    ("maxTokens", Place(&["max_output_tokens"])),
    ("maxToolCalls", Place(&["max_tool_calls"])),
    ("parallelToolCalls", Place(&["parallel_tool_calls"])),
    ("prediction", Nothing),
    // The whole conversation is sent each time, so there is none to go on from.
    ("previousResponseId", Nothing),
    ("promptCacheKey", Place(&["prompt_cache_key"])),
    ("promptCacheRetention", Place(&["prompt_cache_retention"])),
    ("reasoning", Group),
    ("reasoningEffort", Level(&["reasoning", "effort"])),
    ("reasoningSummary", Place(&["reasoning", "summary"])),
    ("reasoning_effort", Level(&["reasoning", "effort"])),
    ("safetyIdentifier", Place(&["safety_identifier"])),
    ("serviceTier", Place(&["service_tier"])),
    ("textVerbosity", Place(&["text", "verbosity"])),
    ("thinking", Nothing),
    ("thinkingConfig", Nothing),
    ("topLogprobs", Place(&["top_logprobs"])),
    ("topP", Place(&["top_p"])),
    ("verbosity", Place(&["text", "verbosity"])),
];

const ANTHROPIC: &[OptionRow] = &[
    // These travel as a header.
    ("anthropicBeta", Nothing),
    ("betas", Nothing),
    ("cacheControl", Object(&["cache_control"])),
    ("container", Object(&["container"])),
    ("contextManagement", Object(&["context_management"])),
    // It belongs into the choice of a tool, which is made for each request.
    ("disableParallelToolUse", Nothing),
    ("effort", Level(&["output_config", "effort"])),
    ("include", Nothing),
    ("includeThoughts", Nothing),
    ("inferenceGeo", Place(&["inference_geo"])),
    ("logitBias", Nothing),
    ("maxCompletionTokens", Place(&["max_tokens"])),
    ("maxOutputTokens", Place(&["max_tokens"])),
    ("maxTokens", Place(&["max_tokens"])),
    ("maxToolCalls", Nothing),
    ("mcpServers", Object(&["mcp_servers"])),
    ("metadata", Object(&["metadata"])),
    ("output_config", Group),
    ("parallelToolCalls", Nothing),
    ("promptCacheKey", Nothing),
    ("promptCacheRetention", Nothing),
    ("reasoningEffort", Level(&["output_config", "effort"])),
    ("reasoningSummary", Nothing),
    ("reasoning_effort", Level(&["output_config", "effort"])),
    ("safetyIdentifier", Nothing),
    ("serviceTier", Place(&["service_tier"])),
    ("stopSequences", Place(&["stop_sequences"])),
    ("store", Nothing),
    ("textVerbosity", Nothing),
    ("thinking", Thinking),
    ("thinkingBudget", Nothing),
    ("thinkingConfig", Nothing),
    ("thinkingLevel", Nothing),
    ("topK", Place(&["top_k"])),
    ("topP", Place(&["top_p"])),
    ("user", Nothing),
];

const GEMINI: &[OptionRow] = &[
    ("audioTimestamp", Place(&["generationConfig", "audioTimestamp"])),
    ("effort", Level(LEVEL)),
    ("frequencyPenalty", Place(&["generationConfig", "frequencyPenalty"])),
    ("imageConfig", Place(&["generationConfig", "imageConfig"])),
    ("include", Nothing),
    ("includeThoughts", OnlyOff(&["generationConfig", "thinkingConfig", "includeThoughts"])),
    ("logitBias", Nothing),
    ("maxOutputTokens", Place(&["generationConfig", "maxOutputTokens"])),
    ("maxTokens", Place(&["generationConfig", "maxOutputTokens"])),
    ("maxToolCalls", Nothing),
    ("mediaResolution", Place(&["generationConfig", "mediaResolution"])),
    ("parallelToolCalls", Nothing),
    ("presencePenalty", Place(&["generationConfig", "presencePenalty"])),
    ("promptCacheKey", Nothing),
    ("promptCacheRetention", Nothing),
    ("reasoningEffort", Level(LEVEL)),
    ("reasoningSummary", Nothing),
    ("reasoning_effort", Level(LEVEL)),
    ("responseModalities", Place(&["generationConfig", "responseModalities"])),
    ("retrievalConfig", Place(&["toolConfig", "retrievalConfig"])),
    ("safetyIdentifier", Nothing),
    ("seed", Place(&["generationConfig", "seed"])),
    ("stopSequences", Place(&["generationConfig", "stopSequences"])),
    ("store", Nothing),
    ("streamFunctionCallArguments", Nothing),
    ("temperature", Place(&["generationConfig", "temperature"])),
    ("textVerbosity", Nothing),
    ("thinking", Thinking),
    ("thinkingBudget", Budget(BUDGET)),
    ("thinkingConfig", Group),
    ("thinkingLevel", Level(LEVEL)),
    ("threshold", Nothing),
    ("topK", Place(&["generationConfig", "topK"])),
    ("topP", Place(&["generationConfig", "topP"])),
    ("user", Nothing),
];

const LEVEL: &[&str] = &["generationConfig", "thinkingConfig", "thinkingLevel"];
const BUDGET: &[&str] = &["generationConfig", "thinkingConfig", "thinkingBudget"];

/// The names of a protocol.
pub(super) fn rows(protocol: Protocol) -> &'static [OptionRow] {
    match protocol {
        Protocol::OpenAiChat
        | Protocol::Bedrock
        | Protocol::BedrockMantle
        | Protocol::Cohere
        | Protocol::Unknown => CHAT,
        Protocol::OpenAiResponses | Protocol::Azure => RESPONSES,
        Protocol::Anthropic | Protocol::VertexAnthropic => ANTHROPIC,
        Protocol::Gemini | Protocol::Vertex => GEMINI,
    }
}

/// Where a body says how much to think.
pub(super) fn thinking_places(protocol: Protocol) -> &'static [&'static [&'static str]] {
    match protocol {
        Protocol::OpenAiChat
        | Protocol::Bedrock
        | Protocol::BedrockMantle
        | Protocol::Cohere
        | Protocol::Unknown => &[
            &["enable_thinking"],
            &["reasoning", "effort"],
            &["reasoning", "enabled"],
            &["reasoning", "max_tokens"],
            &["reasoning_effort"],
            &["thinking"],
            &["thinking_budget"],
        ],
        Protocol::OpenAiResponses | Protocol::Azure => &[&["reasoning", "effort"]],
        Protocol::Anthropic | Protocol::VertexAnthropic => &[&["output_config", "effort"], &["thinking"]],
        Protocol::Gemini | Protocol::Vertex => &[BUDGET, LEVEL],
    }
}
