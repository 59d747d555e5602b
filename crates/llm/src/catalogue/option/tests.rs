//! Options as people write them and as they go out.

use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(fields) = value else { panic!("{value} is no object") };
    fields
}

#[track_caller]
fn check(
    (protocol, wire): (Protocol, &str),
    written: Value,
    (effort, budget): (Option<Effort>, Option<u64>),
    options: Value,
    left_out: &[&str],
) {
    let expected = TranslatedOptions {
        reasoning: Reasoning { effort, budget },
        options: object(options),
        left_out: left_out.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(translate(protocol, wire, &object(written)), expected);
}

const UNSAID: (Option<Effort>, Option<u64>) = (None, None);

/// What broke: services refused requests with the JavaScript names in them.
#[test]
fn responses_get_their_own_names() {
    let gpt = (Protocol::OpenAiResponses, "gpt-5.6");
    check(
        gpt,
        json!({"reasoningEffort": "high", "reasoningSummary": "detailed", "textVerbosity": "low",
            "serviceTier": "priority", "parallelToolCalls": false, "store": true, "promptCacheKey": "k",
            "include": ["reasoning.encrypted_content"], "user": "me", "maxOutputTokens": 9}),
        (Some(Effort::High), None),
        json!({"reasoning": {"summary": "detailed"}, "text": {"verbosity": "low"}, "service_tier": "priority",
            "parallel_tool_calls": false, "store": true, "prompt_cache_key": "k",
            "include": ["reasoning.encrypted_content"], "user": "me", "max_output_tokens": 9}),
        &[],
    );
    check(
        gpt,
        json!({"reasoning": {"effort": "low", "summary": "auto"}, "service_tier": "flex", "top_p": 0.5}),
        (Some(Effort::Low), None),
        json!({"reasoning": {"summary": "auto"}, "service_tier": "flex", "top_p": 0.5}),
        &[],
    );
    check(
        gpt,
        json!({"thinking": {"type": "enabled", "budgetTokens": 5}, "strictJsonSchema": true, "timeout": 5}),
        UNSAID,
        json!({}),
        &["thinking", "strictJsonSchema", "timeout"],
    );
    // The wire's word for this effort is another.
    check(
        gpt,
        json!({"reasoningEffort": "max"}),
        (Some(Effort::Max), None),
        json!({"reasoning": {"effort": "max"}}),
        &[],
    );
    check(gpt, json!({"reasoningEffort": "xhigh"}), (Some(Effort::Max), None), json!({}), &[]);
}

#[test]
fn chat_servers_get_their_own_names() {
    let any = (Protocol::OpenAiChat, "m");
    check(
        any,
        json!({"reasoningEffort": "medium", "textVerbosity": "low", "topP": 0.5, "topK": 3, "logitBias": {"1": 2},
            "stopSequences": ["x"], "extraBody": {"provider": {"only": ["a"]}}, "reasoningSummary": "auto"}),
        (Some(Effort::Medium), None),
        json!({"verbosity": "low", "top_p": 0.5, "top_k": 3, "logit_bias": {"1": 2}, "stop": ["x"],
            "provider": {"only": ["a"]}}),
        &["reasoningSummary"],
    );
    check(
        any,
        json!({"chat_template_kwargs": {"enable_thinking": false}, "ownName": {"subName": 1}}),
        UNSAID,
        json!({"chat_template_kwargs": {"enable_thinking": false}, "ownName": {"subName": 1}}),
        &[],
    );
    // These servers know no budget among the neutral words, so it also stays where some of them have it.
    check(
        any,
        json!({"thinking": {"type": "enabled", "budgetTokens": 9000}}),
        (None, Some(9000)),
        json!({"thinking": {"type": "enabled", "budget_tokens": 9000}}),
        &[],
    );
    check(
        any,
        json!({"thinking": {"type": "disabled"}}),
        UNSAID,
        json!({"thinking": {"type": "disabled"}}),
        &[],
    );
    check(
        any,
        json!({"reasoning": {"effort": "xhigh", "exclude": true}}),
        (Some(Effort::Max), None),
        json!({"reasoning_effort": "xhigh", "reasoning": {"exclude": true}}),
        &[],
    );
    check(any, json!({"reasoningEffort": "default"}), UNSAID, json!({"reasoning_effort": "default"}), &[]);
}

#[test]
fn claude_gets_its_own_names() {
    let claude = (Protocol::Anthropic, "claude-sonnet-4-5");
    check(
        claude,
        json!({"thinking": {"type": "enabled", "budgetTokens": 9000}, "serviceTier": "auto", "topK": 3,
            "metadata": {"userId": "u"}, "contextManagement": {"edits": [{"clearAtLeast": 1}]}}),
        (None, Some(9000)),
        json!({"service_tier": "auto", "top_k": 3, "metadata": {"user_id": "u"},
            "context_management": {"edits": [{"clear_at_least": 1}]}}),
        &[],
    );
    check(
        claude,
        json!({"store": false, "promptCacheKey": "k", "sendReasoning": true, "anthropicBeta": ["x"]}),
        UNSAID,
        json!({}),
        &["store", "promptCacheKey", "sendReasoning", "anthropicBeta"],
    );
    check(claude, json!({"thinking": {"type": "disabled"}}), (Some(Effort::None), None), json!({}), &[]);
    check(claude, json!({"thinking": {"type": "adaptive"}}), (Some(Effort::High), None), json!({}), &[]);
    check(
        claude,
        json!({"thinking": {"type": "adaptive"}, "effort": "low"}),
        (Some(Effort::Low), None),
        json!({}),
        &[],
    );
    let other = (Protocol::Anthropic, "MiniMax-M3");
    for kind in ["adaptive", "disabled"] {
        let thinking = json!({"thinking": {"type": kind}});
        check(other, thinking.clone(), UNSAID, thinking, &[]);
    }
}

#[test]
fn gemini_gets_its_own_names() {
    let gemini = (Protocol::Gemini, "gemini-3-flash-preview");
    check(
        gemini,
        json!({"thinkingConfig": {"thinkingLevel": "high", "includeThoughts": true}, "topP": 0.5, "maxOutputTokens": 9,
            "safetySettings": [], "structuredOutputs": false}),
        (Some(Effort::High), None),
        json!({"generationConfig": {"topP": 0.5, "maxOutputTokens": 9}, "safetySettings": []}),
        &["structuredOutputs"],
    );
    check(
        gemini,
        json!({"thinkingConfig": {"thinkingBudget": 128, "includeThoughts": false}}),
        (None, Some(128)),
        json!({"generationConfig": {"thinkingConfig": {"includeThoughts": false}}}),
        &[],
    );
    check(
        gemini,
        json!({"thinkingBudget": -1, "thinkingLevel": "LOW"}),
        (Some(Effort::Low), None),
        json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}),
        &[],
    );
}

