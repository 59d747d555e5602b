//! What is asked before a command leaves the sandbox, and what it can do then: no more than was permitted.

use std::collections::BTreeSet;
use std::fs;

use everturn_tools::Need;
use everturn_tools::process::sandbox::{SandboxMode, SandboxNetwork, SandboxPart, SandboxSettings};
use serde_json::{Value, json};

use super::{EnclosedBash, all, enclosed, enclosed_by};
use crate::bash::{command, quick};
use crate::harness::{Project, tree};

fn permissions(project: &Project, tool: &EnclosedBash, input: &Value) -> Vec<String> {
    use everturn_tools::Tool as _;
    let needs: Vec<Need> = tool.needs(input, &project.scope).unwrap();
    needs.into_iter().map(|need| need.permission).collect()
}

#[test]
fn a_whole_sandbox_needs_no_question_and_one_with_a_hole_does() {
    let project = Project::new();
    let check = |parts: BTreeSet<SandboxPart>, input: Value, expected: &[&str]| {
        assert_eq!(permissions(&project, &enclosed(parts), &input), expected, "{input}");
    };
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let outside = json!({ "command": "make", "outside_sandbox": true });
    check(whole.clone(), command("make"), &["bash"]);
    check(whole.clone(), outside.clone(), &["outside_sandbox", "bash"]);
    check(BTreeSet::new(), outside.clone(), &["outside_sandbox", "bash"]);
    for part in SandboxPart::ALL {
        let parts: BTreeSet<SandboxPart> = whole.iter().copied().filter(|other| *other != part).collect();
        check(parts, command("make"), &["outside_sandbox", "bash"]);
    }
    // Where the person has switched it off, there is nothing to leave.
    assert_eq!(permissions(&project, &quick().into(), &outside), ["network", "bash"]);
}

#[test]
fn what_is_asked_names_the_command_and_the_hole() {
    use everturn_tools::Tool as _;
    let project = Project::new();
    let parts = SandboxPart::ALL.into_iter().filter(|part| *part != SandboxPart::Mounts).collect();
    let needs = enclosed(parts).needs(&command("make && ls"), &project.scope).unwrap();
    let expected = Need {
        permission: "outside_sandbox".to_owned(),
        patterns: vec!["make".to_owned(), "ls".to_owned()],
        always: vec!["make".to_owned(), "ls".to_owned()],
        metadata: json!({ "command": "make && ls", "missing": ["mount namespace"] })
            .as_object()
            .unwrap()
            .clone(),
    };
    assert_eq!(needs[0], expected);
    // A pattern that was approved for good would let other commands out.
    let parts = SandboxPart::ALL.into_iter().filter(|part| *part != SandboxPart::Mounts).collect();
    let needs = enclosed(parts).needs(&command("rm *.o && make"), &project.scope).unwrap();
    assert_eq!(needs[0].always, ["make"]);
}

#[tokio::test]
async fn a_command_leaves_the_sandbox_only_if_that_was_permitted() {
    let project = Project::new();
    let secret = project.outside().join("secret");
    fs::write(&secret, "told").unwrap();
    // The path cannot be seen in the line.
    let line = "d=$(echo ..); cat $d/secret";
    let input = json!({ "command": line, "outside_sandbox": true });
    let tool = enclosed(all());
    let kept = project.run_with(Vec::new(), &tool, input.clone()).await.unwrap();
    assert_ne!(kept.metadata["exit"], 0, "{}", kept.output);
    let note = format!(
        "(The command ran in a sandbox: {} cannot be seen in it. If that is why it failed, `outside_sandbox` asks the \
         person to run it outside.)",
        secret.display()
    );
    assert_eq!(kept.output, format!("cat: ../secret: No such file or directory\n\n{note}"));
    assert_eq!(project.run(&tool, input).await.unwrap().output, "told");
}

