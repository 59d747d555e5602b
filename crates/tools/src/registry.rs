//! The tools of one host, by name.
//!
//! Order is by name everywhere, so that the tool list sent to a provider has the same bytes on every turn
//! and its prompt cache keeps working.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{bash::Bash, edit::Edit, invalid::Invalid, read::Read, tool::Tool, write::Write};

/// The longest name a tool may have.
const NAME_MAX: usize = 64;

/// Why a tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Providers accept only letters, digits, `_` and `-`, a letter first, at most 64 of them.
    #[error("tool name {0:?} is not a letter followed by at most 63 letters, digits, underscores or hyphens")]
    Name(String),
}

/// What the model is told about one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The name to call.
    pub name: String,
    /// What it does and how to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// The tools by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl Registry {
    /// A registry with no tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The registry of the tools that this crate brings.
    #[must_use]
    pub fn builtin() -> Self {
        let tools: [Arc<dyn Tool>; 5] =
            [Arc::new(Bash::default()), Arc::new(Edit), Arc::new(Invalid), Arc::new(Read), Arc::new(Write)];
        Self { tools: tools.into_iter().map(|tool| (tool.name().to_owned(), tool)).collect() }
    }

    /// Adds a tool and returns the one it replaces, if any: the latest registration of a name wins.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<Option<Arc<dyn Tool>>, Error> {
        let name = tool.name().to_owned();
        if !valid(&name) {
            return Err(Error::Name(name));
        }
        Ok(self.tools.insert(name, tool))
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(Arc::clone)
    }

    /// The names that a model may call, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter(|(_, tool)| tool.advertised()).map(|(name, _)| name.as_str())
    }

    /// What the model is told, sorted by name.
    #[must_use]
    pub fn specs(&self) -> Vec<Spec> {
        self.tools
            .values()
            .filter(|tool| tool.advertised())
            .map(|tool| Spec {
                name: tool.name().to_owned(),
                description: tool.description().to_owned(),
                schema: tool.schema(),
            })
            .collect()
    }

    /// The input of the `invalid` tool for a call to a name that nobody registered.
    #[must_use]
    pub fn unknown(&self, name: &str) -> Value {
        let names: Vec<&str> = self.names().collect();
        json!({
            "tool": name,
            "error": format!("There is no tool named '{name}'. Available tools: {}.", names.join(", ")),
        })
    }

    /// The input of the `invalid` tool for a call whose arguments could not be used.
    #[must_use]
    pub fn malformed(&self, name: &str, error: &str) -> Value {
        json!({ "tool": name, "error": error })
    }
}

/// Whether providers accept the name.
fn valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
