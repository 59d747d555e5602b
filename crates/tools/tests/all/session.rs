//! The tools that act on a session, on a session of the test's own.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use everturn_tools::{
    BoxFuture, Context, Failure, Host, Output, Tool,
    host::{Delegate, Question, Report, Skill, Task, Todo},
    question, settle,
    settlement::Rules,
    todo::{TodoRead, TodoWrite},
};
use serde_json::{Value, json};

use crate::harness::Project;

/// A session that answers as the test says and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) todos: Mutex<Vec<Todo>>,
    pub(crate) answers: Mutex<Option<Vec<Vec<String>>>>,
    pub(crate) asked: Mutex<Vec<Question>>,
}

impl Host for Script {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<Todo>, Failure>> {
        Box::pin(async { Ok(self.todos.lock().unwrap().clone()) })
    }

    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), Failure>> {
        *self.todos.lock().unwrap() = todos;
        Box::pin(async { Ok(()) })
    }

    fn ask(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        self.asked.lock().unwrap().extend(questions);
        let answer = self.answers.lock().unwrap().take();
        Box::pin(async { answer.ok_or_else(|| Failure::Declined("no".to_owned())) })
    }

    fn delegate<'a>(
        &'a self,
        _: Task,
        _: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<Report, Failure>> {
        Box::pin(async { Err(Failure::Cancelled) })
    }

    fn delegates(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn plan_file(&self) -> PathBuf {
        PathBuf::new()
    }

    fn hand_over(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Err(Failure::Cancelled) })
    }

    fn skill(&self, _: &str) -> BoxFuture<'_, Result<Skill, Failure>> {
        Box::pin(async { Err(Failure::Cancelled) })
    }
}

/// Runs a call as the engine does.
pub(crate) async fn run(host: &Arc<Script>, tool: &dyn Tool, input: Value) -> Result<Output, Failure> {
    let project = Project::new();
    let granted = tool.needs(&input, &project.scope)?.into();
    let context = Context { granted, host: Arc::clone(host) as Arc<dyn Host>, ..project.context().0 };
    settle(tool, input, context, Rules::default()).await
}

async fn refused(tool: &dyn Tool, input: Value) -> String {
    let host = Arc::new(Script::default());
    match run(&host, tool, input).await {
        Err(Failure::InvalidInput(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn todo(content: &str, status: &str, priority: &str) -> Value {
    json!({ "content": content, "status": status, "priority": priority })
}

#[tokio::test]
async fn the_list_is_replaced_and_shown_as_recorded() {
    let host = Arc::new(Script::default());
    // What OpenCode 1.18 recorded for this list; ids are not part of it.
    let input = json!({ "todos": [
        { "id": "1", "content": "one", "status": "completed", "priority": "medium" },
        todo("two", "in_progress", "medium"),
    ]});
    let output = run(&host, &TodoWrite, input).await.unwrap();
    let text = "[\n  {\n    \"content\": \"one\",\n    \"status\": \"completed\",\n    \"priority\": \"medium\"\n  },\n  \
                {\n    \"content\": \"two\",\n    \"status\": \"in_progress\",\n    \"priority\": \"medium\"\n  }\n]";
    let todos = json!([todo("one", "completed", "medium"), todo("two", "in_progress", "medium")]);
    assert_eq!((output.title.as_str(), output.output.as_str()), ("1 todos", text));
    assert_eq!(Value::Object(output.metadata), json!({ "todos": todos, "truncated": false }));
    let read = run(&host, &TodoRead, json!({})).await.unwrap();
    assert_eq!((read.title.as_str(), read.output.as_str()), ("1 todos", text));
    run(&host, &TodoWrite, json!({ "todos": [] })).await.unwrap();
    assert_eq!(run(&host, &TodoRead, json!({})).await.unwrap().output, "[]");
}

#[tokio::test]
async fn words_of_the_list_are_checked() {
    let check = async |item: Value| {
        refused(&TodoWrite, json!({ "todos": [todo("a", "pending", "low"), item] })).await
    };
    assert_eq!(
        check(todo("x", "done", "low")).await,
        "Item 2 of `todos`: the status 'done' is none of pending, in_progress, completed, cancelled."
    );
    assert_eq!(
        check(todo("x", "pending", "urgent")).await,
        "Item 2 of `todos`: the priority 'urgent' is none of high, medium, low."
    );
    assert!(check(todo(" ", "pending", "low")).await.contains("content is empty"));
    assert!(refused(&TodoWrite, json!({ "todos": "x" })).await.contains("It takes todos (array)."));
}

fn ask(question: &str, labels: &[&str]) -> Value {
    let options: Vec<Value> =
        labels.iter().map(|label| json!({ "label": label, "description": "…" })).collect();
    json!({ "question": question, "header": "h", "options": options })
}

#[tokio::test]
async fn answers_are_told_by_question() {
    let host = Arc::new(Script::default());
    let labels = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    *host.answers.lock().unwrap() = Some(vec![labels(&["x", "y"]), labels(&[])]);
    let mut first = ask("One?", &["x", "y"]);
    first["multiple"] = json!(true);
    let input = json!({ "questions": [first, ask("Two?", &["z"])] });
    let output = run(&host, &question::Question, input.clone()).await.unwrap();
    assert_eq!(output.output, "The person answered:\n\"One?\"=\"x, y\"\n\"Two?\"=\"(no answer)\"");
    assert_eq!(output.title, "Asked 2 questions");
    assert_eq!(Value::Object(output.metadata), json!({ "answers": [["x", "y"], []], "truncated": false }));
    assert_eq!(json!(*host.asked.lock().unwrap()), input["questions"]);
    let declined = run(&host, &question::Question, input).await;
    assert_eq!(declined, Err(Failure::Declined("no".to_owned())));
}

#[tokio::test]
async fn questions_that_nobody_can_answer_are_refused() {
    let check =
        async |questions: Value| refused(&question::Question, json!({ "questions": questions })).await;
    assert_eq!(check(json!([])).await, "Ask from 1 to 8 questions at once, not 0.");
    let many: Vec<Value> = (0..9).map(|_| ask("Q", &["a"])).collect();
    assert_eq!(check(json!(many)).await, "Ask from 1 to 8 questions at once, not 9.");
    assert_eq!(check(json!([ask(" ", &["a"])])).await, "Question 1 has no text.");
    assert_eq!(
        check(json!([ask("Q", &["a"]), ask("R", &[])])).await,
        "Question 2 has no options to choose from."
    );
    assert_eq!(
        check(json!([ask("Q", &["a", "a "])])).await,
        "Question 1 has two options with the label 'a '."
    );
}

#[tokio::test]
async fn without_a_session_the_tools_say_so() {
    let project = Project::new();
    let failure = project.run(&TodoRead, json!({})).await.unwrap_err();
    assert_eq!(failure.to_string(), "This tool works only in a session.");
}