#[tokio::test]
async fn a_path_outside_can_be_used_as_far_as_it_was_permitted() {
    let project = Project::new();
    let outside = project.outside();
    fs::create_dir(outside.join("near")).unwrap();
    fs::write(outside.join("near/read"), "told").unwrap();
    fs::write(outside.join("near/other"), "kept").unwrap();
    let tool = enclosed(all());
    let run = async |line: &str| project.run(&tool, command(line)).await.unwrap();
    // Reading one file shows that one, and lets nobody change it.
    let path = outside.join("near/read").display().to_string();
    let output = run(&format!("cat {path}; d=$(echo ..); cat $d/near/other; echo x >> $d/near/read")).await;
    assert!(output.output.starts_with("told") && !output.output.contains("kept"), "{}", output.output);
    assert_eq!(fs::read_to_string(&path).unwrap(), "told");
    let made = outside.join("near/made");
    assert_eq!(run(&format!("cp {path} {}", made.display())).await.metadata["exit"], 0);
    assert_eq!(fs::read_to_string(&made).unwrap(), "told");
    assert_eq!(run(&format!("cd {} && cat other", outside.join("near").display())).await.output, "kept");
}

#[tokio::test]
async fn a_file_in_the_home_folder_is_permitted_without_the_secrets_beside_it() {
    let project = Project::new();
    let home = project.scope.home.clone();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id"), "secret").unwrap();
    let line = format!("echo kept > {0}/notes.txt; h=$(echo {0}); cat $h/.ssh/id", home.display());
    let output = project.run(&enclosed(all()), command(&line)).await.unwrap();
    assert_eq!(fs::read_to_string(home.join("notes.txt")).unwrap(), "kept\n", "{}", output.output);
    assert!(!output.output.contains("secret"), "{}", output.output);
}

#[tokio::test]
async fn what_is_hidden_is_opened_by_its_own_permission_alone() {
    // Whoever was permitted a folder around it had it too.
    let mut project = Project::new();
    let home = project.scope.home.clone();
    for name in [".ssh/id", ".ssh/other", "ours/token"] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), format!("told {name}\n")).unwrap();
    }
    let hidden = vec![home.join("ours")];
    let tool = enclosed_by(SandboxSettings { parts: all(), hidden, ..SandboxSettings::default() });
    for in_home in [false, true] {
        if in_home {
            let scope = std::sync::Arc::get_mut(&mut project.scope).unwrap();
            (scope.directory, scope.worktree) = (home.clone(), home.clone());
        }
        for (name, other) in [(".ssh/id", "other"), ("ours/token", "none")] {
            let path = home.join(name);
            let line = format!("cat {0}; f=$(dirname {0}); cat $f/{other}", path.display());
            let output = project.run(&tool, command(&line)).await.unwrap().output;
            assert!(output.contains(&format!("told {name}")), "{in_home} {output}");
            assert!(!output.contains("told .ssh/other"), "{in_home} {output}");
            let needs = everturn_tools::Tool::needs(&tool, &command(&line), &project.scope).unwrap();
            let without: Vec<Need> =
                needs.into_iter().filter(|need| need.permission != "secret_file").collect();
            let output = project.run_with(without, &tool, command(&line)).await.unwrap().output;
            assert!(!output.contains("told"), "{in_home} {output}");
        }
    }
}

#[tokio::test]
async fn the_projects_own_hooks_are_opened_by_their_own_permission_alone() {
    // Whoever was permitted a note in `.git` could write hooks.
    let project = Project::new();
    for name in [".git/HEAD", ".git/objects/x", ".git/refs/x", ".git/config", ".git/hooks/x"] {
        project.file(name, "");
    }
    let tool = enclosed(all());
    let line = command("echo x > .git/MSG; echo run > .git/hooks/pre-push; echo [core] > .git/config");
    let needs = everturn_tools::Tool::needs(&tool, &line, &project.scope).unwrap();
    let without: Vec<Need> = needs.into_iter().filter(|need| need.permission != "protected_file").collect();
    project.run_with(without, &tool, line.clone()).await.unwrap();
    project.run(&tool, command("cd .git; d=hooks; echo run > $d/pre-push")).await.unwrap();
    assert!(!project.path(".git/hooks/pre-push").exists() && project.text(".git/config").is_empty());
    project.run(&tool, line).await.unwrap();
    assert_eq!(project.text(".git/hooks/pre-push") + &project.text(".git/config"), "run\n[core]\n");
}

