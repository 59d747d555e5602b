//! The tools that act on a session, on a session of the test's own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use everturn_tools::host::{AskedQuestion, Delegate, DelegatedTask, LoadedSkill, TaskReport, TodoItem};
use everturn_tools::plan::{PlanEnterTool, PlanExitTool};
use everturn_tools::settlement::SettlementRules;
use everturn_tools::todo::{TodoReadTool, TodoWriteTool};
use everturn_tools::{BoxFuture, Context, Failure, Host, Output, Tool, question, settle, task};
use serde_json::{Value, json};

use crate::harness::Project;

/// A session that answers as the test says and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) id: String,
    pub(crate) todos: Mutex<Vec<TodoItem>>,
    pub(crate) answers: Mutex<Option<Vec<Vec<String>>>>,
    pub(crate) asked: Mutex<Vec<AskedQuestion>>,
    pub(crate) tasks: Mutex<Vec<DelegatedTask>>,
    pub(crate) report: Mutex<Option<TaskReport>>,
    pub(crate) plan: PathBuf,
    pub(crate) handed: Mutex<Vec<(String, String)>>,
}

impl Host for Script {
    fn todos(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, Failure>> {
        Box::pin(async { Ok(self.todos.lock().unwrap().clone()) })
    }

    fn set_todos(&self, todos: Vec<TodoItem>) -> BoxFuture<'_, Result<(), Failure>> {
        *self.todos.lock().unwrap() = todos;
        Box::pin(async { Ok(()) })
    }

    fn ask(&self, questions: Vec<AskedQuestion>) -> BoxFuture<'_, Result<Vec<Vec<String>>, Failure>> {
        self.asked.lock().unwrap().extend(questions);
        let answer = self.answers.lock().unwrap().take();
        Box::pin(async { answer.ok_or_else(|| Failure::Declined("no".to_owned())) })
    }

    fn delegate<'a>(
        &'a self,
        task: DelegatedTask,
        started: &'a (dyn Fn(&Delegate) + Send + Sync),
    ) -> BoxFuture<'a, Result<TaskReport, Failure>> {
        self.tasks.lock().unwrap().push(task);
        let report = self.report.lock().unwrap().clone();
        if let Some(report) = &report {
            started(&report.delegate);
        }
        Box::pin(async { report.ok_or(Failure::Cancelled) })
    }

    fn delegates(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn session(&self) -> String {
        self.id.clone()
    }

    fn plan_file(&self) -> PathBuf {
        self.plan.clone()
    }

    fn hand_over(&self, agent: &str, note: &str) -> BoxFuture<'_, Result<(), Failure>> {
        self.handed.lock().unwrap().push((agent.to_owned(), note.to_owned()));
        Box::pin(async { Ok(()) })
    }

    fn skill(&self, _: &str) -> BoxFuture<'_, Result<LoadedSkill, Failure>> {
        Box::pin(async { Err(Failure::Cancelled) })
    }
}

/// Runs a call as the engine does.
pub(crate) async fn run(host: &Arc<Script>, tool: &dyn Tool, input: Value) -> Result<Output, Failure> {
    let project = Project::new();
    let granted = tool.needs(&input, &project.scope)?.into();
    let context = Context { granted, host: Arc::clone(host) as Arc<dyn Host>, ..project.context().0 };
    settle(tool, input, context, SettlementRules::default()).await
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
    let output = run(&host, &TodoWriteTool, input).await.unwrap();
    let text = "[\n  {\n    \"content\": \"one\",\n    \"status\": \"completed\",\n    \"priority\": \"medium\"\n  },\n  \
                {\n    \"content\": \"two\",\n    \"status\": \"in_progress\",\n    \"priority\": \"medium\"\n  }\n]";
    let todos = json!([todo("one", "completed", "medium"), todo("two", "in_progress", "medium")]);
    assert_eq!((output.title.as_str(), output.output.as_str()), ("1 todos", text));
    assert_eq!(Value::Object(output.metadata), json!({ "todos": todos, "truncated": false }));
    let read = run(&host, &TodoReadTool, json!({})).await.unwrap();
    assert_eq!((read.title.as_str(), read.output.as_str()), ("1 todos", text));
    run(&host, &TodoWriteTool, json!({ "todos": [] })).await.unwrap();
    assert_eq!(run(&host, &TodoReadTool, json!({})).await.unwrap().output, "[]");
}

