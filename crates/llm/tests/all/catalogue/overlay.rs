//! A configuration laid over the table.

use everturn_llm::catalogue::overlay::OverlayError;
use everturn_llm::catalogue::{
    Abilities, Catalogue, ConnectError, Modalities, ModelInfo, ModelStatus, Prices, Protocol, ProviderInfo,
    Rate, TokenLimits, TokenPrice, TokenPriceTier, Variant,
};
use everturn_llm::{Effort, Reasoning, Secret};
use serde_json::{Value, json};

use super::set;

fn lay(config: &Value) -> Result<Catalogue, OverlayError> {
    Catalogue::builtin().overlaid(config.as_object().unwrap())
}

fn dollars(text: &str) -> Rate {
    text.parse().unwrap()
}

#[test]
fn an_empty_configuration_changes_nothing() {
    assert_eq!(lay(&json!({})).as_ref(), Ok(Catalogue::builtin()));
    assert_eq!(lay(&json!({"provider": {}, "model": 7, "theme": null})).as_ref(), Ok(Catalogue::builtin()));
}

#[test]
fn providers_and_models_are_added() {
    let config = json!({"provider": {"mine": {
        "name": "My server",
        "env": ["MY_KEY"],
        "options": {"baseURL": "http://x/v1", "apiKey": " sk-secret-1 ", "headers": {"x-a": "sk-secret-2"},
            "timeout": 5, "proxy": {"password": "sk-secret-4"}},
        "models": {"big/one": {
            "id": "one-v2",
            "name": "One",
            "family": "ones",
            "release_date": "2030-01-01",
            "limit": {"context": 1000, "input": 900, "output": 100.0},
            "cost": {"input": 3, "output": 15.5, "cache_read": 0.3, "context_over_200k": {"input": 6}},
            "reasoning": true, "attachment": true, "tool_call": false, "temperature": true,
            "modalities": {"input": ["text", "image"], "output": ["text", "audio"]},
            "status": "beta",
            "headers": {"x-b": "sk-secret-3"},
            "options": {"seed": 1, "token": "sk-secret-5", "reasoningEffort": "high", "textVerbosity": "low", "reasoningSummary": "auto"},
            "variants": {
                "high": {"disabled": true},
                "low": {"reasoningEffort": "minimal", "token": "sk-secret-6"},
                "deep": {"thinking": {"type": "enabled", "budgetTokens": 9000}},
            },
        }},
    }}});
    let catalogue = lay(&config).unwrap();
    let price = TokenPrice {
        input: dollars("3"),
        output: dollars("15.5"),
        cache_read: dollars("0.3"),
        cache_write: Rate::FREE,
    };
    let effort = |name: &'static str, effort| Variant {
        name: name.into(),
        reasoning: Reasoning { effort: Some(effort), budget: None },
        options: serde_json::Map::new(),
    };
    let mut low = effort("low", Effort::Minimal);
    low.options.insert("token".into(), "sk-secret-6".into());
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 9000}});
    let deep = Variant {
        name: "deep".into(),
        reasoning: Reasoning { effort: None, budget: Some(9000) },
        options: thinking.as_object().cloned().unwrap(),
    };
    let model = ModelInfo {
        id: "big/one".into(),
        wire: "one-v2".into(),
        name: "One".into(),
        family: Some("ones".into()),
        package: "@ai-sdk/openai-compatible".into(),
        base_url: None,
        limits: TokenLimits { context: 1000, input: Some(900), output: 100 },
        prices: Prices {
            base: price,
            tiers: vec![TokenPriceTier {
                above: 200_000,
                price: TokenPrice { input: dollars("6"), ..price },
            }],
        },
        abilities: Abilities {
            reasoning: true,
            attachment: true,
            tool_call: false,
            temperature: true,
            input: Modalities::from_words(["text", "image"]).unwrap(),
            output: Modalities::from_words(["text", "audio"]).unwrap(),
        },
        status: ModelStatus::Beta,
        released: "2030-01-01".into(),
        own_variants: Some(vec![low, effort("medium", Effort::Medium), deep]),
        headers: vec![("x-b".into(), "sk-secret-3".into())],
        reasoning: Reasoning { effort: Some(Effort::High), budget: None },
        options: json!({"seed": 1, "token": "sk-secret-5", "verbosity": "low"}).as_object().cloned().unwrap(),
    };
    let provider = ProviderInfo {
        id: "mine".into(),
        name: "My server".into(),
        env: vec!["MY_KEY".into()],
        package: "@ai-sdk/openai-compatible".into(),
        base_url: Some("http://x/v1".into()),
        key: Some("sk-secret-1".into()),
        headers: vec![("x-a".into(), "sk-secret-2".into())],
        options: json!({"timeout": 5, "proxy": {"password": "sk-secret-4"}}).as_object().cloned().unwrap(),
        configured: true,
        open: true,
        models: [("big/one".into(), model)].into(),
    };
    assert_eq!(catalogue.provider("mine"), Some(&provider));
    let shown = format!("{catalogue:?}");
    assert!(!shown.contains("sk-secret"), "a key is in the Debug text");
    // Names tell what was configured.
    for name in ["x-a", "x-b", "proxy", "token"] {
        assert!(shown.contains(name), "{name}");
    }
    let setting = format!("{:?}", catalogue.model("mine", "big/one").unwrap().1.setting(None));
    let expected = "Setting { reasoning: Reasoning { effort: Some(High), budget: None }, options: {\"seed\", \"token\", \"verbosity\"} }";
    assert_eq!(setting, expected);

    let found = catalogue.resolve("mine/big/one:deep", &set(&[])).unwrap();
    let endpoint = found.endpoint(Some(Secret::from("k")), &|_| None).unwrap();
    assert_eq!((endpoint.base_url.as_str(), endpoint.api_key), ("http://x/v1", Some("k".into())));
    assert_eq!(
        endpoint.headers,
        [("x-a".into(), "sk-secret-2".into()), ("x-b".into(), "sk-secret-3".into())]
    );
}