#[tokio::test]
async fn a_protected_file_can_be_changed_if_that_was_permitted() {
    let project = Project::new();
    project.file("AGENTS.md", "one\n");
    project.file(".vscode/tasks.json", "{}");
    let tool = enclosed(all());
    let line = command("echo two >> AGENTS.md; echo x > .envrc; echo [] > $PWD/.vscode/tasks.json");
    let needs = permissions(&project, &tool, &line);
    assert!(needs.contains(&"protected_file".to_owned()), "{needs:?}");
    let output = project.run(&tool, line).await.unwrap();
    assert!(project.path(".envrc").exists(), "{}", output.output);
    assert_eq!((project.text("AGENTS.md"), project.text(".envrc")), ("one\ntwo\n".into(), "x\n".into()));
    // What the line did not name stays as it is.
    assert_eq!(project.text(".vscode/tasks.json"), "{}", "{}", output.output);
}

#[tokio::test]
async fn a_file_that_was_permitted_opens_nothing_beside_it() {
    // One file of a protected folder opened the whole folder.
    let tool = enclosed(all());
    let check = async |before: &[&str], line: &str| {
        let project = Project::new();
        project.file("new", "new\n");
        for name in before {
            project.file(name, "old\n");
        }
        // What is beside it cannot be read off the line.
        let others = "d=$(echo .vscode); echo evil > $d/tasks.json; echo evil > $d/launch.json; echo evil > $d/a/b; \
                      mv $d/tasks.json $d/moved; rm -r $d/a; true";
        let line = command(&format!("{line}; {others}"));
        assert!(permissions(&project, &tool, &line).contains(&"protected_file".to_owned()), "{line}");
        let output = project.run(&tool, line.clone()).await.unwrap();
        let kept = project.text(".vscode/settings.json");
        assert_eq!(kept, "new\n", "{line}: {}", output.output);
        let mut names = crate::harness::names(&project.path(".vscode"));
        names.retain(|name| !name.ends_with(".untrusted"));
        let expected: Vec<&str> = ["a", "settings.json", "tasks.json"]
            .into_iter()
            .filter(|name| *name == "settings.json" || before.iter().any(|path| path.contains(name)))
            .collect();
        assert_eq!(names, expected, "{line}: {}", output.output);
        for name in before.iter().filter(|name| !name.ends_with("settings.json")) {
            assert_eq!(project.text(name), "old\n", "{line}: {}", output.output);
        }
    };
    let all = [".vscode/settings.json", ".vscode/tasks.json", ".vscode/a/b"];
    check(&all, "echo new > .vscode/settings.json").await;
    check(&all, "sed -i s/old/new/ .vscode/settings.json").await;
    check(&all[1..], "echo new > .vscode/settings.json").await;
    check(&[], "install -D new .vscode/settings.json").await;
}

