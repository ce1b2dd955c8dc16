//! Pages of the map that are in memory; the longest unused go first.

use crate::format::checkpoint::PageRef;
use crate::format::{CommitNumber, Extent};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The extents of a page.
pub(crate) type Page = Arc<Vec<Extent>>;

/// What names a page for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    checkpoint: CommitNumber,
    part: u32,
    offset: u64,
}

impl PageKey {
    pub(crate) fn of(page: &PageRef) -> Self {
        Self {
            checkpoint: page.part.checkpoint,
            part: page.part.part,
            offset: page.offset,
        }
    }
}

/// Bytes of an extent in memory.
const EXTENT_BYTES: u64 = std::mem::size_of::<Extent>() as u64;
/// Bytes of a page beside its extents, about.
const PAGE_BYTES: u64 = 200;

/// Pages in memory.
#[derive(Debug)]
pub(super) struct PageCache {
    pages: HashMap<PageKey, (Page, u64)>,
    /// Keys by when they were used last.
    order: BTreeMap<u64, PageKey>,
    uses: u64,
    bytes: u64,
    limit: u64,
}

impl PageCache {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            pages: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            limit,
        }
    }

    pub(super) fn get(&mut self, key: &PageKey) -> Option<Page> {
        let (page, used) = self.pages.get_mut(key)?;
        self.order.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, *key);
        Some(Arc::clone(page))
    }

    /// Bytes of all pages in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn insert(&mut self, key: PageKey, page: Page) {
        if self.get(&key).is_some() {
            return;
        }
        self.uses += 1;
        self.bytes += bytes(&page);
        self.order.insert(self.uses, key);
        self.pages.insert(key, (page, self.uses));
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some((page, _)) = self.pages.remove(&oldest) {
                self.bytes -= bytes(&page);
            }
        }
    }
}

fn bytes(page: &Page) -> u64 {
    page.len() as u64 * EXTENT_BYTES + PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Target;

    #[test]
    fn what_is_used_stays() {
        let key = |offset| PageKey {
            checkpoint: CommitNumber(1),
            part: 0,
            offset,
        };
        let extent = Extent {
            start: 0,
            sectors: 1,
            target: Target::Hole,
        };
        let page: Page = Arc::new(vec![extent; 100]);
        let mut cache = PageCache::new(bytes(&page) * 3);
        for offset in 0..3 {
            cache.insert(key(offset), Arc::clone(&page));
        }
        assert!(cache.get(&key(0)).is_some());
        cache.insert(key(3), Arc::clone(&page));
        let there: Vec<bool> = (0..4).map(|at| cache.get(&key(at)).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.pages.len(), cache.order.len());
    }
}
