//! The crash matrix: a process that runs a session is killed right before or right after each commit that it makes, and
//! another one takes over.
//!
//! The process is this test binary again, with a real engine that plays a [`Story`] against a scripted model. A hook in
//! the store counts its commits and kills it with `SIGKILL` at the one that was asked for, so that no append can get around
//! it. Each story is played to its end first; that gives the commits, and each of them is then a place to cut, before and
//! after. What must hold afterwards is in [`remains`].
//!
//! Every event type of the model's catalogue has to be cut before and after, but for those in [`NOT_WRITTEN`]. A story for
//! a new one is a function in [`stories`]. `EVERTURN_TEST_FULL=1` cuts everywhere; without it, each event type is cut once
//! before and once after.

mod accounts;
mod child;
mod losses;
mod place;
mod remains;
mod stories;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use everturn_model::event::CATALOGUE;

use child::{Cut, Moment};
use place::{Ground, StoreKind};
use stories::Story;

/// What the engine does not write yet, so that no story has it.
const NOT_WRITTEN: &[(&str, &str)] = &[("labeled", "bookmarks come with imports alone")];

/// How many processes are killed at once.
const LANES: usize = 2;

/// How often a cut is tried whose moment did not come: what happens at the same time has no order.
const TRIES: usize = 4;

fn full() -> bool {
    std::env::var_os("EVERTURN_TEST_FULL").is_some_and(|value| value == "1")
}

/// Does nothing unless it is started by the matrix.
#[test]
fn child() {
    child::live();
}

/// The commits of a story that nobody cuts: the events of each.
fn commits(kind: StoreKind, story: Story) -> Vec<Vec<String>> {
    let ground = Ground::new(kind, story, 0);
    let life = ground.live(None);
    assert!(!life.was_cut, "{story:?} was cut");
    remains::check(&ground, std::slice::from_ref(&life), &format!("{story:?}, not cut"));
    life.commits
}

/// A place to cut: a story, and the first event of a commit with its number among its kind.
#[derive(Debug, Clone)]
struct CutPlace {
    story: Story,
    cut: Cut,
    /// The events of the commit, each with its number.
    events: Vec<(String, usize)>,
}

/// All places of a story.
fn places(story: Story, commits: &[Vec<String>]) -> Vec<CutPlace> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for commit in commits {
        let mut events = Vec::new();
        for event in commit {
            let count = counts.entry(event).or_default();
            events.push((event.clone(), *count));
            *count += 1;
        }
        for moment in [Moment::Before, Moment::After] {
            let (event, nth) = events[0].clone();
            places.push(CutPlace { story, cut: Cut { event, nth, moment }, events: events.clone() });
        }
    }
    places
}

/// So many of the places that each event type is cut before and after.
fn sample(places: &[CutPlace]) -> Vec<CutPlace> {
    let mut missing: BTreeSet<(Moment, String)> = places.iter().flat_map(gained).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |place: &&CutPlace| gained(place).filter(|gain| missing.contains(gain)).count();
        let Some(best) = places.iter().rev().max_by_key(gain) else { break };
        gained(best).for_each(|gain| {
            missing.remove(&gain);
        });
        chosen.push(best.clone());
    }
    chosen
}

fn gained(place: &CutPlace) -> impl Iterator<Item = (Moment, String)> {
    place.events.iter().map(|(event, _)| (place.cut.moment, event.clone()))
}

/// A place for each of these, cut at the very event: what stands in one commit may stand in two the next time.
fn places_for(places: &[CutPlace], missing: &BTreeSet<(Moment, String)>) -> Vec<CutPlace> {
    let of = |(moment, name): &(Moment, String)| {
        places.iter().filter(|place| place.cut.moment == *moment).find_map(|place| {
            let (event, nth) = place.events.iter().find(|(event, _)| event == name)?.clone();
            Some(CutPlace { cut: Cut { event, nth, moment: *moment }, ..place.clone() })
        })
    };
    missing.iter().filter_map(of).collect()
}

