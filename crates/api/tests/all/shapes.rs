//! What is really sent has the shape that the document says.

use everturn_testkit::within;
use serde_json::{Value, json};

use crate::support::Face;

/// What is wrong with a value, by a schema of the document.
fn complaints(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Some(schema) = schema.as_object() else { return Vec::new() };
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = document.pointer(name.trim_start_matches('#')).unwrap();
        return complaints(document, target, value, at);
    }
    let mut found = Vec::new();
    for key in ["anyOf", "oneOf"] {
        let Some(choices) = schema.get(key).and_then(Value::as_array) else { continue };
        // What stands beside the choices is checked below.
        let mut rest = value.clone();
        if let (Some(fields), Some(own)) = (schema.get("properties"), rest.as_object_mut()) {
            own.retain(|name, _| fields.get(name).is_none());
        }
        let tried: Vec<_> = choices.iter().map(|choice| complaints(document, choice, &rest, at)).collect();
        if !tried.iter().any(Vec::is_empty) {
            let nearest = tried.into_iter().min_by_key(Vec::len).unwrap();
            found.push(format!("{at}: fits no choice; the nearest: {nearest:?}"));
        }
    }
    let fits = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("{other}"),
    };
    let right = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(fits),
        Some(kind) => fits(kind),
        None => true,
    };
    if !right {
        found.push(format!("{at}: {value} is not {}", schema["type"]));
        return found;
    }
    if schema.get("const").is_some_and(|expected| expected != value) {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema.get("enum").is_some_and(|words| !words.as_array().unwrap().contains(value)) {
        found.push(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    if let (Some(pattern), Some(text)) = (schema.get("pattern").and_then(Value::as_str), value.as_str())
        && !text.starts_with(pattern.trim_start_matches('^'))
    {
        found.push(format!("{at}: {text} is not like {pattern}"));
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{at}.{}: missing", name.as_str().unwrap()));
        }
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (fields.and_then(|fields| fields.get(name)), schema.get("additionalProperties")) {
            (Some(field), _) => found.extend(complaints(document, field, inner, &at)),
            (None, Some(other)) => found.extend(complaints(document, other, inner, &at)),
            // The other half of a flattened shape knows it, or nobody does.
            (None, None) if fields.is_some() && !schema.contains_key("oneOf") => {
                found.push(format!("{at}: not in the document"));
            }
            (None, None) => {}
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, item) in list.iter().enumerate() {
            found.extend(complaints(document, items, item, &format!("{at}[{index}]")));
        }
    }
    found
}

fn check(document: &Value, operation: &str, method: &str, value: &Value) {
    let success = &document["paths"][operation][method]["responses"]["200"]["content"];
    let schema = &success["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {operation} has no shape");
    let found = complaints(document, schema, value, "");
    assert!(found.is_empty(), "{method} {operation}: {}\n{value:#}", found.join("\n"));
}

#[test]
fn the_check_can_fail() {
    let document = everturn_api::openapi();
    let schema = json!({"$ref": "#/components/schemas/Message"});
    let text = json!({"id": "msg_a", "role": "user", "time": {"created": "now"}});
    let found = complaints(&document, &schema, &text, "");
    assert!(found.iter().any(|line| line.contains("fits no choice")), "{found:?}");
    let schema = json!({"$ref": "#/components/schemas/SnapshotFileDiff"});
    let found = complaints(&document, &schema, &json!({"additions": -0.5, "deletions": 1, "more": 1}), "");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[tokio::test]
async fn answers_have_the_declared_shapes() {
    let face = Face::start().await;
    let document = everturn_api::openapi();
    let id = face.session().await;
    let mut events = face.client.events("/global/event").await;
    events.wait_for(|event| event["payload"]["type"] == "server.connected").await;
    let answer = face.prompt(&id, "SAY:two words").await;
    check(&document, "/session/{sessionID}/message", "post", &answer);
    face.prompt(&id, "TOOL:bash:echo hi").await;
    face.prompt(
        &id,
        "TOOL:todowrite:[{\"content\":\"a\",\"status\":\"pending\",\"priority\":\"high\",\"id\":\"1\"}]",
    )
    .await;
    face.prompt_async(&id, "HOLD:a\nSAY:never the end").await;
    face.model.held("a").await;
    for path in ["/session/status", "/session"] {
        check(&document, path, "get", &face.client.get(path).await.ok().json());
    }
    face.client.post(&format!("/session/{id}/abort"), &json!({})).await.ok();
    let messages = face.client.get(&format!("/session/{id}/message")).await.ok().json();
    check(&document, "/session/{sessionID}/message", "get", &messages);
    let first = messages[0]["info"]["id"].as_str().unwrap();
    let one = face.client.get(&format!("/session/{id}/message/{first}")).await.ok().json();
    check(&document, "/session/{sessionID}/message/{messageID}", "get", &one);
    let part = &messages[1]["parts"][1];
    let path = format!(
        "/session/{id}/message/{}/part/{}",
        part["messageID"].as_str().unwrap(),
        part["id"].as_str().unwrap()
    );
    let changed = face.client.patch(&path, part).await.ok().json();
    check(&document, "/session/{sessionID}/message/{messageID}/part/{partID}", "patch", &changed);
    for (route, method) in [("", "get"), ("/children", "get"), ("/todo", "get"), ("/diff", "get")] {
        let answer = face.client.get(&format!("/session/{id}{route}")).await.ok().json();
        check(&document, &format!("/session/{{sessionID}}{route}"), method, &answer);
    }
    let forked = face.client.post(&format!("/session/{id}/fork"), &json!({})).await.ok().json();
    check(&document, "/session/{sessionID}/fork", "post", &forked);
    let reverted =
        face.client.post(&format!("/session/{id}/revert"), &json!({"messageID": first})).await.ok();
    check(&document, "/session/{sessionID}/revert", "post", &reverted.json());
    let simple = document["paths"].as_object().unwrap().iter().filter(|(path, methods)| {
        let given = &methods["get"]["responses"]["200"]["content"];
        !path.contains('{') && given.get("application/json").is_some()
    });
    let mut read = 0;
    for (path, _) in simple {
        check(&document, path, "get", &face.client.get(path).await.ok().json());
        read += 1;
    }
    assert!(read > 20, "{read}");
    within("the session to settle", face.engine.drains().settled(&id.as_str().into())).await;
    let schema = json!({"$ref": "#/components/schemas/GlobalEvent"});
    let seen = events.seen();
    assert!(seen.len() > 20, "{}", seen.len());
    for event in seen {
        let found = complaints(&document, &schema, &event.data, "");
        assert!(found.is_empty(), "{}\n{:#}", found.join("\n"), event.data);
    }
}

#[tokio::test]
async fn errors_have_the_declared_shapes() {
    let face = Face::start().await;
    let document = everturn_api::openapi();
    let id = face.session().await;
    let cases = [
        ("get", "/session/{sessionID}", "/session/ses_none".to_owned(), 404),
        ("get", "/session/{sessionID}", "/session/nope".to_owned(), 400),
        ("get", "/session", "/session?limit=x".to_owned(), 400),
        ("post", "/session/{sessionID}/message", format!("/session/{id}/message"), 400),
        ("post", "/session/{sessionID}/share", format!("/session/{id}/share"), 501),
        ("post", "/question/{requestID}/reject", "/question/que_none/reject".to_owned(), 404),
        ("post", "/mcp/{name}/connect", "/mcp/none/connect".to_owned(), 404),
    ];
    for (method, operation, path, status) in cases {
        let body = json!({});
        let body = (method == "post").then_some(&body);
        let reply = face.client.send(method.to_uppercase().parse().unwrap(), &path, body).await;
        assert_eq!(reply.status, status, "{path}");
        let shown = &document["paths"][operation][method]["responses"][status.to_string()]["content"];
        let found = complaints(&document, &shown["application/json"]["schema"], &reply.json(), "");
        assert!(found.is_empty(), "{path}: {}\n{}", found.join("\n"), reply.body);
    }
}
