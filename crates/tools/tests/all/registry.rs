//! Names, order, and calls that nobody can run.

use std::sync::Arc;

use everturn_tools::bound::OutputLimits;
use everturn_tools::invalid::InvalidTool;
use everturn_tools::settlement::SettlementRules;
use everturn_tools::{
    BoxFuture, Context, Effect, Failure, Need, Output, Registry, Scope, Tool, ToolSettings, settle,
};
use serde_json::{Value, json};

use crate::harness::Project;

#[derive(Debug)]
struct Named(&'static str);

impl Tool for Named {
    fn name(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        "a test"
    }
    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }
    fn effect(&self) -> Effect {
        Effect::Pure
    }
    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }
    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async { Ok(Output::default()) })
    }
}

#[test]
fn builtin_specs_are_sorted_and_leave_out_invalid() {
    let registry = Registry::builtin(&ToolSettings::default());
    let names: Vec<String> = registry.offer().specs().into_iter().map(|spec| spec.name).collect();
    let expected = [
        "apply_patch",
        "bash",
        "edit",
        "glob",
        "grep",
        "list",
        "plan_enter",
        "plan_exit",
        "question",
        "read",
        "skill",
        "task",
        "todoread",
        "todowrite",
        "webfetch",
        "write",
    ];
    assert_eq!(names, expected);
    assert!(registry.get("invalid").is_some());
    assert!(registry.get("nosuch").is_none());
    for spec in registry.offer().specs() {
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert!(!spec.description.is_empty());
    }
    let effects =
        ["apply_patch", "bash", "edit", "read", "write"].map(|name| registry.get(name).unwrap().effect());
    assert_eq!(effects, [Effect::Edit, Effect::Opaque, Effect::Edit, Effect::Pure, Effect::Edit]);
}

#[test]
fn names_are_what_providers_accept() {
    let registry = Registry::new();
    for good in ["a", "Read_2", "mcp-x_y"] {
        registry.register(Arc::new(Named(good))).unwrap().keep();
        assert!(registry.get(good).is_some(), "{good}");
    }
    let long: &'static str = "x".repeat(65).leak();
    for bad in ["", "1a", "_a", "a b", "a.b", "ä", long] {
        assert!(registry.register(Arc::new(Named(bad))).is_err(), "{bad}");
    }
}

/// The tool that a name stands for, by its address.
fn which(tool: Option<Arc<dyn Tool>>) -> Option<*const ()> {
    tool.map(|tool| Arc::as_ptr(&tool).cast())
}

#[test]
fn the_newest_registration_wins_and_its_end_reveals_the_one_before() {
    let registry = Registry::new();
    let tools: Vec<Arc<dyn Tool>> = (0..4).map(|_| Arc::new(Named("a")) as Arc<dyn Tool>).collect();
    let is =
        |registry: &Registry, tool: usize| which(registry.get("a")) == which(Some(Arc::clone(&tools[tool])));
    registry.register(Arc::clone(&tools[0])).unwrap().keep();
    let layer = registry.layer();
    assert!(is(&layer, 0), "what lies below shows through");
    let first = layer.register(Arc::clone(&tools[1])).unwrap();
    let second = layer.register(Arc::clone(&tools[2])).unwrap();
    let offer = layer.offer();
    assert!(is(&layer, 2) && is(&registry, 0), "a layer does not change what lies below");
    drop(first);
    assert!(is(&layer, 2), "the end of an older registration changes nothing");
    drop(second);
    assert!(is(&layer, 0));
    assert_eq!(which(offer.get("a")), which(Some(Arc::clone(&tools[2]))), "a turn keeps what it was offered");
    registry.register(Arc::clone(&tools[3])).unwrap().keep();
    assert!(is(&layer, 3));
    assert_eq!(layer.offer().filter(|tool| tool.name() != "a").names().count(), 0);
}

/// A tool that does as its test says.
struct Acts<F>(F);

impl<F> std::fmt::Debug for Acts<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acts")
    }
}

impl<F, R> Tool for Acts<F>
where
    F: Fn() -> R + Send + Sync,
    R: Future<Output = Result<Output, Failure>> + Send + 'static,
{
    fn name(&self) -> &str {
        "acts"
    }
    fn description(&self) -> &str {
        "a test"
    }
    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }
    fn effect(&self) -> Effect {
        Effect::Pure
    }
    fn needs(&self, _: &Value, _: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(Vec::new())
    }
    fn run(&self, _: Value, _: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin((self.0)())
    }
}

#[tokio::test]
async fn a_tool_that_panics_fails_its_own_call() {
    let project = Project::new();
    let tool = Acts(|| async { panic!("a defect") });
    let failure =
        settle(&tool, json!({}), project.context().0, SettlementRules::default()).await.unwrap_err();
    assert!(failure.to_string().contains("defect of its own"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_stop_is_left_behind() {
    let project = Project::new();
    let tool = Acts(std::future::pending);
    let context = project.context().0;
    context.cancel.cancel();
    let failure = settle(&tool, json!({}), context, SettlementRules::default()).await.unwrap_err();
    assert!(failure.to_string().contains("left behind"), "{failure}");
}

#[tokio::test]
async fn every_settlement_is_bounded() {
    let project = Project::new();
    let rules = SettlementRules {
        limits: OutputLimits { lines: 10, bytes: 1000 },
        attachments: 100,
        ..SettlementRules::default()
    };
    let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let make = move |shaped: bool, path: Option<&str>| Output {
        output: long.clone(),
        shaped,
        output_path: path.map(Into::into),
        attachments: [60, 60, 40]
            .map(|size| everturn_tools::Attachment {
                mime: "x/y".to_owned(),
                url: "u".repeat(size),
                filename: None,
            })
            .into(),
        ..Output::default()
    };
    for (shaped, own) in [(false, None), (true, None), (false, Some("/own"))] {
        let output = make(shaped, own);
        let tool = Acts(move || std::future::ready(Ok(output.clone())));
        let settled = settle(&tool, json!({}), project.context().0, rules).await.unwrap();
        assert!(settled.output.lines().count() <= 15, "{}", settled.output);
        assert_eq!(settled.metadata["truncated"], true);
        assert_eq!(settled.attachments.iter().map(|file| file.url.len()).collect::<Vec<_>>(), [60, 40]);
        let path = settled.output_path.unwrap();
        if let Some(own) = own {
            assert_eq!(path.to_str(), Some(own), "a path that the tool manages itself survives");
        } else {
            assert!(std::fs::read_to_string(path).unwrap().contains("line 57"));
        }
    }
    let tool = Acts(|| async { Err(Failure::Failed("x".repeat(5000))) });
    let failure = settle(&tool, json!({}), project.context().0, rules).await.unwrap_err();
    assert!(failure.to_string().len() < 1300);
}

#[tokio::test]
async fn an_unknown_tool_is_told_what_there_is() {
    let project = Project::new();
    let input = Registry::builtin(&ToolSettings::default()).offer().unknown("nosuchtool");
    let output = project.run(&InvalidTool, input).await.unwrap();
    assert_eq!(output.title, "Invalid Tool");
    assert!(output.output.contains("'nosuchtool'"), "{}", output.output);
    assert!(output.output.contains("Available tools: apply_patch, bash, "), "{}", output.output);
    assert_eq!(Value::Object(output.metadata), json!({ "truncated": false }));
}
