//! What the analysis says about single lines: the patterns, what is remembered, and which paths lie outside.

use std::path::PathBuf;
use std::time::Instant;

use everturn_model::permission::{Action, Policy, Rule, matches};
use everturn_tools::bash::BashTool;
use everturn_tools::scope::PathAccess;
use everturn_tools::shell::{Analysis, CHANGES, OPAQUE, RUNS, UNRESOLVED, UncertainCommand};
use everturn_tools::{Scope, Tool as _};
use serde_json::json;

use crate::harness::Project;

fn scope() -> Scope {
    let project = PathBuf::from("/srv/somebody/project");
    Scope {
        directory: project.clone(),
        worktree: project,
        output_dir: "/srv/somebody/output".into(),
        home: "/srv/somebody".into(),
        sandbox: None,
    }
}

fn analyse(line: &str) -> Analysis {
    let scope = scope();
    Analysis::of(line, &scope.directory.clone(), &scope)
}

#[track_caller]
fn check(line: &str, expected: &[&str]) {
    assert_eq!(analyse(line).commands, expected, "{line}");
}

#[track_caller]
fn check_always(line: &str, expected: &[&str]) {
    assert_eq!(analyse(line).always, expected, "{line}");
}

#[track_caller]
fn check_external(line: &str, expected: &[(&str, PathAccess)]) {
    let expected: Vec<(PathBuf, PathAccess)> =
        expected.iter().map(|(path, access)| (PathBuf::from(path), *access)).collect();
    assert_eq!(analyse(line).external, expected, "{line}");
}

#[test]
fn each_command_is_named_once() {
    check("echo hi", &["echo hi"]);
    check("cd x && rm -rf y; ls | wc -l &", &["cd x", "rm -rf y", "ls", "wc -l"]);
    check("ls; ls; ls", &["ls"]);
    check("a\nb # c; d\ne", &["a", "b", "e"]);
    check("(cd x; rm y)", &["cd x", "rm y"]);
    check("if true; then rm a; else rm b; fi", &["true", "rm a", "rm b"]);
    check("case $x in a) rm a;; *) rm b;; esac", &["rm a", "rm b"]);
    check("git log $(rm -rf z)", &["git log $(rm -rf z)", &format!("{RUNS}git log $(rm -rf z)"), "rm -rf z"]);
    check("echo \"a `rm b` $(rm c)\"", &["echo \"a `rm b` $(rm c)\"", "rm b", "rm c"]);
    check("cat <(rm a)", &["cat <(rm a)", "rm a"]);
    check("cat <<EOF\n$(rm b)\nEOF", &["cat", "rm b"]);
    check("cat <<'EOF'\n$(rm b)\nEOF\nls", &["cat", "ls"]);
    check("x=$(git log -1); echo \"$x\"", &["git log -1", "echo \"$x\""]);
    check("[ -f a ] && ls", &["ls"]);
    check("x=1", &["x=1"]);
}

#[test]
fn quotes_are_gone_where_they_only_quote() {
    check("g'i't \"status\" \\--short", &["git status --short"]);
    check("echo 'a b' \"c;d\" e\\ f '' \"it's\"", &[r"echo 'a b' 'c;d' 'e f' '' 'it'\''s'"]);
    check("git 'status x'", &["git 'status x'", &format!("{RUNS}git 'status x'")]);
    check("ls *.rs '*.rs' ~/x '~/x'", &["ls *.rs '*.rs' ~/x '~/x'"]);
    check("echo $'a\\tb'", &["echo 'a\tb'"]);
}

#[test]
fn variables_stay_in_front() {
    check("A=1 B='x y' rm a", &["A=1 'B=x y' rm a", "rm a"]);
    let line = "PATH=/x git log";
    check(line, &[&format!("{CHANGES}{line}"), line, "git log"]);
    check("PATH=/x; ls", &["PATH=/x", &format!("{CHANGES}PATH=/x"), "ls"]);
    check("export A=1", &["export A=1", &format!("{CHANGES}export A=1")]);
    check("env A=1 rm a", &["env A=1 rm a", "A=1 rm a", "rm a"]);
    // These make no difference to what runs.
    check("NO_COLOR=1 LC_ALL=C rm a", &["rm a"]);
    check("IFS= read -r x", &["read -r x"]);
    check("RUST_LOG=$x rm a", &["RUST_LOG=$x rm a", "rm a"]);
    check("IFS=/ rm a", &[&format!("{CHANGES}IFS=/ rm a"), "IFS=/ rm a", "rm a"]);
}

