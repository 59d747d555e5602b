//! Options of a model in the words of its wire.
//!
//! Configurations of OpenCode name options as the JavaScript packages do that speak a protocol there
//! (`reasoningEffort`, `textVerbosity`). Those packages translate them; services refuse what they do not know. So
//! each protocol has a table here from such a name to its place in the request body. A name that no table has goes
//! to the service as it is: whoever writes `service_tier` means it. A name that only means something elsewhere is
//! left out.
//!
//! What says how much a model thinks becomes a [`Reasoning`], which every protocol can say in the words that its
//! models understand. Where it has no words for what was written, that also stays where the wire has it.

use serde_json::{Map, Value};

use super::variant::{Variant, effort_of_word};
use super::{ModelInfo, Protocol};
use crate::{Effort, Reasoning};

/// How a model is asked: with a variant or without.
#[derive(Clone, Default, PartialEq)]
pub struct Setting {
    /// How much it thinks.
    pub reasoning: Reasoning,
    /// Fields to merge into the request body, as the wire names them.
    pub options: Map<String, Value>,
}

impl ModelInfo {
    /// How the model is asked: as its own options say, and where a variant says something else, as that does.
    ///
    /// A variant that says how much to think replaces all that the model's options say about it: half of one and half
    /// of the other is refused.
    pub fn setting(&self, variant: Option<&Variant>) -> Setting {
        let mut setting = Setting { reasoning: self.reasoning, options: self.options.clone() };
        let Some(variant) = variant else { return setting };
        let places = thinking_places(self.protocol());
        let says_so = |place: &&[&str]| holds(&variant.options, place);
        if variant.reasoning != Reasoning::default() || places.iter().any(says_so) {
            setting.reasoning = variant.reasoning;
            for place in places {
                remove(&mut setting.options, place);
            }
        }
        for (name, value) in &variant.options {
            put(&mut setting.options, &[name], value.clone());
        }
        setting
    }
}

/// Options in the words of a wire.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Translated {
    /// What they say about thinking.
    pub(super) reasoning: Reasoning,
    /// The fields of the body.
    pub(super) options: Map<String, Value>,
    /// Names that mean nothing there.
    pub(super) left_out: Vec<String>,
}

/// Translates the options of a model with this id on the wire.
pub(super) fn translate(protocol: Protocol, wire: &str, options: &Map<String, Value>) -> Translated {
    let mut done = Translated::default();
    for (name, value) in options {
        done.take(protocol, wire, name, value);
    }
    // A service that is told to choose by itself chooses this.
    if done.reasoning.effort.is_none() && is_adaptive(options) && speaks_claude(protocol, wire) {
        done.reasoning.effort = Some(Effort::High);
    }
    done
}

