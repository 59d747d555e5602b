//! Full-text search: what is found, what is not shown, and how it is shown.

use everturn_model::entry::{Body, Compaction, Shell};
use everturn_model::event::Amendment;
use everturn_model::{Entry, EntryId, Event, Part, PartId, PartKind, SessionId};
use everturn_store::{Hit, Search, Snippet, Store};

use crate::events::{
    NOW, added, admitted, amended, append, begin, creation, entry_id, new, note, part_ended, part_started,
    promoted, prompt, session, session_id, started, streaming, text, titled, turn,
};
use crate::place::{Place, contract};

contract![
    words_are_found_in_titles_and_texts,
    all_words_must_occur_and_the_last_may_be_unfinished,
    case_does_not_matter_in_any_script,
    chinese_japanese_and_korean_are_found_by_every_character,
    a_hit_shows_the_words_with_what_stands_around_them,
    what_an_amendment_hides_is_not_shown,
    a_text_that_was_replaced_is_found_by_its_new_words_only,
    a_part_that_became_something_else_is_not_found_by_its_old_words,
    an_entry_that_became_something_else_leaves_no_words_behind,
    a_replaced_part_takes_only_its_own_words_along,
    the_trash_is_not_searched,
    a_search_can_be_in_one_project_or_one_session,
    the_newest_texts_come_first_and_hidden_ones_do_not_use_up_the_limit,
    no_text_is_an_error,
    a_prompt_is_found_once_it_is_part_of_the_conversation,
];

fn search(words: &str) -> Search {
    Search { text: words.to_owned(), limit: 100, ..Search::default() }
}

async fn hits(store: &Store, words: &str) -> Vec<Hit> {
    store.search(search(words)).await.unwrap()
}

/// A place where words are: the title, an entry, or a part.
type Found = (SessionId, Option<EntryId>, Option<PartId>);

fn places(hits: Vec<Hit>) -> Vec<Found> {
    hits.into_iter().map(|hit| (hit.session, hit.entry, hit.part)).collect()
}

async fn found(store: &Store, words: &str) -> Vec<Found> {
    places(hits(store, words).await)
}

/// A session with this title and an entry with these texts, and where each of them is found.
async fn with(store: &Store, title: &str, own: &str, part: &str) -> [Found; 3] {
    let mut new = session(&session_id());
    title.clone_into(&mut new.title);
    let (entry, part) = (note(None, own), text(part));
    append(store, &new.id, vec![creation(new.clone()), added(&entry, vec![part.clone()])]).await;
    let id = new.id;
    [
        (id.clone(), None, None),
        (id.clone(), Some(entry.id.clone()), None),
        (id, Some(entry.id), Some(part.id)),
    ]
}

async fn words_are_found_in_titles_and_texts(place: &Place) {
    let store = place.open("own_a").await;
    let [title, own, part] = with(&store, "the title zebra", "the note giraffe", "the part okapi").await;
    assert_eq!(found(&store, "zebra").await, std::slice::from_ref(&title));
    assert_eq!(found(&store, "giraffe").await, std::slice::from_ref(&own));
    assert_eq!(found(&store, "okapi").await, std::slice::from_ref(&part));
    assert_eq!(found(&store, "nowhere").await, []);
    let mut all = found(&store, "the").await;
    all.sort();
    let mut expected = vec![title, own, part.clone()];
    expected.sort();
    assert_eq!(all, expected);

    let (id, parent) = (part.0, part.1);
    let shell = Body::Shell(Shell { command: "cargo quokka".into(), ..Shell::default() });
    let summary = Compaction { summary: Some("a summary of numbats".into()), ..Compaction::default() };
    let branch = Body::BranchSummary { summary: "the branch of wombats".into(), from: None };
    let label = Body::Label { target: parent.clone(), label: Some("bookmark bilby".into()) };
    for (body, word) in
        [(shell, "quokka"), (Body::Compaction(summary), "numbats"), (branch, "wombats"), (label, "bilby")]
    {
        let entry = Entry::new(entry_id(), parent.clone(), NOW, body);
        append(&store, &id, vec![added(&entry, Vec::new())]).await;
        assert_eq!(found(&store, word).await, [(id.clone(), Some(entry.id), None)]);
    }
    let step = turn(parent.as_ref());
    let part = streaming();
    append(&store, &id, vec![started(&step), part_started(&step.id, &part)]).await;
    assert_eq!(found(&store, "dingo").await, []);
    append(&store, &id, vec![part_ended(&step.id, &part, "at last a dingo")]).await;
    assert_eq!(found(&store, "dingo").await, [(id, Some(step.id), Some(part.id))]);
}

