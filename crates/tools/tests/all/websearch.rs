//! Searching the web through a service that is a local server here.

use std::time::{Duration, Instant};

use everturn_tools::websearch::{SearchService, WebsearchTool};
use everturn_tools::{Failure, Output, Registry, Tool as _, ToolSettings};
use serde_json::{Value, json};

use crate::harness::Project;
use crate::server::{Answer, Server, Tail};

const KEY: &str = "exa-secret-4711";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn exa(server: &Server) -> SearchService {
    SearchService::Exa { key: KEY.to_owned(), url: server.url("").parse().unwrap() }
}

fn searxng(server: &Server) -> SearchService {
    SearchService::Searxng { url: server.url("/searx/").parse().unwrap() }
}

async fn search(provider: SearchService, input: Value) -> Result<Output, Failure> {
    let started = Instant::now();
    let result = Project::new().run(&WebsearchTool::new(provider), input).await;
    assert!(started.elapsed() < Duration::from_secs(20));
    result
}

#[tokio::test]
async fn exa_is_asked_with_its_key() {
    let answer = json!({ "requestId": "r", "results": [
        { "title": "One\n page", "url": "https://one.example/", "text": "  First text\nof one ", "score": 0.5 },
        { "title": null, "url": "https://two.example/" },
        { "title": "no address" },
        { "title": "Three", "url": "https://three.example/", "text": "x".repeat(50_000) },
    ] });
    let server = Server::start(move |_| Answer::new(200, &JSON, answer.to_string())).await;
    let output = search(exa(&server), json!({ "query": "a \"b\"", "numResults": 10 })).await.unwrap();
    assert_eq!(
        output,
        Output {
            title: "a \"b\"".to_owned(),
            output: format!(
                "1. One page\nhttps://one.example/\nFirst text\nof one\n\n2. (no title)\nhttps://two.example/\n\n\
                 3. Three\nhttps://three.example/\n{}",
                "x".repeat(4000)
            ),
            metadata: json!({ "provider": "Exa", "count": 3 }).as_object().unwrap().clone(),
            ..Output::default()
        }
    );
    let request = server.requests().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /search HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("x-api-key: {KEY}")), "{head}");
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({ "query": "a \"b\"", "numResults": 10, "contents": { "text": { "maxCharacters": 4000 } } })
    );
}

