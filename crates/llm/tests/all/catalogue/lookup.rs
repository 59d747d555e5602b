//! What names mean, which models are taken when nobody chose, and what was perhaps meant.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use everturn_llm::catalogue::{Catalogue, FoundModel, LookupError};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{names, set};

fn check(name: &str, variables: &[&str], expected: &str) {
    let found = Catalogue::builtin().resolve(name, &set(variables)).map(|found| found.name());
    assert_eq!(found, Ok(expected.to_owned()));
}

fn refuse(name: &str, variables: &[&str], expected: LookupError) {
    let found = Catalogue::builtin().resolve(name, &set(variables)).map(|found| found.name());
    assert_eq!(found, Err(expected));
}

#[test]
fn whole_names_need_no_key_and_no_case() {
    check("openai/gpt-5.6", &[], "openai/gpt-5.6");
    check("  OpenAI/GPT-5.6 ", &[], "openai/gpt-5.6");
    check("openrouter/openai/gpt-5.4", &[], "openrouter/openai/gpt-5.4");
    check("ollama-cloud/gpt-oss:120b", &[], "ollama-cloud/gpt-oss:120b");
    check("amazon-bedrock/amazon.nova-pro-v1:0", &[], "amazon-bedrock/amazon.nova-pro-v1:0");
}

#[test]
fn families_and_latest_mean_the_newest_model() {
    check("anthropic/claude-sonnet", &[], "anthropic/claude-sonnet-5");
    check("anthropic/claude-sonnet-latest", &[], "anthropic/claude-sonnet-5");
    check("anthropic/opus", &[], "anthropic/claude-opus-5-5");
    check("anthropic/haiku-latest", &[], "anthropic/claude-haiku-4-5");
    check("xai/grok-latest", &[], "xai/grok-4.7");
    check("google/gemini-pro", &[], "google/gemini-3.1-pro-preview");
    check("openai/gpt-5.6-latest", &[], "openai/gpt-5.6");
    // A model that is really called so wins over the rule.
    check("google/gemini-flash-latest", &[], "google/gemini-flash-latest");
}

#[test]
fn names_without_a_provider_are_looked_for_where_there_is_a_key() {
    check("gpt-5.6", &["OPENAI_API_KEY"], "openai/gpt-5.6");
    check("kimi-k3", &["OPENROUTER_API_KEY"], "openrouter/moonshotai/kimi-k3");
    check("qwen/qwen3.8-27b", &["GROQ_API_KEY"], "groq/qwen/qwen3.8-27b");
    check("sonnet", &["ANTHROPIC_API_KEY"], "anthropic/claude-sonnet-5");
    // Makers come before resellers, and both before a token that is often set for other reasons.
    check("kimi-k3", &["OPENROUTER_API_KEY", "MOONSHOT_API_KEY"], "moonshotai/kimi-k3");
    check("gpt-5.4", &["OPENROUTER_API_KEY", "GITHUB_TOKEN"], "openrouter/openai/gpt-5.4");
    check("gpt-5.4", &["GITHUB_TOKEN"], "github-copilot/gpt-5.4");
    check("gpt-oss-120b", &["GROQ_API_KEY", "HF_TOKEN"], "groq/openai/gpt-oss-120b");
    refuse(
        "kimi-k3",
        &["OPENROUTER_API_KEY", "AI_GATEWAY_API_KEY"],
        LookupError::Ambiguous {
            name: "kimi-k3".into(),
            candidates: names(&["openrouter/moonshotai/kimi-k3", "vercel/moonshotai/kimi-k3"]),
        },
    );
    refuse(
        "claude-fable-5-1",
        &["OPENAI_API_KEY"],
        LookupError::NoKey {
            name: "claude-fable-5-1".into(),
            candidates: names(&["anthropic/claude-fable-5-1", "azure/claude-fable-5-1"]),
            variables: names(&["ANTHROPIC_API_KEY", "AZURE_API_KEY"]),
        },
    );
}

