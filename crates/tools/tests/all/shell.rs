//! Permission of command lines: what rules allow is run in a real shell, where every program records that it ran.

use everturn_model::permission::{Action, Policy, Rule};
use everturn_tools::bash::BashTool;
use everturn_tools::shell::Analysis;
use everturn_tools::{Scope, Tool as _};
use serde_json::json;

use self::arena::{Arena, Deed, Folder};
use self::generator::Generator;
use crate::harness::Project;

mod analysis;
mod arena;
mod arguments;
mod generator;
mod outside;
mod pieces;
mod plain;
mod tricks;
mod unresolved;

/// Programs that the generous rules allow with any arguments.
const GENEROUS: &[&str] = &[
    "git", "ls", "echo", "cat", "grep", "find", "env", "xargs", "cd", "pushd", "true", "false", "printf",
    "head", "tail", "wc", "sort", "sed", "awk", "tar", "bash", "sh", "nohup", "timeout", "nice", "time",
    "command", "builtin", "python3", "perl", "node", "export", "read", "test", "[", "pwd", "sleep", "sudo",
    "make", "rsync", "rg", "zip", "ssh", "man", "less", "vim", "watch", "parallel", "npm", "npx", "cargo",
    "go", "busybox", "sqlite3", "script", "flock", "strace", "eval", "exec", "source", ".", "trap", "set",
    "alias", "shopt", "hash", "enable", "declare", "unset", "mapfile", "complete", "compgen", "bind", "jobs",
    "fc", "let", "coproc", "local", "typeset", "readonly", ":", "uniq", "shuf", "tree", "bat", "diff3",
    "gcc", "diff", "curl", "wget", "cp", "unzip", "kubectl", "pip", "pnpm", "bun", "gh", "just", "helm",
    "gradle", "jj", "dd", "rename", "erl", "R", "mvn", "yarn", "ccache", "setarch", "protoc", "ctest", "fzf",
    "ip", "rustc", "openssl", "pytest", "cpio",
];

fn generous() -> Vec<Rule> {
    let mut rules =
        vec![Rule::new("*", "*", Action::Ask), Rule::new("external_directory", "*", Action::Allow)];
    // The last match wins, so the most frequent ones are found soonest at the end.
    rules.extend(GENEROUS.iter().rev().map(|name| Rule::new("bash", &format!("{name} *"), Action::Allow)));
    for name in ["env", "find", "bash"] {
        rules.push(Rule::new("bash", &format!("/usr/bin/{name} *"), Action::Allow));
        rules.push(Rule::new("bash", &format!("/bin/{name} *"), Action::Allow));
    }
    rules
}

/// A project with what the arena has.
fn furnished() -> Project {
    let project = Project::new();
    Arena::furnish(&project.scope.directory);
    project
}

fn action(rules: &[Rule], line: &str, scope: &Scope) -> Action {
    let commands = Analysis::of(line, &scope.directory, scope).commands;
    Policy::new(rules.to_vec()).decide(&[], "bash", &commands)
}

#[test]
fn plain_lines_are_allowed() {
    let project = furnished();
    let rules = generous();
    let lines: Vec<&str> = plain::GROUPS.iter().flat_map(|(_, lines)| lines.iter().copied()).collect();
    assert!(lines.len() >= 40);
    let asked: Vec<_> = lines
        .into_iter()
        .filter(|line| action(&rules, line, &project.scope) != Action::Allow)
        .map(|line| (line, Analysis::of(line, &project.scope.directory, &project.scope).commands))
        .collect();
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn tricks_are_asked_about() {
    let project = furnished();
    let rules = generous();
    let lines: Vec<&str> = tricks().collect();
    assert!(lines.len() >= 150);
    let allowed: Vec<_> = lines
        .into_iter()
        .filter(|line| action(&rules, line, &project.scope) == Action::Allow)
        .map(|line| (line, Analysis::of(line, &project.scope.directory, &project.scope).commands))
        .collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[test]
fn lines_that_lead_elsewhere_need_more_than_a_rule_for_the_program() {
    let project = furnished();
    for line in arguments::LEADING {
        let needs = BashTool::default().needs(&json!({ "command": line }), &project.scope).unwrap();
        assert!(needs.iter().any(|need| need.permission == "external_directory"), "{line}: {needs:?}");
    }
}

/// The lines that must ask.
fn tricks() -> impl Iterator<Item = &'static str> {
    tricks::GROUPS.iter().chain(arguments::GROUPS).flat_map(|(_, lines)| lines.iter().copied())
}

/// Rules that allow a few sub-commands and programs only.
fn narrow() -> Vec<Rule> {
    let patterns = [
        "git status *",
        "git log *",
        "ls *",
        "echo *",
        "cat *",
        "grep *",
        "find *",
        "env *",
        "xargs *",
        "cd *",
        "true",
        "false",
        "printf *",
        "head *",
        "timeout *",
        "nice *",
        "command *",
    ];
    let allow = patterns.iter().map(|pattern| Rule::new("bash", pattern, Action::Allow));
    [Rule::new("*", "*", Action::Ask)].into_iter().chain(allow).collect()
}

/// Runs the lines that the rules allow, and returns them. No program may run that no rule names, and
/// no file may be written.
fn check<'a>(arena: &Arena, rules: &[Rule], lines: &[&'a str], scope: &Scope) -> Vec<&'a str> {
    let allowed: Vec<&str> =
        lines.iter().copied().filter(|line| action(rules, line, scope) == Action::Allow).collect();
    let deeds = arena.run(&allowed, Folder::Shared);
    assert_eq!(deeds.len(), allowed.len());
    let escapes: Vec<(&str, Vec<String>)> = allowed
        .iter()
        .zip(&deeds)
        .filter_map(|(line, deed)| {
            Some((*line, unnamed(rules, deed))).filter(|(_, unnamed)| !unnamed.is_empty())
        })
        .collect();
    assert!(escapes.is_empty(), "{} lines ran what no rule names: {escapes:#?}", escapes.len());
    allowed
}

