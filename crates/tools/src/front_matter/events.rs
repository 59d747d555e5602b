//! The events of a YAML parser, one after another, and where they are.

use granit_parser::{Event, Marker, Parser, StrInput};

use super::FrontMatterFault;

/// The events of one text.
pub(super) struct YamlEvents<'t>(Parser<'t, StrInput<'t>>);

impl<'t> YamlEvents<'t> {
    /// Those of a text.
    pub(super) fn of(text: &'t str) -> Self {
        Self(Parser::new_from_str(text))
    }

    /// The next one, with its place; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Event<'t>, Marker)>, FrontMatterFault> {
        match self.0.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start))),
            Some(Err(error)) => Err(place(*error.marker(), &error.info())),
        }
    }

    /// The next one, which has to be there.
    pub(super) fn need(&mut self) -> Result<(Event<'t>, Marker), FrontMatterFault> {
        self.next()?.ok_or_else(|| FrontMatterFault { place: None, what: "it ends too early".to_owned() })
    }
}

/// What is wrong, and where.
pub(super) fn place(at: Marker, what: &str) -> FrontMatterFault {
    FrontMatterFault { place: Some((at.line(), at.col() + 1)), what: what.to_owned() }
}
