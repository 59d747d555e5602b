//! The commands that work without a server: help, sessions, imports, inspection, one prompt.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use everturn_testkit::damage::damage_opencode_session;
use everturn_testkit::{ModelServer, Postgres, fixtures, opencode_config};
use serde_json::{Value, json};

use crate::shell::Home;

/// The archives of OpenCode's data, with the folder of what it exported itself.
const ARCHIVES: [(&str, &str); 2] = [
    ("opencode/opencode-json-1.1.16.tar.gz", "opencode/export-1.1.16"),
    ("opencode/opencode-sqlite-1.18.33.tar.gz", "opencode/export-1.18.33"),
];

/// A file as an argument.
fn text(path: &Path) -> &str {
    path.to_str().expect("a Unicode path")
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|cause| panic!("{cause}: {text}"))
}

/// Unpacks an archive where the commands run and returns the data folder.
fn unpack(home: &Home, archive: &str) -> PathBuf {
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(fixtures::path(archive)).arg("-C").arg(home.work());
    assert!(tar.status().expect("tar is installed").success(), "{archive}");
    home.work().join("opencode")
}

#[test]
fn help_names_the_commands() {
    let home = Home::new();
    let help = home.run(&["--help"]).success();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    let expected = [
        "serve", "run", "demo", "models", "auth", "trust", "mcp", "session", "trash", "stats", "import",
        "inspect", "doctor", "backup", "restore", "scrub",
    ];
    assert_eq!(names, expected.into_iter().chain(["help"]).collect::<Vec<_>>());
    for name in expected {
        let help = home.run(&[name, "--help"]).success();
        assert!(help.contains(&format!("Usage: everturn {name}")), "{help}");
    }
    assert_eq!(home.run(&["--version"]).success(), concat!("everturn ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(home.run(&[]).failure(2).contains("Usage: everturn"));
    assert!(home.run(&["dance"]).failure(2).contains("unrecognized subcommand 'dance'"));
    assert_eq!(home.files(), Vec::<String>::new(), "help makes no files");
}

#[test]
fn opencode_sessions_come_in_and_go_out_unchanged() {
    for (archive, exports) in ARCHIVES {
        let home = Home::new();
        let folder = unpack(&home, archive);
        let before = contents(&folder);
        let report = home.run(&["import", "opencode", text(&folder)]).success();
        // One of them is a subagent's, which has its rules with it.
        let ruled = "with rules, which only forbid (`everturn session show` lists them): ses_";
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "20 sessions imported"));
        assert!(lines[1].strip_prefix(ruled).is_some_and(|rest| !rest.contains(',')), "{report}");
        let again = home.run(&["import", "opencode", text(&folder)]).success();
        assert_eq!(again, "0 sessions imported, 20 were here already\n");
        let again = parse(&home.run(&["import", "opencode", text(&folder), "--json"]).success());
        assert_eq!(again, json!({"imported": [], "present": 20, "problems": []}));
        assert_eq!(contents(&folder), before, "{archive}: the folder is only read");

        let ids = parse(&std::fs::read_to_string(folder.join("ids.json")).unwrap());
        let mut compared = 0;
        for entry in std::fs::read_dir(fixtures::path(exports)).unwrap() {
            let file = entry.unwrap().path();
            let id = ids[file.file_stem().unwrap().to_str().unwrap()].as_str().unwrap();
            let exported = parse(&home.run(&["session", "export", id]).success());
            assert_eq!(exported, parse(&std::fs::read_to_string(&file).unwrap()), "{}", file.display());
            compared += 1;
        }
        assert!(compared > 10, "{exports} has the exports");
    }
}

