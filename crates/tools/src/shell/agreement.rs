//! Whether the tree and the shell's own rules read a line alike.
//!
//! Each word and operator of the tree has a role: a program's name, an argument, a keyword. The lexer knows no
//! roles but knows exactly where a word ends, and where the next word would start a command. The line counts as
//! understood only if both name the same words, and if every word that would start a command is a name.

use std::ops::Range;

use tree_sitter::Node;

use super::lexer::{LexemeKind, SubstitutionEnds, Unsure, lexemes};
use super::syntax::{children, start, text};

/// What the tree takes a word or an operator for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordRole {
    /// The first word of a command.
    Name,
    /// A later word of a command.
    Argument,
    /// A variable set in front of a command, or alone.
    Assignment,
    /// A word of the shell's own, such as `if`.
    Keyword,
    /// A word after `case`, `for`, `function`, or in a pattern.
    Pattern,
    /// Where a redirection goes, or a here-document's end.
    Target,
    /// The number in front of a redirection.
    Descriptor,
    /// The end of a here-document.
    Delimiter,
    /// An operator between commands or words.
    Operator,
    /// An operator inside `[[ ]]`, where none of them starts a command.
    Comparison,
}

#[derive(Debug)]
struct TreeToken {
    role: WordRole,
    range: Range<usize>,
}

/// Nodes that are one word to the shell.
const WORDS: [&str; 16] = [
    "word",
    "string",
    "raw_string",
    "ansi_c_string",
    "number",
    "concatenation",
    "expansion",
    "simple_expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
    "brace_expression",
    "extglob_pattern",
    "regex",
    "test_operator",
    "variable_name",
];

/// The shell's own words.
pub(super) const KEYWORDS: [&str; 22] = [
    "if", "then", "elif", "else", "fi", "for", "select", "in", "do", "done", "while", "until", "case",
    "esac", "function", "!", "{", "}", "[[", "]]", "coproc", "time",
];

/// Keywords behind which a command begins.
const OPENERS: [&str; 9] = ["if", "then", "elif", "else", "do", "while", "until", "!", "{"];

/// The operators inside `[[ ]]`.
const COMPARISONS: [&str; 6] = ["&&", "||", "(", ")", "<", ">"];

/// Checks a whole line: the text between substitutions, and each substitution as a line of its own.
pub(super) fn check(root: Node<'_>, line: &str, ends: &SubstitutionEnds) -> Result<(), Unsure> {
    let mut regions = vec![TreeRegion { node: root, range: 0..line.len() }];
    while let Some(region) = regions.pop() {
        let mut gathering = TokenCollector { line, tokens: Vec::new(), nested: Vec::new() };
        gathering.inside(region.node)?;
        compare(line, &region, &gathering.tokens, ends)?;
        for node in gathering.nested {
            regions.push(TreeRegion::of(node, line)?);
        }
    }
    Ok(())
}

/// A part of the line that is read like a line of its own.
#[derive(Debug)]
struct TreeRegion<'a> {
    node: Node<'a>,
    range: Range<usize>,
}

impl<'a> TreeRegion<'a> {
    fn of(node: Node<'a>, line: &str) -> Result<Self, Unsure> {
        let (start, end) = (start(node, line), node.end_byte());
        let text = line.get(start..end).ok_or(Unsure)?;
        if let Some(inner) = text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
            // The shell unescapes the text between back quotes before it reads it.
            return if inner.contains(['`', '\\', '\'', '"', '#', '\n']) {
                Err(Unsure)
            } else {
                Ok(Self { node, range: start + 1..end - 1 })
            };
        }
        // `$((` is tried as arithmetic first.
        let opened = ["$(", "<(", ">("].iter().any(|open| text.starts_with(open));
        if opened && text.ends_with(')') && !text.starts_with("$((") {
            Ok(Self { node, range: start + 2..end - 1 })
        } else {
            Err(Unsure)
        }
    }
}

struct TokenCollector<'a, 'l> {
    line: &'l str,
    tokens: Vec<TreeToken>,
    /// Substitutions inside words.
    nested: Vec<Node<'a>>,
}

