//! The System Context and its sources.

use std::fs;

use everturn_engine::context::Observed;
use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::entry::Body;
use everturn_model::permission::Action;
use everturn_model::request::Reply;
use serde_json::json;

use super::{Gauge, add, baselines, gauged, sent, told, updates, was_sent, with};
use crate::bench::Bench;
use crate::permission::ask;

#[tokio::test]
async fn a_system_context_is_composed_from_zero_or_more_sources() {
    let (bench, registry) = gauged(json!({})).await;
    let (low, high) = (Gauge::at("test/a", 1), Gauge::at("test/b", 2));
    let _kept = (add(&registry, &low), add(&registry, &high));
    bench.say("SAY:one").await;
    let baseline = baselines(&bench).await.remove(0);
    assert!(
        baseline.starts_with("Today is ") && baseline.ends_with("test/a is 1\n\ntest/b is 2"),
        "{baseline}"
    );
}

#[tokio::test]
async fn the_history_has_updates_and_the_baseline_stays_apart_from_it() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("SAY:two").await;
    let sent = sent(&bench);
    assert!(sent[0].starts_with("system: ") && sent[0].ends_with("test/gauge is 1"), "{sent:?}");
    assert!(sent[1..].iter().any(|message| message.contains("test/gauge is now 2")), "{sent:?}");
    assert!(!sent[0].contains("is now 2") && !sent[1..].iter().any(|said| said.contains("Today is")));
}

#[tokio::test]
async fn what_a_contributor_told_is_gone_at_the_next_boundary_after_its_removal() {
    let (bench, registry) = gauged(json!({})).await;
    let registration = add(&registry, &Gauge::at("test/gauge", 1));
    bench.say("SAY:one").await;
    drop(registration);
    assert_eq!(updates(&bench).await, [""; 0], "nothing is pushed");
    bench.say("SAY:two").await;
    assert_eq!(updates(&bench).await, ["test/gauge is gone"]);
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await.len(), 1);
}

#[tokio::test]
async fn a_changed_source_produces_one_message_with_its_newly_effective_state() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    for value in [2, 3, 4] {
        gauge.rise(value);
    }
    bench.say("SAY:two").await;
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, ["test/gauge is now 4"]);
}

#[tokio::test]
async fn changes_of_several_sources_at_one_boundary_are_one_message_in_the_order_of_their_keys() {
    let (bench, registry) = gauged(json!({})).await;
    let gauges = ["test/c", "test/a", "test/b"].map(|key| Gauge::at(key, 1));
    for gauge in &gauges {
        add(&registry, gauge).keep();
    }
    bench.say("SAY:one").await;
    gauges.iter().for_each(|gauge| gauge.rise(2));
    bench.say("SAY:two").await;
    assert_eq!(updates(&bench).await, ["test/a is now 2\n\ntest/b is now 2\n\ntest/c is now 2"]);
}

#[tokio::test]
async fn the_message_persists_the_exact_text_that_was_sent() {
    let gauge = Gauge::at("test/gauge", 1);
    let mut bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("SAY:two").await;
    let text = updates(&bench).await.remove(0);
    assert!(was_sent(&bench, &text));
    bench.restart().await;
    bench.say("SAY:three").await;
    assert!(was_sent(&bench, &text));
}

#[tokio::test]
async fn the_snapshot_advances_in_the_same_entry_as_the_message() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("SAY:two").await;
    let nodes = bench.nodes().await;
    let snapshots: Vec<_> = nodes
        .iter()
        .filter_map(|node| match &node.entry.body {
            Body::Epoch { snapshot, .. } | Body::System { snapshot: Some(snapshot), .. } => {
                Some(&snapshot["sources"]["test/gauge"])
            }
            _ => None,
        })
        .collect();
    let value = |value: u32| json!({"value": value, "removal": "test/gauge is gone"});
    assert_eq!(snapshots, [&value(1), &value(2)]);
}

#[tokio::test]
async fn the_snapshot_keeps_the_words_for_a_removal() {
    // The process that could say them may be gone: they are told as they were when the source was.
    let (mut bench, registry) = gauged(json!({})).await;
    let registration = add(&registry, &Gauge::at("test/gauge", 1));
    bench.say("SAY:one").await;
    drop(registration);
    bench.restart().await;
    bench.say("SAY:two").await;
    assert_eq!(updates(&bench).await, ["test/gauge is gone"]);
}

#[tokio::test]
async fn context_is_sampled_lazily_at_a_boundary_and_wakes_no_idle_session() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    let looks = gauge.looks();
    gauge.rise(2);
    assert_eq!((gauge.looks(), bench.model.prompts().len()), (looks, 1));
    assert_eq!(updates(&bench).await, [""; 0]);
    bench.say("SAY:two").await;
    assert_eq!((gauge.looks(), bench.model.prompts().len()), (looks + 1, 2));
}