#[test]
fn known_models_are_changed_field_by_field() {
    let check = |fields: Value, change: fn(&mut ModelInfo)| {
        let catalogue = lay(&json!({"provider": {"openai": {"models": {"gpt-5.6": fields}}}})).unwrap();
        let mut expected = Catalogue::builtin().model("openai", "gpt-5.6").unwrap().1.clone();
        change(&mut expected);
        assert_eq!(catalogue.model("openai", "gpt-5.6").unwrap().1, &expected);
    };
    check(json!({}), |_| {});
    check(json!({"name": "X", "limit": null}), |model| model.name = "X".into());
    check(json!({"limit": {"output": 5}}), |model| model.limits.output = 5);
    check(json!({"cost": {"cache_read": 1}}), |model| {
        model.prices.base.cache_read = Rate::from_nanos(1_000_000_000);
    });
    check(json!({"cost": {"input": 1}}), |model| {
        model.prices.base.input = Rate::from_nanos(1_000_000_000);
        model.prices.tiers.clear();
    });
    check(json!({"cost": {"tiers": [{"tier": {"type": "context", "size": 9}, "input": 0}]}}), |model| {
        let price = TokenPrice { input: Rate::FREE, ..model.prices.base };
        model.prices.tiers = vec![TokenPriceTier { above: 9, price }];
    });
    check(json!({"provider": {"npm": "@ai-sdk/anthropic", "api": "http://y"}}), |model| {
        model.package = "@ai-sdk/anthropic".into();
        model.base_url = Some("http://y".into());
    });
}

