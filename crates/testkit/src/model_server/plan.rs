//! From a request to what shall be answered. Pure, so that the rules can be read and tested apart from HTTP.

use serde_json::{Map, Value, json};

/// What to answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The prompt the directives were taken from.
    pub(super) prompt: String,
    /// An HTTP error instead of an answer.
    pub(super) error: Option<Failure>,
    /// The answer itself.
    pub(super) step: Step,
    /// Whether reasoning comes first.
    pub(super) think: bool,
    /// The pause after each word, in milliseconds.
    pub(super) slow: u64,
    /// The name of the hold in this step.
    pub(super) hold: Option<String>,
    /// Where the connection breaks in this step.
    pub(super) drop: Option<Limited>,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Text(String),
    Tool { name: String, input: Value },
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// The status and how often it is given.
    pub(super) status: Limited,
    /// The `retry-after` header.
    pub(super) retry_after: Option<u64>,
}

/// A number that holds always, or only so many times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limited {
    pub(super) value: u64,
    pub(super) times: Option<u64>,
}

/// Whether the request wants a title for a conversation.
pub(super) fn asks_for_title(body: &Value) -> bool {
    let mut system = String::new();
    let mut rest = String::new();
    for (role, text, _) in messages(body) {
        if role == "system" { &mut system } else { &mut rest }.push_str(&text);
    }
    system.to_lowercase().contains("title generator") || rest.contains("Generate a title")
}

/// Reads the directives.
///
/// # Errors
///
/// What is wrong with a directive.
pub(super) fn plan(body: &Value, greeting: &str) -> Result<Plan, String> {
    let (prompt, done) = last_prompt(body);
    let plain = |step: Step| Plan {
        prompt: prompt.clone(),
        error: None,
        step,
        think: false,
        slow: 0,
        hold: None,
        drop: None,
    };
    if asks_for_title(body) {
        let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        return Ok(plain(Step::Text(format!("Fake title: {}", words.chars().take(40).collect::<String>()))));
    }
    let (above, tool) = locate(&prompt, done);
    let step = match tool {
        Some(line) => {
            let Line { kind, name, argument } = line;
            let input = if kind == Kind::Json {
                serde_json::from_str(argument).map_err(|cause| format!("JSONTOOL {argument}: {cause}"))?
            } else {
                arguments(name, argument).ok_or_else(|| format!("TOOL {name} cannot read {argument:?}"))?
            };
            let name = if name == "todo" { "todowrite" } else { name };
            Step::Tool { name: name.to_owned(), input }
        }
        None => Step::Text(final_text(&prompt, greeting)),
    };
    let retry_after = limited(&prompt, "RETRY-AFTER:").map(|found| found.value);
    Ok(Plan {
        error: limited(&prompt, "ERR:").map(|status| Failure { status, retry_after }),
        think: prompt.contains("THINK"),
        slow: limited(&prompt, "SLOW:").map_or(0, |found| found.value),
        hold: word(above, "HOLD:").map(str::to_owned),
        drop: limited(above, "DROP:"),
        ..plain(step)
    })
}

/// Role, text and number of tool calls of each message.
fn messages(body: &Value) -> impl Iterator<Item = (&str, String, usize)> {
    let list = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    list.map(|message| {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        (role, text, message.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len))
    })
}

/// The last thing the user said, and the number of tool calls made since. What a runtime injects is not a prompt.
fn last_prompt(body: &Value) -> (String, usize) {
    let mut prompt = String::new();
    let mut done = 0;
    for (role, text, calls) in messages(body) {
        let start = text.trim_start();
        let injected = ["<system-reminder>", "<system-update>"].iter().any(|tag| start.starts_with(tag));
        if role == "user" && !start.is_empty() && !injected {
            prompt = text;
            done = 0;
        } else if role == "assistant" {
            done += calls;
        }
    }
    (prompt, done)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Line<'a> {
    kind: Kind,
    name: &'a str,
    argument: &'a str,
}

