//! Everyday work in fixture projects: each line does in the sandbox what it does without, and needs nothing but `bash`.
//!
//! It runs in a process of its own, with the home folder and the variables of a person whose caches are warm. Nothing
//! of it is fetched: the crate is in the registry of whoever built this test, the other packages are made here.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use everturn_tools::process::sandbox::{SandboxSettings, ToolPlaces};
use everturn_tools::{Output, Tool as _};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{EnclosedBash, all, enclosed_by, require_whole};
use crate::bash::{PATIENCE, quick};
use crate::harness::Project;

/// The variable that tells the process that does the work from the one that prepares it.
const INSIDE: &str = "EVERYDAY_TEST_INSIDE";

/// A crate that everything here depends on, so that it is in the registry.
const CRATE: &str = "cfg-if";

/// Files of the fixture projects.
const FILES: [(&str, &str); 23] = [
    (
        "rust/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n\
         helper = { path = \"helper\" }\ncfg-if = \"1\"\n",
    ),
    (
        "rust/src/main.rs",
        "fn main() {\n    cfg_if::cfg_if! {\n        if #[cfg(unix)] { println!(\"{}\", helper::twice(21)) }\n    }\n}\n",
    ),
    ("rust/helper/Cargo.toml", "[package]\nname = \"helper\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    (
        "rust/helper/src/lib.rs",
        "pub fn twice(number: u32) -> u32 {\n    2 * number\n}\n\n#[test]\nfn it_works() {\n    assert_eq!(twice(2), 4);\n}\n",
    ),
    (
        "node/package.json",
        r#"{"name": "app", "version": "1.0.0", "private": true, "dependencies": {"tiny": "1.0.0"},
            "scripts": {"test": "node test.js", "build": "mkdir -p dist && cp test.js dist/"}}"#,
    ),
    ("node/test.js", "require('assert').strictEqual(require('tiny'), 7); console.log('passed');\n"),
    (
        "node/tiny/package.json",
        r#"{"name": "tiny", "version": "1.0.0", "bin": {"tiny": "bin.js"}, "main": "main.js"}"#,
    ),
    ("node/tiny/main.js", "module.exports = 7;\n"),
    ("node/tiny/bin.js", "#!/usr/bin/env node\nconsole.log('tiny');\n"),
    (
        "node/lock.js",
        "const fs = require('fs');\n\
         const hash = require('crypto').createHash('sha512').update(fs.readFileSync('tiny-1.0.0.tgz'));\n\
         const tiny = {version: '1.0.0', resolved: 'https://registry.npmjs.org/tiny/-/tiny-1.0.0.tgz',\n\
             integrity: 'sha512-' + hash.digest('base64'), bin: {tiny: 'bin.js'}};\n\
         const packages = {'': {name: 'app', version: '1.0.0', dependencies: {tiny: '1.0.0'}}, 'node_modules/tiny': tiny};\n\
         const lock = {name: 'app', version: '1.0.0', lockfileVersion: 3, requires: true, packages};\n\
         fs.writeFileSync('package-lock.json', JSON.stringify(lock));\n",
    ),
    (
        "node/server.js",
        "const fs = require('fs');\n\
         const server = require('http').createServer((request, response) => response.end('hello\\n'));\n\
         server.listen(0, '127.0.0.1', () => {\n\
             fs.writeFileSync('port.new', String(server.address().port));\n\
             fs.renameSync('port.new', 'port');\n\
         });\n",
    ),
    (
        "python/wheel.py",
        "import zipfile\n\
         info = 'demo-1.0.dist-info/'\n\
         files = {'demo.py': 'def main():\\n    print(\"demo\")\\n',\n\
             info + 'METADATA': 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n',\n\
             info + 'WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',\n\
             info + 'entry_points.txt': '[console_scripts]\\ndemo = demo:main\\n'}\n\
         files[info + 'RECORD'] = ''.join(name + ',,\\n' for name in [*files, info + 'RECORD'])\n\
         with zipfile.ZipFile('demo-1.0-py3-none-any.whl', 'w') as wheel:\n\
         \x20   for name, text in files.items():\n\
         \x20       wheel.writestr(name, text)\n",
    ),
    ("python/calc.py", "def add(a, b):\n    return a + b\n"),
    (
        "python/test_calc.py",
        "import unittest\n\nimport calc\n\n\nclass Case(unittest.TestCase):\n    def test_add(self):\n        \
         self.assertEqual(calc.add(1, 2), 3)\n",
    ),
    (
        "c/Makefile",
        "all: hello\nhello: hello.o part.o\n\t$(CC) -o $@ $^\n%.o: %.c\n\t$(CC) -g -c -o $@ $<\ncheck: all\n\t./hello | grep -q hello\n\
         clean:\n\trm -f hello *.o\n",
    ),
    (
        "c/hello.c",
        "#include <stdio.h>\nint part(void);\nint main(void) { puts(\"hello\"); return part(); }\n",
    ),
    ("c/part.c", "int part(void) { return 0; }\n"),
    ("git/a.txt", "one\n"),
    ("git/AGENTS.md", "Be good.\n"),
    ("git/src/code.txt", "line\n"),
    ("lib/x.txt", "x\n"),
    ("text/data.csv", "b,2\na,1\n"),
    ("text/data.json", "{\"a\": [1, 2]}\n"),
];

