//! Sessions of other programs: what is odd about them is said, and does not spoil what is here.

use everturn_model::SessionId;
use everturn_testkit::within;
use serde_json::json;

use crate::bench::Bench;

/// An export without messages.
fn export(id: &str, parent: &str) -> Vec<u8> {
    let info = json!({
        "id": id, "parentID": parent, "slug": "s", "projectID": "global", "directory": "/srv/demo", "title": "t",
        "version": "1.0.0", "time": {"created": 1_794_711_664_171_i64, "updated": 1_794_711_664_171_i64},
    });
    json!({"info": info, "messages": []}).to_string().into_bytes()
}

#[tokio::test]
async fn a_session_that_belongs_to_itself_comes_in_without_a_parent() {
    // It was taken in as it was, and whoever deleted it waited for ever.
    let bench = Bench::new().await;
    let id = SessionId::new("ses_selfselfselfselfselfself01");
    let report = bench.engine.imports().export(&export(id.as_str(), id.as_str())).await.unwrap();
    assert_eq!(report.imported, std::slice::from_ref(&id));
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(bench.engine.sessions().get(&id).await.unwrap().parent, None);
    let again = bench.engine.imports().export(&export(id.as_str(), id.as_str())).await.unwrap();
    assert_eq!((again.imported.len(), again.present), (0, 1), "{again:?}");
    within("it to go into the trash", bench.engine.sessions().trash(&id)).await.unwrap();
}

#[tokio::test]
async fn sessions_that_belong_to_each_other_do_so_one_way() {
    let bench = Bench::new().await;
    let [a, b, c] = ["ses_a", "ses_b", "ses_c"];
    for (id, parent, problems) in [(a, c, 0), (b, a, 0), (c, b, 1)] {
        let report = bench.engine.imports().export(&export(id, parent)).await.unwrap();
        assert_eq!((report.imported.len(), report.problems.len()), (1, problems), "{report:?}");
    }
    let parent = async |id: &str| bench.engine.sessions().get(&SessionId::new(id)).await.unwrap().parent;
    assert_eq!(parent(a).await, Some(SessionId::new(c)), "known before its parent was");
    assert_eq!(parent(b).await, Some(SessionId::new(a)));
    assert_eq!(parent(c).await, None);
}
