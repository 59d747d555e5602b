//! Redirections, and the files that commands write.

use tree_sitter::Node;

use super::super::lexer::Unsure;
use super::super::paths::device;
use super::super::remember;
use super::super::syntax::{children, text};
use super::super::word::CommandWord;
use super::TreeWalk;
use crate::scope::PathAccess;

impl TreeWalk<'_> {
    /// A file that a command writes.
    pub(super) fn written(&mut self, file: &CommandWord) {
        let Some(path) = file.known() else { return };
        let places = self.folders.resolve(path, file.tilde).unwrap_or_default();
        self.reopens |= places.iter().any(|place| place.starts_with("/dev") && !place.ends_with("null"));
        for place in places.into_iter().filter(|place| !device(place, PathAccess::Write)) {
            // What is missing to make a folder a repository.
            self.moved |= place.ends_with("HEAD") || place.ends_with("commondir");
            for name in self.scope.patterns(&place).into_iter().map(|name| format!("> {name}")) {
                self.always.extend(remember::exact(&name));
                self.found.push(name);
            }
        }
        self.external.extend(self.folders.beyond(path, file.tilde, PathAccess::Write));
    }

    /// `> file`, `2>&1`, `< file`.
    pub(super) fn redirection(&mut self, node: Node<'_>) -> Result<(), Unsure> {
        let parts = children(node);
        let operator =
            parts.iter().map(|(_, part)| part.kind()).find(|kind| kind.contains(['<', '>'])).ok_or(Unsure)?;
        let Some((_, target)) = parts.iter().find(|(field, _)| *field == Some("destination")) else {
            return if operator.ends_with('-') { Ok(()) } else { Err(Unsure) };
        };
        let source = text(*target, self.line);
        let word = self.word(*target)?;
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if operator.ends_with('&') && word.known().is_some_and(|text| number(text) || text == "-") {
            self.crossed |= !matches!(word.known(), Some("1" | "2" | "-"));
            return Ok(());
        }
        let writes = operator != "<" && operator != "<&";
        let Some(path) = word.known() else {
            // What is only known later could be a connection, which the shell opens like a file.
            self.found.push(format!("{} {source}", if writes { '>' } else { '<' }));
            return Err(Unsure);
        };
        self.folders.resolve(path, word.tilde).ok_or(Unsure)?;
        if path.contains("/dev/tcp/") || path.contains("/dev/udp/") {
            self.found.push(format!("> {path}"));
            return Err(Unsure);
        }
        if writes {
            self.written(&word);
        } else {
            // `2< f` and then `> /dev/stderr` would write the file.
            let descriptor = parts.iter().find(|(_, part)| part.kind() == "file_descriptor");
            self.crossed |= descriptor.is_some_and(|(_, part)| text(*part, self.line) != "0");
            self.external.extend(self.folders.beyond(path, word.tilde, PathAccess::Read));
        }
        Ok(())
    }
}
