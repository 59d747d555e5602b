//! Skills: where they are found, what is left out, and the tool that loads one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_tools::host::{
    AskedQuestion, Delegate, DelegatedTask, LoadedSkill as Found, NoHost, TaskReport, TodoItem,
};
use everturn_tools::places::ProjectFiles;
use everturn_tools::skill::SkillTool;
use everturn_tools::{BoxFuture, Context, Failure, Host, Need, Observed, Output, Places, Tool, skills};
use serde_json::{Map, json};

use crate::harness::Project;
use crate::instructions::{by_person, by_project};
use crate::sandbox::as_ordinary_user;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A skill file that says where it is from.
fn put(folder: &Path, name: &str, from: &str) -> PathBuf {
    let path = folder.join(name).join("SKILL.md");
    write(&path, &format!("---\nname: {name}\ndescription: from {from}\n---\n\nText of {from}.\n"));
    path
}

fn places(project: &Project) -> Places {
    let home = project.outside().join("home");
    let config = ["everturn", "opencode"].map(|name| home.join(".config").join(name)).into();
    let directory = project.path("inner");
    fs::create_dir_all(&directory).unwrap();
    Places { home, config, directory, worktree: project.scope.worktree.clone(), ..Places::default() }
}

/// The skills by name with what they are for, and the problems.
type Seen = (Vec<(String, String)>, Vec<(PathBuf, String)>);

fn seen(places: &Places) -> Seen {
    match skills::observe(places) {
        Observed::Present(found) => (
            found.skills.into_iter().map(|skill| (skill.name, skill.description)).collect(),
            found.problems.into_iter().map(|problem| (problem.path, problem.why)).collect(),
        ),
        Observed::Absent => (Vec::new(), Vec::new()),
        Observed::Unavailable { why } => panic!("{why}"),
    }
}

#[test]
fn every_folder_is_looked_into_and_the_nearest_one_counts() {
    let project = Project::new();
    let mut places = places(&project);
    assert_eq!(skills::observe(&places), Observed::Absent);
    places.skills = vec![by_person("~/mine"), by_project("extra")];
    // From the one that counts least to the one that counts most.
    let folders = [
        "home/.agents/skills",
        "home/.claude/skills",
        "home/.config/opencode/skill",
        "home/.config/opencode/skills/deep/er",
        "home/.config/everturn/skills",
        "home/mine/deep",
        "project/inner/extra",
        "project/.agents/skills",
        "project/.claude/skills",
        "project/.opencode/skill/deep/er",
        "project/.opencode/skills",
        "project/inner/.agents/skills",
        "project/inner/.opencode/skill",
    ];
    for folder in folders {
        put(&project.outside().join(folder), "same", folder);
        let own = format!("own-{}", folder.replace(['/', '.'], ""));
        put(&project.outside().join(folder), &own, folder);
        let (found, problems) = seen(&places);
        let same = found.iter().find(|(name, _)| name == "same").unwrap();
        assert_eq!(same.1, format!("from {folder}"));
        assert!(found.iter().any(|(name, _)| *name == own), "{own}");
        assert_eq!(problems, []);
    }
    assert_eq!(seen(&places).0.len(), folders.len() + 1);
    places.project = ProjectFiles::Ignored;
    assert_eq!(seen(&places).0.last().unwrap().1, "from project/inner/extra", "it was configured");
    assert_eq!(seen(&places).0.len(), 8);
}

#[test]
fn a_projects_configuration_names_no_folders_outside_of_it() {
    // It could have skills of other projects, or whatever else has such files, told to the model.
    let project = Project::new();
    let mut places = places(&project);
    for name in ["~/../mine", "../../mine"] {
        put(&project.outside().join("mine"), "private", "mine");
        places.skills = vec![by_project(name)];
        let (found, problems) = seen(&places);
        assert_eq!(found, [], "{name}");
        assert_eq!(problems[0].0, project.outside().join("mine"));
        assert!(problems[0].1.contains("lies outside of the project"), "{problems:?}");
        places.skills = vec![by_person(name)];
        assert_eq!(seen(&places).0.len(), 1, "{name}");
    }
}

