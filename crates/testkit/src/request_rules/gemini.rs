//! Gemini's contents.

use serde_json::Value;

use super::{BrokenRules, check_tools, list, says, word};

pub(super) fn check(body: &Value, faults: &mut BrokenRules) {
    let system = list(&body["systemInstruction"], "parts");
    faults.rule(body.get("systemInstruction").is_none() || !system.is_empty(), || {
        "empty instructions".to_owned()
    });
    faults.rule(system.iter().all(|part| says(part, "text")), || "an instruction without words".to_owned());
    let declared = list(body, "tools").iter().flat_map(|tool| list(tool, "functionDeclarations"));
    check_tools(declared.map(|tool| (tool, "parameters")), 64, faults);
    let contents = list(body, "contents");
    let mut owed: Vec<(&Value, Option<&Value>)> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let fault = |what: &str| format!("contents.{index}: {what}: {content}");
        let side = if index % 2 == 0 { "user" } else { "model" };
        faults.rule(content["role"] == side, || fault("not the turn of this side"));
        let parts = list(content, "parts");
        faults.rule(!parts.is_empty(), || fault("says nothing"));
        faults.rule(parts.iter().all(|part| is_part(part, side)), || fault("a part that is not taken here"));
        let given = keys(parts, "functionResponse");
        faults.rule(given == owed, || fault("not one response for each call before, in order"));
        let first = parts.iter().take_while(|part| part.get("functionResponse").is_some()).count();
        faults.rule(first == given.len(), || fault("responses that do not come first"));
        owed = keys(parts, "functionCall");
    }
    let last = contents.last().map(|last| word(last, "role"));
    faults.rule(last == Some("user"), || format!("the last word has {last:?}"));
}

/// Name and id of each call or response.
fn keys<'a>(parts: &'a [Value], kind: &str) -> Vec<(&'a Value, Option<&'a Value>)> {
    parts.iter().filter_map(|part| part.get(kind)).map(|call| (&call["name"], call.get("id"))).collect()
}

fn is_part(part: &Value, side: &str) -> bool {
    const KINDS: [&str; 7] = [
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
    ];
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| part.get(kind).is_some()).collect();
    let [kind] = kinds[..] else { return false };
    let (value, model) = (&part[kind], side == "model");
    let signature = part.get("thoughtSignature");
    let signed = signature.is_none_or(|one| model && one.as_str().is_some_and(|one| !one.is_empty()));
    signed
        && match kind {
            "text" => (signature.is_some() && value.is_string()) || says(part, "text"),
            "inlineData" => says(value, "mimeType") && says(value, "data"),
            "fileData" => says(value, "fileUri"),
            "functionCall" => model && is_name(word(value, "name")) && value["args"].is_object(),
            "functionResponse" => !model && is_name(word(value, "name")) && value["response"].is_object(),
            _ => model && value.is_object(),
        }
}

fn is_name(name: &str) -> bool {
    let begins = |first: char| first.is_ascii_alphabetic() || first == '_';
    name.starts_with(begins)
        && name.len() <= 64
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | ':'))
}
