//! Server-sent events, taken apart as the network delivers them.
//!
//! Lines end in LF, CR or CRLF. The id and the pause before the next attempt are kept for a stream that is taken up
//! again, also from events without data. One event may not grow beyond a limit.

/// One event with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// Its kind; a message if nothing is said.
    pub(super) kind: Option<String>,
    /// Its data.
    pub(super) data: String,
}

/// An event is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventTooLarge;

/// A reader of one stream.
#[derive(Debug)]
pub(super) struct SseReader {
    limit: usize,
    line: Vec<u8>,
    kind: Option<String>,
    data: Option<String>,
    after_cr: bool,
    /// The newest id.
    pub(super) last_id: Option<String>,
    /// The pause that the server asks for, in milliseconds.
    pub(super) retry: Option<u64>,
}

impl SseReader {
    /// A reader that refuses events of more than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), kind: None, data: None, after_cr: false, last_id: None, retry: None }
    }

    /// Takes the next piece, and gives the events that are complete with it.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        for byte in piece {
            match byte {
                b'\n' if std::mem::take(&mut self.after_cr) => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    events.extend(self.end_line());
                }
                other => {
                    self.after_cr = false;
                    self.line.push(*other);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > self.limit {
                        return Err(EventTooLarge);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.is_empty() {
            let kind = self.kind.take();
            return self.data.take().map(|data| SseEvent { kind, data });
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => self.kind = Some(value.to_owned()),
            "id" if !value.contains('\0') => {
                self.last_id = Some(value.to_owned()).filter(|id| !id.is_empty());
            }
            "retry" => self.retry = value.parse().ok().or(self.retry),
            // A comment, or nothing that is known.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_events_however_they_arrive() {
        let text = "\u{feff}: hello\r\nid: 1\rdata:\n\ndata: a\ndata: ü\r\n\r\nevent: ping\nretry: 20\n\nevent: x\nid:2\ndata:b\n\nid: 3\ndata: cut";
        let event = |kind: Option<&str>, data: &str| SseEvent {
            kind: kind.map(str::to_owned),
            data: data.to_owned(),
        };
        let expected = [event(None, ""), event(None, "a\nü"), event(Some("x"), "b")];
        for size in [1, 2, 3, 7, text.len()] {
            let mut reader = SseReader::new(100);
            let pieces = text.as_bytes().chunks(size);
            let events: Vec<SseEvent> = pieces.flat_map(|piece| reader.push(piece).unwrap()).collect();
            assert_eq!(events, expected, "in pieces of {size}");
            assert_eq!((reader.last_id.as_deref(), reader.retry), (Some("3"), Some(20)));
        }
    }

    #[test]
    fn an_event_has_a_limit() {
        let mut reader = SseReader::new(16);
        for _ in 0..10 {
            reader.push(b"data: 12345\n\n").unwrap();
        }
        assert_eq!(reader.push(b"data: 1234567890\ndata: 1234567890\n"), Err(EventTooLarge));
        assert_eq!(SseReader::new(16).push(&[b'x'; 17]), Err(EventTooLarge));
    }
}
