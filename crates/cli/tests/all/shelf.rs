//! The archive, the trash and what was used, from the command line.

use std::path::Path;
use std::process::Command;

use everturn_testkit::damage::{damage_event, damage_session, forget_bills};
use everturn_testkit::process::ServerOptions;
use everturn_testkit::{EverturnServer, ModelServer, fixtures, within};
use serde_json::{Value, json};

use crate::shell::Home;

/// A home with the sessions of an archive of OpenCode's, and how many there are.
fn stocked() -> (Home, usize) {
    let home = Home::new();
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(fixtures::path("opencode/opencode-sqlite-1.18.33.tar.gz")).arg("-C").arg(home.work());
    assert!(tar.status().expect("tar is installed").success());
    let folder = home.work().join("opencode");
    home.run(&["import", "opencode", folder.to_str().unwrap()]).success();
    let count = ids(&home, &["session", "list", "--all"]).len();
    assert!(count > 5, "{count} sessions");
    (home, count)
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    let printed = home.run(&[arguments, &["--json"]].concat()).success();
    serde_json::from_str(&printed).unwrap_or_else(|cause| panic!("{cause}: {printed}"))
}

/// The ids that a list has.
fn ids(home: &Home, arguments: &[&str]) -> Vec<String> {
    let listed = json(home, arguments);
    let sessions = listed.as_array().expect("a list").iter();
    sessions.map(|session| session["id"].as_str().expect("an id").to_owned()).collect()
}

const LIST: [&str; 3] = ["session", "list", "--all"];
const ARCHIVED: [&str; 4] = ["session", "list", "--all", "--archived"];
const TRASH: [&str; 2] = ["trash", "list"];

#[test]
fn archived_sessions_are_listed_apart() {
    let (home, count) = stocked();
    let before = ids(&home, &ARCHIVED).len();
    let id = ids(&home, &LIST).remove(0);
    assert_eq!(home.run(&["session", "archive", &id]).success(), format!("{id} is archived\n"));
    assert_eq!(json(&home, &["session", "archive", &id]), json!({"archived": [id]}), "twice is once");
    assert!(!ids(&home, &LIST).contains(&id));
    assert_eq!(ids(&home, &LIST).len(), count - 1);
    let archived = ids(&home, &ARCHIVED);
    assert_eq!((archived.len(), archived.contains(&id)), (before + 1, true));
    assert_eq!(ids(&home, &[&ARCHIVED[..], &["--limit", "1"]].concat()).len(), 1);
    home.run(&["session", "show", &id]).success();
    let back = home.run(&["session", "unarchive", &id]).success();
    assert_eq!(back, format!("{id} is in the list again\n"));
    assert_eq!((ids(&home, &LIST).len(), ids(&home, &ARCHIVED).len()), (count, before));
}

#[test]
fn a_deleted_session_is_in_the_trash_until_it_is_restored() {
    let (home, count) = stocked();
    assert_eq!(home.run(&TRASH).stderr, "the trash is empty\n");
    let [one, two] = [0, 1].map(|place| ids(&home, &LIST).remove(place));
    let exported = home.run(&["session", "export", &one]).success();
    assert_eq!(json(&home, &["session", "delete", &one, &two]), json!({"trashed": [one, two]}));
    assert_eq!(ids(&home, &LIST).len(), count - 2);
    let trash = json(&home, &TRASH);
    assert_eq!(trash.as_array().unwrap().len(), 2, "{trash}");
    assert!(trash[0]["time"]["trashed"].is_i64(), "{trash}");
    let table = home.run(&TRASH).success();
    assert!(table.contains(&one) && table.contains("deleted"), "{table}");

    let error = home.run(&["session", "show", &one]).failure(1);
    let advice =
        format!("everturn: {one} is in the trash; `everturn session restore {one}` takes it out again\n");
    assert_eq!(error, advice);
    // It was only said not to be found.
    let error = home.run(&["run", "--session", &one, "--model", "scripted/demo", "go on"]).failure(1);
    assert_eq!(error, advice);
    assert_eq!(home.run(&["session", "restore", &one]).success(), format!("{one} is out of the trash\n"));
    assert_eq!(home.run(&["session", "export", &one]).success(), exported, "it is what it was");
    let again = home.run(&["session", "restore", &one]).failure(1);
    assert_eq!(again, format!("everturn: {one} is not in the trash; nothing was changed\n"));
    assert_eq!(ids(&home, &TRASH), [two]);
}

