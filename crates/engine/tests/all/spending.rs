//! Spending: everything that was used counts once, wherever the session is by now.

use everturn_engine::spending::{SpendingGroup, SpendingReport, SpentOn};
use everturn_model::event::SessionChange;
use everturn_model::session::Spent;
use everturn_model::{Money, SessionId};
use everturn_testkit::damage::{damage_event, forget_bills};
use serde_json::{Value, json};

use crate::bench::Bench;

fn sum(rows: &[SpentOn]) -> Spent {
    rows.iter().fold(Spent::default(), |sum, row| Spent {
        tokens: sum.tokens.plus(&row.spent.tokens),
        cost: sum.cost + row.spent.cost,
    })
}

async fn report(bench: &Bench, group: SpendingGroup) -> SpendingReport {
    bench.engine.spending().report(group, None).await.unwrap()
}

#[tokio::test]
async fn what_was_used_is_added_up_by_day_by_project_and_by_model() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    bench.say("SAY:two").await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(session.spent.tokens.sum() > 0, "the model counts: {:?}", session.spent);
    let model = session.model.clone().unwrap();

    let projects = report(&bench, SpendingGroup::Project).await;
    let total = projects.total;
    assert_eq!((total.sessions, total.uses, total.spent), (1, 2, session.spent));
    let folder = bench.repo.path().canonicalize().unwrap().display().to_string();
    assert_eq!(projects.rows, [SpentOn { name: Some(folder), ..total.clone() }]);
    let models = report(&bench, SpendingGroup::Model).await.rows;
    let named = Some(format!("{}/{}", model.provider, model.model));
    assert_eq!(models, [SpentOn { name: named, ..total.clone() }]);
    let days = report(&bench, SpendingGroup::Day).await.rows;
    assert_eq!(sum(&days), total.spent);
    let day = days[0].name.clone().unwrap();
    assert!(day.parse::<jiff::civil::Date>().is_ok(), "{day}");

    // A fork has copied messages, and nothing was used for them a second time.
    bench.engine.sessions().fork(&session.id, None).await.unwrap();
    // Neither the archive nor the trash gives anything back.
    let archived = vec![SessionChange::Archived { time: Some(1) }];
    bench.engine.sessions().change(&session.id, archived).await.unwrap();
    bench.engine.sessions().trash(&session.id).await.unwrap();
    for group in [SpendingGroup::Day, SpendingGroup::Model, SpendingGroup::Project] {
        let found = report(&bench, group).await;
        assert_eq!((found.total, sum(&found.rows)), (total.clone(), total.spent), "{group:?}");
    }
    let later = bench.engine.spending().report(SpendingGroup::Day, Some(i64::MAX)).await.unwrap();
    assert_eq!((later.rows, later.total), (Vec::new(), SpentOn::default()));
}

#[tokio::test]
async fn what_is_in_no_repository_is_added_up_by_folder() {
    // All of it was one row, although a budget of a project counts each folder by itself.
    let mut bench = Bench::new().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut expected = Vec::new();
    for folder in &folders {
        let location = bench.engine.projects().location(folder.path().to_str()).await.unwrap();
        bench.session = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
        bench.say("SAY:one").await;
        expected.push(location.directory.display().to_string());
    }
    expected.sort();
    let names = async || {
        let report = report(&bench, SpendingGroup::Project).await;
        let names = report.rows.into_iter().filter_map(|row| row.name);
        let mut names: Vec<String> = names.collect();
        names.sort();
        (names, report.unread.len())
    };
    assert_eq!(names().await, (expected.clone(), 0));
    // So is one of an earlier version whose log cannot be read.
    damage_event(bench.data(), bench.session.id.as_str(), 1);
    forget_bills(bench.data());
    assert_eq!(names().await, (expected, 1));
}

#[tokio::test]
async fn a_session_has_used_what_its_subagents_used() {
    // Lists showed what the session's own answers cost and nothing of what it had others do.
    let bench = Bench::new().await;
    bench.say("TOOL:task:SAY:inner").await;
    let children = bench.engine.sessions().children(&bench.session.id).await.unwrap();
    let [child] = &children[..] else { panic!("{children:?}") };
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(child.spent.tokens.sum() > 0 && session.spent.tokens.sum() > 0);
    let spent = bench.engine.spending().of_families(vec![session.id.clone()]).await.unwrap();
    let tokens = session.spent.tokens.plus(&child.spent.tokens);
    assert_eq!(spent[&session.id], Spent { tokens, cost: session.spent.cost + child.spent.cost });
}