#[tokio::test]
async fn searxng_is_asked_by_address() {
    let results: Vec<Value> = (0..30)
        .map(|n| json!({ "title": format!("T{n}"), "url": format!("https://{n}.example/"), "content": "c", "engine": "e" }))
        .collect();
    let server =
        Server::start(move |_| Answer::new(200, &JSON, json!({ "results": results }).to_string())).await;
    let output = search(searxng(&server), json!({ "query": "a&b c" })).await.unwrap();
    assert_eq!(output.metadata["count"], 8);
    assert!(output.output.starts_with("1. T0\nhttps://0.example/\nc\n\n2. T1\n"), "{}", output.output);
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /searx/search?q=a%26b+c&format=json HTTP/1.1\r\n"), "{request}");
    let server = Server::start(|_| Answer::new(200, &JSON, "{\"results\": []}")).await;
    assert_eq!(search(searxng(&server), json!({ "query": "a" })).await.unwrap().output, "No results found");
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_the_key() {
    let server = Server::start(|path| match path {
        "/denied/search" => Answer::new(401, &JSON, format!("{{\"error\": \"bad key {KEY}\"}}")),
        "/busy/search" => Answer::new(429, &[], ""),
        "/moved/search" => Answer::redirect("https://elsewhere.example/"),
        "/huge/search" => Answer::new(200, &JSON, "x".repeat(256 * 1024 + 1)),
        "/endless/search" => Answer::head(200, &JSON).then(Tail::Repeat(b"[[[[[[[[[[[[[[[[")),
        "/nonsense/search" => Answer::new(200, &JSON, "<html>"),
        "/deep/search" => Answer::new(200, &JSON, "[".repeat(200_000)),
        "/echo/search" => {
            Answer::new(200, &JSON, format!("{{\"results\": [{{\"title\": \"{KEY}\", \"url\": \"u\"}}]}}"))
        }
        _ => Answer(Vec::new(), Tail::Hang),
    })
    .await;
    let at = |path: &str| SearchService::Exa { key: KEY.to_owned(), url: server.url(path).parse().unwrap() };
    for (path, reason) in [
        (
            "/denied",
            "Exa answered 401 Unauthorized. Tell the person to check the service's key.\n\n{\"error\": \"bad key ***\"}",
        ),
        ("/busy", "Too many searches"),
        ("/moved", "Exa answered 302 Found."),
        ("/huge", "more than 262144 bytes"),
        ("/endless", "more than 262144 bytes"),
        ("/nonsense", "is not what was expected"),
        ("/deep", "is not what was expected"),
    ] {
        let text = search(at(path), json!({ "query": "a" })).await.unwrap_err().to_string();
        assert!(text.contains(reason), "{path}: {text}");
        assert!(!text.contains(KEY), "{path}: {text}");
    }
    let output = search(at("/echo"), json!({ "query": "a" })).await.unwrap();
    assert_eq!(output.output, "1. ***\nu");
    assert!(!format!("{:?}", WebsearchTool::new(at("/x"))).contains(KEY));
    let mut hasty = WebsearchTool::new(at("/silent"));
    hasty.patience = Duration::from_millis(200);
    let text = Project::new().run(&hasty, json!({ "query": "a" })).await.unwrap_err().to_string();
    assert!(text.contains("did not answer within 0.2 s"), "{text}");
    for input in [
        json!({ "query": " " }),
        json!({ "query": "a", "numResults": 0 }),
        json!({ "query": "a", "numResults": 21 }),
    ] {
        assert!(matches!(search(at("/echo"), input).await, Err(Failure::InvalidInput(_))));
    }
}

#[tokio::test]
async fn a_search_can_be_cancelled() {
    let server = Server::start(|_| Answer(Vec::new(), Tail::Hang)).await;
    let (context, _reports) = Project::new().context();
    let cancel = context.cancel.clone();
    let tool = WebsearchTool::new(exa(&server));
    let call = tool.run(json!({ "query": "a" }), context);
    let (result, ()) = tokio::join!(call, async {
        server.asked().await;
        cancel.cancel();
    });
    assert_eq!(result.unwrap_err(), Failure::Cancelled);
}

#[test]
fn the_tool_exists_where_a_service_is_configured() {
    let none = |_: &str| None;
    let key = |name: &str| (name == "EXA_API_KEY").then(|| format!(" {KEY}\n"));
    let exa = |url: &str| SearchService::Exa { key: KEY.to_owned(), url: url.parse().unwrap() };
    let config = |value: Value| json!({ "model": "m", "websearch": value });
    assert_eq!(SearchService::from_config(&json!({}), none).unwrap(), None);
    assert_eq!(SearchService::from_config(&json!({}), key).unwrap(), Some(exa("https://api.exa.ai")));
    assert_eq!(SearchService::from_config(&json!({}), |_| Some(String::new())).unwrap(), None);
    assert_eq!(SearchService::from_config(&config(json!(false)), key).unwrap(), None);
    assert_eq!(
        SearchService::from_config(
            &config(json!({ "provider": "exa", "key": KEY, "url": "http://x:1" })),
            none
        )
        .unwrap(),
        Some(exa("http://x:1"))
    );
    assert_eq!(
        SearchService::from_config(&config(json!({ "provider": "exa" })), key).unwrap(),
        Some(exa("https://api.exa.ai"))
    );
    let searxng = SearchService::Searxng { url: "http://localhost:8888/".parse().unwrap() };
    let given = config(json!({ "provider": "searxng", "url": "http://localhost:8888" }));
    assert_eq!(SearchService::from_config(&given, key).unwrap(), Some(searxng.clone()));
    for (wrong, reason) in [
        (json!({ "provider": "exa" }), "exa needs a key: set `key` or EXA_API_KEY"),
        (json!({ "provider": "searxng" }), "searxng needs the `url` of an instance"),
        (json!({ "provider": "searxng", "url": "localhost:8888" }), "must be an address"),
        (json!({ "provider": "bing" }), "there is no provider \"bing\""),
        (json!({ "provider": 1, "key": KEY }), "expected"),
        (json!({ "provider": "exa", "key": [KEY] }), "expected"),
        (json!(KEY), "expected"),
    ] {
        let error = SearchService::from_config(&config(wrong), none).unwrap_err().to_string();
        assert!(error.contains(reason) && !error.contains(KEY), "{error}");
    }
    assert!(Registry::builtin(&ToolSettings::default()).get("websearch").is_none());
    let registry = Registry::builtin(&ToolSettings { websearch: Some(searxng), ..ToolSettings::default() });
    let tool = registry.get("websearch").unwrap();
    let needs = tool.needs(&json!({ "query": "a b" }), &Project::new().scope).unwrap();
    assert_eq!(
        serde_json::to_value(needs).unwrap(),
        json!([{
            "permission": "websearch",
            "patterns": ["a b"],
            "always": ["*"],
            "metadata": { "query": "a b", "numResults": 8, "provider": "SearXNG" },
        }])
    );
}
