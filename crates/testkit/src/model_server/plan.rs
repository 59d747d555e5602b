//! From a request to what shall be answered. Pure, so that the rules can be read and tested apart from HTTP.

use serde_json::{Map, Value, json};

use super::wire::{AnswerFinish, AnswerUsage, MessageRole, RequestMessage};

/// What stands for the moment at which it is sent.
pub(super) const CLOCK: &str = "@now@";

/// What to answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AnswerPlan {
    /// The prompt the directives were taken from.
    pub(super) prompt: String,
    /// An HTTP error instead of an answer.
    pub(super) error: Option<HttpFault>,
    /// The answer itself.
    pub(super) step: AnswerStep,
    /// Whether reasoning comes first.
    pub(super) think: bool,
    /// How many of its own tools the provider runs before the rest.
    pub(super) hosted: u64,
    /// The pause after each word, in milliseconds.
    pub(super) slow: u64,
    /// Whether each word says when it was sent, and the words come on time.
    pub(super) clock: bool,
    /// The name of the hold before this step.
    pub(super) mute: Option<String>,
    /// The name of the hold in this step.
    pub(super) hold: Option<String>,
    /// After how many pieces the connection breaks in this step.
    pub(super) drop: Option<LimitedNumber>,
    /// After how many pieces this step ends as if there were no more.
    pub(super) short: Option<LimitedNumber>,
    /// After how many bytes the connection breaks in this step.
    pub(super) cut: Option<LimitedNumber>,
    /// Whether a frame in the middle of the answer is not JSON.
    pub(super) garble: bool,
    /// An error in the middle of the answer.
    pub(super) fail: Option<Complaint>,
    /// How the answer ends, if not as its content says.
    pub(super) finish: Option<AnswerFinish>,
    /// What the answer is said to have used.
    pub(super) used: Option<AnswerUsage>,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AnswerStep {
    Text(String),
    /// Tools that are called at once.
    Tools(Vec<WantedCall>),
}

/// A tool that is to be called.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WantedCall {
    pub(super) name: String,
    pub(super) input: Value,
}

/// An HTTP error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HttpFault {
    /// The status and how often it is given.
    pub(super) status: LimitedNumber,
    /// What the body says.
    pub(super) complaint: Complaint,
    /// The body as it is, in place of what the protocol makes of the complaint.
    pub(super) body: Option<String>,
    /// Headers of the answer.
    pub(super) headers: Vec<(String, String)>,
}

/// What an error says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Complaint {
    pub(super) kind: String,
    pub(super) code: Option<String>,
    pub(super) message: String,
    pub(super) details: Option<Value>,
}

/// A number that holds always, or only so many times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LimitedNumber {
    pub(super) value: u64,
    pub(super) times: Option<u64>,
}

/// Whether the request wants a title for a conversation.
pub(super) fn asks_for_title(said: &[RequestMessage]) -> bool {
    let mut system = String::new();
    let mut rest = String::new();
    for RequestMessage { role, text, .. } in said {
        if *role == MessageRole::System { &mut system } else { &mut rest }.push_str(text);
    }
    system.to_lowercase().contains("title generator") || rest.contains("Generate a title")
}

