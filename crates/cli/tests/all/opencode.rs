//! OpenCode's own programs, as installed by `./test`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::stage::{PASSWORD, offline};

const VERSION: &str = "1.18.33";

/// A file of an npm package.
pub(crate) fn package(path: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm").into_os_string();
    let folder = std::env::var_os("EVERTURN_TEST_NPM").unwrap_or_else(default);
    let file = Path::new(&folder).join("node_modules").join(path);
    assert!(file.exists(), "{} is missing: run ./test, which installs it", file.display());
    file
}

/// The `opencode` program. npm may have installed several for this platform; not each of them runs on every processor.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        package("opencode-ai/package.json");
        let platform = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
        let arch = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        };
        let root = package("");
        let programs = ["", "-baseline", "-musl", "-baseline-musl"]
            .map(|variant| root.join(format!("opencode-{platform}-{arch}{variant}/bin/opencode")));
        let home = tempfile::tempdir().expect("a temporary folder");
        let found = programs.into_iter().find(|program| {
            let output = Command::new(program).arg("--version").envs(environment(home.path())).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == VERSION)
        });
        found.unwrap_or_else(|| panic!("no opencode {VERSION} in {} runs: run ./test", root.display()))
    })
}

/// The environment of a client: a home of its own, the password, and no use of the network.
pub(crate) fn environment(home: &Path) -> Vec<(String, String)> {
    let folder = |name: &str| home.join(name).to_str().expect("a Unicode path").to_owned();
    let mut environment = vec![
        ("HOME".to_owned(), folder("")),
        ("TMPDIR".to_owned(), folder("")),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("OPENCODE_SERVER_PASSWORD".to_owned(), PASSWORD.to_owned()),
    ];
    for kind in ["DATA", "CONFIG", "STATE", "CACHE"] {
        environment.push((format!("XDG_{kind}_HOME"), folder(&kind.to_lowercase())));
    }
    environment.extend(offline());
    environment
}

/// The program as a command that sees nothing but its own environment.
pub(crate) fn command(home: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(environment(home)).stdin(Stdio::null()).kill_on_drop(true);
    command
}