/// What makes the rest of the fixture projects, in both without a sandbox.
const PREPARATION: [(&str, &str); 4] = [
    (
        "node",
        "cd tiny && npm pack -s --pack-destination .. > /dev/null && cd .. && npm cache add tiny-1.0.0.tgz && \
         node lock.js && rm -r tiny tiny-1.0.0.tgz lock.js",
    ),
    ("python", "python3 wheel.py && rm wheel.py"),
    (
        "lib",
        "git init -qb main && git add . && git commit -qm one && echo y > y.txt && git add . && git commit -qm two",
    ),
    (
        "git",
        "git init -qb main && git -c protocol.file.allow=always submodule --quiet add ../lib mod && git add . && \
         git commit -qm one",
    ),
];

/// The lines, each with the folder that it runs in.
const LINES: [(&str, &str); 82] = [
    // Cargo, with a crate from the registry and one by its path.
    ("rust", "cargo build -q && ls target/debug/app"),
    ("rust", "cargo run -q"),
    ("rust", "cargo test -q --workspace 2>&1 | grep -c '^test result: ok'"),
    ("rust", "cargo test -q -p helper 2>&1 | grep '^running'"),
    ("rust", "cargo check -q && cargo build -q --release && ./target/release/app"),
    ("rust", "cargo tree --prefix none --charset ascii | cut -d' ' -f1"),
    ("rust", "cargo metadata --no-deps --format-version 1 | head -c 12"),
    (
        "rust",
        "echo 'fn broken(' >> src/main.rs; cargo build -q 2>&1 | grep -c '^error'; sed -i '$d' src/main.rs",
    ),
    ("rust", "rustc --version && rustc --print sysroot > /dev/null && cargo --version"),
    ("rust", "cargo new -q --vcs none --lib ../fresh && ls ../fresh"),
    (
        "fresh",
        "cargo add -q --path ../rust/helper 2>&1 && cargo add -q cfg-if@1 && cargo build -q && grep -c = Cargo.toml",
    ),
    ("rust", "cargo clean -q && ls"),
    // npm, with a warm cache.
    ("node", "npm ci --silent && ls node_modules"),
    ("node", "npm test --silent"),
    ("node", "npm run --silent build && ls dist"),
    ("node", "npx --no-install tiny"),
    ("node", "npm ls --depth=0"),
    ("node", "npm pack --silent && tar tzf app-1.0.0.tgz | sort"),
    ("node", "npm version --no-git-tag-version patch"),
    (
        "node",
        "node -e \"console.log(require('child_process').spawnSync('echo', ['spawned']).stdout.toString())\"",
    ),
    (
        "node",
        "node -e \"require('fs').writeFileSync('out.txt', 'x'); console.log(require('os').cpus().length > 0)\"",
    ),
    ("node", "node --test test.js > /dev/null; echo $?"),
    ("node", "npm config get cache | xargs basename"),
    ("node", "rm -rf node_modules dist out.txt app-1.0.0.tgz && npm ci --silent && npm test --silent"),
    // Python: an environment, a package, tests.
    ("python", "python3 -m venv .venv && ls .venv/bin | grep -x -e pip -e python3"),
    ("python", ".venv/bin/pip install -q --no-index --find-links . demo && .venv/bin/demo"),
    ("python", ".venv/bin/pip list --format=freeze --disable-pip-version-check | grep demo"),
    ("python", ".venv/bin/python -c 'import demo, sys; print(sys.prefix != sys.base_prefix)'"),
    ("python", ".venv/bin/pip uninstall -q -y demo && .venv/bin/pip show demo 2>&1 | head -1"),
    (
        "python",
        "if python3 -c 'import pytest' 2> /dev/null; then python3 -m pytest -q > /dev/null; \
         else python3 -m unittest -q 2> /dev/null; fi; echo $?",
    ),
    ("python", "python3 -m compileall -q calc.py && ls"),
    ("python", "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'"),
    (
        "python",
        "python3 -c 'import sqlite3; c = sqlite3.connect(\"t.db\"); c.execute(\"create table t(a)\"); print(c.total_changes)'",
    ),
    (
        "python",
        "python3 -c 'import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b\"x\"); print(f.tell())'",
    ),
    ("python", "python3 -m zipfile -l demo-1.0-py3-none-any.whl | wc -l"),
    // C: make, a compiler, a debugger.
    ("c", "make -s -j2 && ./hello"),
    ("c", "make -s check; echo $?"),
    ("c", "make -s clean && ls"),
    ("c", "cc -g -O1 -o hello hello.c part.c && ./hello && nm hello | grep -c ' T main'"),
    (
        "c",
        "if command -v gdb > /dev/null; then gdb -q --batch -ex run -ex quit ./hello 2>&1 | grep -c -x hello; fi",
    ),
    ("c", "if command -v strace > /dev/null; then strace -o t ./hello && tail -1 t; fi"),
    // Git: history, worktrees, submodules.
    ("git", "git status --short --branch"),
    ("git", "echo two >> a.txt && git diff --stat | tail -1"),
    ("git", "git add -A && git commit -qm two && git log --oneline"),
    ("git", "git commit -q --amend -m 'two again' && git log -1 --format='%h %s'"),
    ("git", "git checkout -qb side && echo side > s.txt && git add s.txt && git commit -qm side"),
    ("git", "git checkout -q main && echo main > m.txt && git add m.txt && git commit -qm main"),
    ("git", "git checkout -q side && git rebase -q main && git log --format=%s"),
    ("git", "git checkout -q main && git merge -q --ff-only side && git log --format=%h | wc -l"),
    (
        "git",
        "echo dirty >> a.txt && git stash -q && git status --short && git stash pop -q && git status --short",
    ),
    ("git", "git restore a.txt && git status --short"),
    (
        "git",
        "git switch -qc topic && git mv src/code.txt code.txt && git commit -qm move && git show --stat --format=%s | head -1",
    ),
    ("git", "git switch -q main && git cherry-pick topic > /dev/null && git log -1 --format='%h %s'"),
    ("git", "git revert --no-edit HEAD > /dev/null && git log -1 --format=%s"),
    ("git", "git branch -D -q topic side && git branch --list"),
    ("git", "git tag v1 && git describe --tags"),
    ("git", "git worktree add -q -b wt tree && git -C tree log -1 --format=%s && ls -A tree"),
    (
        "git",
        "echo w > tree/w.txt && git -C tree add w.txt && git -C tree commit -qm worktree && git log -1 --format=%s wt",
    ),
    ("git", "git worktree list | wc -l && git worktree remove tree && git branch -q -D wt && ls"),
    (
        "git",
        "git -C mod checkout -q HEAD~1 && git submodule --quiet update && git submodule status | cut -c1-12",
    ),
    (
        "git",
        "git clone -q --bare . ../clone && git -C ../clone log -1 --format=%s && git -C ../clone config user.email x@y",
    ),
    ("git", "rm -rf ../clone && git grep -n two"),
    ("git", "git blame -s a.txt | tail -1 | cut -d' ' -f2-"),
    ("git", "git format-patch -q -1 -o patches && ls patches && git clean -qfd patches"),
    ("git", "git archive HEAD | tar t | sort | head -3"),
    ("git", "git reset -q --hard HEAD~1 && git log -1 --format=%s"),
    ("git", "git gc -q && git fsck 2> /dev/null; git count-objects | cut -d' ' -f1"),
    ("git", "git init -q ../another && git -C ../another status --short && rm -r ../another"),
    // The rest of a day.
    ("text", "sort data.csv | awk -F, '{ print $2 }' | paste -sd+ | bc 2> /dev/null || sort data.csv"),
    ("text", "grep -rn a . | sort | head -2; sed -i s/a/z/ data.csv && cat data.csv"),
    ("text", "find . -name '*.json' -exec cat {} +"),
    ("text", "python3 -m json.tool data.json | head -1"),
    ("text", "tar czf t.tgz data.csv && tar tzf t.tgz && rm t.tgz"),
    (
        "text",
        "cp -a data.csv copy.csv && diff data.csv copy.csv && mv copy.csv moved.csv && rm moved.csv && ls",
    ),
    ("text", "touch -d 2020-01-01 old && find . -newermt 2021-01-01 -name old; rm old"),
    ("text", "ln -s data.csv link && readlink -f link | xargs basename && rm link"),
    ("text", "f=$(mktemp) && echo x > $f && wc -l < $f && rm $f"),
    ("text", "seq 5 | xargs -n1 -P2 echo | sort -r | head -1"),
    ("text", "timeout 5 bash -c 'echo in time' && (sleep 0 & wait) && echo done"),
    ("text", "ps -o comm= -p $$ && id -un && uname -s && df . > /dev/null && du -s . > /dev/null"),
    ("text", "mkdir -p a/b && (cd a/b && pwd | xargs basename) && rmdir -p a/b"),
    ("text", "printf '%s\\n' '#!/bin/sh' 'echo ran' > run.sh && chmod +x run.sh && ./run.sh && rm run.sh"),
];