#[test]
fn launchers_name_what_they_run() {
    check("timeout -k 1 5 rm a", &["timeout -k 1 5 rm a", "rm a"]);
    check("nohup nice -n 5 rm a", &["nohup nice -n 5 rm a", "nice -n 5 rm a", "rm a"]);
    check("sudo -u root rm a", &["sudo -u root rm a", "rm a"]);
    let line = "setsid -w ionice -t stdbuf -oL rm a";
    check(line, &[line, "ionice -t stdbuf -oL rm a", "stdbuf -oL rm a", "rm a"]);
    // What comes from the input is not on the line: a rule for `rm` alone does not cover it.
    check("ls | xargs -n 1 cat", &["ls", "xargs -n 1 cat", "cat …"]);
    check("ls | xargs -n 1 rm", &["ls", "xargs -n 1 rm", "rm …", &format!("{RUNS}xargs -n 1 rm")]);
    check(
        "ls | xargs -I{} rm {}",
        &["ls", "xargs -I{} rm {}", "rm {}", &format!("{RUNS}xargs -I{{}} rm {{}}")],
    );
    check("env -S 'rm a'", &["env -S 'rm a'", &format!("{RUNS}env -S 'rm a'")]);
    for line in ["docker-compose run web rm a", "ssh-agent rm a"] {
        check(line, &[line, &format!("{RUNS}{line}")]);
    }
    check("bash -c 'rm a'", &["bash -c 'rm a'", &format!("{RUNS}bash -c 'rm a'")]);
}

#[test]
fn written_files_are_named() {
    check("echo x > y", &["echo x", "> y"]);
    check("echo x > sub/../y 2>> /tmp/z", &["echo x", "> y", "> /tmp/z"]);
    check("ls > /dev/null 2>&1 < f", &["ls"]);
    check("cd sub && ls > y", &["cd sub", "ls", "> sub/y"]);
    check("cd sub; ls > y", &["cd sub", "ls", "> y", "> sub/y"]);
    check("ls > $x", &["ls", "> $x", &format!("{OPAQUE}ls > $x")]);
}

#[test]
fn what_is_not_understood_is_named_whole() {
    for line in
        ["ls 'a", "ls $(", "$x y", "a=(1 2)", "ls\u{a0}x; ls $(", "ls \u{1}", "for ((;;)); do ls; done"]
    {
        let commands = analyse(line).commands;
        assert_eq!(commands.last(), Some(&format!("{OPAQUE}{line}")), "{line}");
        assert_eq!(analyse(line).always, Vec::<String>::new(), "{line}");
    }
    // What was found can still be denied.
    assert!(analyse("rm x; a=(1 2)").commands.contains(&"rm x".to_owned()));
}

/// A text cannot be taken for another one, whatever the matching makes of its characters.
#[test]
fn a_text_never_looks_like_another_command() {
    for (rule, line) in [
        ("git status *", "git 'status x'"),
        ("git status *", "git status\u{a0}x"),
        ("git status *", "'git status' x"),
        ("git status", "git status\nrm x"),
        ("bin/run *", "bin\\\\run x"),
        ("bin/run *", "'bin\\run' x"),
        ("ls a/b", "ls 'a\\b'"),
        ("ls a/b", "ls a\\\\b"),
        ("rm build/*", "rm $x build/y"),
        ("echo *", "> echo rm x"),
        ("git log *", "git\tlog;rm x"),
    ] {
        let commands = analyse(line).commands;
        assert!(commands.iter().any(|command| !matches(rule, command)), "{rule} on {line}: {commands:?}");
    }
}