/// A tool line, perhaps indented or quoted.
fn tool_line(line: &str) -> Option<Line<'_>> {
    let line = line.trim_start_matches(|character: char| character.is_whitespace() || character == '"');
    let (kind, rest) = match line.strip_prefix("JSONTOOL:") {
        Some(rest) => (Kind::Json, rest),
        None => (Kind::Plain, line.strip_prefix("TOOL:")?),
    };
    let (name, argument) = rest.split_once(':')?;
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
    is_name.then(|| Line { kind, name, argument: argument.strip_suffix('"').unwrap_or(argument).trim() })
}

/// The tool line after `done` others, and the text between it and the one before; or the text below the last one.
fn locate(prompt: &str, done: usize) -> (&str, Option<Line<'_>>) {
    let mut rest = prompt;
    let mut seen = 0;
    let mut above = prompt;
    let mut offset = 0;
    for line in prompt.split_inclusive('\n') {
        let next = offset + line.len();
        if let Some(found) = tool_line(line.trim_end_matches(['\n', '\r'])) {
            if seen == done {
                let between = rest.get(..offset - (prompt.len() - rest.len())).unwrap_or_default();
                return (between, Some(found));
            }
            seen += 1;
            rest = prompt.get(next..).unwrap_or_default();
            above = rest;
        }
        offset = next;
    }
    (above, None)
}

fn final_text(prompt: &str, greeting: &str) -> String {
    if let Some((_, rest)) = prompt.split_once("SAY:") {
        return rest.lines().next().unwrap_or_default().to_owned();
    }
    if let Some(count) = limited(prompt, "TEXT:") {
        return (0..count.value).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
    }
    let skip = prompt.chars().count().saturating_sub(80);
    format!("{greeting}{}", prompt.chars().skip(skip).collect::<String>())
}

/// The arguments of the usual tools, from one line of text.
fn arguments(name: &str, argument: &str) -> Option<Value> {
    let lines = |text: &str| text.replace("\\n", "\n");
    Some(match name {
        "bash" => {
            let start: String = argument.chars().take(30).collect();
            json!({"command": argument, "description": format!("run {start}")})
        }
        "read" => json!({"filePath": argument}),
        "write" => {
            let (path, content) = argument.split_once('=')?;
            json!({"filePath": path, "content": lines(content)})
        }
        "edit" => {
            let (path, change) = argument.split_once('=')?;
            let (old, new) = change.split_once("=>")?;
            json!({"filePath": path, "oldString": lines(old), "newString": lines(new)})
        }
        "todo" | "todowrite" => {
            let status = |number: usize| match number {
                0 => "completed",
                1 => "in_progress",
                _ => "pending",
            };
            let todos = argument.split(';').enumerate().map(|(number, content)| {
                json!({"id": (number + 1).to_string(), "content": content, "status": status(number),
                    "priority": "medium"})
            });
            json!({"todos": todos.collect::<Vec<_>>()})
        }
        "task" => {
            json!({"description": "sub work", "prompt": lines(argument), "subagent_type": "general"})
        }
        "glob" | "grep" => json!({"pattern": argument}),
        _ => Value::Object(Map::from_iter([("input".to_owned(), json!(argument))])),
    })
}

/// The word after `prefix`.
fn word<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(prefix)?;
    let name =
        rest.split(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '-' | '_'))).next()?;
    (!name.is_empty()).then_some(name)
}