/// A fixture project and the tool that works in it.
struct Workplace {
    project: Project,
    tool: EnclosedBash,
}

impl Workplace {
    fn new(home: &Path, tool: EnclosedBash) -> Self {
        let mut project = Project::new();
        Arc::get_mut(&mut project.scope).unwrap().home = home.to_owned();
        for (name, text) in FILES {
            project.file(name, text);
        }
        Self { project, tool }
    }

    async fn run(&self, tool: &EnclosedBash, folder: &str, line: &str) -> Output {
        let input = input(folder, line);
        self.project.run(tool, input).await.unwrap_or_else(|failure| panic!("{line}: {failure:?}"))
    }

    /// What a line printed and how it ended, wherever the project lies.
    async fn result(&self, folder: &str, line: &str) -> (String, Value) {
        let output = self.run(&self.tool, folder, line).await;
        let base = self.project.outside().display().to_string();
        (output.output.replace(&base, "BASE"), output.metadata["exit"].clone())
    }
}

fn input(folder: &str, line: &str) -> Value {
    json!({ "command": line, "description": "a test", "workdir": folder })
}

/// The folder on the `PATH` with a program.
fn folder_of(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut folders = std::env::split_paths(&path);
    folders
        .find(|folder| folder.join(program).is_file())
        .unwrap_or_else(|| panic!("{program} is not installed"))
}

