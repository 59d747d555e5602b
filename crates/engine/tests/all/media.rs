//! Pictures and documents: shown to models that take them, named to those that do not.

use everturn_engine::Prompt;
use everturn_engine::inbox::PartInput;
use everturn_model::Part;
use everturn_model::part::PartKind;
use everturn_testkit::within;
use serde_json::{Value, json};

use crate::bench::Bench;

/// The smallest PNG that says what it is.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

/// With a model that sees and one that does not.
async fn two_models() -> Bench {
    Bench::at(|address| {
        let model = |input: Value| json!({"tool_call": true, "modalities": {"input": input, "output": ["text"]}});
        let models = json!({"seeing": model(json!(["text", "image"])), "blind": model(json!(["text"]))});
        json!({"provider": {"fake": {"options": {"baseURL": address}, "models": models}}, "model": "fake/seeing"})
    })
    .await
}

/// The pictures, and the words about them, in the newest request.
fn shown(bench: &Bench) -> (usize, bool) {
    let request = bench.model.prompts().last().unwrap().to_string();
    (
        request.matches("data:image/png;base64,").count(),
        request.contains("is not shown: this model takes no image"),
    )
}

#[tokio::test]
async fn what_a_tool_shows_reaches_the_model() {
    // It was told that an image is attached, and never got one.
    let bench = two_models().await;
    std::fs::write(bench.repo.path().join("dot.png"), PNG).unwrap();
    bench.say("TOOL:read:dot.png\nSAY:I see").await;
    assert_eq!(shown(&bench), (1, false));
    // And it does not lock the session for a model that takes none.
    bench.say_to("fake", "blind", "SAY:I do not").await;
    assert_eq!(shown(&bench), (0, true));
    // Nobody said what this one takes.
    bench.say_to("fake", "unheard-of", "SAY:who knows").await;
    assert_eq!(shown(&bench), (1, false));
}

#[tokio::test]
async fn an_attached_picture_is_taken_in_when_the_prompt_is() {
    let bench = two_models().await;
    let path = bench.repo.path().join("a dot.png");
    std::fs::write(&path, PNG).unwrap();
    let url = format!("file://{}", path.display().to_string().replace(' ', "%20"));
    let kind: PartKind =
        serde_json::from_value(json!({"file": {"mime": "image/png", "filename": "a dot.png", "url": url}}))
            .unwrap();
    let mut prompt = Prompt::text("SAY:I see");
    prompt.parts.push(PartInput::new(kind));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    bench.settled().await;
    assert_eq!(shown(&bench), (1, false));
}

#[tokio::test]
async fn a_prompt_brings_so_much_of_its_files_and_no_more() {
    // Each was read by itself, so that thousands of them took all memory.
    let bench = two_models().await;
    let path = bench.repo.path().join("large.png");
    std::fs::write(&path, [PNG, &vec![0; 4 * 1024 * 1024]].concat()).unwrap();
    let url = format!("file://{}", path.display());
    let kind: PartKind = serde_json::from_value(json!({"file": {"mime": "image/png", "url": url}})).unwrap();
    let mut prompt = Prompt::text("SAY:enough");
    prompt.reply = false;
    prompt.parts.extend((0..9).map(|_| PartInput::new(kind.clone())));
    let item = bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    let is_shown =
        |part: &&Part| matches!(&part.kind, PartKind::File { url, .. } if url.starts_with("data:"));
    let words = |part: &&Part| matches!(&part.kind, PartKind::Text { text, .. } if text.contains("a prompt brings 32 MiB"));
    let counts = (item.parts.iter().filter(is_shown).count(), item.parts.iter().filter(words).count());
    assert_eq!((counts, item.parts.len()), ((7, 2), 12));
}

#[tokio::test]
async fn an_answer_that_the_provider_gave_up_is_no_finished_one() {
    let bench = Bench::new().await;
    bench.say("REFUSE SAY:I would rather").await;
    let last = bench.transcript().await.pop().unwrap();
    assert!(last.contains("!content filter"), "{last}");
    // The model is not given it as something that it has said.
    bench.say("SAY:but this is fine").await;
    let sent = bench.model.prompts().pop().unwrap()["messages"].to_string();
    assert!(sent.contains("but this is fine") && !sent.contains("\"assistant\""), "{sent}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_without_a_size_or_an_end_is_attached_by_its_name() {
    // Its size was asked for and believed: the process took all the memory there was.
    let bench = Bench::new().await;
    let mut prompt = Prompt::text("SAY:I see");
    for mime in ["text/plain", "image/png"] {
        let file = json!({"mime": mime, "filename": "pagemap", "url": "file:///proc/self/pagemap"});
        prompt.parts.push(PartInput::new(serde_json::from_value(json!({ "file": file })).unwrap()));
    }
    within("the prompt", bench.engine.inbox().admit(&bench.session.id, prompt)).await.unwrap();
    bench.settled().await;
    let told = bench.model.prompts()[0]["messages"].to_string();
    assert!(
        told.contains("Attached file /proc/self/pagemap has more than 262144 bytes; read it in parts."),
        "{told}"
    );
    assert!(told.contains("has more than 5242880 bytes, too many to be shown."), "{told}");
}
