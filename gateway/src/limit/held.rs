//! Bytes of bodies that this pod holds at once: requests, what is copied from them to outlive them,
//! answers of upstreams, and messages on their way to a client alike.
//!
//! Guarantees: bytes are counted as they arrive, so that a length that was only promised takes
//! nothing from others, and given back when the last reader of the body is gone, however that came.
//! Nothing waits: what does not fit is refused. Where there are several tenants none of them takes
//! more than half, so that one alone closes the pod for nobody; and beside what tenants may take
//! there is room for what the gateway asks upstreams for itself, without which no tenant's tasks
//! could be vouched for.
//! Caveats: an answer that the gateway writes anew (lists, replies between revisions or under an id
//! that the upstream wrote in another form) is counted when it is there, not while it is written; nor
//! is room that a buffer keeps for what may still come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};

/// What may be held at once, over the whole pod.
#[derive(Debug)]
pub struct Budget {
    /// What all tenants may take together.
    bytes: usize,
    /// What only the gateway itself may take.
    reserve: usize,
    /// Largest body of a client: no tenant's part is smaller, or such a body could never come in.
    body: usize,
    /// Of `bytes` and `reserve` together.
    left: AtomicUsize,
    /// Taken by the gateway itself.
    own: AtomicUsize,
    /// Tenants that are configured, or that hold something still.
    tenants: AtomicUsize,
}

/// One that takes from a budget: a tenant, or the gateway itself.
#[derive(Debug)]
pub struct Room {
    budget: Arc<Budget>,
    /// None: the gateway itself.
    taken: Option<AtomicUsize>,
}

/// A part of a budget; given back on drop.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
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
    /// Everything together would be more than the budget, or all of a tenant more than its part.
    Spent,
}

/// A body with what it takes of the budget.
struct Held {
    bytes: Bytes,
    _share: Share,
}

/// Beside what tenants may take there is so much more, as a divisor of it, for the gateway itself.
const RESERVE: usize = 8;

// === impl Budget ===

impl Budget {
    /// So many bytes for all tenants, whose bodies have at most `body` bytes each.
    pub fn new(bytes: usize, body: usize) -> Self {
        let reserve = (bytes / RESERVE).min(usize::MAX - bytes);
        Self {
            bytes,
            reserve,
            body,
            left: AtomicUsize::new(bytes + reserve),
            own: AtomicUsize::new(0),
            tenants: AtomicUsize::new(0),
        }
    }

    pub fn taken(&self) -> usize {
        self.bytes + self.reserve - self.left.load(Ordering::Relaxed)
    }

    /// What one tenant may take.
    fn part(&self) -> usize {
        match self.tenants.load(Ordering::Relaxed) {
            0 | 1 => self.bytes,
            _ => (self.bytes / 2).max(self.body).min(self.bytes),
        }
    }

    /// What tenants must leave.
    fn kept(&self) -> usize {
        self.reserve
            .saturating_sub(self.own.load(Ordering::Relaxed))
    }
}

/// Without a bound.
impl Default for Budget {
    fn default() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }
}

// === impl Room ===

impl Room {
    /// The room of a tenant.
    pub fn tenant(budget: Arc<Budget>) -> Self {
        budget.tenants.fetch_add(1, Ordering::Relaxed);
        Self {
            budget,
            taken: Some(AtomicUsize::new(0)),
        }
    }

    /// The gateway's own: what it keeps for itself, and of the rest what tenants leave.
    pub fn own(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            taken: None,
        }
    }

    pub fn share(self: &Arc<Self>) -> Share {
        Share {
            room: Arc::clone(self),
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

    /// Bytes that may still be taken here.
    fn left(&self) -> usize {
        let budget = &*self.budget;
        let left = budget.left.load(Ordering::Relaxed);
        match &self.taken {
            None => left,
            Some(taken) => {
                let part = budget.part().saturating_sub(taken.load(Ordering::Relaxed));
                left.saturating_sub(budget.kept()).min(part)
            }
        }
    }

    fn take(&self, bytes: usize) -> Result<(), Refused> {
        let budget = &*self.budget;
        let (counter, part, kept) = match &self.taken {
            None => (&budget.own, usize::MAX, 0),
            Some(taken) => (taken, budget.part(), budget.kept()),
        };
        update(counter, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= part)
        })?;
        let whole = update(&budget.left, |left| {
            left.checked_sub(bytes).filter(|left| *left >= kept)
        });
        if whole.is_err() {
            counter.fetch_sub(bytes, Ordering::Relaxed);
        }
        whole
    }

    fn give(&self, bytes: usize) {
        let counter = self.taken.as_ref().unwrap_or(&self.budget.own);
        counter.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Without a bound.
impl Default for Room {
    fn default() -> Self {
        Self::own(Arc::default())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.taken.is_some() {
            self.budget.tenants.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn update(counter: &AtomicUsize, to: impl Fn(usize) -> Option<usize>) -> Result<(), Refused> {
    let updated = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to);
    updated.map(drop).map_err(|_| Refused::Spent)
}

// === impl Share ===

impl Share {
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        self.room.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back what is over; never takes more.
    pub fn shrink_to(&mut self, bytes: usize) {
        let over = self.bytes.saturating_sub(bytes);
        self.bytes -= over;
        self.room.give(over);
    }

    /// Parts with so many bytes, or with all there are.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            room: Arc::clone(&self.room),
            bytes,
        }
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
        self.shrink_to(0);
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
