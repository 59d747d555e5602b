//! Decoder of server-sent events, fed with whatever pieces the network delivers.
//!
//! Lines end in LF, CR or CRLF, also when the two bytes arrive apart, and text is decoded line by line, so a
//! character split over two pieces survives. Comments are dropped and several `data` lines are joined by LF.
//! One frame may not grow beyond a limit: a server that never ends a line must not fill the memory. The newest id and
//! the pause that the server asks for are kept for whoever takes a cut stream up again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

/// The largest frame that is read unless another limit is given, in bytes.
pub const EVENT_MAX: usize = 16 * 1024 * 1024;

/// One dispatched event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The `event` field, if one was given.
    pub event: Option<String>,
    /// The `data` lines joined by LF.
    pub data: String,
}

impl SseFrame {
    fn size(&self) -> usize {
        self.event.as_ref().map_or(0, String::len).saturating_add(self.data.len())
    }
}

/// A frame grew beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {limit} bytes")]
pub struct FrameTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Incremental decoder.
#[derive(Debug)]
pub struct SseDecoder {
    line: Vec<u8>,
    pending: SseFrame,
    has_data: bool,
    /// The id that holds once the frame is complete.
    pending_id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    size: usize,
    after_cr: bool,
    at_start: bool,
    ready: VecDeque<SseFrame>,
    limit: usize,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(EVENT_MAX)
    }
}

