//! What a step costs: the price of the tokens that it used, once, wherever it is shown and however it ends.

use std::time::Duration;

use everturn_engine::Prompt;
use everturn_model::entry::{Assistant, Body};
use everturn_model::part::PartKind;
use everturn_model::request::Reply;
use everturn_model::usage::Cache;
use everturn_model::{Event, Money, Tokens};
use everturn_testkit::hostile_provider::{HostileProvider, Malice};
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::limits::answers;
use crate::permission::ask;
use crate::turn::begun;

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

/// What tokens cost here, in a sum of its own.
fn price(tokens: &Tokens) -> Money {
    let nanos = 2_000 * tokens.input + 10_000 * (tokens.output + tokens.reasoning) + 500 * tokens.cache.read;
    Money::from_nanos(i64::try_from(nanos).unwrap())
}

/// The answers, whose costs are right, each by itself and in both sums of the session.
async fn checked(bench: &Bench) -> Vec<Assistant> {
    let answers = answers(bench).await;
    let mut sum = Money::ZERO;
    for answer in &answers {
        assert_eq!(answer.cost, price(&answer.tokens), "{answer:?}");
        sum += answer.cost;
    }
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert_eq!((session.cost, session.spent.cost), (sum, sum));
    answers
}

#[tokio::test]
async fn an_answer_that_does_not_get_to_its_end_costs_what_it_used() {
    // Twice the cost went unnoticed.
    let mut bench = priced().await;
    let prompt = Prompt::text("HOLD:x SAY:one two three");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.streamed("two ").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let stopped = checked(&bench).await.pop().unwrap();
    assert!(stopped.estimated && stopped.cost > Money::ZERO, "{stopped:?}");

    let bench = priced().await;
    bench.say("REFUSE USAGE:900,0,50,0 SAY:no").await;
    let filtered = checked(&bench).await.pop().unwrap();
    assert_eq!((filtered.cost, filtered.estimated), (Money::from_nanos(2_300_000), false));

    let bench = priced().await;
    bench.say("DROP:1x1 SAY:one two three").await;
    let both = checked(&bench).await;
    assert_eq!(both.iter().map(|answer| answer.estimated).collect::<Vec<_>>(), [true, false]);
    assert!(both[0].cost > Money::ZERO, "{both:?}");
}

/// Waits until it is in the log that the provider has said all that the answer used.
async fn counted(bench: &Bench) {
    let last = |event: &Event| matches!(event, Event::UsageReported { last: true, .. });
    within("the last count", async {
        loop {
            let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
            if log.iter().any(|record| last(&record.event)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_crash_while_a_call_runs_loses_nothing_of_what_was_counted_at_the_end() {
    // Chat Completions count at the end of the stream, and the step is closed when its calls are done.
    let used = Tokens {
        total: Some(1500),
        input: 400,
        output: 480,
        reasoning: 20,
        cache: Cache { read: 600, write: 0 },
    };
    let mut bench = priced().await;
    let prompt = "USAGE:1000,600,500,20\nTOOL:bash:echo begun; sleep 600\nSAY:done";
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(prompt)).await.unwrap();
    bench.notice(begun).await;
    counted(&bench).await;
    bench.restart().await;
    bench.settled().await;
    let of_running = checked(&bench).await;

    let mut bench = priced().await;
    let request = ask(&mut bench, "USAGE:1000,600,500,20\nTOOL:read:/etc/hostname\nSAY:done").await;
    counted(&bench).await;
    bench.restart().await;
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    for answers in [of_running, checked(&bench).await] {
        let said: Vec<_> =
            answers.iter().map(|answer| (answer.tokens, answer.cost, answer.estimated)).collect();
        assert_eq!(said, [(used, Money::from_nanos(6_100_000), false); 2]);
    }
}

#[tokio::test]
async fn a_model_that_is_configured_no_more_has_cost_what_it_said() {
    let provider = HostileProvider::start(Malice::Counts);
    let mut config = provider.config(&json!({}));
    config["provider"]["hostile"]["models"]["one"]["cost"] = json!({"input": 2, "output": 10});
    let mut bench = Bench::found(config, &[]).await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("hello")).await.unwrap();
    bench.streamed("two ").await;
    let file = bench.data().join("own.json");
    let mut own: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    own["provider"]["hostile"]["models"] = json!({"other": {}});
    (own["model"], own["small_model"]) = (json!("hostile/other"), json!("hostile/other"));
    std::fs::write(&file, own.to_string()).unwrap();
    bench.restart().await;
    bench.settled().await;
    let answer = answers(&bench).await.remove(0);
    // It had counted 900 and 1, of the first word.
    assert_eq!((answer.tokens.input, answer.tokens.output, answer.estimated), (900, 2, true));
    assert_eq!(answer.cost, Money::from_nanos(1_810_000));
}
