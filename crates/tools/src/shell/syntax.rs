//! A line's syntax tree, made within bounds.
//!
//! Lines come from a model, so their shape must not cost anything. The parser is stopped after a while, and lines that
//! it takes long over without a chance to stop it are not given to it. Stopping too soon, as on a busy machine, only
//! asks a person once more.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::lexer::SubstitutionEnds;

/// The longest line that is parsed, in bytes. Linux starts no shell with a longer argument anyway.
const LINE_MAX: usize = 128 * 1024;

/// How long the parser may take. A thousand ordinary commands take a tenth of that.
const TIME_MAX: Duration = Duration::from_millis(500);

/// The most `|` in a line: the parser compares long pipelines with one another, and cannot be stopped meanwhile.
const PIPES_MAX: usize = 1000;

/// More syntax than this is not looked at: some thousand commands.
const NODES_MAX: usize = 20_000;

/// Deeper nesting is not looked into.
const DEPTH_MAX: usize = 120;

/// The tree of a line, or nothing if it would take too long.
pub(super) fn tree(line: &str) -> Option<Tree> {
    if line.len() > LINE_MAX || line.bytes().filter(|byte| *byte == b'|').count() > PIPES_MAX {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let start = Instant::now();
    let mut progress = |_: &_| {
        if start.elapsed() > TIME_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = line.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

/// Where the text of a node begins: inside quotes the grammar adds the blanks before it.
pub(super) fn start(node: Node<'_>, line: &str) -> usize {
    let text = text(node, line);
    node.start_byte() + (text.len() - text.trim_start_matches([' ', '\t', '\n']).len())
}

/// The text of a node.
pub(super) fn text<'a>(node: Node<'_>, line: &'a str) -> &'a str {
    line.get(node.byte_range()).unwrap_or_default()
}

/// The children of a node with the names of their fields.
pub(super) fn children<'a>(node: Node<'a>) -> Vec<(Option<&'a str>, Node<'a>)> {
    let mut cursor = node.walk();
    let mut children = Vec::new();
    if cursor.goto_first_child() {
        loop {
            children.push((cursor.field_name(), cursor.node()));
            if !cursor.goto_next_sibling() {
                break;
            }
        }
    }
    children
}

/// Every node in the order of the text, with its parent; nothing if they are too many or too deep.
pub(super) fn all(tree: &Tree) -> Option<Vec<(Node<'_>, Option<Node<'_>>)>> {
    let mut cursor = tree.walk();
    let mut nodes = Vec::new();
    let mut parents: Vec<Node<'_>> = Vec::new();
    loop {
        if nodes.len() >= NODES_MAX {
            return None;
        }
        let node = cursor.node();
        nodes.push((node, parents.last().copied()));
        if cursor.goto_first_child() {
            if parents.len() >= DEPTH_MAX {
                return None;
            }
            parents.push(node);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(nodes);
            }
            parents.pop();
        }
    }
}

/// The `cd` without whose success nothing else of the line runs: the first command of a line that is all `&&`.
pub(super) fn condition<'a>(tree: &'a Tree, line: &str) -> Option<Node<'a>> {
    // The grammar hides what follows the beginning of a here-document in its redirection.
    if line.contains("<<") || line.contains("||") {
        return None;
    }
    let root = tree.root_node();
    let mut node = root.named_child(0).filter(|_| root.named_child_count() == 1)?;
    // The grammar hangs the redirections of the last command on the whole list.
    if node.kind() == "redirected_statement" {
        node = node.named_child(0)?;
    }
    if node.kind() != "list" {
        return None;
    }
    while node.kind() == "list" {
        let joints = children(node).into_iter().filter(|(_, child)| !child.is_named());
        if !joints.map(|(_, child)| text(child, line)).eq(["&&"]) {
            return None;
        }
        node = node.named_child(0)?;
    }
    // Redirections, assignments and substitutions of the command itself are done before it.
    let plain = !text(node, line).contains(['$', '`', '<', '>', '(']);
    let bare = |(field, child): &(Option<&str>, Node<'_>)| match child.kind() {
        "command_name" => text(*child, line) == "cd",
        _ => *field == Some("argument"),
    };
    (node.kind() == "command" && plain && children(node).iter().all(bare)).then_some(node)
}

/// Where the tree's substitutions and expansions end.
pub(super) fn ends<'a>(nodes: impl Iterator<Item = Node<'a>>, line: &str) -> SubstitutionEnds {
    let nested = ["command_substitution", "process_substitution", "expansion", "arithmetic_expansion"];
    nodes
        .filter(|node| nested.contains(&node.kind()))
        .map(|node| (start(node, line), node.end_byte()))
        .collect()
}
