//! The `skill` tool: the text of a skill, when the model needs it.
//!
//! The names and what they are for stand in the context; the texts do not, because most of them are never needed and
//! because reading one is for the person's rules to permit.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::input::{decode, schema};
use crate::scope::Scope;
use crate::tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool};

/// The tool that loads skills.
#[derive(Debug, Clone, Copy)]
pub struct SkillTool;

#[derive(Debug, Deserialize, JsonSchema)]
struct SkillInput {
    /// The name of the skill, as the list of available skills has it
    name: String,
}

impl Tool for SkillTool {
    fn name(&self) -> &'static str {
        "skill"
    }

    fn description(&self) -> &'static str {
        "Loads a skill: a guide that the person or the project keeps for a particular kind of work. When the work at \
         hand is what an available skill is for, load it before you begin and follow it. Files that it speaks of \
         are in its own folder; read those that you need."
    }

    fn schema(&self) -> Value {
        schema::<SkillInput>()
    }

    fn effect(&self) -> Effect {
        Effect::Pure
    }

    fn needs(&self, input: &Value, _scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input: SkillInput = decode(self.name(), input.clone())?;
        Ok(vec![Need {
            permission: "skill".to_owned(),
            patterns: vec![input.name.clone()],
            always: vec![input.name],
            metadata: Map::new(),
        }])
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move {
            let input: SkillInput = decode(self.name(), input)?;
            let skill = context.host.skill(&input.name).await?;
            let folder = skill.location.parent().unwrap_or(&skill.location).display().to_string();
            let name = &skill.name;
            let mut output = format!(
                "<skill name=\"{name}\">\n{}\n</skill>\n\nThe folder of this skill is {folder}. Paths in it that are \
                 not absolute begin there.",
                skill.content
            );
            if !skill.files.is_empty() {
                output.push_str("\nSome of its files:");
                for file in &skill.files {
                    output.push_str(&format!("\n- {}", file.display()));
                }
            }
            let metadata = json!({"name": name, "dir": folder, "truncated": false});
            Ok(Output {
                title: format!("Loaded skill: {name}"),
                output,
                metadata: metadata.as_object().cloned().unwrap_or_default(),
                ..Output::default()
            })
        })
    }
}