#[tokio::test]
async fn a_file_that_was_permitted_outside_opens_nothing_beside_it() {
    // Outside of the project the folder was one itself, and nothing tells by a name in it that it is protected.
    let tool = enclosed(all());
    for permitted in [
        ".git/hooks/post-merge",
        ".vscode/settings.json",
        ".vscode/new.json",
        ".github/CODEOWNERS",
        ".github/workflows/ci.yml",
    ] {
        for line in ["echo new > FILE", "cp new FILE"] {
            let project = Project::new();
            let other = project.outside().join("other");
            let kept = [
                ".git/HEAD",
                ".git/config",
                ".git/hooks/pre-commit",
                ".vscode/tasks.json",
                ".vscode/settings.json",
                ".github/CODEOWNERS",
                ".github/workflows/x.yml",
                "AGENTS.md",
            ];
            for name in kept {
                fs::create_dir_all(other.join(name).parent().unwrap()).unwrap();
                fs::write(other.join(name), "old\n").unwrap();
            }
            project.file("new", "new\n");
            let mut evil = "cd $(cat other); chmod +x .git/hooks/pre-commit; mkdir -p .vscode/a .idea; echo evil > .idea/x; \
                            echo evil > .vscode/a/b;"
                .to_owned();
            for name in kept.iter().chain(&[
                ".git/hooks/update",
                ".vscode/launch.json",
                ".github/new",
                ".github/workflows/y.yml",
            ]) {
                evil.push_str(&format!(
                    " [ {name} = {permitted} ] || {{ echo evil > {name}; mv {name} {name}.moved; }};"
                ));
            }
            project.file("other", other.display().to_string());
            project.file("e.sh", format!("{evil} true"));
            let line = line.replace("FILE", &other.join(permitted).display().to_string());
            let output = project.run(&tool, command(&format!("{line}; sh e.sh"))).await.unwrap();
            let mut after = tree(&other);
            after.retain(|path, _| !path.iter().any(|name| name.to_string_lossy().ends_with(".untrusted")));
            let files = after.keys().filter(|path| other.join(path).is_file());
            let found: Vec<(String, String)> = files
                .map(|path| (path.display().to_string(), fs::read_to_string(other.join(path)).unwrap()))
                .collect();
            let mut expected: Vec<(String, String)> =
                kept.iter().map(|name| ((*name).to_owned(), "old\n".to_owned())).collect();
            expected.retain(|(name, _)| name != permitted);
            expected.push((permitted.to_owned(), "new\n".to_owned()));
            expected.sort();
            assert_eq!(found, expected, "{permitted}: {}", output.output);
        }
    }
}

#[tokio::test]
async fn a_protected_file_of_the_home_folder_is_opened_alone() {
    // The question was about the file, and what it opened was the home folder.
    let tool = enclosed(all());
    let project = Project::new();
    let home = project.scope.home.clone();
    for name in [".bashrc", "Documents/letter", ".bitcoin/wallet.dat", "other/file"] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), "mine\n").unwrap();
    }
    project.file(
        "e.sh",
        format!(
            "cd {}; cat Documents/letter .bitcoin/wallet.dat other/file; echo evil > Documents/letter; echo evil > other/new; \
             mkdir -p Documents; echo evil > Documents/new; true",
            home.display()
        ),
    );
    let line = command(&format!("echo more >> {}/.bashrc; sh e.sh", home.display()));
    let before = tree(&home);
    let asked = asked_for(&project, &tool, &line);
    assert_eq!(asked, [("protected_file".to_owned(), home.join(".bashrc").display().to_string())]);
    let output = project.run(&tool, line).await.unwrap();
    assert_eq!(fs::read_to_string(home.join(".bashrc")).unwrap(), "mine\nmore\n", "{}", output.output);
    assert!(!output.output.contains("mine"), "{}", output.output);
    assert_eq!(tree(&home).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(fs::read_to_string(home.join("Documents/letter")).unwrap(), "mine\n");

    // One that is not there needs the folder, which is asked for by its name.
    let line = command(&format!("echo more > {}/.zshenv", home.display()));
    let asked = asked_for(&project, &tool, &line);
    let named = |permission: &str, name: &str| (permission.to_owned(), home.join(name).display().to_string());
    assert_eq!(asked, [named("external_directory", "*"), named("protected_file", ".zshenv")]);
    project.run(&tool, line).await.unwrap();
    assert_eq!(fs::read_to_string(home.join(".zshenv")).unwrap(), "more\n");
}

/// What a person is asked for a line, but for the commands, each with what it names.
fn asked_for(project: &Project, tool: &EnclosedBash, line: &Value) -> Vec<(String, String)> {
    let needs = everturn_tools::Tool::needs(tool, line, &project.scope).unwrap();
    let asked = needs.into_iter().filter(|need| need.permission != "bash" && need.asked_with().is_none());
    asked.map(|need| (need.permission.clone(), need.patterns.join(" "))).collect()
}

#[tokio::test]
async fn of_a_folder_with_too_much_in_it_nothing_is_opened() {
    let project = Project::new();
    for number in 0..300 {
        project.file(&format!(".vscode/{number}"), "");
    }
    project.file(".vscode/settings.json", "old\n");
    let line = command("echo new > .vscode/settings.json");
    let output = project.run(&enclosed(all()), line).await.unwrap();
    assert_ne!(output.metadata["exit"], 0, "{}", output.output);
    assert_eq!(project.text(".vscode/settings.json"), "old\n");
}

