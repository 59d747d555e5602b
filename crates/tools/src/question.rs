//! The `question` tool: asks the person and waits for the answer.
//!
//! What is asked and what is answered belongs to the session, which keeps both: a question that nobody has answered
//! when the process ends waits on under the same id.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::host;
use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::todo::anything;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The most questions that are asked at once: a person has to read them all.
const QUESTIONS_MAX: usize = 8;

/// The tool that asks the person.
#[derive(Debug, Clone, Copy)]
pub struct QuestionTool;

#[derive(Debug, Deserialize, JsonSchema)]
struct QuestionInput {
    /// What to ask, one to eight questions
    questions: Vec<host::AskedQuestion>,
}

impl Tool for QuestionTool {
    fn name(&self) -> &'static str {
        "question"
    }

    fn description(&self) -> &'static str {
        "Asks the person and waits for the answer. Use it when the request can be read in several ways, when a choice \
         is theirs to make, or before something that is hard to take back; not for what the project itself can tell \
         you. Offer short, distinct options, the one that you recommend first. The person may also type an answer \
         of their own, so add no option such as \"Other\"."
    }

    fn schema(&self) -> Value {
        schema::<QuestionInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Repeatable
    }

    fn needs(&self, input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        check(decode(self.name(), input.clone())?)?;
        Ok(vec![anything(self.name())])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let questions = check(decode(self.name(), input)?)?;
            let answers = context.host.ask(questions.clone()).await?;
            Ok(show(&questions, &answers))
        })
    }
}

/// The questions, if a person can answer them.
fn check(input: QuestionInput) -> Result<Vec<host::AskedQuestion>, Failure> {
    let complain = |text: String| Err(Failure::InvalidInput(text));
    let count = input.questions.len();
    if !(1..=QUESTIONS_MAX).contains(&count) {
        return complain(format!("Ask from 1 to {QUESTIONS_MAX} questions at once, not {count}."));
    }
    for (number, question) in (1..).zip(&input.questions) {
        if question.question.trim().is_empty() {
            return complain(format!("Question {number} has no text."));
        }
        if question.options.is_empty() {
            return complain(format!("Question {number} has no options to choose from."));
        }
        let mut labels = HashSet::new();
        if let Some(twice) = question.options.iter().find(|option| !labels.insert(option.label.trim())) {
            return complain(format!("Question {number} has two options with the label '{}'.", twice.label));
        }
    }
    Ok(input.questions)
}

fn show(questions: &[host::AskedQuestion], answers: &[Vec<String>]) -> Output {
    let lines = questions.iter().enumerate().map(|(at, question)| {
        let chosen = answers.get(at).filter(|chosen| !chosen.is_empty());
        let chosen = chosen.map_or_else(|| "(no answer)".to_owned(), |chosen| chosen.join(", "));
        format!("\"{}\"=\"{chosen}\"", question.question)
    });
    let output = format!("The person answered:\n{}", lines.collect::<Vec<_>>().join("\n"));
    let (count, plural) = (questions.len(), if questions.len() == 1 { "" } else { "s" });
    let mut metadata = Map::new();
    metadata.insert("answers".to_owned(), json!(answers));
    metadata.insert("truncated".to_owned(), json!(false));
    Output { title: format!("Asked {count} question{plural}"), output, metadata, ..Output::default() }
}