#[test]
fn a_provider_in_a_name_is_never_exchanged() {
    // OpenRouter has a model of exactly this id.
    refuse(
        "anthropic/claude-opus-5.5",
        &["OPENROUTER_API_KEY"],
        LookupError::Unknown {
            name: "anthropic/claude-opus-5.5".into(),
            nearest: Catalogue::builtin().nearest("anthropic/claude-opus-5.5"),
        },
    );
}

fn lay(config: &Value) -> Catalogue {
    Catalogue::builtin().overlaid(config.as_object().unwrap()).unwrap()
}

/// What broke: the name of a model at a provider that was switched off went to a reseller whose ids look like that.
#[test]
fn a_provider_that_is_switched_off_is_not_exchanged_either() {
    let check = |config: Value, name: &str, provider: &str, nearest: &str| {
        let catalogue = lay(&config);
        let usable = set(&["OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"]);
        let Err(LookupError::SwitchedOff { name: told, provider: off, nearest: near }) =
            catalogue.resolve(name, &usable)
        else {
            panic!("{name} was not refused");
        };
        assert_eq!((told.as_str(), off.as_str()), (name, provider));
        assert_eq!(near.first().map(String::as_str), Some(nearest));
    };
    let near = "openrouter/anthropic/claude-sonnet-4.5";
    let disabled = || json!({"disabled_providers": ["anthropic"]});
    check(disabled(), "anthropic/claude-sonnet-4.5", "anthropic", near);
    check(disabled(), "Anthropic/claude-sonnet-4.5", "anthropic", near);
    let enabled = json!({"enabled_providers": ["openrouter"]});
    check(enabled, "anthropic/claude-sonnet-4.5", "anthropic", near);
    let whole = lay(&disabled());
    let whole = whole.resolve(near, &set(&[])).map(|found| found.name());
    assert_eq!(whole, Ok(near.to_owned()));
    let error =
        LookupError::SwitchedOff { name: "a/b".into(), provider: "a".into(), nearest: names(&["c/a/b"]) };
    assert_eq!(
        error.to_string(),
        "\"a/b\" is a model of a, which the configuration switches off by `enabled_providers` or `disabled_providers`: allow it there or choose another model, did you mean c/a/b?"
    );
}

#[test]
fn references_that_were_written_down_never_leave_their_provider() {
    let catalogue = lay(&json!({
        "provider": {"local": {"options": {"baseURL": "http://127.0.0.1:1/v1"}}},
        "disabled_providers": ["xai"],
    }));
    let check = |provider: &str, model: &str, expected: Result<&str, LookupError>| {
        let found = catalogue.exact(provider, model).map(|found| found.name());
        assert_eq!(found, expected.map(str::to_owned));
    };
    let unknown =
        |name: &str| LookupError::Unknown { name: name.to_owned(), nearest: catalogue.nearest(name) };
    check("anthropic", "claude-sonnet-5", Ok("anthropic/claude-sonnet-5"));
    check("Anthropic", "CLAUDE-sonnet-5", Ok("anthropic/claude-sonnet-5"));
    check("anthropic", "sonnet", Ok("anthropic/claude-sonnet-5"));
    check("openrouter", "anthropic/claude-sonnet-5", Ok("openrouter/anthropic/claude-sonnet-5"));
    check("local", "qwen3:30b", Ok("local/qwen3:30b"));
    check("local", "", Err(unknown("local/")));
    check("anthropic", "claude-opus-5.5", Err(unknown("anthropic/claude-opus-5.5")));
    check("gone", "kimi-k3", Err(unknown("gone/kimi-k3")));
    let nearest = catalogue.nearest("xai/grok-4.7");
    let off = LookupError::SwitchedOff { name: "xai/grok-4.7".into(), provider: "xai".into(), nearest };
    check("xai", "grok-4.7", Err(off));
}