/// Reads the directives.
///
/// # Errors
///
/// What is wrong with a directive.
pub(super) fn plan(said: &[RequestMessage], greeting: &str) -> Result<AnswerPlan, String> {
    let (prompt, done) = last_prompt(said);
    let plain = |step: AnswerStep| AnswerPlan {
        prompt: prompt.clone(),
        error: None,
        step,
        think: false,
        hosted: 0,
        slow: 0,
        clock: false,
        mute: None,
        hold: None,
        drop: None,
        short: None,
        cut: None,
        garble: false,
        fail: None,
        finish: None,
        used: None,
    };
    if asks_for_title(said) {
        let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = format!("Fake title: {}", words.chars().take(40).collect::<String>());
        let error = limited(&prompt, "NOTITLE:").map(|status| failure(&prompt, status));
        let mute = word(&prompt, "MUTETITLE:").map(str::to_owned);
        let drop = limited(&prompt, "DROPTITLE:");
        return Ok(AnswerPlan { error, mute, drop, ..plain(AnswerStep::Text(title)) });
    }
    if asks_for_summary(&prompt) {
        return Ok(summary(&prompt, greeting, plain));
    }
    let (above, tool) = locate(&prompt, done);
    let step = match tool {
        Some(first) => {
            let together = limited(above, "TOGETHER:").map_or(1, |found| found.value);
            let mut wanted = vec![first.wanted()?];
            for more in 1..usize::try_from(together).unwrap_or(1) {
                if let (_, Some(line)) = locate(&prompt, done + more) {
                    wanted.push(line.wanted()?);
                }
            }
            AnswerStep::Tools(wanted)
        }
        None => AnswerStep::Text(final_text(&prompt, greeting)),
    };
    Ok(AnswerPlan {
        error: limited(&prompt, "ERR:").map(|status| failure(&prompt, status)),
        think: prompt.contains("THINK"),
        hosted: limited(&prompt, "HOSTED:").map_or(0, |found| found.value),
        slow: limited(&prompt, "SLOW:").map_or(0, |found| found.value),
        clock: limited(&prompt, "CLOCK:").is_some(),
        mute: word(above, "MUTE:").map(str::to_owned),
        hold: word(above, "HOLD:").map(str::to_owned),
        drop: limited(above, "DROP:"),
        short: limited(above, "SHORT:"),
        cut: limited(above, "CUT:"),
        garble: above.contains("GARBLE"),
        fail: word(above, "FAIL:").map(|kind| complaint(&prompt, kind)),
        finish: finish(above),
        used: used(&prompt),
        ..plain(step)
    })
}

/// How a conversation ends that is to be summed up.
const SUMMARY_QUESTION: &str = "What did we do so far?";

fn asks_for_summary(prompt: &str) -> bool {
    prompt.trim_end().ends_with(SUMMARY_QUESTION)
}

/// The answer to whoever wants a summary. What is said in the conversation calls no tools here and makes nothing fail.
fn summary(prompt: &str, greeting: &str, plain: impl Fn(AnswerStep) -> AnswerPlan) -> AnswerPlan {
    let text = |text: String| plain(AnswerStep::Text(text));
    if let Some((_, told)) = prompt.rsplit_once("TELL:") {
        return text(told.lines().next().unwrap_or_default().to_owned());
    }
    let long = limited(prompt, "LONGSUMMARY:")
        .map(|count| (0..count.value).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" "));
    let said = match long {
        Some(long) => long,
        None if prompt.contains("BLANKSUMMARY") => String::new(),
        None => final_text(prompt, greeting),
    };
    AnswerPlan {
        error: limited(prompt, "NOSUMMARY:").map(|status| failure(prompt, status)),
        think: prompt.contains("THINK"),
        mute: word(prompt, "MUTESUMMARY:").map(str::to_owned),
        hold: word(prompt, "HOLDSUMMARY:").map(str::to_owned),
        finish: prompt.contains("CUTSUMMARY").then_some(AnswerFinish::Length),
        ..text(said)
    }
}