#[test]
fn what_cannot_be_used_is_a_problem_and_no_more() {
    let project = Project::new();
    let places = places(&project);
    let folder = project.path(".opencode/skill");
    put(&folder, "good", "here");
    let check = |name: &str, content: &str, problem: &str| {
        let path = folder.join(name).join("SKILL.md");
        write(&path, content);
        let (found, problems) = seen(&places);
        assert_eq!(found, [("good".to_owned(), "from here".to_owned())], "{name}");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].0 == path && problems[0].1.contains(problem), "{problems:?}");
        fs::remove_file(path).unwrap();
    };
    check("a", "no front matter", "does not begin with front matter");
    check("a", "---\nname: [\n---\n", "no YAML");
    for name in ["Upper", "two--hyphens", "-a", "a-", "under_score", "a b", "../up", "é", &"x".repeat(65)] {
        check("a", &format!("---\nname: {name:?}\n---\n"), "is not made of small letters");
    }
    check("A folder", "---\ndescription: no name\n---\n", "\"A folder\" is not made of small letters");
    let long = "ü".repeat(1025);
    check("a", &format!("---\nname: a\ndescription: {long}\n---\n"), "more than 1024 characters");
    check("a", &format!("---\nname: a\n---\n{}", "x".repeat(1024 * 1024)), "more than 1048576 bytes");
    // The longest that is allowed, and a name from the folder.
    write(&folder.join("b-2/SKILL.md"), &format!("---\ndescription: {}\n---\n", "ü".repeat(1024)));
    assert_eq!(seen(&places).0[0], ("b-2".to_owned(), "ü".repeat(1024)));
}

#[test]
fn pipes_loops_and_links_do_not_hold_it_up() {
    let project = Project::new();
    let places = places(&project);
    let folder = project.path(".opencode/skill");
    put(&folder, "good", "here");
    symlink(&folder, folder.join("good/loop")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    fs::create_dir(folder.join("pipe")).unwrap();
    let pipe = folder.join("pipe/SKILL.md");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // A project cannot have a private file shown by a link to it.
    let secret = put(&project.outside().join("home"), "secret", "home");
    fs::create_dir(folder.join("leak")).unwrap();
    symlink(&secret, folder.join("leak/SKILL.md")).unwrap();
    symlink(project.outside().join("home"), folder.join("leaks")).unwrap();
    let (found, problems) = seen(&places);
    assert_eq!(found, [("good".to_owned(), "from here".to_owned())]);
    let why: Vec<(bool, bool)> = problems
        .iter()
        .map(|(_, why)| (why.contains("named pipe"), why.contains("leads out of the project")))
        .collect();
    assert_eq!(why, [(false, true), (false, true), (true, false)], "{problems:?}");
    // The person's own folder may hold links.
    fs::create_dir_all(places.home.join(".claude/skills")).unwrap();
    symlink(secret.parent().unwrap(), places.home.join(".claude/skills/linked")).unwrap();
    assert_eq!(seen(&places).0[1], ("secret".to_owned(), "from home".to_owned()));
}

#[test]
fn there_is_an_end_to_them() {
    let project = Project::new();
    let places = places(&project);
    for number in 0..505 {
        put(&project.path(".opencode/skill"), &format!("s{number:03}"), "here");
    }
    let (found, problems) = seen(&places);
    assert_eq!((found.len(), problems.len()), (500, 5));
    assert_eq!(problems[0].1, "there are more than 500 skills");
}

#[test]
fn a_link_that_will_never_be_a_folder_stops_nothing() {
    // One of them in a repository stopped every prompt there.
    let long = "a".repeat(300);
    let cases: [(&str, &str); 6] = [
        (".opencode", ".opencode"),
        (".opencode/skill", "skill"),
        (".opencode/skill", &long),
        (".claude", ".claude"),
        (".agents", ".agents"),
        (".agents/skills", "skills"),
    ];
    for (link, target) in cases {
        let project = Project::new();
        let places = places(&project);
        put(&places.home.join(".agents/skills"), "good", "home");
        let path = project.path(link);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, &path).unwrap();
        let (found, problems) = seen(&places);
        assert_eq!(found, [("good".to_owned(), "from home".to_owned())], "{link}");
        let named = problems.iter().map(|(named, _)| named.starts_with(&path)).collect::<Vec<_>>();
        assert!(!named.is_empty() && named.iter().all(|is_it| *is_it), "{link}: {problems:?}");
        assert_eq!(skills::find(&places, "good").unwrap().name, "good");
    }
}

