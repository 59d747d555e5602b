//! Spending: everything that was used counts once, wherever the session is by now.

use everturn_engine::spending::SpentOn;
use everturn_model::event::SessionChange;
use everturn_model::session::Spent;

use crate::bench::Bench;

fn sum(rows: &[SpentOn]) -> Spent {
    rows.iter().fold(Spent::default(), |sum, row| Spent {
        tokens: sum.tokens.plus(&row.spent.tokens),
        cost: sum.cost + row.spent.cost,
    })
}

#[tokio::test]
async fn what_was_used_is_added_up_by_project_and_by_model() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    bench.say("SAY:two").await;
    let session = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    assert!(session.spent.tokens.sum() > 0, "the model counts: {:?}", session.spent);
    let model = session.model.clone().unwrap();

    let spending = bench.engine.spending();
    let total = spending.total().await.unwrap();
    assert_eq!((total.sessions, total.spent), (1, session.spent));
    let projects = spending.by_project().await.unwrap();
    let folder = bench.repo.path().canonicalize().unwrap().display().to_string();
    assert_eq!(projects, [SpentOn { name: Some(folder), ..total.clone() }]);
    let models = spending.by_model().await.unwrap();
    assert_eq!(models[0].name, Some(format!("{}/{}", model.provider, model.model)), "{models:?}");
    assert_eq!(sum(&models), total.spent);

    // A fork has copied messages, and nothing was used for them a second time.
    bench.engine.sessions().fork(&session.id, None).await.unwrap();
    let forked = spending.total().await.unwrap();
    assert_eq!((forked.sessions, forked.spent), (2, total.spent));
    assert_eq!(sum(&spending.by_model().await.unwrap()), total.spent);

    // Neither the archive nor the trash gives anything back.
    let archived = vec![SessionChange::Archived { time: Some(1) }];
    bench.engine.sessions().change(&session.id, archived).await.unwrap();
    assert_eq!(spending.total().await.unwrap(), forked);
    bench.engine.sessions().trash(&session.id).await.unwrap();
    assert_eq!(spending.total().await.unwrap(), forked);
    assert_eq!(sum(&spending.by_model().await.unwrap()), total.spent);
    assert_eq!(sum(&spending.by_project().await.unwrap()), total.spent);
}