#[test]
fn nothing_is_deleted_for_good_unless_it_is_said() {
    let (home, count) = stocked();
    let [one, two] = [0, 1].map(|place| ids(&home, &LIST).remove(place));
    let error = home.run(&["session", "purge", &one]).failure(1);
    assert!(error.contains("is not in the trash") && error.contains("--yes"), "{error}");
    home.run(&["session", "delete", &one]).success();
    let refused = home.run(&["session", "purge", &one]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(1), ""), "nobody can be asked here");
    assert!(refused.stderr.contains("nobody can be asked here: add --yes"), "{}", refused.stderr);
    let refused = home.run(&["trash", "empty"]);
    assert!(refused.stderr.contains("nobody can be asked here: add --yes"), "{}", refused.stderr);
    assert_eq!(ids(&home, &TRASH), [one.as_str()], "it is still there");

    assert_eq!(json(&home, &["session", "purge", "--yes", &one]), json!({"purged": [one]}));
    let gone = home.run(&["session", "restore", &one]).failure(1);
    assert!(gone.starts_with(&format!("everturn: {one} was deleted for good at 20")), "{gone}");
    // It said that there is no such session.
    let prompt = ["run", "--model", "scripted/demo", "--session", &one, "hello"];
    assert_eq!(home.run(&prompt).failure(1), gone);
    // One that is not in the trash goes too if that is said.
    let purged = home.run(&["session", "purge", "--yes", &two]).success();
    assert!(purged.contains(&format!("{two} is deleted for good\n")), "{purged}");
    assert!(ids(&home, &LIST).len() <= count - 2);
    assert!(home.run(&["doctor"]).success().contains("every session is what its log says"));
    let audit = home.run(&["doctor", "--audit"]).success();
    assert_eq!(audit.lines().filter(|line| line.contains(" purge ")).count(), 2, "{audit}");
    let error = home.run(&["doctor", "--take-back", &one]).failure(1);
    assert_eq!(error, format!("everturn: {one} is not set aside; `everturn doctor` lists those that are\n"));
}

#[test]
fn what_belongs_together_comes_out_of_the_trash_together_or_alone() {
    let (home, _) = stocked();
    let known = std::fs::read_to_string(home.work().join("opencode/ids.json")).unwrap();
    let known: Value = serde_json::from_str(&known).unwrap();
    let parent = known["task"].as_str().unwrap();
    let delete = || json(&home, &["session", "delete", parent]);
    let trashed = delete();
    let child = trashed["trashed"][1].as_str().unwrap();
    assert_eq!(trashed, json!({"trashed": [parent, child]}));
    // Both are named, and the second is out with the first.
    let both = json(&home, &["session", "restore", parent, child]);
    assert_eq!(both, json!({"restored": [parent, child]}));
    assert_eq!(delete(), trashed);
    let alone = home.run(&["session", "restore", child]);
    let note = format!("{child} belongs to {parent}, which is still in the trash\n");
    let expected = (Some(0), format!("{child} is out of the trash\n"), note);
    assert_eq!((alone.status, alone.stdout, alone.stderr), expected);
    assert_eq!(
        home.run(&["session", "restore", parent]).success(),
        format!("{parent} is out of the trash\n")
    );
}

#[test]
fn what_is_deleted_for_good_gives_its_space_back() {
    let (home, _) = stocked();
    for id in ids(&home, &LIST) {
        let purged = home.run(&["session", "purge", "--yes", &id]);
        assert_eq!(purged.status, Some(0), "{}", purged.stderr);
    }
    let left = json(&home, &["trash", "empty", "--yes"]);
    assert_eq!(left, json!({"purged": [], "busy": [], "bytes": {"returned": 0, "free": 0}}));
}

