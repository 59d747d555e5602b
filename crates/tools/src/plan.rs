//! `plan_enter` and `plan_exit`: switching between planning a change and making it.
//!
//! The person decides, by a question. With a yes another agent goes on from the next turn; the plan itself is in a file
//! of the session, so that it outlives the conversation that made it.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::host::{AskedQuestion, QuestionChoice};
use crate::input::{NoArguments, schema};
use crate::scope::Scope;
use crate::todo::anything;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The answer that lets the other agent go on.
const YES: &str = "Yes";

/// The tool that asks whether to make a plan first.
#[derive(Debug, Clone, Copy)]
pub struct PlanEnterTool;

/// The tool that asks whether to carry out the plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanExitTool;

impl Tool for PlanEnterTool {
    fn name(&self) -> &'static str {
        "plan_enter"
    }

    fn description(&self) -> &'static str {
        "Asks the person whether to make a plan before anything is changed. Use it when the work is large, touches many \
         places, or can be done in ways that the person should choose between. With a yes, the plan agent goes on: it \
         studies the project and writes a plan, and changes nothing else."
    }

    fn schema(&self) -> Value {
        schema::<NoArguments>()
    }

    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, _input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(vec![anything(self.name())])
    }

    fn run(&self, _input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let file = context.host.plan_file();
            let question = ask(
                "Make a plan first, before anything is changed?".to_owned(),
                "Plan",
                "The plan agent studies the project and writes a plan",
                "Go on without a plan",
            );
            let note = format!(
                "Make a plan for what was asked above. Write it to {}, and call `plan_exit` when it is ready.",
                file.display()
            );
            match choose(&context, question).await? {
                PlanDecision::Yes => hand_over(&context, "plan", &note).await,
                PlanDecision::No(words) => {
                    Ok(stay("build", &format!("The person wants no plan first{words} Go on.")))
                }
            }
        })
    }
}

impl Tool for PlanExitTool {
    fn name(&self) -> &'static str {
        "plan_exit"
    }

    fn description(&self) -> &'static str {
        "Asks the person whether to carry out the plan. Use it once the plan is complete in its file and nothing in it \
         is open any more. With a yes, the build agent goes on and carries it out."
    }

    fn schema(&self) -> Value {
        schema::<NoArguments>()
    }

    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, _input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        Ok(vec![anything(self.name())])
    }

    fn run(&self, _input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let file = context.host.plan_file();
            let question = ask(
                format!("The plan is ready ({}). Carry it out now?", context.scope.relative(&file)),
                "Build",
                "The build agent carries out the plan",
                "Keep planning",
            );
            match choose(&context, question).await? {
                PlanDecision::Yes => hand_over(&context, "build", &carry_out(&file)).await,
                PlanDecision::No(words) => {
                    let text = format!(
                        "The person does not want the plan carried out yet{words} Stay with the plan: ask what is \
                         missing, or improve it."
                    );
                    Ok(stay("plan", &text))
                }
            }
        })
    }
}

/// What the build agent is told.
fn carry_out(file: &Path) -> String {
    let whereabouts = if file.is_file() {
        format!("in {}", file.display())
    } else {
        // A model may have written the plan into the conversation instead.
        "above".to_owned()
    };
    format!(
        "The person has agreed to the plan {whereabouts}. Files may be changed from now on. Carry out the plan."
    )
}

fn ask(question: String, header: &str, yes: &str, no: &str) -> AskedQuestion {
    let choice = |label: &str, description: &str| QuestionChoice {
        label: label.to_owned(),
        description: description.to_owned(),
    };
    let options = vec![choice(YES, yes), choice("No", no)];
    AskedQuestion { question, header: header.to_owned(), options, multiple: None, custom: None }
}

enum PlanDecision {
    Yes,
    /// With what the person said besides, as the end of a sentence.
    No(String),
}

async fn choose(context: &Context, question: AskedQuestion) -> Result<PlanDecision, Failure> {
    let answers = context.host.ask(vec![question]).await?;
    let words: Vec<String> = answers.into_iter().flatten().collect();
    Ok(match words.as_slice() {
        [only] if only == YES => PlanDecision::Yes,
        [only] if only == "No" => PlanDecision::No(".".to_owned()),
        [] => PlanDecision::No(".".to_owned()),
        // Only a plain yes counts as a yes.
        words => PlanDecision::No(format!(", and says: {}.", words.join(", "))),
    })
}

async fn hand_over(context: &Context, agent: &str, note: &str) -> Result<Output, Failure> {
    context.host.hand_over(agent, note).await?;
    Ok(output(
        format!("Switching to {agent} agent"),
        format!("The person said yes. The {agent} agent goes on from here; do nothing more."),
    ))
}

fn stay(agent: &str, text: &str) -> Output {
    output(format!("Staying with {agent} agent"), text.to_owned())
}

fn output(title: String, output: String) -> Output {
    let mut metadata = Map::new();
    metadata.insert("truncated".to_owned(), json!(false));
    Output { title, output, metadata, ..Output::default() }
}
