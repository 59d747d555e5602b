//! Names, order, and calls that nobody can run.

use std::sync::Arc;

use everturn_tools::{
    BoxFuture, Context, Effect, Failure, Need, Output, Registry, Scope, Tool, invalid::Invalid,
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
    let registry = Registry::builtin();
    let names: Vec<String> = registry.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["bash", "edit", "read", "write"]);
    assert!(registry.get("invalid").is_some());
    assert!(registry.get("nosuch").is_none());
    for spec in registry.specs() {
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert!(!spec.description.is_empty());
    }
    let effects = ["bash", "edit", "read", "write"].map(|name| registry.get(name).unwrap().effect());
    assert_eq!(effects, [Effect::Opaque, Effect::Edit, Effect::Pure, Effect::Edit]);
}

#[test]
fn names_are_what_providers_accept() {
    let mut registry = Registry::new();
    for good in ["a", "Read_2", "mcp-x_y"] {
        assert!(registry.register(Arc::new(Named(good))).unwrap().is_none(), "{good}");
    }
    let long: &'static str = "x".repeat(65).leak();
    for bad in ["", "1a", "_a", "a b", "a.b", "ä", long] {
        assert!(registry.register(Arc::new(Named(bad))).is_err(), "{bad}");
    }
    assert!(registry.register(Arc::new(Named("a"))).unwrap().is_some(), "the latest wins");
}

#[tokio::test]
async fn an_unknown_tool_is_told_what_there_is() {
    let project = Project::new();
    let input = Registry::builtin().unknown("nosuchtool");
    let output = project.run(&Invalid, input).await.unwrap();
    assert_eq!(output.title, "Invalid Tool");
    assert!(output.output.contains("'nosuchtool'"), "{}", output.output);
    assert!(output.output.contains("bash, edit, read, write"), "{}", output.output);
    assert_eq!(Value::Object(output.metadata), json!({ "truncated": false }));
}
