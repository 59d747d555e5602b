//! Compactions: a conversation goes on with a summary of its beginning, and nothing of it is lost.

mod automatic;
mod failing;
mod requested;

use everturn_engine::compaction::{CompactionRecord, NewCompaction};
use everturn_model::EntryId;
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;

/// A configuration in which the model has a window of so many tokens.
fn window(context: u64, compaction: &Value) -> impl FnOnce(&str) -> Value {
    let compaction = compaction.clone();
    move |url| {
        let mut config = everturn_testkit::opencode_config(url);
        config["provider"]["fake"]["models"]["fake-1"]["limit"] =
            json!({"context": context, "output": 1_000});
        json!({"provider": config["provider"], "compaction": compaction})
    }
}

impl Bench {
    /// Asks for a compaction with these instructions, and waits until it is made.
    async fn compact(&self, instructions: &str) -> EntryId {
        let instructions = Some(instructions.to_owned());
        let new = NewCompaction { instructions, force: true, ..NewCompaction::default() };
        let item = self.engine.compactions().request(&self.session.id, new).await.unwrap();
        within("the session to settle", self.engine.drains().settled(&self.session.id)).await;
        item.id
    }

    async fn ledger(&self) -> Vec<CompactionRecord> {
        self.engine.compactions().ledger(&self.session.id).await.unwrap()
    }

    /// What the newest request had after its instructions: who said what.
    fn said(&self) -> Vec<String> {
        let requests = self.model.requests();
        let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
        messages.iter().filter(|message| message["role"] != "system").map(line).collect()
    }

    /// The requests for a summary.
    fn asked(&self) -> Vec<String> {
        let last = |request: &Value| {
            let messages = request["messages"].as_array().unwrap();
            line(messages.last().unwrap())
        };
        let all = self.model.requests().iter().map(last).collect::<Vec<_>>();
        all.into_iter().filter(|text| text.ends_with("What did we do so far?")).collect()
    }
}

fn line(message: &Value) -> String {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
    let calls = if calls > 0 { format!(" ({calls} calls)") } else { String::new() };
    format!("{}: {content}{calls}", message["role"].as_str().unwrap())
}