async fn all_words_must_occur_and_the_last_may_be_unfinished(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, part] = with(&store, "x", "quick brown fox_trot", "quick red foxes 1234").await;
    let check = async |words: &str, expected: &[&Found]| {
        let mut found = found(&store, words).await;
        found.sort();
        let mut expected: Vec<Found> = expected.iter().map(|place| (*place).clone()).collect();
        expected.sort();
        assert_eq!(found, expected, "{words:?}");
    };
    check("quick", &[&own, &part]).await;
    check("quick fox", &[&own, &part]).await;
    check("fox quick", &[]).await;
    check("foxes quic", &[&part]).await;
    check("quick brown f", &[&own]).await;
    check("quick foxes", &[&part]).await;
    check("fox ", &[]).await;
    check("foxes ", &[&part]).await;
    check("fox_trot ", &[&own]).await;
    check("quick brown red", &[]).await;
    check("12", &[&part]).await;
    check("uick", &[]).await;
}

async fn case_does_not_matter_in_any_script(place: &Place) {
    let store = place.open("own_a").await;
    let texts = "ÄGYPTEN Łódź ΟΔΥΣΣΕΥΣ ДОБРЫЙ İstanbul Straße cafe\u{301} naïve";
    let [_, own, _] = with(&store, "x", texts, "y").await;
    let asked = [
        "ägypten ",
        "ÄGYP",
        "ŁÓDŹ ",
        "οδυσσευς ",
        "ὈΔ",
        "добрый ",
        "ДОБ",
        "istanbul ",
        "STRAßE ",
        "cafe ",
        "NAÏVE ",
    ];
    for words in asked {
        let expected = if words == "ὈΔ" { vec![] } else { vec![own.clone()] };
        assert_eq!(found(&store, words).await, expected, "{words:?}");
    }
}

async fn chinese_japanese_and_korean_are_found_by_every_character(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, part] = with(&store, "x", "修复数据库的漏洞", "データベース 데이터베이스 fix修正").await;
    for words in ["数据库", "漏洞", "库", "修复 漏", "数据 "] {
        assert_eq!(found(&store, words).await, std::slice::from_ref(&own), "{words:?}");
    }
    for words in ["データ", "베이스", "fix", "正", "fix修正 "] {
        assert_eq!(found(&store, words).await, std::slice::from_ref(&part), "{words:?}");
    }
    assert_eq!(found(&store, "猫").await, []);
}

async fn a_hit_shows_the_words_with_what_stands_around_them(place: &Place) {
    let store = place.open("own_a").await;
    let [place, ..] = with(&store, "A Zebra\n in the title", "x", "y").await;
    let snippet = Snippet { text: "A Zebra in the title".into(), marks: vec![2..7, 15..20] };
    let title = "A Zebra\n in the title".to_owned();
    let hit = Hit { session: place.0, title, entry: None, part: None, snippet };
    assert_eq!(hits(&store, "zebra title").await, [hit]);

    let long = format!("{} here is the Okapi {}", "before ".repeat(200), "after ".repeat(200));
    let [_, _, part] = with(&store, "named", "x", &long).await;
    let [hit] = hits(&store, "okap").await.try_into().unwrap();
    assert_eq!((hit.session, hit.title.as_str(), hit.entry, hit.part), (part.0, "named", part.1, part.2));
    let Snippet { text, marks } = hit.snippet;
    assert!(text.starts_with('…') && text.ends_with('…') && text.chars().count() <= 162, "{text}");
    let marked: Vec<&str> = marks.into_iter().map(|mark| text.get(mark).unwrap()).collect();
    assert_eq!(marked, ["Okapi"]);
}

async fn what_an_amendment_hides_is_not_shown(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, part] = with(&store, "x", "secret note", "secret part").await;
    let (id, entry) = (&own.0, own.1.as_ref().unwrap());
    assert_eq!(found(&store, "secret").await.len(), 2);
    append(&store, id, vec![amended(entry, part.2.as_ref(), Amendment::Hide)]).await;
    assert_eq!(found(&store, "secret").await, std::slice::from_ref(&own), "a hidden part");
    append(&store, id, vec![amended(entry, part.2.as_ref(), Amendment::Unhide)]).await;
    assert_eq!(found(&store, "secret").await.len(), 2, "and back");
    append(&store, id, vec![amended(entry, None, Amendment::Hide)]).await;
    assert_eq!(found(&store, "secret").await, [], "a hidden entry with its parts");
    append(&store, id, vec![amended(entry, None, Amendment::Unhide)]).await;
    assert_eq!(found(&store, "secret").await.len(), 2);
}