#[test]
fn always_covers_the_next_call_of_the_same_kind() {
    check_always("git log -1", &["git log *"]);
    check_always("git status", &["git status *"]);
    check_always("npm run build -- --watch", &["npm run build *"]);
    check_always("cargo test -p x && docker compose up -d", &["cargo test *", "docker compose up *"]);
    check_always("ls -l src", &["ls *"]);
    check_always("ls *.rs", &["ls *"]);
    check_always("git --no-pager log", &["git --no-pager log", "git log *"]);
    check_always("A=1 rm a && git log", &["A=1 rm a", "rm *", "git log *"]);
    check_always("echo x > y", &["echo *", "> y"]);
    check_always("timeout 5 cargo test", &["cargo test *", "timeout 5 cargo test"]);
}

#[test]
fn always_never_covers_anything_at_all() {
    for line in ["bash x.sh", "find . -delete", "python3 -c 1", "sudo -s", "npx x"] {
        check_always(line, &[line, &format!("{RUNS}{line}")]);
    }
    let line = "git -c a=b log";
    check_always(line, &[line, &format!("{RUNS}{line}"), "git log"]);
    check_always("find . -name x", &["find . -name x"]);
    check_always("env", &["env"]);
    for line in [
        "find . -name '*.rs'",
        "$x",
        "git $x",
        "export A=1",
        "PATH=x; :",
        "bash -c '*'",
        "ls > 'a*'; $y",
        "[ -f x ]",
    ] {
        let always = analyse(line).always;
        assert!(always.iter().all(|pattern| pattern == ": *"), "{line}: {always:?}");
    }
}

#[test]
fn paths_outside_the_project_are_named() {
    use PathAccess::{Read, Write};
    check_external("rm -rf build ./x", &[]);
    check_external("rm -rf ../other", &[("/srv/somebody/other", Write)]);
    check_external("cat /etc/passwd", &[("/etc/passwd", Read)]);
    check_external("cat < /etc/passwd > /dev/null", &[("/etc/passwd", Read)]);
    check_external("cd /var && ls", &[("/var", Write)]);
    check_external("cd sub && rm ../../x", &[("/srv/somebody/x", Write)]);
    check_external("cd sub; rm ../../x", &[("/srv/x", Write), ("/srv/somebody/x", Write)]);
    check_external("cd .. && rm x", &[("/srv/somebody", Write), ("/srv/somebody/x", Write)]);
    check_external("cp a --target-directory=/opt", &[("/opt", Write)]);
    check_external("chmod 755 /opt/x", &[("/opt/x", Write)]);
    check_external("ls > /opt/x", &[("/opt/x", Write)]);
    check_external("ls | tee /opt/x", &[("/opt/x", Write)]);
    check_external("timeout 5 rm /opt/x", &[("/opt/x", Write)]);
    check_external("rm /opt/*", &[("/opt", Write)]);
    check_external("dd if=/dev/zero of=/opt/x", &[("/opt/x", Write)]);
    check_external("rm ~/x", &[("/srv/somebody/x", Write)]);
    check_external("cd; ls", &[("/srv/somebody", Write)]);
    // Where the home is not known, it may be anywhere.
    let scope = Scope { home: "".into(), ..scope() };
    let analysis = Analysis::of("rm ~/x", &scope.directory.clone(), &scope);
    assert_eq!(analysis.external, [(PathBuf::from("/"), Write)]);
}

#[test]
fn a_command_by_path_means_something_else_elsewhere() {
    let scope = scope();
    check("./run", &["./run"]);
    check("cd sub && ./run", &["cd sub", "./run", &format!("{RUNS}./run")]);
    let elsewhere = Analysis::of("./run", &scope.directory.join("sub"), &scope);
    assert_eq!(elsewhere.commands, ["./run".to_owned(), format!("{RUNS}./run")]);
}