#[test]
fn variants_follow_a_colon() {
    check("anthropic/claude-sonnet-5:high", &[], "anthropic/claude-sonnet-5:high");
    check("anthropic/sonnet:HIGH", &[], "anthropic/claude-sonnet-5:high");
    check("gpt-5.6:none", &["OPENAI_API_KEY"], "openai/gpt-5.6:none");
    refuse(
        "anthropic/claude-sonnet-5:huge",
        &[],
        LookupError::Variant {
            model: "anthropic/claude-sonnet-5".into(),
            variant: "huge".into(),
            known: names(&["low", "medium", "high", "max"]),
        },
    );
    // OpenCode stores this name for what is called `max` here. Sessions with it were refused.
    check("openai/gpt-5.6:xhigh", &[], "openai/gpt-5.6:max");
    check("openrouter/openai/gpt-5.4:XHIGH", &[], "openrouter/openai/gpt-5.4:max");
    refuse(
        "openai/gpt-5.1:minimal",
        &[],
        LookupError::Variant {
            model: "openai/gpt-5.1".into(),
            variant: "minimal".into(),
            known: names(&["none", "low", "medium", "high"]),
        },
    );
    refuse(
        "groq/llama-3.3-70b-versatile:high",
        &[],
        LookupError::Variant {
            model: "groq/llama-3.3-70b-versatile".into(),
            variant: "high".into(),
            known: Vec::new(),
        },
    );
}

#[test]
fn undescribed_models_of_configured_servers_are_taken_as_they_are() {
    let config = json!({"provider": {
        "local": {"options": {"baseURL": "http://127.0.0.1:11434/v1"}, "models": {"known": {"reasoning": true}}},
        "hidden": {"models": {"known": {}}},
    }});
    let catalogue = Catalogue::builtin().overlaid(config.as_object().unwrap()).unwrap();
    let resolve = |name| catalogue.resolve(name, &set(&[]));
    let found = resolve("local/qwen3:30b").unwrap();
    assert_eq!(found.model.into_owned(), catalogue.provider("local").unwrap().undescribed("qwen3:30b"));
    assert_eq!(resolve("local/known:high").unwrap().name(), "local/known:high");
    assert_eq!(resolve("local/known:7b").unwrap().model.id, "known:7b");
    assert!(matches!(resolve("hidden/other"), Err(LookupError::Unknown { .. })));
}

fn default(variables: &[&str]) -> Option<(String, Option<String>)> {
    let catalogue = Catalogue::builtin();
    let main = catalogue.default_model(&set(variables))?;
    let small = catalogue.small_model(&main).as_ref().map(FoundModel::name);
    Some((main.name(), small))
}

#[test]
fn models_are_chosen_by_rule() {
    let check = |variables: &[&str], main: &str, small: Option<&str>| {
        assert_eq!(default(variables), Some((main.to_owned(), small.map(str::to_owned))), "{variables:?}");
    };
    check(&["ANTHROPIC_API_KEY"], "anthropic/claude-sonnet-5", Some("anthropic/claude-haiku-4-5"));
    check(&["OPENAI_API_KEY"], "openai/gpt-6-sol", Some("openai/gpt-6-luna"));
    check(&["GEMINI_API_KEY"], "google/gemini-3.1-pro-preview", Some("google/gemini-3.5-flash-lite"));
    check(&["XAI_API_KEY"], "xai/grok-4.7", None);
    check(&["DASHSCOPE_API_KEY"], "alibaba/qwen3.8-flash", None);
    check(&["MISTRAL_API_KEY"], "mistral/mistral-medium-2604", Some("mistral/mistral-small-2603"));
    check(&["DEEPSEEK_API_KEY"], "deepseek/deepseek-v4-pro", Some("deepseek/deepseek-flash"));
    // A maker before a reseller, and a family before another.
    check(
        &["OPENROUTER_API_KEY", "XAI_API_KEY", "ANTHROPIC_API_KEY"],
        "anthropic/claude-sonnet-5",
        Some("anthropic/claude-haiku-4-5"),
    );
    check(&["OPENROUTER_API_KEY", "XAI_API_KEY"], "xai/grok-4.7", None);
    check(
        &["OPENROUTER_API_KEY"],
        "openrouter/anthropic/claude-sonnet-5",
        Some("openrouter/anthropic/claude-haiku-4.5"),
    );
}

