//! A server that keeps everything that it is sent.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a connection is listened to on which nothing more comes.
const QUIET: Duration = Duration::from_millis(300);

/// A server at which nobody is supposed to call.
#[derive(Debug)]
pub(super) struct CaptureServer {
    address: String,
    taken: Arc<Mutex<Vec<String>>>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CaptureServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (taken, ending) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, told) = (Arc::clone(&taken), Arc::clone(&ending));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                let text = stream.map_or_else(|error| error.to_string(), listen);
                kept.lock().unwrap().push(text);
            }
        });
        Self { address, taken, ending, thread: Some(thread) }
    }

    /// Its host and port.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// What each connection brought.
    pub(super) fn taken(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }
}

/// Takes what comes, and refuses it politely.
fn listen(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let (mut taken, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count) = stream.read(&mut piece) {
        taken.extend_from_slice(&piece[..count]);
        if count == 0 || taken.len() > 1024 * 1024 {
            break;
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    String::from_utf8_lossy(&taken).into_owned()
}

impl Drop for CaptureServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(&self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
