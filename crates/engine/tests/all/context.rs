//! What the model is told before the conversation, and when something around it changes.

use std::fs;

use everturn_engine::ProjectFiles;
use everturn_model::entry::Body;
use serde_json::{Value, json};

use crate::bench::Bench;

/// The texts of the `system` entries on the path.
async fn told(bench: &Bench) -> Vec<String> {
    let texts = bench.nodes().await.into_iter().filter_map(|node| match node.entry.body {
        Body::System { text, .. } => Some(text),
        _ => None,
    });
    texts.collect()
}

async fn baseline(bench: &Bench) -> String {
    let nodes = bench.nodes().await;
    let found = nodes.iter().rev().find_map(|node| match &node.entry.body {
        Body::Epoch { baseline, .. } => Some(baseline.clone()),
        _ => None,
    });
    found.unwrap()
}

/// What the newest read named as loaded.
async fn loaded(bench: &Bench) -> Value {
    let nodes = bench.nodes().await;
    let found = nodes.iter().rev().find_map(|node| match &node.entry.body {
        Body::ToolResult { result } => Some(result.metadata.clone().unwrap()["loaded"].clone()),
        _ => None,
    });
    found.unwrap()
}

/// The messages of the newest request, as role and text.
fn sent(bench: &Bench) -> Vec<(String, String)> {
    let request = bench.model.prompts().pop().unwrap();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

fn read(bench: &Bench, name: &str) -> String {
    format!("JSONTOOL:read:{}\nSAY:done", json!({"filePath": bench.repo.join(name)}))
}

#[tokio::test]
async fn a_change_of_the_instructions_is_told_once_and_stays_told() {
    let mut bench = Bench::new().await;
    bench.repo.write("AGENTS.md", "rule one");
    bench.say("SAY:one").await;
    let path = bench.repo.join("AGENTS.md").display().to_string();
    let first = baseline(&bench).await;
    assert!(first.ends_with(&format!("Instructions from {path}:\nrule one")), "{first}");

    bench.repo.write("AGENTS.md", "rule two");
    bench.say("SAY:two").await;
    let change = format!(
        "The instructions have changed. These apply now, in place of those given before.\n\nInstructions from {path}:\nrule two"
    );
    assert_eq!(told(&bench).await, [change.as_str()]);
    assert_eq!(
        bench.transcript().await,
        ["user: SAY:one", "assistant: one", "user: SAY:two", "system", "assistant: two"]
    );

    // Nothing changes, not even after a restart.
    bench.restart().await;
    bench.say("SAY:three").await;
    assert_eq!(told(&bench).await, [change.as_str()]);
    assert_eq!(baseline(&bench).await, first, "the baseline of an epoch stays as it is");
    let sent = sent(&bench);
    assert!(sent[0].1.contains("rule one"), "{sent:?}");
    assert_eq!(sent.iter().filter(|(_, text)| text.contains("rule two")).count(), 1, "{sent:?}");

    fs::remove_file(&path).unwrap();
    bench.say("SAY:four").await;
    let gone = "The instructions given before no longer apply: their files are gone.";
    assert_eq!(told(&bench).await, [change.as_str(), gone]);
}

#[tokio::test]
async fn instructions_that_cannot_be_taken_stop_nothing() {
    // Every prompt of a repository with such a link or folder failed, and nothing permitted it.
    let bench = Bench::new().await;
    let path = bench.repo.join("AGENTS.md");
    fs::create_dir(&path).unwrap();
    bench.say("SAY:hello").await;
    assert_eq!(bench.transcript().await, ["user: SAY:hello", "assistant: hello"]);
    fs::remove_dir(&path).unwrap();
    bench.repo.write("AGENTS.md", "rules");
    bench.say("SAY:again").await;
    assert_eq!(told(&bench).await.len(), 1, "they are told once they can be taken");
}

#[tokio::test]
async fn a_later_turn_is_told_of_instructions_that_cannot_be_taken_any_more() {
    let bench = Bench::new().await;
    bench.repo.write("AGENTS.md", "rules");
    bench.say("SAY:one").await;
    let path = bench.repo.join("AGENTS.md");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    bench.say("SAY:two").await;
    assert_eq!(told(&bench).await, ["The instructions given before no longer apply: their files are gone."]);
}

#[tokio::test]
async fn nested_instructions_are_told_when_a_file_beside_them_is_read() {
    let mut bench = Bench::new().await;
    bench.repo.write("sub/AGENTS.md", "nested rules");
    bench.repo.write("sub/deep/b.txt", "b\n");
    bench.repo.write("sub/c.txt", "c\n");
    let first = bench.say(&read(&bench, "sub/deep/b.txt")).await;
    let (path, folder) = (bench.repo.join("sub/AGENTS.md"), bench.repo.join("sub"));
    let text =
        format!("Instructions from {}, for what is in {}:\nnested rules", path.display(), folder.display());
    assert_eq!(loaded(&bench).await, json!([path]));
    assert_eq!(told(&bench).await, [text.as_str()]);
    let kinds: Vec<&str> = bench.nodes().await.iter().map(|node| node.entry.body.kind()).collect();
    assert_eq!(kinds, ["epoch", "user", "assistant", "tool_result", "system", "assistant"]);
    assert_eq!(sent(&bench).iter().filter(|(_, sent)| sent.contains("nested rules")).count(), 1);

    // The conversation knows them, in another process too.
    bench.restart().await;
    bench.say(&read(&bench, "sub/c.txt")).await;
    assert_eq!(loaded(&bench).await, json!([]));
    assert_eq!(told(&bench).await, [text.as_str()]);

    // They are watched like the others.
    bench.repo.write("sub/AGENTS.md", "other rules");
    bench.say("SAY:more").await;
    let changed = format!(
        "The instructions from {} have changed. For what is in {} these apply now:\nother rules",
        path.display(),
        folder.display()
    );
    assert_eq!(told(&bench).await, [text.as_str(), &changed]);
    fs::remove_file(&path).unwrap();
    bench.say("SAY:less").await;
    let gone = format!("The instructions from {} no longer apply: the file is gone.", path.display());
    assert_eq!(told(&bench).await, [text.as_str(), &changed, &gone]);

    // A conversation that goes back to before it was told has not been told.
    bench.engine.reverts().revert(&bench.session.id, &first, None).await.unwrap();
    bench.repo.write("sub/AGENTS.md", "newest rules");
    bench.say(&read(&bench, "sub/c.txt")).await;
    assert_eq!(loaded(&bench).await, json!([path]));
    assert_eq!(told(&bench).await, [text.replace("nested rules", "newest rules")]);
}

#[tokio::test]
async fn a_read_that_fails_brings_no_instructions() {
    let bench = Bench::new().await;
    bench.repo.write("sub/AGENTS.md", "nested rules");
    bench.say(&read(&bench, "sub/missing.txt")).await;
    assert_eq!(told(&bench).await, [""; 0]);
}

#[tokio::test]
async fn skills_are_told_by_name_to_agents_that_may_load_them() {
    let rules = json!({"permission": {"skill": {"secret": "deny"}}, "skills": {"paths": ["more"]}});
    let bench = Bench::configured(rules).await;
    let skill =
        |name: &str| format!("---\nname: {name}\ndescription: for {name}\n---\nThe text of {name}.\n");
    bench.repo.write(".opencode/skill/open/SKILL.md", skill("open"));
    bench.repo.write(".opencode/skill/secret/SKILL.md", skill("secret"));
    bench.say("SAY:one").await;
    let first = baseline(&bench).await;
    assert!(first.ends_with("load it with the `skill` tool before you begin:\n- open: for open"), "{first}");
    assert!(!first.contains("secret") && !first.contains("The text of"), "{first}");
    bench.repo.write("more/other/SKILL.md", skill("other"));
    bench.say("SAY:two").await;
    let changed =
        "The available skills have changed. These are all of them now:\n- open: for open\n- other: for other";
    assert_eq!(told(&bench).await, [changed]);
    let location = bench.engine.projects().location(None).await.unwrap();
    let found = bench.engine.guidance().skill(&location, "other").await.unwrap();
    assert_eq!(
        (found.content.as_str(), found.location),
        ("The text of other.", bench.repo.join("more/other/SKILL.md"))
    );
    let failure = bench.engine.guidance().skill(&location, "none").await.unwrap_err();
    assert_eq!(failure.to_string(), "There is no skill named 'none'. Available skills: open, other, secret.");
}

#[tokio::test]
async fn the_persons_instructions_count_where_the_projects_do_not() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join(".config/everturn");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("AGENTS.md"), "my rules").unwrap();
    let bench = Bench::with(
        |_| json!({}),
        |options| {
            options.paths.home = home.path().to_owned();
            options.paths.config.clone_from(&config);
            options.project_files = ProjectFiles::Ignored;
        },
    )
    .await;
    bench.repo.write("AGENTS.md", "rules of the project");
    bench.repo.write("sub/AGENTS.md", "nested rules");
    bench.repo.write("sub/a.txt", "a");
    bench.say(&read(&bench, "sub/a.txt")).await;
    assert!(baseline(&bench).await.ends_with("my rules"));
    assert_eq!((loaded(&bench).await, told(&bench).await), (json!([]), Vec::new()));
}