#[test]
fn a_variant_replaces_what_the_model_says_about_thinking() {
    let model = |package: &'static str, reasoning, options: Value| ModelInfo {
        package: package.into(),
        reasoning,
        options: object(options),
        ..ModelInfo::default()
    };
    let variant =
        |reasoning, options: Value| Variant { name: "v".into(), reasoning, options: object(options) };
    let effort = |effort| Reasoning { effort: Some(effort), budget: None };
    let check = |model: &ModelInfo, variant: Option<Variant>, reasoning: Reasoning, options: Value| {
        let expected = ModelSetting { reasoning, options: object(options) };
        assert_eq!(model.setting(variant.as_ref()), expected);
    };
    let chat = model(
        "@ai-sdk/openai-compatible",
        effort(Effort::Max),
        json!({"reasoning_effort": "xhigh", "seed": 1, "reasoning": {"exclude": true}}),
    );
    check(&chat, None, chat.reasoning, Value::Object(chat.options.clone()));
    check(
        &chat,
        Some(variant(effort(Effort::Low), json!({"seed": 2}))),
        effort(Effort::Low),
        json!({"seed": 2, "reasoning": {"exclude": true}}),
    );
    check(
        &chat,
        Some(variant(Reasoning::default(), json!({"thinking": {"type": "disabled"}}))),
        Reasoning::default(),
        json!({"seed": 1, "reasoning": {"exclude": true}, "thinking": {"type": "disabled"}}),
    );
    // One that does not speak of thinking leaves it as it is.
    let responses = model("@ai-sdk/openai", effort(Effort::Low), json!({"text": {"verbosity": "low"}}));
    check(
        &responses,
        Some(variant(Reasoning::default(), json!({"text": {"format": 1}, "service_tier": "priority"}))),
        effort(Effort::Low),
        json!({"text": {"verbosity": "low", "format": 1}, "service_tier": "priority"}),
    );
}
