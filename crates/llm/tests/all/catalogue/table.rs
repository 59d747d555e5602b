//! The table of this build: that it is whole, and what it says about a few models.

use std::collections::BTreeMap;

use everturn_llm::catalogue::{
    Abilities, Catalogue, Modalities, ModelInfo, ModelStatus, Prices, Protocol, Rate, TokenLimits,
    TokenPrice, TokenPriceTier,
};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn price([input, output, cache_read, cache_write]: [&str; 4]) -> TokenPrice {
    TokenPrice {
        input: rate(input),
        output: rate(output),
        cache_read: rate(cache_read),
        cache_write: rate(cache_write),
    }
}

fn check(provider: &str, model: &str, expected: &ModelInfo) {
    let (_, found) = Catalogue::builtin().model(provider, model).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn the_table_has_all_rows() {
    let catalogue = Catalogue::builtin();
    assert_eq!(catalogue.as_of(), "2026-09");
    assert_eq!((catalogue.providers().count(), catalogue.models().count()), (29, 1807));
    let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
    let mut protocols: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, model) in catalogue.models() {
        *statuses.entry(model.status.as_str()).or_default() += 1;
        *protocols.entry(model.protocol().as_str()).or_default() += 1;
    }
    assert_eq!(statuses, BTreeMap::from([("active", 1657), ("beta", 16), ("deprecated", 134)]));
    let expected = [
        ("anthropic", 39),
        ("azure", 73),
        ("bedrock", 164),
        ("bedrock-mantle", 15),
        ("cohere", 13),
        ("gemini", 39),
        ("openai-chat", 1344),
        ("openai-responses", 69),
        ("vertex", 21),
        ("vertex-anthropic", 30),
    ];
    assert_eq!(protocols, BTreeMap::from(expected));
    let count = |is: fn(&ModelInfo) -> bool| catalogue.models().filter(|(_, model)| is(model)).count();
    assert_eq!(count(|model| model.family.is_none()), 119);
    assert_eq!(count(|model| model.limits.input.is_some()), 218);
    assert_eq!(count(|model| !model.prices.tiers.is_empty()), 212);
}

#[test]
fn every_row_is_whole() {
    for (provider, model) in Catalogue::builtin().models() {
        let name = format!("{}/{}", provider.id, model.id);
        assert!(!model.id.is_empty() && !model.name.is_empty() && model.released.len() >= 7, "{name}");
        assert_ne!(model.protocol(), Protocol::Unknown, "{name}");
        let addressed = model.base_url(provider).is_some() || !model.protocol().is_spoken();
        assert!(addressed, "nothing says where {name} is");
        assert!(model.prices.tiers.is_sorted_by_key(|tier| tier.above), "{name}");
    }
}

#[test]
fn the_file_is_sorted_so_that_it_can_be_compared() {
    let table = include_str!("../../../catalogue/models.tsv");
    let key = |line: &'static str| line.split('\t').next().unwrap();
    let providers: Vec<&str> =
        table.lines().skip(1).filter(|line| !line.starts_with('\t')).map(key).collect();
    assert!(providers.is_sorted(), "{providers:?}");
    let names = Catalogue::builtin().models().map(|(provider, model)| (&provider.id, &model.id));
    let mut current = "";
    let written = table.lines().skip(1).filter_map(|line| match line.strip_prefix('\t') {
        Some(model) => Some((current, key(model))),
        None => {
            current = key(line);
            None
        }
    });
    assert!(names.map(|(provider, model)| (provider.as_ref(), model.as_ref())).eq(written));
}

#[test]
fn tiers_and_input_limits_are_kept() {
    let expected = ModelInfo {
        id: "gpt-5.6".into(),
        wire: "gpt-5.6".into(),
        name: "GPT-5.6".into(),
        family: Some("gpt-sol".into()),
        package: "@ai-sdk/openai".into(),
        limits: TokenLimits { context: 1_050_000, input: Some(922_000), output: 128_000 },
        prices: Prices {
            base: price(["4", "20", "0.4", "5"]),
            tiers: vec![TokenPriceTier { above: 272_000, price: price(["8", "30", "0.8", "10"]) }],
        },
        abilities: Abilities {
            reasoning: true,
            attachment: true,
            tool_call: true,
            temperature: false,
            input: Modalities::from_words(["text", "image", "pdf"]).unwrap(),
            output: Modalities::TEXT,
        },
        status: ModelStatus::Active,
        released: "2026-07-09".into(),
        ..ModelInfo::default()
    };
    check("openai", "gpt-5.6", &expected);
}

#[test]
fn a_row_of_its_own_protocol_and_address_is_kept() {
    let expected = ModelInfo {
        id: "openai.gpt-5.4".into(),
        wire: "openai.gpt-5.4".into(),
        name: "GPT-5.4".into(),
        family: Some("gpt".into()),
        package: "@ai-sdk/amazon-bedrock/mantle".into(),
        base_url: Some("https://bedrock-mantle.${AWS_REGION}.api.aws/openai/v1".into()),
        limits: TokenLimits { context: 1_000_000, input: None, output: 128_000 },
        prices: Prices { base: price(["2.75", "16.5", "0.275", "0"]), tiers: Vec::new() },
        abilities: Abilities {
            reasoning: true,
            attachment: true,
            tool_call: true,
            temperature: true,
            input: Modalities::from_words(["text", "image", "pdf"]).unwrap(),
            output: Modalities::TEXT,
        },
        status: ModelStatus::Active,
        released: "2026-03-05".into(),
        ..ModelInfo::default()
    };
    check("amazon-bedrock", "openai.gpt-5.4", &expected);
}

#[test]
fn a_deprecated_row_inherits_the_address_of_its_provider() {
    let expected = ModelInfo {
        id: "deepseek-v4-flash".into(),
        wire: "deepseek-v4-flash".into(),
        name: "DeepSeek V4 Flash".into(),
        family: Some("deepseek-flash".into()),
        package: "@ai-sdk/openai-compatible".into(),
        base_url: Some("https://api.deepseek.com".into()),
        limits: TokenLimits { context: 1_000_000, input: None, output: 393_216 },
        prices: Prices { base: price(["0.15", "0.6", "0.003", "0"]), tiers: Vec::new() },
        abilities: Abilities {
            reasoning: true,
            attachment: true,
            tool_call: true,
            temperature: true,
            input: Modalities::from_words(["text", "image"]).unwrap(),
            output: Modalities::TEXT,
        },
        status: ModelStatus::Deprecated,
        released: "2026-09-10".into(),
        ..ModelInfo::default()
    };
    check("deepseek", "deepseek-v4-flash", &expected);
}

#[test]
fn well_known_services_have_addresses() {
    let check = |provider: &str, expected: &str| {
        let provider = Catalogue::builtin().provider(provider).unwrap();
        let model = provider.models.values().next().unwrap();
        assert_eq!(model.base_url(provider), Some(expected));
    };
    check("openai", "https://api.openai.com/v1");
    check("anthropic", "https://api.anthropic.com/v1");
    check("google", "https://generativelanguage.googleapis.com/v1beta");
    check("openrouter", "https://openrouter.ai/api/v1");
    check("groq", "https://api.groq.com/openai/v1");
    check("deepseek", "https://api.deepseek.com");
    check("xai", "https://api.x.ai/v1");
    check("mistral", "https://api.mistral.ai/v1");
    check("lmstudio", "http://127.0.0.1:1234/v1");
    check("vercel", "https://ai-gateway.vercel.sh/v1");
}
