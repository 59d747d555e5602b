//! What may happen to a session.

use everturn_engine::Prompt;
use everturn_model::event::Cause;
use everturn_model::inbox::Delivery;
use everturn_model::request::{Ask, Reply};
use everturn_model::session::ModelRef;
use everturn_model::{Body, EntryId, Event};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::bench::Bench;

/// One for each protocol.
pub(super) const PROVIDERS: [&str; 4] = ["messages", "responses", "gemini", "chat"];

/// One thing that happens.
#[derive(Debug, Clone)]
pub(super) enum SessionOperation {
    /// A prompt, whose turns come to an end by themselves.
    Prompt { to: &'static str, model: &'static str, text: &'static str },
    /// A prompt whose answer is stopped in the middle.
    Stopped { to: &'static str, text: &'static str },
    /// A prompt in the middle of whose answer the engine ends, and another one begins.
    Restarted { to: &'static str, text: &'static str },
    /// A call for which a person does not give the permission.
    Rejected { to: &'static str, words: Option<&'static str> },
    /// A prompt that comes while another one is answered.
    Steered { to: &'static str, delivery: Delivery },
    /// What comes from a message on is taken back; the next prompt makes that final.
    Reverted(Index),
    /// A revert that is staged is undone.
    Unreverted,
    /// A message is taken out of view.
    Hidden(Index),
    /// The path ends elsewhere in the tree.
    Branched(Index),
}

/// Answers with all that answers may have, and failures of all kinds that are not waited out.
const TEXTS: [&str; 15] = [
    "SAY:words",
    "THINK SAY:words",
    "EMPTY",
    "THINK EMPTY",
    "THINK HOSTED:2\nTOOL:read:a.txt\nSAY:read",
    "TOGETHER:3\nTOOL:read:a.txt\nTOOL:glob:*.txt\nTOOL:read:missing.txt\nSAY:all read",
    "TOOL:edit:a.txt=hello=>bye\nTOOL:edit:a.txt=bye=>hello\nSAY:edited",
    "TOOL:nothing_like_that:x\nSAY:no such tool",
    "JSONTOOL:read:{\"wrong\": 1}\nSAY:wrong",
    "TOOL:task:SAY:child\nSAY:parent",
    "ERR:400 SAY:refused",
    "TOOL:read:a.txt\nLENGTH SAY:too long",
    "THINK REFUSE SAY:no",
    "THINK\nTOOL:read:a.txt\nFAIL:invalid_request_error ERRTEXT:broken\nSAY:one two three",
    "HOSTED:1 LENGTH SAY:one two three",
];

/// Answers that stand still in the middle: in a thought, a text, a call, or before anything came.
const HELD: [&str; 5] = [
    "THINK HOLD:{} SAY:alpha beta gamma",
    "HOLD:{} SAY:alpha beta gamma",
    "TOOL:read:a.txt\nHOLD:{} SAY:alpha beta",
    "THINK TOGETHER:2 HOLD:{}\nTOOL:read:a.txt\nTOOL:bash:echo x\nSAY:done",
    "HOSTED:1 HOLD:{} SAY:alpha beta",
];

/// Any operation.
pub(super) fn operation() -> impl Strategy<Value = SessionOperation> {
    use SessionOperation as Operation;
    let to = || select(PROVIDERS.to_vec());
    let held = || select(HELD.to_vec());
    let prompt = (to(), select(vec!["one", "two"]), select(TEXTS.to_vec()));
    let words = select(vec![None, Some("not this one")]);
    let delivery = select(vec![Delivery::Steer, Delivery::Queue]);
    prop_oneof![
        6 => prompt.prop_map(|(to, model, text)| Operation::Prompt { to, model, text }),
        3 => (to(), held()).prop_map(|(to, text)| Operation::Stopped { to, text }),
        3 => (to(), held()).prop_map(|(to, text)| Operation::Restarted { to, text }),
        1 => (to(), words).prop_map(|(to, words)| Operation::Rejected { to, words }),
        1 => (to(), delivery).prop_map(|(to, delivery)| Operation::Steered { to, delivery }),
        1 => any::<Index>().prop_map(Operation::Reverted),
        1 => Just(Operation::Unreverted),
        1 => any::<Index>().prop_map(Operation::Hidden),
        2 => any::<Index>().prop_map(Operation::Branched),
    ]
}

fn prompt(to: &str, model: &str, text: &str) -> Prompt {
    let model = ModelRef { provider: to.into(), model: model.into(), variant: None };
    Prompt { model: Some(model), ..Prompt::text(text) }
}

impl SessionOperation {
    /// Lets it happen; what makes no sense now is left out. `number` is unlike that of all others.
    pub(super) async fn apply(&self, bench: &mut Bench, number: usize) {
        let id = bench.session.id.clone();
        match self {
            Self::Prompt { to, model, text } => say(bench, to, model, text).await,
            Self::Stopped { to, text } => {
                let hold = hold(bench, to, text, number).await;
                within("the stop", bench.engine.drains().abort(&id)).await.unwrap();
                bench.model.release(&hold);
                rest(bench, None).await;
            }
            Self::Restarted { to, text } => {
                let hold = hold(bench, to, text, number).await;
                within("the engine to close", bench.engine.close()).await;
                bench.model.release(&hold);
                bench.restart().await;
                rest(bench, None).await;
            }
            Self::Rejected { to, words } => {
                let text = "TOGETHER:2\nTOOL:read:/etc/hosts\nTOOL:read:a.txt\nSAY:understood";
                bench.engine.inbox().admit(&id, prompt(to, "one", text)).await.unwrap();
                rest(bench, *words).await;
            }
            Self::Steered { to, delivery } => {
                let hold = hold(bench, to, "HOLD:{} SAY:first words", number).await;
                let second = Prompt { delivery: *delivery, ..prompt(to, "two", "THINK SAY:second") };
                bench.engine.inbox().admit(&id, second).await.unwrap();
                bench.model.release(&hold);
                rest(bench, None).await;
            }
            Self::Reverted(index) => {
                let messages = shown(bench).await;
                if !messages.is_empty() {
                    bench.engine.reverts().revert(&id, index.get(&messages), None).await.unwrap();
                }
            }
            Self::Unreverted => drop(bench.engine.reverts().unrevert(&id).await.unwrap()),
            Self::Hidden(index) => {
                let messages = shown(bench).await;
                if !messages.is_empty() {
                    bench.engine.sessions().hide_message(&id, index.get(&messages)).await.unwrap();
                }
            }
            Self::Branched(index) => branch(bench, *index).await,
        }
    }
}

/// Begins an answer that stands still in the middle, and says where.
async fn hold(bench: &Bench, to: &str, text: &str, number: usize) -> String {
    let name = format!("held{number}");
    let text = text.replace("{}", &name);
    bench.engine.inbox().admit(&bench.session.id, prompt(to, "one", &text)).await.unwrap();
    // The hold of an earlier prompt may count in place of this one, and be over already.
    tokio::select! {
        () = bench.model.held(&name) => {}
        () = rest(bench, None) => {}
    }
    name
}

/// The messages of the conversation.
async fn shown(bench: &Bench) -> Vec<EntryId> {
    let nodes = bench.nodes().await;
    let said = |body: &Body| matches!(body, Body::User(_) | Body::Assistant(_));
    nodes.into_iter().filter(|node| said(&node.entry.body)).map(|node| node.entry.id).collect()
}

/// Waits until the session rests, and rejects whatever it asks for until then. An earlier prompt without an answer may stand
/// before the newest as part of it, whose words then count too.
async fn rest(bench: &Bench, words: Option<&str>) {
    let resting = async {
        loop {
            let running = bench.engine.drains().is_running(&bench.session.id);
            for (_, request) in bench.engine.requests().waiting().await.unwrap() {
                assert!(matches!(request.ask, Ask::Permission { .. }), "{request:?}");
                // It may have been withdrawn, or settled with another one.
                let words = words.map(str::to_owned);
                drop(bench.engine.requests().reply(&request.id, Reply::Reject, words).await);
            }
            if !running {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the session to rest", resting).await;
}

/// Says something to a model and waits until the session rests.
pub(super) async fn say(bench: &Bench, to: &str, model: &str, text: &str) {
    bench.engine.inbox().admit(&bench.session.id, prompt(to, model, text)).await.unwrap();
    rest(bench, None).await;
}

/// Ends the path at any entry of the tree, as its owner, while nobody works.
async fn branch(bench: &Bench, index: Index) {
    let id = &bench.session.id;
    let tree = bench.engine.sessions().tree(id).await.unwrap();
    // A revert that is staged is undone or made final before anything else.
    let entries: Vec<EntryId> = tree.nodes().iter().map(|node| node.entry.id.clone()).collect();
    if entries.is_empty() || tree.session.revert.is_some() {
        return;
    }
    let (from, to) = (tree.session.leaf.clone(), Some(index.get(&entries).clone()));
    let event = Event::LeafMoved { from, to, cause: Cause::Branch };
    let event = NewEvent { id: bench.engine.mint().event(), time: bench.engine.mint().now(), event };
    let store = bench.other_store().await;
    let lease = within("the lease", async {
        loop {
            match store.acquire(id).await {
                Ok(lease) => return lease,
                Err(everturn_store::Error::Busy { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    store.append(id, Authority::Owned(lease.clone()), vec![event]).await.unwrap();
    store.release(lease).await.unwrap();
}
