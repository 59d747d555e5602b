//! What is inside a project and what is not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use everturn_tools::apply_patch::ApplyPatchTool;
use everturn_tools::bash::BashTool;
use everturn_tools::edit::EditTool;
use everturn_tools::glob::GlobTool;
use everturn_tools::grep::GrepTool;
use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::read::ReadTool;
use everturn_tools::write::WriteTool;
use everturn_tools::{Scope, Tool};
use serde_json::{Value, json};

use crate::harness::Project;

fn permissions(tool: &dyn Tool, input: &Value, project: &Project) -> Vec<(String, Vec<String>)> {
    let needs = tool.needs(input, &project.scope).unwrap();
    needs.into_iter().map(|need| (need.permission, need.patterns)).collect()
}

#[test]
fn inside_needs_only_the_tools_own_permission() {
    let project = Project::new();
    project.file("src/a.txt", "a");
    for path in ["src/a.txt", "./src/../src/a.txt", project.path("src/a.txt").to_str().unwrap()] {
        let needs = permissions(&ReadTool, &json!({ "filePath": path }), &project);
        assert_eq!(needs, [("read".to_owned(), vec!["src/a.txt".to_owned()])], "{path}");
    }
}

#[test]
fn outside_asks_for_the_folder_first() {
    let project = Project::new();
    let needs = ReadTool.needs(&json!({ "filePath": "/etc/hostname" }), &project.scope).unwrap();
    let [external, read] = &needs[..] else { panic!("{needs:?}") };
    assert_eq!(
        serde_json::to_value(external).unwrap(),
        json!({
            "permission": "external_directory",
            "patterns": ["/etc/*"],
            "always": ["/etc/*"],
            "metadata": { "filepath": "/etc/hostname", "parentDir": "/etc" },
        })
    );
    assert_eq!(
        serde_json::to_value(read).unwrap(),
        json!({ "permission": "read", "patterns": ["/etc/hostname"], "always": ["*"], "metadata": {} })
    );
    assert_eq!(permissions(&ReadTool, &json!({ "filePath": "/etc" }), &project)[0].1, ["/etc/*"]);
    let up = permissions(&WriteTool, &json!({ "filePath": "../x/y", "content": "" }), &project);
    assert_eq!(up[0].1, [project.outside().join("x/*").to_str().unwrap()]);
}

#[test]
fn a_link_that_leads_out_is_outside() {
    let project = Project::new();
    let secret = project.outside().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "k").unwrap();
    symlink(&secret, project.path("door")).unwrap();
    symlink(secret.join("absent"), project.path("dangling")).unwrap();
    symlink("door/key", project.path("relay")).unwrap();
    let pattern = secret.join("*").to_str().unwrap().to_owned();
    for path in ["door/key", "door/new", "dangling", "relay"] {
        let needs = permissions(&WriteTool, &json!({ "filePath": path, "content": "" }), &project);
        assert_eq!(needs[0], ("external_directory".to_owned(), vec![pattern.clone()]), "{path}");
    }
    project.file("real/a", "a");
    symlink("real", project.path("within")).unwrap();
    assert_eq!(permissions(&ReadTool, &json!({ "filePath": "within/a" }), &project).len(), 1);
}

#[test]
fn rules_see_what_a_link_leads_to() {
    let project = Project::new();
    project.file(".env", "KEY=1");
    project.file("real/a", "a");
    let secret = project.outside().join("secret.env");
    fs::write(&secret, "k").unwrap();
    symlink(".env", project.path("notes.txt")).unwrap();
    symlink("notes.txt", project.path("relay.txt")).unwrap();
    symlink("real", project.path("within")).unwrap();
    symlink("later.env", project.path("dangling")).unwrap();
    symlink(&secret, project.path("door")).unwrap();
    let absolute = |path: &Path| path.to_str().unwrap().to_owned();
    for (path, expected) in [
        ("notes.txt", ["notes.txt".to_owned(), ".env".to_owned()]),
        ("relay.txt", ["relay.txt".to_owned(), ".env".to_owned()]),
        ("within/a", ["within/a".to_owned(), "real/a".to_owned()]),
        ("within/new", ["within/new".to_owned(), "real/new".to_owned()]),
        ("dangling", ["dangling".to_owned(), "later.env".to_owned()]),
        ("door", [absolute(&project.path("door")), absolute(&secret)]),
    ] {
        let input = json!({ "filePath": path, "content": "", "oldString": "a", "newString": "b" });
        for (tool, permission) in
            [(&ReadTool as &dyn Tool, "read"), (&WriteTool, "edit"), (&EditTool, "edit")]
        {
            let need = permissions(tool, &input, &project).pop().unwrap();
            assert_eq!(need, (permission.to_owned(), expected.to_vec()), "{path}");
        }
    }
}