/// The number after `prefix`, with its number of times if one is given: `503` or `503x2`.
fn limited(text: &str, prefix: &str) -> Option<Limited> {
    text.match_indices(prefix).find_map(|(start, _)| {
        let rest = text.get(start + prefix.len()..)?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let number = digits(rest);
        let value = number.parse().ok()?;
        let times = rest.get(number.len()..)?.strip_prefix('x').and_then(|rest| digits(rest).parse().ok());
        Some(Limited { value, times })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(messages: &Value) -> Value {
        json!({"messages": messages})
    }

    fn planned(prompt: &str, done: usize) -> Plan {
        let calls: Vec<Value> = (0..done).map(|_| json!({})).collect();
        let messages = json!([{"role": "user", "content": "older\nTOOL:bash:old"},
            {"role": "assistant", "content": "x", "tool_calls": [{}]},
            {"role": "user", "content": [{"type": "text", "text": prompt}]},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "user", "content": " <system-reminder>not a prompt"},
            {"role": "user", "content": "<system-update>nor this"}]);
        plan(&body(&messages), "Hi: ").unwrap()
    }

    fn text(prompt: &str) -> Step {
        planned(prompt, 0).step
    }

    fn tool(name: &str, input: Value) -> Step {
        Step::Tool { name: name.into(), input }
    }

    #[test]
    fn final_texts() {
        assert_eq!(text("hello"), Step::Text("Hi: hello".into()));
        assert_eq!(text(&"ü".repeat(90)), Step::Text(format!("Hi: {}", "ü".repeat(80))));
        assert_eq!(text("please SAY:yes sir\nmore"), Step::Text("yes sir".into()));
        assert_eq!(text("TEXT:3"), Step::Text("word0 word1 word2".into()));
    }

    #[test]
    fn tools_one_by_one() {
        let prompt = "do\n  TOOL:write:a.txt=one\\ntwo\n\"TOOL:edit:a.txt=one=>1\"\nJSONTOOL:my_tool:{\"a\": [1]}\nSAY:ok";
        let step = |done| planned(prompt, done).step;
        assert_eq!(step(0), tool("write", json!({"filePath": "a.txt", "content": "one\ntwo"})));
        assert_eq!(step(1), tool("edit", json!({"filePath": "a.txt", "oldString": "one", "newString": "1"})));
        assert_eq!(step(2), tool("my_tool", json!({"a": [1]})));
        assert_eq!(step(3), Step::Text("ok".into()));
        assert_eq!(
            text("TOOL:todo:a;b"),
            tool(
                "todowrite",
                json!({"todos": [
                    {"id": "1", "content": "a", "status": "completed", "priority": "medium"},
                    {"id": "2", "content": "b", "status": "in_progress", "priority": "medium"},
                ]})
            )
        );
        assert_eq!(text("TOOL:bash:ls"), tool("bash", json!({"command": "ls", "description": "run ls"})));
        assert_eq!(text("TOOL:weather:here"), tool("weather", json!({"input": "here"})));
    }

    #[test]
    fn holds_belong_to_the_step_below_them() {
        let prompt = "HOLD:one\nTOOL:bash:ls\nTOOL:bash:pwd\nHOLD:three DROP:2x1\nSAY:done";
        let hold = |done| planned(prompt, done).hold;
        assert_eq!((hold(0).as_deref(), hold(1), hold(2).as_deref()), (Some("one"), None, Some("three")));
        assert_eq!(planned(prompt, 2).drop, Some(Limited { value: 2, times: Some(1) }));
        assert_eq!(planned("HOLD:x-1 hello", 0).hold.as_deref(), Some("x-1"));
    }

    #[test]
    fn manners() {
        let plan = planned("THINK SLOW:20 ERR:503x2 RETRY-AFTER:0", 0);
        assert_eq!((plan.think, plan.slow), (true, 20));
        let status = Limited { value: 503, times: Some(2) };
        assert_eq!(plan.error, Some(Failure { status, retry_after: Some(0) }));
        assert_eq!(planned("ERR:500", 0).error.map(|failure| failure.status.times), Some(None));
    }

    #[test]
    fn titles() {
        let messages = json!([{"role": "system", "content": "You are a Title Generator"},
            {"role": "user", "content": "ERR:500  \n TOOL:bash:ls and a rather long line of words"}]);
        let plan = plan(&body(&messages), "").unwrap();
        assert_eq!(plan.step, Step::Text("Fake title: ERR:500 TOOL:bash:ls and a rather long l".into()));
        assert_eq!(plan.error, None);
    }

    #[test]
    fn bad_directives_are_named() {
        let messages = json!([{"role": "user", "content": "JSONTOOL:x:{"}]);
        assert!(plan(&body(&messages), "").unwrap_err().starts_with("JSONTOOL {"));
        let messages = json!([{"role": "user", "content": "TOOL:edit:nothing"}]);
        assert!(plan(&body(&messages), "").is_err());
    }
}