#[tokio::test]
async fn the_network_is_given_to_a_command_that_was_permitted_to_use_it() {
    let project = Project::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{}", port.local_addr().unwrap().port());
    let input = json!({ "command": line, "network": true });
    let network = SandboxNetwork::Own;
    let tool = enclosed_by(SandboxSettings { parts: all(), network, ..SandboxSettings::default() });
    assert_eq!(permissions(&project, &tool, &input), ["network", "bash"]);
    assert_eq!(permissions(&project, &tool, &command(&line)), ["bash"]);
    let exit = async |granted: bool, input: &Value| {
        let output = if granted {
            project.run(&tool, input.clone()).await
        } else {
            project.run_with(Vec::new(), &tool, input.clone()).await
        };
        output.unwrap().metadata["exit"].clone()
    };
    assert_eq!(exit(true, &input).await, 0);
    assert_ne!(exit(false, &input).await, 0);
    assert_ne!(exit(true, &command(&line)).await, 0);
    // Where commands have the network anyway there is nothing to ask.
    assert_eq!(permissions(&project, &enclosed(all()), &input), ["bash"]);
}

#[tokio::test]
async fn rules_for_single_commands_decide_about_the_network() {
    use everturn_model::permission::Action::{Allow, Ask, Deny};
    use everturn_model::permission::{Policy, Rule};
    let project = Project::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{}", port.local_addr().unwrap().port());
    // Scripts, so that nothing of what they do can be read off a line.
    for name in ["reach", "other"] {
        project.file(name, &connect);
    }
    let tool = |rules: &[(&str, everturn_model::permission::Action)]| {
        let rules = rules.iter().map(|(pattern, action)| Rule::new("network", pattern, *action)).collect();
        let rules = Some(Policy::new(rules));
        let network = SandboxNetwork::Own;
        enclosed_by(SandboxSettings { parts: all(), network, rules, ..SandboxSettings::default() })
    };
    let only = tool(&[("*", Deny), ("bash reach", Allow), ("(runs other programs) bash reach", Allow)]);
    let but = tool(&[("*", Allow), ("bash other*", Deny)]);
    for (tool, line, reaches) in [
        (&only, "bash reach", true),
        (&only, "bash reach > log; bash reach", true),
        (&only, "bash other", false),
        (&only, "bash reach; bash other", false),
        (&only, "true; bash reach", false),
        (&only, "env bash reach", false),
        (&only, "A=1 bash reach", false),
        (&only, "f() { bash reach; }; f", false),
        (&only, &connect, false),
        (&but, "bash reach", true),
        (&but, &connect, true),
        (&but, "bash other", false),
        (&but, "bash reach; bash other", false),
    ] {
        let output = project.run_with(Vec::new(), tool, command(line)).await.unwrap();
        assert_eq!(output.metadata["exit"] == 0, reaches, "{line}: {}", output.output);
        let input = json!({ "command": line, "background": true });
        let job = project.run_with(Vec::new(), tool, input).await.unwrap();
        while tool.jobs.running() > 0 {
            tokio::task::yield_now().await;
        }
        let log = fs::read_to_string(job.output_path.unwrap()).unwrap();
        assert_eq!(log.contains("ended with exit code 0"), reaches, "{line}: {log}");
    }
    // What a command does not have it can ask for, and what it has it need not.
    let asking = tool(&[("*", Ask), ("bash reach*", Allow)]);
    let wanting = |line: &str| json!({ "command": line, "network": true });
    assert_eq!(permissions(&project, &asking, &wanting("make")), ["network", "bash"]);
    assert_eq!(permissions(&project, &but, &wanting("make")), ["bash"]);
    assert_eq!(permissions(&project, &but, &wanting("bash other")), ["network", "bash"]);
}

