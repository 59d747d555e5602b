//! Parents: what each line says it follows, and what is done where that cannot hold.
//!
//! A parent that is missing cuts an entry off from everything before it, and a loop has no beginning. Real files have
//! both: pi's own fork leaves children of a label without a parent. Such an entry follows the entry that stands before
//! it in the file instead, which is what it followed in nearly every real case. The link that was written stays with
//! the entry, so that the file leaves as it came and pi's own view of it can still be shown.

use std::collections::HashMap;

use serde_json::Value;

use super::problems::ProblemKind;

/// What a line says about its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatedParent {
    /// It is a root.
    Root,
    /// It follows the entry before it, as in version 1.
    Sequence,
    /// It follows this id.
    Parent(String),
    /// It does not say.
    Silent,
    /// The line is broken; this much of it could be made out.
    Broken {
        /// Its id.
        id: Option<String>,
        /// What it follows.
        parent: Option<String>,
    },
}

/// A line to be put into the tree.
#[derive(Debug)]
pub(super) struct UnlinkedLine {
    /// Its id, where other lines can name it.
    pub(super) id: Option<String>,
    /// What it says.
    pub(super) claim: StatedParent,
}

/// Where a line came to stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// The line it follows.
    pub(super) parent: Option<usize>,
    /// Whether that is not what was written.
    pub(super) mended: bool,
    /// What is wrong with what was written.
    pub(super) problem: Option<ProblemKind>,
}

/// What a v2 or v3 entry says it follows. pi takes an empty text for none.
pub(super) fn claim(entry: &Value) -> StatedParent {
    match entry.get("parentId") {
        Some(Value::Null) => StatedParent::Root,
        Some(Value::String(id)) if id.is_empty() => StatedParent::Root,
        Some(Value::String(id)) => StatedParent::Parent(id.clone()),
        _ => StatedParent::Silent,
    }
}

