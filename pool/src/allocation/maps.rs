//! Reading the space maps of metaslabs, which is done without a lock.
//!
//! A device may take long to answer, and while it does others want to allocate from other
//! metaslabs of the vdev, to free, or to know how much is free. So a map is read from the meta
//! object set of the last synced txg without the vdev's lock, and taken over under it if it is
//! still the newest.

use super::metaslab::Metaslab;
use super::top::{Known, MapRead, MapToRead};
use super::{SharedTop, Space, TopSpace};
use crate::space;
use cenote_base::rt::MutexGuard;
use cenote_dmu::{DmuError, ObjectSet};
use cenote_ondisk::space_map::SpaceMapEntry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a map is read that is replaced again and again meanwhile. Each time a whole txg was
/// synced while it was read.
const READS_MAX: u32 = 64;

/// Where maps are read from.
#[derive(Debug)]
pub(super) struct MapSource {
    /// The meta object set of the last synced txg; `None` before a new pool's first.
    committed: Option<Arc<ObjectSet>>,
    /// How many txgs were synced before.
    moment: u64,
}

impl Space {
    /// Where maps are read from now. Asked for under the lock of the vdev whose map it is.
    pub(super) fn map_source(&self) -> MapSource {
        MapSource {
            committed: self.committed.read().clone(),
            moment: self.repairs.moment.load(Ordering::Acquire),
        }
    }

    /// Reads a map. To be called without any lock.
    pub(super) fn read_map(&self, map: &MapToRead, source: MapSource) -> MapRead {
        let mut read = Ok(());
        let free = Metaslab::free_by_map(map.range.clone(), |each| {
            let give = |entry: SpaceMapEntry| {
                let end = entry.offset.saturating_add(entry.length);
                each(entry.action, entry.offset..end);
            };
            read = entries(&source, map, give);
        });
        match (read, free) {
            (Ok(()), Ok(free)) => MapRead::Free(free),
            // What another txg gave up may have been written over.
            _ if self.repairs.moment.load(Ordering::Acquire) != source.moment => MapRead::Outdated,
            _ => MapRead::Damaged,
        }
    }

    /// The vdev with the free ranges of a metaslab worked out; `None` if there is no such metaslab
    /// or it is damaged.
    pub fn lock_loaded<'a>(
        &self,
        shared: &'a SharedTop,
        index: usize,
    ) -> Option<MutexGuard<'a, TopSpace>> {
        let mut top = shared.lock();
        if index >= top.metaslabs.len() {
            return None;
        }
        let mut known = top.known(index);
        for _ in 0..READS_MAX {
            match known {
                Known::Free => return Some(top),
                Known::Damaged => return None,
                Known::After(map) => {
                    let source = self.map_source();
                    drop(top);
                    let read = self.read_map(&map, source);
                    top = shared.lock();
                    known = top.take_read(&map, read);
                }
            }
        }
        None
    }
}

/// Calls `each` for the entries of a map, in order.
fn entries(
    source: &MapSource,
    map: &MapToRead,
    mut each: impl FnMut(SpaceMapEntry),
) -> Result<(), DmuError> {
    let Some(mos) = &source.committed else {
        return Ok(());
    };
    let object = mos.object(map.base)?;
    let read = space::for_each_entry(&object, map.range.start, map.ashift, &mut each);
    read.map(|_| ())
}