#[test]
fn nothing_is_chosen_where_nothing_can_be_used() {
    assert_eq!(default(&[]), None);
    // A token for downloading weights chose a model that costs money.
    assert_eq!(default(&["HF_TOKEN"]), None);
    assert_eq!(
        default(&["GITHUB_TOKEN", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_VERTEX_PROJECT"]),
        None
    );
}

#[test]
fn usable_models_are_listed_with_the_newest_first() {
    let usable = set(&["CEREBRAS_API_KEY", "MOONSHOT_API_KEY"]);
    let listed = Catalogue::builtin().usable_models(&usable);
    let listed: Vec<String> =
        listed.iter().map(|(provider, model)| format!("{}/{}", provider.id, model.id)).collect();
    let expected = [
        "cerebras/qwen-3.8-27b",
        "cerebras/gpt-oss-120b",
        "moonshotai/kimi-k3",
        "moonshotai/kimi-k2.7-code",
        "moonshotai/kimi-k2.7-code-highspeed",
        "moonshotai/kimi-k2.6",
    ];
    assert_eq!(listed, expected);
}

#[test]
fn providers_are_offered_in_the_order_of_preference() {
    let config = json!({"provider": {
        "mine": {"options": {"baseURL": "http://localhost:1/v1"}, "models": {"m": {}, "old": {"provider": {"npm": "x"}}}},
        "empty": {"options": {"baseURL": "http://localhost:1/v1"}},
    }});
    let check = |catalogue: &Catalogue, variables: &[&str], expected: &[&str]| {
        let usable = set(variables);
        let offered = catalogue.offered(&usable);
        let ids = offered.iter().map(|(provider, _)| provider.id.as_ref()).collect::<Vec<_>>();
        assert_eq!(ids, expected);
        for (provider, models) in &offered {
            assert!(models.iter().all(|model| model.protocol().is_spoken()), "{}", provider.id);
            assert!(models.is_sorted_by(|one, next| one.released >= next.released), "{}", provider.id);
        }
    };
    let variables =
        ["AI_GATEWAY_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GITHUB_TOKEN", "GROQ_API_KEY", "XAI_API_KEY"];
    check(Catalogue::builtin(), &variables, &["xai", "groq", "vercel", "github-copilot"]);
    check(&lay(&config), &variables, &["mine", "xai", "groq", "vercel", "github-copilot"]);
    // The default model is Claude's, though `google` comes after `anthropic` and `alibaba` before it.
    let makers = ["ANTHROPIC_API_KEY", "DASHSCOPE_API_KEY", "GEMINI_API_KEY"];
    check(Catalogue::builtin(), &makers, &["anthropic", "alibaba", "google"]);
    let catalogue = lay(&config);
    let offered = catalogue.offered(&|provider| provider.id == "mine");
    let models: Vec<_> =
        offered.iter().flat_map(|(_, models)| models).map(|model| model.id.as_ref()).collect();
    assert_eq!(models, ["m"]);
}

/// What broke: a model in a protocol that is not spoken stood for its provider.
#[test]
fn only_a_model_that_can_be_spoken_to_stands_for_a_provider() {
    let catalogue = lay(&json!({"provider": {"mine": {"models": {
        "a": {"provider": {"npm": "unheard-of"}}, "b": {"status": "deprecated"}, "c": {"tool_call": false},
    }}}}));
    let check = |provider: &str, expected: Option<&str>| {
        let model = Catalogue::default_of(catalogue.provider(provider).unwrap());
        assert_eq!(model.map(|model| model.id.as_ref()), expected, "{provider}");
    };
    check("anthropic", Some("claude-sonnet-5"));
    check("amazon-bedrock", None);
    check("google-vertex-anthropic", None);
    check("mine", Some("b"));
}

#[test]
fn a_configured_provider_is_chosen_first() {
    let config = json!({"provider": {"mine": {
        "options": {"baseURL": "http://localhost:1/v1"},
        "models": {"small": {"limit": {"context": 8000}}, "large": {"limit": {"context": 200_000}}, "mute": {"tool_call": false}},
    }}});
    let catalogue = Catalogue::builtin().overlaid(config.as_object().unwrap()).unwrap();
    let found = catalogue.default_model(&set(&["ANTHROPIC_API_KEY"])).unwrap();
    assert_eq!(found.name(), "mine/large");
}

fn near(name: &str, expected: &[&str]) {
    let found = Catalogue::builtin().nearest(name);
    assert!(found.len() <= 5, "{found:?}");
    assert_eq!(
        found.iter().take(expected.len()).map(String::as_str).collect::<Vec<_>>(),
        expected,
        "{name}: {found:?}"
    );
}

#[test]
fn near_names_are_offered() {
    near("claude-sonet-5", &["anthropic/claude-sonnet-5"]);
    near("sonet", &["anthropic/claude-sonnet-5"]);
    near("anthropic/claude-sonet-5", &["anthropic/claude-sonnet-5"]);
    near("antropic/claude-sonnet-5", &["anthropic/claude-sonnet-5"]);
    near("openai/claude-sonnet-5", &["anthropic/claude-sonnet-5"]);
    near("openai/gpt5.6", &["openai/gpt-5.6"]);
    near("opus5", &["anthropic/claude-opus-5"]);
    near("claude-3-5-sonnet-20241022", &["anthropic/claude-sonnet-5"]);
    near("anthropic/claude-opus-5.5", &["anthropic/claude-opus-5-5"]);
    near("opus fast", &["anthropic/claude-opus-5-fast"]);
    near("openrouter/kimi-k3", &["openrouter/moonshotai/kimi-k3"]);
    // Many providers have the same models: each is offered once.
    let found = Catalogue::builtin().nearest("claude-sonnet");
    let models: BTreeSet<&str> = found.iter().filter_map(|name| name.rsplit('/').next()).collect();
    assert_eq!((found.len(), models.len()), (5, 5), "{found:?}");
    assert_eq!(Catalogue::builtin().nearest("zzzzzzzzzzzz"), Vec::<String>::new());
    assert_eq!(Catalogue::builtin().nearest(""), Vec::<String>::new());
}

#[test]
fn near_providers_are_offered() {
    let check = |name: &str, expected: &[&str]| {
        assert_eq!(Catalogue::builtin().nearest_providers(name), expected, "{name}");
    };
    check("grok", &["groq", "xai"]);
    check("antropic", &["anthropic", "google-vertex-anthropic"]);
    check("Claude", &["anthropic"]);
    check("open-ai", &["openai"]);
    check("gemini", &["google"]);
    check("bedrock", &["amazon-bedrock"]);
    check("copilot", &["github-copilot"]);
    check("hugging face", &["huggingface"]);
    check("together", &["togetherai"]);
    check("z.ai", &["zai"]);
    check("zzzzzzzzzzzz", &[]);
    check(" ", &[]);
}

/// Models of all kinds, with plain ids, with slashes and with colons, and not many: each name is compared with each of
/// them, which took minutes with the whole table.
static FEW: LazyLock<Catalogue> = LazyLock::new(|| {
    lay(&json!({"enabled_providers": ["openai", "groq", "amazon-bedrock", "ollama-cloud"]}))
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_taken_without_a_panic(
        // Longer than is looked at now and then: the effort grows with the words.
        name in prop_oneof![15 => "\\PC{0,24}", 1 => "\\PC{0,200}"],
        mark in "[a-z/:.\\-]{0,24}",
    ) {
        let catalogue = &*FEW;
        for name in [&name, &format!("openai/{mark}{name}"), &format!("{mark}:{name}")] {
            match catalogue.resolve(name, &|_| true) {
                Err(LookupError::Unknown { nearest, .. }) => prop_assert!(nearest.len() <= 5),
                _ => drop(catalogue.nearest(name)),
            }
        }
    }

    #[test]
    fn every_whole_name_means_its_model(place in 0..1807usize) {
        let catalogue = Catalogue::builtin();
        let (provider, model) = catalogue.models().nth(place).unwrap();
        let name = format!("{}/{}", provider.id, model.id);
        let found = catalogue.resolve(&name, &|_| false).unwrap();
        prop_assert_eq!((&found.provider.id, &found.model.id, found.variant), (&provider.id, &model.id, None));
    }
}
