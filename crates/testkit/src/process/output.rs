//! What a child prints, kept for messages, and the line in which it says where it listens.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use crate::deadline::within;

/// What stands before the address.
const LISTENING: &str = "listening on ";

/// Both outputs of a child, over all its runs.
#[derive(Debug, Default)]
pub(super) struct ChildOutput {
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl ChildOutput {
    pub(super) fn stdout(&self) -> String {
        self.stdout.lock().expect("no reader panicked").clone()
    }

    pub(super) fn stderr(&self) -> String {
        self.stderr.lock().expect("no reader panicked").clone()
    }

    /// Reads both outputs in the background and waits for the address; `None` if the output ended without one.
    pub(super) async fn follow(&self, child: &mut Child) -> Option<String> {
        let (sender, mut lines) = mpsc::unbounded_channel();
        let stdout = child.stdout.take().expect("a piped output");
        let stderr = child.stderr.take().expect("a piped error output");
        tokio::spawn(copy(stderr, Arc::clone(&self.stderr), None));
        tokio::spawn(copy(stdout, Arc::clone(&self.stdout), Some(sender)));
        let address = async {
            while let Some(line) = lines.recv().await {
                if let Some((_, address)) = line.split_once(LISTENING) {
                    return address
                        .split_whitespace()
                        .next()
                        .map(|address| address.trim_end_matches('/').to_owned());
                }
            }
            None
        };
        within("the server to say where it listens", address).await
    }
}

async fn copy(
    source: impl AsyncRead + Unpin,
    text: Arc<Mutex<String>>,
    lines: Option<mpsc::UnboundedSender<String>>,
) {
    let mut source = BufReader::new(source);
    let mut line = Vec::new();
    while source.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
        let piece = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        text.lock().expect("no reader panicked").push_str(&piece);
        if let Some(lines) = &lines {
            // Nobody listens any more once the address is known.
            drop(lines.send(piece));
        }
    }
}