/// The error that a prompt asks for.
fn failure(prompt: &str, status: LimitedNumber) -> HttpFault {
    let mut headers: Vec<(String, String)> = prompt
        .lines()
        .filter_map(|line| line.split_once("HEADER:")?.1.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    if let Some(seconds) = limited(prompt, "RETRY-AFTER:") {
        headers.push(("retry-after".to_owned(), seconds.value.to_string()));
    }
    let kind = word(prompt, "ERRTYPE:").unwrap_or("fake");
    HttpFault { status, complaint: complaint(prompt, kind), body: rest(prompt, "ERRBODY:"), headers }
}

fn complaint(prompt: &str, kind: &str) -> Complaint {
    Complaint {
        kind: kind.to_owned(),
        code: word(prompt, "ERRCODE:").map(str::to_owned),
        message: rest(prompt, "ERRTEXT:").unwrap_or_else(|| "fake error".to_owned()),
        details: rest(prompt, "ERRDETAILS:").and_then(|json| serde_json::from_str(&json).ok()),
    }
}

/// The text after `prefix`, to the end of the line.
fn rest(prompt: &str, prefix: &str) -> Option<String> {
    Some(prompt.split_once(prefix)?.1.lines().next().unwrap_or_default().to_owned())
}

fn finish(text: &str) -> Option<AnswerFinish> {
    match text {
        _ if text.contains("REFUSE") => Some(AnswerFinish::Refused),
        _ if text.contains("LENGTH") => Some(AnswerFinish::Length),
        _ => None,
    }
}

/// The numbers after `USAGE:`, with commas between them.
fn used(prompt: &str) -> Option<AnswerUsage> {
    let (_, rest) = prompt.split_once("USAGE:")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ',').unwrap_or(rest.len());
    let mut numbers = rest.get(..end)?.split(',').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Some(AnswerUsage { input: next(), cached: next(), output: next(), reasoning: next() })
}

/// The last thing the user said, and the number of tool calls made since. What a runtime injects is not a prompt.
fn last_prompt(said: &[RequestMessage]) -> (String, usize) {
    let mut prompt = String::new();
    let mut done = 0;
    for RequestMessage { role, text, calls } in said {
        let start = text.trim_start();
        let injected = ["<system-reminder>", "<system-update>"].iter().any(|tag| start.starts_with(tag));
        if *role == MessageRole::User && !start.is_empty() && !injected {
            prompt.clone_from(text);
            done = 0;
        } else if *role == MessageRole::Assistant {
            done += calls;
        }
    }
    (prompt, done)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LineKind {
    Plain,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct PlanLine<'a> {
    kind: LineKind,
    name: &'a str,
    argument: &'a str,
}

impl PlanLine<'_> {
    /// The call that it asks for.
    fn wanted(self) -> Result<WantedCall, String> {
        let PlanLine { kind, name, argument } = self;
        let input = if kind == LineKind::Json {
            serde_json::from_str(argument).map_err(|cause| format!("JSONTOOL {argument}: {cause}"))?
        } else {
            arguments(name, argument).ok_or_else(|| format!("TOOL {name} cannot read {argument:?}"))?
        };
        let name = if name == "todo" { "todowrite" } else { name };
        Ok(WantedCall { name: name.to_owned(), input })
    }
}

/// A tool line, perhaps indented or quoted.
fn tool_line(line: &str) -> Option<PlanLine<'_>> {
    let line = line.trim_start_matches(|character: char| character.is_whitespace() || character == '"');
    let (kind, rest) = match line.strip_prefix("JSONTOOL:") {
        Some(rest) => (LineKind::Json, rest),
        None => (LineKind::Plain, line.strip_prefix("TOOL:")?),
    };
    let (name, argument) = rest.split_once(':')?;
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
    is_name.then(|| PlanLine { kind, name, argument: argument.strip_suffix('"').unwrap_or(argument).trim() })
}

