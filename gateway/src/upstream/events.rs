//! The events of one answer, within its bounds.

use bytes::Bytes;
use hangar_relay::sse;
use http_body_util::BodyExt as _;
use hyper::body::Incoming as Body;

use super::exchange::Failure;
use crate::limit::held::Share;

/// An event stream being read.
#[derive(Debug)]
pub(super) struct Events {
    body: Body,
    parser: sse::Parser,
    chunk: Bytes,
    /// Bytes that may still come; none where the stream lasts.
    left: Option<u64>,
    most: u64,
    /// What is held of it: the last event, and what came of the next ones.
    share: Share,
}

/// Bytes of comments and of events that are no messages, in one stream.
const MAX_JUNK_BYTES: usize = 1 << 20;

// === impl Events ===

impl Events {
    /// A stream that ends: all of it is bounded.
    pub(super) fn new(body: Body, most: u64, share: Share) -> Self {
        Self {
            left: Some(most.saturating_add(MAX_JUNK_BYTES as u64)),
            ..Self::lasting(body, most, share)
        }
    }

    /// A stream that goes on: each event is bounded, and what is none.
    pub(super) fn lasting(body: Body, most: u64, share: Share) -> Self {
        let parser = sse::Parser::new(sse::Limits {
            event_bytes: usize::try_from(most).unwrap_or(usize::MAX),
            junk_bytes: MAX_JUNK_BYTES,
        });
        Self {
            body,
            parser,
            chunk: Bytes::new(),
            left: None,
            most,
            share,
        }
    }

    /// The next event's data; none at the end of the stream. It counts as held until the next is
    /// asked for.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            self.share.shrink_to(self.parser.held() + self.chunk.len());
            let mut rest = self.chunk.as_ref();
            let event = self.parser.next(&mut rest).map_err(unreadable)?;
            let used = self.chunk.len() - rest.len();
            self.chunk = self.chunk.slice(used..);
            if event.is_some() {
                return Ok(event);
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let Ok(data) = frame.map_err(Failure::Broken)?.into_data() else {
                continue;
            };
            if let Some(left) = &mut self.left {
                let rest = left.checked_sub(data.len() as u64);
                *left = rest.ok_or(Failure::TooLarge { most: self.most })?;
            }
            let grown = self.share.grow(data.len());
            grown.map_err(|_| Failure::NoRoom)?;
            self.chunk = data;
        }
    }

    /// The share of the last event, which had so many bytes.
    pub(super) fn part(&mut self, bytes: usize) -> Share {
        self.share.split(bytes)
    }

    /// The bytes of an event, which count as held until their last copy is gone.
    pub(super) fn keep(self, event: String) -> Bytes {
        self.share.keep(event.into())
    }

    /// Counts an event that is no message: enough of them end the stream.
    pub(super) fn reject(&mut self, bytes: usize) -> Result<(), Failure> {
        self.parser.reject(bytes).map_err(unreadable)
    }
}

fn unreadable(error: sse::Error) -> Failure {
    Failure::NoReply(error.reason())
}
