//! What a simulated disk has answered and not made durable, and what it does not do for now.

/// What a disk does not do for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Flushes that fail, the next ones.
    pub flushes: u64,
    /// Nothing is answered.
    pub is_away: bool,
    /// A flush that fails loses what is in the cache.
    pub loses: bool,
}

/// A request, as far as trouble is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read,
    Write,
    Flush,
}

impl Trouble {
    /// Whether a request fails.
    pub(crate) fn fails(&mut self, request: Request) -> bool {
        if request == Request::Flush && self.flushes > 0 {
            self.flushes -= 1;
            return true;
        }
        self.is_away
    }
}

/// A write that is in a disk's cache.
#[derive(Debug)]
pub(crate) struct CachedWrite {
    number: u64,
    pub offset: usize,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

/// What a disk has answered and not made durable.
#[derive(Debug, Default)]
pub(crate) struct DiskCache {
    writes: Vec<CachedWrite>,
    number: u64,
    losses: u64,
}

/// The moment before a flush.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheMark {
    number: u64,
    losses: u64,
}

impl DiskCache {
    pub(crate) fn add(&mut self, offset: usize, old: Vec<u8>, new: Vec<u8>) {
        self.number += 1;
        self.writes.push(CachedWrite {
            number: self.number,
            offset,
            old,
            new,
        });
    }

    pub(crate) fn mark(&self) -> CacheMark {
        CacheMark {
            number: self.number,
            losses: self.losses,
        }
    }

    /// A flush is done; `false` if the cache was lost meanwhile.
    pub(crate) fn flushed(&mut self, mark: CacheMark) -> bool {
        self.writes.retain(|write| write.number > mark.number);
        self.losses == mark.losses
    }

    /// All that was in the cache, which is empty now.
    pub(crate) fn lose(&mut self) -> Vec<CachedWrite> {
        self.losses += 1;
        std::mem::take(&mut self.writes)
    }
}
