//! Bytes of bodies that this pod holds at once: requests and answers of upstreams alike.
//!
//! Guarantees: bytes are counted as they arrive, so that a length that was only promised takes
//! nothing from others, and given back when the last reader of the body is gone, however that came.
//! Nothing waits: what does not fit is refused.
//! Caveats: a message that the gateway writes anew is not counted beside the one it was made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};

/// What may be held at once, over the whole pod.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    left: AtomicUsize,
}

/// A part of a budget; given back on drop.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

/// A body on its way in.
#[derive(Debug)]
pub struct Gathered {
    share: Share,
    most: usize,
    /// Its length as declared. Room that nothing was written to costs no memory; growing step by
    /// step costs it twice.
    expected: usize,
    /// A body of one piece, the usual case, is never copied.
    first: Option<Bytes>,
    rest: BytesMut,
}

/// Why a body is not taken further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is larger than one body may be.
    TooLarge,
    /// Everything together would be more than the budget.
    Spent,
}

/// A body with what it takes of the budget.
struct Held {
    bytes: Bytes,
    _share: Share,
}

// === impl Budget ===

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            left: AtomicUsize::new(bytes),
        }
    }

    /// Bytes that may still be taken.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    pub fn taken(&self) -> usize {
        self.bytes - self.left()
    }

    pub fn share(self: &Arc<Self>) -> Share {
        Share {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }

    /// A body of at most `most` bytes; `declared` is what its sender says of its length.
    pub fn gather(
        self: &Arc<Self>,
        declared: Option<u64>,
        most: usize,
    ) -> Result<Gathered, Refused> {
        let declared = declared.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if declared.is_some_and(|bytes| bytes > most) {
            return Err(Refused::TooLarge);
        }
        if declared.is_some_and(|bytes| bytes > self.left()) {
            return Err(Refused::Spent);
        }
        Ok(Gathered {
            share: self.share(),
            most,
            expected: declared.unwrap_or(0),
            first: None,
            rest: BytesMut::new(),
        })
    }
}

/// Without a bound.
impl Default for Budget {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

// === impl Share ===

impl Share {
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        let taken = self
            .budget
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        taken.map_err(|_| Refused::Spent)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives a part back; never more than there is.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The same bytes, which keep this share until their last copy is gone.
    pub fn keep(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            bytes,
            _share: self,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

// === impl Gathered ===

impl Gathered {
    pub fn push(&mut self, piece: Bytes) -> Result<(), Refused> {
        let size = self.share.bytes.saturating_add(piece.len());
        if size > self.most {
            return Err(Refused::TooLarge);
        }
        self.share.grow(piece.len())?;
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(piece);
            return Ok(());
        }
        if let Some(first) = self.first.take() {
            self.rest.reserve(size.max(self.expected));
            self.rest.extend_from_slice(&first);
        }
        self.rest.extend_from_slice(&piece);
        Ok(())
    }

    pub fn finish(self) -> Bytes {
        let Self {
            share, first, rest, ..
        } = self;
        share.keep(first.unwrap_or_else(|| rest.freeze()))
    }
}

// === impl Held ===

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