impl SseDecoder {
    /// A decoder that refuses frames of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            pending: SseFrame::default(),
            has_data: false,
            pending_id: None,
            last_id: None,
            retry: None,
            size: 0,
            after_cr: false,
            at_start: true,
            ready: VecDeque::new(),
            limit,
        }
    }

    /// Takes the next piece of the body. Complete frames are then available from [`Self::pop`].
    ///
    /// # Errors
    ///
    /// [`FrameTooLarge`] when a frame exceeds the limit; frames completed before it can still be popped.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<(), FrameTooLarge> {
        if self.after_cr && !piece.is_empty() {
            self.after_cr = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            let (head, tail) = piece.split_at(end);
            self.complete(head)?;
            piece = match tail {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.count(piece)?;
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// How many bytes are kept: of the line and the frame that are not complete, of the frames not yet popped, and of
    /// the newest id.
    pub fn kept(&self) -> usize {
        let frames = self.ready.iter().chain([&self.pending]).map(SseFrame::size);
        let ids = [&self.last_id, &self.pending_id].into_iter().flatten().map(String::len);
        frames.chain(ids).fold(self.line.len(), usize::saturating_add)
    }

    /// The newest id of a frame that came to its end, with data or without. An id of a frame that was cut does not
    /// count: going on behind it would leave that frame out.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The pause before the next attempt that the server asks for.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The next complete frame.
    pub fn pop(&mut self) -> Option<SseFrame> {
        self.ready.pop_front()
    }

    /// Ends the input and hands out a last frame that lacked its blank line, as some servers leave it.
    pub fn finish(&mut self) -> Option<SseFrame> {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.end_line(&line);
        }
        self.dispatch();
        self.pop()
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), FrameTooLarge> {
        self.size = self.size.saturating_add(bytes.len());
        if self.size > self.limit { Err(FrameTooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// Takes the last bytes of a line. Most lines arrive whole, and are read where they are.
    fn complete(&mut self, bytes: &[u8]) -> Result<(), FrameTooLarge> {
        self.count(bytes)?;
        if self.line.is_empty() {
            self.end_line(bytes);
            return Ok(());
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(bytes);
        self.end_line(&line);
        line.clear();
        self.line = line;
        Ok(())
    }

    fn end_line(&mut self, bytes: &[u8]) {
        // Decoding with replacement is far slower, and hardly ever needed.
        let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
        let mut line: &str = &text;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch();
        } else if !self.field(line) {
            // What is not kept does not count: a server may send comments for hours.
            self.size = self.size.saturating_sub(bytes.len());
        }
    }

    /// Takes a field; whether anything of it is kept.
    fn field(&mut self, line: &str) -> bool {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.pending.data.push('\n');
                }
                self.has_data = true;
                self.pending.data.push_str(value);
            }
            "event" => self.pending.event = Some(value.to_owned()),
            // Such an id could not be sent back.
            "id" if value.contains('\0') => return false,
            "id" => self.pending_id = Some(value.to_owned()),
            "retry" => {
                let asked = Some(value).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let asked = asked.and_then(|text| text.parse().ok()).map(Duration::from_millis);
                self.retry = asked.or(self.retry);
                return false;
            }
            // A line that starts with a colon is a comment: its name is empty.
            _ => return false,
        }
        true
    }

    fn dispatch(&mut self) {
        let frame = std::mem::take(&mut self.pending);
        self.size = 0;
        if let Some(id) = self.pending_id.take() {
            self.last_id = Some(id);
        }
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseFrame> {
        let mut decoder = SseDecoder::default();
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.push(piece).unwrap();
            frames.extend(std::iter::from_fn(|| decoder.pop()));
        }
        frames.extend(decoder.finish());
        frames
    }

    /// The same bytes whole, one by one, and cut in two at every offset.
    fn check(input: &str, expected: &[SseFrame]) {
        let bytes = input.as_bytes();
        assert_eq!(decode([bytes]), expected, "whole: {input:?}");
        assert_eq!(decode(bytes.chunks(1)), expected, "byte by byte: {input:?}");
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(decode([head, tail]), expected, "cut at {cut}: {input:?}");
        }
    }

    fn data(text: &str) -> SseFrame {
        SseFrame { data: text.into(), ..SseFrame::default() }
    }

    #[test]
    fn line_ends() {
        for end in ["\n", "\r", "\r\n"] {
            let input = ["data: a", "", "data: b", "", ""].join(end);
            check(&input, &[data("a"), data("b")]);
        }
        check("data: a\r\n\rdata: b\n\r\n", &[data("a"), data("b")]);
    }

    #[test]
    fn characters_split_over_pieces() {
        check("data: grüße 🦀 \u{2028} ende\n\n", &[data("grüße 🦀 \u{2028} ende")]);
    }

    #[test]
    fn comments_fields_and_joined_data() {
        check(
            ": hello\n\nevent: tick\nid: 7\nretry: 10\ndata: one\ndata:two\ndata\ndata:  three\n: bye\n\n",
            &[SseFrame { event: Some("tick".into()), data: "one\ntwo\n\n three".into() }],
        );
    }

    #[test]
    fn byte_order_mark_and_frames_without_data() {
        check("\u{feff}data: a\n\nevent: nothing\n\ndata: b\n\n", &[data("a"), data("b")]);
    }

    #[test]
    fn last_frame_without_blank_line() {
        check("data: a\n\ndata: [DONE]", &[data("a"), data("[DONE]")]);
        check("data: a\n\ndata: b\n", &[data("a"), data("b")]);
        check("", &[]);
    }

    #[test]
    fn invalid_bytes_become_replacement_characters() {
        let frames = decode([&b"data: a\xffb\n\n"[..]]);
        assert_eq!(frames, [data("a\u{fffd}b")]);
    }

    #[test]
    fn limit_counts_one_frame_only() {
        let mut decoder = SseDecoder::new(16);
        for _ in 0..10 {
            decoder.push(b"data: 12345\n\n").unwrap();
        }
        assert_eq!(decoder.push(b"data: 12345\ndata: 12345"), Err(FrameTooLarge { limit: 16 }));
        assert_eq!(std::iter::from_fn(|| decoder.pop()).count(), 10);
    }

    /// What a stream that was cut is taken up again with, after this much of it.
    #[track_caller]
    fn check_resume(input: &str, id: Option<&str>, retry: Option<u64>) {
        for size in [1, 2, 3, 7, input.len()] {
            let mut decoder = SseDecoder::default();
            input.as_bytes().chunks(size).for_each(|piece| decoder.push(piece).unwrap());
            let found = (decoder.last_id(), decoder.retry());
            assert_eq!(found, (id, retry.map(Duration::from_millis)), "in pieces of {size}: {input:?}");
        }
    }

    #[test]
    fn id_and_pause_outlast_their_frame() {
        check_resume("id: 1\ndata: a\n\nevent: ping\nretry: 20\n\ndata: b\n\n", Some("1"), Some(20));
        check_resume("id: 1\ndata: a\n\nid: 2\r\n\r\n", Some("2"), None);
        check_resume("id: 1\ndata: a\n\nid\ndata: b\n\n", None, None);
        check_resume("id: 1\n\nid: 2\0\n\nretry: 5\nretry: +6\nretry: soon\n\n", Some("1"), Some(5));
    }

    /// The stream is taken up behind the last frame that arrived: with the id of the cut one, that would be lost.
    #[test]
    fn the_id_of_a_frame_that_was_cut_does_not_count() {
        check_resume("id: 1\ndata: a\n\nid: 2\ndata: cut", Some("1"), None);
        check_resume("id: 1\ndata: a\n\nid: 2\ndata: cut\n", Some("1"), None);
    }
}
