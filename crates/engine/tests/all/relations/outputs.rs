//! Model Tool Output: what of a tool's result is recorded and given to the model, and where the rest is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use everturn_engine::Prompt;
use everturn_model::Event;
use everturn_model::entry::Body;
use everturn_model::request::{Ask, Reply};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_testkit::within;
use everturn_tools::{BoxFuture, Context, Effect, Failure, Need, Output, Scope, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bench::Bench;
use crate::permission::ask;

/// A tool that gives back what it is told to: `{"line": text, "times": number}`, with what is `structured` beside it.
#[derive(Debug, Default)]
struct Printer {
    /// Told when a call that waits for the end of the work has begun.
    begun: Notify,
}

impl Tool for Printer {
    fn name(&self) -> &'static str {
        "printer"
    }

    fn description(&self) -> &'static str {
        "Prints."
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn effect(&self) -> Effect {
        Effect::Opaque
    }

    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            if input["stopped"] == true {
                self.begun.notify_one();
                // It had its effect, whatever came in between.
                context.cancel.cancelled().await;
            }
            let times = usize::try_from(input["times"].as_u64().unwrap()).unwrap();
            let mut output = Output { title: "printed".to_owned(), ..Output::default() };
            output.output = input["line"].as_str().unwrap().repeat(times);
            if let Value::Object(structured) = &input["structured"] {
                output.metadata.clone_from(structured);
            }
            if let Some(path) = input["path"].as_str() {
                (output.output_path, output.shaped) = (Some(path.into()), true);
                output.metadata.insert("outputPath".to_owned(), path.into());
            }
            Ok(output)
        })
    }
}

async fn bench(config: Value) -> (Bench, Arc<Printer>) {
    let tool = Arc::new(Printer::default());
    let registered = Arc::clone(&tool);
    let register = move |options: &mut everturn_engine::Options| {
        options.tools.register(registered).unwrap().keep();
    };
    (Bench::with(|_| config, register).await, tool)
}

/// At most a hundred lines, and ten thousand bytes.
fn small() -> Value {
    json!({"tool_output": {"max_lines": 100, "max_bytes": 10_000}})
}

async fn results(bench: &Bench) -> Vec<ToolResult> {
    let results = bench.nodes().await.into_iter().filter_map(|node| match node.entry.body {
        Body::ToolResult { result } => Some(*result),
        _ => None,
    });
    results.collect()
}

/// What is recorded of a call of the printer.
async fn print(bench: &Bench, input: &Value) -> ToolResult {
    bench.say(&format!("JSONTOOL:printer:{input}\nSAY:ok")).await;
    let result = results(bench).await.pop().unwrap();
    assert_eq!(result.outcome, Outcome::Completed);
    result
}

/// Where a result says that the complete text is.
fn path(result: &ToolResult) -> Option<PathBuf> {
    Some(result.metadata.as_ref()?.get("outputPath")?.as_str().unwrap().into())
}