/// Cuts at a place and checks what remains. Says what was cut.
fn cut(kind: StoreKind, place: &CutPlace, number: usize) -> Option<BTreeSet<(Moment, String)>> {
    for attempt in 0..TRIES {
        // Not every protocol has every commit.
        let ground = Ground::new(kind, place.story, number + attempt);
        let life = ground.live(Some(place.cut.clone()));
        if !life.was_cut {
            continue;
        }
        let last = life.commits.last().cloned().unwrap_or_default();
        let title = format!(
            "{:?} on {kind:?}, killed {:?} {last:?} {}",
            place.story, place.cut.moment, place.cut.nth
        );
        remains::check(&ground, &[life], &title);
        return Some(last.into_iter().map(|event| (place.cut.moment, event)).collect());
    }
    None
}

/// Cuts at all these places, and says what was cut.
fn cut_all(kind: StoreKind, chosen: &[CutPlace]) -> BTreeSet<(Moment, String)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let (missed, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let lane = || {
        while let Some((number, place)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            chosen.get(number).map(|place| (number, place))
        } {
            // One that fails has said why, and must not keep the others from being tried.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cut(kind, place, number))) {
                Ok(Some(cut)) => done.lock().unwrap().extend(cut),
                Ok(None) => missed.lock().unwrap().push(place.clone()),
                Err(_) => failed.lock().unwrap().push(place.clone()),
            }
        }
    };
    std::thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
    let (missed, failed) = (missed.into_inner().unwrap(), failed.into_inner().unwrap());
    assert!(failed.is_empty(), "{} of {} cuts failed: {failed:#?}", failed.len(), chosen.len());
    assert!(missed.len() * 10 <= chosen.len(), "too many places did not come again: {missed:#?}");
    done.into_inner().unwrap()
}

/// Runs the matrix on a store: everywhere, or at so many places that each event type is cut before and after.
fn run(kind: StoreKind) {
    let all: Vec<CutPlace> =
        Story::ALL.iter().flat_map(|story| places(*story, &commits(kind, *story))).collect();
    let mut wanted: BTreeSet<(Moment, String)> = all.iter().flat_map(gained).collect();
    check_coverage(&wanted);
    let mut chosen = if full() { all.clone() } else { sample(&all) };
    for _ in 0..TRIES {
        let cut = cut_all(kind, &chosen);
        wanted.retain(|one| !cut.contains(one));
        chosen = places_for(&all, &wanted);
        if chosen.is_empty() {
            return;
        }
    }
    panic!("never cut: {wanted:?}");
}

/// Every event type is cut before and after, but for those that nobody writes.
fn check_coverage(cut: &BTreeSet<(Moment, String)>) {
    let mut missing = Vec::new();
    for (name, _) in CATALOGUE {
        let written = NOT_WRITTEN.iter().all(|(other, _)| other != name);
        for moment in [Moment::Before, Moment::After] {
            if cut.contains(&(moment, (*name).to_owned())) != written {
                missing.push((moment, *name, written));
            }
        }
    }
    assert_eq!(
        missing,
        [],
        "moment, event, and whether the engine writes it: give it a story, or take it off the list"
    );
}

#[test]
fn nothing_is_lost_or_done_twice_wherever_a_process_is_killed() {
    run(StoreKind::Sqlite);
}

#[test]
fn nothing_is_lost_or_done_twice_on_a_server_wherever_a_process_is_killed() {
    if full() {
        return run(StoreKind::Postgres);
    }
    // What differs is the store, which has campaigns of its own: a few places show that all of it fits together.
    let of = |story: Story| places(story, &commits(StoreKind::Postgres, story));
    let all: Vec<CutPlace> = [Story::Tools, Story::Takeover].into_iter().flat_map(of).collect();
    let sampled = sample(&all);
    let few: Vec<CutPlace> = sampled.iter().step_by(sampled.len().div_ceil(8)).cloned().collect();
    cut_all(StoreKind::Postgres, &few);
}
