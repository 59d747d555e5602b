//! Lines that leave the project, or may: each names the path outside, or the command whose words cannot be told. And
//! ordinary lines, which do neither.

use everturn_tools::bash::BashTool;
use everturn_tools::process::sandbox::{SandboxPart, SandboxSettings};
use everturn_tools::scope::PathAccess;
use everturn_tools::shell::{Analysis, OPAQUE, UNRESOLVED};
use everturn_tools::{Scope, Tool as _};
use serde_json::json;

use crate::harness::Project;

/// What `curl file:///x` and the like need: `R` and `W` for reading and writing a path, `?` for a command that is not
/// resolved.
const LEAVING: &[(&str, &[&str])] = &[
    // As they were reported.
    ("cut -c1-99 ~/.ssh/x", &["R ~/.ssh/x"]),
    ("d=..; cat $d/x", &["R ..", "? cat $d/x"]),
    ("for f in ../x/*; do cat $f; done", &["R ../x", "? cat $f"]),
    ("xargs cat", &["? cat …"]),
    ("curl file:///x", &["R /x"]),
    ("tee $(echo ../x)", &["? tee $(echo ../x)"]),
    ("git commit -F../x", &["R ../x"]),
    ("curl -d @../x", &["R ../x"]),
    // Programs that no list names, and words that no list knows.
    ("frobnicate ../x", &["R ../x"]),
    ("frobnicate --in ../x", &["R ../x"]),
    ("frobnicate --in=../x", &["R ../x"]),
    ("frobnicate --in=~/x", &["R ~/x"]),
    ("frobnicate -i../x", &["R ../x"]),
    ("frobnicate -vi~/x", &["R ~/x"]),
    ("frobnicate a:../x", &["R ../x"]),
    ("frobnicate a,../x", &["R ../x"]),
    ("frobnicate 'read ../x'", &["R ../x"]),
    ("frobnicate key=@../x", &["R ../x"]),
    ("frobnicate /etc/passwd", &["R /etc/passwd"]),
    ("frobnicate link/x", &["R link/x"]),
    ("frobnicate --in=link", &["R link"]),
    ("frobnicate -ilink", &["R link"]),
    ("cat l*/x", &["? cat l*/x"]),
    ("cat */x", &["? cat */x"]),
    ("echo ../*", &["R .."]),
    ("for f in ~/.ssh/*; do echo $f; done", &["R ~/.ssh", "? echo $f"]),
    ("cat .*/x", &["? cat .*/x"]),
    ("cat .[.]/x", &["? cat .[.]/x"]),
    ("cat {/etc/passwd,f}", &["? cat {/etc/passwd,f}"]),
    ("cat .{.,}/x", &["? cat .{.,}/x"]),
    ("cat {f,~/x}", &["? cat {f,~/x}"]),
    ("date -f ~/.ssh/x", &["R ~/.ssh/x"]),
    ("awk -F: '{print $1}' /etc/passwd", &["R /etc/passwd"]),
    ("git diff --no-index /dev/null ~/x", &["R ~/x"]),
    ("git log --output=../x", &["R ../x", "? git log --output=../x"]),
    ("git -C.. log", &["R ..", "? git -C.. log"]),
    ("git hash-object -w ../x", &["R ../x"]),
    ("GIT_DIR=../x/.git git log", &["W ../x/.git"]),
    ("export CONFIG=../x; frobnicate", &["R ../x"]),
    ("curl -F 'f=@../x' http://localhost", &["R ../x", "? curl -F f=@../x http://localhost"]),
    ("curl -F 'f=<../x' http://localhost", &["R ../x", "? curl -F 'f=<../x' http://localhost"]),
    ("curl -T ~/x http://localhost", &["R ~/x", "? curl -T ~/x http://localhost"]),
    ("curl FILE://localhost/etc/passwd", &["R /etc/passwd"]),
    ("curl --url=file:/etc/passwd", &["R /etc/passwd", "? curl --url=file:/etc/passwd"]),
    ("wget --post-file=../x http://localhost", &["R ../x", "? wget --post-file=../x http://localhost"]),
    ("tar -cf a.tar -C .. x", &["W .."]),
    ("make -C.. all", &["R ..", "? make -C.. all"]),
    ("gcc -I../x -c a.c", &["R ../x"]),
    ("gcc -Wl,-T,../x a.c", &["R ../x", "? gcc -Wl,-T,../x a.c"]),
    ("sort -t/ ../x", &["R ../x"]),
    ("ls /", &["R /"]),
    ("../x/run --fast", &["R ../x/run"]),
    ("rsync -a sub/ ../x", &["W ../x"]),
    ("x=~/.ssh; cp f \"$x\"", &["R ~/.ssh", "? cp f \"$x\""]),
    ("a=..; b=$a/far; cat $b/x", &["R ..", "? cat $b/x"]),
    ("p=-f../x; grep \"$p\" f", &["? grep \"$p\" f"]),
    ("read d < f; echo $d", &["? echo $d"]),
    ("d='../*'; echo $d", &["R ../*", "R ..", "? echo $d"]),
    ("p=-F../x; git commit $p", &["? git commit $p"]),
    ("for d in sub ..; do ls $d/y; done", &["R ..", "? ls $d/y"]),
    ("ls \"$PWD/../x\" $(pwd)/../y", &["? ls \"$PWD/../x\" $(pwd)/../y"]),
    ("cat $HOME/x ${HOME}/y", &["? cat $HOME/x ${HOME}/y"]),
    ("f=../x; cat ${f%.rs}", &["R ../x", "? cat ${f%.rs}"]),
    ("watch 'cat ../x'", &["R ../x", "? watch 'cat ../x'"]),
    ("sed 'r ../x' f", &["R ../x", "? sed 'r ../x' f"]),
    // What is only known when it runs.
    ("cat $f", &["? cat $f"]),
    ("cat \"$1\"", &["? cat \"$1\""]),
    ("cat \"$@\"", &["? cat \"$@\""]),
    ("cat `cat list`", &["? cat `cat list`"]),
    ("cat $(git ls-files)", &["? cat $(git ls-files)"]),
    ("cat /etc/$f", &["R /etc", "? cat /etc/$f"]),
    ("cat $'\\x2e\\x2e/x'", &["? cat $'\\x2e\\x2e/x'"]),
    ("while read -r f; do cat \"$f\"; done < list", &["? cat \"$f\""]),
    ("for f in $(cat list); do cat $f; done", &["? for f in $(cat list)", "? cat $f"]),
    ("f=a; read f < list; cat $f", &["? cat $f"]),
    ("f=a; printf -v f %s ../x; cat $f", &["? printf -v f %s ../x", "? cat $f"]),
    ("f=a; unset f; cat $f/x", &["? cat $f/x"]),
    ("f=a; f+=/..; cat $f/x", &["R /", "? cat $f/x"]),
    ("d=sub; d=$d$e; cat $d/x", &["? cat $d/x"]),
    ("d=$e; cat $d/x", &["? cat $d/x"]),
    ("false && d=sub; cat $d/etc/passwd", &["? cat $d/etc/passwd"]),
    ("d=sub & cat $d/etc/passwd", &["? cat $d/etc/passwd"]),
    ("e=$d/etc/passwd; d=sub; cat $e", &["? cat $e"]),
    ("x='a ../y'; cat $x", &["R ../y", "? cat $x"]),
    ("IFS=:; d=sub:..; cat $d", &["R ..", "? cat $d"]),
    ("cat {-..0}{-..0}/y", &["? cat {-..0}{-..0}/y"]),
    ("cat ..$PWD/x", &["? cat ..$PWD/x"]),
    ("echo $x*", &["? echo $x*"]),
    ("make OUT=$d", &["? make OUT=$d"]),
    ("OUT=$d make", &["? OUT=$d make"]),
    ("curl \"file://$x\"", &["? curl \"file://$x\""]),
    ("curl file:///%2e%2e/x", &["R /%2e%2e/x", "? curl file:///%2e%2e/x"]),
    ("git ls-files | xargs grep x", &["? grep x …"]),
    ("git ls-files | xargs -I{} cat {}", &["? cat {}"]),
    ("xargs -a list cat", &["? xargs -a list cat"]),
    ("ls | parallel cat", &["? parallel cat"]),
    ("ls | cpio -o", &["? cpio -o"]),
    ("tar -cf a.tar -T list", &["? tar -cf a.tar -T list"]),
    ("tar cTf list a.tar", &["? tar cTf list a.tar"]),
    ("rsync --files-from=list . sub", &["? rsync --files-from=list . sub"]),
    ("p=--files0-from=list; wc $p", &["? wc $p"]),
    ("wc --files0-from=list", &["? wc --files0-from=list"]),
    ("git add --pathspec-from-file=list", &["? git add --pathspec-from-file=list"]),
    ("curl -sK list", &["? curl -sK list"]),
    ("python3 -c 'print(1)'", &["? python3 -c 'print(1)'"]),
    ("python3 - < f", &["? python3 -"]),
    ("python3", &["? python3"]),
    ("perl -pe s/a/b/ f", &["? perl -pe s/a/b/ f"]),
    ("node -e x", &["? node -e x"]),
    ("bash -c 'cat f'", &["? bash -c 'cat f'"]),
    ("echo cat f | sh", &["? sh"]),
    ("bash -s x < f", &["? bash -s x"]),
    ("eval 'cat .\\./x'", &["? eval 'cat .\\./x'"]),
    ("awk 'BEGIN { getline l < \"f\" }'", &["? awk 'BEGIN { getline l < \"f\" }'"]),
    ("awk -f x.awk f", &["? awk -f x.awk f"]),
    ("sed 's/a/b/e' f", &["? sed s/a/b/e f"]),
    ("jq -n 'import \"x\" as $x; $x'", &["? jq -n 'import \"x\" as $x; $x'"]),
    ("find . -exec sh -c 'cat $1' _ {} ';'", &["? find . -exec sh -c 'cat $1' _ {} ';'"]),
    ("env -S 'cat f'", &["? env -S 'cat f'"]),
    ("timeout $t cat f", &["? timeout $t cat f"]),
    ("ssh host 'cat $x'", &["? ssh host 'cat $x'"]),
    ("trap 'd=$x' DEBUG; ls", &["? trap 'd=$x' DEBUG"]),
    // Ways around, tried.
    ("p=.; cat $p$p/x", &["? cat $p$p/x"]),
    ("cat {.,}./x", &["? cat {.,}./x"]),
    ("cat sub/../../x ''../y .\\./z", &["R ../x", "R ../y", "R ../z"]),
    ("d=sub; (d=..; cat $d/x)", &["R ..", "? cat $d/x"]),
    ("d=sub e=f; { d=..; }; cat $d/x", &["R ..", "? cat $d/x"]),
    ("d=sub; export d=..; cat $d/x", &["R ..", "? cat $d/x"]),
    ("d=sub; export \"d=..\"; cat $d/x", &["R ..", "? cat $d/x"]),
    ("d=sub; declare -n r=d; r=..; cat $d/x", &["R ..", "? cat $d/x"]),
    ("d=sub; command read d <<< ..; cat $d/x", &["? cat $d/x"]),
    ("unset 'a[$(cat ../x)]'", &["R ../x", "? unset 'a[$(cat ../x)]'"]),
    ("cat \"${PWD%/*}/x\"", &["? cat \"${PWD%/*}/x\""]),
    ("cat ${d:-../x}", &["? cat ${d:-../x}"]),
    ("cat ~+/../x", &["R /"]),
    ("cat /dev/../etc/passwd", &["R /etc/passwd"]),
    ("rg --hidden x ..", &["R .."]),
    ("jq -n --rawfile a ../x '$a'", &["R ../x"]),
    ("yq -P ../x", &["R ../x"]),
    ("jobs -x cat ../x", &["R ../x", "? jobs -x cat ../x"]),
    ("./echo ../x", &["R ../x"]),
    ("f() { cat $1; }; f ../x", &["R ../x", "? cat $1"]),
    ("set -- ../x; cat \"$@\"", &["? set -- ../x", "? cat \"$@\""]),
    ("python3 /dev/stdin <<< x", &["? python3 /dev/stdin"]),
    ("source /dev/stdin <<< x", &["? source /dev/stdin"]),
    ("bash <(printf x)", &["? bash <(printf x)"]),
    ("echo 'r ../x' | ed f", &["? ed f"]),
    ("make -f- < f", &["? make -f-"]),
    ("CDPATH=..; cd sub && ls", &["R .."]),
    ("pwd() { echo ..; }; cat $(pwd)/x", &["? cat $(pwd)/x"]),
    (
        "shopt -s expand_aliases\nalias echo=cat\necho ../x",
        &["? shopt -s expand_aliases", "? alias echo=cat"],
    ),
    ("cat $f; ls; head $f; cat $f", &["? cat $f", "? head $f"]),
];