/// What becomes of an option.
#[derive(Clone, Copy)]
enum Turn {
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

use Turn::{Body, Budget, Group, Level, Nothing, Object, OnlyOff, Place, Thinking};

type Row = (&'static str, Turn);

/// Settings of a client and not of a request.
const CLIENT: &[Row] = &[
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

const CHAT: &[Row] = &[
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

const RESPONSES: &[Row] = &[
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

const ANTHROPIC: &[Row] = &[
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

const GEMINI: &[Row] = &[
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

fn rows(protocol: Protocol) -> &'static [Row] {
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
fn thinking_places(protocol: Protocol) -> &'static [&'static [&'static str]] {
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

impl Translated {
    fn take(&mut self, protocol: Protocol, wire: &str, name: &str, value: &Value) {
        let row = rows(protocol).iter().chain(CLIENT).find(|(known, _)| *known == name);
        match row.map(|(_, turn)| *turn) {
            None => put(&mut self.options, &[name], value.clone()),
            Some(Nothing) => self.left_out.push(name.to_owned()),
            Some(Place(place)) => put(&mut self.options, place, value.clone()),
            Some(Object(place)) => put(&mut self.options, place, with_underscores(value)),
            Some(Level(place)) => self.take_effort(protocol, place, value),
            Some(Budget(place)) => match value.as_u64() {
                Some(tokens) => self.reasoning.budget = Some(tokens),
                None => put(&mut self.options, place, value.clone()),
            },
            Some(OnlyOff(place)) => {
                if value != &Value::Bool(true) {
                    put(&mut self.options, place, value.clone());
                }
            }
            Some(Thinking) => self.take_thinking(protocol, wire, value),
            Some(Group) => self.take_group(protocol, wire, name, value),
            Some(Body) => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    put(&mut self.options, &[name], value.clone());
                }
            }
        }
    }

    fn take_effort(&mut self, protocol: Protocol, place: &[&str], value: &Value) {
        let word = value.as_str().unwrap_or_default().to_ascii_lowercase();
        let effort = effort_of_word(&word);
        self.reasoning.effort = effort.or(self.reasoning.effort);
        // The words for the greatest effort differ between services, and not all have one.
        let unsaid = match (effort, protocol) {
            (None, _) => true,
            (Some(Effort::Max), Protocol::OpenAiResponses | Protocol::Azure) => word != "xhigh",
            (Some(Effort::Max), _) => place == ["reasoning_effort"],
            (Some(_), _) => false,
        };
        if unsaid {
            put(&mut self.options, place, value.clone());
        }
    }

    fn take_thinking(&mut self, protocol: Protocol, wire: &str, value: &Value) {
        let budget = value.get("budgetTokens").or_else(|| value.get("budget_tokens")).and_then(Value::as_u64);
        self.reasoning.budget = budget.or(self.reasoning.budget);
        let is_off = value.get("type").and_then(Value::as_str) == Some("disabled");
        if is_off {
            self.reasoning.effort = Some(Effort::None);
        }
        // Thinking of Claude and Gemini is told by the neutral words alone. Others that speak these protocols, and
        // all that speak Chat Completions, know switches of their own.
        let told = match protocol {
            Protocol::Anthropic | Protocol::VertexAnthropic => {
                speaks_claude(protocol, wire) || budget.is_some()
            }
            Protocol::Gemini | Protocol::Vertex => true,
            Protocol::OpenAiResponses
            | Protocol::OpenAiChat
            | Protocol::Bedrock
            | Protocol::BedrockMantle
            | Protocol::Azure
            | Protocol::Cohere
            | Protocol::Unknown => false,
        };
        if !told {
            // An effort beside the switch would be a second way to say the same.
            self.reasoning.effort = self.reasoning.effort.filter(|_| !is_off);
            put(&mut self.options, &["thinking"], with_underscores(value));
        }
    }

    /// Takes the names of an object that are options, and leaves the others in it.
    fn take_group(&mut self, protocol: Protocol, wire: &str, name: &str, value: &Value) {
        let Some(fields) = value.as_object() else {
            return put(&mut self.options, &[name], value.clone());
        };
        for (field, value) in fields {
            match (name, field.as_str()) {
                ("reasoning" | "output_config", "effort") => self.take(protocol, wire, field, value),
                ("thinkingConfig", _) => self.take(protocol, wire, field, value),
                _ => put(&mut self.options, &[name, field], value.clone()),
            }
        }
    }
}

fn is_adaptive(options: &Map<String, Value>) -> bool {
    let kind = options.get("thinking").and_then(|thinking| thinking.get("type"));
    kind.and_then(Value::as_str) == Some("adaptive")
}

fn speaks_claude(protocol: Protocol, wire: &str) -> bool {
    matches!(protocol, Protocol::Anthropic | Protocol::VertexAnthropic)
        && wire.to_ascii_lowercase().contains("claude")
}

/// Puts a value in its place. Objects are filled, so that one option does not undo another.
fn put(into: &mut Map<String, Value>, place: &[&str], value: Value) {
    match (place, value) {
        ([], _) => {}
        ([name], Value::Object(more)) => match into.get_mut(*name) {
            Some(Value::Object(known)) => {
                for (name, value) in more {
                    put(known, &[&name], value);
                }
            }
            _ => {
                into.insert((*name).to_owned(), Value::Object(more));
            }
        },
        ([name], value) => {
            into.insert((*name).to_owned(), value);
        }
        ([name, rest @ ..], value) => {
            let slot = into.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(inner) = slot {
                put(inner, rest, value);
            }
        }
    }
}

fn holds(options: &Map<String, Value>, place: &[&str]) -> bool {
    match place {
        [] => false,
        [name] => options.contains_key(*name),
        [name, rest @ ..] => {
            options.get(*name).and_then(Value::as_object).is_some_and(|inner| holds(inner, rest))
        }
    }
}

/// Takes a value out of its place, and the objects around it that are empty then.
fn remove(options: &mut Map<String, Value>, place: &[&str]) {
    match place {
        [] => {}
        [name] => {
            options.shift_remove(*name);
        }
        [name, rest @ ..] => {
            let Some(Value::Object(inner)) = options.get_mut(*name) else { return };
            remove(inner, rest);
            if inner.is_empty() {
                options.shift_remove(*name);
            }
        }
    }
}

/// A value in which the names of objects are written with underscores.
fn with_underscores(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (underscored(name), with_underscores(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(with_underscores).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn underscored(name: &str) -> String {
    let mut done = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !done.is_empty() {
            done.push('_');
        }
        done.push(letter.to_ascii_lowercase());
    }
    done
}

#[cfg(test)]
mod tests;
