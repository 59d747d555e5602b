//! `everturn inspect`: what a session file of pi or omp is, its health and its tree, without importing it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use everturn_interop::pi::{self, PathEnd, PiView, Program};
use everturn_tools::foreign_file::{self, ReadBounds};
use serde_json::{Value, json};

use crate::table;

/// The largest file that is looked into, in bytes.
const LARGEST: u64 = 1 << 30;

/// Look into a session file of pi or omp
#[derive(Debug, Args)]
pub(crate) struct InspectCommand {
    /// The file
    file: PathBuf,
    /// What pi would give the model
    #[arg(long)]
    context: bool,
    /// The tree of entries
    #[arg(long, conflicts_with = "context")]
    tree: bool,
    /// Header, leaf, name and labels
    #[arg(long, conflicts_with_all = ["context", "tree"])]
    meta: bool,
    /// At this entry instead of the end of the file; `root` is before the first entry
    #[arg(long, value_name = "ID")]
    leaf: Option<String>,
    /// As JSON, in pi's own shapes
    #[arg(long)]
    json: bool,
}

impl InspectCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let bytes = foreign_file::read(&self.file, ReadBounds::bytes(LARGEST))
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        let file = pi::read(&bytes).with_context(|| self.file.display().to_string())?;
        let tree = file.tree();
        let program = if file.dialect == pi::Dialect::Omp18 { Program::Omp18 } else { Program::Pi };
        let view = PiView::new(&tree, program);
        // In JSON the answer is pi's own, damage included; people are shown what is really there.
        let view = if self.json || file.is_sound() { view } else { view.mended() };
        let leaf = match self.leaf.as_deref() {
            None => PathEnd::Current,
            Some("root") => PathEnd::Root,
            Some(id) => {
                PathEnd::At(view.find(id).with_context(|| format!("there is no entry {id} in it"))?.clone())
            }
        };
        if self.context {
            self.show_context(&view, &leaf);
        } else if self.tree {
            self.show_tree(&view);
        } else if self.meta {
            show_meta(&view, &leaf);
        } else {
            self.show_file(&file, &view, bytes.len());
        }
        Ok(())
    }

    fn show_context(&self, view: &PiView<'_>, leaf: &PathEnd) {
        let context = view.context(leaf);
        if self.json {
            table::json(&context);
            return;
        }
        let messages = context.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
        table::line(table::counted(messages.len(), "message", "messages"));
        for message in messages {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("?");
            table::line(format!("{role:18} {}", excerpt(&message)));
        }
    }

    fn show_tree(&self, view: &PiView<'_>) {
        let tree = view.tree();
        if self.json {
            table::json(&tree);
            return;
        }
        let mut stack: Vec<(usize, &Value)> =
            tree.as_array().into_iter().flatten().rev().map(|node| (0, node)).collect();
        while let Some((depth, node)) = stack.pop() {
            // Long sessions are listed flat, with the depth beside each entry.
            let id = node.get("id").and_then(Value::as_str).unwrap_or_default();
            let full = view.find(id).and_then(|entry| view.entry(entry));
            let entry = full.as_ref().unwrap_or(node);
            let depth = node
                .get("depth")
                .and_then(Value::as_u64)
                .and_then(|d| usize::try_from(d).ok())
                .unwrap_or(depth);
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let label = node.get("label").and_then(Value::as_str).map(|label| format!("  [{label}]"));
            let role = entry.pointer("/message/role").and_then(Value::as_str).unwrap_or_default();
            let body = excerpt(entry.get("message").unwrap_or(entry));
            let label = label.unwrap_or_default();
            let what = if role.is_empty() { text("type") } else { role };
            table::line(format!("{:depth$}{id} {what:14} {body}{label}", "").trim_end());
            let children: Vec<&Value> =
                node.get("children").and_then(Value::as_array).into_iter().flatten().collect();
            // A linear chat stays at the margin; only branches are indented.
            let deeper = if children.len() > 1 { depth + 2 } else { depth };
            stack.extend(children.into_iter().rev().map(|child| (deeper, child)));
        }
    }

    fn show_file(&self, file: &pi::SessionFile, view: &PiView<'_>, size: usize) {
        let branches = view.entries().filter(|id| view.children(id).is_empty()).count();
        let problems: Vec<Value> = file
            .problems
            .iter()
            .map(|problem| {
                json!({"line": problem.line, "problem": problem.kind.name(), "remedy": problem.kind.remedy(),
                       "damage": problem.kind.is_damage()})
            })
            .collect();
        if self.json {
            table::json(&json!({
                "dialect": file.dialect.name(),
                "version": file.version,
                "bytes": size,
                "entries": view.entries().len(),
                "branches": branches,
                "sound": file.is_sound(),
                "name": view.name(),
                "problems": problems,
            }));
            return;
        }
        table::line(format!("{}, format version {}", file.dialect.name(), file.version));
        if let Some(name) = view.name() {
            table::line(format!("name      {name}"));
        }
        table::line(format!("folder    {}", file.session.directory));
        table::line(format!("created   {}", table::moment(file.session.time.created)));
        table::line(format!("entries   {} on {branches} branches, {size} bytes", view.entries().len()));
        if file.problems.is_empty() {
            table::line("health    sound");
        } else {
            let word = if file.is_sound() { "sound, with remarks" } else { "damaged; nothing was changed" };
            table::line(format!("health    {word}"));
            for problem in &file.problems {
                table::line(format!(
                    "  line {}: {}; {}",
                    problem.line,
                    problem.kind.name(),
                    problem.kind.remedy()
                ));
            }
        }
    }
}

fn show_meta(view: &PiView<'_>, leaf: &PathEnd) {
    let branch = view.branch(leaf);
    let labels: serde_json::Map<String, Value> = view
        .labels()
        .into_iter()
        .filter_map(|(id, (label, _))| Some((view.name_of(id)?.to_owned(), label.into())))
        .collect();
    table::json(&json!({
        "header": view.header(),
        "leaf": branch.last().and_then(|id| view.name_of(id)),
        "name": view.name(),
        "labels": labels,
    }));
}

fn excerpt(message: &Value) -> String {
    let content = message.get("content").or_else(|| message.get("summary"));
    let text = match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .map(|block| {
                let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
                match text("type") {
                    "toolCall" => format!("({})", text("name")),
                    "text" => text("text").to_owned(),
                    other => format!("({other})"),
                }
            })
            .collect::<Vec<_>>()
            .join(" "),
        _ => message.get("command").and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 70 { line.chars().take(67).chain("...".chars()).collect() } else { line }
}