#[tokio::test]
async fn words_of_the_list_are_checked() {
    let check = async |item: Value| {
        refused(&TodoWriteTool, json!({ "todos": [todo("a", "pending", "low"), item] })).await
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
    assert!(refused(&TodoWriteTool, json!({ "todos": "x" })).await.contains("It takes todos (array)."));
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
    let output = run(&host, &question::QuestionTool, input.clone()).await.unwrap();
    assert_eq!(output.output, "The person answered:\n\"One?\"=\"x, y\"\n\"Two?\"=\"(no answer)\"");
    assert_eq!(output.title, "Asked 2 questions");
    assert_eq!(Value::Object(output.metadata), json!({ "answers": [["x", "y"], []], "truncated": false }));
    assert_eq!(json!(*host.asked.lock().unwrap()), input["questions"]);
    let declined = run(&host, &question::QuestionTool, input).await;
    assert_eq!(declined, Err(Failure::Declined("no".to_owned())));
}

#[tokio::test]
async fn questions_that_nobody_can_answer_are_refused() {
    let check =
        async |questions: Value| refused(&question::QuestionTool, json!({ "questions": questions })).await;
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
async fn a_task_is_shown_as_recorded() {
    let host = Arc::new(Script::default());
    let delegate = Delegate {
        session: "ses_2".to_owned(),
        parent: "ses_1".to_owned(),
        model: Some(("fake".to_owned(), "fake-1".to_owned())),
    };
    let report = TaskReport { delegate, failed: false, text: "found it".to_owned() };
    *host.report.lock().unwrap() = Some(report.clone());
    let tool = task::TaskTool::new(&[("general".to_owned(), "does things".to_owned())]);
    assert!(tool.description().ends_with("\n- general: does things"), "{}", tool.description());
    let input = json!({
        "description": "sub work", "prompt": "look", "subagent_type": "general", "task_id": "ses_2",
    });
    let project = Project::new();
    let needs = tool.needs(&input, &project.scope).unwrap();
    assert_eq!(
        (needs[0].permission.as_str(), needs[0].patterns.as_slice()),
        ("task", &["general".to_owned()][..])
    );
    let (context, mut reports) = project.context();
    let context = Context { host: Arc::clone(&host) as Arc<dyn Host>, ..context };
    let output = settle(&tool, input.clone(), context, SettlementRules::default()).await.unwrap();
    let text = "<task id=\"ses_2\" state=\"completed\">\n<task_result>\nfound it\n</task_result>\n</task>";
    assert_eq!((output.title.as_str(), output.output.as_str()), ("sub work", text));
    let mut metadata = json!({
        "parentSessionId": "ses_1", "sessionId": "ses_2", "model": { "modelID": "fake-1", "providerID": "fake" },
    });
    assert_eq!(Value::Object(reports.try_recv().unwrap().metadata), metadata, "it is told while it runs");
    metadata["truncated"] = json!(false);
    assert_eq!(Value::Object(output.metadata), metadata);
    let given = DelegatedTask {
        description: "sub work".to_owned(),
        prompt: "look".to_owned(),
        agent: "general".to_owned(),
        resume: Some("ses_2".to_owned()),
    };
    assert_eq!(*host.tasks.lock().unwrap(), [given]);
    *host.report.lock().unwrap() = Some(TaskReport { failed: true, text: "broke".to_owned(), ..report });
    let failure = run(&host, &tool, input).await.unwrap_err();
    let text = "<task id=\"ses_2\" state=\"error\">\n<task_error>\nbroke\n</task_error>\n</task>";
    assert_eq!(failure, Failure::Failed(text.to_owned()));
    let empty = json!({ "description": "x", "prompt": " ", "subagent_type": "general" });
    assert_eq!(refused(&tool, empty).await, "The prompt is empty.");
}

/// What a plan tool gives for an answer, and to whom the session was handed.
async fn planned(tool: &dyn Tool, plan: PathBuf, answer: &[&str]) -> (Output, Vec<(String, String)>) {
    let host = Arc::new(Script { plan, ..Script::default() });
    let answer = answer.iter().map(|&text| text.to_owned()).collect();
    *host.answers.lock().unwrap() = Some(vec![answer]);
    let output = run(&host, tool, json!({})).await.unwrap();
    let handed = host.handed.lock().unwrap().clone();
    (output, handed)
}

#[tokio::test]
async fn a_yes_hands_over_and_anything_else_does_not() {
    let project = Project::new();
    let plan = project.path("plan.md");
    let (output, handed) = planned(&PlanExitTool, plan.clone(), &["Yes"]).await;
    assert_eq!(output.title, "Switching to build agent");
    assert_eq!(Value::Object(output.metadata), json!({ "truncated": false }));
    assert_eq!(handed[0].0, "build");
    assert!(handed[0].1.contains("the plan above"), "{handed:?}");
    project.file("plan.md", "1. do it");
    let (_, handed) = planned(&PlanExitTool, plan.clone(), &["Yes"]).await;
    assert!(handed[0].1.contains(&format!("the plan in {}", plan.display())), "{handed:?}");
    let (output, handed) = planned(&PlanEnterTool, plan.clone(), &["Yes"]).await;
    assert_eq!((output.title.as_str(), handed[0].0.as_str()), ("Switching to plan agent", "plan"));
    assert!(handed[0].1.contains(&plan.display().to_string()), "{handed:?}");
    for answer in [&["No"][..], &[], &["Yes", "No"], &["yes, but smaller"]] {
        for tool in [&PlanExitTool as &dyn Tool, &PlanEnterTool] {
            let (output, handed) = planned(tool, plan.clone(), answer).await;
            assert!(output.title.starts_with("Staying with "), "{output:?}");
            assert_eq!(handed, []);
        }
    }
    let (output, _) = planned(&PlanExitTool, plan.clone(), &["use fewer steps"]).await;
    assert!(output.output.contains("and says: use fewer steps."), "{}", output.output);
    let host = Arc::new(Script { plan, ..Script::default() });
    assert_eq!(run(&host, &PlanExitTool, json!({})).await, Err(Failure::Declined("no".to_owned())));
}

#[tokio::test]
async fn without_a_session_the_tools_say_so() {
    let project = Project::new();
    let failure = project.run(&TodoReadTool, json!({})).await.unwrap_err();
    assert_eq!(failure.to_string(), "This tool works only in a session.");
}
