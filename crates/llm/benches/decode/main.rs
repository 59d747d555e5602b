//! Measures the decoding of streamed answers beside serde_json parsing the same JSON in the same run, and prints
//! ratios.
//!
//! `cargo bench -p everturn-llm` runs everything, a name such as `-- gemini` one protocol, `-- --quick` shorter
//! streams. Ours is all that happens to an answer between the socket and the caller: bytes in pieces of a network
//! segment, lines, frames, JSON, events. The other side gets the payloads cut out already and parses each of them,
//! into a `Value` and into a type made for it. Times depend on the machine; the ratios are what `docs/benchmarks.md`
//! records.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark prints, counts its memory, and fails at once when something is wrong"
)]

mod heap;
mod script;
mod shape;

use std::hint::black_box;
use std::time::{Duration, Instant};

use everturn_llm::{Protocol, StreamEvent, replay};
use script::Script;

/// How many bytes the network delivers at once: a full segment on an Ethernet.
const SEGMENT: usize = 1_448;

/// How often each side is measured; the median counts.
const ROUNDS: usize = 7;

const PROTOCOLS: [Protocol; 4] =
    [Protocol::OpenAiChat, Protocol::OpenAiResponses, Protocol::Anthropic, Protocol::Gemini];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let deltas = if named("--quick") { 20_000 } else { 200_000 };
    let all = !PROTOCOLS.iter().any(|protocol| named(&protocol.to_string()));
    let protocols = PROTOCOLS.iter().copied().filter(|protocol| all || named(&protocol.to_string()));
    println!("| {deltas} small deltas | ours | into `Value` | ratio | into a type | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    protocols.clone().for_each(|protocol| time(protocol, deltas));
    println!();
    println!("| most memory in use | {deltas} deltas | {} deltas |", deltas * 10);
    println!("|---|---:|---:|");
    protocols.for_each(|protocol| memory(protocol, deltas));
}

fn time(protocol: Protocol, deltas: usize) {
    let script = Script::new(protocol, deltas);
    let body = script.bodies().concat();
    let payloads = script.payloads();
    let parse: fn(&str) = match protocol {
        Protocol::OpenAiChat => parse::<shape::Chunk>,
        Protocol::OpenAiResponses => parse::<shape::Notice>,
        Protocol::Anthropic => parse::<shape::Message>,
        _ => parse::<shape::Answer>,
    };
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(timed(|| decode(protocol, body.as_bytes().chunks(SEGMENT), deltas)));
        times[1].push(timed(|| payloads.iter().for_each(|text| self::parse::<serde_json::Value>(text))));
        times[2].push(timed(|| payloads.iter().for_each(|text| parse(text))));
    }
    let [ours, value, typed] = times.map(median);
    let each = |time: Duration| format!("{:.0} ns", time.as_secs_f64() * 1e9 / payloads.len() as f64);
    let ratio = |other: Duration| ours.as_secs_f64() / other.as_secs_f64();
    println!(
        "| {protocol} | {} | {} | {:.2} | {} | {:.2} |",
        each(ours),
        each(value),
        ratio(value),
        each(typed),
        ratio(typed)
    );
}

fn memory(protocol: Protocol, deltas: usize) {
    let peaks = [deltas, deltas * 10].map(|deltas| {
        let [begin, text, rest] = Script::of_text(protocol, 1_000).bodies();
        let texts = std::iter::repeat_n(text.as_bytes(), deltas / 1_000);
        let body = std::iter::once(begin.as_bytes()).chain(texts).chain([rest.as_bytes()]);
        let pieces = body.flat_map(|part| part.chunks(SEGMENT));
        heap::peak(|| decode(protocol, pieces, deltas))
    });
    println!("| {protocol} | {} bytes | {} bytes |", peaks[0], peaks[1]);
}

/// Decodes a whole answer, and makes sure that it was one.
fn decode<'p>(protocol: Protocol, pieces: impl IntoIterator<Item = &'p [u8], IntoIter: 'p>, deltas: usize) {
    let mut seen = 0;
    let mut last = None;
    for event in replay(protocol, pieces).unwrap() {
        let event = black_box(event).unwrap();
        seen +=
            usize::from(matches!(event, StreamEvent::TextDelta { .. } | StreamEvent::ToolInputDelta { .. }));
        last = Some(event);
    }
    assert_eq!((seen, last), (deltas, Some(StreamEvent::Finish)), "{protocol}");
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) {
    black_box(serde_json::from_str::<T>(text).unwrap());
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
