//! What a step costs: the price of the tokens that it used, once, wherever it is shown.

use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::usage::Cache;
use everturn_model::{Event, Money, Tokens};
use serde_json::json;

use crate::bench::Bench;

/// A bench whose model has a price.
async fn priced() -> Bench {
    Bench::at(|url| {
        let mut config = everturn_testkit::opencode_config(url);
        let model = &mut config["provider"]["fake"]["models"]["fake-1"];
        model["cost"] = json!({"input": 2, "output": 10, "cache_read": 0.5});
        json!({"provider": config["provider"]})
    })
    .await
}

#[tokio::test]
async fn a_step_costs_what_its_tokens_cost() {
    // A cost that was counted twice went unnoticed: no test had a model with a price.
    let bench = priced().await;
    bench.say("USAGE:1000,600,500,20\nTOOL:bash:echo hi\nSAY:done").await;
    let used = Tokens {
        total: Some(1500),
        input: 400,
        output: 480,
        reasoning: 20,
        cache: Cache { read: 600, write: 0 },
    };
    // 400 at 2 dollars for a million, 600 at half a dollar, 480 and 20 at 10.
    let price = Money::from_nanos(800_000 + 300_000 + 4_800_000 + 200_000);

    let mut answers = 0;
    for node in bench.nodes().await {
        let Body::Assistant(assistant) = &node.entry.body else { continue };
        answers += 1;
        assert_eq!((assistant.tokens, assistant.cost), (used, price), "answer {answers}");
        let finishes: Vec<(Tokens, Money)> = node
            .parts
            .iter()
            .filter_map(|part| match &part.kind {
                PartKind::StepFinish { tokens, cost, .. } => Some((*tokens, *cost)),
                _ => None,
            })
            .collect();
        assert_eq!(finishes, [(used, price)], "answer {answers}");
    }
    assert_eq!(answers, 2);

    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let ended: Vec<Money> = log
        .iter()
        .filter_map(|record| match &record.event {
            Event::StepEnded { cost, .. } => Some(*cost),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [price, price]);
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!(session.cost, Money::from_nanos(2 * 6_100_000));
    assert_eq!(session.tokens, used.plus(&used));
}