/// Lines of every day.
const STAYING: &[&str] = &[
    "cargo build",
    "cargo test --workspace --all-features -- --nocapture",
    "cargo test -p everturn-tools shell::",
    "cargo clippy --all-targets -- -D warnings",
    "cargo fmt --all --check && cargo doc --no-deps",
    "RUST_BACKTRACE=1 cargo run --bin tool -- --port 8080 2>&1 | tail -50",
    "CARGO_TARGET_DIR=target/x cargo build --target x86_64-unknown-linux-gnu",
    "cargo add serde --features derive",
    "cargo new sub/y",
    "npm install",
    "npm ci && npm run build && npm test",
    "npm run lint -- --fix src/index.ts",
    "npm install --save-dev @types/node@20 typescript@^5.0.0",
    "yarn test --watch=false",
    "pnpm install --frozen-lockfile",
    "node sub/index.js --port=3000",
    "python3 -m pytest -x -q tests/test_a.py::TestA::test_b",
    "pip install 'requests>=2.0,<3'",
    "python3 x.py --name 'a b' --n 3",
    "go build ./... && go test -run 'TestA|TestB' ./pkg/...",
    "make",
    "mvn -q clean test",
    "./gradlew build",
    "git status --short",
    "git log --oneline -5 --format='%h %s / %an'",
    "git log origin/main..HEAD",
    "git log @{u}..",
    "git diff HEAD~3 -- src/main.rs",
    "git diff HEAD^..HEAD --stat",
    "git show HEAD:src/main.rs",
    "git add -A && git commit -m 'fix: read /etc/hosts and ../x'",
    "git commit -m \"$(cat <<'EOF'\nTitle\n\nBody with /etc and ../x\nEOF\n)\"",
    "git commit --amend --no-edit",
    "git checkout -b feature/x",
    "git stash && git pull --rebase && git stash pop",
    "git push -u origin feature/x",
    "git clone https://example.org/a/b.git sub/b",
    "git remote add fork git@example.org:a/b.git",
    "git blame -L 10,20 src/main.rs",
    "git grep -n 'TODO' -- '*.rs'",
    "gh pr create --title 'a /etc b' --body \"$(cat notes.md)\"",
    "grep -rn 'fn main' src",
    "grep -rn '/usr/bin' src",
    "grep -rnE --include='*.rs' '(a|b)\\.\\.c' .",
    "grep -c x < f",
    "rg -n 'a/../b' src -g '!target'",
    "sed -n '1,20p' src/main.rs",
    "sed -i 's|/usr/bin|/opt|g' src/main.rs",
    "sed -e 's/a/b/' -e '/x/d' f",
    "awk -F/ '{print $2}' f",
    "awk '/usr/ {print $1\"/\"$2}' f",
    "cut -d/ -f1,2 f | sort -t/ -k2 | uniq -c",
    "tr / _ < f",
    "find . -name '*.rs' -not -path './target/*' -newer f",
    "find . \\( -name a -o -name b \\) -print",
    "find . -name \"$x\" -type f",
    "ls -la src/*.rs",
    "wc -l src/*.rs | sort -n | tail -5",
    "cat src/[a-m]*.rs",
    "rm -rf target build *.o",
    "chmod +x sub/run.sh && ./sub/run.sh",
    "tar -czf a.tar.gz sub && tar -tzf a.tar.gz",
    "diff -u f sub/g",
    "diff <(sort f) <(sort sub/g)",
    "jq '.. | .name? // empty' f.json",
    "jq -r '.a[] | \"\\(.b)/\\(.c)\"' f.json",
    "curl -s http://localhost:3000/api/v1/users?x=1",
    "curl -sSf -X POST -H 'Content-Type: application/json' -d '{\"a\": \"b/c\"}' http://localhost:3000/",
    "docker ps -a && docker compose up -d",
    "kubectl get pods -n default -o wide",
    "x=$(git rev-parse HEAD); echo \"at $x\"",
    "url=http://localhost:3000/etc sep=/ range=a/../b..c; echo \"$url$sep\"",
    "if [ -f f ]; then cat f; fi",
    "[[ -d \"$x\" ]] && echo yes",
    "printf '%s\\n' \"$x\" > f",
    "basename \"$f\" .rs; dirname \"$f\"",
    "cat > f <<'EOF'\n/etc/passwd ../x $y\nEOF",
    "cd build && cmake .. && make",
    "cd sub && ls .. && cat ../f",
    "timeout 60 cargo test",
    "time make test > /dev/null 2>&1",
    "date +%Y/%m/%d",
    "tail -c 100 f | base64",
    "gh api /repos/a/b/pulls",
    "which cargo; command -v git; type ls",
    "ps aux | grep node",
];

