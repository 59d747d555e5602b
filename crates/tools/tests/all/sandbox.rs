//! The sandbox, tried on real files and processes, as root and as an ordinary user.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use everturn_testkit::SharedProgram;
use everturn_tools::bash::BashTool;
use everturn_tools::process::Launcher;
use everturn_tools::process::sandbox::{SandboxLevel, SandboxPart, SandboxReport, SandboxSettings};
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use rustix::process::geteuid;
use serde_json::Value;

use crate::bash::quick;
use crate::harness::Project;

mod copies;
mod depth;
mod everyday;
mod excess;
mod hard_links;
mod home;
mod hostile;
mod landlock;
mod leads;
mod losses;
mod moves;
mod names;
mod overlap;
mod permits;
mod places;
mod refusals;
mod secrets;
mod undo;
mod walls;
mod work;

/// The variable that says where the supervisor is to the tests that run again as an ordinary user.
const SUPERVISOR_AT: &str = "EVERTURN_TEST_SUPERVISOR";

/// The program that stands between us and every other.
pub(crate) fn supervisor() -> PathBuf {
    std::env::var_os(SUPERVISOR_AT)
        .map_or_else(|| env!("CARGO_BIN_EXE_everturn-supervisor").into(), PathBuf::from)
}

/// What makes a program an ordinary user's.
const ORDINARY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// What this machine offers.
static REPORT: LazyLock<SandboxReport> = LazyLock::new(|| SandboxReport::probe(&supervisor()).unwrap());

/// Every part of the sandbox that can be had here: in most containers that is not all of it.
pub(crate) fn all() -> BTreeSet<SandboxPart> {
    REPORT.parts()
}

/// Fails where a part is missing: what the walls hold cannot be tried there, and a test that passes all the same says
/// that they do.
#[track_caller]
fn require_whole() {
    let missing: Vec<String> =
        REPORT.refused.iter().map(|(part, error)| format!("{part} (error {error})")).collect();
    assert!(
        missing.is_empty(),
        "the sandbox cannot be tried here, because the system refuses: {}. It takes Linux with user namespaces and \
         Landlock; a container must allow both, for example with `--privileged`.",
        missing.join(", ")
    );
}

/// The tool in a sandbox, or in none, whatever the scope of a call says.
#[derive(Debug)]
pub(crate) struct EnclosedBash {
    bash: BashTool,
    sandbox: Option<SandboxSettings>,
}

impl From<BashTool> for EnclosedBash {
    fn from(bash: BashTool) -> Self {
        Self { bash, sandbox: None }
    }
}

impl Deref for EnclosedBash {
    type Target = BashTool;

    fn deref(&self) -> &BashTool {
        &self.bash
    }
}

impl EnclosedBash {
    fn scope(&self, scope: &Scope) -> Scope {
        Scope { sandbox: self.sandbox.clone(), ..scope.clone() }
    }
}

impl Tool for EnclosedBash {
    fn name(&self) -> &str {
        self.bash.name()
    }

    fn description(&self) -> &str {
        self.bash.description()
    }

    fn schema(&self) -> Value {
        self.bash.schema()
    }

    fn effect(&self) -> Effect {
        self.bash.effect()
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        self.bash.needs(input, &self.scope(scope))
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        let scope = Arc::new(self.scope(&context.scope));
        self.bash.run(input, Context { scope, ..context })
    }
}

/// The tool with a sandbox of some parts.
pub(crate) fn enclosed(parts: BTreeSet<SandboxPart>) -> EnclosedBash {
    enclosed_by(SandboxSettings { parts, ..SandboxSettings::default() })
}

/// The tool with a sandbox.
pub(crate) fn enclosed_by(sandbox: SandboxSettings) -> EnclosedBash {
    EnclosedBash { sandbox: Some(sandbox), bash: quick() }
}

/// How programs are started in the sandbox of a project.
pub(crate) fn enclosed_launcher(project: &Project) -> Launcher {
    let EnclosedBash { bash, sandbox } = enclosed(all());
    Launcher { sandbox: sandbox.map(|sandbox| sandbox.policy(&project.scope)), ..bash.launcher }
}

/// Runs tests of this binary again as an ordinary user. There is nothing to do if we are one.
pub(crate) fn as_ordinary_user(tests: &[&str]) {
    if !geteuid().is_root() {
        return;
    }
    let [program, arguments @ ..] = ORDINARY;
    let (own, supervisor) =
        (SharedProgram::of(&std::env::current_exe().unwrap()), SharedProgram::of(&supervisor()));
    let mut command = Command::new(program);
    command.args(arguments).arg(own.path()).arg("--exact").args(tests).env(SUPERVISOR_AT, supervisor.path());
    let done = command.current_dir("/").env("HOME", "/nonexistent").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains(&format!("{} passed", tests.len())), "{said}");
}