async fn a_text_that_was_replaced_is_found_by_its_new_words_only(place: &Place) {
    let store = place.open("own_a").await;
    let [title, own, part] = with(&store, "old title", "old note", "old part").await;
    let (id, entry, old) = (&own.0, own.1.clone().unwrap(), part.2.clone().unwrap());
    let replaced = Part::new(old.clone(), PartKind::text("new part"));
    let mut again = note(None, "new note");
    again.id = entry.clone();
    append(
        &store,
        id,
        vec![
            amended(&entry, Some(&old), Amendment::ReplacePart { part: Box::new(replaced) }),
            amended(&entry, None, Amendment::ReplaceEntry { entry: Box::new(again) }),
            titled("new title"),
        ],
    )
    .await;
    assert_eq!(found(&store, "old").await, []);
    for (words, place) in [("new part", &part), ("new note", &own), ("new title", &title)] {
        assert_eq!(found(&store, words).await, std::slice::from_ref(place), "{words}");
    }
    let silent = Part::new(old.clone(), PartKind::text("…"));
    append(&store, id, vec![amended(&entry, Some(&old), Amendment::ReplacePart { part: Box::new(silent) })])
        .await;
    assert_eq!(found(&store, "part").await, [], "a text without words");
}

async fn a_part_that_became_something_else_is_not_found_by_its_old_words(place: &Place) {
    let store = place.open("own_a").await;
    let [_, _, part] = with(&store, "x", "y", "vanishing words").await;
    let (id, entry, old) = (part.0, part.1.unwrap(), part.2.unwrap());
    let kind = PartKind::Snapshot { snapshot: "tree".into() };
    let other = Part::new(old.clone(), kind);
    append(&store, &id, vec![amended(&entry, Some(&old), Amendment::ReplacePart { part: Box::new(other) })])
        .await;
    assert_eq!(found(&store, "vanishing").await, []);
    // Its place stayed in the index, and a check called the session damaged.
    let check = store.verify(&id).await.unwrap();
    assert!(check.is_sound(), "{:?}", check.problems);
}

async fn an_entry_that_became_something_else_leaves_no_words_behind(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, _] = with(&store, "x", "vanishing words", "y").await;
    let (id, entry) = (own.0, own.1.unwrap());
    let body = Body::AgentSwitch { agent: "plan".into() };
    let other = Entry::new(entry.clone(), None, NOW, body);
    append(&store, &id, vec![amended(&entry, None, Amendment::ReplaceEntry { entry: Box::new(other) })])
        .await;
    assert_eq!(found(&store, "vanishing").await, []);
    let check = store.verify(&id).await.unwrap();
    assert!(check.is_sound(), "{:?}", check.problems);
}

/// The event named the entry, or another part of it: their words fell out of the index with the old ones.
async fn a_replaced_part_takes_only_its_own_words_along(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, part] = with(&store, "x", "lasting note", "lasting part").await;
    let (id, entry, first) = (own.0.clone(), own.1.clone().unwrap(), part.2.clone().unwrap());
    let second = text("vanishing words");
    append(&store, &id, vec![part_started(&entry, &second)]).await;
    assert_eq!(found(&store, "vanishing").await.len(), 1);
    let silent = Part::new(second.id, PartKind::Snapshot { snapshot: "tree".into() });
    for named in [None, Some(&first)] {
        let change = Amendment::ReplacePart { part: Box::new(silent.clone()) };
        append(&store, &id, vec![amended(&entry, named, change)]).await;
        assert_eq!(found(&store, "vanishing").await, []);
        assert_eq!(found(&store, "lasting note").await, std::slice::from_ref(&own), "named {named:?}");
        assert_eq!(found(&store, "lasting part").await, std::slice::from_ref(&part), "named {named:?}");
    }
    let check = store.verify(&id).await.unwrap();
    assert!(check.is_sound(), "{:?}", check.problems);
}

async fn the_trash_is_not_searched(place: &Place) {
    let store = place.open("own_a").await;
    let [title, ..] = with(&store, "gone gone", "gone", "gone").await;
    append(&store, &title.0, vec![new(Event::SessionTrashed {})]).await;
    assert_eq!(found(&store, "gone").await, []);
    append(&store, &title.0, vec![new(Event::SessionRestored {})]).await;
    assert_eq!(found(&store, "gone").await.len(), 3);
}

