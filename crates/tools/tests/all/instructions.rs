//! Instructions: which files count, in which order, and what happens when one cannot be read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use everturn_tools::instructions::Instruction;
use everturn_tools::places::{ConfigOrigin, NamedPath, ProjectFiles, TEXT_MAX};
use everturn_tools::{Observed, Places, instructions};
use tempfile::TempDir;

/// A path in the person's own configuration.
pub(crate) fn by_person(text: &str) -> NamedPath {
    NamedPath::new(text, ConfigOrigin::Person)
}

/// A path in the configuration of a project.
pub(crate) fn by_project(text: &str) -> NamedPath {
    NamedPath::new(text, ConfigOrigin::Project)
}

/// A person with a home and a project.
struct Person {
    _root: TempDir,
    base: PathBuf,
    places: Places,
}

impl Person {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let (home, worktree) = (base.join("home"), base.join("project"));
        let directory = worktree.join("inner");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&directory).unwrap();
        let config = ["everturn", "opencode"].map(|name| home.join(".config").join(name)).into();
        Self { _root: root, base, places: Places { home, config, directory, worktree, ..Places::default() } }
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.base.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The texts that count, by the names of their files.
    fn check(&self, expected: &[(&str, &str)]) {
        let expected: Vec<Instruction> = expected
            .iter()
            .map(|(name, text)| Instruction { path: self.base.join(name), text: (*text).to_owned() })
            .collect();
        let expected = if expected.is_empty() { Observed::Absent } else { Observed::Present(expected) };
        assert_eq!(instructions::observe(&self.places), expected);
    }

    fn check_left_out(&self, name: &str, reason: &str) {
        let why = instructions::problems(&self.places);
        let path = self.base.join(name).display().to_string();
        assert!(why.len() == 1 && why[0].starts_with(&path) && why[0].contains(reason), "{why:?}");
    }

    fn check_unavailable(&self, name: &str, reason: &str) {
        let path = self.base.join(name);
        match instructions::observe(&self.places) {
            Observed::Unavailable { why } => {
                assert!(why.starts_with(&path.display().to_string()) && why.contains(reason), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_persons_come_first_then_the_projects_from_the_root_down() {
    let person = Person::new();
    person.check(&[]);
    person.write("AGENTS.md", "above the project");
    person.write("project/inner/AGENTS.md", "inner");
    person.write("project/AGENTS.md", "");
    person.write("project/inner/deeper/AGENTS.md", "deeper");
    person.check(&[("project/AGENTS.md", ""), ("project/inner/AGENTS.md", "inner")]);
    person.write("home/.claude/CLAUDE.md", "of another program");
    person.check(&[
        ("home/.claude/CLAUDE.md", "of another program"),
        ("project/AGENTS.md", ""),
        ("project/inner/AGENTS.md", "inner"),
    ]);
    person.write("home/.config/opencode/AGENTS.md", "opencode");
    person.write("home/.config/everturn/AGENTS.md", "ours");
    person.check(&[
        ("home/.config/everturn/AGENTS.md", "ours"),
        ("home/.config/opencode/AGENTS.md", "opencode"),
        ("project/AGENTS.md", ""),
        ("project/inner/AGENTS.md", "inner"),
    ]);
}

#[test]
fn another_name_stands_in_folder_by_folder() {
    let person = Person::new();
    person.write("project/CLAUDE.md", "root");
    person.write("project/inner/CLAUDE.md", "not this");
    person.write("project/inner/AGENTS.md", "but this");
    person.check(&[("project/CLAUDE.md", "root"), ("project/inner/AGENTS.md", "but this")]);
}

#[test]
fn the_projects_can_be_switched_off() {
    let mut person = Person::new();
    person.write("project/AGENTS.md", "project");
    person.write("project/docs/rules.md", "configured");
    person.write("home/.config/everturn/AGENTS.md", "ours");
    person.places.instructions = vec![by_person("docs/*.md")];
    person.places.project = ProjectFiles::Ignored;
    person.check(&[("home/.config/everturn/AGENTS.md", "ours")]);
    let file = person.write("project/inner/deeper/a.rs", "");
    person.write("project/inner/deeper/AGENTS.md", "deeper");
    assert_eq!(instructions::beside(&person.places, &file), <[PathBuf; 0]>::default());
}

/// Puts something at a path.
type Make = fn(&PathBuf);

#[test]
fn what_cannot_be_taken_is_left_out_and_named() {
    // One link of a repository's to shared dotfiles stopped every prompt, and nothing permitted it.
    let cases: [(&str, Make); 6] = [
        ("folder", |path| fs::create_dir(path).unwrap()),
        ("leads nowhere", |path| symlink("nothing", path).unwrap()),
        ("symbolic links", |path| symlink(path, path).unwrap()),
        ("too long", |path| symlink("a".repeat(300), path).unwrap()),
        ("named pipe", |path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                .unwrap();
        }),
        ("more than", |path| fs::write(path, vec![b'x'; usize::try_from(TEXT_MAX).unwrap() + 1]).unwrap()),
    ];
    for (reason, make) in cases {
        let person = Person::new();
        person.write("home/.config/everturn/AGENTS.md", "ours");
        person.write("project/CLAUDE.md", "does not stand in for a file that is there");
        make(&person.places.worktree.join("AGENTS.md"));
        person.check_left_out("project/AGENTS.md", reason);
        person.check(&[("home/.config/everturn/AGENTS.md", "ours")]);
    }
    // One that the configuration names stops nothing either.
    let mut person = Person::new();
    person.places.instructions = vec![by_project("inner"), by_project("/etc/passwd"), by_project("/{a")];
    person.write("project/AGENTS.md", "rules");
    person.check(&[("project/AGENTS.md", "rules")]);
    assert_eq!(
        instructions::problems(&person.places).len(),
        3,
        "{:?}",
        instructions::problems(&person.places)
    );
}

#[test]
fn a_file_without_permission_counts_as_long_as_it_is_the_persons() {
    use std::os::unix::fs::PermissionsExt as _;
    let close = |path: &PathBuf| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    let person = Person::new();
    let ours = person.write("home/.config/everturn/AGENTS.md", "ours");
    let theirs = person.write("project/AGENTS.md", "theirs");
    close(&theirs);
    // The administrator may read everything, and does.
    if rustix::process::geteuid().is_root() {
        close(&ours);
        return person.check(&[("home/.config/everturn/AGENTS.md", "ours"), ("project/AGENTS.md", "theirs")]);
    }
    // What a repository brings stops nothing.
    person.check_left_out("project/AGENTS.md", "ermission denied");
    person.check(&[("home/.config/everturn/AGENTS.md", "ours")]);
    close(&ours);
    person.check_unavailable("home/.config/everturn/AGENTS.md", "ermission denied");
}

#[test]
fn a_link_out_of_the_project_is_not_followed() {
    let person = Person::new();
    let secret = person.write("home/.ssh/id", "private");
    symlink(&secret, person.places.worktree.join("AGENTS.md")).unwrap();
    person.check_left_out(
        "project/AGENTS.md",
        "leads out of the project, and is therefore not read: replace the link",
    );
    // A folder on the way may lead out too.
    fs::remove_file(person.places.worktree.join("AGENTS.md")).unwrap();
    person.write("elsewhere/AGENTS.md", "elsewhere");
    symlink(person.base.join("elsewhere"), person.places.worktree.join("linked")).unwrap();
    let mut person = person;
    person.places.directory = person.places.worktree.join("linked");
    person.check_left_out("project/linked/AGENTS.md", "leads out of the project");
}

#[test]
fn links_within_the_project_and_of_the_person_are_followed() {
    let person = Person::new();
    person.write("project/docs/rules.md", "rules");
    symlink("docs/rules.md", person.places.worktree.join("AGENTS.md")).unwrap();
    person.write("dotfiles/AGENTS.md", "ours");
    fs::create_dir_all(&person.places.config[0]).unwrap();
    symlink(person.base.join("dotfiles/AGENTS.md"), person.places.config[0].join("AGENTS.md")).unwrap();
    person.check(&[("home/.config/everturn/AGENTS.md", "ours"), ("project/AGENTS.md", "rules")]);
    // The same file under two names counts once.
    symlink("../AGENTS.md", person.places.directory.join("AGENTS.md")).unwrap();
    person.check(&[("home/.config/everturn/AGENTS.md", "ours"), ("project/AGENTS.md", "rules")]);
}

#[test]
fn a_project_that_is_reached_through_a_link_is_no_other() {
    let mut person = Person::new();
    person.write("project/AGENTS.md", "rules");
    symlink("project", person.base.join("alias")).unwrap();
    person.places.worktree = person.base.join("alias");
    person.places.directory = person.base.join("alias/inner");
    person.check(&[("alias/AGENTS.md", "rules")]);
    let nested = person.write("project/inner/deeper/AGENTS.md", "deeper");
    let expected = person.base.join("alias/inner/deeper/AGENTS.md");
    assert_eq!(instructions::beside(&person.places, &nested), [expected]);
}

#[test]
fn the_configuration_names_more() {
    let mut person = Person::new();
    person.write("project/docs/b.md", "b");
    person.write("project/docs/a.md", "a");
    person.write("project/docs/a.txt", "not this");
    person.write("project/docs/deeper/c.md", "nor this");
    person.write("project/inner/own.md", "own");
    person.write("home/.config/opencode/style.md", "style");
    let absolute = person.places.worktree.join("docs/a.md").display().to_string();
    person.places.instructions =
        ["docs/*.md", "own.md", "~/.config/opencode/style.md", &absolute, "gone.md"].map(by_person).into();
    person.places.instructions.push(by_project("https://example.com/rules.md"));
    person.check(&[
        ("project/docs/a.md", "a"),
        ("project/docs/b.md", "b"),
        ("project/inner/own.md", "own"),
        ("home/.config/opencode/style.md", "style"),
    ]);
}

#[test]
fn the_configuration_of_a_project_cannot_name_private_files() {
    let mut person = Person::new();
    person.write("home/.ssh/id", "private");
    for pattern in ["~/.ssh/id", "/etc/passwd", "../../other/secret", "~/.config/opencode/../../.ssh/*"] {
        person.places.instructions = vec![by_project(pattern)];
        assert_eq!(instructions::observe(&person.places), Observed::Absent);
        let why = instructions::problems(&person.places);
        assert!(why.len() == 1 && why[0].starts_with(&format!("`{pattern}`")), "{why:?}");
    }
    symlink(person.base.join("home/.ssh"), person.places.worktree.join("docs")).unwrap();
    for named in ["docs/*", "docs/id"].into_iter().flat_map(|text| [by_project(text), by_person(text)]) {
        person.places.instructions = vec![named];
        let found = format!("{:?}", instructions::observe(&person.places));
        assert!(!found.contains("private"), "{found}");
    }
}

#[test]
fn the_persons_own_configuration_names_whatever_it_likes() {
    // Whoever had `{"instructions": ["~/notes/rules.md"]}` in their own configuration could not work at all.
    let mut person = Person::new();
    person.write("home/notes/rules.md", "rules");
    person.write("dotfiles/style.md", "style");
    fs::create_dir_all(person.places.config[1].as_path()).unwrap();
    symlink(person.base.join("dotfiles/style.md"), person.places.config[1].join("style.md")).unwrap();
    let names = ["~/notes/*.md", "../../dotfiles/style.md", "~/.config/opencode/style.md"];
    person.places.instructions = names.map(by_person).into();
    person.check(&[("home/notes/rules.md", "rules"), ("dotfiles/style.md", "style")]);
    person.places.project = ProjectFiles::Ignored;
    person.check(&[("home/notes/rules.md", "rules"), ("home/.config/opencode/style.md", "style")]);
}

#[test]
fn those_beside_a_file_are_found_from_the_outside_in() {
    let person = Person::new();
    person.write("project/AGENTS.md", "root");
    person.write("project/inner/AGENTS.md", "inner");
    let file = person.write("project/inner/a/b/c/file.rs", "");
    person.write("project/inner/a/CLAUDE.md", "a");
    person.write("project/inner/a/b/AGENTS.md", "b");
    person.write("project/inner/a/b/CLAUDE.md", "not this");
    let found =
        ["project/inner/a/CLAUDE.md", "project/inner/a/b/AGENTS.md"].map(|name| person.base.join(name));
    assert_eq!(instructions::beside(&person.places, &file), found);
    // A folder that is listed is in itself.
    assert_eq!(instructions::beside(&person.places, &person.base.join("project/inner/a")), [&*found[0]]);
    let expected = Instruction { path: found[1].clone(), text: "b".into() };
    assert_eq!(instructions::nested(&person.places, &found[1]), Observed::Present(expected));
    // Beside the working folder there may be some as well.
    let other = person.write("project/other/file.rs", "");
    let found = person.write("project/other/AGENTS.md", "other");
    assert_eq!(instructions::beside(&person.places, &other), [found]);
}

#[test]
fn those_beside_a_file_that_are_not_the_projects_do_not_count() {
    let person = Person::new();
    let none: [PathBuf; 0] = [];
    for name in ["outside", "project/node_modules/package", "project/.git/hooks"] {
        let file = person.write(&format!("{name}/file.rs"), "");
        let rules = person.write(&format!("{name}/AGENTS.md"), "foreign");
        assert_eq!(instructions::beside(&person.places, &file), none, "{name}");
        if name == "outside" {
            assert_eq!(instructions::nested(&person.places, &rules), Observed::Absent);
        }
    }
    // A link out, a folder and a pipe in its place, and a name that is none.
    let file = person.write("project/sub/file.rs", "");
    let rules = person.base.join("project/sub/AGENTS.md");
    symlink(person.base.join("outside/AGENTS.md"), &rules).unwrap();
    assert_eq!(instructions::beside(&person.places, &file), none);
    fs::remove_file(&rules).unwrap();
    fs::create_dir(&rules).unwrap();
    assert_eq!(instructions::beside(&person.places, &file), none);
    assert_eq!(instructions::nested(&person.places, &file), Observed::Absent);
}
