//! What fields have in common: processes, ports and sockets of the machine, each with a canary.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::canary;

/// How long a line that connected may take to send something.
const PATIENCE: Duration = Duration::from_secs(2);

/// The part of the machine that fields share: processes, ports and sockets.
#[derive(Debug)]
pub struct HostileMachine {
    /// What stands in the canaries of this machine for the place.
    pub(super) name: &'static str,
    pub(super) folder: TempDir,
    /// A process with a key in its environment, as the server was.
    pub(super) server: Child,
    /// A port that says a canary.
    pub(super) port: u16,
    /// A port that takes what it is sent.
    pub(super) capture: u16,
    pub(super) abstract_name: String,
    captured: Arc<Mutex<Vec<u8>>>,
}

/// What of a connection is done.
type PortConversation = Box<dyn Fn(TcpStream) + Send>;

fn serve(conversation: PortConversation) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("the listener's address").port();
    thread::spawn(move || listener.incoming().flatten().for_each(conversation));
    port
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.set_read_timeout(Some(PATIENCE)).ok();
    let mut asked = [0; 1024];
    // Whoever leaves, leaves.
    let _ = stream.read(&mut asked);
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}\n").as_bytes());
}

fn greet(listener: UnixListener, text: String) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(text.as_bytes());
        }
    });
}

/// Keeps what comes, and answers whoever speaks HTTP and waits for it.
fn keep(mut stream: TcpStream, kept: &Mutex<Vec<u8>>) {
    stream.set_read_timeout(Some(PATIENCE)).ok();
    let mut piece = [0; 65536];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        let fresh = piece.get(..length).unwrap_or_default();
        kept.lock().expect("no thread panicked").extend_from_slice(fresh);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
}

impl HostileMachine {
    /// Starts everything. `refuses` says of the two ends of a connection whether the port that stands for a server says
    /// nothing there.
    ///
    /// # Panics
    ///
    /// When something cannot be started.
    pub fn start(
        name: &'static str,
        refuses: impl Fn(SocketAddr, SocketAddr) -> bool + Send + 'static,
    ) -> Self {
        let canary = |what: &str| canary(what, name);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path();
        fs::create_dir_all(base.join(".ssh")).expect("a folder");
        fs::write(base.join(".ssh/id_rsa"), canary("key")).expect("a file");
        fs::write(base.join("input"), canary("input")).expect("a file");
        // It ends when we do.
        let server = Command::new("tail")
            .arg0(canary("args"))
            .args(["-f", "/dev/null", "-s", "1", &format!("--pid={}", std::process::id())])
            .env("OPENAI_API_KEY", canary("environ"))
            .current_dir(base)
            .stdin(fs::File::open(base.join("input")).expect("a file"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("tail runs");
        let bind = |name: &str| UnixListener::bind(base.join(name)).expect("a socket");
        greet(bind("docker.sock"), canary("docker"));
        greet(bind("agent.sock"), canary("agent"));
        let abstract_name = base.to_str().expect("a Unicode path").to_owned();
        let address = UnixAddress::from_abstract_name(abstract_name.as_bytes()).expect("a name");
        greet(UnixListener::bind_addr(&address).expect("a socket"), canary("abstract"));
        let captured: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&captured);
        let capture = serve(Box::new(move |stream: TcpStream| {
            let kept = Arc::clone(&kept);
            thread::spawn(move || keep(stream, &kept));
        }));
        let text = canary("port");
        let port = serve(Box::new(move |mut stream: TcpStream| {
            let (peer, local) = (stream.peer_addr(), stream.local_addr());
            if !peer.ok().zip(local.ok()).is_some_and(|(peer, local)| refuses(peer, local)) {
                say(&mut stream, &text);
            }
        }));
        Self { name, folder, server, port, capture, abstract_name, captured }
    }

    /// What was sent to the place where lines send what they found, from a byte on.
    pub(super) fn captured_from(&self, start: usize) -> String {
        let captured = self.captured.lock().expect("no thread panicked");
        String::from_utf8_lossy(captured.get(start..).unwrap_or_default()).into_owned()
    }

    /// How many bytes that is.
    pub(super) fn captured_length(&self) -> usize {
        self.captured.lock().expect("no thread panicked").len()
    }
}
