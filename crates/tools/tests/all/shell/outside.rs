//! Which paths outside the project a line is seen to reach, in a real folder with real links.

use std::os::unix::fs::symlink;

use everturn_tools::scope::PathAccess;
use everturn_tools::scope::PathAccess::{Read, Write};
use everturn_tools::shell::{Analysis, OPAQUE, RUNS};

use crate::harness::Project;

/// A project with folders and with links within it.
fn project() -> Project {
    let project = Project::new();
    for name in ["f", "sub/g", "sub/deep/h"] {
        project.file(name, "");
    }
    // They stay in the project, but `..` behind them does not.
    symlink(".", project.path("root")).unwrap();
    symlink("../..", project.path("sub/deep/up")).unwrap();
    symlink("sub/deep", project.path("down")).unwrap();
    project
}

fn analyse(project: &Project, line: &str) -> Analysis {
    Analysis::of(line, &project.scope.directory, &project.scope)
}

/// Checks what lies outside; a relative path is meant from the project.
#[track_caller]
fn check(project: &Project, line: &str, expected: &[(&str, PathAccess)]) {
    let root = &project.scope.directory;
    let place = |path: &str| match path.strip_prefix("../") {
        Some(rest) => root.parent().unwrap().join(rest),
        None => root.join(path),
    };
    let expected: Vec<_> = expected.iter().map(|(path, access)| (place(path), *access)).collect();
    assert_eq!(analyse(project, line).external, expected, "{line}");
}

/// Whether a rule for the programs of a line is not enough.
fn asks(project: &Project, line: &str) -> bool {
    let commands = analyse(project, line).commands;
    commands.iter().any(|command| command.starts_with(RUNS) || command.starts_with(OPAQUE))
}

#[test]
fn places_that_git_fills_are_named() {
    let project = project();
    check(&project, "git clone https://example.org/x ../y", &[("../y", Write)]);
    check(&project, "git clone --depth 1 https://example.org/x /opt/y", &[("/opt/y", Write)]);
    check(&project, "git worktree add ../y main", &[("../y", Write)]);
    check(&project, "git worktree add -b x /opt/y", &[("/opt/y", Write)]);
    check(&project, "git init /opt/y", &[("/opt/y", Write)]);
    check(&project, "git mv f ../y", &[("../y", Write)]);
    check(&project, "git worktree add .git/hooks x", &[(".git/hooks", Write)]);
    check(&project, "cd sub && git worktree add /opt/y", &[("/opt/y", Write)]);
    check(&project, "cd sub/deep; git worktree add ../y", &[("../y", Write)]);
    check(&project, "git clone https://example.org/x sub/y", &[]);
    // Another repository's folders are not named, but the line asks.
    for line in ["git -C /opt status", "git --git-dir=/opt/x log", "git --work-tree /opt status"] {
        assert!(asks(&project, line), "{line}");
    }
}

#[test]
fn places_that_archives_are_unpacked_to_are_named() {
    let project = project();
    for line in [
        "tar xf a.tar -C /opt",
        "tar xf a.tar -C/opt",
        "tar xf a.tar --directory=/opt",
        "tar xf a.tar --directory /opt",
        "tar -xzC /opt",
        "tar xfC a.tar /opt",
        "tar xCf /opt a.tar",
        "unzip a.zip -d /opt",
        "unzip -d/opt a.zip",
        "unzip -oqd /opt a.zip",
        "7z x a.7z -o/opt",
    ] {
        check(&project, line, &[("/opt", Write)]);
    }
    check(&project, "tar xf a.tar -C sub", &[]);
    check(&project, "unzip a.zip -d sub", &[]);
    check(&project, "tar cf /opt/a.tar sub", &[("/opt/a.tar", Write)]);
    check(&project, "tar -czf ../a.tgz sub", &[("../a.tgz", Write)]);
    check(&project, "tar --create --file=/opt/a.tar sub", &[("/opt/a.tar", Write)]);
    check(&project, "tar tf /opt/a.tar", &[("/opt/a.tar", Write)]);
    check(&project, "tar cf a.tar /opt/x", &[("/opt/x", Write)]);
    check(&project, "zip -r /opt/a.zip sub", &[("/opt/a.zip", Write)]);
    check(&project, "rsync -a sub/ /opt/x", &[("/opt/x", Write)]);
}

