//! Connections: strangers take nothing from whoever has the token, and streams go on for as long as they are read.

use std::time::{Duration, Instant};

use everturn_api::ConnectionLimits;
use everturn_testkit::within;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Face, basic};

const SHORT: ConnectionLimits = ConnectionLimits {
    count: 8,
    stranger_time: Duration::from_millis(300),
    idle_time: Duration::from_millis(300),
};

async fn connect(face: &Face) -> TcpStream {
    TcpStream::connect(face.base.strip_prefix("http://").unwrap()).await.unwrap()
}

/// What a connection is sent until it is closed.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // One that is closed with something unread is reset.
    let _ = within("the connection to be closed", stream.read_to_end(&mut said)).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn the_oldest_strangers_make_room() {
    let patient = Duration::from_secs(600);
    let face = Face::bounded(ConnectionLimits { stranger_time: patient, idle_time: patient, ..SHORT }).await;
    let mut events = face.client.events("/event").await;
    events.wait_for_type("server.connected").await;
    let mut strangers = Vec::new();
    for _ in 0..40 {
        strangers.push(connect(&face).await);
        face.client.get("/session").await.ok();
    }
    // All but the newest few had to leave.
    for stranger in strangers.drain(..30) {
        assert_eq!(until_closed(stranger).await, "");
    }
    // Whoever was let in stays, with a stream or without.
    let id = face.session().await;
    assert_eq!(events.wait_for_type("session.created").await["properties"]["info"]["id"], json!(id));
}

#[tokio::test]
async fn strangers_and_slow_headers_have_little_time_and_streams_have_any() {
    let face = Face::bounded(SHORT).await;
    let mut events = face.client.events("/event").await;
    events.wait_for_type("server.connected").await;
    let (silent, mut slow) = (connect(&face).await, connect(&face).await);
    slow.write_all(b"GET /session HTTP/1.1\r\nHost: ").await.unwrap();
    assert_eq!((until_closed(silent).await, until_closed(slow).await), (String::new(), String::new()));
    // One that was let in and asks for nothing more.
    let mut known = connect(&face).await;
    let host = face.base.strip_prefix("http://").unwrap();
    let authorization = basic("opencode", crate::support::TOKEN);
    let request =
        format!("GET /global/health HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\n\r\n");
    known.write_all(request.as_bytes()).await.unwrap();
    assert!(until_closed(known).await.starts_with("HTTP/1.1 200"));
    // Both times are over, and the stream is still read.
    let id = face.session().await;
    assert_eq!(events.wait_for_type("session.created").await["properties"]["info"]["id"], json!(id));
}

#[tokio::test]
async fn the_token_is_asked_for_before_the_body_comes() {
    let face = Face::start().await;
    let mut stream = connect(&face).await;
    let host = face.base.strip_prefix("http://").unwrap();
    let head = format!(
        "POST /session HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(until_closed(stream).await.starts_with("HTTP/1.1 401"));
}

#[tokio::test]
async fn headers_are_bounded() {
    let face = Face::start().await;
    let long = "x".repeat(64 * 1024);
    let reply = face.client.clone().with_header("x-long", &long).get("/session").await;
    assert_eq!(reply.status, 431);
}

#[tokio::test]
async fn wrong_tokens_are_slowed_down_and_the_right_one_is_not() {
    let face = Face::start().await;
    let guess = face.stranger().with_header("authorization", &basic("opencode", "wrong"));
    for _ in 0..10 {
        assert_eq!(guess.get("/session").await.status, 401);
    }
    let begun = Instant::now();
    let refused = guess.get("/session").await;
    assert_eq!((refused.status, refused.json()["name"].as_str()), (429, Some("TooManyRequestsError")));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // Without any token there is nothing to guess, and with the right one nobody waits.
    assert_eq!(face.stranger().get("/session").await.status, 401);
    face.client.get("/session").await.ok();
}

#[tokio::test]
async fn whoever_guesses_loses_the_connection() {
    // On one that stays, the next guess costs nothing but its bytes.
    let patient = Duration::from_secs(600);
    let face = Face::bounded(ConnectionLimits { stranger_time: patient, idle_time: patient, ..SHORT }).await;
    let host = face.base.strip_prefix("http://").unwrap();
    let guess = format!(
        "GET /session HTTP/1.1\r\nHost: {host}\r\nAuthorization: {}\r\n\r\n",
        basic("opencode", "wrong")
    );
    let mut stream = connect(&face).await;
    stream.write_all(guess.repeat(12).as_bytes()).await.unwrap();
    let said = until_closed(stream).await;
    let answered = |status: &str| said.matches(&format!("HTTP/1.1 {status}")).count();
    assert_eq!((answered("401"), answered("429")), (10, 1), "{said}");
}