#[test]
fn a_session_that_cannot_be_read_is_named_and_the_others_come_in() {
    // It was named in the log alone, and a script was told nothing.
    let home = Home::new();
    let folder = unpack(&home, ARCHIVES[1].0);
    let ids = parse(&std::fs::read_to_string(folder.join("ids.json")).unwrap());
    let broken = ids.as_object().unwrap().values().next().unwrap().as_str().unwrap();
    damage_opencode_session(&folder.join("opencode.db"), broken);
    let import = |more: &[&str]| {
        let arguments = [&["import", "opencode", text(&folder)], more].concat();
        let output = home.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let [report, noted] = import(&["--json"]);
    let report = parse(&report);
    let [problem] = report["problems"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let problem = format!("{}\n", problem.as_str().unwrap());
    assert!(problem.starts_with(&format!("{broken}: cannot be read: ")), "{problem}");
    assert_eq!((report["imported"].as_array().unwrap().len(), &noted), (19, &problem));
    assert_eq!(import(&[]), ["0 sessions imported, 19 were here already\n", &problem]);
}

#[test]
fn what_is_stored_is_checked_searched_copied_and_brought_back() {
    let home = Home::new();
    let folder = unpack(&home, ARCHIVES[0].0);
    home.run(&["import", "opencode", text(&folder)]).success();
    let doctor = home.run(&["doctor"]).success();
    assert!(doctor.contains(": 20 sessions, "), "{doctor}");
    assert!(doctor.contains("every session is what its log says"), "{doctor}");
    let parts = ["user namespace", "mount namespace", "/proc of its own", "Landlock", "system call filter"];
    assert!(parts.iter().all(|part| doctor.contains(part)), "{doctor}");
    let listed = home.run(&["session", "list", "--all"]).success();
    let title = listed.lines().nth(1).unwrap().split_whitespace().last().unwrap();
    let hits = parse(&home.run(&["session", "search", title, "--json"]).success());
    let hit = &hits[0];
    assert!(hit["session"].is_string() && hit["title"].is_string() && hit["text"].is_string(), "{hits}");
    let found = home.run(&["session", "search", title]).success();
    assert!(found.to_lowercase().contains(&title.to_lowercase()), "{found}");

    let backup = home.work().join("copy.db");
    home.run(&["backup", text(&backup)]).success();
    assert!(home.run(&["backup", text(&backup)]).failure(1).contains("copy.db"), "it is not overwritten");
    assert!(
        home.run(&["restore", text(&backup)]).failure(1).contains("everturn.db"),
        "there is a store already"
    );
    let other = Home::new();
    let restored = other.run(&["restore", text(&backup)]).success();
    assert!(restored.contains(": 20 sessions, "), "{restored}");
    assert_eq!(other.run(&["session", "list", "--all"]).success(), listed);

    let (id, export) = (hit["session"].as_str().unwrap(), home.work().join("export.json"));
    home.run(&["session", "export", id, "--output", text(&export)]).success();
    let imported = Home::new().run(&["session", "import", text(&export), "--json"]).success();
    assert_eq!(parse(&imported), serde_json::json!({"imported": [id]}));
}

/// All files under a folder, each with a number that stands for its bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut open = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let mut hasher = DefaultHasher::new();
                hasher.write(&std::fs::read(&path).unwrap());
                files.push((path, hasher.finish()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn sessions_are_listed_and_shown() {
    let home = Home::new();
    assert!(home.run(&["session", "list"]).stderr.contains("no sessions here"));
    let folder = unpack(&home, ARCHIVES[1].0);
    home.run(&["import", "opencode", text(&folder)]).success();
    let ids = parse(&std::fs::read_to_string(folder.join("ids.json")).unwrap());

    let listed = parse(&home.run(&["session", "list", "--all", "--json", "--search", "Renamed"]).success());
    let found: Vec<&Value> = listed.as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(found, [&ids["renamed"]]);
    let table = home.run(&["session", "list", "--all", "--search", "Renamed"]).success();
    assert!(table.contains("Renamed: ünïcode — 日本語 🎉"), "{table}");
    let two = parse(&home.run(&["session", "list", "--all", "--json", "--limit", "2"]).success());
    assert_eq!(two.as_array().unwrap().len(), 2);

    let shown = home.run(&["session", "show", ids["tools"].as_str().unwrap()]).success();
    let lines = ["user", "  SAY:All tools done.", "  [bash: completed] echo one && ls", "  All tools done."];
    let mut rest = shown.lines();
    for line in lines {
        assert!(rest.any(|shown| shown == line), "{line:?} in this order in\n{shown}");
    }
    let missing = home.run(&["session", "show", "ses_none"]).failure(1);
    let expected =
        "everturn: session not found: ses_none; `everturn session list --all` lists what there is\n";
    assert_eq!(missing, expected);
}

#[test]
fn an_export_can_be_imported_elsewhere() {
    let (from, to) = (Home::new(), Home::new());
    let folder = unpack(&from, ARCHIVES[0].0);
    from.run(&["import", "opencode", text(&folder)]).success();
    let ids = parse(&std::fs::read_to_string(folder.join("ids.json")).unwrap());
    for name in ["tools", "compacted", "revert", "attachments"] {
        let id = ids[name].as_str().unwrap();
        let exported = from.run(&["session", "export", id]).success();
        assert_eq!(to.run_with(&["session", "import", "-"], &exported).success(), format!("{id}\n"));
        assert_eq!(parse(&to.run(&["session", "export", id]).success()), parse(&exported), "{name}");

        let file = to.work().join("again.json");
        to.run(&["session", "export", id, "--output", text(&file)]).success();
        let again = to.run(&["session", "import", text(&file)]).failure(1);
        assert_eq!(again, "everturn: that session is here already; nothing was changed\n");
    }
    assert!(
        to.run_with(&["session", "import", "-"], "{\"some\": \"json\"}").failure(1).starts_with("everturn: ")
    );
}

#[test]
fn rules_that_a_session_brings_are_shown() {
    // They held, and nobody could see them.
    let (from, to) = (Home::new(), Home::new());
    let folder = unpack(&from, ARCHIVES[0].0);
    from.run(&["import", "opencode", text(&folder)]).success();
    let ids = parse(&std::fs::read_to_string(folder.join("ids.json")).unwrap());
    let id = ids["tools"].as_str().unwrap();
    let mut exported = parse(&from.run(&["session", "export", id]).success());
    let rules = json!([
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
        {"permission": "edit", "pattern": "*", "action": "ask"},
    ]);
    exported["info"]["permission"] = rules;
    let import = to.run_with(&["session", "import", "-"], &exported.to_string());
    let noted = format!("with rules, which only forbid (`everturn session show` lists them): {id}\n");
    assert_eq!((import.stdout.as_str(), import.stderr.as_str()), (&*format!("{id}\n"), &*noted));
    let shown = to.run(&["session", "show", id]).success();
    let expected = "rules that came with it, which allow nothing that is not allowed here:\n  deny bash rm *\n  ask edit *\n";
    assert!(shown.contains(expected), "{shown}");
    let shown = from.run(&["session", "show", id]).success();
    assert!(!shown.contains("rules that came with it"), "{shown}");
}

#[test]
fn inspect_tells_what_a_file_is() {
    let home = Home::new();
    let inspect = |name: &str, options: &[&str]| {
        let file = fixtures::path(format!("pi/{name}.jsonl"));
        home.run(&[&["inspect", text(&file)], options].concat()).success()
    };
    let branched = "a05-branched-summary";
    let expected = "pi, format version 3\nfolder    /srv/everturn/proj\ncreated   2026-11-15 03:03\n\
                    entries   21 on 3 branches, 7725 bytes\nhealth    sound\n";
    assert_eq!(inspect(branched, &[]), expected);
    let context = fixtures::json(format!("pi/{branched}.expected-context.json"));
    assert_eq!(parse(&inspect(branched, &["--context", "--json"])), context);
    let meta = parse(&inspect(branched, &["--meta"]));
    assert_eq!((&meta["leaf"], &meta["labels"]), (&json!("b9c659f0"), &json!({"d88366a2": "tried-A"})));
    assert_eq!(inspect(branched, &["--tree"]).lines().count(), 21);
    let root = parse(&inspect(branched, &["--context", "--json", "--leaf", "root"]));
    assert_eq!(root["messages"], json!([]));

    let other = home.work().join("other.txt");
    std::fs::write(&other, "no session\n").unwrap();
    assert!(home.run(&["inspect", text(&other)]).failure(1).contains("no session file of pi or omp"));
    assert_eq!(home.files(), [text(&other)], "inspecting makes no files");
}

#[test]
fn one_prompt_without_a_server() {
    let model = ModelServer::start();
    let mut home = Home::new();
    let config = home.work().join("settings.json");
    std::fs::write(&config, opencode_config(&model.base_url()).to_string()).unwrap();
    home.set("OPENCODE_CONFIG", &config);
    std::fs::write(home.work().join("note.txt"), "from the note\n").unwrap();
    let answer = home.run(&["run", "TOOL:bash:cat note.txt > copy.txt\nSAY:copied"]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    assert!(answer.stdout.ends_with("copied\n"), "{}", answer.stdout);
    assert_eq!(std::fs::read_to_string(home.work().join("copy.txt")).unwrap(), "from the note\n");

    let again = home.run(&["run", "--continue", "SAY:and on"]);
    assert_eq!(again.status, Some(0), "{}", again.stderr);
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    assert_eq!(listed.as_array().unwrap().len(), 1, "the second prompt goes on in the first session");
    let shown = home.run(&["session", "show", listed[0]["id"].as_str().unwrap()]).success();
    assert!(shown.ends_with("\nuser\n  SAY:and on\n\nassistant\n  and on\n"), "{shown}");
}

#[test]
fn sessions_are_on_a_server_whose_authority_the_address_names() {
    let server = Postgres::start_with_tls();
    let database = server.database();
    let with = |url: String| {
        let mut home = Home::new();
        home.set("EVERTURN_DATABASE", url);
        home
    };
    let authority = server.ca_file().unwrap();
    let trusting = with(format!("{}&sslrootcert={}", database.url(), text(&authority)));
    let listed = trusting.run(&["session", "list"]);
    assert_eq!((listed.status, listed.stdout.as_str()), (Some(0), ""), "{}", listed.stderr);
    assert!(listed.stderr.starts_with("no sessions here"), "{}", listed.stderr);
    let error = with(database.url()).run(&["session", "list"]).failure(1);
    assert!(error.contains("certificate") && !error.contains(server.password()), "{error}");
}

#[test]
fn output_that_does_not_arrive_is_an_error() {
    // An export onto a full disk was called a success.
    let home = Home::new();
    home.run(&["run", "--model", "scripted/demo", "hello"]);
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    let id = listed[0]["id"].as_str().expect("an id");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is full");
    let output = home.command(&["session", "export", id]).stdout(full).output().expect("it runs");
    let complaint = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.starts_with("everturn: cannot write to standard output: No space left"), "{complaint}");
    // Whoever closes a pipe has read enough.
    let mut closed = home.command(&["session", "export", id]);
    let mut closed = closed.stdout(Stdio::piped()).spawn().expect("it runs");
    drop(closed.stdout.take());
    assert_eq!(closed.wait().expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn what_a_model_says_does_not_steer_the_terminal() {
    let home = Home::new();
    let script = json!([{"text": "a \u{1b}[31mred\u{1b}[0m word"}]);
    std::fs::write(home.work().join("red.json"), script.to_string()).unwrap();
    let shown = "a �[31mred�[0m word";
    let run = home.open(&["run", "--model", "scripted/./red.json", "go"]);
    run.shows(shown).await;
    run.shows("session ses_").await;
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    let show = home.open(&["session", "show", listed[0]["id"].as_str().expect("an id")]);
    show.shows(shown).await;
    let complaint = home.open(&["session", "show", "ses_\u{1b}[31mred"]);
    complaint.shows("everturn: session not found: ses_�[31mred").await;
    // What comes out of a pipe is read on a terminal as well.
    let piped = home.run(&["run", "--model", "scripted/./red.json", "go"]);
    assert_eq!(piped.stdout, "a �[31mred�[0m word\n");
}

#[test]
fn a_run_answers_everything_that_is_asked_at_once() {
    let home = Home::new();
    let read = |path: &str| json!({"name": "read", "input": {"filePath": path}});
    let options = json!([{"label": "a", "description": "one"}, {"label": "b", "description": "two"}]);
    let question = json!({"questions": [{"question": "Which?", "header": "Choice", "options": options}]});
    let question = json!({"name": "question", "input": question});
    let script =
        json!([{"tools": [read("/etc/hostname"), question, read("/etc/hosts")]}, {"text": "an answer"}]);
    std::fs::write(home.work().join("ask.json"), script.to_string()).unwrap();
    for (options, answered) in [(&[][..], false), (&["--yes"][..], true)] {
        let run = [&["run", "--model", "scripted/./ask.json", "go"], options].concat();
        let outcome = home.run(&run);
        // The question has nobody to answer it, with --yes too, and the work stops there.
        assert_eq!(outcome.status, Some(3), "{options:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout.matches('✓').count() == 2, answered, "{}", outcome.stdout);
        assert_eq!(outcome.stdout.matches(['✓', '✗']).count(), 3, "{}", outcome.stdout);
    }
}

#[test]
fn a_slash_command_is_run_with_its_arguments_and_asks() {
    let home = Home::new();
    let folder = home.work().join(".opencode/command");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("hello.md"), "Say hello to $1\n").unwrap();
    std::fs::write(home.work().join("play.json"), json!([{"text": "an answer"}]).to_string()).unwrap();
    let run = |command: &str, more: &[&str]| {
        home.run(&[&["run", "--model", "scripted/./play.json", "--command", command], more].concat())
    };
    let said = run("hello", &["Ada"]);
    assert_eq!((said.status, said.stdout.as_str()), (Some(0), "an answer\n"), "{}", said.stderr);
    let listed: Value = serde_json::from_str(&home.run(&["session", "list", "--json"]).success()).unwrap();
    let shown = home.run(&["session", "show", listed[0]["id"].as_str().unwrap()]).success();
    assert!(shown.contains("Say hello to Ada"), "{shown}");
    // Nothing of a repository is run before the person trusts it.
    std::fs::write(folder.join("runs.md"), "It prints !`echo ran >> runs; echo out`\n").unwrap();
    let held = run("runs", &[]);
    assert_eq!(held.status, Some(1), "{}", held.stderr);
    assert!(held.stderr.contains("waits for your trust"), "{}", held.stderr);
    let refused = run("nothing", &[]);
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("there is no command nothing; known: hello, init"), "{}", refused.stderr);
    assert!(!home.work().join("runs").exists());
    home.configure(&json!({"permission": {"bash": "ask"}}));
    let asked = run("runs", &["--trust"]);
    assert_eq!(asked.status, Some(3), "{}", asked.stderr);
    assert!(asked.stderr.contains("`bash` was asked for and refused (echo ran"), "{}", asked.stderr);
    assert!(!home.work().join("runs").exists());
    let allowed = run("runs", &["--yes"]);
    assert_eq!((allowed.status, allowed.stdout.as_str()), (Some(0), "an answer\n"), "{}", allowed.stderr);
    assert_eq!(std::fs::read_to_string(home.work().join("runs")).unwrap(), "ran\n");
}

#[test]
fn a_run_ends_where_a_guard_stops_it() {
    // A model that makes the same call for ever was answered for ever, with --yes.
    let home = Home::new();
    let call = json!({"tools": [{"name": "read", "input": {"filePath": "missing.txt"}}]});
    let script = Value::Array(vec![call; 40]);
    std::fs::write(home.work().join("loop.json"), script.to_string()).unwrap();
    let run =
        |options: &[&str]| home.run(&[&["run", "--model", "scripted/./loop.json", "go"], options].concat());
    let show = || {
        let listed = parse(&home.run(&["session", "list", "--json"]).success());
        home.run(&["session", "show", listed[0]["id"].as_str().unwrap()]).success()
    };
    for options in [&[][..], &["--yes"]] {
        let outcome = run(options);
        assert_eq!(outcome.status, Some(3), "{}", outcome.stderr);
        let told = "`doom_loop` was asked for and refused (read), because nobody is here to answer and --yes does not allow \
                    it. The model has made this call three times with the same input.";
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    home.configure(&json!({"permission": {"doom_loop": "deny"}}));
    let outcome = run(&["--yes"]);
    assert_eq!(
        (outcome.status, outcome.stdout.matches(['✓', '✗']).count()),
        (Some(3), 5),
        "{}",
        outcome.stderr
    );
    assert!(show().contains("A rule is against that (doom_loop read), so the work ends here."), "{}", show());
    home.configure(&json!({"permission": {"doom_loop": "allow"}, "budget": {"session": {"steps": 7}}}));
    let outcome = run(&["--yes"]);
    assert_eq!(outcome.status, Some(3), "{}", outcome.stderr);
    assert_eq!(outcome.stdout.matches(['✓', '✗']).count(), 7, "{}", outcome.stdout);
    let told = "--yes does not allow it. The budget of the session is used up: 7 of 7 (steps).";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    // Where nothing is left from the beginning, the prompt is kept until there is.
    home.configure(&json!({"budget": {"project": {"steps": 1}}}));
    let outcome = run(&[]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(3), ""), "{}", outcome.stderr);
    assert!(show().contains("parked: The budget of the project is used up: "), "{}", show());
}

#[test]
fn what_a_budget_keeps_waiting_goes_on_where_it_was_once_there_is_more() {
    // Nothing said why it rested, and nothing but another prompt let it go on.
    let home = Home::new();
    let call = json!({"tools": [{"name": "list", "input": {}}]});
    std::fs::write(home.work().join("play.json"), json!([call, {"text": "done"}]).to_string()).unwrap();
    home.configure(&json!({"budget": {"session": {"steps": 1}}}));
    let outcome = home.run(&["run", "--model", "scripted/./play.json", "go"]);
    assert_eq!(outcome.status, Some(3), "{}", outcome.stderr);
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    let id = listed[0]["id"].as_str().unwrap();
    let resume = format!("`everturn session resume {id}`");
    assert_eq!(listed[0]["state"], "parked");
    let asked = "The budget of the session is used up: 1 of 1 (steps).";
    assert!(outcome.stderr.contains(&format!("{asked} Shall it go on with 1 more? {resume} goes on once `budget` in the configuration has more, or asks again")));
    let shown = home.run(&["session", "show", id]).success();
    assert!(shown.contains("parked: The budget of the session is used up: 1 of 1 (steps); "), "{shown}");
    // It is asked about again, as long as there is no more.
    let again = home.run(&["session", "resume", id]);
    assert_eq!((again.status, again.stdout.as_str()), (Some(3), ""), "{}", again.stderr);
    home.configure(&json!({}));
    let more = home.run(&["session", "resume", id]);
    assert_eq!((more.status, more.stdout.as_str()), (Some(0), "done\n"), "{}", more.stderr);
    let nothing = home.run(&["session", "resume", id]).failure(1);
    assert!(nothing.contains("nothing waits in the session"), "{nothing}");
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    assert_eq!(listed[0]["state"], "idle");
}

#[test]
fn a_turn_whose_process_was_killed_goes_on() {
    // Nothing waited, it said, although a turn was open; only another prompt or its end was left.
    let (model, home) = (ModelServer::start(), Home::new());
    home.configure(&opencode_config(&model.base_url()));
    let mut killed = home.command(&["run", "TOOL:bash:sleep 600\nSAY:done"]).spawn().unwrap();
    let begun = || {
        let listed = home.run(&["session", "list", "--json"]).success();
        let id = parse(&listed).pointer("/0/id")?.as_str()?.to_owned();
        let shown = home.run(&["session", "show", &id]).success();
        shown.contains("[bash").then_some(id)
    };
    let id = loop {
        if let Some(id) = begun() {
            break id;
        }
    };
    killed.kill().unwrap();
    killed.wait().unwrap();
    let resumed = home.run(&["session", "resume", &id]);
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    assert!(resumed.stdout.ends_with("done\n"), "{}", resumed.stdout);
    assert!(home.run(&["session", "show", &id]).success().contains("unknown"));
}

#[test]
fn a_prompt_that_somebody_elses_stop_holds_says_so() {
    // All that was said of it was "Aborted".
    let (model, home) = (ModelServer::start(), Home::new());
    home.configure(&opencode_config(&model.base_url()));
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let until = |state: &str| loop {
        let listed = parse(&home.run(&["session", "list", "--json"]).success());
        let waits = listed
            .pointer("/0/id")
            .and_then(Value::as_str)
            .is_some_and(|id| home.run(&["session", "show", id]).success().contains(state));
        if waits {
            return;
        }
    };
    let first = run(&["run", "HOLD:x SAY:never ending"]);
    until("a turn is open");
    let second = run(&["run", "--continue", "SAY:second"]);
    until("1 prompt waits");
    let interrupt = Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let (first, second) = (said(first), said(second));
    assert!(first.ends_with("everturn: the work was stopped\n"), "{first}");
    assert!(
        second.contains("the work was stopped before it began; `everturn session resume ses_"),
        "{second}"
    );
}

#[test]
fn a_default_agent_that_there_is_not_leaves_no_session_behind() {
    let home = Home::new();
    home.configure(&json!({"default_agent": "biuld"}));
    let refused = home.run(&["run", "--model", "scripted/demo", "hello"]).failure(1);
    assert!(refused.contains("there is no agent biuld; known: build"), "{refused}");
    assert_eq!(home.run(&["session", "list", "--json"]).success().trim(), "[]");
    assert!(home.run(&["doctor"]).stdout.contains("configuration: there is no agent biuld"));
}

#[test]
fn an_empty_prompt_is_refused() {
    // A blank one was sent to the provider, and billed.
    let home = Home::new();
    for prompt in ["", "  ", "\n\t"] {
        let refused = home.run(&["run", "--model", "scripted/demo", prompt]).failure(1);
        assert!(refused.contains("the prompt is empty"), "{refused}");
    }
    assert_eq!(home.run(&["session", "list", "--json"]).success().trim(), "[]");
    let run = home.run(&["run", "--model", "scripted/demo", "hello"]);
    let id = run.stderr.trim().strip_prefix("session ").unwrap();
    let refused = home.run(&["session", "inbox", id, "--add", " "]).failure(1);
    assert!(refused.contains("the prompt is empty"), "{refused}");
}

#[test]
fn a_script_can_tell_that_something_was_refused() {
    let home = Home::new();
    let read = json!({"name": "read", "input": {"filePath": "/etc/hostname"}});
    let script = json!([{"tools": [&read]}, {"text": "an answer"}]);
    std::fs::write(home.work().join("ask.json"), script.to_string()).unwrap();
    let refused = home.run(&["run", "--model", "scripted/./ask.json", "go"]);
    let complaint = refused.stderr;
    assert_eq!(refused.status, Some(3), "{complaint}");
    assert!(
        complaint.contains(
            "`external_directory` was asked for and refused (/etc/*); --yes allows all that is asked for"
        ),
        "{complaint}"
    );
    assert!(complaint.ends_with("everturn: the work stopped where something was refused\n"), "{complaint}");
    let allowed = home.run(&["run", "--yes", "--model", "scripted/./ask.json", "go"]);
    assert_eq!(allowed.status, Some(0), "{}", allowed.stderr);
    // What is refused to a subagent ends its work and not that of the session.
    let task = json!({"description": "look", "prompt": "look outside", "subagent_type": "general"});
    let delegating = json!([{"when": "outside", "tools": [read]},
        {"when": "begin", "tools": [{"name": "task", "input": task}]}, {"when": "begin", "text": "an answer"}]);
    std::fs::write(home.work().join("task.json"), delegating.to_string()).unwrap();
    let delegated = home.run(&["run", "--model", "scripted/./task.json", "begin"]);
    assert!(
        delegated.stderr.contains("`external_directory` was asked for and refused"),
        "{}",
        delegated.stderr
    );
    assert_eq!(
        (delegated.status, delegated.stdout.ends_with("an answer\n")),
        (Some(0), true),
        "{}",
        delegated.stdout
    );
    // What a rule denies is told to the model, which goes on.
    home.configure(&json!({"permission": {"external_directory": "deny"}}));
    let denied = home.run(&["run", "--model", "scripted/./ask.json", "go"]);
    assert_eq!((denied.status, denied.stdout.ends_with("an answer\n")), (Some(0), true), "{}", denied.stderr);
    assert!(home.run(&["run", "--help"]).success().contains("3  something was refused"));
}

#[test]
fn sessions_outside_repositories_belong_to_their_folder() {
    let home = Home::new();
    let script = json!([{"text": "an answer"}]);
    for folder in ["one", "two"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
        std::fs::write(home.work().join(folder).join("play.json"), script.to_string()).unwrap();
    }
    let run = |folder: &str, arguments: &[&str]| {
        let output = home.command(arguments).current_dir(home.work().join(folder)).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let ids = |folder: &str, more: &[&str]| {
        let (status, listed, complaint) = run(folder, &[&["session", "list", "--json"], more].concat());
        assert_eq!(status, Some(0), "{complaint}");
        let listed = parse(&listed);
        let ids = listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<String>>()
    };
    let play = ["run", "--model", "scripted/./play.json", "go"];
    assert_eq!(run("one", &play).0, Some(0));
    // The newest session of another folder was gone on in.
    let (status, _, complaint) = run("two", &["run", "--continue", "--model", "scripted/./play.json", "go"]);
    assert_eq!((status, complaint.as_str()), (Some(1), "everturn: there is no session to go on in\n"));
    assert_eq!(run("two", &play).0, Some(0));
    let (one, two) = (ids("one", &[]), ids("two", &[]));
    assert_eq!((one.len(), two.len()), (1, 1));
    assert_eq!(ids("one", &["--all"]), [two, one.clone()].concat());
    assert_eq!(run("one", &["run", "--continue", "--model", "scripted/./play.json", "go"]).0, Some(0));
    assert_eq!(ids("one", &[]), one);
}

#[test]
fn a_script_plays_on_in_a_session_that_was_imported() {
    let home = Home::new();
    let write = |name: &str| json!({"name": "write", "input": {"filePath": name, "content": "x"}});
    let script = json!([{"tools": [write("a")]}, {"tools": [write("b")]}, {"text": "all done"}]);
    std::fs::write(home.work().join("play.json"), script.to_string()).unwrap();
    assert_eq!(home.run(&["run", "--model", "scripted/./play.json", "go"]).status, Some(0));
    let listed = parse(&home.run(&["session", "list", "--json"]).success());
    let id = listed[0]["id"].as_str().unwrap();
    home.run(&["session", "export", id, "-o", "export.json"]).success();
    for name in ["a", "b"] {
        std::fs::remove_file(home.work().join(name)).unwrap();
    }
    let other = Home::new();
    for name in ["play.json", "export.json"] {
        std::fs::copy(home.work().join(name), other.work().join(name)).unwrap();
    }
    other.run(&["session", "import", "export.json"]).success();
    let ran = other.run(&["run", "--yes", "--model", "scripted/./play.json", "-s", id, "go"]);
    assert_eq!((ran.status, ran.stdout.ends_with("all done\n")), (Some(0), true), "{ran:?}");
}
