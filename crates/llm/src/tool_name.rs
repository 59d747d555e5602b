//! Names of tools in the letters that every provider takes.
//!
//! A model may have called `functions.bash` or nothing at all, and a tool of somebody else's server may be called
//! anything. Providers refuse the whole conversation for one such name. So each is sent as one that fits, everywhere
//! alike, and what the model then calls is known again under its own name.

use std::collections::{HashMap, HashSet};

use futures_util::StreamExt as _;

use crate::{Block, EventStream, Message, ModelRequest, StreamEvent, ToolChoice};

/// The longest name that all providers take.
const LIMIT: usize = 64;

/// What a call without a name is called: an empty one is refused, and the model shall see what it did.
const NAMELESS: &str = "unnamed_tool";

/// A name that fits, made of this one. Gemini wants a letter or `_` at the front.
fn fit(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let front = name.starts_with(|first: char| first.is_ascii_digit() || first == '-').then_some('_');
    let letters = name.chars().map(|letter| if fits(letter) { letter } else { '_' });
    let name: String = front.into_iter().chain(letters).take(LIMIT).collect();
    if name.is_empty() { NAMELESS.to_owned() } else { name }
}

/// The tools on offer whose names do not fit, and the names under which they are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    /// Those of a request. No two tools are sent under one name.
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let names = || request.tools.iter().map(|tool| tool.name.as_str());
        let mut used: HashSet<String> =
            names().filter(|name| fit(name) == *name).map(str::to_owned).collect();
        let mut sent = HashMap::new();
        for name in names().filter(|name| fit(name) != *name) {
            let base = fit(name);
            let number = |count: u32| if count == 1 { String::new() } else { format!("_{count}") };
            let mut tries = (1..).map(|count| {
                let number = number(count);
                let base: String = base.chars().take(LIMIT.saturating_sub(number.len())).collect();
                format!("{base}{number}")
            });
            let new = tries.find(|new| !used.contains(new)).unwrap_or_default();
            used.insert(new.clone());
            sent.insert(name.to_owned(), new);
        }
        Self(sent)
    }

    /// The name under which a tool is sent, on offer or not.
    fn sent(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| fit(name))
    }

    /// Puts the names that fit in the place of all others.
    pub(crate) fn write(&self, request: &mut ModelRequest) {
        for tool in &mut request.tools {
            tool.name = self.sent(&tool.name);
        }
        if let ToolChoice::Tool(name) = &mut request.tool_choice {
            *name = self.sent(name);
        }
        for message in &mut request.messages {
            match message {
                Message::Tool { name, .. } => *name = self.sent(name),
                Message::Assistant { blocks, .. } => {
                    for block in blocks {
                        if let Block::ToolCall { name, .. } = block {
                            *name = self.sent(name);
                        }
                    }
                }
                Message::User(_) | Message::System(_) => {}
            }
        }
    }

    /// The events of an answer, with the tools under their own names.
    pub(crate) fn read(self, events: EventStream) -> EventStream {
        if self.0.is_empty() {
            return events;
        }
        let own: HashMap<String, String> = self.0.into_iter().map(|(own, sent)| (sent, own)).collect();
        Box::pin(events.map(move |event| {
            event.map(|mut event| {
                if let StreamEvent::ToolInputStart { name, .. }
                | StreamEvent::ToolCall { name, .. }
                | StreamEvent::ToolCallMalformed { name, .. } = &mut event
                    && let Some(own) = own.get(name.as_str())
                {
                    name.clone_from(own);
                }
                event
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ToolSpec;

    #[test]
    fn names_are_made_to_fit() {
        let check = |name: &str, expected: &str| assert_eq!(fit(name), expected, "{name}");
        check("read", "read");
        check("mcp-server_read2", "mcp-server_read2");
        check("functions.bash", "functions_bash");
        check("two words", "two_words");
        check("größe", "gr__e");
        check("", "unnamed_tool");
        check("7zip", "_7zip");
        check("-x", "_-x");
        check(&"x".repeat(65), &"x".repeat(64));
    }

    fn tool(name: &str) -> ToolSpec {
        ToolSpec { name: name.into(), description: String::new(), schema: json!({}).into() }
    }

    fn call(name: &str) -> Block {
        Block::ToolCall { id: "c".into(), name: name.into(), input: json!({}), metadata: None }
    }

    fn conversation(tools: [&str; 5], called: [&str; 3], choice: &str) -> ModelRequest {
        ModelRequest {
            tools: tools.map(tool).to_vec(),
            tool_choice: ToolChoice::Tool(choice.into()),
            messages: vec![
                Message::Assistant { blocks: called.map(call).to_vec(), origin: None },
                Message::Tool {
                    call_id: "c".into(),
                    name: called[0].into(),
                    output: vec![],
                    is_error: false,
                },
            ],
            ..ModelRequest::default()
        }
    }

    #[test]
    fn tools_calls_and_results_go_under_one_name() {
        let long = "x".repeat(70);
        let mut request =
            conversation(["a.b", "a_b", "a b", &long, "read"], ["a b", "functions.bash", ""], "a.b");
        ToolNames::of(&request).write(&mut request);
        let short = "x".repeat(64);
        let expected = conversation(
            ["a_b_2", "a_b", "a_b_3", &short, "read"],
            ["a_b_3", "functions_bash", "unnamed_tool"],
            "a_b_2",
        );
        assert_eq!(request, expected);
    }

    #[tokio::test]
    async fn a_tool_is_known_again_under_its_own_name() {
        let request = conversation(["a.b", "a_b", "c", "d", "e"], ["", "", ""], "c");
        let start = |name: &str| StreamEvent::ToolInputStart { id: "1".into(), name: name.into() };
        let called = |name: &str| StreamEvent::ToolCall {
            id: "1".into(),
            name: name.into(),
            input: json!({}),
            raw: "{}".into(),
            metadata: None,
        };
        let sent =
            vec![start("a_b_2"), called("a_b_2"), start("a_b"), called("unknown"), StreamEvent::Finish];
        let events: EventStream = Box::pin(futures_util::stream::iter(sent.into_iter().map(Ok)));
        let read: Vec<StreamEvent> =
            ToolNames::of(&request).read(events).filter_map(|event| async { event.ok() }).collect().await;
        assert_eq!(read, [start("a.b"), called("a.b"), start("a_b"), called("unknown"), StreamEvent::Finish]);
    }
}