#[test]
fn who_cannot_be_cut_off_needs_the_network_to_be_permitted() {
    use everturn_model::permission::Action::{Allow, Deny};
    use everturn_model::permission::{Policy, Rule};
    let project = Project::new();
    let rules = vec![Rule::new("network", "*", Deny), Rule::new("network", "npm *", Allow)];
    let tool = |parts: BTreeSet<SandboxPart>| {
        let rules = Some(Policy::new(rules.clone()));
        enclosed_by(SandboxSettings { parts, rules, ..SandboxSettings::default() })
    };
    let whole: BTreeSet<SandboxPart> = SandboxPart::ALL.into();
    let holed: BTreeSet<SandboxPart> =
        whole.iter().copied().filter(|part| *part != SandboxPart::Network).collect();
    let outside = |line: &str| json!({ "command": line, "outside_sandbox": true });
    let job = |line: &str| json!({ "command": line, "background": true });
    for (parts, input, expected) in [
        (&whole, command("make"), &["bash"][..]),
        (&whole, job("make"), &["bash"]),
        (&whole, outside("make"), &["outside_sandbox", "network", "bash"]),
        (&whole, outside("npm ci"), &["outside_sandbox", "bash"]),
        (&whole, outside("npm ci; make"), &["outside_sandbox", "network", "bash"]),
        (&holed, command("make"), &["outside_sandbox", "network", "bash"]),
        (&holed, job("make"), &["outside_sandbox", "network", "bash"]),
        (&holed, command("npm ci > log"), &["outside_sandbox", "bash"]),
        (&BTreeSet::new(), command("make"), &["outside_sandbox", "network", "bash"]),
    ] {
        assert_eq!(permissions(&project, &tool(parts.clone()), &input), expected, "{parts:?} {input}");
    }
    // Where it is switched off the rules are not known here: they are asked about what would use the network.
    for input in [command("npm ci > log; make"), job("npm ci > log; make")] {
        use everturn_tools::Tool as _;
        let needs = quick().needs(&input, &project.scope).unwrap();
        let need = needs.into_iter().find(|need| need.permission == "network").unwrap();
        assert_eq!(need.patterns, ["npm ci", "make"]);
    }
}

#[tokio::test]
async fn no_command_decides_by_a_link_what_the_next_one_sees() {
    // A folder of tools that lies in a cache, or in the project, was followed wherever a command made it lead.
    let project = Project::new();
    let outside = project.outside();
    fs::create_dir_all(outside.join("secret")).unwrap();
    fs::write(outside.join("secret/id"), "canary").unwrap();
    fs::create_dir_all(outside.join("cache/tools")).unwrap();
    let link = format!("mv cache/tools cache/t2; ln -s {} cache/tools", outside.join("secret").display());
    let sandbox = SandboxSettings {
        parts: all(),
        readable: vec![outside.join("cache/tools"), project.path("venv")],
        writable: vec![outside.join("cache"), project.path("target")],
        ..SandboxSettings::default()
    };
    for name in ["venv", "target"] {
        std::os::unix::fs::symlink(outside.join("secret"), project.path(name)).unwrap();
    }
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &link])
            .current_dir(&outside)
            .status()
            .unwrap()
            .success()
    );
    let line =
        "c=$(echo ../cache); cat $c/tools/id; cat ve*/id; echo x > tar*/new; s=$(echo ../secret); cat $s/id";
    let output = project.run_with(Vec::new(), &enclosed_by(sandbox), command(line)).await.unwrap();
    assert!(!output.output.contains("canary"), "{}", output.output);
    assert!(!outside.join("secret/new").exists(), "{}", output.output);
}

#[tokio::test]
async fn what_can_only_be_read_has_no_cache_that_can_be_changed() {
    let project = Project::new();
    let cache = project.outside().join("cache");
    fs::create_dir(&cache).unwrap();
    let (mode, writable) = (SandboxMode::ReadOnly, vec![cache.clone()]);
    let tool = enclosed_by(SandboxSettings { parts: all(), mode, writable, ..SandboxSettings::default() });
    let line = "c=$(echo ../cache); echo x > $c/new";
    assert_ne!(project.run_with(Vec::new(), &tool, command(line)).await.unwrap().metadata["exit"], 0);
    assert!(!cache.join("new").exists());
}
