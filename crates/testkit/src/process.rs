//! The real `everturn` binary as a child, with its own home, that can be killed and restarted on the same data.
//!
//! The child sees none of the user's settings: its environment is cleared except for `PATH`. It is ready when it has
//! printed where it listens and a connection to that place can be made; nothing here sleeps for a fixed time.

mod output;

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::deadline::within;
use crate::{Client, config};
use output::ChildOutput;

/// How the server is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The configuration, as in [`crate::opencode_config`].
    pub config: Value,
    /// The password; none leaves the server open.
    pub password: Option<String>,
    /// Where it is started; its home if not given.
    pub directory: Option<PathBuf>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
}

impl ServerOptions {
    /// A server whose model is at `base_url`, with a password.
    pub fn with_model(base_url: &str) -> Self {
        Self {
            config: config::opencode_config(base_url),
            password: Some("test-password".to_owned()),
            directory: None,
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }
}

/// A running server. It is killed when dropped, and its data are removed.
#[derive(Debug)]
pub struct EverturnServer {
    binary: PathBuf,
    options: ServerOptions,
    home: TempDir,
    running: Option<RunningServer>,
    output: ChildOutput,
}

#[derive(Debug)]
struct RunningServer {
    child: Child,
    pid: Pid,
    base_url: String,
}

impl EverturnServer {
    /// Starts `binary` and waits until it can be reached.
    ///
    /// # Panics
    ///
    /// When it cannot be started or does not get ready; the message holds what it printed.
    pub async fn start(binary: &Path, options: ServerOptions) -> Self {
        let home = TempDir::with_prefix("everturn-home-").expect("a temporary folder");
        for folder in ["data", "config", "state", "cache", "tmp"] {
            std::fs::create_dir(home.path().join(folder)).expect("a folder in the home");
        }
        let mut server =
            Self { binary: binary.to_owned(), options, home, running: None, output: ChildOutput::default() };
        server.launch().await;
        server
    }

    /// Where it listens, without a slash at the end.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn base_url(&self) -> &str {
        &self.running.as_ref().expect("the server runs").base_url
    }

    /// The value of the `authorization` header, if there is a password.
    pub fn auth_header(&self) -> Option<String> {
        let password = self.options.password.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("opencode:{password}"))))
    }

    /// A client that is logged in.
    ///
    /// # Panics
    ///
    /// When the server does not run.
    pub fn client(&self) -> Client {
        let client = Client::new(self.base_url());
        match self.auth_header() {
            Some(value) => client.with_header("authorization", &value),
            None => client,
        }
    }

    /// Its home. Data are in `data`, configuration in `config`, and so on.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its process id.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub fn pid(&self) -> i32 {
        self.running.as_ref().expect("the server runs").pid.as_raw_nonzero().get()
    }

    /// What all runs printed on standard output so far.
    pub fn stdout(&self) -> String {
        self.output.stdout()
    }

    /// What all runs printed on standard error so far.
    pub fn stderr(&self) -> String {
        self.output.stderr()
    }

    /// The options, to be changed before a restart.
    pub fn options_mut(&mut self) -> &mut ServerOptions {
        &mut self.options
    }

    /// Kills the server process with `SIGKILL`, as a crash would, and waits until it is gone. Processes it started
    /// are left alone.
    ///
    /// # Panics
    ///
    /// When it does not run.
    pub async fn kill9(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        running.child.start_kill().expect("the server can be killed");
        let ended = within("the killed server to end", running.child.wait()).await;
        ended.expect("the server's end");
    }

    /// Asks the server to end with `SIGTERM` and waits until it has.
    ///
    /// # Panics
    ///
    /// When it does not run or does not end.
    pub async fn stop(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("the server runs");
        kill_process(running.pid, Signal::TERM).expect("the server can be signalled");
        let ended = within("the server to end", running.child.wait()).await;
        ended.expect("the server's end")
    }

    /// Waits for the server to end by itself.
    ///
    /// # Panics
    ///
    /// When it does not run or does not end.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("the server runs");
        within("the server to end by itself", running.child.wait()).await.expect("the server's end")
    }

    /// Starts it again on the same data, killing it first if it runs. The address changes.
    ///
    /// # Panics
    ///
    /// When it does not get ready.
    pub async fn restart(&mut self) {
        if self.running.is_some() {
            self.kill9().await;
        }
        self.launch().await;
    }

    async fn launch(&mut self) {
        config::write(&self.home.path().join("opencode.json"), &self.options.config);
        let mut child = self.command().spawn().unwrap_or_else(|cause| {
            panic!("{} cannot be started: {cause}", self.binary.display());
        });
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.expect("the id of a process that runs");
        let address = self.output.follow(&mut child).await;
        let Some(base_url) = address else {
            let status = within("the server to end", child.wait()).await;
            panic!("the server ended before it listened: {status:?}\n{}\n{}", self.stdout(), self.stderr());
        };
        within(&format!("a connection to {base_url}"), connect(&base_url)).await;
        self.running = Some(RunningServer { child, pid, base_url });
    }

    fn command(&self) -> Command {
        let home = self.home.path();
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--hostname", "127.0.0.1", "--port", "0"]).args(&self.options.arguments);
        command.current_dir(self.options.directory.as_deref().unwrap_or(home));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home).env("TMPDIR", home.join("tmp")).env("LANG", "C.UTF-8");
        for (name, folder) in [
            ("XDG_DATA_HOME", "data"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(name, home.join(folder));
        }
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("RUST_BACKTRACE", "1");
        command.env("OPENCODE_CONFIG", home.join("opencode.json"));
        if let Some(password) = &self.options.password {
            command.env("OPENCODE_SERVER_PASSWORD", password);
        }
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }
}

impl Drop for EverturnServer {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            // A group that is gone already is what we want.
            let _ = kill_process_group(running.pid, Signal::KILL);
        }
    }
}

/// Tries until a connection is made. Each failed try waits for the system's answer, so this does not spin for long.
async fn connect(base_url: &str) {
    let url =
        reqwest::Url::parse(base_url).unwrap_or_else(|cause| panic!("{base_url} is not an address: {cause}"));
    let host = url.host_str().expect("a host in the address");
    let port = url.port_or_known_default().expect("a port in the address");
    while tokio::net::TcpStream::connect((host, port)).await.is_err() {
        tokio::task::yield_now().await;
    }
}