/// More of them, with something in them that is only known when they run, or that runs other programs: asked about where no
/// sandbox stands around them, and only there.
const STAYING_IN_A_SANDBOX: &[&str] = &[
    "npx tsc --noEmit -p tsconfig.json",
    "npx eslint 'src/**/*.{ts,tsx}'",
    "node --test",
    "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt",
    "make -j$(nproc) all",
    "make -C sub test CFLAGS='-O2 -g'",
    "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release",
    "cmake --build build -j 4",
    "git rebase -i HEAD~3",
    "find src -type f -name '*.o' -delete",
    "ls *.rs sub/**/*.rs",
    "head -n 5 f{1..3}.txt",
    "mkdir -p sub/{a,b}/c && touch sub/{a,b}/c/{1..3}.rs",
    "cp f{,.bak} && mv f.bak sub/",
    "curl -H 'Accept: */*' \"http://localhost:$port/x\"",
    "for f in src/*.rs; do wc -l \"$f\"; done",
    "for f in a.rs b.rs; do cp $f sub/$f.bak; done",
    "for d in sub src; do for f in $d/*.rs; do cat \"$f\"; done; done",
    "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
    "for f in src/*.rs; do echo \"${f##*/}\"; head -1 \"${f##*/}\"; done",
    "for i in 1 2 3; do cargo test -- --seed $i; done",
    "for i in $(seq 1 5); do curl -s http://localhost:3000/$i; done",
    "d=sub; ls $d && cat $d/g",
    "d=src && grep -n x \"$d\"/*.rs",
    "NAME=x; echo $NAME; mkdir -p build/$NAME",
    "echo /etc/passwd ../x ~/y $HOME \"$x\" $?",
    "cat \"$PWD/f\" $(pwd)/sub/g",
    "sleep 1; kill $pid; wait $pid",
    "docker run --rm -v \"$PWD:/no/where\" image npm test",
];