/// The texts of tools in the newest request to the model.
fn replayed(bench: &Bench) -> Vec<String> {
    let request = bench.model.prompts().pop().unwrap();
    let messages = request["messages"].as_array().unwrap().iter();
    let of_tools = messages.filter(|message| message["role"] == "tool");
    of_tools.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn oversized_output_keeps_a_bounded_preview_in_history_and_its_complete_text_in_managed_storage() {
    let (bench, _) = bench(small()).await;
    let result = print(&bench, &json!({"line": "line\n", "times": 500})).await;
    assert!(result.output.len() < 1000, "{}", result.output);
    assert_eq!(fs::read_to_string(path(&result).unwrap()).unwrap(), "line\n".repeat(500));
    // History and the model have the same.
    assert_eq!(replayed(&bench), [result.output]);
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    // The first step has what the tools are, too.
    let others = log.iter().filter(|record| !matches!(record.event, Event::StepStarted { .. }));
    let largest = others.map(|record| serde_json::to_string(&record.event).unwrap().len()).max().unwrap();
    assert!(largest < 2500, "nothing of the rest is anywhere in the log: {largest}");
}

#[tokio::test]
async fn one_settlement_has_one_limit_of_lines_or_bytes_whichever_is_reached_first() {
    let (bench, _) = bench(small()).await;
    for (line, times, fits) in [
        ("x\n", 100, true),
        ("x\n", 101, false),
        ("0123456789", 1000, true),
        ("0123456789", 1001, false),
        // Bytes of UTF-8 count, not characters.
        ("äöüß\n", 99, true),
        ("äöüßäöüß", 626, false),
    ] {
        let result = print(&bench, &json!({"line": line, "times": times})).await;
        let whole = line.repeat(times);
        assert_eq!(result.output == whole, fits, "{line} {times}");
        assert_eq!(path(&result).is_none(), fits, "{line} {times}");
        assert!(result.output.len() <= 10_000 + 400 && result.output.lines().count() <= 105);
    }
}

#[tokio::test]
async fn truncation_keeps_the_beginning_and_the_end() {
    let bench = Bench::configured(small()).await;
    bench.say("TOOL:bash:seq 1 1000\nSAY:ok").await;
    let output = results(&bench).await.pop().unwrap().output;
    assert!(output.starts_with("1\n2\n3\n") && output.trim_end().ends_with("\n999\n1000"), "{output}");
    assert!(output.contains("shortened: 1000 lines, 3893 bytes in all"), "{output}");
    let (bench, _) = self::bench(small()).await;
    let line = "beginning ".to_owned() + &"middle ".repeat(3000) + "end";
    let output = print(&bench, &json!({"line": line, "times": 1})).await.output;
    assert!(output.starts_with("beginning ") && output.ends_with("end"), "{output}");
}

#[tokio::test]
async fn truncated_output_names_its_complete_text_in_the_preview_and_as_a_path_beside_the_structured_result()
{
    let (bench, _) = bench(small()).await;
    let structured = json!({"rows": [1, 2, 3], "exit": 0});
    let result = print(&bench, &json!({"line": "line\n", "times": 500, "structured": structured})).await;
    let path = path(&result).unwrap();
    assert!(result.output.contains(&format!("the complete output is in {}", path.display())));
    let mut expected = structured.as_object().cloned().unwrap();
    expected.insert("truncated".to_owned(), true.into());
    expected.insert("outputPath".to_owned(), path.display().to_string().into());
    assert_eq!(result.metadata, Some(expected));
}

#[tokio::test]
async fn a_managed_file_may_expire_and_the_bounded_output_is_the_record() {
    let (mut bench, _) = bench(small()).await;
    let result = print(&bench, &json!({"line": "line\n", "times": 500})).await;
    let file = path(&result).unwrap();
    let now = Duration::from_millis(bench.engine.mint().now().try_into().unwrap());
    let eight_days_ago = SystemTime::UNIX_EPOCH + now - Duration::from_secs(8 * 24 * 60 * 60);
    fs::File::options().write(true).open(&file).unwrap().set_modified(eight_days_ago).unwrap();
    assert_eq!(bench.engine.outputs().sweep().await.unwrap(), 1);
    assert!(!file.exists());
    bench.restart().await;
    bench.say("SAY:still there").await;
    assert_eq!(replayed(&bench), [result.output]);
}

#[tokio::test]
async fn failure_to_keep_the_file_fails_no_tool_and_the_output_says_that_the_rest_is_lost() {
    let (bench, _) = bench(small()).await;
    // Where its folder should be is something else.
    let folder = bench.data().join("tool-output");
    fs::remove_dir_all(&folder).ok();
    fs::write(&folder, "").unwrap();
    let structured = json!({"exit": 0});
    let result = print(&bench, &json!({"line": "line\n", "times": 500, "structured": structured})).await;
    assert_eq!(path(&result), None);
    assert!(result.output.contains("the rest could not be kept and is lost"), "{}", result.output);
    assert!(result.output.starts_with("line\n") && result.output.ends_with("line\n"));
    assert_eq!(result.metadata.unwrap(), *json!({"exit": 0, "truncated": true}).as_object().unwrap());
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: ok");
}

#[tokio::test]
async fn a_success_is_bounded_and_recorded_once_although_the_work_is_stopped_meanwhile() {
    let (bench, tool) = bench(small()).await;
    let call = json!({"line": "line\n", "times": 500, "stopped": true});
    let prompt = Prompt::text(&format!("JSONTOOL:printer:{call}\nSAY:never said"));
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    within("the call to begin", tool.begun.notified()).await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let settled: Vec<&ToolResult> = log
        .iter()
        .filter_map(|record| match &record.event {
            Event::ToolSettled { entry, .. } => match &entry.body {
                Body::ToolResult { result } => Some(&**result),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].outcome, Outcome::Completed);
    assert_eq!(fs::read_to_string(path(settled[0]).unwrap()).unwrap(), "line\n".repeat(500));
    let raw = "line\\n".repeat(200);
    assert!(log.iter().all(|record| !serde_json::to_string(&record.event).unwrap().contains(&raw)));
}

#[tokio::test]
async fn a_structured_result_that_is_too_large_stays_whole_and_the_model_gets_a_preview_of_its_json() {
    let (bench, _) = bench(small()).await;
    let rows: Vec<Value> = (0..2000).map(|row| json!({"row": row})).collect();
    let structured = json!({"rows": rows});
    let text = structured.to_string();
    let result = print(&bench, &json!({"line": text, "times": 1, "structured": structured})).await;
    let path = path(&result).unwrap();
    assert_eq!(result.metadata.as_ref().unwrap()["rows"], structured["rows"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let sent = replayed(&bench).pop().unwrap();
    assert!(sent.starts_with("{\"rows\":[{\"row\":0}") && sent.ends_with("{\"row\":1999}]}"), "{sent}");
    assert!(sent.len() <= 10_400 && sent.contains(&path.display().to_string()));
}

#[tokio::test]
async fn a_path_of_the_tools_own_survives_and_a_fallback_file_has_exactly_the_text_that_was_received() {
    let (bench, _) = bench(small()).await;
    let own = bench.data().join("tool-output/tool_of_its_own");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "all that the tool saw").unwrap();
    // What the tool has shaped may be somewhat longer, and is bounded beyond that.
    for times in [150, 500] {
        let result = print(&bench, &json!({"line": "line\n", "times": times, "path": own})).await;
        assert_eq!(path(&result).as_deref(), Some(own.as_path()), "{times}");
        assert_eq!(result.output == "line\n".repeat(times), times == 150);
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), "all that the tool saw");
    let result = print(&bench, &json!({"line": "shaped by the tool: line\n", "times": 500})).await;
    assert_eq!(fs::read_to_string(path(&result).unwrap()).unwrap(), "shaped by the tool: line\n".repeat(500));
}

#[tokio::test]
async fn managed_files_have_unique_names_in_one_flat_folder_and_ordinary_tools_read_and_search_them() {
    let (mut bench, _) = bench(small()).await;
    let mut files = Vec::new();
    for _ in 0..2 {
        bench.say("TOGETHER:2\nJSONTOOL:printer:{\"line\":\"needle\\n\",\"times\":500}\nJSONTOOL:printer:{\"line\":\"needle\\n\",\"times\":501}\nSAY:ok").await;
    }
    for result in results(&bench).await {
        let file = path(&result).unwrap();
        assert_eq!(file.parent(), Some(bench.data().join("tool-output").as_path()));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        files.push(file);
    }
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 4, "{files:?}");
    let file = files[0].display();
    bench.say(&format!("JSONTOOL:read:{{\"filePath\":\"{file}\",\"limit\":3}}\nSAY:ok")).await;
    let folder = bench.data().join("tool-output");
    let search = json!({"pattern": "needle", "path": folder});
    bench.say(&format!("JSONTOOL:grep:{search}\nSAY:ok")).await;
    let found = results(&bench).await;
    let texts: Vec<&str> = found[4..].iter().map(|result| result.output.as_str()).collect();
    assert!(texts.iter().all(|text| text.contains("needle")), "{texts:?}");
    // Other places outside the project are asked for.
    let beside = bench.data().join("elsewhere.txt");
    fs::write(&beside, "x").unwrap();
    let request = ask(&mut bench, &format!("TOOL:read:{}\nSAY:ok", beside.display())).await;
    let Ask::Permission { permission, .. } = &request.ask else { panic!("{request:?}") };
    assert_eq!(permission, "external_directory");
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
}

#[tokio::test]
async fn results_of_tools_that_the_provider_runs_are_not_bounded() {
    let bench = Bench::at(|address| {
        let options = json!({"baseURL": address, "apiKey": "none"});
        let provider =
            json!({"messages": {"npm": "@ai-sdk/anthropic", "options": options, "models": {"one": {}}}});
        json!({"provider": provider, "enabled_providers": ["messages"], "model": "messages/one",
            "small_model": "messages/one", "tool_output": {"max_lines": 1, "max_bytes": 20}})
    })
    .await;
    bench.say_to("messages", "one", "HOSTED:1 SAY:done").await;
    let result = results(&bench).await.pop().unwrap();
    assert!(result.output.len() > 100 && serde_json::from_str::<Value>(&result.output).is_ok(), "{result:?}");
    assert_eq!(path(&result), None);
    let kept = fs::read_dir(bench.data().join("tool-output"));
    assert!(kept.is_err() || kept.unwrap().next().is_none());
}