#[test]
fn a_session_of_which_nothing_can_be_read_can_be_deleted_for_good() {
    // The error said that it could, and the command gave the same error.
    let (home, count) = stocked();
    let id = ids(&home, &LIST).remove(0);
    let database = home.files().into_iter().find(|file| file.ends_with("/everturn.db")).expect("a database");
    let data = Path::new(&database).parent().expect("its folder");
    damage_event(data, &id, 1);
    damage_session(data, &id);
    let refused = home.run(&["session", "purge", &id]).failure(1);
    assert!(refused.contains("cannot be read") && refused.contains("--yes"), "{refused}");
    let purged = home.run(&["session", "purge", "--yes", &id]);
    assert_eq!(purged.status, Some(0), "{}", purged.stderr);
    assert!(purged.stdout.contains(&format!("{id} is deleted for good\n")), "{}", purged.stdout);
    assert!(home.run(&["doctor"]).success().contains("every session is what its log says"));
    assert!(ids(&home, &LIST).len() < count);
}

#[test]
fn the_trash_is_emptied_by_age() {
    let (home, _) = stocked();
    let id = ids(&home, &LIST).remove(0);
    home.run(&["session", "delete", &id]).success();
    let wrong = home.run(&["trash", "empty", "--older-than", "soon"]).failure(2);
    assert!(wrong.contains("\"soon\" is no time such as 12h, 30d or 8w"), "{wrong}");
    let kept = home.run(&["trash", "empty", "--older-than", "30d", "--yes"]).success();
    assert_eq!(kept, "0 sessions deleted for good\n");
    assert_eq!(ids(&home, &TRASH), [id.as_str()]);
    let emptied = json(&home, &["trash", "empty", "--yes"]);
    assert!(emptied["purged"].as_array().unwrap().contains(&json!(id)), "{emptied}");
    assert_eq!(home.run(&TRASH).stderr, "the trash is empty\n");
}

#[test]
fn a_mistyped_id_changes_nothing_and_is_helped() {
    let (home, count) = stocked();
    let id = ids(&home, &LIST).remove(0);
    let short = id.get(..id.len() - 3).unwrap();
    for command in ["archive", "delete", "show"] {
        let error = home.run(&["session", command, short]).failure(1);
        assert!(
            error.starts_with(&format!("everturn: session not found: {short}, did you mean ")),
            "{error}"
        );
        assert!(error.contains(&id), "{error}");
    }
    let error = home.run(&["session", "delete", &id, "ses_none"]).failure(1);
    let expected =
        "everturn: session not found: ses_none; `everturn session list --all` lists what there is\n";
    assert_eq!(error, expected);
    assert_eq!(ids(&home, &LIST).len(), count, "the first one was not deleted either");
}

#[test]
fn what_helps_a_damaged_session_is_said_the_same_everywhere() {
    // A session whose log is damaged was told to be rebuilt from it.
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    let prompt = ["run", "--model", "scripted/demo", "hello"];
    home.run(&prompt);
    home.run(&prompt);
    let [one, two] = [0, 1].map(|place| ids(&home, &LIST).remove(place));
    damage_event(data.path(), &one, 1);
    forget_bills(data.path());

    let stats = home.run(&["stats", "--by", "model"]);
    let (found, advice) = (stats.stderr.trim_end(), "`everturn doctor` says what helps");
    assert!(found.starts_with(&format!("what {one} used is under (no model known): ")), "{found}");
    assert!(found.ends_with(advice), "{found}");
    assert!(stats.stdout.contains("scripted/demo") && stats.stdout.contains("total"), "{}", stats.stdout);

    let doctor = home.run(&["doctor", "--set-aside"]);
    assert_eq!(doctor.status, Some(1));
    let row = doctor.stdout.lines().find(|line| line.contains(&one)).unwrap_or_default();
    assert!(row.ends_with("restore it from a backup"), "{}", doctor.stdout);
    let refused = home.run(&["run", "--session", &one, "more"]);
    assert_eq!(refused.status, Some(1));
    assert!(
        refused.stderr.contains("was set aside") && refused.stderr.contains(advice),
        "{}",
        refused.stderr
    );
    home.run(&["session", "delete", &two]).success();

    let both = home.run(&["doctor", "--audit", "--set-aside"]).failure(2);
    assert!(both.contains("'--audit' cannot be used with '--set-aside'"), "{both}");
}