async fn a_search_can_be_in_one_project_or_one_session(place: &Place) {
    let store = place.open("own_a").await;
    let mut ids = Vec::new();
    for project in ["p0", "p1", "p1"] {
        let mut new = session(&session_id());
        new.project = project.to_owned();
        new.title = "shared word".into();
        append(&store, &new.id, vec![creation(new.clone())]).await;
        ids.push(new.id);
    }
    let [a, b, c] = ids.try_into().unwrap();
    let asked = async |project: Option<&str>, session: Option<&SessionId>| {
        let project = project.map(str::to_owned);
        let search = Search { project, session: session.cloned(), ..search("word") };
        let hits = store.search(search).await.unwrap();
        hits.into_iter().map(|hit| hit.session).collect::<Vec<_>>()
    };
    assert_eq!(asked(None, None).await, [c.clone(), b.clone(), a.clone()]);
    assert_eq!(asked(Some("p1"), None).await, [c.clone(), b.clone()]);
    assert_eq!(asked(Some("p2"), None).await, []);
    assert_eq!(asked(None, Some(&b)).await, std::slice::from_ref(&b));
    assert_eq!(asked(Some("p1"), Some(&c)).await, std::slice::from_ref(&c));
    assert_eq!(asked(Some("p0"), Some(&c)).await, []);
    append(
        &store,
        &a,
        vec![new(Event::SessionMoved {
            project: "p1".into(),
            directory: "/srv".into(),
            path: None,
            extra: everturn_model::Map::new(),
        })],
    )
    .await;
    assert_eq!(asked(Some("p1"), None).await, [c, b, a], "a session that moved");
}

async fn the_newest_texts_come_first_and_hidden_ones_do_not_use_up_the_limit(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let entry = note(None, &format!("common {number}"));
        append(&store, &id, vec![added(&entry, Vec::new())]).await;
        if number % 3 == 0 {
            append(&store, &id, vec![amended(&entry.id, None, Amendment::Hide)]).await;
        } else {
            expected.push((id.clone(), Some(entry.id), None));
        }
    }
    expected.reverse();
    for limit in [0, 1, 2, 5, 19, 20, 21, 100] {
        let hits = store.search(Search { limit, ..search("common") }).await.unwrap();
        let taken = usize::try_from(limit).unwrap().min(expected.len());
        assert_eq!(places(hits), expected[..taken], "{limit}");
    }
}

async fn no_text_is_an_error(place: &Place) {
    let store = place.open("own_a").await;
    let [_, own, _] = with(&store, "x", "alpha beta NOT near or and 100 it s c", "y").await;
    let empty = [
        "", " ", "\"", "'", "*", "(", ")", "^", "-", ":", ":*", "&", "|", "!", "<->", "\\", "\0", "%", "…",
        "👍",
    ];
    for words in empty {
        assert_eq!(found(&store, words).await, [], "{words:?}");
    }
    let meant = [
        "\"alpha",
        "alpha\"",
        "\"alpha\" \"beta\"",
        "alpha*",
        "alpha* beta*",
        "^alpha",
        "alpha AND beta",
        "alpha NOT beta",
        "NOT alpha",
        "alpha OR beta",
        "NEAR(alpha beta, 5)",
        "words:alpha",
        "{alpha} : beta",
        "-alpha",
        "+alpha",
        "alpha & beta",
        "!alpha",
        "alpha <-> beta",
        "alpha:*",
        "alpha:A",
        "(alpha",
        "alpha)",
        "100%",
        "it's",
        "it''s",
        "C:\\alpha",
        "'; DROP TABLE text; -- alpha",
        "alpha\0beta",
        "alpha\\",
        "alpha:*b",
    ];
    for words in meant {
        // All of these are only words and what stands between them.
        let all = ["alpha", "beta", "not", "near", "or", "and", "100", "it", "s", "c"];
        let lower = words.to_lowercase();
        let asked: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let fits = asked.iter().enumerate().all(|(at, word)| {
            all.iter().any(|known| known == word || (at + 1 == asked.len() && known.starts_with(word)))
        });
        let expected = if fits { vec![own.clone()] } else { vec![] };
        assert_eq!(found(&store, words).await, expected, "{words:?}");
    }
    let long = "alpha ".repeat(5000);
    assert_eq!(found(&store, &long).await, std::slice::from_ref(&own));
    assert_eq!(found(&store, &"x".repeat(100_000)).await, []);
    assert_eq!(found(&store, &format!("alpha {}", "(".repeat(10_000))).await, [own]);
}

async fn a_prompt_is_found_once_it_is_part_of_the_conversation(place: &Place) {
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let item = prompt("a platypus question");
    append(&store, &id, vec![admitted(&item)]).await;
    assert_eq!(found(&store, "platypus").await, []);
    append(&store, &id, vec![promoted(&item, None)]).await;
    let expected = (id, Some(item.id.clone()), Some(item.parts[0].id.clone()));
    assert_eq!(found(&store, "platypus").await, [expected]);
}