impl<'a> TokenCollector<'a, '_> {
    /// The tokens inside a program or a substitution.
    fn inside(&mut self, node: Node<'a>) -> Result<(), Unsure> {
        let children = children(node);
        let substitution = node.kind().ends_with("_substitution");
        let last = children.len().saturating_sub(1);
        for (at, (_, child)) in children.into_iter().enumerate() {
            if !(substitution && (at == 0 || at == last)) {
                self.statement(child)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, node: Node<'a>, role: WordRole) {
        // A here-document that expands may begin with blanks, which the grammar counts as part of what follows.
        self.tokens.push(TreeToken { role, range: start(node, self.line)..node.end_byte() });
    }

    /// A node that the shell sees as one word.
    fn word(&mut self, node: Node<'a>, role: WordRole) {
        self.push(node, role);
        self.substitutions(node);
    }

    /// Remembers the outermost substitutions in a node.
    fn substitutions(&mut self, node: Node<'a>) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if node.kind().ends_with("_substitution") {
                self.nested.push(node);
            } else {
                open.extend(children(node).into_iter().map(|(_, child)| child));
            }
        }
    }

    fn statement(&mut self, node: Node<'a>) -> Result<(), Unsure> {
        match node.kind() {
            "comment" | "\n" => {}
            "command_name" => self.word(node, WordRole::Name),
            "variable_assignment" => self.word(node, WordRole::Assignment),
            "command" => {
                for (field, child) in children(node) {
                    match child.kind() {
                        "command_name" | "variable_assignment" | "file_redirect" | "herestring_redirect" => {
                            self.statement(child)?;
                        }
                        _ if field == Some("argument") => self.word(child, WordRole::Argument),
                        _ => return Err(Unsure),
                    }
                }
            }
            "declaration_command" | "unset_command" => {
                for (at, (_, child)) in children(node).into_iter().enumerate() {
                    self.word(child, if at == 0 { WordRole::Name } else { WordRole::Argument });
                }
            }
            "test_command" => self.test(node)?,
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.redirection(node)?,
            "case_statement" | "for_statement" | "function_definition" | "case_item" => {
                for (field, child) in children(node) {
                    match field {
                        Some("value" | "variable" | "name") => self.word(child, WordRole::Pattern),
                        _ => self.statement(child)?,
                    }
                }
            }
            kind if WORDS.contains(&kind) => return Err(Unsure),
            kind if node.child_count() == 0 => {
                let keyword = KEYWORDS.contains(&kind);
                self.push(node, if keyword { WordRole::Keyword } else { WordRole::Operator });
            }
            _ => {
                for (_, child) in children(node) {
                    self.statement(child)?;
                }
            }
        }
        Ok(())
    }

    fn redirection(&mut self, node: Node<'a>) -> Result<(), Unsure> {
        let mut targets = 0;
        for (field, child) in children(node) {
            match (field, child.kind()) {
                (_, "\n") => {}
                (Some("descriptor"), _) => self.push(child, WordRole::Descriptor),
                (_, "heredoc_body") => self.substitutions(child),
                (_, "heredoc_end") => self.push(child, WordRole::Delimiter),
                (_, "heredoc_start") => self.push(child, WordRole::Target),
                // The grammar takes what stands behind a target for further targets; to the shell it is an
                // argument of the command.
                (Some("argument"), _) => return Err(Unsure),
                (Some("destination"), _) => {
                    targets += 1;
                    self.word(child, WordRole::Target);
                }
                (_, kind) if WORDS.contains(&kind) => self.word(child, WordRole::Target),
                _ => self.statement(child)?,
            }
        }
        if targets > 1 { Err(Unsure) } else { Ok(()) }
    }

    fn test(&mut self, node: Node<'a>) -> Result<(), Unsure> {
        let double = text(node, self.line).starts_with("[[");
        let mut open: Vec<Node<'a>> = children(node).into_iter().rev().map(|(_, child)| child).collect();
        let mut first = true;
        while let Some(node) = open.pop() {
            let kind = node.kind();
            if first {
                self.push(node, WordRole::Name);
                first = false;
            } else if WORDS.contains(&kind) {
                self.word(node, WordRole::Argument);
            } else if COMPARISONS.contains(&kind) {
                // Inside `[ ]` the shell takes them for what they are elsewhere.
                if !double {
                    return Err(Unsure);
                }
                self.push(node, WordRole::Comparison);
            } else if node.child_count() == 0 {
                self.push(node, WordRole::Argument);
            } else if matches!(kind, "unary_expression" | "binary_expression" | "parenthesized_expression") {
                open.extend(children(node).into_iter().rev().map(|(_, child)| child));
            } else {
                return Err(Unsure);
            }
        }
        Ok(())
    }
}

/// Compares the tokens of the tree with those of the lexer, and follows where commands begin.
fn compare(
    line: &str,
    region: &TreeRegion<'_>,
    tokens: &[TreeToken],
    ends: &SubstitutionEnds,
) -> Result<(), Unsure> {
    let mut tokens = tokens.iter();
    let mut begins = true;
    let mut testing = false;
    for lexeme in lexemes(line, region.range.clone(), ends)? {
        if lexeme.kind == LexemeKind::Newline {
            begins |= !testing;
            continue;
        }
        let token = tokens.next().filter(|token| token.range == lexeme.range).ok_or(Unsure)?;
        let text = line.get(lexeme.range.clone()).ok_or(Unsure)?;
        let fits = match (lexeme.kind, token.role) {
            (LexemeKind::Word, WordRole::Name) => begins,
            (LexemeKind::Word, WordRole::Assignment) => begins,
            (LexemeKind::Word, WordRole::Argument) => !begins,
            (LexemeKind::Word, WordRole::Keyword) => begins || text == "in",
            (LexemeKind::Word, WordRole::Pattern | WordRole::Target)
            | (LexemeKind::Descriptor, WordRole::Descriptor)
            | (LexemeKind::Delimiter, WordRole::Delimiter)
            | (LexemeKind::Operator, WordRole::Operator) => true,
            (LexemeKind::Operator, WordRole::Comparison) => testing,
            _ => false,
        };
        if !fits {
            return Err(Unsure);
        }
        match token.role {
            WordRole::Name => {
                begins = false;
                testing = text == "[[";
            }
            WordRole::Argument => testing &= text != "]]",
            WordRole::Keyword => begins = OPENERS.contains(&text),
            WordRole::Pattern => begins = false,
            WordRole::Operator => begins |= !text.contains(['<', '>']),
            WordRole::Assignment
            | WordRole::Target
            | WordRole::Descriptor
            | WordRole::Delimiter
            | WordRole::Comparison => {}
        }
    }
    if tokens.next().is_none() { Ok(()) } else { Err(Unsure) }
}
