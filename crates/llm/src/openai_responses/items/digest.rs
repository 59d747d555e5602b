//! What was streamed of a text, without the text: its end comes with all of it again, and an answer may be long.

/// The length of a text and a sum over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextDigest {
    length: usize,
    sum: u64,
}

impl Default for TextDigest {
    fn default() -> Self {
        Self { length: 0, sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl TextDigest {
    /// Takes more of the text.
    pub(super) fn add(&mut self, more: &str) {
        self.length = self.length.saturating_add(more.len());
        self.sum = more.bytes().fold(self.sum, |sum, byte| {
            // FNV-1a: the same however the text is cut.
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }

    /// What is missing from a whole text; `None` if it does not begin with what was told.
    pub(super) fn rest_of<'w>(&self, whole: &'w str) -> Option<&'w str> {
        let (digest, rest) = whole.split_at_checked(self.length)?;
        let mut same = Self::default();
        same.add(digest);
        (same == *self).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_text() {
        let check = |digest: &[&str], whole: &str| {
            let mut known = TextDigest::default();
            digest.iter().for_each(|piece| known.add(piece));
            assert_eq!(
                known.rest_of(whole),
                whole.strip_prefix(digest.concat().as_str()),
                "{digest:?} {whole:?}"
            );
        };
        check(&[], "");
        check(&[], "all");
        check(&["gr", "ü", "ße"], "grüße an alle");
        check(&["grüße"], "grüße");
        check(&["grüße"], "grüsse");
        check(&["grüße"], "gr");
        check(&["abc"], "abüd");
    }
}
