//! Commands on a database that the disk has damaged: they end, and say so.

use std::path::Path;
use std::process::Stdio;

use everturn_testkit::within;
use serde_json::json;

use crate::shell::Home;

/// What SQLite calls a page of ours.
const PAGE: usize = 4096;

#[tokio::test]
async fn a_run_on_a_damaged_database_ends() {
    // Work that failed because of the damage was tried for ten minutes, and nobody was told, because the session that
    // they waited for could not be read.
    let mut home = Home::new();
    let script = json!([{"text": "hello there"}]).to_string();
    std::fs::write(home.work().join("play.json"), script).unwrap();
    let sound = home.work().join("sound");
    home.set("EVERTURN_DATA", &sound);
    assert_eq!(home.run(&["run", "--model", "scripted/./play.json", "go"]).status, Some(0));
    let database = std::fs::read(sound.join("everturn.db")).unwrap();
    let pages = database.len() / PAGE;
    assert!(pages > 20, "{pages} pages");
    let damaged = home.work().join("damaged");
    home.set("EVERTURN_DATA", &damaged);
    let mut failed = 0;
    for page in 1..pages {
        copy(&sound, &damaged);
        let mut bytes = database.clone();
        bytes[page * PAGE..][..PAGE].fill(0);
        std::fs::write(damaged.join("everturn.db"), bytes).unwrap();
        let mut command = home.command(&["run", "--continue", "--model", "scripted/./play.json", "again"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let ended = within(&format!("a run without page {page}"), child.wait_with_output()).await.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(matches!(ended.status.code(), Some(0 | 1)), "page {page}: {said}");
        if !ended.status.success() {
            failed += 1;
            assert!(said.contains("everturn: "), "page {page}: {said}");
        }
    }
    assert!(failed > 5, "some pages are needed: {failed}");
}

/// Makes `to` a copy of a data folder.
fn copy(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).ok();
    let copied = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}