/// A rule against a program must bite however the program is called.
#[test]
fn the_bare_form_is_named_beside_the_written_one() {
    check("git -P push origin", &["git -P push origin", "git push origin"]);
    check("/usr/bin/git push", &["/usr/bin/git push", "git push"]);
    check("/bin/rm x", &["/bin/rm x", "rm x"]);
    check("../../../bin/rm x", &["../../../bin/rm x", "rm x"]);
    check("timeout 5 /bin/rm x", &["timeout 5 /bin/rm x", "/bin/rm x", "rm x"]);
    let line = "git -C sub -c a=b push origin";
    check(line, &[line, "git push origin", &format!("{RUNS}{line}")]);
    check("/srv/somebody/project/tool x", &["/srv/somebody/project/tool x"]);
    // Remembering one form alone would ask again for the other.
    check_always("/usr/bin/git -P log -1", &["/usr/bin/git -P log -1", "git log *"]);
    let scope = scope();
    let denied = |line: &str| {
        let rules = [Rule::new("*", "*", Action::Allow), Rule::new("bash", "git push *", Action::Deny)];
        let commands = Analysis::of(line, &scope.directory, &scope).commands;
        Policy::new(rules.to_vec()).decide(&[], "bash", &commands)
    };
    for line in ["git push", "git -P push origin", "/usr/bin/git push", "/usr/bin/git -c a=b push x"] {
        assert_eq!(denied(line), Action::Deny, "{line}");
    }
    assert_eq!(denied("git -P pull"), Action::Allow);
}

#[test]
fn what_git_keeps_is_outside_for_writers() {
    use PathAccess::Write;
    let hook = "/srv/somebody/project/.git/hooks/pre-commit";
    check_external("cp /srv/somebody/project/x .git/hooks/pre-commit", &[(hook, Write)]);
    check_external("ls | tee .git/hooks/pre-commit", &[(hook, Write)]);
    check_external("echo x > .git/hooks/pre-commit", &[(hook, Write)]);
    check_external("sed -i s/a/b/ .git/hooks/pre-commit", &[(hook, Write)]);
    check_external("cat .git/hooks/pre-commit", &[]);
    // It may turn out as git's own, or as anything else.
    assert_eq!(analyse("cp x .gi?/hooks/pre-commit").unresolved, ["cp x .gi?/hooks/pre-commit"]);
    check_external("cp x \".git/$y\"", &[("/srv/somebody/project/.git", Write)]);
}

#[test]
fn files_edited_in_place_are_written() {
    use PathAccess::Write;
    check("sed -i s/a/b/ f sub/g", &["sed -i s/a/b/ f sub/g", "> f", "> sub/g"]);
    check("sed s/a/b/ f", &["sed s/a/b/ f"]);
    check("sed -i.bak s/a/b/ f", &["sed -i.bak s/a/b/ f", "> f", "> f.bak"]);
    check_external("sed -i s/a/b/ /etc/hosts", &[("/etc/hosts", Write)]);
    check_external("sed -n p /etc/hosts --in-place", &[("/etc/hosts", Write)]);
    check_external("dd of=/opt/x", &[("/opt/x", Write)]);
    check_external("split f /opt/x", &[("/opt/x", Write)]);
}

/// A repository within the project is not the project's own: its configuration names programs that git runs.
#[test]
fn another_repository_is_not_obeyed() {
    let project = Project::new();
    let scope = &project.scope;
    let marked = |line: &str, folder: &str| {
        let commands = Analysis::of(line, &scope.directory.join(folder), scope).commands;
        commands.contains(&format!("{RUNS}git status"))
    };
    for name in
        ["bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/sub/x", "plain/sub/x", "nested/.git/HEAD"]
    {
        project.file(name, "");
    }
    project.file("linked/HEAD", "");
    project.file("linked/commondir", "../x");
    project.file("gitfile/.git", "gitdir: ../bare");
    std::os::unix::fs::symlink("bare/sub", project.path("link")).unwrap();
    for folder in
        ["bare", "bare/sub", "nested", "nested/.git", "linked", "gitfile", "link", "..", "/", "absent"]
    {
        assert!(marked("git status", folder), "{folder}");
        assert!(marked(&format!("cd {folder} && git status"), ""), "{folder}");
    }
    for folder in ["", "plain", "plain/sub"] {
        assert!(!marked("git status", folder), "{folder}");
        assert!(!marked(&format!("cd ./{folder} && git status"), ""), "{folder}");
    }
    assert!(marked("cd \"$x\" && git status", ""));
}