/// What `opencode export` prints of a session with one answer by each of these models; what it says of itself goes along.
fn export(id: &str, info: &Value, models: &[(&str, f64)]) -> Vec<u8> {
    let mut messages = Vec::new();
    for (number, (model, cost)) in (0i64..).zip(models) {
        let message = |kind: &str| format!("msg_{number:012x}{kind}aaaaaaaaaaaaa");
        let (asked, answered) = (message("a"), message("b"));
        messages
            .push(json!({"info": {"id": asked, "sessionID": id, "role": "user", "time": {"created": number},
            "agent": "build", "model": {"providerID": "p", "modelID": model}}, "parts": []}));
        messages.push(json!({"info": {"id": answered, "sessionID": id, "role": "assistant", "parentID": asked,
            "time": {"created": number, "completed": number}, "modelID": model, "providerID": "p", "mode": "build",
            "agent": "build", "path": {"cwd": "/w", "root": "/w"}, "cost": cost, "finish": "stop",
            "tokens": {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 2, "write": 1}}}, "parts": []}));
    }
    let mut session = json!({"id": id, "slug": "x", "projectID": "global", "directory": "/w", "title": "big",
        "version": "1.18.33", "time": {"created": 1, "updated": 1}});
    for (key, value) in info.as_object().unwrap() {
        session[key] = value.clone();
    }
    serde_json::to_vec(&json!({"info": session, "messages": messages})).unwrap()
}

#[tokio::test]
async fn what_was_imported_counts_for_its_models() {
    // The messages name their models, and all of it was once called an import.
    let bench = Bench::new().await;
    let id = |number: u32| format!("ses_{number:012x}aaaaaaaaaaaaaa");
    let silent = export(&id(1), &json!({}), &[("large", 2.0), ("small", 0.5), ("large", 1.0)]);
    // One says itself that it cost more than its messages, and one that it cost less.
    let tokens = json!({"input": 100, "output": 5, "reasoning": 0, "cache": {"read": 2, "write": 1}});
    let more = export(&id(2), &json!({"cost": 5.5, "tokens": tokens}), &[("large", 1.0)]);
    let less = export(&id(3), &json!({"cost": 0.25, "tokens": tokens}), &[("small", 1.0)]);
    for bytes in [silent, more, less] {
        bench.engine.imports().export(&bytes).await.unwrap();
    }
    let models = report(&bench, SpendingGroup::Model).await;
    let rows: Vec<(Option<&str>, u64, Money)> =
        models.rows.iter().map(|row| (row.name.as_deref(), row.sessions, row.spent.cost)).collect();
    let expected = [(None, 2, 4.5), (Some("p/large"), 2, 4.0), (Some("p/small"), 2, 0.75)];
    assert_eq!(rows, expected.map(|(name, sessions, cost)| (name, sessions, Money::from_f64(cost))));
    let large = &models.rows[1].spent.tokens;
    assert_eq!((large.input, large.output, large.cache.read, large.cache.write), (30, 15, 6, 3));
    assert_eq!(sum(&models.rows), models.total.spent);
    assert_eq!(models.unread, []);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_in_the_way_of_no_other() {
    // One such session took all models away. It was left by an earlier version, so its bill is not made yet.
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let used = bench.engine.sessions().get(&bench.session.id).await.unwrap().spent;
    let location = bench.engine.projects().location(None).await.unwrap();
    let broken = bench.engine.sessions().create(&location, Default::default()).await.unwrap().id;
    bench.engine.sessions().trash(&broken).await.unwrap();
    damage_event(bench.data(), broken.as_str(), 1);
    forget_bills(bench.data());
    let models = report(&bench, SpendingGroup::Model).await;
    assert_eq!((models.rows.len(), models.total.spent), (1, used), "{models:?}");
    let [unbilled] = &models.unread[..] else { panic!("{models:?}") };
    assert_eq!(unbilled.session, SessionId::new(broken.as_str()));
    let reason = &unbilled.reason;
    assert!(reason.contains("event 1") && reason.ends_with("`everturn doctor` says what helps"), "{reason}");
}