#[test]
fn values_of_options_are_paths_too() {
    let project = project();
    for line in [
        "cp -t /opt f",
        "cp -t/opt f",
        "cp -rt/opt f",
        "cp -rft /opt f",
        "cp --target-directory=/opt f",
        "cp --target /opt f",
        "install -Dm644 -t/opt f",
        "mktemp -p /opt",
        "mktemp --tmpdir=/opt",
    ] {
        check(&project, line, &[("/opt", Write)]);
    }
    check(&project, "cp -rt.git/hooks f", &[(".git/hooks", Write)]);
    // The mode looks like an option, or is not there at all.
    check(&project, "chmod -x /opt/x", &[("/opt/x", Write)]);
    check(&project, "chmod --reference=f /opt/x", &[("/opt/x", Write)]);
    check(&project, "chmod -R u+x sub", &[]);
    check(&project, "dd of=/opt/x", &[("/opt/x", Write)]);
    check(&project, "cut -d/ -f1 f", &[]);
}

#[test]
fn parents_of_links_are_where_the_links_lead() {
    let project = project();
    check(&project, "rm root/../y", &[("../y", Write)]);
    check(&project, "rm sub/deep/up/../y", &[("../y", Write)]);
    check(&project, "echo x > root/../y", &[("../y", Write)]);
    check(&project, "cat root/../y", &[("../y", Read)]);
    check(&project, "cd sub/deep/up && rm ../y", &[("../y", Write)]);
    check(&project, "rm sub/deep/../y down/../y", &[]);
    // `cd` goes by the names, programs go by where they are.
    assert!(!analyse(&project, "cd down && rm ../../../y").external.is_empty());
    // A link that the line makes is not there yet.
    assert!(asks(&project, "ln -s . new && rm new/../y"));
    assert!(asks(&project, "for f in a b; do rm new/../y; ln -s . new; done"));
    assert!(!asks(&project, "rm new/../y"));
}

#[test]
fn words_that_are_only_known_later_are_not_resolved() {
    let project = project();
    for line in [
        "rm */../../y",
        "rm s*/.git/config",
        "rm sub/{../../y,z}",
        "rm sub/{.git/x,y}",
        "cat */../../y",
        "rm sub/$x",
        "cp f \"sub/$x\"",
        "dd of=\"$x\"",
        "cp -t\"$x\" f",
        "touch f{1..3}",
        "cp f{,.bak}",
        "rm sub/[ab]*/x",
    ] {
        assert_eq!(analyse(&project, line).unresolved, [line]);
        check(&project, line, &[]);
        assert!(!asks(&project, line), "{line}");
    }
    check(&project, "dd of=~/y", &[(project.scope.home.join("y").to_str().unwrap(), Write)]);
}

/// Names in one folder lead nowhere, unless a link is among those that fit.
#[test]
fn names_of_one_folder_are_looked_at() {
    let project = project();
    symlink("/etc/passwd", project.path("sub/away.rs")).unwrap();
    for line in ["rm *.o sub/*.o", "ls src/[a-m]*.rs", "cat sub/b*.rs", "cat r*t", "touch --x=?"] {
        check(&project, line, &[]);
        assert_eq!(analyse(&project, line).unresolved, Vec::<String>::new(), "{line}");
    }
    for line in
        ["cat sub/*", "cat sub/a*", "cat sub/*.rs", "cat sub/awa?.rs", "cat sub/[a-b]*.rs", "cd sub; cat *s"]
    {
        check(&project, line, &[("sub/away.rs", Read)]);
    }
    check(&project, "rm /opt/*.rs", &[("/opt", Write)]);
    for line in ["cat .*", "cat sub/.g*", "cat \"$x\"*", "cat {a,b}*", "sort /e*"] {
        assert_eq!(analyse(&project, line).unresolved, [line]);
    }
}

