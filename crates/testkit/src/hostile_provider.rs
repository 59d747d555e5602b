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
}

/// A provider over real HTTP.
#[derive(Debug)]
pub struct HostileProvider {
    address: String,
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
        Self { address, asked }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A configuration with this provider and these limits.
    pub fn config(&self, limits: &Value) -> Value {
        let options = json!({"baseURL": self.address, "apiKey": "none"});
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"one": {}}});
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
        Malice::CountsAndBreaks if number == 0 => {
            say(&mut client, &json!({"choices": [], "usage": counts(900, 0)}))?;
            std::thread::sleep(Duration::from_millis(50));
            client.shutdown(Shutdown::Both)?;
        }
        Malice::Counts | Malice::CountsAndBreaks => {
            say(&mut client, &json!({"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}))?;
            say(&mut client, &json!({"choices": [], "usage": counts(1_000, 7)}))?;
            client.write_all(b"data: [DONE]\n\n")?;
        }
    }
    Ok(())
}

fn say(client: &mut TcpStream, frame: &Value) -> std::io::Result<()> {
    client.write_all(format!("data: {frame}\n\n").as_bytes())
}

fn counts(input: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output})
}