/// The home folder of a person who has worked before, and the variables that she has.
fn prepare(home: &Path) -> Vec<(String, String)> {
    let own = std::env::home_dir().unwrap();
    let place =
        |name: &str, usual: &str| std::env::var_os(name).map_or_else(|| own.join(usual), PathBuf::from);
    fs::create_dir_all(home.join(".cargo")).unwrap();
    fs::create_dir_all(home.join(".npm")).unwrap();
    fs::write(home.join(".cargo/config.toml"), "[net]\noffline = true\n").unwrap();
    fs::write(home.join(".gitconfig"), "[user]\n\tname = A\n\temail = a@b\n").unwrap();
    warm_registry(&place("CARGO_HOME", ".cargo").join("registry"), &home.join(".cargo/registry"));

    let tools = ["cargo", "node", "npm"].map(folder_of);
    let system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let path = std::env::join_paths(tools.into_iter().chain(system.map(PathBuf::from))).unwrap();
    let date = "2024-01-01T00:00:00Z";
    let mut variables: Vec<(String, String)> = [
        ("HOME", home.to_str().unwrap()),
        ("PATH", path.to_str().unwrap()),
        ("RUSTUP_HOME", place("RUSTUP_HOME", ".rustup").to_str().unwrap()),
        ("LANG", "C.UTF-8"),
        ("GIT_AUTHOR_DATE", date),
        ("GIT_COMMITTER_DATE", date),
        ("npm_config_audit", "false"),
        ("npm_config_fund", "false"),
        ("npm_config_offline", "true"),
        ("npm_config_update_notifier", "false"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let toolchain = std::env::var_os("RUSTUP_TOOLCHAIN").and_then(|value| value.into_string().ok());
    variables.extend(toolchain.map(|toolchain| ("RUSTUP_TOOLCHAIN".to_owned(), toolchain)));
    variables
}

/// Takes a crate, as it was downloaded, and what the index says of it from one registry to another.
fn warm_registry(from: &Path, to: &Path) {
    let is_wanted = |name: &str| name.strip_prefix(CRATE).is_some_and(|rest| rest.starts_with("-1."));
    let caches =
        fs::read_dir(from.join("cache")).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let mut copied = 0;
    for cache in caches.map(|entry| entry.unwrap().file_name()) {
        let (cache, index) = (Path::new("cache").join(&cache), Path::new("index").join(&cache));
        let crates = fs::read_dir(from.join(&cache)).unwrap().map(|entry| entry.unwrap().file_name());
        let wanted = crates.filter(|name| name.to_str().is_some_and(is_wanted)).map(|name| cache.join(name));
        let about = [index.join("config.json"), index.join(".cache/cf/g-").join(CRATE)];
        for path in wanted.chain(about).filter(|path| from.join(path).is_file()) {
            fs::create_dir_all(to.join(&path).parent().unwrap()).unwrap();
            fs::copy(from.join(&path), to.join(&path)).unwrap();
            copied += 1;
        }
    }
    assert!(copied >= 3, "{CRATE} is not in the registry {}", from.display());
}

#[test]
fn everyday_work_is_the_same_and_needs_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(work());
    }
    require_whole();
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap().join("home");
    let variables = prepare(&home);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "sandbox::everyday::everyday_work_is_the_same_and_needs_nothing",
        "--nocapture",
    ]);
    let done = command.env_clear().envs(variables).env(INSIDE, "1").output().unwrap();
    let (said, log) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{said}\n{log}");
}