#[test]
fn readers_are_seen_to_leave_the_project() {
    let project = project();
    for line in [
        "grep -rn x /opt/y",
        "grep -e x /opt/y",
        "rg x /opt/y",
        "rg --files /opt/y",
        "ls -la /opt/y",
        "wc -l /opt/y",
        "find /opt/y -name x",
        "sed -n 1p /opt/y",
        "diff f /opt/y",
        "du -sh /opt/y",
    ] {
        check(&project, line, &[("/opt/y", Read)]);
    }
    for line in
        ["grep -rn /api/v1 sub", "rg '/opt/y' sub", "find . -path /opt/y", "sed -n /etc/p f", "ls sub"]
    {
        check(&project, line, &[]);
    }
}

/// What a program does with its words is not known for most; a path that leads out is one all the same.
#[test]
fn any_program_is_seen_to_leave_the_project() {
    let project = project();
    project.file("../near/x.js", "");
    check(&project, "node ../near/x.js", &[("../near/x.js", Read)]);
    check(&project, "cargo build --target-dir=../near/y", &[("../near/y", Read)]);
    check(&project, "cargo new ../near/y", &[("../near/y", Read)]);
    check(&project, "git diff --no-index ../near/x.js f", &[("../near/x.js", Read)]);
    check(&project, "git hash-object -w /etc/passwd", &[("/etc/passwd", Read)]);
    check(&project, "convert f .git/hooks/post-merge", &[(".git/hooks/post-merge", Write)]);
    check(&project, "convert f --output=.git/config", &[(".git/config", Write)]);
    check(&project, "timeout 5 node ../near/x.js", &[("../near/x.js", Read)]);
    for line in [
        "echo /etc/passwd",
        "gh api /repos/x/y",
        "timeout 5 /bin/true",
        "tr / _",
        "curl https://example.org/etc/passwd",
        "cd sub && git diff ../f",
        "git log HEAD~1 main..x",
        "npm test 2> /dev/null",
        "ls .git && cat .git/HEAD",
        "git clone https://example.org/x.git",
    ] {
        check(&project, line, &[]);
    }
}

#[test]
fn folders_that_the_line_completes_are_not_obeyed() {
    let project = project();
    for line in [
        "mkdir -p sub/objects sub/refs && cd sub && git status",
        "cd sub && echo x > HEAD; git status",
        "cd sub && mkdir \"$x\"; git status",
    ] {
        assert!(asks(&project, line), "{line}");
    }
    for line in ["mkdir -p sub/x && cd sub && git status", "cd sub && touch x && git status"] {
        assert!(!asks(&project, line), "{line}");
    }
}

#[test]
fn nothing_runs_in_a_folder_that_was_left() {
    let project = project();
    for line in
        ["cd sub && cat ../f", "cd sub && ls .. && cat ../f | head -3", "cd sub/deep && ls ../.. 2>&1"]
    {
        check(&project, line, &[]);
    }
    for line in [
        "cd sub; cat ../f",
        "cd sub && ls; cat ../f",
        "cd sub && ls || cat ../f",
        "cd sub || cat ../f",
        "cd sub & cat ../f",
        "(cd sub) && cat ../f",
        "cd sub | cat && cat ../f",
        "true && cd sub && cat ../f",
        "! cd sub && cat ../f",
        "{ cd sub && ls; } && cat ../f",
        "cd .. && cat f",
        "cd sub && ls < ../../f",
        // Done before the folder is left, or where it never was.
        "< ../f cd sub && ls",
        "x=$(cat ../f) cd sub && ls",
        "cd sub <<< \"$(cat ../f)\" && ls",
        "cd nosuch && cat <<E || cat ../f\nE",
        "xargs -I X cd sub && cat ../f",
        "setsid -f cd sub && cat ../f",
        "env cd sub && cat ../f",
        "command cd sub && cat ../f",
        "/usr/bin/cd sub && cat ../f",
        "./cd sub && cat ../f",
        "cd nosuch; node ../f",
        "false && cd sub; node ../f",
        "cd sub && cd .. && cat ../f",
    ] {
        let external = analyse(&project, line).external;
        assert!(
            external.contains(&(project.scope.directory.parent().unwrap().join("f"), Read)),
            "{line}: {external:?}"
        );
    }
}
