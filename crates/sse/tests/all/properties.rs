//! Server-sent events: the same however the bytes arrive, what the standard says, and never much in memory.

use everturn_sse::{FrameTooLarge, SseDecoder, SseFrame};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What decides over lines and fields.
const MARKS: &[&str] = &[
    "data",
    "data:",
    "data: ",
    "data: x",
    "event: tick",
    "event",
    "id: 7",
    "retry: 10",
    ": note",
    ":",
    " ",
    "x",
    "\n",
    "\n",
    "\n\n",
    "\r",
    "\r",
    "\r\n",
    "\r\n\r\n",
    "\u{feff}",
    "ü",
    "🦀",
    "\u{2028}",
    "\0",
];

fn text() -> impl Strategy<Value = String> {
    vec(select(MARKS), 0..40).prop_map(|marks| marks.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => select(MARKS).prop_map(|mark| mark.as_bytes().to_vec()),
        1 => select(vec![vec![0xff], vec![0xc3], vec![0xe2, 0x80], vec![0xef, 0xbb]]),
        1 => vec(any::<u8>(), 0..8),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// `bytes` in pieces of these sizes, as often as it takes.
fn cut<'b>(bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().copied().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Sizes of pieces: small ones, so that every place gets its cut, and an empty one now and then.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(0..20_usize, 1..8).prop_map(|mut sizes| {
        sizes.push(1);
        sizes
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// What a decoder says of a body.
#[derive(Debug, PartialEq)]
struct Decoded {
    frames: Vec<SseFrame>,
    last_id: Option<String>,
    taken: Result<(), FrameTooLarge>,
}

/// All frames, and whether one was too large. What is kept in between stays below a bound.
fn decode(pieces: &[&[u8]], limit: usize) -> Decoded {
    let mut decoder = SseDecoder::new(limit);
    let mut frames = Vec::new();
    for piece in pieces {
        let taken = decoder.push(piece);
        frames.extend(std::iter::from_fn(|| decoder.pop()));
        // A frame and the id of an earlier one; a byte that is no text becomes a character of three.
        assert!(decoder.kept() <= limit.saturating_mul(6), "{} bytes are kept", decoder.kept());
        if taken.is_err() {
            return Decoded { frames, last_id: decoder.last_id().map(str::to_owned), taken };
        }
    }
    frames.extend(decoder.finish());
    Decoded { frames, last_id: decoder.last_id().map(str::to_owned), taken: Ok(()) }
}

/// The standard's rules, said once more for a text that is all there. A last frame needs no blank line.
fn reference(text: &str) -> Decoded {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut frames = Vec::new();
    let mut frame = SseFrame::default();
    let mut data: Vec<&str> = Vec::new();
    let mut last_id = "";
    for line in lines.split('\n').chain([""]) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            _ if line.is_empty() => {
                let complete = std::mem::take(&mut frame);
                if !data.is_empty() {
                    frames.push(SseFrame { data: data.join("\n"), ..complete });
                }
                data.clear();
            }
            "data" => data.push(value),
            "event" => frame.event = Some(value.to_owned()),
            // The body's end ends the last frame too, so every id comes to hold.
            "id" if !value.contains('\0') => last_id = value,
            _ => {}
        }
    }
    let last_id = Some(last_id.to_owned()).filter(|id| !id.is_empty());
    Decoded { frames, last_id, taken: Ok(()) }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn a_text_is_read_as_the_standard_says(text in text(), sizes in sizes()) {
        let expected = reference(&text);
        prop_assert_eq!(&decode(&[text.as_bytes()], 1_000_000), &expected);
        prop_assert_eq!(decode(&cut(text.as_bytes(), &sizes), 1_000_000), expected);
    }

    #[test]
    fn any_bytes_give_the_same_however_they_arrive(
        bytes in bytes(),
        sizes in sizes(),
        limit in select(vec![8, 30, 1_000_000]),
    ) {
        let whole = decode(&[&bytes], limit);
        prop_assert_eq!(&decode(&cut(&bytes, &sizes), limit), &whole);
        prop_assert_eq!(decode(&cut(&bytes, &[1]), limit), whole);
    }
}

/// A server that never ends a line, or a frame, or sends nothing but comments.
#[test]
fn nothing_fills_the_memory() {
    let check = |piece: &[u8], refused: bool| {
        let pieces = vec![piece; 10_000];
        let decoded = decode(&pieces, 1_000);
        assert_eq!((decoded.frames, decoded.taken.is_err()), (Vec::new(), refused));
    };
    check(b"data: and so on ", true);
    check(b"data: and so on\n", true);
    check(b"event: and so on\n", true);
    check(b"id: and so on\n", true);
    check(b": and so on\n", false);
    check(b"unknown: and so on\r\n", false);
    check(b"\n", false);
}