#[test]
fn a_project_behind_a_link_keeps_its_spelling() {
    let project = Project::new();
    project.file("src/a", "a");
    let door = project.outside().join("door");
    symlink(&project.scope.worktree, &door).unwrap();
    for worktree in [door.clone(), door.join("src"), "/".into()] {
        let scope = Scope {
            directory: door.join("src"),
            worktree,
            output_dir: "/nowhere".into(),
            home: "".into(),
            sandbox: None,
        };
        for path in ["a", "new", ".", "deep/new"] {
            let path = scope.resolve(path);
            assert_eq!(scope.patterns(&path), [scope.pattern(&path)]);
        }
    }
}

#[test]
fn managed_outputs_may_be_read_but_not_written() {
    let project = Project::new();
    fs::create_dir(&project.scope.output_dir).unwrap();
    let path = project.scope.output_dir.join("tool_x");
    fs::write(&path, "x").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(permissions(&ReadTool, &json!({ "filePath": path }), &project).len(), 1);
    assert_eq!(permissions(&WriteTool, &json!({ "filePath": path, "content": "" }), &project).len(), 2);
}

#[test]
fn a_root_worktree_does_not_swallow_the_machine() {
    let project = Project::new();
    let mut scope = (*project.scope).clone();
    scope.worktree = "/".into();
    assert!(!scope.contains(Path::new("/etc/hostname")));
    assert!(scope.contains(&project.path("a.txt")));
}

#[test]
fn bash_needs_name_each_command() {
    let project = Project::new();
    let input = json!({ "command": "echo hi", "description": "greet" });
    let needs = BashTool::default().needs(&input, &project.scope).unwrap();
    let [network, bash] = &needs[..] else { panic!("{needs:?}") };
    assert_eq!((&*network.permission, &network.patterns[..]), ("network", &["echo hi".to_owned()][..]));
    assert_eq!((&*bash.permission, &bash.patterns[..]), ("bash", &["echo hi".to_owned()][..]));
    assert_eq!(bash.always, ["echo *"]);
    let input = json!({ "command": "git status && rm -rf x", "workdir": "/etc" });
    let needs = permissions(&BashTool::default(), &input, &project);
    assert_eq!(needs[0], ("external_directory".to_owned(), vec!["/etc/*".to_owned()]));
    // What git runs in a folder that is not the project is that folder's to say.
    assert_eq!(needs[2].1, ["git status", "rm -rf x", "(runs other programs) git status"]);
}

#[test]
fn titles_are_relative_to_the_worktree() {
    let scope = Scope {
        directory: "/srv/demo/project".into(),
        worktree: "/srv/demo/project".into(),
        output_dir: "/tmp/out".into(),
        home: "".into(),
        sandbox: None,
    };
    assert_eq!(scope.relative(Path::new("/etc/hostname")), "../../../etc/hostname");
    assert_eq!(scope.relative(Path::new("/srv/demo/project/w.txt")), "w.txt");
    assert_eq!(scope.relative(Path::new("/srv/demo/project")), ".");
}