/// The tool line after `done` others, and the text between it and the one before; or the text below the last one.
fn locate(prompt: &str, done: usize) -> (&str, Option<PlanLine<'_>>) {
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
    if prompt.contains("EMPTY") {
        return String::new();
    }
    // Protocols may put two prompts without an answer between them into one: the newer one counts.
    if let Some((_, rest)) = prompt.rsplit_once("SAY:") {
        return rest.lines().next().unwrap_or_default().to_owned();
    }
    if let Some(count) = limited(prompt, "TEXT:") {
        return (0..count.value).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ");
    }
    if let Some(count) = limited(prompt, "CLOCK:") {
        return vec![CLOCK; usize::try_from(count.value).unwrap_or_default()].join(" ");
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
fn limited(text: &str, prefix: &str) -> Option<LimitedNumber> {
    text.match_indices(prefix).find_map(|(start, _)| {
        let rest = text.get(start + prefix.len()..)?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let number = digits(rest);
        let value = number.parse().ok()?;
        let times = rest.get(number.len()..)?.strip_prefix('x').and_then(|rest| digits(rest).parse().ok());
        Some(LimitedNumber { value, times })
    })
}

#[cfg(test)]
mod tests {
    use super::super::wire::WireFormat;
    use super::*;

    fn said(messages: &Value) -> Vec<RequestMessage> {
        WireFormat::Chat.said(&json!({"messages": messages}))
    }

    fn planned(prompt: &str, done: usize) -> AnswerPlan {
        let calls: Vec<Value> = (0..done).map(|_| json!({})).collect();
        let messages = json!([{"role": "user", "content": "older\nTOOL:bash:old"},
            {"role": "assistant", "content": "x", "tool_calls": [{}]},
            {"role": "user", "content": [{"type": "text", "text": prompt}]},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "user", "content": " <system-reminder>not a prompt"},
            {"role": "user", "content": "<system-update>nor this"}]);
        plan(&said(&messages), "Hi: ").unwrap()
    }

    fn text(prompt: &str) -> AnswerStep {
        planned(prompt, 0).step
    }

    fn wanted(name: &str, input: Value) -> WantedCall {
        WantedCall { name: name.into(), input }
    }

    fn tool(name: &str, input: Value) -> AnswerStep {
        AnswerStep::Tools(vec![wanted(name, input)])
    }

    #[test]
    fn final_texts() {
        assert_eq!(text("hello"), AnswerStep::Text("Hi: hello".into()));
        assert_eq!(text(&"ü".repeat(90)), AnswerStep::Text(format!("Hi: {}", "ü".repeat(80))));
        assert_eq!(text("please SAY:yes sir\nmore"), AnswerStep::Text("yes sir".into()));
        assert_eq!(text("SAY:one\n\nSAY:two"), AnswerStep::Text("two".into()));
        assert_eq!(text("TEXT:3"), AnswerStep::Text("word0 word1 word2".into()));
    }

    #[test]
    fn tools_one_by_one() {
        let prompt = "do\n  TOOL:write:a.txt=one\\ntwo\n\"TOOL:edit:a.txt=one=>1\"\nJSONTOOL:my_tool:{\"a\": [1]}\nSAY:ok";
        let step = |done| planned(prompt, done).step;
        assert_eq!(step(0), tool("write", json!({"filePath": "a.txt", "content": "one\ntwo"})));
        assert_eq!(step(1), tool("edit", json!({"filePath": "a.txt", "oldString": "one", "newString": "1"})));
        assert_eq!(step(2), tool("my_tool", json!({"a": [1]})));
        assert_eq!(step(3), AnswerStep::Text("ok".into()));
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
        assert_eq!(planned(prompt, 2).drop, Some(LimitedNumber { value: 2, times: Some(1) }));
        assert_eq!(planned("HOLD:x-1 hello", 0).hold.as_deref(), Some("x-1"));
    }

    #[test]
    fn manners() {
        let plan = planned("THINK HOSTED:2 SLOW:20 ERR:503x2 RETRY-AFTER:0", 0);
        assert_eq!((plan.think, plan.hosted, plan.slow), (true, 2, 20));
        let status = LimitedNumber { value: 503, times: Some(2) };
        let headers = vec![("retry-after".to_owned(), "0".to_owned())];
        let (kind, message) = ("fake".to_owned(), "fake error".to_owned());
        let complaint = Complaint { kind, code: None, message, details: None };
        assert_eq!(plan.error, Some(HttpFault { status, complaint, body: None, headers }));
        assert_eq!(planned("ERR:500", 0).error.map(|failure| failure.status.times), Some(None));
    }

    #[test]
    fn titles() {
        let messages = json!([{"role": "system", "content": "You are a Title Generator"},
            {"role": "user", "content": "ERR:500  \n TOOL:bash:ls and a rather long line of words"}]);
        let plan = plan(&said(&messages), "").unwrap();
        assert_eq!(
            plan.step,
            AnswerStep::Text("Fake title: ERR:500 TOOL:bash:ls and a rather long l".into())
        );
        assert_eq!(plan.error, None);
    }

    #[test]
    fn summaries() {
        let asked = |said: &str| planned(&format!("[User]: {said}\n\nWhat did we do so far?"), 0);
        let text = |said: &str| asked(said).step;
        assert_eq!(text("x\nTOOL:bash:ls\nSAY:two words"), AnswerStep::Text("two words".into()));
        assert_eq!(text("LONGSUMMARY:2"), AnswerStep::Text("word0 word1".into()));
        assert_eq!(text("BLANKSUMMARY"), AnswerStep::Text(String::new()));
        assert_eq!(text("NOSUMMARY:400 TELL:all of it"), AnswerStep::Text("all of it".into()));
        assert_eq!(asked("NOSUMMARY:400 TELL:all of it").error, None);
        assert_eq!(asked("NOSUMMARY:400 ERR:500").error.map(|error| error.status.value), Some(400));
        assert_eq!(asked("ERR:500").error, None);
        assert_eq!(asked("CUTSUMMARY").finish, Some(AnswerFinish::Length));
        assert_eq!(asked("HOLDSUMMARY:h").hold.as_deref(), Some("h"));
    }

    #[test]
    fn bad_directives_are_named() {
        let messages = json!([{"role": "user", "content": "JSONTOOL:x:{"}]);
        assert!(plan(&said(&messages), "").unwrap_err().starts_with("JSONTOOL {"));
        let messages = json!([{"role": "user", "content": "TOOL:edit:nothing"}]);
        assert!(plan(&said(&messages), "").is_err());
    }

    #[test]
    fn several_tools_at_once() {
        let prompt = "TOGETHER:2\nTOOL:bash:ls\nTOOL:bash:pwd\nTOOL:read:a\nSAY:done";
        let bash = |command: &str| {
            wanted("bash", json!({"command": command, "description": format!("run {command}")}))
        };
        assert_eq!(planned(prompt, 0).step, AnswerStep::Tools(vec![bash("ls"), bash("pwd")]));
        assert_eq!(planned(prompt, 2).step, tool("read", json!({"filePath": "a"})));
        assert_eq!(planned(prompt, 3).step, AnswerStep::Text("done".into()));
    }

    #[test]
    fn errors_and_endings_as_scripted() {
        let complaint = |kind: &str, code: Option<&str>, message: &str, details: Option<Value>| Complaint {
            kind: kind.to_owned(),
            code: code.map(str::to_owned),
            message: message.to_owned(),
            details,
        };
        let lines = [
            "ERR:400 ERRTYPE:too_long ERRCODE:length",
            "HEADER:retry-after-ms=1500",
            "ERRDETAILS:[1]",
            "ERRTEXT:prompt is too long",
        ];
        let failure = planned(&lines.join("\n"), 0).error.unwrap();
        let expected = complaint("too_long", Some("length"), "prompt is too long", Some(json!([1])));
        assert_eq!((failure.complaint, failure.body), (expected, None));
        assert_eq!(failure.headers, [("retry-after-ms".to_owned(), "1500".to_owned())]);
        let failure = planned("ERR:502\nERRBODY:<html> gone", 0).error.unwrap();
        assert_eq!(failure.body.as_deref(), Some("<html> gone"));
        let plan =
            planned("MUTE:m REFUSE FAIL:overloaded_error SHORT:2x1 CUT:9 GARBLE EMPTY USAGE:100,60,50,20", 0);
        assert_eq!(plan.mute.as_deref(), Some("m"));
        assert_eq!(plan.short, Some(LimitedNumber { value: 2, times: Some(1) }));
        assert_eq!(plan.finish, Some(AnswerFinish::Refused));
        assert_eq!(plan.fail, Some(complaint("overloaded_error", None, "fake error", None)));
        assert_eq!((plan.cut.map(|cut| cut.value), plan.garble), (Some(9), true));
        assert_eq!(plan.used, Some(AnswerUsage { input: 100, cached: 60, output: 50, reasoning: 20 }));
        assert_eq!(plan.step, AnswerStep::Text(String::new()));
    }
}