async fn work() {
    let home = std::env::home_dir().unwrap();
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let ToolPlaces { readable, writable, programs } = ToolPlaces::of(variables, &home);
    let sandbox =
        SandboxSettings { parts: all(), readable, writable, programs, ..SandboxSettings::default() };
    let walled = Workplace::new(&home, enclosed_by(sandbox));
    let plain = Workplace::new(&home, quick().into());
    for (folder, line) in PREPARATION {
        for side in [&walled, &plain] {
            let output = side.run(&quick().into(), folder, line).await;
            assert_eq!(output.metadata["exit"], 0, "{line}: {}", output.output);
        }
    }
    let mut trouble = Vec::new();
    for (folder, line) in LINES {
        let needs = walled.tool.needs(&input(folder, line), &walled.project.scope).unwrap();
        let needs: Vec<&str> = needs.iter().map(|need| need.permission.as_str()).collect();
        // In the sandbox first, so that nothing is there that it had to make itself.
        let (found, expected) = (walled.result(folder, line).await, plain.result(folder, line).await);
        if found != expected || needs != ["bash"] {
            trouble.push(format!(
                "{folder}: {line}\n  sandbox: {found:?}\n  plain:   {expected:?}\n  needs {needs:?}"
            ));
        }
    }
    // Without a sandbox the rules about the network are asked, which allow it unless somebody says otherwise.
    for (side, expected) in [(&plain, &["network", "bash"][..]), (&walled, &["bash"])] {
        trouble.extend(serve(side, expected).await.err());
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

/// A development server in the background answers a later command and somebody outside, until it is stopped.
async fn serve(side: &Workplace, expected: &[&str]) -> Result<(), String> {
    let job =
        json!({ "command": "node server.js", "description": "serve", "workdir": "node", "background": true });
    let started = side.project.run(&side.tool, job).await.map_err(|failure| format!("{failure:?}"))?;
    let port = timeout(PATIENCE, async {
        loop {
            match fs::read_to_string(side.project.path("node/port")) {
                Ok(port) => return port,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    });
    let port = port.await.map_err(|_| "the server did not start".to_owned())?;
    let line = format!("curl -sS http://127.0.0.1:{port}/");
    let needs = side.tool.needs(&input("node", &line), &side.project.scope).unwrap();
    let answer = side.result("node", &line).await;
    let mut outside = TcpStream::connect(format!("127.0.0.1:{port}")).map_err(|error| error.to_string())?;
    outside.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut said = String::new();
    outside.read_to_string(&mut said).map_err(|error| error.to_string())?;
    let pid = started.metadata["pid"].as_i64().unwrap();
    let stopped = side.result("node", &format!("kill {pid}")).await;
    let permissions: Vec<&str> = needs.iter().map(|need| need.permission.as_str()).collect();
    let good = answer == ("hello\n".to_owned(), json!(0))
        && said.ends_with("\r\n\r\nhello\n")
        && stopped.1 == json!(0)
        && permissions == expected;
    if good { Ok(()) } else { Err(format!("a server: {answer:?}, {said:?}, {stopped:?}, {permissions:?}")) }
}