/// What can still be made out of a broken line.
pub(super) fn salvage(text: &str) -> StatedParent {
    let field = |name: &str| {
        let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    StatedParent::Broken { id: field("id"), parent: field("parentId") }
}

/// The line that an id means: the last that has it.
pub(super) fn index(places: &[UnlinkedLine]) -> HashMap<&str, usize> {
    places.iter().enumerate().filter_map(|(at, place)| Some((place.id.as_deref()?, at))).collect()
}

/// Links every line to the one it follows, so that the whole is a forest.
pub(super) fn resolve(places: &[UnlinkedLine]) -> Vec<Link> {
    let index = index(places);
    let broken: HashMap<&str, usize> = places
        .iter()
        .enumerate()
        .filter_map(|(at, place)| match &place.claim {
            StatedParent::Broken { id: Some(id), .. } => Some((id.as_str(), at)),
            _ => None,
        })
        .collect();
    let mut guesses: Vec<Option<usize>> = Vec::with_capacity(places.len());
    let mut links: Vec<Link> = Vec::with_capacity(places.len());
    let mut last_whole = None;
    for (at, place) in places.iter().enumerate() {
        let mut guess = at.checked_sub(1);
        let cut = |problem| Link { parent: None, mended: true, problem };
        let link = match &place.claim {
            StatedParent::Root => Link::default(),
            StatedParent::Sequence => Link { parent: last_whole, ..Link::default() },
            StatedParent::Parent(id) => match index.get(id.as_str()) {
                Some(parent) if *parent == at => cut(Some(ProblemKind::OwnParent)),
                Some(parent) => Link { parent: Some(*parent), ..Link::default() },
                None => {
                    guess = broken.get(id.as_str()).copied().filter(|other| *other != at).or(guess);
                    cut(Some(ProblemKind::MissingParent(id.clone())))
                }
            },
            StatedParent::Silent => cut(Some(ProblemKind::NoParent)),
            StatedParent::Broken { parent, .. } => {
                guess = parent.as_deref().and_then(|parent| index.get(parent).copied()).or(guess);
                cut(None)
            }
        };
        if !matches!(place.claim, StatedParent::Broken { .. }) {
            last_whole = Some(at);
        }
        guesses.push(guess);
        links.push(link);
    }
    open_loops(&mut links);
    mend(&mut links, &guesses);
    links
}

/// Cuts each loop at the line that stands first in the file.
fn open_loops(links: &mut [Link]) {
    // 0 is not seen; a walk marks what it passes with its own number.
    let mut seen = vec![0_usize; links.len()];
    let mut cuts = Vec::new();
    for start in 0..links.len() {
        let mut next = Some(start);
        while let Some(at) = next
            && let Some(mark) = seen.get_mut(at)
        {
            if *mark == start + 1 {
                cuts.push(earliest(links, at));
                break;
            }
            if *mark != 0 {
                break;
            }
            *mark = start + 1;
            next = links.get(at).and_then(|link| link.parent);
        }
    }
    for at in cuts {
        if let Some(link) = links.get_mut(at) {
            *link = Link { parent: None, mended: true, problem: Some(ProblemKind::Loop) };
        }
    }
}

fn earliest(links: &[Link], on_loop: usize) -> usize {
    let mut first = on_loop;
    let mut next = links.get(on_loop).and_then(|link| link.parent);
    while let Some(at) = next.filter(|at| *at != on_loop) {
        first = first.min(at);
        next = links.get(at).and_then(|link| link.parent);
    }
    first
}

/// Lets what was cut off follow its guess, unless that stands below it.
fn mend(links: &mut [Link], guesses: &[Option<usize>]) {
    let mut trees = DisjointSets((0..links.len()).collect());
    for (at, link) in links.iter().enumerate() {
        if let Some(parent) = link.parent {
            trees.join(at, parent);
        }
    }
    for (at, (link, guess)) in links.iter_mut().zip(guesses).enumerate() {
        if link.mended
            && let Some(guess) = *guess
            && trees.join(at, guess)
        {
            link.parent = Some(guess);
        }
    }
}

/// Which lines hang together, as a union of sets.
struct DisjointSets(Vec<usize>);

impl DisjointSets {
    fn root(&mut self, mut at: usize) -> usize {
        while let Some(up) = self.0.get(at).copied().filter(|up| *up != at) {
            // Halving the way keeps later walks short.
            let next = self.0.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.0.get_mut(at) {
                *slot = next;
            }
            at = up;
        }
        at
    }

    /// Joins two sets; false when they are one already.
    fn join(&mut self, one: usize, other: usize) -> bool {
        let (one, other) = (self.root(one), self.root(other));
        if let Some(slot) = self.0.get_mut(one) {
            *slot = other;
        }
        one != other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(claims: &[(&str, StatedParent)], expected: &[(Option<usize>, bool)]) {
        let places: Vec<UnlinkedLine> = claims
            .iter()
            .map(|(id, claim)| UnlinkedLine { id: Some((*id).to_owned()), claim: claim.clone() })
            .collect();
        let links: Vec<_> = resolve(&places).iter().map(|link| (link.parent, link.mended)).collect();
        assert_eq!(links, expected);
    }

    fn parent(id: &str) -> StatedParent {
        StatedParent::Parent(id.to_owned())
    }

    #[test]
    fn whole_links_stay() {
        check(
            &[("a", StatedParent::Root), ("b", parent("a")), ("c", parent("a")), ("d", StatedParent::Root)],
            &[(None, false), (Some(0), false), (Some(0), false), (None, false)],
        );
    }

    #[test]
    fn what_is_cut_off_follows_the_line_before_it() {
        check(
            &[("a", StatedParent::Root), ("b", parent("x")), ("c", parent("c")), ("d", StatedParent::Silent)],
            &[(None, false), (Some(0), true), (Some(1), true), (Some(2), true)],
        );
    }

    #[test]
    fn a_broken_line_is_found_by_what_is_left_of_it() {
        let broken = salvage(r#"{"type":"message","id":"b","parentId":"a","tim"#);
        assert_eq!(broken, StatedParent::Broken { id: Some("b".to_owned()), parent: Some("a".to_owned()) });
        let places = [
            UnlinkedLine { id: Some("a".to_owned()), claim: StatedParent::Root },
            UnlinkedLine { id: Some("z".to_owned()), claim: StatedParent::Root },
            UnlinkedLine { id: None, claim: broken },
            UnlinkedLine { id: Some("y".to_owned()), claim: StatedParent::Root },
            UnlinkedLine { id: Some("c".to_owned()), claim: parent("b") },
        ];
        let parents: Vec<_> = resolve(&places).iter().map(|link| link.parent).collect();
        assert_eq!(parents, [None, None, Some(0), None, Some(2)]);
    }

    #[test]
    fn loops_are_opened_and_never_closed_again() {
        check(
            &[("1", parent("3")), ("2", parent("1")), ("3", parent("2"))],
            &[(None, true), (Some(0), false), (Some(1), false)],
        );
        // The line before the loop hangs below it, so the loop's beginning becomes a root.
        check(
            &[("p", parent("e")), ("e", parent("x")), ("x", parent("e"))],
            &[(Some(1), false), (None, true), (Some(1), false)],
        );
    }

    #[test]
    fn the_last_line_with_an_id_is_meant() {
        check(
            &[("a", StatedParent::Root), ("a", StatedParent::Root), ("b", parent("a"))],
            &[(None, false), (None, false), (Some(1), false)],
        );
    }

    #[test]
    fn long_chains_take_no_stack() {
        let count = 200_000;
        let places: Vec<UnlinkedLine> = (0..count)
            .map(|at| UnlinkedLine { id: Some(at.to_string()), claim: parent(&(at + 1).to_string()) })
            .collect();
        let links = resolve(&places);
        assert_eq!(links.last().map(|link| (link.parent, link.mended)), Some((None, true)));
    }
}