/// What the probe says under another program.
fn probed_by(program: &[&str]) -> SandboxReport {
    let [program, arguments @ ..] = program else { panic!("there is a program") };
    let supervisor = SharedProgram::of(&supervisor());
    let mut command = Command::new(program);
    command.args(arguments).arg(supervisor.path()).arg("__sandbox_probe").current_dir("/");
    let done = command.output().unwrap();
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[test]
fn the_probe_says_what_another_program_finds() {
    let check = |user: &[&str]| {
        let report =
            if user.is_empty() { SandboxReport::probe(&supervisor()).unwrap() } else { probed_by(user) };
        for (part, line) in [
            (SandboxPart::User, "unshare --user true"),
            (SandboxPart::Mounts, "unshare --map-root-user --mount mount -t tmpfs none /tmp"),
            (SandboxPart::Processes, "unshare --map-root-user --pid --fork true"),
            (SandboxPart::Proc, "unshare --map-root-user --pid --fork --mount-proc true"),
            (SandboxPart::Ipc, "unshare --map-root-user --ipc true"),
            (SandboxPart::Network, "unshare --map-root-user --net true"),
        ] {
            let words: Vec<&str> = user.iter().copied().chain(line.split(' ')).collect();
            let done = Command::new(words[0]).args(&words[1..]).current_dir("/").output().unwrap();
            assert_eq!(
                !report.refused.contains_key(&part),
                done.status.success(),
                "{part} {user:?} {report:?}"
            );
        }
    };
    check(&[]);
    if geteuid().is_root() {
        check(&ORDINARY);
    }
}

#[test]
fn the_probe_says_what_is_refused() {
    let check = |limited: &str, refused: &[SandboxPart], level: SandboxLevel| {
        let limited = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {limited} \"$@\"");
        let report = probed_by(&["unshare", "--map-root-user", "sh", "-c", &limited, "sh"]);
        let found: Vec<SandboxPart> = report.refused.keys().copied().collect();
        assert_eq!((found.as_slice(), report.level()), (refused, level), "{report:?}");
        assert_eq!(report.refused.get(&SandboxPart::User), Some(&28), "the number may be none: {report:?}");
    };
    require_whole();
    // Root can do without a user namespace, and nobody else.
    check("", &[SandboxPart::User], SandboxLevel::Namespaces);
    check("setpriv --bounding-set=-all", &SandboxPart::ALL[..6], SandboxLevel::Landlock);
}

#[test]
fn the_probe_ends_where_accounts_cannot_be_mapped() {
    // The child waited for a word that its parent could not say, and the parent for the child.
    let check = |rights: &str, refused: &[SandboxPart]| {
        let limited = ["unshare", "--map-root-user", "timeout", "60", "setpriv", rights, "--inh-caps=-all"];
        let report = probed_by(&limited);
        let found: Vec<SandboxPart> = report.refused.keys().copied().collect();
        assert_eq!(found, refused, "{rights}: {report:?}");
        assert_eq!(report.refused.get(&SandboxPart::User), Some(&1), "{rights}: {report:?}");
    };
    require_whole();
    // A user namespace can be made, and not used; root makes the others without it, if it has the right.
    check("--bounding-set=-setfcap", &SandboxPart::ALL[..1]);
    check("--bounding-set=-all", &SandboxPart::ALL[..6]);
}

#[test]
fn it_is_the_same_for_an_ordinary_user() {
    as_ordinary_user(&[
        "sandbox::depth::a_new_repository_stays_and_what_it_would_run_does_not",
        "sandbox::depth::names_that_are_not_there_cannot_be_made_for_good_in_subfolders",
        "sandbox::depth::protected_files_in_subfolders_cannot_be_changed",
        "sandbox::excess::folders_that_a_command_closed_are_looked_into",
        "sandbox::landlock::what_is_listed_to_be_read_cannot_be_changed_without_mounts",
        "sandbox::landlock::what_lies_outside_cannot_be_used_without_mounts",
        "sandbox::overlap::what_another_makes_again_in_a_folder_that_it_closes_does_not_stay",
        "sandbox::overlap::what_one_command_made_and_took_away_another_does_not_make_for_good",
        "sandbox::walls::each_part_stops_what_it_is_for",
        "sandbox::walls::names_that_are_not_there_cannot_be_made_for_good",
        "sandbox::walls::nothing_is_changed_in_a_project_that_can_only_be_read",
        "sandbox::walls::what_is_not_listed_is_out_of_reach",
        "sandbox::walls::what_leads_to_a_repository_cannot_be_changed",
        "sandbox::work::a_server_answers_later_commands_and_people_until_it_is_stopped",
        "sandbox::work::ends_are_told_as_without",
        "sandbox::work::ordinary_lines_do_what_they_did",
    ]);
}
