//! Names that were perhaps meant by one that is unknown.
//!
//! A name is compared with each model's id and with its last part, by how many letters have to be changed and by
//! the words they share: `gpt-56` is one letter away from `gpt-5.6`, and `opus fast` shares both words with
//! `claude-opus-5-fast`. One wrong letter in a word is forgiven: `sonet` is meant for `claude-sonnet-5`. The provider
//! counts little, since it is often what is wrong.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::lookup::{ProviderRank, is_maker};
use super::preference::is_resold;
use super::{Catalogue, ModelInfo, ModelStatus, ProviderInfo};

/// Names given back, at most.
const MOST: usize = 5;

/// Letters of a name that are looked at. No model has a longer one, and the effort grows with the length.
const LONGEST: usize = 96;

/// The worst score given back; 0 is equal and 1000 has nothing in common.
const WORST: usize = 400;

/// The share of letters that may be wrong, in thousandths. More make another word.
const WRONG_LETTERS: usize = 300;

/// The score of a name that has all words asked for, and what each further and each missing word adds to it.
const ALL_WORDS: usize = 150;
const FURTHER_WORD: usize = 25;
const MISSING_WORD: usize = 80;

/// What a word with a wrong letter adds, and how long such a word must be.
const SLIP: usize = 50;
const SHORTEST: usize = 4;

/// What a model of another provider than the one asked for adds to its score.
const OTHER_PROVIDER: usize = 100;

impl Catalogue {
    /// The names that are closest to `name`, the closest first, at most five.
    ///
    /// If it begins with a provider, models of that provider come before equally close ones of others. A model that
    /// several providers offer is named once otherwise.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let name = name.trim();
        let (asked, model) = match self.split(name) {
            Some((provider, model)) => (Some(provider), model),
            // The first part may be a provider that is written wrong.
            None => (None, name.split_once('/').map_or(name, |(_, model)| model)),
        };
        let queries: BTreeSet<String> = [model, name].into_iter().map(letters).collect();
        let queries: Vec<WantedName<'_>> = queries.iter().map(|text| WantedName::new(text)).collect();
        let mut close: Vec<(usize, &ProviderInfo, &ModelInfo)> = Vec::new();
        for (provider, model) in self.models() {
            let other = asked.is_some_and(|asked| asked.id != provider.id);
            let id = letters(&model.id);
            let own = words(&id);
            let scores = queries.iter().filter_map(|query| query.score(&id, &own));
            let Some(score) = scores.min() else { continue };
            let score = score + if other { OTHER_PROVIDER } else { 0 };
            if score <= WORST {
                close.push((score, provider, model));
            }
        }
        close.sort_by_key(|&(score, provider, model)| {
            let gone = model.status == ModelStatus::Deprecated;
            let spoken = model.protocol().is_spoken();
            let rank = ProviderRank::of(provider);
            (
                score,
                gone,
                !spoken,
                rank,
                Reverse(model.released.as_ref()),
                provider.id.as_ref(),
                model.id.as_ref(),
            )
        });
        let mut seen = BTreeSet::new();
        close.retain(|(_, _, model)| seen.insert(model.tail().to_ascii_lowercase()));
        close.iter().take(MOST).map(|(_, provider, model)| format!("{}/{}", provider.id, model.id)).collect()
    }
}

/// The score of a provider that makes models of the name asked for.
const MAKES_SUCH: usize = 300;

impl Catalogue {
    /// The ids of the providers that are closest to `name`, the closest first, at most five.
    ///
    /// A provider is meant by a name that is written like its own, that shares words with it or begins it, or that is
    /// one of the models it makes: many say `grok` for xAI.
    pub fn nearest_providers(&self, name: &str) -> Vec<String> {
        let text = letters(name.trim());
        if text.is_empty() {
            return Vec::new();
        }
        let query = WantedName::new(&text);
        let mut close: Vec<(usize, ProviderRank, &str)> = Vec::new();
        for provider in self.providers() {
            let known = [letters(&provider.id), letters(&provider.name)];
            let written = known.iter().filter_map(|known| query.by_spelling(known));
            let score = written.chain(makes(provider, &text).then_some(MAKES_SUCH)).min();
            close.extend(score.map(|score| (score, ProviderRank::of(provider), provider.id.as_ref())));
        }
        close.sort_unstable();
        close.into_iter().take(MOST).map(|(_, _, id)| id.to_owned()).collect()
    }
}

/// Whether a maker makes models of a family with this word in its name.
fn makes(provider: &ProviderInfo, word: &str) -> bool {
    let named = |model: &ModelInfo| {
        let family = model.family.as_deref().unwrap_or("");
        !is_resold(provider, model) && family.split('-').any(|own| own.eq_ignore_ascii_case(word))
    };
    is_maker(provider) && provider.models.values().any(named)
}

