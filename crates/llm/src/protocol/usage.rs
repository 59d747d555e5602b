//! Token counts as OpenAI's protocols give them, which overlap, made into disjoint ones.

use serde_json::Value;

use crate::Usage;

/// Counts of which the larger ones include the smaller ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverlappingCounts {
    /// All input, cached or not.
    pub(crate) input: u64,
    /// All output; with reasoning, unless the server counts that apart.
    pub(crate) output: u64,
    /// Input read from a cache.
    pub(crate) cache_read: u64,
    /// Input written to a cache.
    pub(crate) cache_write: u64,
    /// Reasoning.
    pub(crate) reasoning: u64,
    /// The sum, where the server says it.
    pub(crate) total: Option<u64>,
}

impl OverlappingCounts {
    /// The same counts without overlaps. A server that counts reasoning apart gives itself away: by its total, or by
    /// more reasoning than output.
    pub(crate) fn split(self) -> Usage {
        let Self { input, output, reasoning, total, .. } = self;
        let cache_read = self.cache_read.min(input);
        let cache_write = self.cache_write.min(input.saturating_sub(cache_read));
        let all = input.saturating_add(output).saturating_add(reasoning);
        let apart = reasoning > output || (reasoning > 0 && total == Some(all));
        Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: if apart { output } else { output.saturating_sub(reasoning) },
            reasoning,
            cache_read,
            cache_write,
            total,
        }
    }
}

/// A count that is never negative; anything else than a number is zero.
pub(crate) fn count(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, and a negative one becomes zero"
    )]
    let rounded = value.as_f64().map(|number| number as u64);
    value.as_u64().or(rounded).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::body::AnswerBody;
    use crate::protocol::WireProtocol;
    use crate::{StreamEvent, anthropic, gemini, openai_chat, openai_responses};

    use super::*;

    /// What is told of the usage before an answer ends that never gets to its end.
    #[track_caller]
    fn check<P: WireProtocol>(protocol: &P, frames: &[Value], expected: &[Usage]) {
        let mut body = AnswerBody::new("text/event-stream", protocol.decoder());
        let mut told = Vec::new();
        for frame in frames {
            body.push(format!("data: {frame}\n\n").as_bytes()).unwrap();
            while let Some(event) = body.next().unwrap() {
                if let StreamEvent::Usage(usage) = event {
                    told.push(usage);
                }
            }
        }
        assert_eq!(told, expected);
        assert!(body.end().is_err(), "it breaks off here");
    }

    #[test]
    fn what_was_counted_is_told_before_an_answer_ends() {
        // Whoever stopped an answer was billed for it, and nothing said how much.
        let used = |input, output| Usage { input, output, ..Usage::default() };
        let start =
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}});
        let more = json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 30}});
        check(&anthropic::Messages, &[start, more], &[used(9, 1), used(9, 30)]);

        let frame = |text: &str, output: u64| {
            json!({"candidates": [{"content": {"parts": [{"text": text}]}}],
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": output}})
        };
        check(
            &gemini::GenerateContent,
            &[frame("a", 2), frame("b", 2), frame("c", 3)],
            &[used(9, 2), used(9, 3)],
        );

        let chat = openai_chat::Chat { dialect: openai_chat::ChatDialect::Compatible };
        let counts = json!({"prompt_tokens": 9, "completion_tokens": 2});
        check(&chat, &[json!({"choices": [], "usage": counts})], &[used(9, 2)]);

        let counts = json!({"input_tokens": 9, "output_tokens": 0});
        let begun = json!({"type": "response.in_progress", "response": {"usage": counts}});
        check(&openai_responses::Responses, &[begun], &[used(9, 0)]);
    }
}
