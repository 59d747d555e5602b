//! Folders that are moved or replaced by links while commands start.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use everturn_tools::process::sandbox::SandboxSettings;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::require_whole;
use super::{all, enclosed, enclosed_by};
use crate::bash::command;
use crate::harness::Project;

/// Two places that change their contents with each other until this is dropped.
struct ChangingPlaces {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ChangingPlaces {
    /// Each stays for up to some turns of this thread, more or less as long as a command takes to start.
    /// What commands take away is made again.
    fn start(
        one: PathBuf,
        other: PathBuf,
        turns: u32,
        make: impl Fn() -> io::Result<()> + Send + 'static,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let exchange = move || {
            let mut rest = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_err() {
                    make().ok();
                }
                rest = (rest + 7) % 97;
                (0..rest * turns).for_each(|_| std::thread::yield_now());
            }
        };
        Self { over, thread: Some(std::thread::spawn(exchange)) }
    }
}

impl Drop for ChangingPlaces {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// How many commands are started.
const COMMANDS: usize = 24;

#[tokio::test]
async fn what_is_protected_in_a_folder_that_is_moved_is_not_changed() {
    // Where its folder was not at its place at that moment, nothing was mounted.
    require_whole();
    let project = Project::new();
    project.file("tools/AGENTS.md", "Be good.\n");
    project.file("tools2/README.md", "");
    let changing = ChangingPlaces::start(project.path("tools"), project.path("tools2"), 100, || Ok(()));
    let mut started = 0;
    for _ in 0..COMMANDS {
        let line = "for i in 1 2 3 4 5 6 7 8; do for d in tools tools2; do [ -e $d/AGENTS.md ] && echo evil >> $d/AGENTS.md; done; done";
        match project.run_with(Vec::new(), &enclosed(all()), command(line)).await {
            Ok(_) => started += 1,
            Err(refused) => {
                let said = refused.to_string();
                assert!(said.contains("was moved or replaced while the command started"), "{said}");
            }
        }
        // Where it was not there when a command began it is new, and gets another name.
        for at in ["tools", "tools2"].map(|name| project.path(name)) {
            let held = fs::read_to_string(at.join("AGENTS.md"));
            assert!(held.is_err() || held.is_ok_and(|held| held == "Be good.\n"), "after {started} commands");
            if at.join("AGENTS.md.untrusted").exists() {
                fs::remove_file(at.join("AGENTS.md.untrusted")).unwrap();
                fs::write(at.join("AGENTS.md"), "Be good.\n").unwrap();
            }
        }
    }
    drop(changing);
}

#[tokio::test]
async fn a_link_that_takes_the_place_of_a_cache_leads_nowhere() {
    // It was looked at first and opened later, so it led to what is hidden.
    require_whole();
    let mut project = Project::new();
    let scope = Arc::get_mut(&mut project.scope).unwrap();
    scope.worktree.clone_from(&scope.home);
    scope.directory.clone_from(&scope.home);
    let home = scope.home.clone();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), text).unwrap();
    };
    write(".ssh/id_rsa", "CANARY\n");
    let places = [".cache/yarn", ".cache/xx"].map(|name| home.join(name));
    fs::create_dir(home.join(".cache")).unwrap();
    let (secret, [one, other]) = (home.join(".ssh"), places.clone());
    let make = move || {
        for place in &places {
            fs::remove_file(place).or_else(|_| fs::remove_dir(place)).ok();
        }
        fs::create_dir(&places[0])?;
        symlink(&secret, &places[1])
    };
    make().unwrap();
    let changing = ChangingPlaces::start(one, other, 1, make);
    let mut said = String::new();
    for _ in 0..COMMANDS {
        let line =
            "for d in .cache/yarn .cache/xx; do cat $d/id_rsa; echo evil > $d/authorized_keys; done; true";
        let tool = enclosed_by(SandboxSettings { parts: all(), ..SandboxSettings::default() });
        match project.run_with(Vec::new(), &tool, command(line)).await {
            Ok(output) => said.push_str(&output.output),
            Err(refused) => {
                let refused = refused.to_string();
                assert!(refused.contains("was moved or replaced while the command started"), "{refused}");
            }
        }
    }
    drop(changing);
    assert!(!said.contains("CANARY"), "{said}");
    assert_eq!(crate::harness::names(&home.join(Path::new(".ssh"))), ["id_rsa"]);
}
