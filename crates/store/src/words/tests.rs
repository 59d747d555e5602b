//! What is a word, that SQLite finds what is said to match, and that snippets show it.

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn query(text: &str) -> WordQuery {
    WordQuery::parse(text).unwrap()
}

/// The snippet with its marks in brackets.
fn shown(asked: &str, text: &str, width: usize) -> String {
    let Snippet { mut text, marks } = query(asked).snippet(text, width);
    for mark in marks.iter().rev() {
        text.insert(mark.end, ']');
        text.insert(mark.start, '[');
    }
    text
}

/// A table as the store has it, with one text.
fn table(text: &str) -> Connection {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(r#"CREATE VIRTUAL TABLE t USING fts5(words, tokenize = "ascii tokenchars '_'")"#)
        .unwrap();
    db.execute("INSERT INTO t VALUES (?1)", [joined(text).as_ref()]).unwrap();
    db
}

fn found(db: &Connection, query: &WordQuery) -> bool {
    db.query_row("SELECT count(*) FROM t WHERE t MATCH ?1", [query.sqlite()], |row| row.get(0)).unwrap()
}

#[test]
fn words_are_runs_of_letters_digits_and_underscores() {
    assert_eq!(
        words("Hello, World! foo_bar x-1 3.14 a\0b"),
        ["hello", "world", "foo_bar", "x", "1", "3", "14", "a", "b"]
    );
    assert_eq!(words("Straße ÜBER Çalış naïve"), ["straße", "über", "çalış", "naïve"]);
    assert_eq!(words(" \n\t…—'\"*"), [""; 0]);
}

#[test]
fn cjk_characters_are_words() {
    assert_eq!(words("東京Tower見"), ["東", "京", "tower", "見"]);
    assert_eq!(words("ひらカタ・한글、ｶﾅ"), ["ひ", "ら", "カ", "タ", "한", "글", "ｶ", "ﾅ"]);
    assert_eq!(words("𠮷x々"), ["𠮷", "x", "々"]);
}

#[test]
fn lower_case_does_not_depend_on_what_follows() {
    assert_eq!(words("ΟΔΟΣ οδος ΟΔΟΣΑ"), ["οδοσ", "οδοσ", "οδοσα"]);
    assert!(query("ΟΔΟΣ").matches("οδοσα"));
    assert_eq!(words("İstanbul i\u{307}stanbul ISTANBUL"), ["istanbul"; 3]);
    assert_eq!(words("cafe\u{301}s \u{301}x \u{345}"), ["cafes", "x"]);
}

#[test]
fn long_words_and_long_texts_are_cut() {
    let long = "É".repeat(70);
    assert_eq!(words(&format!("{long} b")), ["é".repeat(64), "b".to_owned()]);
    assert!(query(&long).matches(&long));
    assert!(query(&"É".repeat(69)).matches(&long));
    assert_eq!(words(&"a ".repeat(30_000)).len(), 20_000);
    let heavy = format!("{} ", "𝕬".repeat(64)).repeat(20_000);
    assert_eq!(words(&heavy).len(), BYTES / 256);
}

#[test]
fn a_query_needs_a_word() {
    for text in ["", " ", "\"\"", "*", "-!'", "\u{301}"] {
        assert_eq!(WordQuery::parse(text), None);
    }
}

#[test]
fn all_words_are_needed_and_the_last_may_be_begun() {
    let text = "The quick brown fox";
    for asked in ["quick", "QUI", "fox the", "\"brown fox\"", "fox ", "fox quick\tbro", "quick quick"] {
        assert!(query(asked).matches(text), "{asked}");
    }
    for asked in ["qui ", "qui fox", "fox dog", "uick", "quick\n brow\n", "foxes"] {
        assert!(!query(asked).matches(text), "{asked}");
    }
}

#[test]
fn expressions_of_the_engines() {
    let open = query("foo\"bar' OR NEAR(x");
    assert_eq!(open.sqlite(), r#""foo" AND "bar" AND "or" AND "near" AND "x"*"#);
    assert_eq!(open.postgres(), "'foo' & 'bar' & 'or' & 'near' & 'x':*");
    assert_eq!(query("ab ").sqlite(), r#""ab""#);
    assert_eq!(query("ab ").postgres(), "'ab'");
    // Even if a word had what no word has.
    let forged = WordQuery { words: vec!["a\"b".to_owned(), "c'd\\".to_owned()], prefix: false };
    assert_eq!(forged.sqlite(), r#""a""b" AND "c'd\""#);
    assert_eq!(forged.postgres(), r#"'a"b' & 'c''d\\'"#);
}

#[test]
fn a_long_query_is_cut_and_sqlite_takes_it() {
    let text = (0..100).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let query = query(&text);
    assert_eq!(query.words.len(), ASKED);
    assert!(!query.prefix);
    assert!(found(&table(&text), &query));
    assert!(!found(&table("w1 w2"), &query));
    assert!(query.matches(&text));
}

#[test]
fn a_snippet_shows_the_words() {
    assert_eq!(shown("fox", "The quick fox", 100), "The quick [fox]");
    assert_eq!(shown("FO", "a\nFox,\r\n\tfoo  b", 100), "a [Fox], [foo] b");
    assert_eq!(shown("none", "  nothing \n here ", 100), "nothing here");
    assert_eq!(shown("none", "one two three four five six", 15), "one two three…");
    let text = format!("{}needle {}", "hay ".repeat(100), "straw ".repeat(100));
    assert_eq!(shown("needle", &text, 30), "…hay hay hay [needle] straw straw…");
}

#[test]
fn a_snippet_is_where_most_is() {
    let gap = "x ".repeat(200);
    let text = format!("red {gap} red red red red {gap} green red {gap} red green red green");
    assert_eq!(shown("red green", &text, 11), "…[green] [red]…");
    assert_eq!(shown("red green", &text, 19), "…[red] [green] [red] [green]");
    assert_eq!(shown("red ", &text, 11), "…[red] [red] [red]…");
}

#[test]
fn a_snippet_cuts_words_only_if_it_must() {
    let blob = "abcdefgh".repeat(1000);
    assert_eq!(shown("abc", &blob, 10), "[abcdefghab]…");
    assert_eq!(shown("abcdefghabcdef", &blob, 10), "abcdefghab…");
    assert_eq!(shown("end", &format!("{blob} the end"), 10), "…the [end]");
    assert_eq!(shown("京", &"東京".repeat(50), 4), "…[京]東[京]東…");
}

#[test]
fn marks_are_right_where_lower_case_is_longer() {
    let text = "İİİ İstanbul ΣΑΣ ẞ Ⱥx";
    assert_eq!(shown("i", text, 100), "[İİİ] [İstanbul] ΣΑΣ ẞ Ⱥx");
    assert_eq!(shown("ⱥ", text, 100), "İİİ İstanbul ΣΑΣ ẞ [Ⱥx]");
    assert_eq!(shown("σασ ß ", text, 100), "İİİ İstanbul [ΣΑΣ] [ẞ] Ⱥx");
    assert_eq!(shown("cafe", "le cafe\u{301}.", 100), "le [cafe\u{301}].");
}

#[test]
fn a_snippet_of_no_width_is_only_a_sign_that_there_is_more() {
    assert_eq!(shown("b", "a b c", 0), "…");
    assert_eq!(query("b").snippet("", 0), Snippet::default());
}

#[test]
fn a_snippet_is_written_with_its_marks() {
    let written = serde_json::to_string(&query("b").snippet("a b", 9)).unwrap();
    assert_eq!(written, r#"{"text":"a b","marks":[{"start":2,"end":3}]}"#);
}

/// Texts in which words meet, and everything that is special to somebody.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-cA-C_]{1,3}",
        4 => prop::sample::select(vec![
            " ", " ", "\n", "\r\n", "\t", "\"", "'", "\\", "*", "-", ":", "(", ")", "\0", "…", "&", "|", "!",
            "İ", "i\u{307}", "ẞ", "Σ", "ς", "ǅ", "Ⱥ", "ﬁ", "é", "e\u{301}", "\u{301}", "\u{345}", "東", "ひ", "한",
            "\u{1100}", "\u{94d}", "\u{2028}", "\u{85}", "AND", "NEAR", "🦊", "١", "𝕬",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => ("[a-zÉ]", 1usize..200).prop_map(|(unit, times)| unit.repeat(times)),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn short() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cA-C]{1,2} ?",
        "[a-c] [a-c]{1,2} ?",
        prop::sample::select(vec!["i", "É", "ς", "東 ", "e", "\"a\"", "_", "é*"]).prop_map(str::to_owned),
        text(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spaced_words_are_the_words(text in text()) {
        prop_assert_eq!(spaced(&text), words(&text).join(" "));
    }

    #[test]
    fn words_are_words_of_themselves(text in text()) {
        let once = words(&text);
        prop_assert_eq!(&words(&once.join(" ")), &once);
        for word in &once {
            prop_assert!((1..=LONGEST).contains(&word.chars().count()));
            prop_assert!(word.chars().all(|c| c.is_alphanumeric() || c == '_'), "{:?}", word);
        }
    }

    #[test]
    fn a_text_is_found_by_each_beginning_of_it(text in text(), end in any::<prop::sample::Index>()) {
        let (begun, _) = text.split_at(text.floor_char_boundary(end.index(text.len() + 1)));
        if let Some(query) = WordQuery::parse(begun) {
            prop_assert!(query.matches(&text), "{:?}", query);
        }
    }

    #[test]
    fn sqlite_finds_what_matches(text in text(), asked in prop::collection::vec(short(), 1..8)) {
        let db = table(&text);
        for query in asked.iter().filter_map(|asked| WordQuery::parse(asked)) {
            prop_assert_eq!(found(&db, &query), query.matches(&text), "{:?}", query);
        }
    }

    #[test]
    fn snippets_are_short_and_their_marks_are_right(text in text(), asked in short(), width in 0usize..80) {
        let Some(query) = WordQuery::parse(&asked) else { return Ok(()) };
        let snippet = query.snippet(&text, width);
        prop_assert!(snippet.text.chars().count() <= width + 2);
        prop_assert!(!snippet.text.contains(['\n', '\r', '\0']));
        prop_assert!(snippet.marks.is_sorted_by(|one, other| one.end <= other.start));
        for mark in &snippet.marks {
            let word = words(snippet.text.get(mark.clone()).unwrap());
            prop_assert_eq!(word.len(), 1);
            prop_assert!(query.words.iter().any(|asked| word[0].starts_with(asked)));
        }
        let all = query.snippet(&text, usize::MAX);
        let asked = |word: &str| (0..query.words.len()).any(|at| query.is(at, word));
        prop_assert_eq!(all.marks.len(), tokens(&text).filter(|token| asked(&token.word)).count());
    }

    #[test]
    fn a_match_that_fits_is_shown(text in text(), asked in "[a-cA-C]{1,2} ?", width in 70usize..90) {
        let query = query(&asked);
        let long = |token: &TextWord| query.is(0, &token.word) && token.chars.len() > width;
        if query.matches(&text) && !tokens(&text).any(|token| long(&token)) {
            prop_assert!(!query.snippet(&text, width).marks.is_empty());
        }
    }
}