#[tokio::test]
async fn tool_output_is_kept_for_a_week() {
    let data = tempfile::tempdir().unwrap();
    let kept = data.path().to_owned();
    let bench = Bench::with(|_| json!({}), |options| options.paths.data = kept).await;
    assert_eq!(
        bench.engine.outputs().sweep().await.unwrap(),
        0,
        "without a folder there is nothing to remove"
    );
    bench.say("TOOL:bash:seq 1 3000\nSAY:done").await;
    let folder = data.path().join("tool-output");
    let files = || -> Vec<_> { fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let written = files();
    assert!(!written.is_empty());
    let now = fs::metadata(&written[0]).unwrap().modified().unwrap();
    let age = |hours: u64| {
        let time = now - std::time::Duration::from_secs(hours * 60 * 60);
        for file in &written {
            fs::File::options().append(true).open(file).unwrap().set_modified(time).unwrap();
        }
    };
    fs::write(folder.join("of-somebody-else"), "").unwrap();
    age(7 * 24 - 1);
    assert_eq!(bench.engine.outputs().sweep().await.unwrap(), 0);
    age(7 * 24 + 1);
    assert_eq!(bench.engine.outputs().sweep().await.unwrap(), written.len());
    assert_eq!(files(), [folder.join("of-somebody-else")]);
    // What the model saw of it is in the log and stays.
    assert!(bench.transcript().await.iter().any(|line| line.contains("output shortened: ")));
}

#[tokio::test]
async fn skills_are_told_as_far_as_the_last_rule_allows() {
    let check = async |rules: Value, expected: &[&str]| {
        let bench = Bench::configured(json!({"permission": {"skill": rules}})).await;
        for name in ["open", "secret"] {
            let text = format!("---\nname: {name}\ndescription: for {name}\n---\nThe text.\n");
            bench.repo.write(format!(".opencode/skill/{name}/SKILL.md"), text);
        }
        bench.say("SAY:one").await;
        let baseline = baseline(&bench).await;
        let is_told = |name: &&str| baseline.contains(&format!("- {name}: for {name}"));
        assert_eq!(
            ["open", "secret"].into_iter().filter(is_told).collect::<Vec<_>>(),
            expected,
            "{baseline}"
        );
        assert_eq!(baseline.contains("`skill` tool"), !expected.is_empty(), "{baseline}");
    };
    check(json!("allow"), &["open", "secret"]).await;
    check(json!({"*": "deny", "open": "allow"}), &["open"]).await;
    check(json!({"open": "allow", "*": "deny"}), &[]).await;
    check(json!("deny"), &[]).await;
}