#[tokio::test]
async fn promoted_input_and_settled_results_precede_the_message() {
    let gauge = Gauge::at("test/gauge", 1);
    let mut bench = with(&gauge).await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    gauge.rise(2);
    bench.engine.requests().reply(&request.id, Reply::Once, None).await.unwrap();
    bench.settled().await;
    gauge.rise(3);
    bench.say("SAY:two").await;
    let kinds: Vec<&str> = bench.nodes().await.iter().map(|node| node.entry.body.kind()).collect();
    let expected =
        ["epoch", "user", "assistant", "tool_result", "system", "assistant", "user", "system", "assistant"];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn the_first_turn_tells_everything_once_and_no_update() {
    let bench = with(&Gauge::at("test/gauge", 1)).await;
    bench.say("SAY:one").await;
    assert_eq!((baselines(&bench).await.len(), updates(&bench).await.len()), (1, 0));
}

#[tokio::test]
async fn unavailable_at_start_blocks_the_turn_and_leaves_the_input_pending() {
    let gauge = Gauge::at("test/gauge", 1);
    gauge.hide();
    let mut bench = with(&gauge).await;
    let prompt = bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:one")).await.unwrap();
    let failure = bench
        .notice(|update| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Failed { error } => error.message.clone(),
                _ => None,
            },
            _ => None,
        })
        .await;
    assert!(failure.ends_with("the gauge is dark"), "{failure}");
    bench.settled().await;
    assert_eq!((bench.model.prompts().len(), told(&bench).await.len()), (0, 0), "no half of a baseline");
    gauge.rise(1);
    bench.engine.recover().await.unwrap();
    bench.settled().await;
    assert_eq!(bench.transcript().await, ["user: SAY:one", "assistant: one"]);
    assert_eq!(bench.nodes().await[1].entry.id, prompt.id, "the baseline comes before the promotion");
}

#[tokio::test]
async fn unavailable_later_keeps_what_was_told_and_says_nothing() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.hide();
    bench.say("SAY:two").await;
    gauge.rise(1);
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, [""; 0]);
    gauge.hide();
    bench.say("SAY:four").await;
    gauge.rise(2);
    bench.say("SAY:five").await;
    assert_eq!(updates(&bench).await, ["test/gauge is now 2"]);
}

#[tokio::test]
async fn a_source_that_is_unavailable_when_it_is_registered_is_told_once_it_is_there() {
    let (bench, registry) = gauged(json!({})).await;
    bench.say("SAY:one").await;
    let gauge = Gauge::at("test/gauge", 1);
    gauge.hide();
    add(&registry, &gauge).keep();
    bench.say("SAY:two").await;
    assert_eq!(updates(&bench).await, [""; 0]);
    gauge.rise(1);
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, ["test/gauge is 1"]);
}

#[tokio::test]
async fn a_loaded_absence_is_told_and_is_not_unavailability() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.set(Observed::Absent);
    bench.say("SAY:two").await;
    assert_eq!(updates(&bench).await, ["test/gauge is gone"]);
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await.len(), 1);
}

#[tokio::test]
async fn a_newly_registered_source_gives_its_baseline_once() {
    let (bench, registry) = gauged(json!({})).await;
    bench.say("SAY:one").await;
    add(&registry, &Gauge::at("test/gauge", 7)).keep();
    bench.say("SAY:two").await;
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, ["test/gauge is 7"]);
    assert_eq!(baselines(&bench).await.len(), 1);
}

#[tokio::test]
async fn duplicate_keys_fail() {
    let (_bench, registry) = gauged(json!({})).await;
    let first = add(&registry, &Gauge::at("test/gauge", 1));
    let second = Gauge::at("test/gauge", 2);
    let refused = registry.register(second.clone()).unwrap_err();
    assert_eq!(refused.to_string(), "there is a producer of system context already under test/gauge");
    assert!(registry.register(Gauge::at("core/date", 1)).is_err(), "those that are built in count too");
    drop(first);
    registry.register(second).unwrap().keep();
}

#[tokio::test]
async fn what_is_told_of_the_date_and_the_environment_is_of_this_machine_now() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let baseline = baselines(&bench).await.remove(0);
    let today = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
    let folder = format!("Working directory: {}", bench.repo.dir());
    assert!(baseline.starts_with(&format!("Today is {today}.\n\n{folder}")), "{baseline}");
}

#[tokio::test]
async fn instructions_of_the_person_and_upward_in_the_project_are_one_source_in_their_order() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("AGENTS.md"), "mine").unwrap();
    let config = home.path().to_owned();
    let bench = Bench::with(|_| json!({}), |options| options.paths.config = config).await;
    bench.repo.write("AGENTS.md", "outer");
    bench.say("SAY:one").await;
    let baseline = baselines(&bench).await.remove(0);
    let (mine, outer) = (baseline.find("\nmine").unwrap(), baseline.find("\nouter").unwrap());
    assert!(mine < outer, "{baseline}");
    // A change tells the whole set, in place of what was told before.
    bench.repo.write("AGENTS.md", "other");
    bench.say("SAY:two").await;
    let update = updates(&bench).await.remove(0);
    assert!(update.starts_with("The instructions have changed.") && update.contains("\nmine"), "{update}");
    fs::remove_file(home.path().join("AGENTS.md")).unwrap();
    fs::remove_file(bench.repo.join("AGENTS.md")).unwrap();
    bench.say("SAY:three").await;
    assert!(updates(&bench).await[1].contains("no longer apply"));
}

