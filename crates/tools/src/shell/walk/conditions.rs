//! Tests between brackets: `[ … ]` and `[[ … ]]`.

use tree_sitter::Node;

use super::super::builtins;
use super::super::lexer::Unsure;
use super::super::syntax::{children, text};
use super::super::word::CommandWord;
use super::TreeWalk;

impl TreeWalk<'_> {
    /// A test runs nothing, unless it is made to evaluate a word.
    pub(super) fn test(&mut self, node: Node<'_>) -> Result<(), Unsure> {
        let double = text(node, self.line).starts_with("[[");
        if !double {
            let mut words = Vec::new();
            self.operands(node, &mut words)?;
            return if builtins::test(&words) { Err(Unsure) } else { Ok(()) };
        }
        let mut open = vec![node];
        let mut words = Vec::new();
        let mut operands = Vec::new();
        let mut evaluates = false;
        let mut strays = false;
        while let Some(node) = open.pop() {
            match node.kind() {
                "test_operator" => {
                    words.push(CommandWord::literal(text(node, self.line)));
                    evaluates |= compares(text(node, self.line));
                    strays = true;
                }
                "binary_expression" => {
                    let parts: Vec<Node<'_>> = children(node).into_iter().map(|(_, child)| child).collect();
                    match parts.as_slice() {
                        [left, operator, right] if compares(text(*operator, self.line)) => {
                            evaluates = true;
                            open.extend([*left, *right]);
                        }
                        _ => open.extend(parts),
                    }
                }
                "test_command" | "unary_expression" | "parenthesized_expression" => {
                    open.extend(children(node).into_iter().map(|(_, child)| child));
                }
                _ if !node.is_named() => {}
                "extglob_pattern" | "regex" => strays = true,
                _ => operands.push(self.word(node)?),
            }
        }
        let number = |word: &CommandWord| {
            word.known().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let status = |word: &CommandWord| matches!(word.text.as_str(), "$?" | "$#" | "\"$?\"" | "\"$#\"");
        let plain = operands.iter().all(|word| number(word) || status(word));
        words.extend(operands);
        // `[[ ]]` evaluates the sides of a comparison of numbers as arithmetic, commands in it included.
        // A word with a dash is an operator only where one belongs: as a side, `-x` is the value of a variable.
        if evaluates && (strays || !plain) {
            return Err(Unsure);
        }
        if words.iter().any(builtins::names) { Err(Unsure) } else { Ok(()) }
    }

    /// The words between `[` and `]`, in their order.
    fn operands(&self, node: Node<'_>, words: &mut Vec<CommandWord>) -> Result<(), Unsure> {
        for (_, child) in children(node) {
            match child.kind() {
                "test_operator" => words.push(CommandWord::literal(text(child, self.line))),
                "unary_expression" | "binary_expression" | "parenthesized_expression" => {
                    self.operands(child, words)?;
                }
                "[" | "]" if !child.is_named() => {}
                _ if !child.is_named() => words.push(CommandWord::literal(text(child, self.line).trim())),
                _ => words.push(self.word(child)?),
            }
        }
        Ok(())
    }
}

/// Whether an operator of `[[ ]]` compares numbers.
fn compares(operator: &str) -> bool {
    matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
}