fn project() -> Project {
    let project = Project::new();
    for name in ["f", "sub/g", "src/main.rs", "../far/x", "a.rs", "b.rs"] {
        project.file(name, "");
    }
    std::os::unix::fs::symlink("../far", project.path("link")).unwrap();
    project
}

/// What a line needs, in the words of the table.
fn needed(project: &Project, line: &str) -> Vec<String> {
    let scope = &project.scope;
    let analysis = Analysis::of(line, &scope.directory, scope);
    let named = |path: &std::path::Path| match path.strip_prefix(&scope.home) {
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) if path.starts_with(project.outside()) => scope.relative(path),
        Err(_) => path.display().to_string(),
    };
    let letter = |access: &PathAccess| if *access == PathAccess::Read { "R" } else { "W" };
    let external =
        analysis.external.iter().map(|(path, access)| format!("{} {}", letter(access), named(path)));
    external.chain(analysis.unresolved.iter().map(|command| format!("? {command}"))).collect()
}

#[test]
fn lines_that_may_leave_the_project_say_so() {
    let project = project();
    assert!(LEAVING.len() >= 68);
    let wrong: Vec<_> = LEAVING
        .iter()
        .map(|(line, expected)| (line, expected, needed(&project, line)))
        .filter(|(_, expected, found)| found != *expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn ordinary_lines_stay_in_the_project() {
    let project = project();
    assert!(STAYING.len() >= 60);
    let wrong: Vec<_> = STAYING
        .iter()
        .map(|line| (line, needed(&project, line)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // No path outside is named where the line does not go to one.
    let wrong: Vec<_> = STAYING_IN_A_SANDBOX
        .iter()
        .map(|line| (line, needed(&project, line)))
        .filter(|(_, found)| found.is_empty() || found.iter().any(|need| !need.starts_with("? ")))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the line leaves open the sandbox decides.
#[test]
fn nothing_is_asked_about_ordinary_lines_in_a_sandbox() {
    let project = project();
    let sandbox = SandboxSettings { parts: SandboxPart::ALL.into(), ..SandboxSettings::default() };
    let scope = Scope { sandbox: Some(sandbox), ..Scope::clone(&project.scope) };
    for line in STAYING.iter().chain(STAYING_IN_A_SANDBOX) {
        let needs = BashTool::default().needs(&json!({ "command": line }), &scope).unwrap();
        let named: Vec<&str> = needs.iter().map(|need| &*need.permission).collect();
        assert_eq!(named, ["bash"], "{line}: {needs:?}");
    }
}

/// A line that is not understood may reach anything.
#[test]
fn a_line_that_is_not_understood_is_not_resolved() {
    let project = project();
    for line in ["cat > $f", "$x f", "cat 'f", "for ((;;)); do cat f; done", "cd \"$d\" && cat f"] {
        let analysis = Analysis::of(line, &project.scope.directory, &project.scope);
        assert_eq!(analysis.unresolved, [line], "{line}");
        assert_eq!(analysis.commands.last(), Some(&format!("{OPAQUE}{line}")), "{line}");
    }
}

/// Every line of the table needs the permission before it may run.
#[test]
fn the_tool_needs_a_permission_for_what_is_not_resolved() {
    let project = project();
    for (line, _) in LEAVING {
        let needs = BashTool::default().needs(&json!({ "command": line }), &project.scope).unwrap();
        assert!(needs.iter().any(|need| need.permission == "external_directory"), "{line}: {needs:?}");
    }
    let needs =
        BashTool::default().needs(&json!({ "command": "cat $f; xargs head" }), &project.scope).unwrap();
    let named: Vec<(&str, &[String], &[String])> =
        needs.iter().map(|need| (&*need.permission, &need.patterns[..], &need.always[..])).collect();
    let (one, other) = (format!("{UNRESOLVED}cat $f"), format!("{UNRESOLVED}head …"));
    // With another value the same text is another path, so it is not remembered.
    assert_eq!(named[0], ("external_directory", &[one, other.clone()][..], &[other][..]));
    assert_eq!(named.iter().skip(1).map(|need| need.0).collect::<Vec<_>>(), ["network", "bash"]);
    assert_eq!(needs[0].metadata["command"], "cat $f\nhead …");
}
