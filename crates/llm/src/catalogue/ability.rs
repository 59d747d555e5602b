//! What a model can do: its limits, its abilities and whether it is still offered.

use std::fmt;
use std::str::FromStr;

/// Limits in tokens. Zero means that nobody said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenLimits {
    /// The size of the window.
    pub context: u64,
    /// The most it takes in, where that is less than the window leaves.
    pub input: Option<u64>,
    /// The most it writes in one answer.
    pub output: u64,
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It can think before it answers.
    pub reasoning: bool,
    /// It takes attachments.
    pub attachment: bool,
    /// It calls tools.
    pub tool_call: bool,
    /// Its temperature can be set.
    pub temperature: bool,
    /// What it takes in.
    pub input: Modalities,
    /// What it puts out. The table does not say, so this is text unless the configuration says otherwise.
    pub output: Modalities,
}

impl Default for Abilities {
    /// What is supposed of a model that nobody described: it talks and calls tools.
    fn default() -> Self {
        Self {
            reasoning: false,
            attachment: false,
            tool_call: true,
            temperature: false,
            input: Modalities::TEXT,
            output: Modalities::TEXT,
        }
    }
}

/// A kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modality {
    /// Text.
    Text,
    /// Sound.
    Audio,
    /// Pictures.
    Image,
    /// Films.
    Video,
    /// PDF documents.
    Pdf,
}

impl Modality {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 5] = [Self::Text, Self::Audio, Self::Image, Self::Video, Self::Pdf];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Audio => "audio",
            Self::Image => "image",
            Self::Video => "video",
            Self::Pdf => "pdf",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of kinds of content.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Modalities(u8);

impl Modalities {
    /// Text and nothing else.
    pub const TEXT: Self = Self(Modality::Text.bit());

    /// Whether `modality` is among them.
    #[must_use]
    pub const fn contains(self, modality: Modality) -> bool {
        self.0 & modality.bit() != 0
    }

    /// Its members, in the order in which they are written.
    pub fn iter(self) -> impl Iterator<Item = Modality> {
        Modality::ALL.into_iter().filter(move |modality| self.contains(*modality))
    }

    /// The set of these words, or the first word that is none.
    ///
    /// # Errors
    ///
    /// The word that is not a modality.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        let mut set = Self::default();
        for word in words {
            let known = Modality::ALL.into_iter().find(|modality| modality.as_str() == word).ok_or(word)?;
            set.0 |= known.bit();
        }
        Ok(set)
    }
}

impl FromIterator<Modality> for Modalities {
    fn from_iter<I: IntoIterator<Item = Modality>>(modalities: I) -> Self {
        Self(modalities.into_iter().fold(0, |bits, modality| bits | modality.bit()))
    }
}

impl fmt::Display for Modalities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Modality::as_str).collect();
        f.write_str(&words.join(","))
    }
}

impl fmt::Debug for Modalities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modalities({self})")
    }
}

/// Whether a model is offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelStatus {
    /// It is.
    #[default]
    Active,
    /// Soon, for those who dare.
    Beta,
    /// Some day, for those who dare more.
    Alpha,
    /// Not for long any more.
    Deprecated,
}

impl ModelStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Beta, Self::Alpha, Self::Deprecated];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Beta => "beta",
            Self::Alpha => "alpha",
            Self::Deprecated => "deprecated",
        }
    }
}

/// Why a word is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no status: write active, beta, alpha or deprecated")]
pub struct ModelStatusError(String);

impl FromStr for ModelStatus {
    type Err = ModelStatusError;

    fn from_str(word: &str) -> Result<Self, ModelStatusError> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == word);
        known.ok_or_else(|| ModelStatusError(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modalities_are_a_set_in_one_order() {
        let set = Modalities::from_words(["pdf", "text", "pdf"]).unwrap();
        assert_eq!(set, [Modality::Text, Modality::Pdf].into_iter().collect());
        assert_eq!(format!("{set} {set:?}"), "text,pdf Modalities(text,pdf)");
        assert_eq!(Modalities::from_words(["text", "smell"]), Err("smell"));
    }

    #[test]
    fn statuses_are_read_as_written() {
        for status in ModelStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert_eq!("gone".parse::<ModelStatus>(), Err(ModelStatusError("gone".into())));
    }
}