#[test]
fn stats_add_up() {
    let home = Home::new();
    assert_eq!(home.run(&["stats"]).stderr, "nothing was used yet\n");
    let (home, _) = stocked();
    for by in ["day", "model", "project"] {
        let stats = json(&home, &["stats", "--by", by]);
        let rows = stats[format!("{by}s")].as_array().unwrap();
        let sum = |key: &str| rows.iter().map(|row| row["tokens"][key].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("input"), sum("output")), {
            let total = |key: &str| stats["tokens"][key].as_u64().unwrap();
            (total("input"), total("output"))
        });
        assert!(sum("input") > 0 && stats["uses"].as_u64() >= stats["sessions"].as_u64(), "{stats}");
        let table = home.run(&["stats", "--by", by]).success();
        assert!(table.starts_with(&format!(" {by}")) && table.contains("total"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80) && !table.contains('█'), "{table}");
    }
    // What the command was called before says the same.
    let [now, before] =
        [["stats", "--by", "model"], ["usage", "--by", "model"]].map(|call| home.run(&call).success());
    assert_eq!(now, before);
    assert_eq!(home.run(&["stats", "--since", "2999-01-01"]).stderr, "nothing was used since then\n");
    let wrong = home.run(&["stats", "--since", "soon"]).failure(2);
    assert!(wrong.contains("no day such as 2026-11-18"), "{wrong}");
}