#[test]
fn the_tool_needs_the_folders_first() {
    let project = Project::new();
    let outside = project.outside().join("there");
    let line = format!("git status && rm {}", outside.display());
    let needs = BashTool::default().needs(&json!({ "command": line }), &project.scope).unwrap();
    let named: Vec<(&str, &[String])> =
        needs.iter().map(|need| (&*need.permission, &need.patterns[..])).collect();
    let folder = [project.outside().join("*").display().to_string()];
    let commands = ["git status".to_owned(), format!("rm {}", outside.display())];
    assert_eq!(
        named,
        [("external_directory", &folder[..]), ("network", &commands[..]), ("bash", &commands[..])]
    );
}

/// Lines come from a model: none may cost much, whatever its shape.
#[test]
fn no_shape_of_a_line_costs_much() {
    let openers = "$(¦(¦((¦{ ¦`¦'¦\"¦\"$(¦$((¦${¦${x:-¦<(¦<<A\n¦<<'A' ¦if ¦case x in ¦a) ¦for x in ¦[[ ( ¦! ¦a=(¦a[¦\
        a;¦a&&¦a|¦a|b&&¦! a|¦a || ¦A=1 ¦#¦\\¦\\\n¦&¦\n¦f() ¦function f {¦$'¦\\'¦a \"b\" 'c' $d¦echo $(cat <<A\n¦\
        a <<A\nA\n¦{a,¦~¦é¦> ¦{a,b}¦*/¦../¦ a/../b¦a=¦:~¦$x ¦;x=$x$x¦;x=$x/..¦ /etc/a¦[a]¦ -abc¦;ls *¦;rm $x/a¦ ../x/";
    let mut slowest = (0, String::new());
    for opener in openers.split('¦') {
        for (size, command) in [(300, "echo"), (2_000, "cp"), (128 * 1024, "echo"), (128 * 1024, "cp")] {
            for end in [" x", "\nA\n)"] {
                let line = format!("{command} {}{end}", opener.repeat(size / opener.len() - 10));
                let start = Instant::now();
                let commands = analyse(&line).commands;
                let took = start.elapsed().as_millis();
                assert!(!commands.is_empty());
                if took > slowest.0 {
                    slowest = (took, format!("{command} {opener:?} {size} {end:?}"));
                }
            }
        }
    }
    // Far more than it takes, far less than it took before there was a limit.
    assert!(slowest.0 < 5_000, "{slowest:?}");
    let long = format!("ls {}", "a".repeat(128 * 1024));
    assert_eq!(analyse(&long).commands, [format!("{OPAQUE}{long}")]);
}

#[test]
fn a_command_is_known_as_far_as_it_stands_there() {
    let check = |pattern: &str, expected: Option<(&str, &'static str, bool)>| {
        let expected =
            expected.map(|(beginning, mark, is_marked)| UncertainCommand { beginning, mark, is_marked });
        assert_eq!(UncertainCommand::of(pattern), expected, "{pattern}");
    };
    for pattern in [
        "git log -1",
        "grep '$x*' 'it\'s'",
        "echo \"a*b {c}\"",
        "[ -f a ]",
        "[[ -f a ]]",
        "echo \\$x \"\\`\"",
    ] {
        check(pattern, None);
    }
    for mark in [RUNS, CHANGES, OPAQUE] {
        check(&format!("{mark}bash -c 'rm a'"), Some(("", mark, true)));
    }
    for (pattern, beginning) in [
        ("$(echo rm) -f a", ""),
        ("r$x -f a", ""),
        ("/bin/r? -f a", ""),
        ("{rm,-f,a}", ""),
        ("[r]m a", ""),
        ("git pu\"$x\"", "git "),
        ("git push \"it's $x\"", "git push "),
        ("git push `x`", "git push "),
        ("cat src/*.rs", "cat "),
    ] {
        check(pattern, Some((beginning, UNRESOLVED, false)));
    }
}
