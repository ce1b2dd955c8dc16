//! What an object set leaves in the cache, and what is read ahead for it.
//!
//! The properties `primarycache`, `prefetch` and `direct` of a dataset end here (format/3c 4, and
//! zfsprops(7) for what they mean). None of them has an effect on disk, and each may change while
//! the object set is in use.

use cenote_ondisk::ObjectType;
use std::sync::atomic::{AtomicU8, Ordering};

/// The blocks that a property speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheScope {
    /// No block.
    None,
    /// Indirect blocks, dnodes, directories, attributes: all but the contents of files and
    /// volumes.
    Metadata,
    /// Every block.
    #[default]
    All,
}

impl CacheScope {
    /// The scope of a stored value of `primarycache` or `prefetch`.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Metadata,
            _ => Self::All,
        }
    }

    /// Whether it has blocks of this kind.
    pub(crate) fn covers(self, is_metadata: bool) -> bool {
        match is_metadata {
            true => self >= Self::Metadata,
            false => self == Self::All,
        }
    }
}

/// Which direct I/O bypasses the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectIo {
    /// Nothing: all are treated alike.
    Disabled,
    /// Data of files that are open with `O_DIRECT` only passes through the cache.
    #[default]
    Standard,
    /// So does all that is read and written in whole pages.
    Always,
}

impl DirectIo {
    /// The meaning of a stored value of `direct`.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Disabled,
            2 => Self::Always,
            _ => Self::Standard,
        }
    }
}

/// How the blocks of one object set are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// Blocks that stay in the cache; others only pass through it.
    pub primary: CacheScope,
    /// Blocks that are read ahead of need.
    pub prefetch: CacheScope,
    /// Which direct I/O only passes through the cache.
    pub direct: DirectIo,
}

/// A [`Caching`] that changes while others look.
#[derive(Debug)]
pub(crate) struct CachingCell(AtomicU8);

impl Default for CachingCell {
    fn default() -> Self {
        let cell = Self(AtomicU8::new(0));
        cell.set(Caching::default());
        cell
    }
}

impl CachingCell {
    pub(crate) fn set(&self, caching: Caching) {
        let packed =
            caching.primary as u8 | (caching.prefetch as u8) << 2 | (caching.direct as u8) << 4;
        self.0.store(packed, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Caching {
        let packed = self.0.load(Ordering::Relaxed);
        let field = |index: u8| u64::from(packed >> (2 * index) & 3);
        Caching {
            primary: CacheScope::from_number(field(0)),
            prefetch: CacheScope::from_number(field(1)),
            direct: DirectIo::from_number(field(2)),
        }
    }
}

/// Whether a block of an object is metadata, spill blocks aside.
pub(crate) fn is_metadata(object_type: ObjectType, level: u8) -> bool {
    level > 0 || object_type.is_metadata()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_survives_its_cell() {
        let cell = CachingCell::default();
        assert_eq!(cell.get(), Caching::default());
        let scopes = [CacheScope::None, CacheScope::Metadata, CacheScope::All];
        for primary in scopes {
            for prefetch in scopes {
                for direct in [DirectIo::Disabled, DirectIo::Standard, DirectIo::Always] {
                    let caching = Caching {
                        primary,
                        prefetch,
                        direct,
                    };
                    cell.set(caching);
                    assert_eq!(cell.get(), caching);
                }
            }
        }
    }

    #[test]
    fn scopes_cover_what_their_names_say() {
        assert!(CacheScope::All.covers(true) && CacheScope::All.covers(false));
        assert!(CacheScope::Metadata.covers(true) && !CacheScope::Metadata.covers(false));
        assert!(!CacheScope::None.covers(true) && !CacheScope::None.covers(false));
        // What a later release stores is cached as usual.
        assert_eq!(CacheScope::from_number(3), CacheScope::All);
    }
}
