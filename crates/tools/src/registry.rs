//! The tools by name, in layers.
//!
//! A registry is shared: whoever holds a clone sees what others register. A layer over a registry adds and hides
//! names for one place (a project with MCP servers of its own) without changing what lies below. The newest
//! registration of a name wins; when it ends, the one before is there again.
//!
//! A turn works with an [`ToolOffer`]: the tools as they were when the model was told about them. A registration that
//! changes while the model answers therefore changes nothing about its calls.
//!
//! Order is by name everywhere, so that the tool list sent to a provider has the same bytes on every turn
//! and its prompt cache keeps working.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde_json::Value;

use crate::apply_patch::ApplyPatchTool;
use crate::bash::{BashTool, NETWORK, OUTSIDE};
use crate::edit::EditTool;
use crate::glob::GlobTool;
use crate::grep::GrepTool;
use crate::invalid::InvalidTool;
use crate::list::ListTool;
use crate::plan::{PlanEnterTool, PlanExitTool};
use crate::process::Secrets;
use crate::question::QuestionTool;
use crate::read::ReadTool;
use crate::scope::{PROTECTED, SECRET};
use crate::skill::SkillTool;
use crate::task::TaskTool;
use crate::todo::{TodoReadTool, TodoWriteTool};
use crate::tool::Tool;
use crate::webfetch::{LOCAL_NETWORK, WebfetchTool};
use crate::websearch::WebsearchTool;
use crate::write::WriteTool;
use crate::{invalid, websearch};

/// Kinds of permission that are not names of tools; a tool of that name would be allowed by rules that mean something
/// else.
pub const RESERVED: [&str; 9] = [
    "budget",
    "external_directory",
    "doom_loop",
    LOCAL_NETWORK,
    NETWORK,
    OUTSIDE,
    PROTECTED,
    "project_trust",
    SECRET,
];

/// The longest name a tool may have.
const NAME_MAX: usize = 64;

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Providers accept only letters, digits, `_` and `-`, a letter first, at most 64 of them.
    #[error("tool name {0:?} is not a letter followed by at most 63 letters, digits, underscores or hyphens")]
    Name(String),
}

/// How the built-in tools are set up.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// The binary that can be a supervisor, which keeps a command's processes together; see [`crate::process`].
    pub supervisor: Option<PathBuf>,
    /// Environment variables that hold keys and are kept from commands, besides our own.
    pub secrets: Secrets,
    /// The service that `websearch` asks; without one there is no such tool.
    pub websearch: Option<websearch::SearchService>,
}

/// What the model is told about one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The name to call.
    pub name: String,
    /// What it does and how to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Arc<Value>,
}

/// The tools by name; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<ToolLayer>);

#[derive(Debug, Default)]
struct ToolLayer {
    below: Option<Registry>,
    tools: Mutex<NamedTools>,
}

/// Every registration of a name, the newest last.
#[derive(Debug, Default)]
struct NamedTools {
    names: BTreeMap<String, Vec<RegisteredTool>>,
    next: u64,
}

#[derive(Debug)]
struct RegisteredTool {
    id: u64,
    tool: ListedTool,
}

/// A tool, and what the model is told about it once somebody wanted to know: every turn does, and it is always the same.
#[derive(Debug, Clone)]
struct ListedTool {
    tool: Arc<dyn Tool>,
    spec: Arc<OnceLock<Spec>>,
}

impl ListedTool {
    fn new(tool: Arc<dyn Tool>) -> Self {
        Self { tool, spec: Arc::default() }
    }

    fn spec(&self) -> &Spec {
        self.spec.get_or_init(|| Spec {
            name: self.tool.name().to_owned(),
            description: self.tool.description().to_owned(),
            schema: Arc::new(self.tool.schema()),
        })
    }
}

/// A registration; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the tool is unregistered when this is dropped"]
pub struct ToolRegistration {
    layer: Weak<ToolLayer>,
    name: String,
    id: u64,
}

impl ToolRegistration {
    /// The name that is registered.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the registration last as long as its registry.
    pub fn keep(mut self) {
        self.layer = Weak::new();
    }
}

impl Drop for ToolRegistration {
    fn drop(&mut self) {
        let Some(layer) = self.layer.upgrade() else { return };
        let mut tools = layer.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stack) = tools.names.get_mut(&self.name) {
            stack.retain(|registered| registered.id != self.id);
            if stack.is_empty() {
                tools.names.remove(&self.name);
            }
        }
    }
}