/// What a line ran that no rule names.
fn unnamed(rules: &[Rule], deed: &Deed) -> Vec<String> {
    let texts = deed.ran.iter().map(|ran| ran.join(" "));
    let policy = Policy::new(rules.to_vec());
    texts.filter(|text| policy.decide(&[], "bash", std::slice::from_ref(text)) != Action::Allow).collect()
}

#[test]
fn written_lines_that_are_allowed_run_only_what_the_rules_name() {
    let project = furnished();
    let arena = Arena::new();
    let plain = plain::GROUPS.iter().flat_map(|(_, lines)| lines.iter().copied());
    let lines: Vec<&str> = plain.chain(tricks()).collect();
    assert!(lines.len() >= 150);
    let ran = check(&arena, &generous(), &lines, &project.scope);
    assert!(ran.len() >= 40, "only {} ran", ran.len());
    check(&arena, &narrow(), &ran, &project.scope);
}

/// If the recorders saw nothing, the other tests would show nothing: the tricks do run what no rule names.
#[test]
fn the_recorders_see_what_the_tricks_would_run() {
    let arena = Arena::new();
    let rules = generous();
    let elsewhere = ["/bin/", "/dev/tcp", "/tmp", "\0"];
    let lines: Vec<&str> =
        tricks().filter(|line| !elsewhere.iter().any(|place| line.contains(place))).collect();
    let deeds = arena.run(&lines, Folder::Own);
    let seen = deeds.iter().filter(|deed| deed.changed || !unnamed(&rules, deed).is_empty()).count();
    assert!(seen >= 150, "only {seen} of {} lines were seen to do what no rule names", lines.len());
}

/// What the arena was furnished with does run: another repository's program, git's own by name, a changed `PATH`.
#[test]
fn the_furniture_of_the_arena_works() {
    let arena = Arena::new();
    let lines = [
        "cd bare && git status",
        "cd bare/sub && git status",
        "git fetch evil://x",
        "git merge -s evil main",
        "git rebase -s evil main",
        "tar cf - -C bare . | tar xf - -C sub; cd sub && git status",
        "git remote add zz ./bare",
        "tar cf a.tar f && tar xfC a.tar .git/hooks",
        "sed -i p -e p",
        "printf 'xxx%n' PATH; ls",
        "x=-v; y='a[$(rm z)]'; test \"$x\" \"$y\"",
        "echo x | xargs --max-lines touch echo y",
        "echo x > .git/hooks/pre-commit",
        "sed -i s/a/b/ f",
        "uniq f y",
        "echo -delete | xargs -I{} -L 1 find ./sub",
        "echo -delete | xargs -I \"a'b\" find ./sub \"a'b\"",
    ];
    let deeds = arena.run(&lines, Folder::Own);
    let rules = generous();
    let idle: Vec<&str> = lines
        .into_iter()
        .zip(&deeds)
        .filter(|(_, deed)| !deed.changed && unnamed(&rules, deed).is_empty())
        .map(|(line, _)| line)
        .collect();
    assert_eq!(idle, Vec::<&str>::new());
}

#[test]
fn made_lines_that_are_allowed_run_only_what_the_rules_name() {
    let project = furnished();
    let arena = Arena::new();
    let number = |name: &str| std::env::var_os(name).and_then(|text| text.to_str()?.parse::<usize>().ok());
    let seed = number("EVERTURN_TEST_SEED").unwrap_or(1);
    let full = std::env::var_os("EVERTURN_TEST_FULL").is_some();
    let count = if full { 100_000 } else { 5_000 };
    let mut generator = Generator::new(seed as u64);
    let lines: Vec<String> = (0..count).map(|_| generator.line()).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let ran = check(&arena, &generous(), &lines, &project.scope);
    assert!(ran.len() * 6 >= count, "only {} of {count} lines were allowed", ran.len());
    check(&arena, &narrow(), &ran, &project.scope);
}
