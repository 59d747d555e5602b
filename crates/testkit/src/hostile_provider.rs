//! Providers that nobody should have to wait for: they hang, drip, or break off every answer.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// What a provider does to everyone who asks.
#[derive(Debug, Clone, Copy)]
pub enum Malice {
    /// It takes the request and says nothing more.
    Hangs,
    /// It says that it lives, over and over.
    Drips,
    /// It breaks off after a word.
    Cuts,
    /// It counts while it answers, and comes to a stop in the first answer.
    Counts,
    /// It counts, and breaks off the first answer before a word.
    CountsAndBreaks,
    /// The same, and it breaks off the second one before it has counted.
    CountsOnceAndBreaks,
    /// It counts, over and over, and says nothing.
    OnlyCounts,
    /// It makes a pause while it searches, and says in its next answer what it found. It speaks Anthropic Messages.
    PausesInSearch,
}

/// A provider over real HTTP.
#[derive(Debug)]
pub struct HostileProvider {
    address: String,
    malice: Malice,
    asked: Arc<AtomicUsize>,
}

impl HostileProvider {
    /// Listens on a free port, until the process ends.
    pub fn start(malice: Malice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}/v1", listener.local_addr().expect("the address it listens on"));
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || drop(answer(client, malice, number)));
            }
        });
        Self { address, malice, asked }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A configuration with this provider and these limits.
    pub fn config(&self, limits: &Value) -> Value {
        let options = json!({"baseURL": self.address, "apiKey": "none"});
        let package = match self.malice {
            Malice::PausesInSearch => "@ai-sdk/anthropic",
            _ => "@ai-sdk/openai-compatible",
        };
        let provider = json!({"npm": package, "options": options, "models": {"one": {}}});
        json!({"provider": {"hostile": provider}, "enabled_providers": ["hostile"], "model": "hostile/one",
            "small_model": "hostile/one", "limits": limits})
    }
}

fn answer(mut client: TcpStream, malice: Malice, number: usize) -> std::io::Result<()> {
    if client.read(&mut vec![0; 256 * 1024])? == 0 {
        return Ok(());
    }
    client.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    match malice {
        Malice::Hangs => std::thread::sleep(Duration::from_secs(60)),
        Malice::Drips => loop {
            client.write_all(b": alive\n\n")?;
            std::thread::sleep(Duration::from_millis(20));
        },
        Malice::Cuts => {
            let delta = json!({"choices": [{"delta": {"content": format!("word{number} ")}}]});
            say(&mut client, &delta)?;
            std::thread::sleep(Duration::from_millis(50));
            client.shutdown(Shutdown::Both)?;
        }
        Malice::Counts if number == 0 => {
            say(&mut client, &json!({"choices": [{"delta": {"content": "one "}}], "usage": counts(900, 1)}))?;
            say(&mut client, &json!({"choices": [{"delta": {"content": "two "}}]}))?;
            std::thread::sleep(Duration::from_secs(60));
        }
        Malice::OnlyCounts => {
            for written in 0.. {
                say(&mut client, &json!({"choices": [], "usage": counts(900, written)}))?;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Malice::PausesInSearch => search(&mut client, number)?,
        Malice::CountsOnceAndBreaks if number == 1 => {
            std::thread::sleep(Duration::from_millis(50));
            client.shutdown(Shutdown::Both)?;
        }
        Malice::CountsAndBreaks | Malice::CountsOnceAndBreaks if number == 0 => {
            say(&mut client, &json!({"choices": [], "usage": counts(900, 0)}))?;
            std::thread::sleep(Duration::from_millis(50));
            client.shutdown(Shutdown::Both)?;
        }
        Malice::Counts | Malice::CountsAndBreaks | Malice::CountsOnceAndBreaks => {
            say(&mut client, &json!({"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}))?;
            say(&mut client, &json!({"choices": [], "usage": counts(1_000, 7)}))?;
            client.write_all(b"data: [DONE]\n\n")?;
        }
    }
    Ok(())
}

/// A search that two answers are needed for.
fn search(client: &mut TcpStream, number: usize) -> std::io::Result<()> {
    let usage = json!({"input_tokens": 900, "output_tokens": 5});
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "one",
        "content": [], "stop_reason": null, "usage": usage});
    let found = json!({"type": "web_search_result", "url": "https://example.org/", "title": "Example",
        "encrypted_content": "found it", "page_age": null});
    let (blocks, reason) = if number == 0 {
        let call =
            json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}});
        (vec![call], "pause_turn")
    } else {
        let result = json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [found]});
        (vec![result, json!({"type": "text", "text": "done"})], "end_turn")
    };
    say(client, &json!({"type": "message_start", "message": message}))?;
    for (index, block) in blocks.iter().enumerate() {
        say(client, &json!({"type": "content_block_start", "index": index, "content_block": block}))?;
        say(client, &json!({"type": "content_block_stop", "index": index}))?;
    }
    say(client, &json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}))?;
    say(client, &json!({"type": "message_stop"}))
}

fn say(client: &mut TcpStream, frame: &Value) -> std::io::Result<()> {
    client.write_all(format!("data: {frame}\n\n").as_bytes())
}

fn counts(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output})
}
