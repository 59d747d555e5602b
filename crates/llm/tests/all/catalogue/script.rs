//! The script that makes the table: from JSON to the table to the same facts.

use std::process::{Command, Output};

use everturn_llm::catalogue::{
    Abilities, Catalogue, Modalities, ModelInfo, ModelStatus, Prices, Rate, TokenLimits, TokenPrice,
    TokenPriceTier,
};

fn run(json: &std::path::Path) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue/make.py");
    Command::new("python3").arg(script).arg(json).output().expect("python3")
}

fn sample() -> String {
    let json = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/catalogue/sample.json");
    let output = run(json.as_ref());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn writes_sorted_lines() {
    let expected = [
        "catalogue\t1\t2030-01",
        "alpha\tAlpha",
        "zeta\tZeta\tZETA_REGION,ZETA_API_KEY\t@ai-sdk/openai-compatible\thttps://zeta.example/v1",
        "\tone\tEins\t\tat\t0\t\t0\t0/0 >200000:1/2\ttext\t\t2029-11-30",
        "\tthree\tDrei\t\t\t1\t\t1\t0/0\t\t\t2029\t@ai-sdk/anthropic",
        "\tz/two\tZwei\tz\trc\t1000\t600\t400\t1.5/0.025/0.0000001 >100:3/4/0/2 >500:9/8/7/6\ttext,pdf\tdeprecated\t2029-12",
        "",
    ];
    assert_eq!(sample(), expected.join("\n"));
}

#[test]
fn what_it_writes_is_read_as_it_was_meant() {
    let catalogue = Catalogue::from_table(Box::leak(sample().into_boxed_str())).unwrap();
    let price = |[input, output, cache_read, cache_write]: [u64; 4]| TokenPrice {
        input: Rate::from_nanos(input),
        output: Rate::from_nanos(output),
        cache_read: Rate::from_nanos(cache_read),
        cache_write: Rate::from_nanos(cache_write),
    };
    let dollars = |amounts: [u64; 4]| price(amounts.map(|amount| amount * 1_000_000_000));
    let expected = ModelInfo {
        id: "z/two".into(),
        wire: "z/two".into(),
        name: "Zwei".into(),
        family: Some("z".into()),
        package: "@ai-sdk/openai-compatible".into(),
        base_url: Some("https://zeta.example/v1".into()),
        limits: TokenLimits { context: 1000, input: Some(600), output: 400 },
        prices: Prices {
            base: price([1_500_000_000, 25_000_000, 100, 0]),
            tiers: vec![
                TokenPriceTier { above: 100, price: dollars([3, 4, 0, 2]) },
                TokenPriceTier { above: 500, price: dollars([9, 8, 7, 6]) },
            ],
        },
        abilities: Abilities {
            reasoning: true,
            attachment: false,
            tool_call: true,
            temperature: false,
            input: Modalities::from_words(["text", "pdf"]).unwrap(),
            output: Modalities::TEXT,
        },
        status: ModelStatus::Deprecated,
        released: "2029-12".into(),
        ..ModelInfo::default()
    };
    let (provider, model) = catalogue.model("zeta", "z/two").unwrap();
    assert_eq!(model, &expected);
    assert_eq!(provider.key_variables().collect::<Vec<_>>(), ["ZETA_API_KEY"]);
    let (_, three) = catalogue.model("zeta", "three").unwrap();
    assert_eq!((three.package.as_ref(), three.base_url.as_deref()), ("@ai-sdk/anthropic", None));
}

#[test]
fn refuses_what_the_table_cannot_hold() {
    let check = |change: (&str, &str), expected: &str| {
        let json = include_str!("sample.json").replace(change.0, change.1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("changed.json");
        std::fs::write(&path, json).unwrap();
        let output = run(&path);
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).trim()),
            (Some(1), expected)
        );
    };
    check(("\"Zwei\"", "\"Z\\tw\""), "make.py: 'Z\\tw' has a tab or a line break in it");
    check(("\"id\": \"one\"", "\"id\": \"three\""), "make.py: model zeta/three is there twice");
    check(
        ("\"deprecated\"", "\"lost\""),
        "make.py: 'lost' is none of active, beta, alpha, deprecated: teach src/catalogue about it first",
    );
}
