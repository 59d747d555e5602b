//! The document: checked in, served, and true about the routes that there are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use everturn_testkit::Client;
use serde_json::{Value, json};

use crate::support::Face;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The operations of a document: method, path, and what is said of them.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(|(method, shown)| (method.clone(), path.clone(), shown.clone()))
        })
        .collect()
}

/// Asks for an operation with ids that nothing has.
async fn ask(client: &Client, method: &str, path: &str) -> (u16, String) {
    let path = path
        .replace("{sessionID}", "ses_none")
        .replace("{messageID}", "msg_none")
        .replace("{partID}", "prt_none")
        .replace("{permissionID}", "per_none")
        .replace("{requestID}", "none")
        .replace("{name}", "none")
        .replace("{projectID}", "none");
    let body = json!({});
    let body = (method != "get" && method != "delete").then_some(&body);
    let reply = client.send(method.to_uppercase().parse().unwrap(), &path, body).await;
    (reply.status, reply.body)
}

fn is_fallback(status: u16, body: &str) -> bool {
    status == 405 || (status == 404 && body.contains("\"no route "))
}

#[test]
fn the_document_is_checked_in() {
    let mut printed = serde_json::to_string_pretty(&everturn_api::openapi()).unwrap();
    printed.push('\n');
    let path = file("docs/openapi.json");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, &printed).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let line = kept.lines().zip(printed.lines()).position(|(kept, made)| kept != made);
    assert!(
        kept == printed,
        "docs/openapi.json is not what the operations say (first at line {line:?}); if the change is meant, \
         INSTA_UPDATE=always cargo test -p everturn-api document:: writes it"
    );
}

#[tokio::test]
async fn the_document_is_served() {
    let face = Face::start().await;
    assert_eq!(face.client.get("/doc").await.ok().json(), everturn_api::openapi());
}

#[tokio::test]
async fn every_declared_operation_is_served() {
    let face = Face::start().await;
    let streams = ["/event", "/global/event"];
    let mut asked = 0;
    for (method, path, shown) in operations(&everturn_api::openapi()) {
        if streams.contains(&path.as_str()) {
            let mut events = face.client.events(&path).await;
            events.wait_for(|event| event.to_string().contains("server.connected")).await;
        } else {
            let (status, body) = ask(&face.client, &method, &path).await;
            assert!(!is_fallback(status, &body), "{method} {path}: {status} {body}");
            assert!(shown["responses"].get(status.to_string()).is_some(), "{method} {path} gives {status}");
            assert_eq!(
                status == 501,
                shown.get("x-absent").is_some() && !path.starts_with("/session/"),
                "{path}"
            );
        }
        asked += 1;
    }
    assert!(asked > 60, "{asked}");
}

#[tokio::test]
async fn nothing_is_served_that_is_not_declared() {
    let face = Face::start().await;
    let declared: BTreeSet<(String, String)> =
        operations(&everturn_api::openapi()).into_iter().map(|(method, path, _)| (method, path)).collect();
    let recorded = crate::contract::recorded();
    let recorded = recorded["operations"].as_object().unwrap().values();
    let mut paths: BTreeSet<String> = declared.iter().map(|(_, path)| path.clone()).collect();
    paths.extend(recorded.map(|operation| operation["path"].as_str().unwrap().to_owned()));
    let mut refused = 0;
    for path in &paths {
        // A name for a parameter that a declared path has as a word would be another operation.
        for method in METHODS {
            if declared.contains(&(method.to_owned(), path.clone())) {
                continue;
            }
            let (status, body) = ask(&face.client, method, path).await;
            assert!(is_fallback(status, &body), "{method} {path} is served: {status} {body}");
            refused += 1;
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn operations_have_names_of_their_own() {
    let operations = operations(&everturn_api::openapi());
    let names: BTreeSet<&str> =
        operations.iter().map(|(_, _, shown)| shown["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len());
}

#[test]
fn what_decides_for_a_person_says_so() {
    let document = everturn_api::openapi();
    let operations = operations(&document);
    let deciding =
        operations.iter().filter(|(_, _, shown)| shown["security"][0]["basic"] == json!(["decide"]));
    let names: BTreeSet<&str> =
        deciding.map(|(_, _, shown)| shown["operationId"].as_str().unwrap()).collect();
    let expected =
        ["permission.reply", "permission.respond", "question.reject", "question.reply", "session.shell"];
    assert_eq!(names, BTreeSet::from(expected));
}
