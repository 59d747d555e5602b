//! `everturn doctor`: on data that earlier versions left, and on how commands are confined.

use everturn_testkit::damage::nest_text;
use serde_json::{Value, json};

use crate::shell::Home;

#[test]
fn problems_of_the_configuration_here_are_listed() {
    // Only commands that start an engine told of them.
    let home = Home::new();
    let sound = home.run(&["doctor"]).success();
    let root = home.work().canonicalize().unwrap();
    assert!(sound.contains(&format!("configuration of {}: in order\n", root.display())), "{sound}");
    let file = root.join("opencode.json");
    std::fs::write(&file, "{\n  \"permissions\": {\"bash\": \"deny\"}, \"model\": \"x/y\"}").unwrap();
    let doctor = home.run(&["doctor"]).success();
    let told = format!(
        "configuration: {}:2:3: `permissions` has no effect: there is no such setting: did you mean `permission`?; more is \
         asked until it is mended\n",
        file.display()
    );
    assert!(doctor.contains(&told), "{doctor}");
    assert!(
        doctor.contains("asks for more than you have trusted (model): `everturn trust` shows it\n"),
        "{doctor}"
    );
}

#[test]
fn a_session_with_data_that_is_nested_too_deep_is_mended() {
    // Such data was stored as it came, and nothing could read the session again.
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    home.run(&["run", "--model", "scripted/demo", "hello depth"]);
    let listed: Value =
        serde_json::from_str(&home.run(&["session", "list", "--all", "--json"]).success()).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    nest_text(data.path(), id, "hello depth", 130);

    let unreadable = home.run(&["session", "show", id]).failure(1);
    assert!(unreadable.contains("`everturn doctor` says what helps"), "{unreadable}");
    let doctor = home.run(&["doctor"]);
    let row = doctor.stdout.lines().find(|line| line.contains("levels deep")).unwrap_or_default();
    assert!(row.contains(id) && row.ends_with("--rebuild helps"), "{}", doctor.stdout);

    let mended = home.run(&["doctor", "--rebuild", id]).success();
    assert!(mended.contains("was nested too deep to be read, and was cut"), "{mended}");
    assert!(mended.contains("every session is what its log says"), "{mended}");
    let shown = home.run(&["session", "show", id]).success();
    assert!(shown.contains("hello depth"), "{shown}");
    let audit = home.run(&["doctor", "--audit"]).success();
    assert!(audit.contains("rebuild") && audit.contains("\"cut\":["), "{audit}");
    let again = home.run(&["run", "--model", "scripted/demo", "--session", id, "and on"]);
    assert_eq!(again.status, Some(0), "{}", again.stderr);
}

#[test]
fn a_sandbox_that_is_switched_off_is_told_with_who_said_so() {
    let home = Home::new();
    let told = |home: &Home| {
        let all = home.run(&["doctor"]).stdout;
        all.lines().filter(|line| line.starts_with("commands run")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told(&home), "commands run in a sandbox");
    home.configure(&json!({"sandbox": {"mode": "off"}}));
    let file = home.home().join(".config/opencode/opencode.json");
    let off = format!(
        "commands run without a sandbox in {}: `sandbox` is `off` in {}",
        home.work().display(),
        file.display()
    );
    assert_eq!(told(&home), off);
    // A project says more at once, and less when it is trusted.
    std::fs::create_dir(home.work().join(".git")).unwrap();
    std::fs::write(home.work().join("opencode.json"), r#"{"sandbox": "read-only"}"#).unwrap();
    assert_eq!(told(&home), "commands run in a sandbox");
    home.configure(&json!({}));
    std::fs::write(home.work().join("opencode.json"), r#"{"sandbox": "off"}"#).unwrap();
    assert_eq!(told(&home), "commands run in a sandbox");
    assert_eq!(home.run(&["trust", "--yes"]).status, Some(0));
    let off = format!(
        "commands run without a sandbox in {}: `sandbox` is `off` in {}",
        home.work().display(),
        "the project's configuration"
    );
    assert_eq!(told(&home), off);
}

#[test]
fn every_source_of_the_person_is_read_or_named() {
    let mut home = Home::new();
    let opencode = home.home().join(".config/opencode");
    std::fs::create_dir_all(&opencode).unwrap();
    std::fs::write(opencode.join("config.json"), r#"{"permission": {"bahs": "deny"}}"#).unwrap();
    home.set("OPENCODE_PERMISSION", "{\"edit\": \"ask\",\n \"raed\": \"deny\"}");
    let missing = home.home().join("missing");
    home.set("OPENCODE_CONFIG_DIR", &missing);
    let doctor = home.run(&["doctor"]).success();
    let lines: Vec<&str> = doctor.lines().filter(|line| line.starts_with("configuration")).collect();
    let wrong = |name: &str, meant: &str| {
        format!(
            "`permission.{name}` has no effect: no permission is called `{name}`: did you mean `{meant}`?; more is asked until it is mended"
        )
    };
    let expected = [
        format!(
            "configuration: OPENCODE_CONFIG_DIR: it names {}, which is no folder; nothing of this file counts until it is mended, and more is asked",
            missing.display()
        ),
        format!("configuration: {}:1:17: {}", opencode.join("config.json").display(), wrong("bahs", "bash")),
        format!("configuration: OPENCODE_PERMISSION:2:2: {}", wrong("raed", "read")),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_is_wrong_with_skills_is_listed() {
    let home = Home::new();
    let skill = home.home().join(".config/everturn/skills/odd");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "no front matter").unwrap();
    let doctor = home.run(&["doctor"]).success();
    let lines: Vec<&str> = doctor.lines().filter(|line| line.starts_with("skill")).collect();
    let why = "it does not begin with front matter between two lines of `---`";
    assert_eq!(lines, [format!("skill: {}: {why}", skill.join("SKILL.md").display())]);
}
