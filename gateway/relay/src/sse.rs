//! Server-sent events: a push parser with bounds, and the form in which we send one.
//!
//! Guarantees: memory is bounded by [`Limits`]; no recursion; how the bytes are cut into chunks
//! makes no difference; events are handed over one at a time, so that one chunk with thousands
//! of them costs no more than one.
//! Assumptions: the caller bounds the bytes of the whole stream and its time.

use std::fmt;

/// Why a stream is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("event is larger than the bound")]
    EventTooLarge,
    #[error("stream holds too much that is no event")]
    TooMuchJunk,
    #[error("event is not UTF-8")]
    NotUtf8,
}

/// Bounds of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event's data, and of one line.
    pub event_bytes: usize,
    /// Bytes in all of comments, other fields, empty lines, and of what [`Parser::reject`] is
    /// told.
    pub junk_bytes: usize,
}

/// One stream being read.
pub struct Parser {
    limits: Limits,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A byte order mark may come.
    at_start: bool,
    junk: usize,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const FIELD: &[u8] = b"data";
/// What a line may hold beside its data: `data: ` and a byte order mark.
const LINE_EXTRA: usize = 9;
/// Room for a line that a stream keeps between two events.
const KEPT_LINE: usize = 16 << 10;
/// What a rejected event counts beside its bytes, so that empty ones are not free.
const REJECT_COST: usize = 16;

/// One message as an event. Line ends between JSON tokens become line ends of the event's data.
pub fn encode(message: &str) -> String {
    let mut out = String::with_capacity(message.len() + 24);
    out.push_str("event: message\n");
    for line in message.split(['\n', '\r']) {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
    out
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::EventTooLarge => "event_too_large",
            Self::TooMuchJunk => "too_much_junk",
            Self::NotUtf8 => "not_utf8",
        }
    }
}

// === impl Parser ===

impl Parser {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            junk: 0,
        }
    }

    /// Takes bytes off the front of `chunk` until an event is complete, and returns its data;
    /// None when the chunk is used up. An event that the stream's end cuts off is dropped.
    pub fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<String>, Error> {
        while let Some(first) = chunk.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                *chunk = &chunk[1..];
                continue;
            }
            let end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + part.len() > self.limits.event_bytes + LINE_EXTRA {
                return Err(Error::EventTooLarge);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else {
                *chunk = &[];
                return Ok(None);
            };
            self.after_cr = chunk[end] == b'\r';
            *chunk = &chunk[end + 1..];
            if let Some(data) = self.end_line()? {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Bytes that are kept of the event to come.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Counts an event that the caller could not use: enough of them end the stream.
    pub fn reject(&mut self, bytes: usize) -> Result<(), Error> {
        self.count_junk(bytes.saturating_add(REJECT_COST))
    }

    fn end_line(&mut self) -> Result<Option<String>, Error> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let event = if line.is_empty() {
            self.end_event()
        } else {
            self.field(&line).map(|()| None)
        };
        // Kept for its capacity, but a long line is none to wait for.
        line.clear();
        line.shrink_to(KEPT_LINE);
        self.line = line;
        event
    }

    fn end_event(&mut self) -> Result<Option<String>, Error> {
        if !std::mem::take(&mut self.has_data) {
            return self.count_junk(1).map(|()| None);
        }
        String::from_utf8(std::mem::take(&mut self.data))
            .map(Some)
            .map_err(|_| Error::NotUtf8)
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Error> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        if name != FIELD {
            return self.count_junk(line.len() + 1);
        }
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let separator = usize::from(self.has_data);
        if self.data.len() + separator + value.len() > self.limits.event_bytes {
            return Err(Error::EventTooLarge);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn count_junk(&mut self, bytes: usize) -> Result<(), Error> {
        self.junk = self.junk.saturating_add(bytes);
        if self.junk > self.limits.junk_bytes {
            return Err(Error::TooMuchJunk);
        }
        Ok(())
    }
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser")
            .field("limits", &self.limits)
            .field("junk", &self.junk)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
