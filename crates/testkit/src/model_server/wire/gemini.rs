//! Google Gemini. Arguments of a call come all at once, so a call is held back until the next piece shows that it is
//! complete.

use serde_json::{Value, json};

use super::{
    AnswerFinish, AnswerPiece, AnswerStretch, AnswerUsage, Complaint, EncodeAnswer, MessageRole,
    RequestMessage, WireFormat, gather, google_status, list, plain,
};

pub(super) fn said(body: &Value) -> Vec<RequestMessage> {
    let texts = |content: &Value| {
        let texts = list(content, "parts").iter().filter_map(|part| part.get("text").and_then(Value::as_str));
        texts.collect::<Vec<_>>().join("\n")
    };
    let system = body.get("systemInstruction").map(&texts).unwrap_or_default();
    let said = |content: &Value| {
        let count =
            |field: &str| list(content, "parts").iter().filter(|part| part.get(field).is_some()).count();
        let role = match content.get("role").and_then(Value::as_str) {
            Some("model") => MessageRole::Assistant,
            _ if count("functionResponse") > 0 && count("text") == 0 => MessageRole::Tool,
            _ => MessageRole::User,
        };
        RequestMessage { role, text: texts(content), calls: count("functionCall") }
    };
    let system = RequestMessage { role: MessageRole::System, text: system, calls: 0 };
    std::iter::once(system).chain(list(body, "contents").iter().map(said)).collect()
}

pub(super) struct AnswerEncoder {
    id: String,
    model: Value,
    call: Option<(String, String, String)>,
}

impl AnswerEncoder {
    pub(super) fn new(model: Value, number: u64) -> Self {
        Self { id: format!("gem-{number:08}"), model, call: None }
    }

    fn response(&self, parts: &[Value], finish: Option<AnswerFinish>, used: Option<AnswerUsage>) -> Value {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        let mut response = json!({"responseId": self.id, "modelVersion": self.model});
        if let (Some(finish), Some(fields)) = (finish, candidate.as_object_mut()) {
            fields.insert("finishReason".to_owned(), json!(word(finish)));
        }
        if let Some(fields) = response.as_object_mut() {
            fields.insert("candidates".to_owned(), json!([candidate]));
            if let Some(used) = used {
                fields.insert("usageMetadata".to_owned(), usage(used));
            }
        }
        response
    }

    fn call(&self, id: &str, name: &str, input: &str) -> Value {
        let call = json!({"id": id, "name": name, "args": AnswerStretch::json(input)});
        json!({"functionCall": call, "thoughtSignature": format!("sig-{}", self.id)})
    }

    /// Code that was written and run, once for each id.
    fn hosted(&self, ids: &[String]) -> Vec<Value> {
        let run = |id: &String| {
            let code = json!({"id": id, "language": "PYTHON", "code": format!("print('{id}')")});
            let result = json!({"id": id, "outcome": "OUTCOME_OK", "output": format!("{id}\n")});
            [
                json!({"executableCode": code, "thoughtSignature": format!("sig-{}-{id}", self.id)}),
                json!({"codeExecutionResult": result}),
            ]
        };
        ids.iter().flat_map(run).collect()
    }

    /// Tells the call that is held back.
    fn release(&mut self, out: &mut Vec<String>) {
        if let Some((id, name, input)) = self.call.take() {
            out.push(plain(&self.response(&[self.call(&id, &name, &input)], None, None)));
        }
    }
}

impl EncodeAnswer for AnswerEncoder {
    fn begin(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn piece(&mut self, piece: &AnswerPiece) -> Vec<String> {
        let mut out = Vec::new();
        match piece {
            AnswerPiece::Thought(text) => {
                self.release(&mut out);
                out.push(plain(&self.response(&[json!({"text": text, "thought": true})], None, None)));
            }
            AnswerPiece::Hosted(ids) => {
                self.release(&mut out);
                out.extend(
                    self.hosted(ids)
                        .iter()
                        .map(|part| plain(&self.response(std::slice::from_ref(part), None, None))),
                );
            }
            AnswerPiece::Text(text) => {
                self.release(&mut out);
                out.push(plain(&self.response(&[json!({"text": text})], None, None)));
            }
            AnswerPiece::Call { id, name } => {
                self.release(&mut out);
                self.call = Some((id.clone(), name.clone(), String::new()));
            }
            AnswerPiece::Input(more) => {
                if let Some((_, _, input)) = &mut self.call {
                    input.push_str(more);
                }
            }
        }
        out
    }

    fn fail(&mut self, complaint: &Complaint) -> Vec<String> {
        // Only Google's services say in the middle of a stream which status it would have had.
        vec![plain(&WireFormat::Gemini.error(google_status(&complaint.kind), complaint))]
    }

    fn end(&mut self, finish: AnswerFinish, used: AnswerUsage) -> Vec<String> {
        let mut out = Vec::new();
        self.release(&mut out);
        out.push(plain(&self.response(&[json!({"text": ""})], Some(finish), Some(used))));
        out
    }

    fn whole(&self, pieces: &[AnswerPiece], finish: AnswerFinish, used: AnswerUsage) -> Value {
        let parts = |stretch: AnswerStretch| match stretch {
            AnswerStretch::Thought(text) => vec![json!({"text": text, "thought": true})],
            AnswerStretch::Hosted(ids) => self.hosted(&ids),
            AnswerStretch::Text(text) => vec![json!({"text": text})],
            AnswerStretch::Call { id, name, input } => vec![self.call(&id, &name, &input)],
        };
        let parts: Vec<Value> = gather(pieces).into_iter().flat_map(parts).collect();
        self.response(&parts, Some(finish), Some(used))
    }
}

fn word(finish: AnswerFinish) -> &'static str {
    match finish {
        AnswerFinish::Stop | AnswerFinish::Tools => "STOP",
        AnswerFinish::Length => "MAX_TOKENS",
        AnswerFinish::Refused => "SAFETY",
    }
}

/// Here the reasoning is counted apart from the rest of the output.
fn usage(used: AnswerUsage) -> Value {
    json!({"promptTokenCount": used.input, "cachedContentTokenCount": used.cached,
        "candidatesTokenCount": used.output.saturating_sub(used.reasoning),
        "thoughtsTokenCount": used.reasoning, "totalTokenCount": used.input + used.output})
}
