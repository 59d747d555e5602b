//! Who is let in: token, host, origin, size, shape.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_testkit::http::HttpReply;
use serde_json::{Value, json};

use crate::support::{Face, TOKEN, basic, error};

async fn with(face: &Face, headers: &[(&str, &str)], path: &str) -> HttpReply {
    let client =
        headers.iter().fold(face.stranger(), |client, (name, value)| client.with_header(name, value));
    client.get(path).await
}

#[tokio::test]
async fn nothing_without_the_token() {
    let face = Face::start().await;
    for path in ["/session", "/global/health", "/event", "/global/event", "/config", "/nope", "/"] {
        let reply = face.stranger().get(path).await;
        assert_eq!(reply.status, 401, "{path}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Basic realm="), "{path}");
        assert_eq!(error(&reply.json()).0, "UnauthorizedError");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    for header in [
        basic("opencode", "wrong"),
        basic("other", TOKEN),
        basic("opencode", ""),
        "Bearer wrong".to_owned(),
        "Bearer".to_owned(),
        "Basic ???".to_owned(),
    ] {
        assert_eq!(with(&face, &[("authorization", &header)], "/session").await.status, 401, "{header}");
    }
    assert_eq!(face.stranger().get("/session?auth_token=b3BlbmNvZGU6d3Jvbmc%3D").await.status, 401);
}

#[tokio::test]
async fn the_token_in_three_ways() {
    let face = Face::start().await;
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(with(&face, &[("authorization", &basic("opencode", TOKEN))], "/session").await.status, 200);
    assert_eq!(with(&face, &[("authorization", &bearer)], "/session").await.status, 200);
    let query = STANDARD.encode(format!("opencode:{TOKEN}")).replace('=', "%3D");
    assert_eq!(face.stranger().get(&format!("/session?auth_token={query}")).await.status, 200);
}

#[tokio::test]
async fn another_name_for_the_server_is_refused() {
    let face = Face::start().await;
    let auth = basic("opencode", TOKEN);
    let reply = with(&face, &[("authorization", &auth), ("host", "evil.example")], "/session").await;
    assert_eq!(reply.status, 403);
    let (name, message) = (reply.json()["name"].clone(), reply.body.clone());
    assert_eq!(name, "ForbiddenError");
    assert!(message.contains("evil.example"), "{message}");
    let port = face.base.rsplit_once(':').unwrap().1;
    let named = format!("localhost:{port}");
    assert_eq!(with(&face, &[("authorization", &auth), ("host", &named)], "/session").await.status, 200);
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let face = Face::start().await;
    let auth = basic("opencode", TOKEN);
    for (origin, status) in [("https://evil.example", 403), ("null", 403), (face.base.as_str(), 200)] {
        let reply = with(&face, &[("authorization", &auth), ("origin", origin)], "/session").await;
        assert_eq!(reply.status, status, "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_named() {
    let face = Face::start().await;
    let id = face.session().await;
    let path = format!("/session/{id}/message");
    let cases = [
        (json!({"parts": [{"type": "text"}]}), "text"),
        (json!({"parts": [{"type": "video", "text": "x"}]}), "video"),
        (json!({"parts": []}), "at least one part"),
        (json!({}), "parts"),
        (json!({"messageID": "x", "parts": [{"type": "text", "text": "x"}]}), "msg_"),
        (json!({"agent": "nobody", "parts": [{"type": "text", "text": "x"}]}), "nobody"),
    ];
    for (body, named) in cases {
        let reply = face.client.post(&path, &body).await;
        assert_eq!(reply.status, 400, "{body}");
        let value = reply.json();
        assert_eq!(value["name"], "BadRequest", "{body}");
        assert!(error(&value).1.contains(named), "{body}: {}", reply.body);
    }
    for path in ["/session?limit=x", "/session?roots=maybe", "/session?directory=relative", "/session/nope"] {
        let reply = face.client.get(path).await;
        assert_eq!((reply.status, reply.json()["name"].as_str()), (400, Some("BadRequest")), "{path}");
    }
    // A header that is wrong was once called a query.
    let lost = face.client.clone().with_header("x-opencode-directory", "relative");
    let kind = |reply: &Value| reply["data"]["kind"].as_str().map(str::to_owned);
    assert_eq!(kind(&lost.get("/session").await.json()).as_deref(), Some("Headers"));
    assert_eq!(kind(&lost.get("/session?directory=relative").await.json()).as_deref(), Some("Query"));
    assert_eq!(lost.get("/session?directory=/").await.status, 200, "the query comes first");
}

#[tokio::test]
async fn what_is_not_there_is_said_as_json() {
    let face = Face::start().await;
    for path in ["/nope", "/api/session", "/session/ses_none", "/session/ses_none/message", "/file"] {
        let reply = face.client.get(path).await;
        assert_eq!((reply.status, reply.json()["name"].as_str()), (404, Some("NotFoundError")), "{path}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let reply = face.client.put("/session", &json!({})).await;
    assert_eq!((reply.status, reply.json()["name"].as_str()), (405, Some("MethodNotAllowedError")));
    let id = face.session().await;
    let missing = face.client.get(&format!("/session/{id}/message/msg_none")).await;
    assert_eq!((missing.status, missing.json()["name"].as_str()), (404, Some("NotFoundError")));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let face = Face::start().await;
    let id = face.session().await;
    let huge = "x".repeat(everturn_api::BODY_LIMIT + 1);
    let body = json!({"parts": [{"type": "text", "text": huge}]});
    let reply = face.client.post(&format!("/session/{id}/message"), &body).await;
    assert_eq!(reply.status, 413);
    assert!(error(&reply.json()).1.contains("32 MiB"));
}

#[tokio::test]
async fn absent_features_say_so() {
    let face = Face::start().await;
    let id = face.session().await;
    for route in ["share"] {
        let reply = face.client.post(&format!("/session/{id}/{route}"), &json!({})).await;
        assert_eq!(
            (reply.status, reply.json()["name"].as_str()),
            (501, Some("NotImplementedError")),
            "{route}"
        );
        assert_eq!(face.client.post(&format!("/session/ses_none/{route}"), &json!({})).await.status, 404);
    }
}