fn skill(bench: &Bench, name: &str) {
    let text = format!("---\nname: {name}\ndescription: for {name}\n---\nThe text.\n");
    bench.repo.write(format!(".opencode/skill/{name}/SKILL.md"), text);
}

async fn say_as(bench: &Bench, agent: &str, text: &str) {
    let prompt = Prompt { agent: Some(agent.to_owned()), ..Prompt::text(text) };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.settled().await;
}

#[tokio::test]
async fn an_agent_switch_that_changes_the_skills_is_told_and_keeps_the_baseline() {
    let bench =
        Bench::configured(json!({"agent": {"narrow": {"permission": {"skill": {"two": "deny"}}}}})).await;
    skill(&bench, "one");
    skill(&bench, "two");
    bench.say("SAY:one").await;
    say_as(&bench, "narrow", "SAY:two").await;
    say_as(&bench, "build", "SAY:three").await;
    let all = "The available skills have changed. These are all of them now:\n- one: for one";
    assert_eq!(updates(&bench).await, [all.to_owned(), format!("{all}\n- two: for two")]);
    assert_eq!(baselines(&bench).await.len(), 1);
}

#[tokio::test]
async fn plan_mode_is_told_when_it_begins_and_when_somebody_ends_it_by_hand() {
    // The planning agent's note was in the system prompt alone: after a switch by hand nobody said that it was over.
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    say_as(&bench, "plan", "SAY:two").await;
    let session = &bench.session;
    let name = format!(".opencode/plans/{}-{}.md", session.time.created, session.slug);
    let file = bench.repo.join(&name);
    let begins = format!("The file of the plan, the only one that you may change: {}", file.display());
    assert_eq!(updates(&bench).await, [begins.as_str()]);
    say_as(&bench, "build", "SAY:three").await;
    let ends = "The planning is over: other files may be changed again, as the rules allow.";
    assert_eq!(updates(&bench).await[1], ends);
    // With a plan, it is named.
    say_as(&bench, "plan", "SAY:four").await;
    bench.repo.write(&name, "the plan");
    say_as(&bench, "build", "SAY:five").await;
    let named = format!("{ends} The plan is in {}; go by it unless you are told otherwise.", file.display());
    assert_eq!(updates(&bench).await[3], named);
    assert!(was_sent(&bench, &named));
}

#[tokio::test]
async fn a_later_agent_switch_does_not_change_the_policy_of_a_call() {
    let rules = json!({"agent": {"free": {"permission": {"external_directory": "allow", "read": "allow"}}}});
    let mut bench = Bench::configured(rules).await;
    let request = ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await;
    let prompt = Prompt { agent: Some("free".to_owned()), ..Prompt::text("SAY:later") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let config = bench.config().await;
    let free = config.agents().all().iter().find(|agent| agent.name == "free").unwrap();
    assert_eq!(free.policy.decide(&[], "external_directory", &["/etc/*".to_owned()]), Action::Allow);
    assert_eq!(bench.engine.requests().waiting().await.unwrap().len(), 1, "it is asked for still");
    bench.engine.requests().reply(&request.id, Reply::Reject, Some("no".to_owned())).await.unwrap();
    bench.settled().await;
    assert!(bench.transcript().await[2].starts_with("result: Error"));
}

#[tokio::test]
async fn the_agent_and_the_model_of_a_turn_are_those_that_were_selected_when_it_began() {
    let bench = Bench::new().await;
    let text = "MUTE:x SAY:one";
    bench.engine.inbox().admit(&bench.session.id, Prompt::text(text)).await.unwrap();
    bench.model.held("x").await;
    let prompt = Prompt { agent: Some("plan".to_owned()), ..Prompt::text("SAY:two") };
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    bench.model.release("x");
    bench.settled().await;
    let spoke: Vec<Option<String>> = bench
        .nodes()
        .await
        .into_iter()
        .filter_map(|node| Some(node.entry.body.assistant()?.agent.clone()))
        .collect();
    assert_eq!(spoke, [Some("build".to_owned()), Some("plan".to_owned())]);
}

#[tokio::test]
async fn a_message_that_was_admitted_stays_although_the_provider_then_fails() {
    let gauge = Gauge::at("test/gauge", 1);
    let bench = with(&gauge).await;
    bench.say("SAY:one").await;
    gauge.rise(2);
    bench.say("ERR:400").await;
    bench.say("SAY:three").await;
    assert_eq!(updates(&bench).await, ["test/gauge is now 2"]);
    assert!(was_sent(&bench, "test/gauge is now 2"));
}

#[tokio::test]
async fn nested_instructions_are_admitted_at_the_boundary_after_the_read() {
    let bench = Bench::new().await;
    bench.repo.write("sub/AGENTS.md", "nested");
    bench.repo.write("sub/a.txt", "a");
    let file = bench.repo.join("sub/a.txt");
    bench.say(&format!("JSONTOOL:read:{}\nSAY:done", json!({"filePath": file}))).await;
    assert!(updates(&bench).await[0].ends_with("nested"));
    assert!(was_sent(&bench, "nested"));
}