/// What broke: such a model had no limits, no price and no reasoning.
#[test]
fn an_alias_starts_from_the_model_it_stands_for() {
    let check = |provider: &str, models: Value, id: &str, of: Option<&str>, change: fn(&mut ModelInfo)| {
        let catalogue = lay(&json!({"provider": {provider: {"models": models}}})).unwrap();
        let known = of.map(|of| catalogue.model(provider, of).unwrap().1.clone());
        let mut expected = known.unwrap_or_else(|| catalogue.provider(provider).unwrap().undescribed(id));
        expected.id = id.to_owned().into();
        expected.name = expected.id.clone();
        change(&mut expected);
        assert_eq!(catalogue.model(provider, id).unwrap().1, &expected);
    };
    let sonnet = "claude-sonnet-4-5";
    check("anthropic", json!({"mine": {"id": sonnet}}), "mine", Some(sonnet), |_| {});
    check("anthropic", json!({"mine": {"id": sonnet, "name": "N"}}), "mine", Some(sonnet), |model| {
        model.name = "N".into();
    });
    // What the configuration says of the model itself counts too, wherever it stands.
    let limit = json!({"mine": {"id": sonnet}, sonnet: {"limit": {"output": 7}}});
    check("anthropic", limit, "mine", Some(sonnet), |model| assert_eq!(model.limits.output, 7));
    // A known model under another name on the wire stays what it is.
    check(
        "anthropic",
        json!({"claude-opus-5": {"id": "arn:x"}}),
        "claude-opus-5",
        Some("claude-opus-5"),
        |model| {
            let known = Catalogue::builtin().model("anthropic", "claude-opus-5").unwrap().1;
            (model.wire, model.name) = ("arn:x".into(), known.name.clone());
        },
    );
    check("own", json!({"mine": {"id": sonnet}}), "mine", None, |model| {
        model.wire = "claude-sonnet-4-5".into();
    });
}

#[test]
fn both_names_of_the_greatest_effort_are_understood() {
    let check = |variants: Value, expected: &[&str]| {
        let models = json!({"gpt-5.6": {"variants": variants}});
        let catalogue = lay(&json!({"provider": {"openai": {"models": models}}})).unwrap();
        let variants = catalogue.model("openai", "gpt-5.6").unwrap().1.variants();
        assert_eq!(variants.iter().map(|variant| variant.name.as_ref()).collect::<Vec<_>>(), expected);
    };
    check(json!({"xhigh": {"disabled": true}}), &["none", "low", "medium", "high"]);
    check(json!({"xhigh": {"reasoningEffort": "xhigh"}}), &["none", "low", "medium", "high", "xhigh"]);
    check(
        json!({"xhigh": {"reasoningEffort": "xhigh"}, "max": {"reasoningEffort": "max"}}),
        &["none", "low", "medium", "high", "max", "xhigh"],
    );
}

#[test]
fn an_address_of_a_provider_is_that_of_its_models() {
    let catalogue = lay(&json!({"provider": {
        "deepseek": {"options": {"baseURL": "http://proxy/v1"}},
        "zai": {"npm": "@ai-sdk/anthropic", "options": {"baseURL": ""}},
    }}))
    .unwrap();
    let (provider, model) = catalogue.model("deepseek", "deepseek-v4-pro").unwrap();
    assert_eq!(model.base_url(provider), Some("http://proxy/v1"));
    let (provider, model) = catalogue.model("zai", "glm-5.3").unwrap();
    assert_eq!(
        (model.protocol(), model.base_url(provider)),
        (Protocol::Anthropic, Some("https://api.z.ai/api/paas/v4"))
    );
}

#[test]
fn providers_and_models_are_left_out() {
    let ids = |config: Value| {
        let catalogue = lay(&config).unwrap();
        let names =
            catalogue.models().filter(|(provider, _)| provider.id == "cerebras" || provider.id == "xai");
        names.map(|(_, model)| model.id.clone().into_owned()).collect::<Vec<_>>()
    };
    let only = json!({"cerebras": {"whitelist": ["gpt-oss-120b"]}});
    assert_eq!(ids(json!({"provider": only, "disabled_providers": ["xai"]})), ["gpt-oss-120b"]);
    let but = json!({"cerebras": {"blacklist": ["gpt-oss-120b"]}});
    assert_eq!(ids(json!({"provider": but, "enabled_providers": ["cerebras"]})), ["qwen-3.8-27b"]);
}