/// A name as it is compared.
fn letters(name: &str) -> String {
    name.chars().take(LONGEST).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The words of a name. Letters and digits make words of their own, since some write `gpt5` and some `gpt-5`.
fn words(text: &str) -> Vec<&str> {
    let runs = text.split(|letter: char| !letter.is_alphanumeric()).filter(|run| !run.is_empty());
    let parts = runs.flat_map(|run| {
        let mut rest = run;
        std::iter::from_fn(move || {
            let digits = rest.chars().next()?.is_ascii_digit();
            let end = rest.find(|letter: char| letter.is_ascii_digit() != digits).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end)?;
            rest = after;
            Some(word)
        })
    });
    parts.collect()
}

/// Which bytes occur in a text, in the places of a number; some share a place.
fn marks(text: &str) -> u64 {
    text.bytes().fold(0, |marks, byte| marks | 1 << (byte % 64))
}

/// A name that is asked for.
struct WantedName<'a> {
    text: &'a str,
    marks: u64,
    words: Vec<&'a str>,
}

impl<'a> WantedName<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, marks: marks(text), words: words(text) }
    }

    /// How far a model with this id of these words is from this name, if it is not too far.
    fn score(&self, id: &str, own: &[&str]) -> Option<usize> {
        if self.text.is_empty() {
            return None;
        }
        let tail = id.rsplit('/').next().filter(|tail| tail.len() < id.len());
        let by_letters = [Some(id), tail].into_iter().flatten().filter_map(|key| self.by_letters(key));
        by_letters.chain(self.by_words(own)).min()
    }

    /// How far a name of few words is from this one. One letter may be wrong however short it is.
    fn by_spelling(&self, key: &str) -> Option<usize> {
        let longest = length(self.text).max(length(key));
        let limit = (longest * WRONG_LETTERS / 1000).max(1);
        let wrong = distance(self.text, key, limit).filter(|wrong| *wrong < longest);
        let by_letters = wrong.map(|wrong| wrong * 1000 / longest);
        let begun = (self.text.len() >= 3 && key.starts_with(self.text)).then_some(ALL_WORDS);
        [by_letters, begun, self.by_words(&words(key))].into_iter().flatten().min()
    }

    fn by_letters(&self, key: &str) -> Option<usize> {
        let longest = length(self.text).max(length(key));
        let limit = longest * WRONG_LETTERS / 1000;
        // Each letter that only one of them has takes a change, which is quickly counted and rules out most.
        let theirs = marks(key);
        let missing = (self.marks & !theirs).count_ones().max((theirs & !self.marks).count_ones());
        if usize::try_from(missing).is_ok_and(|missing| missing > limit) {
            return None;
        }
        Some(distance(self.text, key, limit)? * 1000 / longest)
    }

    /// Most words must be shared, and one of them must be more than a number.
    fn by_words(&self, own: &[&str]) -> Option<usize> {
        let (mut count, mut missing, mut slips, mut named) = (0, 0, 0, false);
        for word in &self.words {
            if own.contains(word) {
                count += 1;
                named |= !word.bytes().all(|byte| byte.is_ascii_digit());
            } else if own.iter().any(|known| is_slip(word, known)) {
                (count, slips, named) = (count + 1, slips + 1, true);
            } else {
                missing += 1;
                // Most names are ruled out here, long before their last word.
                if missing * 2 >= self.words.len() {
                    return None;
                }
            }
        }
        let further = own.len().saturating_sub(count);
        let score = ALL_WORDS + further * FURTHER_WORD + missing * MISSING_WORD + slips * SLIP;
        (named && count > missing).then_some(score)
    }
}

/// Whether a word is another one with one wrong letter. In short words that is another word.
fn is_slip(word: &str, known: &str) -> bool {
    word.len().min(known.len()) >= SHORTEST && distance(word, known, 1).is_some()
}

/// How many letters have to be put in, left out, changed or swapped with their neighbour to make one text of the other;
/// `None` if more than `limit`.
fn distance(one: &str, other: &str, limit: usize) -> Option<usize> {
    // Most are ruled out by their length, which costs nothing.
    if length(one).abs_diff(length(other)) > limit {
        return None;
    }
    Some(strsim::osa_distance(one, other)).filter(|distance| *distance <= limit)
}

/// How many letters a text has.
fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_digits_begin() {
        assert_eq!(words("GPT5.6/qwen3-30b--ä"), ["GPT", "5", "6", "qwen", "3", "30", "b", "ä"]);
    }

    #[test]
    fn distances_count_changes_and_swaps() {
        let check = |one: &str, other: &str, expected: Option<usize>| {
            assert_eq!(distance(one, other, 3), expected);
            assert_eq!(distance(other, one, 3), expected, "the other way round");
        };
        check("", "", Some(0));
        check("", "abc", Some(3));
        check("", "abcd", None);
        check("sonnet", "sonnet", Some(0));
        check("sonet", "sonnet", Some(1));
        check("sonnte", "sonnet", Some(1));
        check("sünnet", "sonnet", Some(1));
        check("kitten", "sitting", Some(3));
        check("claude", "gemini", None);
    }
}