/// The permissions that a tool needs besides its own, with what each is for.
fn extra(project: &Project, path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let input = json!({ "filePath": path, "content": "", "oldString": "a", "newString": "b" });
    let mut needs = permissions(&WriteTool, &input, project);
    assert_eq!(permissions(&EditTool, &input, project), needs);
    let patch = json!({ "patchText": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch") });
    let mut patched = permissions(&ApplyPatchTool, &patch, project);
    patched.pop();
    needs.pop();
    assert_eq!(patched, needs);
    needs.into_iter().map(|(permission, _)| permission).collect()
}

#[test]
fn what_a_protected_link_leads_to_asks_as_the_link_does() {
    let project = Project::new();
    for name in ["docs/guide.md", "docs/other.md", "tools/editor/x", "shared/x"] {
        project.file(name, "a");
    }
    fs::create_dir_all(project.path("sub/.claude")).unwrap();
    symlink("docs/guide.md", project.path("AGENTS.md")).unwrap();
    symlink("../tools/editor", project.path("sub/.vscode")).unwrap();
    symlink("../../shared", project.path("sub/.claude/commands")).unwrap();
    symlink("later", project.path(".zed")).unwrap();
    for name in ["docs/guide.md", "tools/editor/x", "tools/editor/new", "shared/x", "later", "later/x"] {
        assert_eq!(extra(&project, &project.path(name)), ["protected_file"], "{name}");
    }
    for name in ["docs/other.md", "tools/new", "a"] {
        assert_eq!(extra(&project, &project.path(name)), [""; 0], "{name}");
    }
}

#[test]
fn what_settings_of_a_repository_name_asks() {
    let project = Project::new();
    project.file(".git/HEAD", "x");
    project.file(".git/config", "[core]\n\thooksPath = scripts/hooks\n\tfsmonitor = ./tool\n");
    fs::create_dir(&project.scope.home).unwrap();
    fs::write(project.scope.home.join(".gitconfig"), "[core]\n\tpager = bin/pager\n").unwrap();
    for name in ["scripts/hooks/pre-commit", "tool", "bin/pager"] {
        assert_eq!(extra(&project, &project.path(name)), ["protected_file"], "{name}");
    }
    assert_eq!(extra(&project, &project.path("scripts/x")), [""; 0]);
}

#[test]
fn what_is_protected_asks_outside_as_well() {
    let project = Project::new();
    let home = &project.scope.home;
    let outside = project.outside();
    let both = ["external_directory", "protected_file"];
    for path in [
        home.join(".bashrc"),
        home.join(".x/y"),
        outside.join("other/AGENTS.md"),
        outside.join("o/.git/config"),
    ] {
        assert_eq!(extra(&project, &path), both, "{}", path.display());
    }
    for path in [home.join("notes"), home.join(".npm/x"), outside.join("other/x"), outside.join("other/.x")] {
        assert_eq!(extra(&project, &path), ["external_directory"], "{}", path.display());
    }
}

#[test]
fn a_home_folder_as_the_project_asks_for_its_dot_names_and_for_what_is_ours() {
    let mut project = Project::new();
    let home = project.scope.worktree.clone();
    let scope = Arc::get_mut(&mut project.scope).unwrap();
    scope.home.clone_from(&home);
    let hidden = vec![home.join("ours"), home.join(".config/ours")];
    let programs = vec![home.join("my/programs")];
    for name in [".gdbinit", ".config/sway/config", ".local/bin/x", "bin/x", "go/bin/x"] {
        assert_eq!(extra(&project, &home.join(name)), ["protected_file"], "{name}");
    }
    for name in ["src/a", ".npm/x", ".cargo/registry/x", "src/.x", ".cache/x", "my/programs/x", "ours/x"] {
        assert_eq!(extra(&project, &home.join(name)), [""; 0], "{name}");
    }
    let sandbox = SandboxSettings { hidden, programs, ..SandboxSettings::default() };
    Arc::get_mut(&mut project.scope).unwrap().sandbox = Some(sandbox);
    assert_eq!(extra(&project, &home.join("my/programs/x")), ["protected_file"]);
    assert_eq!(extra(&project, &home.join("ours/x")), ["external_directory", "secret_file"]);
    assert_eq!(
        extra(&project, &home.join(".config/ours/x")),
        ["external_directory", "protected_file", "secret_file"]
    );
    let read = |name: &str| permissions(&ReadTool, &json!({ "filePath": home.join(name) }), &project);
    assert_eq!(
        read("ours/x")[0],
        ("external_directory".to_owned(), vec![home.join("ours/*").display().to_string()])
    );
    assert_eq!(read("src/a").len(), 1);
}

#[test]
fn what_git_keeps_of_the_project_elsewhere_is_protected_under_every_name() {
    let project = Project::new();
    let apart = project.outside().join("apart");
    fs::create_dir(&apart).unwrap();
    fs::write(apart.join("HEAD"), "x").unwrap();
    let tree = project.scope.worktree.display();
    fs::write(apart.join("config"), format!("[core]\n\tworktree = {tree}\n")).unwrap();
    project.file(".git", format!("gitdir: {}\n", apart.display()));
    assert_eq!(extra(&project, &apart.join("hooks/x")), ["external_directory", "protected_file"]);
    assert_eq!(extra(&project, &project.outside().join("other/x")), ["external_directory"]);
}

#[test]
fn what_git_keeps_of_the_project_asks_by_its_own_name() {
    // A permission for a note in `.git` was one for the hooks, which the next `git commit` ran, and a denial of
    // `protected_file` was none.
    let project = Project::new();
    project.file(".git/HEAD", "x");
    for name in
        [".git/hooks/post-commit", ".git/config", ".git/MSG", ".GIT/info/attributes", "sub/.git/config"]
    {
        assert_eq!(extra(&project, &project.path(name)), ["external_directory", "protected_file"], "{name}");
    }
    project.file("a.sh", "a\n");
    let patch =
        "*** Begin Patch\n*** Update File: a.sh\n*** Move to: .git/hooks/pre-push\n@@\n-a\n+b\n*** End Patch";
    let needs = permissions(&ApplyPatchTool, &json!({ "patchText": patch }), &project);
    assert!(
        needs.contains(&("protected_file".to_owned(), vec![".git/hooks/pre-push".to_owned()])),
        "{needs:?}"
    );
    for line in
        ["echo x > .git/hooks/pre-push", "cd .git && touch hooks/pre-push", "cp a.sh .git/hooks/pre-push"]
    {
        let needs = permissions(&BashTool::default(), &json!({ "command": line }), &project);
        let named = |(permission, on): &(String, Vec<String>)| {
            permission == "protected_file" && on.iter().any(|name| name == ".git/hooks/pre-push")
        };
        assert!(needs.iter().any(named), "{line}: {needs:?}");
    }
    let there = permissions(&BashTool::default(), &json!({ "command": "ls", "workdir": ".git" }), &project);
    let names: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["external_directory", "network", "bash"], "nothing is opened by being there");
}

#[test]
fn what_holds_secrets_asks_by_its_own_name_inside_and_outside() {
    // A permission for a note in the home folder was one for the keys in it, and in a home folder that was the project
    // nobody was asked.
    let mut project = Project::new();
    let home = project.scope.home.clone();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::create_dir_all(home.join("dotfiles")).unwrap();
    fs::write(home.join("dotfiles/key"), "k").unwrap();
    symlink(home.join("dotfiles/key"), home.join(".ssh/linked")).unwrap();
    let names = |project: &Project, tool: &dyn Tool, input: Value| -> Vec<String> {
        permissions(tool, &input, project).into_iter().map(|(permission, _)| permission).collect()
    };
    let check = |project: &Project, path: &Path, expected: &[&str]| {
        let read = names(project, &ReadTool, json!({ "filePath": path }));
        let grep = names(project, &GrepTool::default(), json!({ "pattern": "x", "path": path }));
        let bash =
            names(project, &BashTool::default(), json!({ "command": format!("cat {}", path.display()) }));
        let needed = |needs: Vec<String>| -> Vec<String> {
            let own = ["read", "grep", "bash", "network", "outside_sandbox"];
            needs.into_iter().filter(|name| !own.contains(&name.as_str())).collect()
        };
        for needs in [read, grep, bash] {
            assert_eq!(needed(needs), expected, "{}", path.display());
        }
    };
    let both = ["external_directory", "secret_file"];
    for name in
        [".ssh/id_rsa", ".netrc", ".aws/credentials", ".local/share/opencode/auth.json", "dotfiles/key"]
    {
        check(&project, &home.join(name), &both);
    }
    check(&project, Path::new("/etc/shadow"), &both);
    check(&project, &home.join("notes.txt"), &["external_directory"]);
    assert_eq!(names(&project, &GlobTool::default(), json!({ "pattern": home.join(".ssh/*") }))[..2], both);
    let to = json!({ "filePath": home.join(".ssh/authorized_keys"), "content": "" });
    assert_eq!(
        names(&project, &WriteTool, to),
        ["external_directory", "protected_file", "secret_file", "edit"]
    );
    // What the person has listed by its name, or works in, they have not hidden.
    let sandbox = SandboxSettings { readable: vec![home.join(".netrc")], ..SandboxSettings::default() };
    Arc::get_mut(&mut project.scope).unwrap().sandbox = Some(sandbox);
    check(&project, &home.join(".netrc"), &["external_directory"]);
    Arc::get_mut(&mut project.scope).unwrap().sandbox = None;
    let scope = Arc::get_mut(&mut project.scope).unwrap();
    (scope.directory, scope.worktree) = (home.clone(), home.clone());
    check(&project, &home.join(".ssh/id_rsa"), &["secret_file"]);
    check(&project, &home.join("dotfiles/key"), &["secret_file"]);
    check(&project, &home.join("src/a"), &[]);
}