#[test]
fn stats_tell_folders_outside_of_repositories_apart() {
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    home.run(&["run", "--model", "scripted/demo", "hello"]);
    home.run(&["run", "--model", "scripted/demo", "hello"]);
    let id = ids(&home, &LIST).remove(0);
    let there = tempfile::tempdir().unwrap();
    let folder = there.path().canonicalize().unwrap().display().to_string();
    home.run(&["session", "move", &id, &folder]).success();
    let stats = json(&home, &["stats", "--by", "project"]);
    let rows = stats["projects"].as_array().unwrap().iter();
    let mut found: Vec<(&str, u64)> =
        rows.map(|row| (row["project"].as_str().unwrap(), row["sessions"].as_u64().unwrap())).collect();
    found.sort_unstable();
    let here = home.work().canonicalize().unwrap().display().to_string();
    let mut expected = [(here.as_str(), 1), (folder.as_str(), 1)];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn lists_show_what_sessions_cost() {
    let (home, _) = stocked();
    let table = home.run(&LIST).success();
    let head = table.lines().next().unwrap();
    assert!(head.split_whitespace().eq(["session", "updated", "cost", "title"]), "{table}");
    let sessions = json(&home, &LIST);
    let paid =
        sessions.as_array().unwrap().iter().filter(|session| session["spent"]["cost"].as_f64() > Some(0.0));
    let paid: Vec<&Value> = paid.collect();
    assert!(!paid.is_empty(), "{sessions}");
    for session in paid {
        let (id, cost) = (session["id"].as_str().unwrap(), session["spent"]["cost"].as_f64().unwrap());
        let row = table.lines().find(|line| line.contains(id)).unwrap();
        assert!(row.contains(&format!("${cost:.4}")), "{row}");
        assert!(cost >= session["cost"].as_f64().unwrap(), "with its subagents: {session}");
    }
}

#[test]
fn a_session_goes_on_in_another_folder() {
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    home.run(&["run", "--model", "scripted/demo", "hello"]);
    let id = ids(&home, &LIST).remove(0);
    let there = tempfile::tempdir().unwrap();
    let folder = there.path().canonicalize().unwrap().display().to_string();
    let moved = home.run(&["session", "move", &id, &folder]).success();
    assert_eq!(moved, format!("{id} goes on in {folder}\n"));
    assert_eq!(json(&home, &LIST)[0]["directory"], folder.as_str());
    let missing = home.run(&["session", "move", &id, "/no/such/folder"]).failure(1);
    assert!(missing.starts_with("everturn: cannot find /no/such/folder: No such file"), "{missing}");
}

#[test]
fn a_run_ends_with_the_name_of_its_session() {
    // It ended before the name was there, so its sessions kept the default one.
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    assert_eq!(home.run(&["run", "--model", "scripted/demo", "hello"]).status, Some(0));
    let title = json(&home, &LIST)[0]["title"].as_str().unwrap().to_owned();
    assert!(!title.starts_with("New session - "), "{title}");
}

/// A server on the data of a home, with a configuration.
async fn serve(home: &Home, data: &Path, config: Value) -> EverturnServer {
    let model = ModelServer::start();
    let mut options = ServerOptions::with_model(&model.base_url());
    for (key, value) in config.as_object().unwrap() {
        options.config[key] = value.clone();
    }
    options.directory = Some(home.work().to_owned());
    options.environment = vec![("EVERTURN_DATA".to_owned(), data.display().to_string())];
    EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await
}

#[tokio::test]
async fn a_server_empties_the_trash_only_if_it_is_told_when() {
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    home.set("EVERTURN_DATA", data.path());
    let location = home.work().join("export.json");
    let (from, _) = stocked();
    let id = ids(&from, &LIST).remove(0);
    std::fs::write(&location, from.run(&["session", "export", &id]).success()).unwrap();
    home.run(&["session", "import", location.to_str().unwrap()]).success();
    home.run(&["session", "delete", &id]).success();

    for config in [json!({}), json!({"trash": {"keep": "forever"}}), json!({"trash": {"keep": "1d"}})] {
        let mut server = serve(&home, data.path(), config).await;
        server.client().get("/session").await.ok();
        assert!(server.stop().await.success());
        assert_eq!(ids(&home, &TRASH), [id.as_str()]);
    }
    // A repository that somebody opens does not decide about other people's sessions.
    let project = home.work().join("opencode.json");
    std::fs::write(&project, json!({"trash": {"keep": "0h"}}).to_string()).unwrap();
    let mut server = serve(&home, data.path(), json!({})).await;
    server.client().get("/session").await.ok();
    assert!(server.stop().await.success());
    std::fs::remove_file(&project).unwrap();
    assert_eq!(ids(&home, &TRASH), [id.as_str()]);

    let mut server = serve(&home, data.path(), json!({"trash": {"keep": "0h"}})).await;
    within("the trash to be emptied", async {
        while home.run(&TRASH).stderr != "the trash is empty\n" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_retention_that_means_nothing_is_named_and_stops_nothing() {
    // No server started, without a word about where that stood, and `doctor` said that all was in order.
    let data = tempfile::tempdir().unwrap();
    let mut home = Home::new();
    for keep in [json!("soon"), json!("30"), json!(5)] {
        let wrong = json!({"trash": {"keep": keep}});
        home.set("OPENCODE_CONFIG_CONTENT", wrong.to_string());
        let told = home.run(&["doctor"]);
        let named =
            "OPENCODE_CONFIG_CONTENT:1:11: `trash.keep` must be \"forever\" or a time such as \"30d\"";
        assert!(told.stdout.contains(named), "{told:?}");
        let mut server = serve(&home, data.path(), wrong).await;
        server.client().get("/session").await.ok();
        assert!(server.stop().await.success());
    }
}

#[test]
fn nothing_of_what_was_erased_is_in_any_file() {
    let secret = "quenchlessmarmoset4711";
    let script = json!([{"text": format!("the answer is {secret}")}]);
    for purge in [&["session", "purge", "--yes", "--erase"][..], &["trash", "empty", "--yes", "--erase"]] {
        let data = tempfile::tempdir().unwrap();
        let mut home = Home::new();
        home.set("EVERTURN_DATA", data.path());
        // Not in the project, whose files are recorded.
        let play = home.home().join("play.json");
        let model = format!("scripted/{}", play.display());
        std::fs::write(&play, script.to_string()).unwrap();
        for prompt in [format!("say {secret}"), format!("{secret} {}", "long ".repeat(20_000))] {
            let ran = home.run(&["run", "--model", &model, &prompt]);
            assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        }
        std::fs::write(&play, r#"[{"text": "kept"}]"#).unwrap();
        home.run(&["run", "--model", &model, "kept"]);
        assert_ne!(holding(data.path(), secret), [""; 0], "it was there before");
        let gone: Vec<String> = ids(&home, &LIST).into_iter().skip(1).collect();
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        home.run(&[&["session", "delete"], &gone[..]].concat()).success();
        let named = if purge[0] == "session" { &gone[..] } else { &[] };
        home.run(&[purge, named].concat()).success();
        assert_eq!(ids(&home, &LIST).len(), 1);
        assert_eq!(holding(data.path(), secret), [""; 0], "{purge:?}");
    }
}

/// The files below a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if path.is_file()
            && std::fs::read(&path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}