#[test]
fn settings_of_the_wrong_kind_are_refused_without_showing_them() {
    let check = |config: Value, expected: &str| {
        let error = lay(&config).unwrap_err().to_string();
        let (path, rest) = expected.split_once(' ').unwrap();
        assert_eq!(error, format!("`{path}` in the configuration {rest}: correct it or remove it"));
    };
    let model = |fields: Value| json!({"provider": {"p": {"models": {"m": fields}}}});
    check(json!({"provider": []}), "provider must be an object, not this list");
    check(json!({"provider": {"p": 1}}), "provider.p must be an object, not this number");
    check(
        json!({"provider": {"p": {"options": {"apiKey": ["sk-secret"]}}}}),
        "provider.p.options.apiKey must be a text, not this list",
    );
    check(
        json!({"provider": {"p": {"options": {"headers": {"x": 1}}}}}),
        "provider.p.options.headers.x must be a text, not this number",
    );
    check(
        model(json!({"limit": {"context": "big"}})),
        "provider.p.models.m.limit.context must be a whole number, not this text",
    );
    check(
        model(json!({"limit": {"context": 1.5}})),
        "provider.p.models.m.limit.context must be a whole number, not this number",
    );
    check(
        model(json!({"cost": {"input": -1}})),
        "provider.p.models.m.cost.input must be dollars for a million tokens, not this number",
    );
    check(
        model(json!({"cost": {"tiers": [{"input": 1}]}})),
        "provider.p.models.m.cost.tiers.0.tier.size must be a whole number, not missing",
    );
    check(
        model(json!({"modalities": {"input": ["smell"]}})),
        "provider.p.models.m.modalities.input must be a list of text, audio, image, video and pdf, not this list",
    );
    check(
        json!({"disabled_providers": "openai"}),
        "disabled_providers must be a list of texts, not this text",
    );
}

#[test]
fn models_that_cannot_be_reached_say_why() {
    let check = |name: &str, config: Value, expected: ConnectError, text: &str| {
        let catalogue = lay(&config).unwrap();
        let error = catalogue.resolve(name, &set(&[])).unwrap().endpoint(None, &|_| None).unwrap_err();
        assert_eq!(format!("{error:?}"), format!("{expected:?}"));
        assert_eq!(error.to_string(), text);
    };
    check(
        "azure/gpt-5.4",
        json!({}),
        ConnectError::Protocol {
            model: "azure/gpt-5.4".into(),
            package: "@ai-sdk/azure".into(),
            protocol: Protocol::Azure,
        },
        "azure/gpt-5.4 speaks the protocol of @ai-sdk/azure (azure), which this version does not speak: choose another model or a provider that offers this one through another protocol",
    );
    check(
        "p/m",
        json!({"provider": {"p": {"models": {"m": {}}}}}),
        ConnectError::NoAddress { provider: "p".into() },
        "nothing says where provider p is: set `provider.p.options.baseURL` in the configuration",
    );
    let address = "https://${AZURE_RESOURCE_NAME}.services.ai.azure.com/anthropic/v1";
    check(
        "azure/claude-sonnet-5",
        json!({}),
        ConnectError::Address(everturn_llm::catalogue::AddressError {
            address: address.into(),
            variable: "AZURE_RESOURCE_NAME".into(),
        }),
        "the address https://${AZURE_RESOURCE_NAME}.services.ai.azure.com/anthropic/v1 needs the environment variable AZURE_RESOURCE_NAME, which is not set: set it, or give the provider a `baseURL` in the configuration",
    );
}