#[test]
fn a_folder_of_the_persons_that_cannot_be_listed_makes_them_unavailable() {
    use std::os::unix::fs::PermissionsExt as _;
    // The administrator may list everything.
    if rustix::process::geteuid().is_root() {
        return as_ordinary_user(&[
            "skills::a_folder_of_the_persons_that_cannot_be_listed_makes_them_unavailable",
            "instructions::a_file_without_permission_counts_as_long_as_it_is_the_persons",
        ]);
    }
    let close = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    };
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    };
    let project = Project::new();
    let places = places(&project);
    let own = places.home.join(".agents/skills");
    put(&own, "good", "here");
    // What a repository brings stops nothing, however it is tied up.
    for closed in [".opencode/skill", ".opencode", ".claude/skills"] {
        let closed = project.path(closed);
        fs::create_dir_all(&closed).unwrap();
        close(&closed);
        let (found, problems) = seen(&places);
        open(&closed);
        assert_eq!(found, [("good".to_owned(), "from here".to_owned())]);
        assert!(problems.iter().all(|(named, _)| named.starts_with(&closed)) && !problems.is_empty());
    }
    close(&own);
    let found = skills::observe(&places);
    let failure = skills::find(&places, "good");
    open(&own);
    assert!(matches!(&found, Observed::Unavailable { why } if why.contains(".agents/skills: ")), "{found:?}");
    let failure = failure.unwrap_err();
    assert!(failure.to_string().starts_with("The skills cannot be read just now: "), "{failure}");
}

/// A session that has skills and nothing else.
#[derive(Debug)]
struct Session(Places);

impl Host for Session {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, Failure>> {
        NoHost.todos()
    }
    fn set_todos(&self, _: Vec<TodoItem>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
    fn ask(&self, _: Vec<AskedQuestion>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn delegate<'a>(
        &'a self,
        task: DelegatedTask,
        _: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<TaskReport, Failure>> {
        Box::pin(async { Err(Failure::Failed(task.prompt)) })
    }
    fn delegates(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    fn session(&self) -> String {
        String::new()
    }
    fn plan_file(&self) -> PathBuf {
        PathBuf::new()
    }
    fn hand_over(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
    fn skill(&self, name: &str) -> BoxFuture<'_, Result<Found, Failure>> {
        let found = skills::find(&self.0, name);
        Box::pin(async { found })
    }
}

async fn load(project: &Project, places: &Places, name: &str) -> Result<Output, Failure> {
    let context = Context { host: Arc::new(Session(places.clone())), ..project.context().0 };
    SkillTool.run(json!({"name": name}), context).await
}

#[tokio::test]
async fn the_tool_gives_the_text_and_names_a_few_files() {
    let project = Project::new();
    let places = places(&project);
    let file = put(&project.path(".opencode/skill"), "good", "here");
    let folder = file.parent().unwrap().display().to_string();
    let output = load(&project, &places, "good").await.unwrap();
    let text = format!(
        "<skill name=\"good\">\nText of here.\n</skill>\n\nThe folder of this skill is {folder}. Paths in it that are \
         not absolute begin there."
    );
    let metadata = json!({"name": "good", "dir": folder, "truncated": false});
    let expected = Output {
        title: "Loaded skill: good".into(),
        output: text.clone(),
        metadata: metadata.as_object().cloned().unwrap(),
        ..Output::default()
    };
    assert_eq!(output, expected);
    for number in 0..12 {
        write(&file.with_file_name(format!("sub/{number:02}.md")), "");
    }
    symlink("/etc", file.with_file_name("a-link")).unwrap();
    let files: String = (0..10).map(|number| format!("\n- {folder}/sub/{number:02}.md")).collect();
    assert_eq!(
        load(&project, &places, "good").await.unwrap().output,
        format!("{text}\nSome of its files:{files}")
    );
}

#[tokio::test]
async fn the_tool_asks_by_name_and_names_what_there_is() {
    let project = Project::new();
    let places = places(&project);
    let need = |name: &str| Need {
        permission: "skill".into(),
        patterns: vec![name.to_owned()],
        always: vec![name.to_owned()],
        metadata: Map::new(),
    };
    assert_eq!(SkillTool.needs(&json!({"name": "a"}), &project.scope), Ok(vec![need("a")]));
    assert!(matches!(SkillTool.needs(&json!({}), &project.scope), Err(Failure::InvalidInput(_))));
    let fail = |text: &str| Err(Failure::Failed(text.to_owned()));
    assert_eq!(
        load(&project, &places, "c").await,
        fail("There is no skill named 'c'. Available skills: none.")
    );
    put(&project.path(".opencode/skill"), "b", "here");
    put(&project.path(".opencode/skill"), "a", "here");
    assert_eq!(
        load(&project, &places, "c").await,
        fail("There is no skill named 'c'. Available skills: a, b.")
    );
    let failure = SkillTool.run(json!({"name": "a"}), project.context().0).await.unwrap_err();
    assert_eq!(failure.to_string(), "This tool works only in a session.");
}