impl Registry {
    /// A registry with no tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The registry of the tools that this crate brings.
    #[must_use]
    pub fn builtin(settings: &ToolSettings) -> Self {
        let registry = Self::new();
        let mut tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(ApplyPatchTool),
            Arc::new(BashTool::new(settings)),
            Arc::new(EditTool),
            Arc::new(GlobTool::default()),
            Arc::new(GrepTool::default()),
            Arc::new(InvalidTool),
            Arc::new(ListTool::default()),
            Arc::new(ReadTool),
            Arc::new(WebfetchTool::default()),
            Arc::new(PlanEnterTool),
            Arc::new(PlanExitTool),
            Arc::new(QuestionTool),
            Arc::new(TaskTool::default()),
            Arc::new(TodoReadTool),
            Arc::new(TodoWriteTool),
            Arc::new(SkillTool),
            Arc::new(WriteTool),
        ];
        if let Some(provider) = &settings.websearch {
            tools.push(Arc::new(WebsearchTool::new(provider.clone())));
        }
        for tool in tools {
            let name = tool.name().to_owned();
            registry.put(name, tool).keep();
        }
        registry
    }

    /// A registry over this one: its own tools hide those below of the same name.
    #[must_use]
    pub fn layer(&self) -> Self {
        Self(Arc::new(ToolLayer { below: Some(self.clone()), tools: Mutex::default() }))
    }

    /// Adds a tool for as long as the registration lives: the newest one of a name wins.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<ToolRegistration, RegistryError> {
        let name = tool.name().to_owned();
        if !valid(&name) {
            return Err(RegistryError::Name(name));
        }
        Ok(self.put(name, tool))
    }

    fn put(&self, name: String, tool: Arc<dyn Tool>) -> ToolRegistration {
        let mut tools = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let id = tools.next;
        tools.next += 1;
        tools.names.entry(name.clone()).or_default().push(RegisteredTool { id, tool: ListedTool::new(tool) });
        ToolRegistration { layer: Arc::downgrade(&self.0), name, id }
    }

    /// The tools as they are now.
    #[must_use]
    pub fn offer(&self) -> ToolOffer {
        let mut offer = self.0.below.as_ref().map(Self::offer).unwrap_or_default();
        let tools = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, stack) in &tools.names {
            if let Some(newest) = stack.last() {
                offer.tools.insert(name.clone(), newest.tool.clone());
            }
        }
        offer
    }

    /// The tool that has this name now.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tools = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = tools.names.get(name).and_then(|stack| stack.last());
        let own = newest.map(|newest| Arc::clone(&newest.tool.tool));
        drop(tools);
        own.or_else(|| self.0.below.as_ref()?.get(name))
    }
}

/// The tools of one turn.
#[derive(Debug, Clone, Default)]
pub struct ToolOffer {
    tools: BTreeMap<String, ListedTool>,
}

impl ToolOffer {
    /// Only those tools that `wanted` says yes to. Those that are never advertised stay: nobody chose to call them.
    #[must_use]
    pub fn filter(mut self, wanted: impl Fn(&dyn Tool) -> bool) -> Self {
        self.tools.retain(|_, listed| !listed.tool.advertised() || wanted(listed.tool.as_ref()));
        self
    }

    /// The same with one more tool, in place of any of its name.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.insert(tool.name().to_owned(), ListedTool::new(tool));
        self
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).map(|listed| Arc::clone(&listed.tool))
    }

    /// The names that a model may call, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter(|(_, listed)| listed.tool.advertised()).map(|(name, _)| name.as_str())
    }

    /// What the model is told, sorted by name.
    #[must_use]
    pub fn specs(&self) -> Vec<Spec> {
        let listed = self.tools.values().filter(|listed| listed.tool.advertised());
        listed.map(|listed| listed.spec().clone()).collect()
    }

    /// The input of the `invalid` tool for a call to a name that was not offered.
    #[must_use]
    pub fn unknown(&self, name: &str) -> Value {
        let names: Vec<&str> = self.names().collect();
        let text = match names.as_slice() {
            [] => format!("No tool can be called now, '{name}' neither."),
            names => format!("There is no tool named '{name}'. Available tools: {}.", names.join(", ")),
        };
        invalid::input(name, &text)
    }
}

/// Whether providers accept the name.
fn valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_MAX
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
