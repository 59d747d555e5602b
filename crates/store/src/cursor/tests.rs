//! That a cursor gives back what was put in, and that nothing else is taken for one.

use proptest::prelude::*;

use super::*;

const KEY: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Question {
    filter: Option<String>,
    after: (i64, String),
}

fn question() -> Question {
    Question { filter: Some("a \"b\" ü".to_owned()), after: (i64::MAX, "ses_1".to_owned()) }
}

fn cursor() -> Cursor {
    seal(KEY, "sessions", &question()).unwrap()
}

fn read(text: &str) -> Result<Question, BadCursor> {
    open(KEY, "sessions", &text.parse()?)
}

#[test]
fn gives_back_what_was_put_in() {
    assert_eq!(open(KEY, "sessions", &cursor()), Ok(question()));
    assert_eq!(read(&cursor().to_string()), Ok(question()));
    let written = serde_json::to_string(&cursor()).unwrap();
    assert_eq!(written, format!("\"{}\"", cursor().as_str()));
    assert_eq!(serde_json::from_str::<Cursor>(&written).unwrap(), cursor());
    // A kind that JSON writes with escapes.
    let odd = seal(KEY, "a\"\n", &question()).unwrap();
    assert_eq!(open(KEY, "a\"\n", &odd), Ok(question()));
}

#[test]
fn has_the_form_it_is_said_to_have() {
    let bytes = URL_SAFE_NO_PAD.decode(cursor().as_str()).unwrap();
    assert_eq!(bytes[0], VERSION);
    assert_eq!(&bytes[17..], serde_json::to_vec(&("sessions", question())).unwrap());
    let mut message = vec![VERSION];
    message.extend(&bytes[17..]);
    assert_eq!(bytes[1..17], blake3::keyed_hash(KEY, &message).as_bytes()[..16]);
}

#[test]
fn any_changed_bit_is_refused() {
    let bytes = URL_SAFE_NO_PAD.decode(cursor().as_str()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&URL_SAFE_NO_PAD.encode(changed)), Err(BadCursor::Foreign), "bit {bit}");
    }
    let text = cursor().to_string().into_bytes();
    for bit in 0..text.len() * 8 {
        let mut changed = text.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let Ok(changed) = String::from_utf8(changed) else { continue };
        assert_eq!(read(&changed), Err(BadCursor::Foreign), "bit {bit} of the text");
    }
}

#[test]
fn one_question_has_one_text() {
    // Bits after the last byte, which a lax decoder ignores, would give a cursor several texts.
    for length in 0..3 {
        let cursor = seal(KEY, "k", &"x".repeat(length)).unwrap().to_string();
        for last in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=" {
            let mut other = cursor.clone();
            other.pop();
            other.push(char::from(*last));
            let opened = other.parse().and_then(|other| open::<String>(KEY, "k", &other));
            assert_eq!(opened.is_ok(), other == cursor);
        }
    }
}

#[test]
fn a_part_or_more_is_refused() {
    let text = cursor().to_string();
    for end in 0..text.len() {
        assert_eq!(read(text.split_at(end).0), Err(BadCursor::Foreign));
    }
    for more in ["A", "AA", "AAAA", "=", "==", " ", "\n", &text] {
        assert_eq!(read(&format!("{text}{more}")), Err(BadCursor::Foreign));
        assert_eq!(read(&format!("{more}{text}")), Err(BadCursor::Foreign));
    }
}

#[test]
fn another_key_kind_or_shape_is_refused() {
    let mut key = *KEY;
    key[31] ^= 1;
    assert_eq!(open::<Question>(&key, "sessions", &cursor()), Err(BadCursor::Foreign));
    assert_eq!(open::<Question>(&key, "events", &cursor()), Err(BadCursor::Foreign));
    for kind in ["events", "", "session", "sessions ", "Sessions"] {
        assert_eq!(open::<Question>(KEY, kind, &cursor()), Err(BadCursor::OtherKind));
    }
    assert_eq!(open::<Vec<u8>>(KEY, "sessions", &cursor()), Err(BadCursor::Foreign));
}

#[test]
fn what_never_was_a_cursor_is_refused() {
    for text in ["", "A", "AQ", "AQAAAAAAAAAAAAAAAAAAAAA", "null", "ses_1", "%", "💥", "\0"] {
        assert_eq!(read(text), Err(BadCursor::Foreign));
    }
    assert!(serde_json::from_str::<Cursor>("\"a b\"").is_err());
    assert!(serde_json::from_str::<Cursor>("1").is_err());
}

#[test]
fn a_long_one_is_neither_made_nor_read() {
    let fits = seal(KEY, "k", &"x".repeat(3000)).unwrap();
    assert_eq!(open(KEY, "k", &fits), Ok("x".repeat(3000)));
    let made = seal(KEY, "k", &"x".repeat(3100));
    assert!(matches!(made, Err(Unsealed::TooLong(length)) if length > LONGEST));
    for length in [LONGEST, LONGEST + 1, 10_000_000] {
        assert_eq!(read(&"A".repeat(length)), Err(BadCursor::Foreign));
    }
}

#[test]
fn what_json_cannot_write_is_an_error() {
    let body = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(seal(KEY, "k", &body), Err(Unsealed::Json(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_question_comes_back(key in any::<[u8; 32]>(), kind in any::<String>(), body in any::<(String, i64)>()) {
        let cursor = seal(&key, &kind, &body).unwrap();
        prop_assert_eq!(open(&key, &kind, &cursor), Ok(body));
    }

    #[test]
    fn any_text_is_refused(text in prop_oneof!["[A-Za-z0-9_-]{0,200}", any::<String>()]) {
        prop_assert_eq!(read(&text), Err(BadCursor::Foreign));
    }

    #[test]
    fn any_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        bytes.insert(0, VERSION);
        prop_assert_eq!(read(&URL_SAFE_NO_PAD.encode(bytes)), Err(BadCursor::Foreign));
    }
}
