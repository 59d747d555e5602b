//! How long the caller is told to wait.

use std::time::Duration;

use everturn_llm::Protocol;
use everturn_llm::retry::RetryPolicy;
use everturn_testkit::ModelServer;

use super::{PROTOCOLS, ask, check, failure};

/// Headers are the same everywhere, and go before what the body says.
#[tokio::test]
async fn in_headers() {
    for protocol in PROTOCOLS {
        check(
            protocol,
            &[
                ("ERR:429\nHEADER:retry-after=7", "rate limit 429, again after 7 s as advised"),
                ("ERR:429\nHEADER:retry-after=0", "rate limit 429, again after 0 s as advised"),
                ("ERR:429\nHEADER:retry-after-ms=250", "rate limit 429, again after 0.25 s as advised"),
                (
                    "ERR:429\nHEADER:retry-after=7\nHEADER:retry-after-ms=1500",
                    "rate limit 429, again after 1.5 s as advised",
                ),
                (
                    "ERR:429\nHEADER:retry-after=Wed, 21 Oct 2026 07:28:30 GMT\nHEADER:date=Wed, 21 Oct 2026 07:28:00 GMT",
                    "rate limit 429, again after 30 s as advised",
                ),
                (
                    "ERR:429\nHEADER:retry-after=Wed, 21 Oct 2026 07:28:30 GMT\nHEADER:date=Wed, 21 Oct 2026 09:00:00 GMT",
                    "rate limit 429, again after 0 s as advised",
                ),
                (
                    "ERR:429\nHEADER:retry-after=9\nERRTEXT:Please try again in 20s.",
                    "rate limit 429, again after 9 s as advised",
                ),
                ("ERR:429\nHEADER:retry-after=soon", "rate limit 429, again after 2 s"),
                ("ERR:503\nHEADER:retry-after=3", "overloaded 503, again after 3 s as advised"),
                ("ERR:500\nHEADER:retry-after=3", "server 500, again after 3 s as advised"),
                ("ERR:401\nHEADER:retry-after=3", "authentication 401, give up"),
                // No advice: when a window is all free again is not when the next request gets through.
                ("ERR:429\nHEADER:x-ratelimit-reset-tokens=6m0s", "rate limit 429, again after 2 s"),
            ],
        )
        .await;
    }
}

/// Where no header says it. A rate limit stays one although it advertises larger plans.
#[tokio::test]
async fn in_words() {
    check(
        Protocol::OpenAiChat,
        &[
            (
                "ERR:429 ERRTYPE:tokens ERRCODE:rate_limit_exceeded\nERRTEXT:Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.",
                "rate limit 429, again after 0.644 s as advised",
            ),
            (
                "ERR:429 ERRTYPE:requests\nERRTEXT:Rate limit reached for gpt-4. Limit: 3 / min. Please try again in 20s. Visit https://platform.openai.com/account/billing to add a payment method.",
                "rate limit 429, again after 20 s as advised",
            ),
            // Groq
            (
                "ERR:429 ERRTYPE:tokens ERRCODE:rate_limit_exceeded\nERRTEXT:Rate limit reached for model `m` on tokens per day (TPD): Limit 100000, Used 99336, Requested 1530. Please try again in 12m28.224s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
                "rate limit 429, again after 748.224 s as advised",
            ),
            ("ERR:429\nERRTEXT:Please try again in 6m0s.", "rate limit 429, again after 360 s as advised"),
            // Azure
            (
                "ERR:429 ERRCODE:429\nERRTEXT:Requests have exceeded token rate limit of your current pricing tier. Please retry after 26 seconds.",
                "rate limit 429, again after 26 s as advised",
            ),
        ],
    )
    .await;
}

/// Five tries in all, two seconds and then twice as long each time, a quarter more at most, never over half a minute.
#[tokio::test]
async fn without_advice() {
    let server = ModelServer::start();
    for protocol in PROTOCOLS {
        let error = failure(ask(server.base_url(), protocol, "ERR:500")).await;
        let policy = RetryPolicy::default();
        let pauses =
            |chance: f64| (1..=5).map(|failed| policy.delay(failed, &error, chance)).collect::<Vec<_>>();
        let seconds = |all: [f64; 4]| {
            all.map(|pause| Some(Duration::from_secs_f64(pause)))
                .into_iter()
                .chain([None])
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(0.0), seconds([2.0, 4.0, 8.0, 16.0]), "{protocol}");
        assert_eq!(pauses(1.0), seconds([2.5, 5.0, 10.0, 20.0]), "{protocol}");
        let long = RetryPolicy { tries: 9, ..policy };
        assert_eq!(long.delay(8, &error, 1.0), Some(Duration::from_secs(30)), "{protocol}");
        // Advice is taken as it is, also late and also beyond the cap.
        let error = failure(ask(server.base_url(), protocol, "ERR:500\nHEADER:retry-after=90")).await;
        let advised = Some(Duration::from_secs(90));
        assert_eq!(
            (1..=5).map(|failed| policy.delay(failed, &error, 1.0)).collect::<Vec<_>>(),
            [advised, advised, advised, advised, None]
        );
    }
}
