//! Decoder of server-sent events, fed with whatever pieces the network delivers.
//!
//! Lines end in LF, CR or CRLF, also when the two bytes arrive apart, and text is decoded line by line, so a
//! character split over two pieces survives. Comments are dropped and several `data` lines are joined by LF.
//! One frame may not grow beyond a limit: a server that never ends a line must not fill the memory.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The default limit for one frame, in bytes.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// One dispatched event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The `event` field, if one was given.
    pub event: Option<String>,
    /// The `data` lines joined by LF.
    pub data: String,
    /// The `id` field, if one was given.
    pub id: Option<String>,
}

impl SseFrame {
    fn size(&self) -> usize {
        let texts = [self.event.as_deref(), Some(&self.data), self.id.as_deref()];
        texts.into_iter().flatten().map(str::len).sum()
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
    size: usize,
    after_cr: bool,
    at_start: bool,
    ready: VecDeque<SseFrame>,
    limit: usize,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl SseDecoder {
    /// A decoder that refuses frames of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            pending: SseFrame::default(),
            has_data: false,
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

    /// How many bytes are kept: of the line and the frame that are not complete, and of the frames not yet popped.
    pub fn kept(&self) -> usize {
        let frames = self.ready.iter().chain([&self.pending]);
        frames.map(SseFrame::size).fold(self.line.len(), usize::saturating_add)
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
            "id" => self.pending.id = Some(value.to_owned()),
            // A line that starts with a colon is a comment: its name is empty. `retry` is for browsers.
            _ => return false,
        }
        true
    }

    fn dispatch(&mut self) {
        let frame = std::mem::take(&mut self.pending);
        self.size = 0;
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
            &[SseFrame {
                event: Some("tick".into()),
                data: "one\ntwo\n\n three".into(),
                id: Some("7".into()),
            }],
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
}
