//! A terminal of a fixed size whose keys are pressed and whose screen is read by tmux.
//!
//! Each terminal has a tmux server of its own, so tests disturb neither one another nor the user's own tmux. Waiting
//! is for something to be on the screen; if it does not come, the message shows what was there instead.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use everturn_testkit::deadline::PATIENCE;
use tempfile::TempDir;
use tokio::time::Instant;

const WIDTH: &str = "140";
const HEIGHT: &str = "45";

/// How often the screen is read while something is waited for.
const GLANCE: Duration = Duration::from_millis(40);

/// A running program in a terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Runs `program` in `directory`.
    pub(crate) fn open(
        program: &Path,
        arguments: &[&str],
        environment: &[(String, String)],
        directory: &Path,
    ) -> Self {
        let terminal = Self { folder: TempDir::with_prefix("everturn-tmux-").expect("a temporary folder") };
        let mut words: Vec<String> =
            ["-u", "-f", "/dev/null", "set-option", "-g", "remain-on-exit", "on", ";"]
                .map(str::to_owned)
                .into();
        words.extend(["new-session", "-d", "-x", WIDTH, "-y", HEIGHT, "-c"].map(str::to_owned));
        words.push(directory.to_str().expect("a Unicode path").to_owned());
        // As several words, the command is run as it is, without a shell; nothing of our environment reaches it.
        let path = std::env::var_os("PATH").unwrap_or_default();
        words.extend(["env", "-i", "TERM=xterm-256color"].map(str::to_owned));
        words.push(format!("PATH={}", path.to_str().expect("a Unicode path")));
        words.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
        words.push(program.to_str().expect("a Unicode path").to_owned());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        terminal.tmux(&words.iter().map(String::as_str).collect::<Vec<_>>());
        terminal
    }

    /// Presses keys by their tmux names, such as `Enter`, `C-x` or `Down`.
    pub(crate) fn press(&self, keys: &[&str]) {
        let mut words = vec!["send-keys"];
        words.extend(keys);
        self.tmux(&words);
    }

    /// Types `text` and waits until the screen shows it, once more if it was there already.
    pub(crate) async fn write(&self, text: &str) {
        let shown = |screen: &Screen| screen.text.matches(text).count();
        let before = shown(&self.screen());
        self.tmux(&["send-keys", "-l", "--", text]);
        self.until(&format!("{text:?} to be typed"), |screen| shown(screen) > before).await;
    }

    /// Types `text`, waits until the screen shows it, and presses Enter.
    pub(crate) async fn enter(&self, text: &str) {
        self.write(text).await;
        self.press(&["Enter"]);
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> Screen {
        Screen { text: self.tmux(&["capture-pane", "-p"]) }
    }

    /// Waits until `text` is on the screen.
    pub(crate) async fn shows(&self, text: &str) -> Screen {
        self.until(&format!("the screen to show {text:?}"), |screen| screen.text.contains(text)).await
    }

    /// Waits until the screen fulfils `wanted`.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> Screen {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "waited {PATIENCE:?} for {what}; the screen:\n{}", screen.text);
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until the conversation is exactly `lines`; see [`Screen::conversation`].
    pub(crate) async fn conversation(&self, lines: &[&str]) {
        let what = format!("the conversation to be {lines:#?}");
        self.until(&what, |screen| screen.conversation() == lines).await;
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = self.command(words).unwrap_or_else(|cause| {
            panic!("tmux cannot be run ({cause}): install tmux, or run ./test, which installs it")
        });
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {words:?}: {problem}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn command(&self, words: &[&str]) -> std::io::Result<Output> {
        let mut command = Command::new("tmux");
        command.args(["-L", "everturn-test"]).args(words);
        command.env("TMUX_TMPDIR", self.folder.path()).env("LANG", "C.UTF-8").env_remove("TMUX");
        command.output()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ends the program as well; a server that is gone already is what we want.
        drop(self.command(&["kill-server"]));
    }
}

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Screen {
    text: String,
}

impl Screen {
    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The conversation: the left column above the box at the bottom, without frames, empty lines and durations.
    pub(crate) fn conversation(&self) -> Vec<String> {
        let lines = self.left();
        let framed = |line: &&String| line.starts_with(['┃', '╹']);
        let below = lines.iter().rev().take_while(|line| !framed(line)).count();
        let bottom = lines.iter().rev().skip(below).take_while(framed).count();
        let kept = lines.iter().take(lines.len() - below - bottom);
        let bare = kept.map(|line| without_duration(line.trim_start_matches('┃').trim()));
        bare.filter(|line| !line.is_empty()).collect()
    }

    /// The box at the bottom, line by line, without its frame.
    pub(crate) fn bottom(&self) -> Vec<String> {
        let lines = self.left();
        let framed = |line: &&String| line.starts_with(['┃', '╹']);
        let block: Vec<_> = lines.iter().rev().skip_while(|line| !framed(line)).take_while(framed).collect();
        let bare = block.into_iter().rev().map(|line| line.trim_matches(['┃', '╹', '▀', ' ']).to_owned());
        bare.filter(|line| !line.is_empty()).collect()
    }

    /// The lines without the side bar.
    fn left(&self) -> Vec<String> {
        let cut = |line: &str| line.chars().take(97).collect::<String>().trim().to_owned();
        self.text.lines().map(cut).collect()
    }
}

/// The line under an answer that is complete ends with how long it took.
fn without_duration(line: &str) -> String {
    match line.rsplit_once(" · ") {
        Some((head, tail))
            if line.starts_with('▣') && tail.starts_with(|first: char| first.is_ascii_digit()) =>
        {
            format!("{head} · done")
        }
        _ => line.to_owned(),
    }
}
